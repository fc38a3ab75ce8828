"""The supervisor: workers for every case, as many cases at once as allowed, and an outcome for each whatever its workers do."""

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
    make_outcome,
    out_of_memory_status,
    redact_outcome,
)
from torchstone.measure.executors.protocol import Launcher
from torchstone.measure.executors.worker_handle import STACKS_WAIT, Worker
from torchstone.measure.memory import MemoryWatch, count_kernel_kills
from torchstone.measure.procedures.procedure import Procedure
from torchstone.worker.protocol.jobs import GiveTurn, Job
from torchstone.worker.protocol.replies import (
    PHASES,
    CaseReply,
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
    """Is told what goes on, for whoever looks on."""

    def started(self, case: Case) -> None:
        """A worker for this case has been started."""

    def entered(self, case: Case, phase: str) -> None:
        """The case is in this phase now; ``waiting`` while it waits for its turn to be timed."""

    def tick(self) -> None:
        """Some time has passed."""


class WorkerLimits(Struct, frozen=True):
    """What a case may use: seconds of its own (waiting for its turn is not counted), bytes of memory; and how many run at once."""

    timeout: float
    memory: int | None = None
    jobs: int = 1


class _Active:
    """A case being measured, by the present worker of its procedure."""

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
        """Stop counting time: it is waiting for others."""
        if self.counted_since is not None:
            self.used += time.monotonic() - self.counted_since
            self.counted_since = None

    def go_on(self) -> None:
        """Count time again."""
        if self.counted_since is None:
            self.counted_since = time.monotonic()

    def seconds_used(self) -> float:
        """How much of its time it has used."""
        running = time.monotonic() - self.counted_since if self.counted_since is not None else 0.0
        return self.used + running


def is_last(reply: Reply) -> TypeGuard[LastReply]:
    """Whether a reply ends its case."""
    if isinstance(reply, Malformed):
        return reply.kind in {"result", "error"}
    return isinstance(reply, CaseReply | ErrorReply)


class Supervisor:
    """Runs cases in workers. ``make_procedure`` says what these are told; ``cleanup`` is called when a case has ended."""

    def __init__(
        self,
        launcher: Launcher,
        limits: WorkerLimits,
        make_procedure: Callable[[Case, int], Procedure],
        cleanup: Callable[[int], None],
        watcher: Watcher,
    ) -> None:
        self._launcher = launcher
        self._limits = limits
        self._make_procedure = make_procedure
        self._cleanup = cleanup
        self._watcher = watcher
        self._active: dict[int, _Active] = {}
        self._turn: int | None = None
        self._queue: deque[int] = deque()
        self._at_once = limits.jobs

    def execute(self, cases: Sequence[Case]) -> Generator[Outcome, None, None]:
        """The outcome of each case, as soon as it is there. Closing the iterator ends all workers.

        What ran out of memory beside others comes again, last, and from then on half as many run at once: it may fit then.
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
                    if self._go_on(number, active):
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
        """Start the first worker of a case; one that cannot even begin has its outcome at once."""
        procedure = self._make_procedure(case, number)
        self._watcher.started(case)
        job = procedure.next_job()
        if job is not None:
            self._launch(number, case, procedure, job)
        else:
            self._cleanup(number)
            yield procedure.outcome()

    def _go_on(self, number: int, active: _Active) -> bool:
        """Start the next worker of a procedure; says whether there is one."""
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
        """Wait a moment for messages, output and ends; act on all of them."""
        now = time.monotonic()
        leaving = any(each.closed and now - each.closed_at < 1 for each in self._active.values())
        with selectors.DefaultSelector() as selector:
            for active in self._active.values():
                if not active.worker.log_ended:  # at its end it would always be ready
                    selector.register(active.worker.log, selectors.EVENT_READ)
                if not active.closed:
                    selector.register(active.worker.channel, selectors.EVENT_READ)
            selector.select(_LEAVING_TICK if leaving else _TICK)
        for number, active in list(self._active.items()):
            active.worker.read_log()
            self._listen(number, active)
            self._guard(active)
        self._give_turn()
        self._launcher.poll()

    def _listen(self, number: int, active: _Active) -> None:
        if active.closed:
            return
        replies, active.closed = active.worker.read_replies()
        if active.closed:
            active.closed_at = time.monotonic()
        for reply in replies:
            self._hear(number, active, reply)

    def _hear(self, number: int, active: _Active, reply: Reply) -> None:
        """Act on a reply. One that does not fit the protocol counts only if it should have been the result."""
        if isinstance(reply, PhaseReply):
            active.phase = reply.phase
            self._watcher.entered(active.case, f"{active.procedure.step()} {active.phase}".lstrip())
        elif isinstance(reply, TurnWanted) and self._turn != number and number not in self._queue:
            active.pause()
            self._queue.append(number)
            self._watcher.entered(active.case, "waiting")
        elif isinstance(reply, TurnEnded) and self._turn == number:
            self._turn = None
        elif is_last(reply) and active.killed is None:
            active.result = reply
            active.result_at = time.monotonic()

    def _give_turn(self) -> None:
        """Let the next worker in the queue time, if none does."""
        while self._turn is None and self._queue:
            number = self._queue.popleft()
            active = self._active.get(number)
            if active is not None:
                self._turn = number
                active.go_on()
                active.worker.send(GiveTurn())

    def _guard(self, active: _Active) -> None:
        """End a worker that has used up its time or its memory, or that has answered and does not leave."""
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
            message = "the worker's channel was closed, so that no result can come"
            active.killed = Ending("worker_died", message, now)
        elif active.seconds_used() > self._limits.timeout:
            active.worker.show_stacks()
            active.killed = Ending.timed_out(self._limits.timeout, now + STACKS_WAIT)
        elif excess := active.memory.excess():
            active.worker.kill()
            active.killed = Ending(out_of_memory_status(active.phase), excess, now)

    def _is_over(self, active: _Active) -> bool:
        return active.worker.exit_code is not None

    def _end(self, number: int, active: _Active) -> Outcome:
        """The outcome of a worker that is gone, with all of its descendants."""
        worker = active.worker
        worker.kill()  # whatever it left behind in its session
        self._listen(number, active)
        if self._turn == number:
            self._turn = None
        if number in self._queue:
            self._queue.remove(number)
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
        return outcome
