"""Details of an outcome: how long its case took, what it printed, and what a probe found beside its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, structs, to_builtins

from torchstone.core.details.compile_cache_details import CacheDetails
from torchstone.core.details.device_state import DeviceState
from torchstone.core.details.known_fields import redact_details, take_known
from torchstone.core.details.round_details import RoundDetails
from torchstone.core.details.time_profile import TimeProfile
from torchstone.core.text.redaction import redact_values

_Seconds = Annotated[float, Meta(ge=0, le=1e300)]


class AccuracyDetails(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """How outputs were compared: the tolerance, whether by cosine similarity and why, and the reference's dtype or ``none``.

    ``rebuilt`` says why the model was built anew for each run rather than copied.
    """

    tolerance: float | None = None
    cosine: bool | None = None
    rebuilt: str = ""
    reference: str = ""
    why_cosine: str = ""


class TorchSettingsDetails(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Settings of torch that a case was measured under; None if the device does not have them, or torch does not say.

    ``tf32``: float32 matrix products may use TF32; ``half_reductions``: mathematical attention may add up in half
    precision; ``cuda_graphs``: the compiled side uses CUDA graphs; ``labels``: a model got labels in inference.
    ``attention`` is the implementation that the model states, and the kernels that torch may choose for it.
    """

    tf32: bool | None = None
    half_reductions: bool | None = None
    cuda_graphs: bool | None = None
    labels: bool | None = None
    attention: str = ""

    def describe(self) -> str:
        """Return the settings in words; empty if none is known.

        >>> TorchSettingsDetails(tf32=True, cuda_graphs=False, labels=False, attention="sdpa (math)").describe()
        'TF32 allowed, CUDA graphs off, attention sdpa (math)'
        """
        words = [
            f"{name} {on if value else off}"
            for name, value, on, off in (
                ("TF32", self.tf32, "allowed", "not allowed"),
                ("half-precision reductions", self.half_reductions, "allowed", "not allowed"),
                ("CUDA graphs", self.cuda_graphs, "on", "off"),
            )
            if value is not None
        ]
        words += ["labels in inference"] if self.labels else []
        return ", ".join([*words, *([f"attention {self.attention}"] if self.attention else [])])


class OutcomeDetails(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Details of an outcome besides its measurements; unknown fields have their defaults.

    ``duration`` is in seconds, ``phases`` has the seconds of each phase, ``left_out`` says for each metric that is absent on purpose why it is. ``category`` and
    ``description`` are those of counted work. ``profile`` is the breakdown of an instruction count, which ``analyze.profiles`` reads; ``time_profile`` says where the
    time of a call went. ``log`` is the end of what a case that passed printed; the log of one that failed belongs to its failure. ``device`` is the accelerator that
    the case was measured on, such as ``cuda:1``. ``device_state`` is its state while the case was timed.
    """

    duration: _Seconds | None = None
    phases: dict[str, _Seconds] | None = None
    left_out: dict[str, str] | None = None
    accuracy: AccuracyDetails | None = None
    category: str = ""
    description: str = ""
    profile: dict[str, Any] | None = None
    log: str = ""
    compile_cache: CacheDetails | None = None
    scaling: RoundDetails | None = None
    torch: TorchSettingsDetails | None = None
    device: str = ""
    time_profile: TimeProfile | None = None
    device_state: DeviceState | None = None


NO_OUTCOME_DETAILS = OutcomeDetails()


def take_outcome_details(
    stated: Mapping[str, object],
) -> tuple[OutcomeDetails | None, dict[str, Any] | None]:
    """Return the details that are stated by name in one object, as format 1 states those of every probe, and the rest."""
    compile_cache, rest = take_known(stated, CacheDetails)
    scaling, rest = take_known(rest or {}, RoundDetails)
    details, rest = take_known(rest or {}, OutcomeDetails)
    if compile_cache or scaling:
        known = details or NO_OUTCOME_DETAILS
        details = structs.replace(
            known, compile_cache=compile_cache or known.compile_cache, scaling=scaling or known.scaling
        )
    return details, rest


def redact_outcome_details(details: OutcomeDetails | None) -> OutcomeDetails | None:
    """Return the same details without the credentials of URLs."""
    if details is None:
        return None
    plain = redact_details(structs.replace(details, profile=None) if details.profile else details)
    return (
        structs.replace(plain, profile=redact_values(details.profile)) if plain and details.profile else plain
    )


def outcome_facts(details: OutcomeDetails | None, extra: Mapping[str, object] | None) -> dict[str, object]:
    """Return what is stated of an outcome, by name: the details, those of its probe among them, then the rest; its time profile is a record, and no fact."""
    if details is None:
        return dict(extra or {})
    facts: dict[str, Any] = to_builtins(structs.replace(details, profile=None, time_profile=None))
    of_probe = {**facts.pop("compile_cache", {}), **facts.pop("scaling", {})}
    profile = {"profile": details.profile} if details.profile is not None else {}
    return {**facts, **of_probe, **profile, **(extra or {})}
