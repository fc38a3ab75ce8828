"""Fork workers on request, in the keeper: a process that reports their exits, and ends them all if the parent is gone.

The parent may be killed at any moment, and a worker may leave processes behind outside its process group. The
keeper adopts these, so that it can end them. It notices that the parent is gone when its socket is closed. Run
as a program, it starts every worker in a new interpreter; the zygote is a keeper that has torch loaded and
forks.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence

from torchstone.worker.channel import decode, encode
from torchstone.worker.process_tree import (
    adopt_orphans,
    die_with_parent,
    dying_with_parent,
    kill_children,
    kill_group,
    list_children,
    prefer_oom_kill,
    wake_with_parent,
)
from torchstone.worker.protocol.keeper_messages import (
    KeeperReady,
    KeeperReply,
    KeeperSetup,
    LibrariesPreloaded,
    PreloadLibraries,
    StartFailed,
    WorkerExited,
    WorkerStarted,
    decode_keeper_order,
    decode_keeper_setup,
    encode_keeper_message,
)
from torchstone.worker.scratch import remove_scratch

LONGEST_MESSAGE = 1 << 16
_PATIENCE = 5.0

Become = Callable[[int, int], None]
"""Turns a new process into a worker, given the descriptors of its channel and its log; does not return."""


def main() -> None:
    """Run a keeper without torch, which starts every worker in a new interpreter."""
    control, setup = open_control(int(sys.argv[1]))
    tell(control, KeeperReady(0.0))
    serve(control, become_fresh_interpreter, setup)


def open_control(descriptor: int) -> tuple[socket.socket, KeeperSetup]:
    """Return the socket to the parent, and the parent's first message."""
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    setup = decode_keeper_setup(decode(control.recv(LONGEST_MESSAGE).strip()))
    if setup.lock is not None:  # of the scratch folder: held as long as this process lives
        os.set_inheritable(setup.lock, False)
    return control, setup


def has_hung_up(control: socket.socket) -> bool:
    """Return whether the parent is gone."""
    poller = select.poll()
    poller.register(control, 0)
    return any(event & select.POLLHUP for _, event in poller.poll(0))


def become_fresh_interpreter(channel: int, log: int) -> None:
    """Replace this process with a new interpreter that runs a worker."""
    redirect(log)
    os.set_inheritable(channel, True)
    arguments = [sys.executable, "-P", "-m", "torchstone.worker.worker", str(channel)]
    os.execv(sys.executable, arguments)  # noqa: S606  (our own interpreter)


def redirect(log: int) -> None:
    """Redirect standard output and error to the log, and standard input from the null device."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nowhere)
    if log > 2:
        os.close(log)


def serve(
    control: socket.socket,
    become: Become,
    setup: KeeperSetup,
    preload: Callable[[Sequence[str]], str] | None = None,
) -> None:
    """Start workers until the parent is gone; then kill those that are left, remove the scratch folder, and exit."""
    adopt_orphans()
    wake_with_parent()
    read, write = os.pipe()
    for descriptor in (read, write):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    workers: set[int] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(read, selectors.EVENT_READ)

        def begin(channel: int, log: int) -> int:
            keeper, pid = os.getpid(), os.fork()
            if pid == 0:
                selector.close()
                _become_worker(become, channel, log, (control.detach(), read, write), keeper)
            return pid

        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(read, 4096)
            _report_exits(control, workers)
            if control in ready and not _take_request(control, workers, begin, preload):
                break
    for pid in workers:
        kill_group(pid)
    kill_children(_PATIENCE)
    if setup.scratch:
        remove_scratch(setup.scratch)
    os._exit(0)  # at once: tearing torch down would take a second


def _become_worker(become: Become, channel: int, log: int, not_mine: tuple[int, ...], keeper: int) -> None:
    """In a new process: start a session, close the keeper's descriptors, and become a worker."""
    try:
        os.setsid()
        die_with_parent(keeper)
        adopt_orphans()
        prefer_oom_kill()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in not_mine:
            os.close(descriptor)
        os.set_inheritable(channel, False)
        become(channel, log)
    except BaseException:  # noqa: BLE001  (this process must never continue as a second keeper)
        traceback.print_exc()
    finally:
        os._exit(1)


def _take_request(
    control: socket.socket,
    workers: set[int],
    begin: Callable[[int, int], int],
    preload: Callable[[Sequence[str]], str] | None,
) -> bool:
    """Handle one request of the parent, usually to start a worker; return False if the parent is gone."""
    try:
        message, descriptors, _, _ = socket.recv_fds(control, LONGEST_MESSAGE, 2)
    except ConnectionError:
        return False
    if not message:
        return False
    order = decode_keeper_order(decode(message.strip()))
    if isinstance(order, PreloadLibraries):
        with dying_with_parent():
            problem = preload(order.preload) if preload is not None else "not preloaded"
        return tell(control, LibrariesPreloaded(problem))
    try:
        pid = begin(*descriptors)
    except OSError as error:
        return tell(control, StartFailed(f"cannot start a process: {error.strerror}"))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    workers.add(pid)
    return tell(control, WorkerStarted(pid))


def _report_exits(control: socket.socket, workers: set[int]) -> None:
    """Tell the parent which workers have exited, and kill the processes they left behind."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid in workers:
                workers.discard(pid)
                ended[pid] = os.waitstatus_to_exitcode(status)
    for pid in list_children(os.getpid()):
        if pid not in workers:  # adopted from a worker that has exited
            kill_group(pid)
    for pid, code in ended.items():
        tell(control, WorkerExited(pid, code))


def tell(control: socket.socket, reply: KeeperReply) -> bool:
    """Send a reply to the parent; return whether the parent is still there."""
    try:
        control.send(encode(encode_keeper_message(reply)))
    except ConnectionError:
        return False
    return True


if __name__ == "__main__":
    main()
