"""What is shown of where the time of a case went: two calls side by side, hints, and remarks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from torchstone.analyze.call_time.time_comparison import (
    KernelChange,
    PlaceTime,
    TimeComparison,
    TimePair,
    compare_times,
)
from torchstone.analyze.call_time.time_hints import CaseFacts, Hint, find_hints
from torchstone.core.details.time_profile import SideTime, TimeProfile
from torchstone.core.records import Case, Outcome
from torchstone.core.text.units import count_of, format_change
from torchstone.reporting.views.explaining.hint_text import describe_hint

EAGER, COMPILED = "eager", "compiled"
CPU = "cpu"
NO_LINE = "(no line)"
"""What stands for the line of work that no line of the model launches, such as guards and wrappers of compiled code."""
NEGLIGIBLE = 0.001  # of the longer call: kernels and lines with less are not listed


class ShownHint(Struct, frozen=True):
    """A hint, its sentence, and whether it held before as well."""

    hint: Hint
    text: str
    held_before: bool = False


class TimeExplanation(Struct, frozen=True):
    """Two calls of a case. ``names`` are those of the sides, ``files`` the run files, ``sides`` the profiles to draw.

    ``differences`` are those of the environments, ``notes`` what else may be the cause, or limits what can be said.
    """

    case: Case
    label: str
    names: tuple[str, str]
    files: tuple[str, ...]
    device: str
    sides: tuple[SideTime, SideTime]
    comparison: TimeComparison
    hints: tuple[ShownHint, ...] = ()
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def on_cpu(self) -> bool:
        """Whether operators of a CPU take the place of kernels."""
        return self.device == CPU

    @property
    def is_alone(self) -> bool:
        """Whether there is only one side: nothing was compiled."""
        return self.names[0] == self.names[1]

    @property
    def what(self) -> str:
        """What is added up: the device's time, or that of operators."""
        return "time in operators" if self.on_cpu else "device time"

    @property
    def headline(self) -> str:
        """One sentence with both totals."""
        busy, where = self.comparison.busy, "" if self.on_cpu else f" on {self.device}"
        if self.is_alone:
            return f"{self.label}: {milliseconds(busy.new)} of {self.what} a call{where}."
        before, after = self.names
        change = f"{signed_milliseconds(busy.change)}"
        share = f" ({format_change(busy.new, busy.base)})" if busy.base else ""
        return (
            f"{self.label}: {self.what} a call{where}: {before} {milliseconds(busy.base)}, {after} "
            f"{milliseconds(busy.new)}: {change}{share}."
        )

    @property
    def kernels(self) -> tuple[KernelChange, ...]:
        """The kernels that matter."""
        return tuple(each for each in self.comparison.kernels if self._matters(each))

    @property
    def places(self) -> tuple[PlaceTime, ...]:
        """The modules and lines that matter."""
        return tuple(each for each in self.comparison.places if self._matters(each))

    def _matters(self, each: TimePair) -> bool:
        return each.size >= NEGLIGIBLE * self.comparison.busy.size


def explain_sides(outcome: Outcome, profile: TimeProfile, label: str, path: str) -> TimeExplanation:
    """Explain eager against compiled of one outcome; only eager, if nothing was compiled."""
    eager, compiled = profile.eager, profile.compiled
    base, new = eager or compiled, compiled or eager
    if base is None or new is None:
        raise ValueError("a profile without sides")
    names = (EAGER if eager else COMPILED, COMPILED if compiled else EAGER)
    shown = tuple(ShownHint(hint, describe_hint(hint)) for hint in find_hints(profile, facts_of(outcome)))
    return TimeExplanation(
        outcome.case,
        label,
        names,
        (path,),
        _device_of(profile),
        (base, new),
        compare_times(base, new),
        shown,
        notes=tuple(_limits(base, new, profile.device)),
    )


def explain_runs(
    outcomes: tuple[Outcome, Outcome],
    profiles: tuple[TimeProfile, TimeProfile],
    label: str,
    files: tuple[str, str],
    differences: Sequence[str],
) -> TimeExplanation:
    """Explain the compiled call of two run files; the eager one, if nothing was compiled."""
    compiled = all(profile.compiled for profile in profiles)
    base, new = ((profile.compiled if compiled else profile.eager) for profile in profiles)
    if base is None or new is None:
        raise ValueError("two profiles without a common side")
    before, after = (
        find_hints(profile, facts_of(outcome)) for profile, outcome in zip(profiles, outcomes, strict=True)
    )
    known = {hint.kind for hint in before}
    shown = tuple(ShownHint(hint, describe_hint(hint), hint.kind in known) for hint in after)
    side = COMPILED if compiled else EAGER
    notes = [f"Both sides are {side} calls.", *_limits(base, new, profiles[1].device)]
    notes += _differing_versions(profiles)
    return TimeExplanation(
        outcomes[1].case,
        label,
        ("base", "new"),
        files,
        _device_of(profiles[1]),
        (base, new),
        compare_times(base, new),
        shown,
        tuple(differences),
        tuple(notes),
    )


def facts_of(outcome: Outcome) -> CaseFacts:
    """Return what else is known of a case that a hint needs."""
    values = {each.metric: each.value for each in outcome.measurements if isinstance(each.value, int | float)}
    capture = outcome.capture
    breaks, reasons = (capture.graph_breaks, capture.recompile_reasons) if capture else ((), ())
    return CaseFacts(
        {name: float(value) for name, value in values.items()},
        (values.get("eager_latency"), values.get("abs_latency")),
        breaks[0].place if breaks else "",
        " ".join(reasons[0].split())[:200] if reasons else "",
    )


def _device_of(profile: TimeProfile) -> str:
    return profile.device_name or profile.device


def _limits(base: SideTime, new: SideTime, device: str) -> list[str]:
    """Return what limits the explanation."""
    folded = max(base.folded, new.folded)
    found = []
    if folded:
        was = "was" if folded == 1 else "were"
        found.append(f"{count_of(folded, 'small row')} {was} recorded only by family, not by name.")
    if device == CPU:
        found.append("Operators are timed under torch's profiler, which costs each a microsecond or two.")
    return found


def _differing_versions(profiles: tuple[TimeProfile, TimeProfile]) -> list[str]:
    base, new = profiles
    found = []
    if base.torch != new.torch:
        found.append(f"torch {base.torch} against {new.torch}: kernels may have other names.")
    if base.device_name != new.device_name:
        found.append(
            f"{_device_of(base)} against {_device_of(new)}: times and kernels of different devices differ for that reason."
        )
    if base.model_dtype != new.model_dtype:
        found.append(f"The model is {base.model_dtype} in base, {new.model_dtype} in new.")
    if base.tf32 != new.tf32 and None not in {base.tf32, new.tf32}:
        found.append(f"TF32 is {'on' if new.tf32 else 'off'} in new, {'on' if base.tf32 else 'off'} in base.")
    if base.cuda_graphs != new.cuda_graphs:
        found.append(f"CUDA graphs are used in {'new' if new.cuda_graphs else 'base'} only.")
    return found


def milliseconds(value: float) -> str:
    """Format milliseconds with their unit."""
    return f"{decimal(value)} ms"


def decimal(value: float) -> str:
    """Format milliseconds to a microsecond at most, in three or four digits.

    >>> decimal(12.3456), decimal(0.01234), decimal(0)
    ('12.35', '0.012', '0')
    """
    if value == 0:
        return "0"
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"


def signed_milliseconds(value: float) -> str:
    """Format a change of milliseconds."""
    return f"{'+' if value > 0 else ''}{decimal(value)} ms"


def signed_decimal(value: float) -> str:
    """Format a change without its unit."""
    return f"{'+' if value > 0 else ''}{decimal(value)}"
