"""Jobs that the parent gives to a worker, and orders that it sends meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from torchstone.worker.protocol.codec import Count, Json, MalformedError, Message, from_json, to_json
from torchstone.worker.protocol.source_message import SourceMessage

NO_COMPILER = "none"
"""The backend that compiles nothing: both sides are eager, which shows how noisy the measurement itself is."""


@dataclass(frozen=True)
class CompileTrial:
    """Options of ``torch.compile`` that a survey tries for each of these backends."""

    backends: tuple[str, ...]
    mode: str | None = None
    options: dict[str, Json] | None = None


@dataclass(frozen=True)
class SurveyJob:
    """Find out what the sources define, and which devices, backends and environment there are."""

    sources: tuple[SourceMessage, ...] = ()
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
    """The axes of a case, and further options of ``torch.compile``. With ``labels``, models get labels in inference, too."""

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
    labels: bool = False


@dataclass(frozen=True)
class TorchSettings:
    """Settings of torch itself; None leaves one to torch.

    ``tf32`` allows TF32 in float32 matrix products, ``half_reductions`` lets mathematical attention add up in
    float16 and bfloat16, ``cuda_graphs`` lets inductor record CUDA graphs.
    """

    tf32: bool | None = None
    half_reductions: bool | None = None
    cuda_graphs: bool | None = None


@dataclass(frozen=True)
class MeasureOptions:
    """Settings for measuring a case. None means the probe's default; an empty path means that nothing is written or read."""

    threads: int | None = None
    compile_threads: int | None = None
    repeat: int | None = None
    precision: float | None = None
    budget: float | None = None
    save_outputs: str = ""
    compare_outputs: str = ""
    batch_invariant: bool = False
    profile: bool = False


@dataclass(frozen=True)
class CountPlan:
    """Settings for counting: ``folder`` is for valgrind's files, ``iterations`` overrides the default."""

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
    """Settings of a training round: ranks, strategy, collectives, and optionally the number of timed iterations."""

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

    If there are several hosts, ``endpoint`` is their rendezvous and ``address`` this host's own address.
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

    ``layout`` seeds the random memory layout. ``slow_down`` is the share of extra work added to each call; None
    leaves calls unchanged.
    """

    takes_turns: bool = False
    cores: tuple[int, ...] = ()
    tree: CodeTree | None = None
    layout: int | None = None
    slow_down: float | None = None


@dataclass(frozen=True)
class MeasureJob:
    """Measure one case. ``environment`` has the worker's variables; ``start`` and ``cache`` distinguish compile times.

    With ``shares_device``, other workers may use the device at the same time, so this one asks before it does.
    """

    source: SourceMessage
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
    torch: TorchSettings = TorchSettings()
    shares_device: bool = False

    @property
    def identity(self) -> dict[str, str]:
        """Return what distinguishes compile times that must not be compared."""
        stated = {"start": self.start, "cache": self.cache}
        return {name: value for name, value in stated.items() if value}

    @property
    def is_simulated(self) -> bool:
        """Return whether its worker has to run under valgrind."""
        return self.probe == "instructions" and self.counting.counter == "simulated"


Job = SurveyJob | PrimeJob | MeasureJob

_JOBS: dict[str, type[Job]] = {"survey": SurveyJob, "prime": PrimeJob, "measure": MeasureJob}


def encode_job(job: Job) -> Message:
    """Encode a job as a message."""
    name = next(name for name, kind in _JOBS.items() if isinstance(job, kind))
    return {"job": name, **to_json(job)}


def decode_job(message: Message) -> Job:
    """Decode a job; raise a MalformedError if it does not fit."""
    fields = dict(message)
    name = fields.pop("job", None)
    if not isinstance(name, str) or name not in _JOBS:
        raise MalformedError(f"unknown job: {name!r}")
    return from_json(_JOBS[name], fields, name)


@dataclass(frozen=True)
class GiveTurn:
    """The worker may time, or use its device: no other worker is timing there."""

    turn: bool = True


@dataclass(frozen=True)
class MakeCalls:
    """Time this many calls, by the device's busy time or by the wall clock; 0 means that the worker may finish."""

    go: Count
    on_device: bool = False


Order = GiveTurn | MakeCalls


def encode_order(order: Order) -> Message:
    """Encode an order as a message."""
    return {"turn": True} if isinstance(order, GiveTurn) else to_json(order)


def decode_order(message: Message) -> Order:
    """Decode an order; raise a MalformedError if it does not fit."""
    kind: type[Order] = MakeCalls if "go" in message else GiveTurn
    return from_json(kind, message, "order")
