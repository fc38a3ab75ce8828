"""Jobs: what the parent asks one worker to do, and the orders that it sends while the worker is at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.worker.protocol.codec import Count, Json, MalformedError, from_json, to_json


@dataclass(frozen=True)
class CompileTrial:
    """Options of ``torch.compile`` that a survey tries for each of these backends."""

    backends: tuple[str, ...]
    mode: str | None = None
    options: dict[str, Json] | None = None


@dataclass(frozen=True)
class SurveyJob:
    """Find out what the sources define, and which devices, backends and environment there are."""

    sources: tuple[BenchmarkSource, ...] = ()
    imports: tuple[str, ...] = ()
    folder: str = "."
    devices: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    threads: int | None = None
    scaling: bool = False
    compile: CompileTrial | None = None
    torch: bool = True
    temporary: str = ""


@dataclass(frozen=True)
class PrimeJob:
    """Fill the template of the compiler's cache."""

    template: str
    temporary: str = ""


@dataclass(frozen=True)
class CaseAxes:
    """The axes of a case, and what ``torch.compile`` is told beyond them."""

    device: str
    backend: str
    mode: str
    dtype: str
    dynamic: bool | None = None
    batch_size: int | None = None
    size: str = "full"
    compile_mode: str | None = None
    fullgraph: bool = False
    options: dict[str, Json] | None = None


@dataclass(frozen=True)
class MeasureOptions:
    """How a case is measured. None leaves it to the probe; an empty path means that nothing is written or read."""

    threads: int | None = None
    compile_threads: int | None = None
    repeat: int | None = None
    precision: float | None = None
    budget: float | None = None
    save_outputs: str = ""
    compare_outputs: str = ""
    batch_invariant: bool = False


@dataclass(frozen=True)
class CountPlan:
    """How to count: ``folder`` is for valgrind's files, ``iterations`` overrides the default."""

    counter: str
    iterations: int | None = None
    profile: bool = False
    folder: str = ""


@dataclass(frozen=True)
class Scenario:
    """One scenario of the compile_cache probe; a path is empty if there is nothing to read or write.

    ``launched`` is when the parent requested the worker, by the monotonic clock. ``load`` and ``save`` are
    artifacts, ``expected`` and ``keep`` first results. ``made_here`` is the folder that records the artifacts
    made on this machine: saved ones are added, and no others are loaded.
    """

    launched: float
    load: str = ""
    save: str = ""
    expected: str = ""
    keep: str = ""
    precompile: bool = False
    made_here: str = ""


@dataclass(frozen=True)
class RoundPlan:
    """How to train a round: ranks, strategy, collectives, and optionally the number of timed iterations."""

    strategy: str
    ranks: int
    collective: str = ""
    bucket_mb: float | None = None
    timeout: float = 120.0
    warm_up: int = 5
    iterations: int | None = None


@dataclass(frozen=True)
class RoundPart:
    """One host's part of a round. ``first`` is its first rank, ``files`` the folder for the reports of its ranks.

    Where several hosts take part, they meet at ``endpoint``, and ``address`` is this host's own.
    """

    id: str
    plan: RoundPlan
    hosts: int
    local_ranks: int
    endpoint: str = ""
    address: str = ""
    index: int = 0
    host: str = ""
    first: int = 0
    files: str = ""


@dataclass(frozen=True)
class CodeTree:
    """A repository, and the worktree of it that the measured code should come from."""

    root: str
    worktree: str


@dataclass(frozen=True)
class PairPart:
    """One worker's part in a pair of ``ab``.

    ``layout`` seeds the random layout of memory. ``slow_down`` is the share of extra work that is added to each call; None leaves calls as they are.
    """

    takes_turns: bool = False
    cores: tuple[int, ...] = ()
    tree: CodeTree | None = None
    layout: int | None = None
    slow_down: float | None = None


@dataclass(frozen=True)
class MeasureJob:
    """Measure one case. ``environment`` are the variables of the worker; ``start`` and ``cache`` identify what a compile time means."""

    source: BenchmarkSource
    benchmark: str
    probe: str
    axes: CaseAxes
    folder: str = "."
    imports: tuple[str, ...] = ()
    options: MeasureOptions = MeasureOptions()
    start: str = ""
    cache: str = ""
    counting: CountPlan = CountPlan("")
    environment: dict[str, str] | None = None
    scenario: Scenario | None = None
    round: RoundPart | None = None
    pair: PairPart | None = None

    @property
    def identity(self) -> dict[str, str]:
        """What makes two compile times two different metrics."""
        stated = {"start": self.start, "cache": self.cache}
        return {name: value for name, value in stated.items() if value}

    @property
    def is_simulated(self) -> bool:
        """Whether its worker has to run under valgrind."""
        return self.probe == "instructions" and self.counting.counter == "simulated"


Job = SurveyJob | PrimeJob | MeasureJob

_JOBS: dict[str, type[Job]] = {"survey": SurveyJob, "prime": PrimeJob, "measure": MeasureJob}


def encode_job(job: Job) -> dict[str, Any]:
    """A job as a message."""
    name = next(name for name, kind in _JOBS.items() if isinstance(job, kind))
    return {"job": name, **to_json(job)}


def decode_job(message: dict[str, Any]) -> Job:
    """A message as a job; MalformedError names what does not fit."""
    fields = dict(message)
    name = fields.pop("job", None)
    if not isinstance(name, str) or name not in _JOBS:
        raise MalformedError(f"unknown job: {name!r}")
    return from_json(_JOBS[name], fields, name)


@dataclass(frozen=True)
class GiveTurn:
    """No other worker is timing now."""

    turn: bool = True


@dataclass(frozen=True)
class MakeCalls:
    """Time this many calls; none means that the worker may finish."""

    go: Count


Order = GiveTurn | MakeCalls


def encode_order(order: Order) -> dict[str, Any]:
    """An order as a message."""
    return {"turn": True} if isinstance(order, GiveTurn) else {"go": order.go}


def decode_order(message: dict[str, Any]) -> Order:
    """A message as an order; MalformedError names what does not fit."""
    kind: type[Order] = MakeCalls if "go" in message else GiveTurn
    return from_json(kind, message, "order")
