"""Run cases in workers, several at once, and produce one outcome for each, whatever its workers do."""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeGuard

from msgspec import Struct

from torchstone.core.records import Case, Outcome
from torchstone.measure.case_end import (
    Ending,
    LastReply,
    WorkerEnd,
    make_outcome,
    out_of_memory_status,
    redact_outcome,
    report_of,
)
from torchstone.measure.devices.placement import DevicePlacement
from torchstone.measure.devices.turn_queue import TurnQueue
from torchstone.measure.executors.memory import MemoryWatch, count_kernel_kills
from torchstone.measure.executors.protocol import Launcher
from torchstone.measure.executors.worker_handle import STACKS_WAIT, Worker
from torchstone.measure.procedures.procedure import Procedure
from torchstone.worker.protocol.jobs import GiveTurn, Job
from torchstone.worker.protocol.replies import (
    PHASES,
    CaseReply,
    DeviceReleased,
    DeviceWanted,
    ErrorReply,
    Malformed,
    PhaseReply,
    Reply,
    TurnEnded,
    TurnWanted,
)

_TICK = 0.05
_LEAVING_TICK = 0.002
_EXIT_WAIT = 5.0


_OUT_OF_MEMORY = frozenset({"OOM", "eager_1st_run_OOM", "eager_2nd_run_OOM"})


class Watcher(Protocol):
    """Receives progress events, for a display."""

    def started(self, case: Case) -> None:
        """Called when the first worker of a case is started."""

    def entered(self, case: Case, phase: str) -> None:
        """Called when a case enters a phase; ``waiting`` while it waits for its turn to time."""

    def tick(self) -> None:
        """Called regularly while cases run."""


class WorkerLimits(Struct, frozen=True):
    """Limits of a case: timeout in seconds (waiting for its turn is not counted), memory in bytes; and how many run at once.

    ``places`` are the devices over which cases are spread; without them, a case has the device of its plan.
    """

    timeout: float
    memory: int | None = None
    jobs: int = 1
    places: tuple[str, ...] = ()


class _Active:
    """A case being measured, by the current worker of its procedure."""

    def __init__(
        self, case: Case, procedure: Procedure, worker: Worker, memory: MemoryWatch, kernel_kills: int
    ) -> None:
        self.case = case
        self.procedure = procedure
        self.worker = worker
        self.memory = memory
        self.kernel_kills = kernel_kills
        self.phase: str = PHASES[0]
        self.used = 0.0
        self.counted_since: float | None = time.monotonic()
        self.started = time.monotonic()
        self.result: LastReply | None = None
        self.result_at = 0.0
        self.killed: Ending | None = None
        self.closed = False
        self.closed_at = 0.0
        self.crowded = False

    def pause(self) -> None:
        """Stop counting time: the case waits for others."""
        if self.counted_since is not None:
            self.used += time.monotonic() - self.counted_since
            self.counted_since = None

    def resume(self) -> None:
        """Count time again."""
        if self.counted_since is None:
            self.counted_since = time.monotonic()

    def seconds_used(self) -> float:
        """Return the seconds used so far."""
        running = time.monotonic() - self.counted_since if self.counted_since is not None else 0.0
        return self.used + running


def is_last(reply: Reply) -> TypeGuard[LastReply]:
    """Return whether a reply ends its case."""
    if isinstance(reply, Malformed):
        return reply.kind in {"result", "error"}
    return isinstance(reply, CaseReply | ErrorReply)


class Supervisor:
    """Runs cases in workers. ``make_procedure`` provides the jobs of a case; ``cleanup`` is called when a case has ended.

    ``placement`` says on which device a case is, because workers take turns on each device.
    """

    def __init__(
        self,
        launcher: Launcher,
        limits: WorkerLimits,
        make_procedure: Callable[[Case, int], Procedure],
        cleanup: Callable[[int], None],
        watcher: Watcher,
        placement: DevicePlacement | None = None,
    ) -> None:
        self._launcher = launcher
        self._limits = limits
        self._make_procedure = make_procedure
        self._cleanup = cleanup
        self._watcher = watcher
        self._active: dict[int, _Active] = {}
        self._placement = placement or DevicePlacement()
        self._turns = TurnQueue()
        self._at_once = limits.jobs

    def execute(self, cases: Sequence[Case]) -> Generator[Outcome, None, None]:
        """Yield the outcome of each case as soon as it is known. Closing the iterator kills all workers.

        A case that ran out of memory beside others is repeated at the end, and from then on half as many run at once.
        """
        waiting = deque(enumerate(cases))
        try:
            while waiting or self._active:
                while waiting and len(self._active) < self._at_once:
                    yield from self._start(*waiting.popleft())
                self._wait()
                for number in [n for n, each in self._active.items() if self._is_over(each)]:
                    active = self._active.pop(number)
                    active.procedure.take(self._end(number, active))
                    if self._start_next(number, active):
                        continue
                    self._cleanup(number)
                    outcome = redact_outcome(active.procedure.outcome())
                    if active.crowded and not active.killed and outcome.status in _OUT_OF_MEMORY:
                        self._at_once = min(self._at_once, (len(self._active) + 1) // 2) or 1
                        waiting.append((number, active.case))
                    else:
                        yield outcome
                self._watcher.tick()
        finally:
            for number, active in self._active.items():
                active.worker.kill()
                active.worker.close()
                self._cleanup(number)
            self._active = {}

    def _start(self, number: int, case: Case) -> Generator[Outcome, None, None]:
        """Start the first worker of a case; yield the outcome at once if it cannot start."""
        procedure = self._make_procedure(case, number)
        self._watcher.started(case)
        job = procedure.next_job()
        if job is not None:
            self._launch(number, case, procedure, job)
        else:
            self._cleanup(number)
            yield procedure.outcome()

    def _start_next(self, number: int, active: _Active) -> bool:
        """Start the next worker of a procedure; return whether there is one."""
        job = active.procedure.next_job()
        if job is not None:
            self._launch(number, active.case, active.procedure, job).crowded |= active.crowded
        return job is not None

    def _launch(self, number: int, case: Case, procedure: Procedure, job: Job) -> _Active:
        kills = count_kernel_kills()
        worker = self._launcher.launch(job)
        active = _Active(case, procedure, worker, MemoryWatch(worker.pid, self._limits.memory), kills)
        self._active[number] = active
        if len(self._active) > 1:
            for each in self._active.values():
                each.crowded = True
        return active

    def _wait(self) -> None:
        """Wait a moment for messages, output and exits; handle all of them."""
        now = time.monotonic()
        leaving = any(each.closed and now - each.closed_at < 1 for each in self._active.values())
        with selectors.DefaultSelector() as selector:
            for active in self._active.values():
                if not active.worker.log_ended:  # a closed log is always ready
                    selector.register(active.worker.log, selectors.EVENT_READ)
                if not active.closed:
                    selector.register(active.worker.channel, selectors.EVENT_READ)
            selector.select(_LEAVING_TICK if leaving else _TICK)
        for number, active in list(self._active.items()):
            active.worker.read_log()
            self._read_replies(number, active)
            self._enforce_limits(active)
        self._give_turns()
        self._launcher.poll()

    def _read_replies(self, number: int, active: _Active) -> None:
        if active.closed:
            return
        replies, active.closed = active.worker.read_replies()
        if active.closed:
            active.closed_at = time.monotonic()
        for reply in replies:
            self._handle(number, active, reply)

    def _handle(self, number: int, active: _Active, reply: Reply) -> None:
        """Handle a reply. One that does not fit the protocol matters only if it should have been the result."""
        if isinstance(reply, PhaseReply):
            active.phase = reply.phase
            self._watcher.entered(active.case, f"{active.procedure.step()} {active.phase}".lstrip())
        elif isinstance(reply, TurnWanted | DeviceWanted):
            device = self._placement.place(number, active.case)
            if self._turns.want(number, device, alone=isinstance(reply, TurnWanted)):
                active.pause()
                if isinstance(reply, TurnWanted):
                    self._watcher.entered(active.case, "waiting")
        elif isinstance(reply, TurnEnded | DeviceReleased):
            self._turns.end(number)
        elif is_last(reply) and active.killed is None:
            active.result = reply
            active.result_at = time.monotonic()

    def _give_turns(self) -> None:
        """Give turns to the workers whose turn it is."""
        for number in self._turns.give():
            active = self._active[number]
            active.resume()
            active.worker.send(GiveTurn())

    def _enforce_limits(self, active: _Active) -> None:
        """Kill a worker that exceeds its timeout or memory limit, or that has replied and does not exit."""
        now = time.monotonic()
        if active.killed:
            if now >= active.killed.at:
                active.worker.kill()
            return
        if active.result is not None:
            if now - active.result_at > _EXIT_WAIT:
                active.worker.kill()
            return
        if active.closed and now - active.closed_at > _EXIT_WAIT:
            message = "the worker's channel was closed before it sent a result"
            active.killed = Ending("worker_died", message, now)
        elif active.seconds_used() > self._limits.timeout:
            active.worker.show_stacks()
            active.killed = Ending.timed_out(self._limits.timeout, now + STACKS_WAIT)
        elif excess := active.memory.excess():
            active.worker.kill()
            active.killed = Ending(out_of_memory_status(active.phase), excess, now)

    def _is_over(self, active: _Active) -> bool:
        return active.worker.exit_code is not None

    def _end(self, number: int, active: _Active) -> WorkerEnd:
        """Return how a worker that has exited ended, and kill its remaining descendants."""
        worker = active.worker
        worker.kill()  # processes that it left behind in its session
        self._read_replies(number, active)
        self._turns.forget(number)
        outcome = make_outcome(
            active.case,
            active.result,
            active.killed,
            phase=active.phase,
            exit_code=worker.exit_code or 0,
            log=worker.log_tail(),
            seconds=time.monotonic() - active.started,
            out_of_memory=count_kernel_kills() > active.kernel_kills,
        )
        worker.close()
        return WorkerEnd(outcome, report_of(active.result))
