"""What a limit on memory counts: pages that exist once count once, whoever shares them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from live_processes import wait_until
from torchstone.measure.executors.memory import (
    PROPORTIONAL,
    RESIDENT,
    HeldMemory,
    MemoryWatch,
    count_kernel_kills,
    memory_held,
    resident_sizes,
)

NOBODY = 2**22 + 1
MEGABYTE = 10**6
PRIVATE = "block = bytearray(b'x') * 300_000_000"
SHARED = """
import mmap
file = os.memfd_create("shared")
os.truncate(file, 300_000_000)
block = mmap.mmap(file, 300_000_000)
block.write(b"x" * 300_000_000)
"""
FORKS = """
import os, sys, time
{allocate}
for _ in range(10):
    if os.fork() == 0:
        {in_child}
        sys.stdout.write("here\\n")
        sys.stdout.flush()
        time.sleep(1000)
time.sleep(1000)
"""


@contextmanager
def ten_forks(allocate: str, in_child: str = "pass") -> Iterator[int]:
    """A process with ten forks, once all of them are there."""
    code = FORKS.format(allocate=f"import os\n{allocate}", in_child=in_child)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            for _ in range(10):
                assert process.stdout.readline() == b"here\n"
            yield process.pid
        finally:
            os.killpg(process.pid, 9)


def test_memory_that_forks_share_counts_once() -> None:
    with ten_forks(PRIVATE) as pid:
        sizes = resident_sizes(pid)
        assert len(sizes) == 11
        assert sum(sizes.values()) > 3000 * MEGABYTE
        held = memory_held(sizes)
        assert held.measure == PROPORTIONAL
        assert 300 * MEGABYTE <= held.bytes < 600 * MEGABYTE
        assert MemoryWatch(pid, 1500 * MEGABYTE).excess() == ""


def test_shared_memory_counts_once_and_counts() -> None:
    with ten_forks(SHARED, "block[:1] and sum(block[::4096])") as pid:
        sizes = resident_sizes(pid)
        assert sum(sizes.values()) > 3000 * MEGABYTE
        assert 300 * MEGABYTE <= memory_held(sizes).bytes < 600 * MEGABYTE
        assert "proportional set size" in MemoryWatch(pid, 250 * MEGABYTE).excess()


def test_memory_that_each_fork_has_for_itself_counts_in_each() -> None:
    with ten_forks("", "block = bytearray(b'x') * 30_000_000") as pid:
        assert 300 * MEGABYTE <= memory_held(resident_sizes(pid)).bytes < 600 * MEGABYTE
        excess = MemoryWatch(pid, 200 * MEGABYTE).excess()
        assert excess.startswith("used 0.3")
        assert excess.endswith("GB of memory (proportional set size), more than the limit of 0.20 GB")
        assert MemoryWatch(pid, None).excess() == ""


def test_a_process_whose_share_cannot_be_read_counts_whole_and_the_measure_is_named(tmp_path: Path) -> None:
    for pid in ("11", "12"):
        (tmp_path / pid).mkdir()
    (tmp_path / "11" / "smaps_rollup").write_text(
        "55d0-7ffe ---p 00000000 00:00 0 [rollup]\nRss:  4 kB\nPss:  2 kB\nPss_Dirty:  1 kB\nSwapPss:  1 kB\n"
    )
    assert memory_held({11: 4096}, str(tmp_path)) == HeldMemory(3 * 1024, PROPORTIONAL)
    assert memory_held({11: 4096, 12: 8192}, str(tmp_path)) == HeldMemory(
        3 * 1024 + 8192, RESIDENT
    )  # an older kernel
    assert memory_held({11: 4096, 13: 8192}, str(tmp_path)) == HeldMemory(
        3 * 1024, PROPORTIONAL
    )  # 13 has ended


def test_a_process_that_is_not_there_holds_nothing() -> None:
    assert resident_sizes(NOBODY) == {}
    assert MemoryWatch(NOBODY, 1).excess() == ""
    with subprocess.Popen(["true"]) as ended:  # a zombie until it is waited for
        wait_until(lambda: sum(resident_sizes(ended.pid).values()) == 0, "it has not ended")
        assert memory_held({ended.pid: 4096}).bytes == 0


def test_kills_for_want_of_memory_are_counted_since_the_machine_started() -> None:
    assert count_kernel_kills() >= 0
