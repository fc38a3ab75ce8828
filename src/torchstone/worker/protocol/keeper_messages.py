"""Messages between the parent and a keeper, the process that starts workers."""

from __future__ import annotations

from dataclasses import dataclass

from torchstone.worker.protocol.codec import MalformedError, Message, Seconds, from_json, to_json
from torchstone.worker.protocol.source_message import SourceMessage


@dataclass(frozen=True)
class KeeperSetup:
    """The first message to a keeper. ``lock`` is an inherited descriptor that holds the scratch folder's lock.

    ``repeatable`` removes what makes simulated counts differ from run to run.
    """

    template: str = ""
    scratch: str = ""
    lock: int | None = None
    temporary: str = ""
    sources: tuple[SourceMessage, ...] = ()
    devices: tuple[str, ...] = ()
    repeatable: bool = False


@dataclass(frozen=True)
class StartWorker:
    """Start a worker; the descriptors of its channel and log are sent with this message."""

    start: int = 1


@dataclass(frozen=True)
class PreloadLibraries:
    """Import these modules before more workers are forked."""

    preload: tuple[str, ...]


@dataclass(frozen=True)
class KeeperReady:
    """The keeper is ready; ``ready`` is how many seconds that took, ``blocked`` why it cannot fork, if so."""

    ready: Seconds
    blocked: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeeperBroken:
    """The keeper cannot load torch; ``torch_missing``: it is not installed."""

    broken: str
    torch_missing: bool = False


@dataclass(frozen=True)
class LibrariesPreloaded:
    """The modules have been imported, or ``preloaded`` says why not."""

    preloaded: str


@dataclass(frozen=True)
class WorkerStarted:
    """A worker was started with this process id."""

    started: int


@dataclass(frozen=True)
class StartFailed:
    """No worker could be started."""

    failed: str


@dataclass(frozen=True)
class WorkerExited:
    """A worker has exited with this exit code; negative for a signal."""

    exited: int
    status: int


KeeperOrder = StartWorker | PreloadLibraries
KeeperReply = KeeperReady | KeeperBroken | LibrariesPreloaded | WorkerStarted | StartFailed | WorkerExited

_ORDERS: dict[str, type[KeeperOrder]] = {"start": StartWorker, "preload": PreloadLibraries}
_REPLIES: dict[str, type[KeeperReply]] = {
    "ready": KeeperReady,
    "broken": KeeperBroken,
    "preloaded": LibrariesPreloaded,
    "started": WorkerStarted,
    "failed": StartFailed,
    "exited": WorkerExited,
}


def encode_keeper_message(message: KeeperSetup | KeeperOrder | KeeperReply) -> Message:
    """Encode a record as a message; an order always has the field that names it."""
    return {"start": 1} if isinstance(message, StartWorker) else to_json(message)


def decode_keeper_setup(message: Message) -> KeeperSetup:
    """Decode the first message to a keeper."""
    return from_json(KeeperSetup, message, "setup")


def decode_keeper_order(message: Message) -> KeeperOrder:
    """Decode a later message to a keeper."""
    for key, kind in _ORDERS.items():
        if key in message:
            return from_json(kind, message, key)
    raise MalformedError("unknown order")


def decode_keeper_reply(message: Message) -> KeeperReply | None:
    """Decode a reply of a keeper; None if it does not fit."""
    for key, kind in _REPLIES.items():
        if key in message:
            try:
                return from_json(kind, message, key)
            except MalformedError:
                return None
    return None
