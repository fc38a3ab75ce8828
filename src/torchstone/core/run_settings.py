"""Records of the settings and the environment of a run, with their valid values: a run file may come from anywhere.

Keys of other versions and other tools are kept in ``rest``, and written back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.vocabulary import COUNTERS, SCENARIOS

JsonObject = dict[str, Any]
"""An object of JSON whose keys are not ours to name."""

Count = Annotated[int, Meta(ge=1, le=10**18)]
Few = Annotated[int, Meta(ge=1, le=65_536)]
"""A number of processes or threads."""
Amount = Annotated[float, Meta(gt=0, le=1e18)]
Share = Annotated[float, Meta(gt=0, lt=1)]

STARTS = ("auto", "fork", "spawn")
CACHES = ("cold", "warm")
STRATEGIES = ("none", "ddp", "fsdp")
BATCH_SETS = ("own", "dashboard")
_WORDS: dict[str, tuple[str, ...]] = {
    "start": STARTS,
    "cache": CACHES,
    "size": ("full", "small"),
    "scenarios": tuple(SCENARIOS),
    "strategies": STRATEGIES,
    "counter": ("", *COUNTERS),
    "batch_set": ("", *BATCH_SETS),
}
"""Settings with a fixed list of words."""
_DIRECTIONS = ("", "lower", "higher", "equal")


class Pairing(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What 'torchstone ab' records in the run file of a side: which side it is, what makes it that side, and how the two were compared.

    ``session`` is the same in the files of both sides. ``metric`` was judged by ``margin``, ``alpha`` and ``better``; files of earlier
    versions lack ``better``. ``benchmarks`` says where the benchmark files came from that are not this side's own. ``rest`` holds keys
    of a later version.
    """

    side: str = ""
    spec: tuple[str, ...] = ()
    session: str = ""
    seed: int | None = None
    metric: str = ""
    margin: Share | None = None
    alpha: Share | None = None
    better: str = ""
    command: str = ""
    benchmarks: dict[str, str] = {}
    rest: JsonObject = {}


class Settings(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Settings of a run.

    ``sources`` are the sources of the benchmarks, by suite; relative paths start at ``folder``. ``imported`` are the
    user's own modules that the sources and ``imports`` import, each with the SHA-256 of its content. ``ranks`` to
    ``rank_threads`` belong to the scaling probe; ``rank_threads`` depends on the machine unless it is set. ``layout``
    is the number of hosts and of ranks per host that rounds were planned for. ``self_measured`` names counted work
    that measures itself, as ``suite::name``. ``broken`` are requested files that could not be imported, with place
    and reason. ``shard`` is the measured part of the plan, such as ``2/8``. ``looks`` is how often the
    results may be judged while they are measured. ``pairing`` is set by 'torchstone ab': the
    side, its definition, and how the two sides were compared. ``preset`` names the set of options that was used, and
    ``overrides`` the options given beside it that replaced its own; ``tf32`` to ``batch_set`` are None or empty where
    torch and the benchmarks decide. ``pairs`` is how many pairs the preset has timed; ``repeat`` goes before it.
    ``all_devices`` spreads the cases over all devices of the accelerator. ``rest`` holds unknown keys: those of a
    later version, or of another tool's file.
    """

    sources: dict[str, BenchmarkSource] = {}
    folder: str = ""
    imports: tuple[str, ...] = ()
    imported: dict[str, str] = {}
    start: str = "auto"
    cache: str = "cold"
    threads: Few | None = None
    compile_threads: Few | None = None
    jobs: Few | None = None
    timeout: Amount = 1800.0
    memory_limit: Count | None = None
    repeat: Count | None = None
    trials: Count | None = None
    precision: Share | None = None
    budget: Amount | None = None
    size: str = "full"
    compile_mode: str | None = None
    fullgraph: bool = False
    options: JsonObject = {}
    save_outputs: str = ""
    compare_outputs: str = ""
    batch_invariant: bool = False
    scenarios: tuple[str, ...] = ()
    save_artifacts: str = ""
    load_artifacts: str = ""
    counter: str = ""
    profile: bool = False
    pairing: Pairing | None = None
    ranks: tuple[Few, ...] = ()
    strategies: tuple[str, ...] = ()
    buckets: tuple[Amount, ...] = ()
    collective: str = ""
    collective_timeout: Amount | None = None
    warm_up: Count | None = None
    rank_threads: Few | None = None
    layout: tuple[Few, Few] | None = None
    self_measured: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    shard: str = ""
    looks: Few | None = None
    preset: str = ""
    overrides: tuple[str, ...] = ()
    tf32: bool | None = None
    half_reductions: bool | None = None
    cuda_graphs: bool | None = None
    labels: bool | None = None
    batch_set: str = ""
    pairs: Count | None = None
    all_devices: bool = False
    rest: JsonObject = {}

    def to_mapping(self) -> dict[str, object]:
        """Return the settings as a run file has them: defaults are left out."""
        found = _to_mapping(self)
        if self.pairing:
            found["pairing"] = _to_mapping(self.pairing)
        return found


class Environment(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The machine and the software of a run. ``variables`` and ``accelerators`` are None if they were not recorded.

    The keys of ``machine``, ``software`` and each accelerator differ from system to system. ``chosen`` has the
    preset and the settings of torch that the run chose, in words; empty if it left all to torch.
    """

    machine: JsonObject = {}
    device: str | None = None
    accelerators: tuple[JsonObject, ...] | None = None
    software: JsonObject = {}
    versions: JsonObject = {}
    variables: JsonObject | None = None
    threads: Few | None = None
    chosen: dict[str, str] = {}
    fingerprint: str = ""
    rest: JsonObject = {}

    @property
    def is_stated(self) -> bool:
        """Return whether anything is recorded."""
        return self != NO_ENVIRONMENT

    def to_mapping(self) -> dict[str, object]:
        """Return the environment as a run file has it."""
        return _to_mapping(self)


NO_ENVIRONMENT = Environment()


GRAPHICS = "cuda"
"""The kind of device that TF32, half-precision reductions and CUDA graphs exist for; torch calls ROCm by this name, too."""

_ON_GRAPHICS = {
    "tf32": ("TF32", "allowed", "not allowed"),
    "half_reductions": ("half-precision reductions in attention", "allowed", "not allowed"),
    "cuda_graphs": ("CUDA graphs", "on", "off"),
}
"""Settings of torch for such a device: a name for people, and its values."""


def describe_choices(settings: Settings, device: str) -> dict[str, str]:
    """Return the preset and the chosen settings of torch that apply to a device, in words; what was left to torch is left out.

    >>> describe_choices(Settings(preset="dashboard", tf32=True, labels=True), "cpu")
    {'preset': 'dashboard', 'labels in inference': 'given'}
    """
    found = {"preset": settings.preset} if settings.preset else {}
    if settings.labels:
        found["labels in inference"] = "given"
    if device.partition(":")[0] == GRAPHICS:
        for field, (name, on, off) in _ON_GRAPHICS.items():
            if (chosen := getattr(settings, field)) is not None:
                found[name] = on if chosen else off
    return found


def find_unused_choices(settings: Settings, device: str) -> list[str]:
    """Return the names of the chosen settings of torch that do not apply to a device."""
    if device.partition(":")[0] == GRAPHICS:
        return []
    return [name for field, (name, _, _) in _ON_GRAPHICS.items() if getattr(settings, field) is not None]


def name_choices(settings: Settings) -> str:
    """Return a folder name for the chosen settings of torch; empty if all are left to torch.

    Compiled code is kept apart by them, because torch's own caches do not tell it apart.
    """
    chosen = {field: getattr(settings, field) for field in _ON_GRAPHICS}
    return "-".join(
        f"{field.replace('_', '-')}-{'on' if value else 'off'}"
        for field, value in chosen.items()
        if value is not None
    )


def settings_from(settings: Mapping[str, object]) -> Settings:
    """Convert the settings of a run file; raise a ValidationError for an invalid value.

    A file without sources was not measured by torchstone: its settings are another tool's.
    """
    if not settings.get("sources"):
        return Settings(rest=dict(settings))
    found = _set_apart(settings, Settings)
    if isinstance(stated := found.get("pairing"), dict):
        found["pairing"] = _set_apart(stated, Pairing) if stated else None
    return _with_known_words(convert(found, Settings))


def _with_known_words(settings: Settings) -> Settings:
    """Return the same settings; raise a ValidationError for a word that is not in its list."""
    for field, words in _WORDS.items():
        value = getattr(settings, field)
        for place, word in enumerate(value) if isinstance(value, tuple) else ((None, value),):
            if word not in words:
                raise _unexpected(field if place is None else f"{field}[{place}]", words)
    if settings.pairing and settings.pairing.better not in _DIRECTIONS:
        raise _unexpected("pairing.better", _DIRECTIONS)
    return settings


def _unexpected(field: str, words: tuple[str, ...]) -> ValidationError:
    *others, last = filter(None, words)
    return ValidationError(f"Expected {', '.join(others)} or {last} - at `$.{field}`")


def environment_from(environment: Mapping[str, object]) -> Environment:
    """Convert the environment that a run file or a worker states; raise a ValidationError for an invalid value."""
    return convert(_set_apart(environment, Environment), Environment)


def fault_of_record(settings: Settings) -> tuple[str, str]:
    """Return the first invalid setting of a command line, and the expected value; both empty if all are valid."""
    try:
        _with_known_words(convert(to_builtins(settings), Settings))
    except ValidationError as error:
        return fault_of(error)
    return "", ""


def fault_of(error: ValidationError) -> tuple[str, str]:
    """Return the invalid field, and the expected value."""
    problem, _, field = str(error).rpartition(" - at `$")
    return (field.rstrip("`").lstrip("."), problem[0].lower() + problem[1:]) if problem else ("", str(error))


def _set_apart(values: Mapping[str, object], kind: type[Settings | Environment | Pairing]) -> JsonObject:
    """Return the values of a record, with the keys that it has no field for in ``rest``."""
    fields = [name for name in kind.__struct_fields__ if name != "rest"]
    known = {name: values[name] for name in fields if name in values}
    rest = {name: value for name, value in values.items() if name not in known}
    return {**known, "rest": rest}


def _to_mapping(record: Settings | Environment | Pairing) -> dict[str, object]:
    known: JsonObject = to_builtins(record)
    rest: dict[str, object] = known.pop("rest", {})
    return {name: list(value) if type(value) is tuple else value for name, value in known.items()} | rest
