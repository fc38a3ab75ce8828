"""Count user-space instructions in hardware, with Linux perf events.

Standard library only.

Two counters are opened together: one for the calling thread, one for its process tree (``inherit``). The
kernel adds threads and processes to the second when they start, so create the counter before the work starts
any.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
import sys
import threading
from dataclasses import dataclass
from typing import NamedTuple

PARANOID = "/proc/sys/kernel/perf_event_paranoid"
ENOUGH = 2  # the highest perf_event_paranoid with which a process may count its own instructions

_NUMBERS = {"x86_64": 298, "aarch64": 241}  # of perf_event_open
_SIZE = 112  # of perf_event_attr, as Linux 4.1 and later know it
_HARDWARE, _INSTRUCTIONS = 0, 1
_TIMES = 1 | 2  # read_format: time enabled, time running
_DISABLED, _INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
_CLOSE_ON_EXEC = 8
_ENABLE, _DISABLE = 0x2400, 0x2401
_READING = struct.Struct("=QQQ")
_NEGLIGIBLE = 1e-4  # of the time: less does not affect a count noticeably

_ABSENT = frozenset({errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV})
_REFUSED = frozenset({errno.EACCES, errno.EPERM})


@dataclass(frozen=True)
class CounterProblem:
    """The reason why a counter cannot be used, and advice if there is any."""

    reason: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.reason}; {self.advice}" if self.advice else self.reason


class CounterError(Exception):
    """Raised if instructions cannot be counted reliably; ``problem`` has the reason and what to do."""

    def __init__(self, reason: str, advice: str = "") -> None:
        self.problem = CounterProblem(reason, advice)
        super().__init__(str(self.problem))


class System:
    """The system calls used; tests replace it."""

    def open(self, attributes: bytes) -> int:
        """Return the file descriptor of a new event of the calling thread, on any processor; may raise OSError."""
        number = _NUMBERS.get(platform.machine())
        if number is None or not sys.platform.startswith("linux"):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        syscall = ctypes.CDLL(None, use_errno=True).syscall
        syscall.restype = ctypes.c_long
        this_thread, any_processor, no_group = ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(-1)
        handle: int = syscall(
            ctypes.c_long(number),
            attributes,
            this_thread,
            any_processor,
            no_group,
            ctypes.c_ulong(_CLOSE_ON_EXEC),
        )
        if handle < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return handle

    def control(self, handle: int, request: int) -> None:
        """Enable or disable an event and all events inherited from it."""
        import fcntl  # noqa: PLC0415  (not on every system)

        fcntl.ioctl(handle, request, 0)

    def paranoid(self) -> int | None:
        """Return the kernel's perf_event_paranoid; None if it is not available."""
        with contextlib.suppress(OSError, ValueError), open(PARANOID, encoding="ascii") as file:
            return int(file.read())
        return None


class CounterReading(NamedTuple):
    """The count of an event, and the nanoseconds it was enabled and actually running."""

    counted: int
    enabled: int
    running: int


class HardwareCounter:
    """Count instructions of the creating thread, and of everything it starts afterwards."""

    name = "hardware"

    def __init__(self, system: System | None = None) -> None:
        self._system = system or System()
        self._owner = os.getpid(), threading.get_ident()
        self._before: tuple[CounterReading, CounterReading] | None = None
        self._thread = self._open(0)
        try:
            self._tree = self._open(_INHERIT)
        except CounterError:
            os.close(self._thread)
            raise

    def _open(self, flags: int) -> int:
        try:
            return self._system.open(describe_event(flags))
        except OSError as error:
            problem = explain(error.errno or 0, self._system.paranoid())
            raise CounterError(problem.reason, problem.advice) from error

    def start(self) -> None:
        """Start counting from 0."""
        if (os.getpid(), threading.get_ident()) != self._owner:
            raise CounterError(
                "the hardware counter belongs to another thread or process", "make one in each"
            )
        if self._before is not None:
            raise CounterError("the hardware counter is counting already")
        # Resetting an event keeps what children that have ended added to it, and its times: so the difference counts.
        self._before = self._read(self._thread), self._read(self._tree)
        self._system.control(self._tree, _ENABLE)
        self._system.control(self._thread, _ENABLE)

    def stop(self) -> dict[str, int]:
        """Stop, and return the instructions of the thread (named "") and of the process tree (``tree``)."""
        thread, tree = self._started()
        self._system.control(self._thread, _DISABLE)
        self._system.control(self._tree, _DISABLE)
        self._before = None
        return {
            "": _between(thread, self._read(self._thread)),
            "tree": _between(tree, self._read(self._tree)),
        }

    def read(self) -> int:
        """Return the thread's instructions since the start, without stopping; reading is counted too."""
        return _between(self._started()[0], self._read(self._thread))

    def close(self) -> None:
        """Close both counters; may be called again."""
        for handle in (self._thread, self._tree):
            if handle >= 0:
                os.close(handle)
        self._thread = self._tree = -1
        self._before = None

    def _started(self) -> tuple[CounterReading, CounterReading]:
        if self._before is None:
            raise CounterError("the hardware counter has not been started")
        return self._before

    def _read(self, handle: int) -> CounterReading:
        if handle < 0:
            raise CounterError("the hardware counter is closed")
        data = os.read(handle, _READING.size)
        if len(data) != _READING.size:
            raise CounterError("the kernel has taken the hardware counter away")
        return CounterReading(*_READING.unpack(data))


def describe_event(flags: int = 0) -> bytes:
    """Return the kernel's perf_event_attr for user-space instructions, initially disabled."""
    flags |= _DISABLED | _NO_KERNEL | _NO_HYPERVISOR
    return struct.pack("=IIQQQQQ", _HARDWARE, _SIZE, _INSTRUCTIONS, 0, 0, _TIMES, flags).ljust(_SIZE, b"\0")


def _between(before: CounterReading, after: CounterReading) -> int:
    """Return the count between two readings; raise an error if the counter was multiplexed."""
    enabled, running = after.enabled - before.enabled, after.running - before.running
    if enabled - running > _NEGLIGIBLE * enabled:
        raise CounterError(
            f"the hardware counter ran for only {100 * running / enabled:.1f} % of the time, because something else uses the processor's "
            "counters or the thread moved to a core of another kind, and the rest would be guessed",
            "end other profilers, set kernel.nmi_watchdog=0 (sysctl), and pin the process to cores of one kind",
        )
    return after.counted - before.counted


def explain(code: int, paranoid: int | None) -> CounterProblem:
    """Explain the kernel's error, from its number and perf_event_paranoid."""
    if code in _REFUSED:
        return _explain_refusal(paranoid)
    if code in _ABSENT:
        return CounterProblem(
            "the processor, or the virtual machine, offers no counters", "use a kind of machine that does"
        )
    if code == errno.ENOSYS:
        return CounterProblem(
            f"there is no system call perf_event_open here ({platform.system()} on {platform.machine()})"
        )
    if code in {errno.EMFILE, errno.ENFILE}:
        return CounterProblem("too many files are open", "raise the limit (ulimit -n)")
    if code == errno.EBUSY:
        return CounterProblem("another program has the processor's counters to itself", "end it")
    return CounterProblem(f"the kernel refuses: {os.strerror(code).lower()}")


def _explain_refusal(paranoid: int | None) -> CounterProblem:
    capability = "the capability CAP_PERFMON (docker run --cap-add PERFMON)"
    if paranoid is not None and paranoid <= ENOUGH:
        return CounterProblem(
            f"no permission, although kernel.perf_event_paranoid is {paranoid}, which is enough: the container forbids it (seccomp)",
            f"give it {capability}, or a seccomp profile that allows perf_event_open",
        )
    value = "cannot be read" if paranoid is None else f"is {paranoid}"
    return CounterProblem(
        f"no permission: kernel.perf_event_paranoid {value}, and must be {ENOUGH} or less",
        f"sudo sysctl kernel.perf_event_paranoid={ENOUGH}, or give {capability}",
    )


def find_problem(system: System | None = None) -> CounterProblem | None:
    """Return why hardware counting does not work here; None if it does. Tries it."""
    try:
        counter = HardwareCounter(system)
    except CounterError as error:
        return error.problem
    try:
        counter.start()
        sum(range(1000))
        counts = counter.stop()
    except CounterError as error:
        return error.problem
    except OSError as error:
        return CounterProblem(str(error))
    finally:
        counter.close()
    return None if all(counts.values()) else CounterProblem("the counters are there, but count nothing")
