"""Counting through the command line: counters chosen and refused, what is recorded, and what ends as an outcome."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import Command, WriteFile
from live_processes import read_run
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Outcome

needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")

BENCHMARKS = """
import os, time, torch, torchstone

def adding(times):
    def add(x):
        for _ in range(times):
            x = x + 1
        return x
    return torch.compiler.reset, lambda: torch.compile(add, backend="eager")(torch.ones(3))

@torchstone.counted(counts="compile", backend="eager", category="small")
def few():
    "Adds a little."
    return adding(3)

@torchstone.counted(counts="compile", backend="eager")
def spoils():
    torch._dynamo.config.recompile_limit = 1
    torch._dynamo.config.suppress_errors = True
    torch.set_default_dtype(torch.float64)
    return adding(3)

@torchstone.counted
def unspoiled():
    import torch._dynamo
    assert torch._dynamo.config.recompile_limit > 1
    assert not torch._dynamo.config.suppress_errors
    assert torch.get_default_dtype() is torch.float32
    return lambda: sorted(range(100), key=abs)

@torchstone.counted
def endless():
    def work():
        while True:
            pass
    return work

@torchstone.counted(device="cuda")
def elsewhere():
    return int

@torchstone.counted
def forks():
    def work():
        pid = os.fork()
        if pid == 0:
            sorted(range(1000), key=abs)
            os._exit(0)
        os.waitpid(pid, 0)
    return work

@torchstone.benchmark
def linear():
    return torch.nn.Linear(4, 4), (torch.ones(2, 4),)
"""


@pytest.fixture
def counted(torchstone: Command, tmp_path: Path) -> Command:
    (tmp_path / "bench_counted.py").write_text(BENCHMARKS)
    return torchstone


def outcomes(path: Path) -> dict[str, Outcome]:
    return {outcome.case.benchmark: outcome for outcome in read_run(path).run.outcomes}


def test_calls_are_counted_in_workers_and_nothing_one_does_is_noticed_by_the_next(
    counted: Command, tmp_path: Path
) -> None:
    ran = counted(
        "run", "bench_counted.py", "-k", "few|spoil|elsewhere|forks", "--counter", "python", "-o", "run.jsonl"
    )
    assert ran.code == 0, ran.err
    run = read_run(tmp_path / "run.jsonl").run
    assert run.settings.counter == "python"
    found = outcomes(tmp_path / "run.jsonl")
    assert {name: outcome.status for name, outcome in found.items()} == {
        "few": "pass",
        "spoils": "pass",
        "unspoiled": "pass",
        "elsewhere": "not_available",
        "forks": "pass",
    }
    few = found["few"]
    assert few.case.id == "bench_counted::few[device=cpu,backend=eager]::instructions"
    (measurement,) = few.measurements
    assert measurement.metric == "compile_time_python_calls"
    assert measurement.details == MeasurementDetails(counter="python")
    assert len(measurement.samples) == 3
    assert few.details is not None
    assert (few.details.category, few.details.description) == ("small", "Adds a little")
    assert "1 case not available here: it runs on cuda, and there is none here (elsewhere)" in ran.out
    assert "4/4 (100%)" in ran.out


def test_a_file_of_models_and_counted_work_measures_each_for_what_it_is(counted: Command) -> None:
    plan = counted("run", "bench_counted.py", "-k", "few|linear", "--dry-run")
    assert plan.code == 0
    for name, probe in (("few", "instructions"), ("linear", "performance"), ("linear", "accuracy")):
        assert any(name in line and probe in line for line in plan.out.splitlines())


def test_what_compiling_a_model_costs_can_be_counted(counted: Command, tmp_path: Path) -> None:
    ran = counted(
        *("run", "bench_counted.py::linear", "--probe", "instructions", "--backend", "aot_eager"),
        *("--counter", "python", "--repeat", "2", "-o", "run.jsonl"),
    )
    assert ran.code == 0, ran.err
    (measurement,) = outcomes(tmp_path / "run.jsonl")["linear"].measurements
    assert measurement.metric == "compile_time_python_calls"
    assert len(measurement.samples) == 2
    assert min(measurement.samples) > 1000


def test_work_that_never_ends_is_a_timeout(counted: Command, tmp_path: Path) -> None:
    ran = counted(
        "run", "bench_counted.py::endless", "--counter", "python", "--timeout", "5", "-o", "run.jsonl"
    )
    assert ran.code == 1
    assert outcomes(tmp_path / "run.jsonl")["endless"].status == "timeout"


def test_nothing_that_can_be_counted_here_is_no_success(counted: Command) -> None:
    assert counted("run", "bench_counted.py::elsewhere", "--counter", "python").code == 1


def test_an_unknown_counter_is_refused(counted: Command) -> None:
    ran = counted("run", "bench_counted.py", "--counter", "abacus")
    assert ran.code == 2
    assert "abacus" in ran.err


def test_options_of_the_probe_are_refused_without_it(counted: Command) -> None:
    ran = counted("run", "bench_counted.py", "--probe", "performance", "--counter", "python")
    assert ran.code == 2
    assert "--counter requires the probe instructions" in ran.err


def test_options_of_a_probe_that_nothing_is_planned_for_are_refused_too(counted: Command) -> None:
    for target, options, said in (
        ("linear", ("--ranks", "2"), "--ranks requires the probe scaling"),
        (
            "few",
            ("--batch-invariant", "--counter", "python"),
            "--batch-invariant requires the probe accuracy",
        ),
    ):
        ran = counted("run", f"bench_counted.py::{target}", *options, "--dry-run")
        assert ran.code == 2
        assert said in ran.err


TIMING = """
import time, torchstone

@torchstone.counted
class Sleeping(torchstone.Counted):
    name = "sleeping"

    def work(self):
        began = time.perf_counter()
        time.sleep(0.2)
        self.seconds = time.perf_counter() - began

    def measured(self):
        return {"import_time_us": 1e6 * self.seconds}
"""


@needs_valgrind
def test_what_measures_times_itself_is_not_simulated_for_its_clock_is_to_be_right(
    counted: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("bench_timing.py", TIMING)
    ran = counted("run", "bench_timing.py", "--counter", "simulated", "-o", "run.jsonl")
    assert ran.code == 0, ran.err
    assert "valgrind" not in ran.err
    (measurement,) = outcomes(tmp_path / "run.jsonl")["sleeping"].measurements
    assert min(measurement.samples) >= 200_000


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (None, "--counter simulated: valgrind is not installed\n  apt-get install valgrind"),
        ("valgrind-3.9.0", "--counter simulated: valgrind 3.9.0 is older than 3.15"),
    ],
)
def test_no_valgrind_or_an_old_one_is_refused_before_anything_is_measured(
    counted: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str | None,
    said: str,
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    if version:
        program = folder / "valgrind"
        program.write_text(f"#!/bin/sh\necho {version}\n")
        program.chmod(0o755)
    for name in ("g++", "gcc", "sh", "git", "uname"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    options = ("--counter", "simulated", "--start", "spawn", "-o", "run.jsonl")
    ran = counted("run", "bench_counted.py::few", *options)
    assert ran.code == 2
    assert said in ran.err
    assert not (tmp_path / "run.jsonl").exists()


@pytest.mark.slow
@needs_valgrind
def test_instructions_are_counted_by_simulation_and_profiled(counted: Command, tmp_path: Path) -> None:
    ran = counted(
        *("run", "bench_counted.py", "-k", "few|spoil|forks|endless", "--counter", "simulated"),
        *("--profile", "--timeout", "150", "-o", "run.jsonl"),
    )
    assert ran.code == 1, ran.err
    found = outcomes(tmp_path / "run.jsonl")
    assert {name: outcome.status for name, outcome in found.items()} == {
        "few": "pass",
        "spoils": "pass",
        "unspoiled": "pass",
        "forks": "pass",
        "endless": "timeout",
    }
    counts = {m.metric: m for m in found["few"].measurements}
    assert set(counts) == {"compile_time_instruction_count", "compile_time_instruction_count_tree"}
    assert counts["compile_time_instruction_count"].facts() == {"counter": "simulated"}
    assert min(counts["compile_time_instruction_count"].samples) > 1_000_000
    forks = {m.metric: m.value for m in found["forks"].measurements}
    assert forks["instruction_count_tree"] > forks["instruction_count"]
    details = found["few"].details
    assert details is not None
    assert details.profile is not None
    profile = details.profile
    assert (profile["counter"], profile["unit"]) == ("simulated", "instructions")
    assert sum(profile["phases"].values()) == profile["total"]
    assert any("PyEval" in function for _, _, function, _ in profile["functions"])
