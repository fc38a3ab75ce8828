"""Answer jobs with scripted replies instead of processes, so that displays of a run can be tested exactly and quickly."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from torchstone.measure.executors.protocol import LauncherRequest
from torchstone.measure.executors.worker_handle import Worker
from torchstone.worker.channel import Channel, Message, encode
from torchstone.worker.protocol.caution_message import CautionMessage
from torchstone.worker.protocol.jobs import Job, MakeCalls, MeasureJob, Order, PrimeJob, SurveyJob
from torchstone.worker.protocol.keeper_messages import KeeperReady
from torchstone.worker.protocol.replies import (
    PHASES,
    BenchmarkFound,
    CaseDetails,
    CaseReply,
    CollectivesFound,
    DeviceWanted,
    EnvironmentFound,
    FailureReport,
    LookingAt,
    Measured,
    MeasuredDetails,
    Phase,
    PhaseReply,
    Primed,
    Ready,
    Reply,
    SourceFound,
    SurveyReply,
    TurnEnded,
    TurnReady,
    TurnTaken,
    TurnWanted,
    encode_reply,
)

NO_PROCESS = 1 << 23
"""The process id of fake workers: larger than any that Linux assigns."""


@dataclass(frozen=True)
class Prints:
    """A step of a script: the worker prints this."""

    text: str


@dataclass(frozen=True)
class Works:
    """A step of a script: the worker is busy until it has been looked at this often."""

    looks: int


Step = Reply | Message | bytes | Prints | Works
"""The next action of a fake worker: send a reply, a message or a raw line, print, or be busy."""

Script = Generator[Step, Order | None, int | None]
"""The actions of a fake worker; resumed with an order after ``TurnWanted``, ``DeviceWanted``, ``TurnReady`` and ``TurnTaken``. Returns the exit code."""


class FakeWorker(Worker):
    """A worker that executes a script."""

    def __init__(self, script: Script) -> None:
        ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(True)
        log_read, self._log_write = os.pipe()
        super().__init__(NO_PROCESS, Channel(ours), log_read)
        self._script = script
        self._looks = 0
        self._advance(None)

    def look(self) -> None:
        """Resume a script that is busy, if it has been looked at often enough."""
        if self._looks and self.exit_code is None:
            self._looks -= 1
            if not self._looks:
                self._advance(None)

    def send(self, order: Order) -> None:
        """Resume the script with an order."""
        if self.exit_code is None:
            self._advance(order)

    def kill(self) -> None:
        """End the script."""
        if self.exit_code is None:
            self._script.close()
            self._end(-signal.SIGKILL)

    def show_stacks(self) -> None:
        """Do nothing: a script has no stacks."""

    def _advance(self, order: Order | None) -> None:
        """Execute steps until the script waits for an order, is busy, or ends."""
        try:
            step = self._script.send(order)
            while not self._do(step):
                step = next(self._script)
        except StopIteration as end:
            self._end(end.value or 0)

    def _do(self, step: Step) -> bool:
        """Execute one step; return whether the script now waits for an order."""
        if isinstance(step, Works):
            self._looks = step.looks
            return True
        if isinstance(step, Prints):
            os.write(self._log_write, step.text.encode())
            return False
        if isinstance(step, bytes):
            self._theirs.sendall(b"\n" + step + b"\n")
            return False
        self._theirs.sendall(b"\n" + encode(step if isinstance(step, dict) else encode_reply(step)))
        return isinstance(step, TurnWanted | DeviceWanted | TurnReady | TurnTaken)

    def _end(self, code: int) -> None:
        self.exit_code = code
        self._theirs.close()
        os.close(self._log_write)


class FakeLauncher:
    """Starts fake workers."""

    def __init__(self, start: str, answer: Callable[[Job], Script]) -> None:
        self.start = start
        self._answer = answer
        self._workers: list[FakeWorker] = []

    def launch(self, job: Job) -> Worker:
        """Start a worker that answers a job."""
        self._workers.append(FakeWorker(self._answer(job)))
        return self._workers[-1]

    def wait_until_ready(self, timeout: float) -> KeeperReady:  # noqa: ARG002  (it is ready at once)
        """Return at once: nothing is loaded."""
        return KeeperReady(0.0)

    def preload(self, libraries: Sequence[str]) -> str:  # noqa: ARG002  (there is no process to load them into)
        """Do nothing: there is nothing to load."""
        return ""

    def renew(self) -> Callable[[], None]:
        """Do nothing: fake workers share nothing."""
        return lambda: None

    def poll(self) -> None:
        """Let busy workers go on; they record their own exit."""
        self._workers = [worker for worker in self._workers if worker.exit_code is None]
        for worker in self._workers:
            worker.look()

    def close(self) -> None:
        """Do nothing: the owner of a worker closes it."""


class FakeExecutor:
    """Answers surveys with these benchmarks, and measuring jobs with a script; ``jobs`` records all jobs.

    ``accelerators`` are the names of the machine's fake ``cuda`` devices.
    """

    def __init__(
        self,
        measure: Callable[[MeasureJob], Script],
        benchmarks: Sequence[BenchmarkFound] = (),
        accelerators: Sequence[str] = (),
    ) -> None:
        self._measure = measure
        self._benchmarks = tuple(benchmarks)
        self._accelerators = tuple(accelerators)
        self.jobs: list[Job] = []

    def open(self, request: LauncherRequest) -> FakeLauncher:
        """Return a launcher of fake workers."""
        return FakeLauncher(request.start, self._answer)

    def _answer(self, job: Job) -> Script:
        self.jobs.append(job)
        if isinstance(job, SurveyJob):
            return self._survey(job)
        return _prime(job) if isinstance(job, PrimeJob) else self._measure(job)

    def _survey(self, job: SurveyJob) -> Script:
        yield Ready(NO_PROCESS)
        yield LookingAt("")
        yield survey_reply(job, self._benchmarks, self._accelerators)
        return 0


def _prime(job: PrimeJob) -> Script:
    """Create an empty cache: nothing is compiled."""
    os.makedirs(os.path.join(job.template, "cache"), exist_ok=True)
    yield Primed(job.template)
    return 0


def survey_reply(
    job: SurveyJob, benchmarks: Sequence[BenchmarkFound], accelerators: Sequence[str] = ()
) -> SurveyReply:
    """Return the survey of a machine with one processor, on which every source defines these benchmarks."""
    sources = tuple(SourceFound(source, tuple(benchmarks)) for source in job.sources)
    if not job.torch:
        return SurveyReply(sources, (), ())
    environment = EnvironmentFound(
        machine={"cpu": {"model": "fake"}, "cores": {"logical": 2, "allowed": 2}},
        device="cuda" if accelerators else "cpu",
        accelerators=tuple(
            {"index": number, "name": name, "memory": 80 << 30} for number, name in enumerate(accelerators)
        ),
        software={
            "python": {"version": "3.12.0", "implementation": "CPython"},
            "torch": {"version": "2.9.0"},
        },
        versions={"torch": "2.9.0"},
        variables={},
        threads=job.threads or 1,
    )
    return SurveyReply(
        sources,
        (),
        (),
        devices=dict.fromkeys(job.devices or ("cuda" if accelerators else "cpu",), ""),
        available=("cpu", "cuda") if accelerators else ("cpu",),
        backends=("inductor", "eager", "none"),
        collectives=CollectivesFound(("gloo",), "gloo", 2),
        refused={},
        environment=environment,
    )


def passes(
    speedup: float = 1.5,
    latency: float = 2.0,
    cautions: Sequence[CautionMessage] = (),
    compile_seconds: float = 3.0,
) -> Script:
    """Pass a performance case with this speedup, latency of a compiled call in milliseconds, and compile time."""
    for phase in PHASES:
        yield PhaseReply(phase)
    yield TurnWanted()
    yield TurnEnded()
    details = MeasuredDetails(pairs=20, interval=(speedup * 0.99, speedup * 1.01), confidence=0.95)
    measured = (
        Measured("speedup", (speedup,), details),
        Measured("abs_latency", (latency, latency, latency)),
        Measured("eager_latency", (latency * speedup,) * 3),
        Measured("compile_seconds", (compile_seconds,), MeasuredDetails(start="fork", cache="cold")),
        Measured("graph_breaks", (0,)),
    )
    extra = CaseDetails(duration=4.0, phases={"load": 0.5, "compile": 3.0})
    yield CaseReply("pass", measured, extra, cautions=tuple(cautions))
    return 0


def fails(status: str, message: str, phase: str = "compile", printed: str = "") -> Script:
    """End a case with a status and a message."""
    yield PhaseReply("load")
    if printed:
        yield Prints(printed)
    yield CaseReply(status, (), CaseDetails(duration=1.0), FailureReport(phase, message, "Traceback: ..."))
    return 0


def crashes(signal_number: int = signal.SIGSEGV, phase: Phase = "compile") -> Script:
    """Crash with a signal."""
    yield PhaseReply(phase)
    return -signal_number


def takes_turns(nanoseconds: Callable[[int], float]) -> Script:
    """Act as a worker of a pair; ``nanoseconds`` returns the time of a call for each turn number."""
    yield PhaseReply("compile")
    yield PhaseReply("run")
    number = 0
    order = yield TurnReady(nanoseconds(number))
    while isinstance(order, MakeCalls) and order.go:
        number += 1
        order = yield TurnTaken(nanoseconds(number))
    yield CaseReply("pass", (), CaseDetails(duration=1.0))
    return 0
