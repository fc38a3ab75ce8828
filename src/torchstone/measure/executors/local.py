"""Run workers on this machine: forked from the zygote or spawned, each with its own channel, log and process session."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import summarise_error
from torchstone.measure.executors.protocol import (
    CannotMeasureError,
    LauncherRequest,
    LoadingLauncher,
    problem_of,
)
from torchstone.measure.executors.worker_handle import Worker
from torchstone.worker.channel import Channel, decode, encode
from torchstone.worker.process_tree import continue_if_stopped, has_ended, kill_group, kill_tree
from torchstone.worker.protocol.jobs import Job, encode_job
from torchstone.worker.protocol.keeper_messages import (
    KeeperBroken,
    KeeperReady,
    KeeperReply,
    KeeperSetup,
    LibrariesPreloaded,
    PreloadLibraries,
    StartFailed,
    StartWorker,
    WorkerExited,
    WorkerStarted,
    decode_keeper_reply,
    encode_keeper_message,
)

_GRACE = 10.0
_KEEPER_GRACE = 10.0
_KILL_PATIENCE = 2.0
_LOOK_AGAIN = 0.5
_START_TIMEOUT = 120.0
_PRELOAD_TIMEOUT = 600.0
_NAMES_AT_ONCE = 500
_TRY_SPAWN = "try --start spawn"
_KEEPERS = {"fork": "torchstone.worker.zygote", "spawn": "torchstone.worker.forking"}


Wanted = TypeVar("Wanted", bound=KeeperReply)
Other = TypeVar("Other", bound=KeeperReply)


class _WorkerDescriptors:
    """The descriptors of a new worker: the parent's ends and the worker's ends."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.log_read, self.log_write = os.pipe()

    def hand_over(self, pid: int, job: Job) -> Worker:
        """Close the worker's ends in this process, and send the job."""
        self.theirs.close()
        os.close(self.log_write)
        worker = Worker(pid, Channel(self.ours), self.log_read)
        with contextlib.suppress(ConnectionError):  # it has died already, which is detected later
            worker.channel.send(encode_job(job))
        return worker

    def close(self) -> None:
        """Close all ends: no worker was started."""
        self.ours.close()
        self.theirs.close()
        os.close(self.log_read)
        os.close(self.log_write)


class LocalExecutor:
    """Runs workers on this machine."""

    def open(self, request: LauncherRequest) -> LoadingLauncher:
        """Start a keeper, which needs Linux; elsewhere, spawn workers from this process."""
        if not sys.platform.startswith("linux"):
            return Spawner(request.variables, request.python)
        return KeeperLauncher(
            request.start,
            request.variables,
            request.setup,
            request.log_path,
            request.python,
            keep=request.keep,
        )


class Spawner:
    """Starts a new interpreter for every worker, without a keeper: for systems other than Linux."""

    start = "spawn"

    def __init__(self, variables: Mapping[str, str], python: str = sys.executable) -> None:
        self._variables = dict(variables)
        self._python = python
        self._running: list[tuple[subprocess.Popen[bytes], Worker]] = []

    def launch(self, job: Job) -> Worker:
        """Start a worker with its job."""
        descriptors = _WorkerDescriptors()
        process = subprocess.Popen(  # noqa: S603  (the chosen interpreter, as a list of arguments)
            [self._python, "-P", "-m", "torchstone.worker.worker", str(descriptors.theirs.fileno())],
            pass_fds=(descriptors.theirs.fileno(),),
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=descriptors.log_write,
            stderr=descriptors.log_write,
            start_new_session=True,
        )
        worker = descriptors.hand_over(process.pid, job)
        self._running.append((process, worker))
        return worker

    def wait_until_ready(self, timeout: float) -> KeeperReady:  # noqa: ARG002  (nothing is loaded)
        """Return at once: nothing is loaded."""
        return KeeperReady(0.0)

    def renew(self) -> Callable[[], None]:
        """Do nothing: every worker is a new process."""
        return lambda: None

    def preload(self, libraries: Sequence[str]) -> str:  # noqa: ARG002  (nothing is shared between workers)
        """Return that nothing is preloaded: every worker is a new interpreter."""
        return "not preloaded"

    def poll(self) -> None:
        """Record which workers have exited."""
        for process, worker in self._running:
            worker.exit_code = process.poll()
        self._running = [each for each in self._running if each[1].exit_code is None]

    def close(self) -> None:
        """Kill everything that was started."""
        for process, worker in self._running:
            worker.kill()
            process.wait()
        self._running = []


class _KeeperGoneError(Exception):
    """The keeper has died, or does not answer."""


class KeeperLauncher:
    """Starts workers through a keeper, a separate process that forks or spawns them, as ``start`` says.

    If a keeper dies, its workers die too, and it is replaced when the next worker is started.
    """

    def __init__(
        self,
        start: str,
        variables: Mapping[str, str],
        setup: KeeperSetup,
        log_path: str,
        python: str = sys.executable,
        before: Sequence[str] = (),
        keep: Sequence[int] = (),
    ) -> None:
        self.start = start
        self._keep = keep  # descriptors that the keeper inherits
        self._before = before  # a command that executes the keeper and everything it forks
        self._variables = dict(variables)
        self._setup = setup
        self._log_path = log_path
        self._python = python
        self._workers: dict[int, Worker] = {}
        self._libraries: list[str] = []
        self._begin()

    def _begin(self) -> None:
        self._replies: list[KeeperReply] = []
        self._is_loading = True
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, open(self._log_path, "ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  (the chosen interpreter, as a list of arguments)
                [*self._before, self._python, "-P", "-m", _KEEPERS[self.start], str(theirs.fileno())],
                pass_fds=(theirs.fileno(), *self._keep),
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        with contextlib.suppress(ConnectionError):  # it has died already, which is detected later
            self._control.send(encode(encode_keeper_message(self._setup)))

    def wait_until_ready(self, timeout: float) -> KeeperReady | KeeperBroken:
        """Wait until the keeper has loaded; return the problems it found."""
        try:
            reply = self._wait(KeeperReady, KeeperBroken, timeout=timeout)
        except _KeeperGoneError as gone:
            return KeeperBroken(str(gone))
        self._is_loading = False
        if isinstance(reply, KeeperBroken):
            return KeeperBroken(redact(reply.broken), reply.torch_missing)
        return KeeperReady(reply.ready, redact(reply.blocked), tuple(map(redact, reply.notes)))

    def preload(self, libraries: Sequence[str]) -> str:
        """Import libraries in the keeper; return why it could not fork after that, empty if it can."""
        if self.start != "fork":
            return "not preloaded"
        self._libraries = list(libraries)
        try:
            for first in range(0, len(libraries), _NAMES_AT_ONCE):
                self._send(PreloadLibraries(tuple(libraries[first : first + _NAMES_AT_ONCE])))
                reply = self._wait(LibrariesPreloaded, LibrariesPreloaded, timeout=_PRELOAD_TIMEOUT)
                if reply.preloaded:
                    return reply.preloaded
        except (ConnectionError, _KeeperGoneError) as error:
            self._libraries = []
            return str(error)
        return ""

    def launch(self, job: Job) -> Worker:
        """Start a worker with its job."""
        try:
            return self._launch(job)
        except _KeeperGoneError:
            self._replace()
        try:
            return self._launch(job)
        except _KeeperGoneError as gone:
            raise CannotMeasureError(f"the process that starts workers {gone}", advice=_TRY_SPAWN) from None

    def _send(self, order: PreloadLibraries) -> None:
        self._control.send(encode(encode_keeper_message(order)))

    def _launch(self, job: Job) -> Worker:
        descriptors = _WorkerDescriptors()
        order = encode(encode_keeper_message(StartWorker()))
        try:
            socket.send_fds(self._control, [order], [descriptors.theirs.fileno(), descriptors.log_write])
            reply = self._wait(WorkerStarted, StartFailed, timeout=_START_TIMEOUT)
            if isinstance(reply, StartFailed):
                raise CannotMeasureError(reply.failed)
        except ConnectionError:
            descriptors.close()
            raise _KeeperGoneError("has died") from None
        except BaseException:
            descriptors.close()
            raise
        worker = descriptors.hand_over(reply.started, job)
        self._workers[worker.pid] = worker
        return worker

    def renew(self) -> Callable[[], None]:
        """Replace the keeper while no worker runs; the returned function waits until the new one is ready."""
        self._process.kill()  # not by closing the connection: it would then remove the scratch folder
        self._replace(wait=False)
        return self._await_keeper

    def _replace(self, *, wait: bool = True) -> None:
        """Start a new keeper; everything that the old one started is killed."""
        self._end_keeper(patience=0)
        self._lose_workers()
        self._begin()
        if wait:
            self._await_keeper()

    def _await_keeper(self) -> None:
        reply = self.wait_until_ready(_PRELOAD_TIMEOUT)
        if problem := problem_of(reply):
            message = f"workers can no longer be started: {summarise_error(problem)}"
            raise CannotMeasureError(message, advice=_TRY_SPAWN)
        self.preload(self._libraries)

    def poll(self) -> None:
        """Record which workers have exited; if the keeper is gone, all have."""
        alive = self._read(wait=0.0)
        for reply in self._replies:
            worker = self._workers.pop(reply.exited, None) if isinstance(reply, WorkerExited) else None
            if worker is not None and isinstance(reply, WorkerExited):
                worker.exit_code = reply.status
        self._replies = [reply for reply in self._replies if not isinstance(reply, WorkerExited)]
        if not alive:
            self._lose_workers()
        self._watch_keeper()

    def _watch_keeper(self) -> None:
        """Continue a keeper that a model has stopped; kill one that still does not report exits, with everything it started."""
        continue_if_stopped(self._process.pid)
        latest = time.monotonic() - _KEEPER_GRACE
        if any(
            worker.killed_at is not None and worker.killed_at < latest and has_ended(worker.pid)
            for worker in self._workers.values()
        ):
            kill_tree(self._process.pid, _KILL_PATIENCE)
            self._lose_workers()

    def _lose_workers(self) -> None:
        for worker in self._workers.values():
            worker.kill()
            worker.exit_code = -signal.SIGKILL
        self._workers = {}

    def close(self) -> None:
        """Kill everything that was started."""
        for worker in self._workers.values():
            worker.kill()
        if self._is_loading:  # it does not read messages yet, and has started only a compiler
            kill_group(self._process.pid)
        self._end_keeper(_GRACE)

    def _end_keeper(self, patience: float) -> None:
        self._control.close()
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            continue_if_stopped(self._process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(min(_LOOK_AGAIN, max(0.0, deadline - time.monotonic())))
                return
        if self._process.poll() is None:
            kill_tree(self._process.pid, _KILL_PATIENCE)
            self._process.wait()

    def _wait(self, wanted: type[Wanted], other: type[Other], *, timeout: float) -> Wanted | Other:
        """Return the next reply of one of two kinds."""
        deadline = time.monotonic() + timeout
        while True:
            for number, reply in enumerate(self._replies):
                if isinstance(reply, (wanted, other)):
                    del self._replies[number]
                    return reply
            left = deadline - time.monotonic()
            if left <= 0:
                raise _KeeperGoneError(f"did not answer within {timeout:g} s")
            if not self._read(wait=min(left, _LOOK_AGAIN)):
                raise _KeeperGoneError("has died")
            continue_if_stopped(self._process.pid)

    def _read(self, wait: float) -> bool:
        """Read replies, waiting up to ``wait`` seconds for the first; return False if the connection is closed."""
        self._control.settimeout(wait)
        try:
            while True:
                data = self._control.recv(1 << 16)
                if not data:
                    return False
                reply = decode_keeper_reply(decode(data.strip()))
                self._replies += [reply] if reply is not None else []
                self._control.settimeout(0.0)
        except (BlockingIOError, TimeoutError):
            return True
        except ConnectionError:
            return False
        finally:
            with contextlib.suppress(OSError):
                self._control.settimeout(None)
