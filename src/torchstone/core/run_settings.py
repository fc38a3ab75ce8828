"""The settings of a run as its file keeps them, and what they may be: a run file may come from anywhere."""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from torchstone.core.records import Case
from torchstone.core.vocabulary import COUNTERS, SCENARIOS, Probe

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
    """What a run was asked for. ``sources`` says, by suite, where its benchmarks come from; ``folder`` is where paths start.

    ``imported`` are the user's own modules that the sources and ``imports`` import, each with the SHA-256 of its content.
    ``ranks`` to ``rank_threads`` are those of the scaling probe, ``rank_threads`` filled in by the machine where nobody says it.
    ``layout`` is what rounds were planned for: how many hosts, and ranks on each. ``self_measured`` names counted work, as ``suite::name``, that measures itself.
    ``broken`` are files that were asked for and could not be imported: where, and why.
    ``pairing`` is what 'torchstone ab' notes: which side this was, what makes it that side, and how the two were compared.
    """

    sources: dict[str, dict[str, str]] = {}
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
    options: dict[str, Any] = {}
    save_outputs: str = ""
    compare_outputs: str = ""
    batch_invariant: bool = False
    scenarios: tuple[Scenario, ...] = ()
    save_artifacts: str = ""
    load_artifacts: str = ""
    counter: Counter = ""
    profile: bool = False
    pairing: dict[str, Any] = {}
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

    def leaves_measuring_to(self, case: Case) -> bool:
        """Whether a case is counted work that measures itself."""
        return case.probe == Probe.INSTRUCTIONS and f"{case.suite}::{case.benchmark}" in self.self_measured


class _Environment(Struct):
    """The shape of what is looked up in an environment; whatever else one says is only shown."""

    versions: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    machine: dict[str, Any] = {}
    software: dict[str, Any] = {}
    accelerators: list[dict[str, Any]] | None = None
    device: str | None = None
    threads: Few | None = None


def fault_of_settings(settings: dict[str, Any]) -> tuple[str, str]:
    """The first setting that cannot be meant, and what was expected; both empty if there is none.

    Keys that are not known may be those of a later version. A file without sources was not measured by torchstone: its settings are another tool's.
    """
    if not settings.get("sources"):
        return "", ""
    known = {name: settings[name] for name in Settings.__struct_fields__ if name in settings}
    return _fault(known, Settings)


def fault_of_environment(environment: dict[str, Any]) -> tuple[str, str]:
    """The first fact of an environment that has another shape than it must, and what was expected; both empty if there is none."""
    return _fault(environment, _Environment)


def fault_of_record(settings: Settings) -> tuple[str, str]:
    """The same for settings that were made here, from a command line."""
    return _fault(to_builtins(settings), Settings)


def _fault(values: object, kind: type[Struct]) -> tuple[str, str]:
    try:
        convert(values, kind)
    except ValidationError as error:
        problem, _, field = describe_fault(error).rpartition(" - at `$")
        return (
            (field.rstrip("`").lstrip("."), problem[0].lower() + problem[1:]) if problem else ("", str(error))
        )
    return "", ""


def describe_fault(error: ValidationError) -> str:
    """What a validation error says, with the words that a setting may be instead of the pattern of these."""
    return re.sub(_ONE_OF, _list_words, str(error))


def _list_words(found: re.Match[str]) -> str:
    *others, last = filter(None, found[1].split("|"))
    return f"Expected {', '.join(others)} or {last}"
