"""The worker: one process that does one job for the parent, tells it on its own channel, and ends."""

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

from torchstone.core.clock import monotonic
from torchstone.worker import worker_environment
from torchstone.worker.channel import Channel, Message
from torchstone.worker.failures import failure_of, status_of, trace_of
from torchstone.worker.keeper import redirect
from torchstone.worker.loading import load_measured
from torchstone.worker.probes.reply import PhaseClock, Result, Stopped, tell
from torchstone.worker.sources import SourceError


class WorkerReporter:
    """Tells the parent about phases, and waits for its turn to time."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def enter(self, phase: str) -> None:
        """Say that a phase begins."""
        self._channel.send({"phase": phase})

    def wait_for_turn(self) -> None:
        """Wait until the parent says that no other worker is timing."""
        self._channel.send({"want": "turn"})
        answer = self._channel.receive()
        if answer is None:
            os._exit(1)  # the parent is gone, and with it the reason to measure

    def end_turn(self) -> None:
        """Let another worker time."""
        self._channel.send({"done": "turn"})

    def exchange(self, message: Message) -> Message:
        """Say something, and wait for what the parent says to it."""
        self._channel.send(message)
        answer = self._channel.receive()
        if answer is None:
            os._exit(1)  # as above
        return answer


def run_worker(channel_fd: int, log_fd: int | None) -> None:
    """Do the one job that the channel brings, and end the process without ceremony: models leave threads and exit hooks behind."""
    code = 1
    try:
        if log_fd is not None:
            redirect(log_fd)
        faulthandler.enable(file=2, all_threads=True)
        faulthandler.register(signal.SIGUSR2, file=2, all_threads=True)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        channel = Channel(socket.socket(fileno=channel_fd))
        job = channel.receive()
        if job is not None:
            channel.send({"ready": os.getpid()})
            channel.send(do(job, channel))
            code = 0
    except BaseException:  # noqa: BLE001  (the parent is gone, or the model has closed the channel: only the log can tell)
        with contextlib.suppress(Exception):
            traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def do(job: Message, channel: Channel) -> Message:
    """Do a job; whatever goes wrong is part of the answer."""
    try:
        if job["job"] == "survey":
            return _survey(job, channel)
        if job["job"] == "prime":
            from torchstone.worker.cache_template import compile_tiny_graph, fill  # noqa: PLC0415  (torch, only now)

            importlib.import_module("torch._inductor.codecache")  # its headers go where TMPDIR is now
            _use_temporary(job)
            fill(job["template"], compile_tiny_graph)
            return {"primed": job["template"]}
        return {"result": _measure(job, WorkerReporter(channel))}
    except SourceError as error:
        return {"error": error.told()}
    except BaseException as error:  # noqa: BLE001  (told to the parent, which shows it)
        return {"error": {"message": tell(error), "traceback": trace_of(error)}}


def _survey(job: Message, channel: Channel) -> Message:
    from torchstone.worker.survey import TorchLoadingError, survey  # noqa: PLC0415  (only that job needs it)

    _use_temporary(job)
    try:
        return {"survey": survey(job, channel.send)}
    except TorchLoadingError as error:
        cause = error.__cause__ or error
        return {"error": {"message": str(error), "traceback": trace_of(cause), "is_of_torch": True}}


def _use_temporary(job: Message) -> None:
    """Put temporary files where they are removed even if this process is killed, if the job says where that is."""
    if "temporary" in job:
        worker_environment.enter({"TMPDIR": job["temporary"]})


def _measure(job: Message, reporter: WorkerReporter) -> Message:
    """Measure one case. A case that goes wrong ends with a status, with whatever was measured until then."""
    result = Result()
    clock = PhaseClock(reporter, result)
    started = monotonic()
    failure: Message | None = None
    try:
        _probe(job, reporter, clock, result)
    except Stopped as stop:
        result.status = stop.status
        failure = failure_of(clock.phase, stop.message or tell(stop.error or stop), stop.error)
    except BaseException as error:  # noqa: BLE001  (a model can raise anything, and all of it is a result)
        result.status = status_of(error, clock.phase, job["probe"])
        failure = failure_of(clock.phase or "load", tell(error), error)
    clock.leave()
    if failure is None and result.message:
        failure = {"message": result.message}
    result.extra["duration"] = round(monotonic() - started, 3)
    return {
        "status": result.status,
        "measurements": result.measurements,
        "extra": result.extra,
        "cautions": result.cautions,
        "failure": failure,
    }


def _probe(job: Message, reporter: WorkerReporter, clock: PhaseClock, result: Result) -> None:
    clock.enter("load")
    if job["probe"] == "scaling":
        from torchstone.worker.ranks.agent import run_round  # noqa: PLC0415  (torch's launcher, only now)

        worker_environment.enter(job.get("surroundings", {}))
        run_round(job, clock, result)
        return
    measured = load_measured(job)
    from torchstone.worker.probes.run_case import run_case  # noqa: PLC0415  (imports torch)

    run_case(measured, job, clock, result, reporter.exchange)


def main() -> None:
    """A spawned worker: its channel is the descriptor named on the command line."""
    run_worker(int(sys.argv[1]), None)


if __name__ == "__main__":
    main()
