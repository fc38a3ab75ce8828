"""The simulated counter under a real valgrind: what lies between start and stop is counted, and nothing else; forked children too."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torchstone
from torchstone.measure.simulation import COMMAND
from torchstone.worker.probes.counting.counters import SimulatedCounter
from torchstone.worker.probes.counting.perf_events import CounterError
from torchstone.worker.probes.counting.valgrind_requests import NoValgrindError, Valgrind

needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")

BEGINNING = """
import json, os, sys
sys.path.insert(0, sys.argv[2])
from torchstone.worker.probes.counting.counters import SimulatedCounter

def work(size):
    return sum(number * number for number in range(size))

counter = SimulatedCounter(sys.argv[1])
work(1000)
"""


def under_valgrind(folder: Path, program: str) -> Any:  # noqa: ANN401  (what the program prints)
    path = folder / "program.py"
    path.write_text(BEGINNING + program)
    source = str(Path(torchstone.__file__).parent.parent)
    done = subprocess.run(
        [
            *COMMAND,
            f"--callgrind-out-file={folder}/callgrind.%p",
            sys.executable,
            str(path),
            str(folder),
            source,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_valgrind
def test_counts_grow_with_the_work_and_repeat(tmp_path: Path) -> None:
    counts = under_valgrind(
        tmp_path,
        """
def count(size):
    counter.begin()
    work(50_000)  # not counted
    counter.start()
    work(size)
    counter.stop()
    work(50_000)  # not counted
    return counter.end()["instruction_count"]

count(1000)
print(json.dumps([count(1000), count(1000), count(2000)]))
""",
    )
    once, again, twice = counts
    assert again == pytest.approx(once, rel=0.01)
    assert twice == pytest.approx(2 * once, rel=0.05)
    assert not list(tmp_path.glob("callgrind.*.*"))  # what was read is removed


@needs_valgrind
def test_several_starts_within_an_iteration_are_summed_up(tmp_path: Path) -> None:
    once, three_times = under_valgrind(
        tmp_path,
        """
def count(times):
    counter.begin()
    for _ in range(times):
        counter.start()
        work(1000)
        counter.stop()
    return counter.end()["instruction_count"]

count(1)
print(json.dumps([count(1), count(3)]))
""",
    )
    assert three_times == pytest.approx(3 * once, rel=0.01)


@needs_valgrind
def test_what_forked_children_do_is_in_the_tree_and_not_in_the_process(tmp_path: Path) -> None:
    alone, forking = under_valgrind(
        tmp_path,
        """
def count(children):
    counter.begin()
    counter.start()
    work(1000)
    for _ in range(children):
        pid = os.fork()
        if pid == 0:
            work(10_000)
            os._exit(0)
        os.waitpid(pid, 0)
    counter.stop()
    return counter.end()

count(0)
print(json.dumps([count(0), count(2)]))
""",
    )
    assert alone["instruction_count_tree"] == alone["instruction_count"]
    assert forking["instruction_count"] < 3 * alone["instruction_count"]
    assert forking["instruction_count_tree"] > 15 * alone["instruction_count"]


@needs_valgrind
def test_laps_say_which_functions_they_are_made_of(tmp_path: Path) -> None:
    amounts, named, total = under_valgrind(
        tmp_path,
        """
from torchstone.worker.probes.counting.callgrind import read_elsewhere
counter.begin()
laps = []
for _ in range(2):
    counter.start()
    work(1000)
    counter.stop()
    laps.append(counter.lap())
functions = read_elsewhere([lap.file for lap in laps])
counter.end()
found = {name: cost for (library, name), cost in functions[0].items()}
print(json.dumps([[lap.amount for lap in laps], found, sum(found.values())]))
""",
    )
    assert amounts[0] == pytest.approx(amounts[1], rel=0.05)
    assert total == amounts[0]
    assert "_PyEval_EvalFrameDefault" in named


def test_outside_valgrind_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoValgrindError, match="not executed by valgrind"):
        Valgrind()
    with pytest.raises(CounterError, match="not executed by valgrind"):
        SimulatedCounter(str(tmp_path))
