"""Finding and ending what belongs together."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from live_processes import wait_until
from torchstone.measure.kinship import kill_group, list_children, search_children

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
