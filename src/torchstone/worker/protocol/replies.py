"""Replies: what a worker tells the parent, each validated once, where it arrives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.caution_kinds import CautionMessage
from torchstone.core.text.safe_text import is_plain
from torchstone.core.vocabulary import is_known_status
from torchstone.worker.protocol.codec import (
    AtLeast,
    AtMost,
    Count,
    Json,
    MalformedError,
    Name,
    Seconds,
    from_json,
    shown,
    to_json,
)

Phase = Literal["load", "eager", "compile", "run", "compare"]
PHASES: tuple[Phase, ...] = ("load", "eager", "compile", "run", "compare")

CallTime = Annotated[float, AtLeast(1e-6), AtMost(1e18)]
"""Nanoseconds of a call: ratios of two such numbers are finite."""

BatchSize = Annotated[int, AtLeast(1)]


@dataclass(frozen=True)
class Ready:
    """The worker has its job."""

    pid: int


@dataclass(frozen=True)
class PhaseReply:
    """The case enters a phase."""

    phase: Phase


@dataclass(frozen=True)
class TurnWanted:
    """The worker waits until no other one is timing."""


@dataclass(frozen=True)
class TurnEnded:
    """The worker has finished timing."""


@dataclass(frozen=True)
class LookingAt:
    """The survey is about to import this file; empty after the last."""

    path: str


@dataclass(frozen=True)
class TurnReady:
    """A worker of a pair is ready for its first turn: a call takes ``each`` nanoseconds.

    ``strays`` and ``imported`` say where its code comes from; None where that does not matter.
    """

    each: CallTime
    strays: tuple[str, ...] | None = None
    imported: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TurnTaken:
    """A turn is over: nanoseconds of a call."""

    took: CallTime


@dataclass(frozen=True)
class CodeFound:
    """Where a worker's code comes from: modules from outside the worktree, and the worktree's files that it imported."""

    strays: tuple[str, ...]
    imported: tuple[str, ...]


@dataclass(frozen=True)
class GraphBreakFound:
    """One reason why capture stopped, how often, and where."""

    reason: str
    count: Count
    place: str
    source: str
    fallback: bool = False


@dataclass(frozen=True)
class CacheLookUp:
    """One look-up in a compile cache, with its key and the parts of the key."""

    cache: str
    state: str
    graph: str
    key: str
    reason: str
    unsaved: str
    parts: dict[str, str]


@dataclass(frozen=True)
class CaseDetails:
    """What a worker says of a case beside its measurements; None where it says nothing."""

    duration: Seconds | None = None
    phases: dict[str, Seconds] | None = None
    left_out: dict[str, str] | None = None
    accuracy: dict[str, Json] | None = None
    graph_breaks: tuple[GraphBreakFound, ...] | None = None
    recompile_reasons: tuple[str, ...] | None = None
    category: str | None = None
    description: str | None = None
    profile: dict[str, Json] | None = None
    code: CodeFound | None = None
    offers: dict[str, str] | None = None
    look_ups: dict[str, dict[str, Count]] | None = None
    events: tuple[CacheLookUp, ...] | None = None
    unsaved: str | None = None
    artifacts: dict[str, Count] | None = None
    exits: dict[str, int] | None = None
    unmet: str | None = None

    def __post_init__(self) -> None:
        for rank in self.exits or {}:
            if not re.fullmatch("[0-9]{1,6}", rank):
                raise MalformedError(
                    f"result.extra.exits: expected the number of a rank, found {shown(rank)}"
                )


@dataclass(frozen=True)
class MeasurementDetails:
    """How the samples of a metric were taken; None where that is not said."""

    start: str | None = None
    cache: str | None = None
    counter: str | None = None
    block: Count | None = None
    pairs: Count | None = None
    stopped: str | None = None
    interval: tuple[float, float] | None = None
    confidence: Annotated[float, AtLeast(0), AtMost(1)] | None = None
    method: str | None = None


@dataclass(frozen=True)
class Measured:
    """The samples of one metric."""

    metric: Name
    samples: tuple[float, ...]
    extra: MeasurementDetails | None = None

    def __post_init__(self) -> None:
        if not self.samples:
            raise MalformedError(f"{self.metric}: expected at least one sample")


@dataclass(frozen=True)
class FailureReport:
    """Where a case failed, and how."""

    phase: str = ""
    message: str = ""
    traceback: str = ""


@dataclass(frozen=True)
class CaseReply:
    """How a case ended: the last reply of a worker that measures."""

    status: str
    measurements: tuple[Measured, ...]
    extra: CaseDetails
    failure: FailureReport | None = None
    cautions: tuple[CautionMessage, ...] = ()

    def __post_init__(self) -> None:
        if not is_known_status(self.status):
            raise MalformedError(f"result.status: no such status: {self.status[:60]!r}")
        seen: set[str] = set()
        for each in self.measurements:
            if each.metric in seen:
                raise MalformedError(f"result.measurements: {each.metric} occurs twice")
            seen.add(each.metric)


@dataclass(frozen=True)
class ErrorReply:
    """The job could not be done at all; ``path``, ``line`` and ``column`` say where, if that is known.

    ``is_of_torch``: torch itself cannot be loaded. ``torch_missing``: it is not installed.
    """

    message: str
    path: str = ""
    line: Count | None = None
    column: Count | None = None
    traceback: str = ""
    is_of_torch: bool = False
    torch_missing: bool = False


@dataclass(frozen=True)
class BenchmarkFound:
    """What a plan needs to know of a benchmark."""

    name: Name
    batch_size: BatchSize | None = None
    accuracy_batch_size: BatchSize | None = None
    modes: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CountedFound:
    """What a plan needs to know of counted work."""

    name: Name
    device: Name
    backend: str = ""
    mode: str = ""
    dynamic: bool | None = None
    measures_itself: bool = False


@dataclass(frozen=True)
class SourceFound:
    """What a source defines, or why it cannot be used; ``empty`` says why it defines no benchmark."""

    source: BenchmarkSource
    benchmarks: tuple[BenchmarkFound, ...] = ()
    counted: tuple[CountedFound, ...] = ()
    libraries: tuple[str, ...] = ()
    error: ErrorReply | None = None
    empty: str = ""


@dataclass(frozen=True)
class CollectivesFound:
    """The collective backends of this torch, the default one of the device, and the number of ranks that fit."""

    available: tuple[str, ...] = ()
    default: str = ""
    rooms: Count = 0


@dataclass(frozen=True)
class EnvironmentFound:
    """Facts of the worker's environment; see ``worker.machine.recorded_environment``."""

    machine: dict[str, Json]
    device: str
    accelerators: tuple[dict[str, Json], ...]
    software: dict[str, Json]
    versions: dict[str, str]
    variables: dict[str, str]
    threads: Annotated[int, AtLeast(1)] | None = None


@dataclass(frozen=True)
class SurveyReply:
    """What a worker has found; all that torch knows is missing where it was told not to load torch."""

    sources: tuple[SourceFound, ...]
    files: tuple[str, ...]
    libraries: tuple[str, ...]
    devices: dict[str, str] | None = None
    available: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    collectives: CollectivesFound | None = None
    refused: dict[str, str] | None = None
    environment: EnvironmentFound | None = None

    def __post_init__(self) -> None:
        for name in self.devices or {}:
            if not name or not is_plain(name):
                raise MalformedError(f"survey.devices: expected the name of a device, found {shown(name)}")


@dataclass(frozen=True)
class Primed:
    """The template has been filled."""

    template: str


@dataclass(frozen=True)
class Malformed:
    """A reply that does not fit the protocol: its kind, and what is wrong with it."""

    kind: str
    problem: str


Reply = (
    Ready
    | PhaseReply
    | TurnWanted
    | TurnEnded
    | LookingAt
    | TurnReady
    | TurnTaken
    | CaseReply
    | ErrorReply
    | SurveyReply
    | Primed
    | Malformed
)

# Replies that are one record under one key, those that are one value under it, and those whose fields are the message itself.
_WRAPPED: dict[str, type[Reply]] = {"result": CaseReply, "error": ErrorReply, "survey": SurveyReply}
_SINGLE: dict[str, tuple[type[Reply], str]] = {
    "ready": (Ready, "pid"),
    "phase": (PhaseReply, "phase"),
    "looking_at": (LookingAt, "path"),
    "primed": (Primed, "template"),
}
_BARE: dict[str, type[TurnWanted | TurnEnded]] = {"want": TurnWanted, "done": TurnEnded}
_FLAT: dict[str, type[Reply]] = {"each": TurnReady, "took": TurnTaken}


def encode_reply(reply: Reply) -> dict[str, Any]:
    """A reply as a message."""
    fields = to_json(reply)
    for key, kind in _WRAPPED.items():
        if isinstance(reply, kind):
            return {key: fields}
    for key, (kind, name) in _SINGLE.items():
        if isinstance(reply, kind):
            return {key: fields[name]}
    for key, kind in _BARE.items():
        if isinstance(reply, kind):
            return {key: "turn"}
    return fields


def decode_reply(message: dict[str, Any]) -> Reply | None:
    """A message as a reply; ``Malformed`` where it does not fit, None where it is no reply at all: a model may write to the channel."""
    key = next((key for key in message if key in _KEYS), None)
    if key is None:
        return None
    try:
        if key in _WRAPPED:
            return from_json(_WRAPPED[key], message[key], key)
        if key in _SINGLE:
            kind, name = _SINGLE[key]
            return from_json(kind, {name: message[key]}, key)
        if key in _BARE:
            return _BARE[key]()
        return from_json(_FLAT[key], message, key)
    except MalformedError as error:
        return Malformed(key, str(error))


_KEYS = {*_WRAPPED, *_SINGLE, *_BARE, *_FLAT}
