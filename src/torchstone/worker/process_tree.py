"""Who ends with whom: a process that adopts what its children leave behind, and one that does not outlive its parent (Linux).

Elsewhere these calls do nothing, and what a worker leaves behind outside its own process group stays.
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


def _control_process(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, value, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, even of one that has left for a session of its own."""
    _control_process(_SET_ADOPTION, 1)


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel end this process when its parent ends, however that happens; at once if ``parent`` has ended already."""
    _control_process(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def wake_with_parent() -> None:
    """Have the kernel continue this process when its parent ends: if it was stopped, it would never notice."""
    _control_process(_SET_DEATH_SIGNAL, signal.SIGCONT)


@contextlib.contextmanager
def dying_with_parent() -> Iterator[None]:
    """For as long as this process is too busy to notice by itself that its parent has gone."""
    die_with_parent()
    try:
        yield
    finally:
        wake_with_parent()


def die_first() -> None:
    """Should the machine run out of memory, let the kernel end this process rather than whoever watches over it."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")


def list_children(pid: int) -> list[int]:
    """The processes whose parent is this one; none if it has ended, or the system does not tell."""
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
    """The same from a look at every process, for kernels that keep no list."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if name.isdigit():
                with open(f"/proc/{name}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == pid:
                        found.append(int(name))
    return found


def _state(pid: int) -> str:
    """The state of a process as the kernel writes it (``T`` stopped, ``Z`` ended but not waited for); empty if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for its parent to take note."""
    return _state(pid) in {"", "Z", "X"}


def continue_if_stopped(pid: int) -> None:
    """Let a process of ours go on that somebody has stopped."""
    if _state(pid) == "T":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def kill_tree(pid: int, patience: float) -> None:
    """End a process that does not act any more, after all its descendants: it adopts, so none is lost while it lives.

    Descendants are looked for again until all have ended, for at most so many seconds.
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
    """End a process that leads a group, and the group; it may be gone, or not have its group yet."""
    for end in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(pid, signal.SIGKILL)


def kill_children(patience: float) -> None:
    """End all children and their descendants, and wait so many seconds for the last of them to be gone."""
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
def undisturbed() -> Iterator[None]:
    """Let Ctrl-C, and what a CI job or a closed terminal sends, have no effect: whoever wants the end for the second time still wants everything to be ended and removed."""
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
    """Take a CI job's polite end, or a closed terminal, for Ctrl-C: end the workers, and say how to go on."""

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
