"""The worker: a process that does one job for the parent, replies on its own channel, and exits."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import resource
import signal
import socket
import sys
import traceback
from dataclasses import replace

from torchstone.worker import worker_environment
from torchstone.worker.benchmark_sources import SourceError
from torchstone.worker.cache_template import compile_tiny_graph, fill
from torchstone.worker.channel import Channel, Message, as_json
from torchstone.worker.failures import failure_of, is_torch_missing, status_of, trace_of
from torchstone.worker.forking import redirect
from torchstone.worker.loading import load_measured
from torchstone.worker.machine.clock import monotonic
from torchstone.worker.probes.reply import PhaseClock, Result, Stopped, tell
from torchstone.worker.protocol.codec import MalformedError, from_json, to_json
from torchstone.worker.protocol.jobs import (
    Job,
    MeasureJob,
    Order,
    PrimeJob,
    SurveyJob,
    decode_job,
    decode_order,
)
from torchstone.worker.protocol.replies import (
    CaseDetails,
    CaseReply,
    DeviceReleased,
    DeviceWanted,
    ErrorReply,
    FailureReport,
    Measured,
    PhaseReply,
    Primed,
    Ready,
    Reply,
    TurnEnded,
    TurnReady,
    TurnTaken,
    TurnWanted,
    encode_reply,
)
from torchstone.worker.ranks.agent import run_round
from torchstone.worker.survey import TorchLoadingError, survey
from torchstone.worker.torch_code import run_case


class WorkerReporter:
    """Report phases to the parent, and wait for the turn to time."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def send(self, reply: Reply) -> None:
        """Send a reply."""
        self._channel.send(encode_reply(reply))

    def enter(self, phase: str) -> None:
        """Report that a phase begins."""
        self.send(PhaseReply(phase))  # type: ignore[arg-type]  # the parent validates it

    def wait_for_turn(self) -> None:
        """Wait until no other worker is timing."""
        self.send(TurnWanted())
        if self._channel.receive() is None:
            os._exit(1)  # the parent is gone

    def end_turn(self) -> None:
        """Let another worker time."""
        self.send(TurnEnded())

    def wait_for_device(self) -> None:
        """Wait until no other worker is timing on the device."""
        self.send(DeviceWanted())
        if self._channel.receive() is None:
            os._exit(1)  # the parent is gone

    def release_device(self) -> None:
        """Let another worker time on the device."""
        self.send(DeviceReleased())

    def exchange(self, reply: TurnReady | TurnTaken) -> Order:
        """Send a reply, and wait for the parent's order."""
        self.send(reply)
        message = self._channel.receive()
        if message is None:
            os._exit(1)  # the parent is gone
        return decode_order(message)


def run_worker(channel_fd: int, log_fd: int | None) -> None:
    """Do the one job that arrives on the channel, then exit at once: models leave threads and exit hooks behind."""
    code = 1
    try:
        if log_fd is not None:
            redirect(log_fd)
        faulthandler.enable(file=2, all_threads=True)
        faulthandler.register(signal.SIGUSR2, file=2, all_threads=True)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        channel = Channel(socket.socket(fileno=channel_fd))
        message = channel.receive()
        if message is not None:
            reporter = WorkerReporter(channel)
            reporter.send(Ready(os.getpid()))
            reporter.send(do_job(message, reporter))
            code = 0
    except BaseException:  # noqa: BLE001  (the parent is gone, or the model has closed the channel: only the log can say so)
        with contextlib.suppress(Exception):
            traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def do_job(message: Message, reporter: WorkerReporter) -> Reply:
    """Do a job, and return the reply; errors become part of it."""
    try:
        job = decode_job(message)
    except MalformedError as error:
        return ErrorReply(f"the worker does not understand its job: {error}")
    try:
        return _do_job(job, reporter)
    except SourceError as error:
        return error.reply()
    except BaseException as error:  # noqa: BLE001  (reported to the parent, which shows it)
        return ErrorReply(tell(error), traceback=trace_of(error), torch_missing=is_torch_missing(error))


def _do_job(job: Job, reporter: WorkerReporter) -> Reply:
    if isinstance(job, SurveyJob):
        return _survey(job, reporter)
    if isinstance(job, PrimeJob):
        importlib.import_module("torch._inductor.codecache")  # its headers go into the present TMPDIR
        _use_temporary(job)
        fill(job.template, compile_tiny_graph)
        return Primed(job.template)
    return _measure(job, reporter)


def _survey(job: SurveyJob, reporter: WorkerReporter) -> Reply:
    _use_temporary(job)
    try:
        return survey(job, reporter.send)
    except TorchLoadingError as error:
        trace, missing = trace_of(error.__cause__ or error), is_torch_missing(error)
        return ErrorReply(str(error), traceback=trace, is_of_torch=True, torch_missing=missing)


def _use_temporary(job: SurveyJob | PrimeJob) -> None:
    """Use the job's folder for temporary files, if it names one: it is removed even if this process is killed."""
    if job.temporary:
        worker_environment.enter({"TMPDIR": job.temporary})


def _measure(job: MeasureJob, reporter: WorkerReporter) -> CaseReply:
    """Measure one case. A case that fails ends with a status, and keeps what was measured until then."""
    result = Result()
    clock = PhaseClock(reporter, result, shares_device=job.shares_device)
    started = monotonic()
    failure: FailureReport | None = None
    try:
        _probe(job, reporter, clock, result)
    except Stopped as stop:
        result.status = stop.status
        failure = failure_of(clock.phase, stop.message or tell(stop.error or stop), stop.error)
    except BaseException as error:  # noqa: BLE001  (a model can raise anything, and all of it is a result)
        result.status = status_of(error, clock.phase, job.probe)
        failure = failure_of(clock.phase or "load", tell(error), error)
    clock.leave()
    if failure is None and result.message:
        failure = FailureReport(message=result.message)
    result.details = replace(result.details, duration=round(monotonic() - started, 3))
    return make_reply(result, failure)


def make_reply(result: Result, failure: FailureReport | None) -> CaseReply:
    """Convert the result of a probe to a reply; what the parent would refuse is an error here, where its cause is."""
    measured = as_json([to_json(each) for each in result.measurements])
    return CaseReply(
        result.status,
        tuple(
            from_json(Measured, each, f"result.measurements[{index}]") for index, each in enumerate(measured)
        ),
        from_json(CaseDetails, as_json(to_json(result.details)), "result.extra"),
        failure,
        tuple(result.cautions),
    )


def _probe(job: MeasureJob, reporter: WorkerReporter, clock: PhaseClock, result: Result) -> None:
    clock.enter("load")
    if job.round is not None:
        worker_environment.enter(job.environment or {})
        run_round(job, job.round, clock, result)
        return
    run_case(load_measured(job), job, clock, result, reporter.exchange)


def main() -> None:
    """Run a spawned worker; its channel is the descriptor named on the command line."""
    run_worker(int(sys.argv[1]), None)


if __name__ == "__main__":
    main()
