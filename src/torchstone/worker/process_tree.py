"""Control which processes end together: adopt orphans, die with the parent, kill whole trees (Linux).

On other systems these calls do nothing, and processes that a worker leaves outside its process group survive.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

_SET_DEATH_SIGNAL = 1
_SET_ADOPTION = 36
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None

MOST_ANCESTORS = 100


def _control_process(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, value, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, even if it has its own session."""
    _control_process(_SET_ADOPTION, 1)


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent ends for any reason; at once if ``parent`` has already ended."""
    _control_process(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def wake_with_parent() -> None:
    """Have the kernel continue this process when its parent ends: a stopped process would not notice."""
    _control_process(_SET_DEATH_SIGNAL, signal.SIGCONT)


@contextlib.contextmanager
def dying_with_parent() -> Iterator[None]:
    """Die with the parent within this context, where the process is too busy to notice that the parent is gone."""
    die_with_parent()
    try:
        yield
    finally:
        wake_with_parent()


def prefer_oom_kill() -> None:
    """If the machine runs out of memory, let the kernel kill this process rather than its keeper or parent."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")


def list_children(pid: int) -> list[int]:
    """Return the child processes; none if the process has ended, or the system does not list them."""
    found: list[int] = []
    with contextlib.suppress(ProcessLookupError):
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    found += map(int, file.read().split())
        except FileNotFoundError:
            return search_children(pid)
        except OSError:
            return []
    return found


def search_children(pid: int) -> list[int]:
    """Return the child processes by searching all processes, for kernels that keep no list."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if name.isdigit():
                with open(f"/proc/{name}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == pid:
                        found.append(int(name))
    return found


def ancestors_of(pid: int) -> list[int]:
    """Return the parent of a process, its parent, and so on up to the first process; none if it has ended or cannot be seen."""
    found: list[int] = []
    while pid > 1 and len(found) < MOST_ANCESTORS:
        try:
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        if pid > 1:
            found.append(pid)
    return found


def _state(pid: int) -> str:
    """Return the kernel's state of a process (``T`` stopped, ``Z`` ended but not waited for); empty if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def has_ended(pid: int) -> bool:
    """Return whether a process is gone, or a zombie."""
    return _state(pid) in {"", "Z", "X"}


def continue_if_stopped(pid: int) -> None:
    """Continue a process of ours if it was stopped."""
    if _state(pid) == "T":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def kill_tree(pid: int, patience: float) -> None:
    """Kill the descendants of a process that no longer responds, then the process itself.

    It goes last because it adopts orphans: while it lives, no descendant is lost. Descendants are searched for
    again until all have ended, for at most ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        alive = [each for each in _descendants(pid) if not has_ended(each)]
        for each in alive:
            kill_group(each)
        if not alive:
            break
        time.sleep(0.005)
    kill_group(pid)


def _descendants(pid: int) -> list[int]:
    found = waiting = list_children(pid)
    while waiting:
        waiting = [child for each in waiting for child in list_children(each)]
        found = found + waiting
    return found


def kill_group(pid: int) -> None:
    """Kill a process and the process group it leads; it may be gone, or not have its group yet."""
    for end in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(pid, signal.SIGKILL)


def kill_children(patience: float) -> None:
    """Kill all children and their descendants, and wait up to ``patience`` seconds until they are gone."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        for pid in list_children(os.getpid()):
            kill_group(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


@contextlib.contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C, SIGTERM and SIGHUP during clean-up, so that a second interrupt does not leave anything behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM of a CI job and SIGHUP of a closed terminal like Ctrl-C: end the workers, and say how to resume."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
