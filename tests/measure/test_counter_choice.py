"""Which counters there are, and which one is taken."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

import pytest

from torchstone.core.vocabulary import COUNTERS
from torchstone.worker.probes.counting import perf_events
from torchstone.worker.probes.counting.available import (
    choose_counter,
    find_counters,
    find_valgrind_problem,
    valgrind_version,
)
from torchstone.worker.probes.counting.perf_events import CounterProblem


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of the path, on a machine that valgrind supports."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return tmp_path


NO = CounterProblem("no permission")


def install(folder: Path, script: str) -> None:
    path = folder / "valgrind"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_every_counter_is_looked_at_the_best_first() -> None:
    assert list(find_counters()) == list(COUNTERS)


@pytest.mark.parametrize(
    ("problems", "taken"),
    [
        ({}, "hardware"),
        ({"hardware": NO}, "simulated"),
        ({"hardware": NO, "simulated": NO}, "python"),
        ({"hardware": NO, "simulated": NO, "python": NO}, "cpu_time"),
    ],
)
def test_the_best_counter_that_works_is_taken(problems: dict[str, CounterProblem], taken: str) -> None:
    assert choose_counter({**dict.fromkeys(COUNTERS), **problems}) == taken


def test_python_and_time_are_always_there(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_events, "find_problem", lambda: NO)
    assert not list(programs.iterdir())
    found = find_counters()
    assert found["hardware"] == NO
    assert found["simulated"] == CounterProblem("valgrind is not installed", "apt-get install valgrind")
    assert (found["python"], found["cpu_time"]) == (None, None)
    assert choose_counter(found) == "python"


@pytest.mark.parametrize(
    ("script", "version", "problem"),
    [
        ("echo valgrind-3.19.0", (3, 19, 0), ""),
        ("echo valgrind-3.15.0.GIT", (3, 15, 0), ""),
        ("echo valgrind-4.0", (4, 0), ""),
        ("echo valgrind-3.9.0", (3, 9, 0), "valgrind 3.9.0 is older than 3.15"),
        ("echo hello", None, "valgrind is installed, but does not run"),
        ("exit 1", None, "valgrind is installed, but does not run"),
    ],
)
def test_valgrind_is_asked_for_its_version(
    script: str, version: tuple[int, ...] | None, problem: str, programs: Path
) -> None:
    install(programs, script)
    assert valgrind_version() == version
    said = find_valgrind_problem()
    assert (said.reason if said else "") == problem
    assert bool(said) == bool(problem)


def test_valgrind_is_of_no_use_on_other_machines(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(programs, "echo valgrind-3.19.0")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    problem = find_valgrind_problem()
    assert problem is not None
    assert problem.reason == f"it needs Linux on x86_64, and this is {platform.system()} on aarch64"


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_the_valgrind_that_is_installed_says_its_version() -> None:
    version = valgrind_version()
    assert version is not None
    assert version >= (3,)
