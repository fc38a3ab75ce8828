"""A process that repeats itself: the same times, the same chance, and children that are waited for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, os, random, subprocess, sys, tempfile, time
from torchstone.worker.machine.clock import monotonic
from torchstone.worker.repeatable import make_repeatable

real = monotonic()
make_repeatable()
names = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
said = [getattr(time, name)() for name in names] + [getattr(time, name + "_ns")() for name in names]
said += [time.monotonic() for _ in range(3)] + [random.random()]
with tempfile.NamedTemporaryFile(dir=sys.argv[1]) as one, tempfile.NamedTemporaryFile(dir=sys.argv[1]) as other:
    said += [one.name, other.name]
said.append(subprocess.run(["sleep", "0.2"], timeout=0.01).returncode)
said.append(subprocess.check_output(["echo", "hello"], timeout=5).decode())
assert monotonic() - real >= 0.2
print(json.dumps(said))
"""


def run(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_processes_see_the_same_times_names_and_chance(tmp_path: Path) -> None:
    assert run(tmp_path) == run(tmp_path)


@pytest.mark.parametrize("clock", ["time", "monotonic", "perf_counter_ns"])
def test_time_moves_on_at_every_look(clock: str) -> None:
    program = f"import time; from torchstone.worker.repeatable import make_repeatable; make_repeatable(); print(time.{clock}() < time.{clock}())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
