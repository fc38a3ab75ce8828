"""Measure a pair: one worker of each side, prepared in parallel, then taking turns on the same cores (the parent's part)."""

from __future__ import annotations

import math
import random
import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct

from torchstone.core.records import Case, Outcome
from torchstone.measure.case_end import Ending, LastReply, make_outcome, out_of_memory_status
from torchstone.measure.executors.memory import MemoryWatch, count_kernel_kills
from torchstone.measure.executors.protocol import Launcher
from torchstone.measure.executors.worker_handle import STACKS_WAIT
from torchstone.measure.supervisor import Watcher, WorkerLimits, is_last
from torchstone.worker.protocol.jobs import MakeCalls, MeasureJob, PairPart
from torchstone.worker.protocol.replies import (
    PHASES,
    CaseDetails,
    Malformed,
    PhaseReply,
    Reply,
    TurnReady,
    TurnTaken,
)

TURN = 2_000_000  # nanoseconds that a turn should take; short calls are timed in groups
MOST_CALLS = 100_000
TURN_ON_DEVICE = 10_000_000  # nanoseconds of device work in a turn that is profiled
MOST_CALLS_ON_DEVICE = 500
LONGEST_PAIR = 1.0  # seconds
FEWEST_EXCHANGES = 7
MOST_EXCHANGES = 300
SETTLING_EXCHANGES = 2  # not counted, until caches and clock rates are stable
_TICK = 0.05
_EXIT_WAIT = 5.0


class PairCutOffError(Exception):
    """A pair was not finished in time: the phase it was in."""

    def __init__(self, phase: str) -> None:
        super().__init__(phase)
        self.phase = phase


class CodeOrigin(Struct, frozen=True):
    """Where a worker imported code from: modules from outside its worktree, and the files of its worktree."""

    from_elsewhere: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    is_known: bool = False


def origin_of_reply(ready: TurnReady) -> CodeOrigin:
    """Return the code origin in a worker's reply."""
    return CodeOrigin(ready.from_elsewhere or (), ready.imported or (), ready.imported is not None)


def origin_of_report(report: CaseDetails) -> CodeOrigin:
    """Return the code origin in a worker's report of a case."""
    code = report.code
    return CodeOrigin(code.from_elsewhere, code.imported, is_known=True) if code else CodeOrigin()


def with_pair(job: MeasureJob, **changes: Any) -> MeasureJob:  # noqa: ANN401  (of any type that a field has)
    """Return the job with changed fields of its part in a pair."""
    return replace(job, pair=replace(job.pair or PairPart(), **changes))


class PairResult(Struct, frozen=True):
    """Result of a pair, A first: nanoseconds per call of each turn, and the outcome of each worker.

    ``on_device`` says that these are the device's busy times, not those of the wall clock.
    """

    times: tuple[tuple[float, ...], tuple[float, ...]]
    outcomes: tuple[Outcome, Outcome]
    code: tuple[CodeOrigin, CodeOrigin] = (CodeOrigin(), CodeOrigin())
    on_device: bool = False

    @property
    def log_ratio(self) -> float:
        """Return the logarithm of the ratio of B's cost to A's: the median over exchanges."""
        logs = sorted(math.log(b / a) for a, b in zip(*self.times, strict=True))
        middle = len(logs) // 2
        return logs[middle] if len(logs) % 2 else (logs[middle - 1] + logs[middle]) / 2


class PairWorker:
    """One worker of a pair as the parent sees it. Replies are validated: the worker shares its process with a model."""

    def __init__(self, case: Case, launcher: Launcher, job: MeasureJob, limits: WorkerLimits) -> None:
        self._case = case
        self._launcher = launcher
        self._limits = limits
        self._kernel_kills = count_kernel_kills()
        self._started = time.monotonic()
        self._idle = 0.0  # seconds spent waiting for the other
        self._idle_since = math.inf
        self._answer: LastReply | None = None
        self._killed: Ending | None = None
        self._closed_at = math.inf
        self.phase: str = PHASES[0]
        self.each: float | None = None
        self.busy: float | None = None
        self.took: float | None = None
        self.code = CodeOrigin()
        self.worker = launcher.launch(job)
        self._memory = MemoryWatch(self.worker.pid, limits.memory)

    @property
    def is_over(self) -> bool:
        """Return whether the worker has sent its last reply, or has exited."""
        return self._answer is not None or self.worker.exit_code is not None

    @property
    def is_ready(self) -> bool:
        """Return whether it waits for its first turn."""
        return self.each is not None and not self.is_over

    def watched(self) -> list[int]:
        """Return the descriptors to wait on."""
        channel = [self.worker.channel.fileno()] if self._closed_at == math.inf else []
        return channel + ([] if self.worker.log_ended else [self.worker.log])

    def listen(self) -> None:
        """Read replies and output, record whether it has exited, and kill it if it exceeds its limits."""
        self._launcher.poll()
        self.worker.read_log()
        self._read()
        self._enforce_limits()

    def _read(self) -> None:
        if self._closed_at == math.inf:
            replies, closed = self.worker.read_replies()
            for reply in replies:
                self._handle(reply)
            self._closed_at = time.monotonic() if closed else math.inf

    def _handle(self, reply: Reply) -> None:
        if isinstance(reply, PhaseReply):
            self.phase = reply.phase
        elif isinstance(reply, TurnReady):
            self.each, self.busy = reply.each, reply.busy
            self.code = origin_of_reply(reply)
            self._idle_since = time.monotonic()
        elif isinstance(reply, TurnTaken):
            self.took = reply.took
            self._idle_since = time.monotonic()
        elif is_last(reply):
            self._answer = reply
        elif isinstance(reply, Malformed) and reply.kind in {"each", "took"}:
            self._answer = reply  # the turns of such a worker cannot be trusted

    def _enforce_limits(self) -> None:
        now = time.monotonic()
        if self.is_over:
            return
        if self._killed:
            if now >= self._killed.at:
                self.worker.kill()
        elif now - self._closed_at > _EXIT_WAIT:
            self._killed = Ending(
                "worker_died", "the worker's channel was closed before it sent a result", now
            )
        elif min(now, self._idle_since) - self._started - self._idle > self._limits.timeout:
            self.worker.show_stacks()
            self._killed = Ending.timed_out(self._limits.timeout, now + STACKS_WAIT)
        elif excess := self._memory.excess():
            self._killed = Ending(out_of_memory_status(self.phase), excess, now)

    def give_turn(self, calls: int, *, on_device: bool = False) -> None:
        """Let it make this many calls, timed on the device or by the wall clock; 0 lets it finish."""
        self.took = None
        self._idle += max(0.0, time.monotonic() - self._idle_since)
        self._idle_since = math.inf
        self.worker.send(MakeCalls(calls, on_device))

    def end(self) -> Outcome:
        """Kill the rest of its process; return its outcome."""
        self.worker.kill()
        self._read()  # replies sent before it exited
        outcome = make_outcome(
            self._case,
            self._answer,
            self._killed,
            phase=self.phase,
            exit_code=self.worker.exit_code or 0,
            log=self.worker.log_tail(),
            seconds=time.monotonic() - self._started,
            out_of_memory=count_kernel_kills() > self._kernel_kills,
        )
        self.worker.close()
        return outcome

    def drop(self) -> None:
        """Kill it without an outcome."""
        self.worker.kill()
        self.worker.close()


def measure_pair(
    start: Sequence[Callable[[], PairWorker]],
    chance: random.Random,
    case: Case,
    watcher: Watcher,
    until: float = math.inf,
    *,
    by_wall: bool = False,
) -> PairResult:
    """Start a worker of A and one of B in random order, and let them take turns if both get ready.

    Turns are timed by the device's busy time, if both can tell it, unless ``by_wall`` asks for the wall clock. Raise PairCutOffError if it takes longer than ``until``, on the monotonic clock.
    """
    order = [0, 1] if chance.random() < 0.5 else [1, 0]
    players: dict[int, PairWorker] = {}
    try:
        for side in order:
            players[side] = start[side]()
        pair = (players[0], players[1])
        _wait_until(pair, lambda: all(each.is_ready or each.is_over for each in pair), case, watcher, until)
        times: list[tuple[float, ...]] = [(), ()]
        on_device = not by_wall and all(each.busy for each in pair)
        if all(each.is_ready for each in pair) and not any(each.code.from_elsewhere for each in pair):
            watcher.entered(case, "turns")
            times = _take_turns(pair, chance, case, watcher, until, on_device=on_device)
        for each in pair:
            each.give_turn(0)
        _wait_until(pair, lambda: all(each.is_over for each in pair), case, watcher, until)
        outcomes = (players.pop(0).end(), players.pop(1).end())
        return PairResult((times[0], times[1]), outcomes, (pair[0].code, pair[1].code), on_device)
    finally:
        for each in players.values():
            each.drop()


def _take_turns(
    pair: tuple[PairWorker, PairWorker],
    chance: random.Random,
    case: Case,
    watcher: Watcher,
    until: float,
    *,
    on_device: bool,
) -> list[tuple[float, ...]]:
    """Measure exchanges of one turn each, with the same number of calls, each in random order."""
    calls = _calls_of_turn(pair, on_device=on_device)
    exchanges: list[tuple[float, float]] = []
    began = time.monotonic()
    while len(exchanges) < SETTLING_EXCHANGES + MOST_EXCHANGES and (
        time.monotonic() - began < LONGEST_PAIR or len(exchanges) < SETTLING_EXCHANGES + FEWEST_EXCHANGES
    ):
        for side in (0, 1) if chance.random() < 0.5 else (1, 0):
            if not _take_turn(pair[side], calls, case, watcher, until, on_device=on_device):
                return [(), ()]
        exchanges.append((pair[0].took or 1.0, pair[1].took or 1.0))
    return [tuple(side) for side in zip(*exchanges[SETTLING_EXCHANGES:], strict=True)]


def _calls_of_turn(pair: tuple[PairWorker, PairWorker], *, on_device: bool) -> int:
    """Return the calls of a turn: as many as the faster side needs to fill it."""
    if on_device:
        fastest = min(each.busy or TURN_ON_DEVICE for each in pair)
        return max(1, min(MOST_CALLS_ON_DEVICE, round(TURN_ON_DEVICE / fastest)))
    fastest = min(each.each or TURN for each in pair)
    return max(1, min(MOST_CALLS, round(TURN / fastest)))


def _take_turn(
    player: PairWorker, calls: int, case: Case, watcher: Watcher, until: float, *, on_device: bool
) -> bool:
    """Give one worker a turn; return whether it completed it."""
    player.give_turn(calls, on_device=on_device)
    _wait_until((player,), lambda: player.took is not None or player.is_over, case, watcher, until)
    return player.took is not None


def _wait_until(
    players: Sequence[PairWorker], condition: Callable[[], bool], case: Case, watcher: Watcher, until: float
) -> None:
    """Read from workers until a condition holds; workers that exceed their limits are killed, so it always will."""
    phase = ""
    while not condition():
        if time.monotonic() >= until:
            raise PairCutOffError(players[0].phase)
        with selectors.DefaultSelector() as selector:
            for descriptor in [each for player in players for each in player.watched()]:
                selector.register(descriptor, selectors.EVENT_READ)
            selector.select(_TICK)
        for player in players:
            player.listen()
        if len(players) == 1:
            continue  # it is being timed: do nothing else
        if players[0].phase != phase:
            phase = players[0].phase
            watcher.entered(case, phase)
        watcher.tick()
