"""Finding and ending what belongs together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from live_processes import wait_until
from torchstone.worker.process_tree import (
    continue_if_stopped,
    has_ended,
    kill_group,
    kill_tree,
    list_children,
    search_children,
)

NOBODY = 2**22 + 1


def test_children_are_found_with_and_without_the_kernels_list() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1000"], start_new_session=True) as shell:
        wait_until(lambda: len(list_children(shell.pid)) == 2, "the shell has no children")
        children = list_children(shell.pid)
        assert sorted(search_children(shell.pid)) == sorted(children)
        assert shell.pid in list_children(os.getpid())
        kill_group(shell.pid)
        shell.wait()
    wait_until(lambda: not any(map(is_alive, children)), "the shell's children are left")


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_that_is_not_there_has_nothing_and_cannot_be_ended_twice() -> None:
    assert list_children(NOBODY) == []
    kill_group(NOBODY)


ADOPTING = """
import os, subprocess, sys, time
from torchstone.worker.process_tree import adopt_orphans
adopt_orphans()
for _ in range(2):
    middle = subprocess.Popen(["sh", "-c", "setsid sleep 1000 & setsid sh -c 'sleep 1000; true' & echo; exec sleep 1000"])
while True:
    time.sleep(1000)
"""


def test_a_stopped_process_is_continued_and_one_that_is_not_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        os.kill(sleeper.pid, signal.SIGSTOP)
        wait_until(lambda: state_of(sleeper.pid) == "T", "it is not stopped")
        assert not has_ended(sleeper.pid)
        continue_if_stopped(sleeper.pid)
        wait_until(lambda: state_of(sleeper.pid) == "S", "it is not continued")
        continue_if_stopped(sleeper.pid)
        assert not has_ended(sleeper.pid)
        sleeper.kill()
    assert has_ended(sleeper.pid)


def test_a_stopped_tree_is_ended_with_what_left_for_sessions_of_its_own() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ADOPTING], stdout=subprocess.PIPE, start_new_session=True
    ) as root:
        wait_until(lambda: len(family(root.pid)) == 8, "not all have started")
        members = family(root.pid)
        os.kill(root.pid, signal.SIGSTOP)
        kill_tree(root.pid, 30)
        root.wait()
    wait_until(lambda: all(map(has_ended, members)), "some are left", 30)


def state_of(pid: int) -> str:
    return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]


def family(pid: int) -> list[int]:
    children = list_children(pid)
    return children + [each for child in children for each in family(child)]
