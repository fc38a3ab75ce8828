"""Replies of a worker to the parent, each validated once, on arrival."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from torchstone.core.details.metric_definitions import Better, name_problem, unit_problem
from torchstone.core.text.safe_text import is_plain
from torchstone.core.vocabulary import is_known_status
from torchstone.worker.protocol.case_findings import (
    AccuracyFound,
    CodeFound,
    GraphBreakFound,
    TorchSettingsFound,
)
from torchstone.worker.protocol.caution_message import CautionMessage
from torchstone.worker.protocol.codec import (
    AtLeast,
    AtMost,
    Count,
    Json,
    MalformedError,
    Message,
    Name,
    Seconds,
    from_json,
    shown,
    to_json,
)
from torchstone.worker.protocol.device_state_found import DeviceStateFound
from torchstone.worker.protocol.source_message import SourceMessage
from torchstone.worker.protocol.time_profile_reply import TimeProfileFound

Phase = Literal["load", "eager", "compile", "run", "compare", "profile"]
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
    """The worker waits until no other worker is timing."""


@dataclass(frozen=True)
class TurnEnded:
    """The worker has finished timing."""


@dataclass(frozen=True)
class DeviceWanted:
    """The worker waits until no other worker is timing on its device, to use it without being timed."""


@dataclass(frozen=True)
class DeviceReleased:
    """The worker does not use its device for now."""


@dataclass(frozen=True)
class LookingAt:
    """The survey is about to import this file; empty after the last one."""

    path: str


@dataclass(frozen=True)
class TurnReady:
    """A worker of a pair is ready for its first turn: a call takes ``each`` nanoseconds, the device ``busy`` of them, if known.

    ``from_elsewhere`` and ``imported`` say where its code comes from; None if that does not matter.
    """

    each: CallTime
    from_elsewhere: tuple[str, ...] | None = None
    imported: tuple[str, ...] | None = None
    busy: CallTime | None = None


@dataclass(frozen=True)
class TurnTaken:
    """A turn is over; a call took ``took`` nanoseconds."""

    took: CallTime


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
    """Details of a case besides its measurements; None if the worker does not report them.

    Only the procedure of the case uses ``code`` and the fields after it; they are not part of the outcome.
    """

    duration: Seconds | None = None
    phases: dict[str, Seconds] | None = None
    left_out: dict[str, str] | None = None
    accuracy: AccuracyFound | None = None
    graph_breaks: tuple[GraphBreakFound, ...] | None = None
    recompile_reasons: tuple[str, ...] | None = None
    category: str | None = None
    description: str | None = None
    profile: dict[str, Json] | None = None
    torch: TorchSettingsFound | None = None
    device: str = ""
    time_profile: TimeProfileFound | None = None
    device_state: DeviceStateFound | None = None
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
                found = shown(rank)
                raise MalformedError(f"result.extra.exits: expected the number of a rank, found {found}")


@dataclass(frozen=True)
class MeasuredDetails:
    """Measurement method of the samples of a metric; None if not stated. The last three are of a metric that the benchmark reports."""

    start: str | None = None
    cache: str | None = None
    counter: str | None = None
    block: Count | None = None
    pairs: Count | None = None
    stopped: str | None = None
    interval: tuple[float, float] | None = None
    confidence: Annotated[float, AtLeast(0), AtMost(1)] | None = None
    method: str | None = None
    better: Better | None = None
    unit: str | None = None
    reported: Literal["call", "result", "build", "work"] | None = None

    def __post_init__(self) -> None:
        stated_alone = "" if self.better and self.reported else "expected better and reported together"
        if any((self.better, self.reported)) and (problem := stated_alone or unit_problem(self.unit or "")):
            raise MalformedError(problem)


@dataclass(frozen=True)
class Measured:
    """The samples of one metric."""

    metric: Name
    samples: tuple[float, ...]
    extra: MeasuredDetails | None = None

    def __post_init__(self) -> None:
        if not self.samples:
            raise MalformedError(f"{self.metric}: expected at least one sample")
        if self.extra and self.extra.better and (problem := name_problem(self.metric)):
            raise MalformedError(f"{self.metric}: {problem}")


@dataclass(frozen=True)
class FailureReport:
    """The phase in which a case failed, the message and the traceback."""

    phase: str = ""
    message: str = ""
    traceback: str = ""


@dataclass(frozen=True)
class CaseReply:
    """The result of a case: the last reply of a worker that measures."""

    status: str
    measurements: tuple[Measured, ...]
    extra: CaseDetails
    failure: FailureReport | None = None
    cautions: tuple[CautionMessage, ...] = ()

    def __post_init__(self) -> None:
        if not is_known_status(self.status):
            raise MalformedError(f"result.status: unknown status: {self.status[:60]!r}")
        seen: set[str] = set()
        for each in self.measurements:
            if each.metric in seen:
                raise MalformedError(f"result.measurements: {each.metric} occurs twice")
            seen.add(each.metric)


@dataclass(frozen=True)
class ErrorReply:
    """The job failed as a whole; ``path``, ``line`` and ``column`` say where, if known.

    ``is_of_torch`` is set if torch itself cannot be loaded, ``torch_missing`` if it is not installed.
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
    """Facts about a benchmark that a plan needs; ``metrics`` is the name of its function for metrics of its own."""

    name: Name
    batch_size: BatchSize | None = None
    accuracy_batch_size: BatchSize | None = None
    modes: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    metrics: str = ""
    dashboard_batch_size: BatchSize | None = None


@dataclass(frozen=True)
class CountedFound:
    """Facts about counted work that a plan needs."""

    name: Name
    device: Name
    backend: str = ""
    mode: str = ""
    dynamic: bool | None = None
    measures_itself: bool = False


@dataclass(frozen=True)
class SourceFound:
    """The benchmarks of a source, or why it cannot be used; ``empty`` says why it defines none."""

    source: SourceMessage
    benchmarks: tuple[BenchmarkFound, ...] = ()
    counted: tuple[CountedFound, ...] = ()
    libraries: tuple[str, ...] = ()
    error: ErrorReply | None = None
    empty: str = ""


@dataclass(frozen=True)
class CollectivesFound:
    """The collective backends of this torch, the device's default one, and the number of ranks that fit (``rooms``)."""

    available: tuple[str, ...] = ()
    default: str = ""
    rooms: Count = 0


@dataclass(frozen=True)
class EnvironmentFound:
    """The environment of the worker; see ``worker.machine.recorded_environment``."""

    machine: dict[str, Json]
    device: str
    accelerators: tuple[dict[str, Json], ...]
    software: dict[str, Json]
    versions: dict[str, str]
    variables: dict[str, str]
    threads: Annotated[int, AtLeast(1)] | None = None


@dataclass(frozen=True)
class SurveyReply:
    """The result of a survey. A survey without torch lacks devices, backends and environment."""

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
    | DeviceWanted
    | DeviceReleased
    | LookingAt
    | TurnReady
    | TurnTaken
    | CaseReply
    | ErrorReply
    | SurveyReply
    | Primed
    | Malformed
)

# Replies that are one record under a key, one value under a key, only a key, or a record whose fields are the message.
_WRAPPED: dict[str, type[Reply]] = {"result": CaseReply, "error": ErrorReply, "survey": SurveyReply}
_SINGLE: dict[str, tuple[type[Reply], str]] = {
    "ready": (Ready, "pid"),
    "phase": (PhaseReply, "phase"),
    "looking_at": (LookingAt, "path"),
    "primed": (Primed, "template"),
}
_BARE: dict[str, type[TurnWanted | TurnEnded | DeviceWanted | DeviceReleased]] = {
    "want": TurnWanted,
    "done": TurnEnded,
    "want_device": DeviceWanted,
    "release_device": DeviceReleased,
}
_FLAT: dict[str, type[Reply]] = {"each": TurnReady, "took": TurnTaken}
_KEYS = {*_WRAPPED, *_SINGLE, *_BARE, *_FLAT}


def encode_reply(reply: Reply) -> Message:
    """Encode a reply as a message."""
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


def decode_reply(message: Message) -> Reply | None:
    """Decode a reply: ``Malformed`` if it does not fit, None if it is no reply, because a model wrote to the channel."""
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
