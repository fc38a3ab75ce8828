"""The hardware counter: against a fake of the system call, against the kernel's own clock events, and for real where there are counters."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from torchstone.worker.probes.counting import perf_events
from torchstone.worker.probes.counting.perf_events import (
    CounterError,
    CounterReading,
    HardwareCounter,
    System,
    explain,
    find_problem,
)

INHERIT = 1 << 1
ENABLE, DISABLE = 0x2400, 0x2401


class FakeSystem(System):
    """Gives pipes that hold the readings, in the order in which they will be asked for, and keeps what it was told to do."""

    def __init__(
        self, thread: list[CounterReading], tree: list[CounterReading], *, refuse: int = 0, after: int = 0
    ) -> None:
        self.readings = {0: thread, INHERIT: tree}
        self.refuse, self.after = refuse, after
        self.described: list[tuple[int, ...]] = []
        self.opened: list[int] = []
        self.told: list[tuple[int, int]] = []
        self.stands: int | None = 2

    def open(self, attributes: bytes) -> int:
        if self.refuse and len(self.opened) >= self.after:
            raise OSError(self.refuse, os.strerror(self.refuse))
        described = struct.unpack_from("=IIQQQQQ", attributes)
        self.described.append((*described, len(attributes)))
        handle, writer = os.pipe()
        for reading in self.readings[described[6] & INHERIT]:
            os.write(writer, struct.pack("=QQQ", *reading))
        os.close(writer)
        self.opened.append(handle)
        return handle

    def control(self, handle: int, request: int) -> None:
        self.told.append((self.opened.index(handle), request))

    def paranoid(self) -> int | None:
        return self.stands


NOTHING = CounterReading(0, 0, 0)
TWO_RUNS = [
    NOTHING,
    CounterReading(1_000, 50, 50),
    CounterReading(1_000, 50, 50),
    CounterReading(1_700, 80, 80),
]


def is_open(handle: int) -> bool:
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


def test_the_thread_and_its_tree_are_counted_from_start_to_stop() -> None:
    system = FakeSystem(
        TWO_RUNS,
        [
            NOTHING,
            CounterReading(5_000, 90, 90),
            CounterReading(5_000, 90, 90),
            CounterReading(9_000, 190, 190),
        ],
    )
    counter = HardwareCounter(system)
    assert system.told == []
    for expected in ({"": 1_000, "tree": 5_000}, {"": 700, "tree": 4_000}):
        system.told.clear()
        counter.start()
        assert system.told == [(1, ENABLE), (0, ENABLE)]
        assert counter.stop() == expected
        assert system.told[2:] == [(0, DISABLE), (1, DISABLE)]
    counter.close()


def test_the_kernel_is_asked_for_instructions_in_user_space_and_for_the_times() -> None:
    system = FakeSystem([], [])
    HardwareCounter(system).close()
    disabled, no_kernel, no_hypervisor = 1 << 0, 1 << 5, 1 << 6
    flags = disabled | no_kernel | no_hypervisor
    assert system.described == [(0, 112, 1, 0, 0, 3, flags, 112), (0, 112, 1, 0, 0, 3, flags | INHERIT, 112)]


def test_reading_goes_on_counting() -> None:
    system = FakeSystem(
        [CounterReading(10, 1, 1), CounterReading(60, 2, 2), CounterReading(160, 3, 3)], [NOTHING, NOTHING]
    )
    counter = HardwareCounter(system)
    counter.start()
    told = list(system.told)
    assert counter.read() == 50
    assert system.told == told
    assert counter.stop()[""] == 150
    counter.close()


def test_a_counter_that_had_to_take_turns_is_not_believed() -> None:
    system = FakeSystem([NOTHING, CounterReading(1_000, 1_000_000, 600_000)], [NOTHING, NOTHING])
    counter = HardwareCounter(system)
    counter.start()
    with pytest.raises(CounterError, match=r"ran for only 60\.0 % of the time"):
        counter.stop()
    counter.close()


def test_a_turn_too_short_to_matter_is_let_pass() -> None:
    counter = HardwareCounter(
        FakeSystem([NOTHING, CounterReading(1_000, 1_000_000, 999_990)], [NOTHING, NOTHING])
    )
    counter.start()
    assert counter.stop()[""] == 1_000
    counter.close()


def test_a_counter_that_the_kernel_took_away_is_an_error() -> None:
    counter = HardwareCounter(FakeSystem([NOTHING], [NOTHING]))
    counter.start()
    with pytest.raises(CounterError, match="taken the hardware counter away"):
        counter.stop()
    counter.close()


@pytest.mark.parametrize(
    ("code", "paranoid", "said", "advice"),
    [
        (
            errno.EACCES,
            4,
            "perf_event_paranoid is 4, and must be 2 or less",
            "sysctl kernel.perf_event_paranoid=2",
        ),
        (errno.EPERM, 3, "perf_event_paranoid is 3", "CAP_PERFMON"),
        (errno.EPERM, 2, "the container forbids it (seccomp)", "--cap-add PERFMON"),
        (errno.EACCES, None, "perf_event_paranoid cannot be read", "sysctl kernel.perf_event_paranoid=2"),
        (errno.ENOENT, 2, "the processor, or the virtual machine, offers no counters", "machine"),
        (errno.EOPNOTSUPP, 2, "offers no counters", "machine"),
        (errno.ENODEV, 2, "offers no counters", "machine"),
        (errno.ENOSYS, 2, "no system call perf_event_open", ""),
        (errno.EMFILE, 2, "too many files are open", "ulimit -n"),
        (errno.EBUSY, 2, "another program has the processor's counters to itself", "end it"),
        (errno.EINVAL, 2, "the kernel refuses: invalid argument", ""),
    ],
)
def test_a_refusal_says_what_is_missing_and_what_to_do(
    code: int, paranoid: int | None, said: str, advice: str
) -> None:
    system = FakeSystem([], [], refuse=code)
    system.stands = paranoid
    problem = find_problem(system)
    assert problem is not None
    assert said in problem.reason
    assert advice in problem.advice
    assert bool(advice) == bool(problem.advice)
    with pytest.raises(CounterError) as raised:
        HardwareCounter(system)
    assert raised.value.problem == problem == explain(code, paranoid)
    assert str(raised.value) == (f"{problem.reason}; {problem.advice}" if advice else problem.reason)


def test_the_first_event_is_closed_if_the_second_is_refused() -> None:
    system = FakeSystem([], [], refuse=errno.EMFILE, after=1)
    with pytest.raises(CounterError, match="too many files are open"):
        HardwareCounter(system)
    assert [is_open(handle) for handle in system.opened] == [False]


@pytest.mark.parametrize(
    ("thread", "problem"),
    [
        ([NOTHING, CounterReading(900, 5, 5)], ""),
        ([NOTHING, CounterReading(0, 5, 5)], "the counters are there, but count nothing"),
        ([NOTHING, CounterReading(900, 500, 5)], "the hardware counter ran for only 1.0 %"),
    ],
)
def test_a_counter_is_tried_before_it_is_trusted(thread: list[CounterReading], problem: str) -> None:
    system = FakeSystem(thread, [NOTHING, CounterReading(900, 5, 5)])
    found = find_problem(system)
    assert (found.reason if found else "").startswith(problem)
    assert bool(found) == bool(problem)
    assert not any(is_open(handle) for handle in system.opened)


def test_using_it_wrongly_is_an_error_that_says_how() -> None:
    counter = HardwareCounter(FakeSystem([NOTHING] * 3, [NOTHING] * 3))
    with pytest.raises(CounterError, match="has not been started"):
        counter.stop()
    counter.start()
    with pytest.raises(CounterError, match="is counting already"):
        counter.start()
    counter.close()
    counter.close()
    with pytest.raises(CounterError, match="is closed"):
        counter.start()


def test_another_thread_cannot_use_it() -> None:
    counter = HardwareCounter(FakeSystem([NOTHING], [NOTHING]))
    said: list[str] = []

    def use() -> None:
        try:
            counter.start()
        except CounterError as error:
            said.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert said == ["the hardware counter belongs to another thread or process; make one in each"]
    counter.close()


class ClockSystem(System):
    """The kernel itself, asked for nanoseconds of processor time instead of instructions, which it counts on any machine."""

    def open(self, attributes: bytes) -> int:
        software, task_clock = 1, 1
        return super().open(struct.pack("=IIQ", software, 112, task_clock) + attributes[16:])


@pytest.fixture
def clock() -> Iterator[HardwareCounter]:
    try:
        counter = HardwareCounter(ClockSystem())
    except CounterError as error:
        pytest.skip(str(error))
    yield counter
    counter.close()


def spin(seconds: float = 0.05) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_the_kernel_counts_what_the_thread_does_between_start_and_stop(clock: HardwareCounter) -> None:
    spin()
    clock.start()
    spin()
    first = clock.read()
    spin()
    counts = clock.stop()
    spin()
    assert 45e6 < first < counts[""] < 145e6
    assert counts["tree"] >= counts[""]
    clock.start()
    assert clock.stop()[""] < 20e6


@pytest.mark.parametrize("where", ["thread", "process", "program", "running thread"])
def test_the_kernel_counts_threads_and_children_in_the_tree_alone(clock: HardwareCounter, where: str) -> None:
    begin, end = threading.Event(), threading.Event()

    def wait_and_spin() -> None:
        begin.wait()
        spin(0.2)
        end.set()

    early = threading.Thread(target=wait_and_spin)
    if where == "running thread":
        early.start()  # after the counter was made, before it counts
    for _ in range(2):  # what ended children have added stays out of the next count
        clock.start()
        if where == "thread":
            late = threading.Thread(target=spin, args=(0.2,))
            late.start()
            late.join()
        elif where == "process":
            child = os.fork()
            if not child:
                spin(0.2)
                os._exit(0)
            os.waitpid(child, 0)
        elif where == "program":
            code = "import time\nwhile time.thread_time() < 0.2: pass"
            subprocess.run([sys.executable, "-S", "-c", code], check=True)
        else:
            begin.set()
            end.wait()
        counts = clock.stop()
        assert counts[""] < 100e6
        assert 195e6 < counts["tree"] - counts[""] < 400e6
        if where == "running thread":
            early.join()
            break


def test_the_kernel_understands_what_it_is_asked() -> None:
    said = str(find_problem())
    assert "the kernel refuses" not in said  # such as "invalid argument"
    assert "count nothing" not in said


@pytest.mark.skipif(find_problem() is not None, reason=f"no hardware counter: {find_problem()}")
def test_instructions_are_counted_for_real() -> None:
    counter = HardwareCounter()
    counts = []
    for length in (100_000, 100_000, 200_000):
        counter.start()
        sum(range(length))
        counts.append(counter.stop()[""])
    counter.close()
    assert counts[0] > 100_000
    assert abs(counts[1] - counts[0]) < 0.01 * counts[0]
    assert 1.9 < counts[2] / counts[1] < 2.1


def test_it_needs_nothing_but_the_standard_library() -> None:
    code = "import sys; import torchstone.worker.probes.counting.perf_events; print({'torch', 'msgspec'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
    assert perf_events.HardwareCounter.name == "hardware"
