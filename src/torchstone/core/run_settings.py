"""The settings and the environment of a run, as records, and the values they may have: a run file may come from anywhere.

Keys of another version, or of another tool, are kept in ``rest`` and written back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.vocabulary import COUNTERS, SCENARIOS

JsonObject = dict[str, Any]
"""An object of JSON whose keys are not ours to name."""

STARTS = ("auto", "fork", "spawn")
CACHES = ("cold", "warm")
STRATEGIES = ("none", "ddp", "fsdp")


def _one_of(*words: str) -> Meta:
    return Meta(pattern=f"^({'|'.join(words)})$")


_ONE_OF = r"Expected `str` matching regex '\^\((.*)\)\$'"


Count = Annotated[int, Meta(ge=1, le=10**18)]
Few = Annotated[int, Meta(ge=1, le=65_536)]
"""A number of processes or threads."""
Amount = Annotated[float, Meta(gt=0, le=1e18)]
Share = Annotated[float, Meta(gt=0, lt=1)]
Start = Annotated[str, _one_of(*STARTS)]
Cache = Annotated[str, _one_of(*CACHES)]
Size = Annotated[str, _one_of("full", "small")]
Scenario = Annotated[str, _one_of(*SCENARIOS)]
Strategy = Annotated[str, _one_of(*STRATEGIES)]
Counter = Annotated[str, _one_of("", *COUNTERS)]


class Settings(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a run was asked for. ``rest`` holds keys that are not known: of a later version, or the head of another tool's file. ``sources`` says, by suite, where its benchmarks come from; ``folder`` is where paths start.

    ``imported`` are the user's own modules that the sources and ``imports`` import, each with the SHA-256 of its content.
    ``ranks`` to ``rank_threads`` are those of the scaling probe, ``rank_threads`` filled in by the machine where nobody says it.
    ``layout`` is what rounds were planned for: how many hosts, and ranks on each. ``self_measured`` names counted work, as ``suite::name``, that measures itself.
    ``broken`` are files that were asked for and could not be imported: where, and why.
    ``shard`` is the part of the plan that was measured, as ``2/8``. ``pairing`` is what 'torchstone ab' notes: which side this was, what makes it that side, and how the two were compared.
    """

    sources: dict[str, BenchmarkSource] = {}
    folder: str = ""
    imports: tuple[str, ...] = ()
    imported: dict[str, str] = {}
    start: Start = "auto"
    cache: Cache = "cold"
    threads: Few | None = None
    compile_threads: Few | None = None
    jobs: Few | None = None
    timeout: Amount = 1800.0
    memory_limit: Count | None = None
    repeat: Count | None = None
    trials: Count | None = None
    precision: Share | None = None
    budget: Amount | None = None
    size: Size = "full"
    compile_mode: str | None = None
    fullgraph: bool = False
    options: JsonObject = {}
    save_outputs: str = ""
    compare_outputs: str = ""
    batch_invariant: bool = False
    scenarios: tuple[Scenario, ...] = ()
    save_artifacts: str = ""
    load_artifacts: str = ""
    counter: Counter = ""
    profile: bool = False
    pairing: JsonObject = {}
    ranks: tuple[Few, ...] = ()
    strategies: tuple[Strategy, ...] = ()
    buckets: tuple[Amount, ...] = ()
    collective: str = ""
    collective_timeout: Amount | None = None
    warm_up: Count | None = None
    rank_threads: Few | None = None
    layout: tuple[Few, Few] | None = None
    self_measured: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    shard: str = ""
    rest: JsonObject = {}

    def to_mapping(self) -> dict[str, object]:
        """Return the settings as a run file has them: defaults are left out."""
        found = _to_mapping(self)
        if self.sources:
            found["sources"] = {suite: source.to_mapping() for suite, source in self.sources.items()}
        return found


class Environment(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The machine and the software that a run was measured with. ``variables`` and ``accelerators`` are None where nobody looked.

    ``machine``, ``software`` and each accelerator are facts as they were found; they differ from system to system.
    """

    machine: JsonObject = {}
    device: str | None = None
    accelerators: tuple[JsonObject, ...] | None = None
    software: JsonObject = {}
    versions: JsonObject = {}
    variables: JsonObject | None = None
    threads: Few | None = None
    fingerprint: str = ""
    rest: JsonObject = {}

    @property
    def is_stated(self) -> bool:
        """Whether anything is known of it."""
        return self != NO_ENVIRONMENT

    def to_mapping(self) -> dict[str, object]:
        """Return the environment as a run file has it."""
        return _to_mapping(self)


NO_ENVIRONMENT = Environment()


def settings_from(settings: Mapping[str, object]) -> Settings:
    """Settings as a run file has them; a value that cannot be meant is a ValidationError.

    A file without sources was not measured by torchstone: its settings are another tool's.
    """
    return _from_mapping(settings, Settings) if settings.get("sources") else Settings(rest=dict(settings))


def environment_from(environment: Mapping[str, object]) -> Environment:
    """An environment as a run file or a worker has it; a fact of another shape than it must have is a ValidationError."""
    return _from_mapping(environment, Environment)


def fault_of_record(settings: Settings) -> tuple[str, str]:
    """The first setting from a command line that cannot be meant, and what was expected; both empty if there is none."""
    try:
        convert(to_builtins(settings), Settings)
    except ValidationError as error:
        return fault_of(error)
    return "", ""


def fault_of(error: ValidationError) -> tuple[str, str]:
    """The field that a value does not fit, and what was expected."""
    problem, _, field = describe_fault(error).rpartition(" - at `$")
    return (field.rstrip("`").lstrip("."), problem[0].lower() + problem[1:]) if problem else ("", str(error))


def describe_fault(error: ValidationError) -> str:
    """What a validation error says, with the words that a setting may be instead of the pattern of these."""
    return re.sub(_ONE_OF, _list_words, str(error))


def _list_words(found: re.Match[str]) -> str:
    *others, last = filter(None, found[1].split("|"))
    return f"Expected {', '.join(others)} or {last}"


_Record = TypeVar("_Record", Settings, Environment)


def _from_mapping(values: Mapping[str, object], kind: type[_Record]) -> _Record:
    fields = [name for name in kind.__struct_fields__ if name != "rest"]
    known = {name: values[name] for name in fields if name in values}
    rest = {name: value for name, value in values.items() if name not in known}
    return convert({**known, "rest": rest}, kind)


def _to_mapping(record: Settings | Environment) -> dict[str, object]:
    known: JsonObject = to_builtins(record)
    rest: dict[str, object] = known.pop("rest", {})
    return {name: list(value) if type(value) is tuple else value for name, value in known.items()} | rest
