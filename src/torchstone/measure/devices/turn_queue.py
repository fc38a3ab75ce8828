"""Whose turn it is to use a device: one worker at a time while it is timed, else as many as want to.

Requests are granted in the order in which they arrive, so that nobody waits for ever.
"""

from __future__ import annotations

from msgspec import Struct

CPU = "cpu"


class TurnRequest(Struct, frozen=True):
    """A worker's request for a device: ``alone`` to be timed, or together with others that are not timed."""

    worker: int
    device: str
    alone: bool


def conflicts(one: TurnRequest, other: TurnRequest) -> bool:
    """Return whether two workers must not have their turns at the same time.

    Timing on the CPU and on an accelerator disturb each other, because both need the host.
    """
    if not (one.alone or other.alone):
        return False
    if one.device == other.device:
        return True
    return one.alone and other.alone and CPU in {one.device, other.device}


def name_device(device: str) -> str:
    """Return the name of one device: ``cuda`` is the first one."""
    return device if device == CPU or ":" in device else f"{device}:0"


class TurnQueue:
    """The workers that have their turn, and those that wait for it."""

    def __init__(self) -> None:
        self._having: dict[int, TurnRequest] = {}
        self._waiting: dict[int, TurnRequest] = {}

    def want(self, worker: int, device: str, *, alone: bool) -> bool:
        """Add a request; return False if the worker has its turn already, or waits for it."""
        if worker in self._having or worker in self._waiting:
            return False
        self._waiting[worker] = TurnRequest(worker, name_device(device), alone)
        return True

    def give(self) -> list[int]:
        """Give turns to all workers whose request conflicts with no turn and no earlier request; return these workers."""
        given: list[int] = []
        ahead = list(self._having.values())
        for request in list(self._waiting.values()):
            if not any(conflicts(request, each) for each in ahead):
                self._having[request.worker] = self._waiting.pop(request.worker)
                given.append(request.worker)
            ahead.append(request)
        return given

    def end(self, worker: int) -> None:
        """End the turn of a worker, if it has one."""
        self._having.pop(worker, None)

    def forget(self, worker: int) -> None:
        """End the turn or the waiting of a worker that is gone."""
        self._having.pop(worker, None)
        self._waiting.pop(worker, None)
