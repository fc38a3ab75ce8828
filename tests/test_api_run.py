"""Measuring from Python: real files, real workers, one run for most of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

import torchstone
from torchstone.api.measuring.events import EventWatcher
from torchstone.api.measuring.run import Execution
from torchstone.core.records import Case, Outcome, Reading, Run, Variant
from torchstone.core.run_settings import Settings

BENCHMARKS = """
import torchstone

@torchstone.benchmark(modes=["inference"])
def good():
    import torch
    return torch.nn.Linear(4, 4), (torch.randn(2, 4),)

@torchstone.benchmark(modes=["inference"])
def broken():
    raise RuntimeError("this one never works")

if __name__ == "__main__":
    torchstone.main()
"""
QUICK = {"probes": ["performance"], "backends": "eager", "repeat": 2, "devices": "cpu", "start": "spawn"}
OPTIONS = ["--probe", "performance", "--backend", "eager", "--repeat", "2", "--device", "cpu"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench_it.py").write_text(BENCHMARKS)
    return tmp_path


@pytest.mark.slow
def test_a_run_is_measured_streamed_resumed_and_compared(folder: Path) -> None:
    had_torch = "torch" in sys.modules  # another test of this process may have imported it
    events: list[object] = []
    stream = torchstone.stream("bench_it.py", output="run.jsonl", on_event=events.append, **QUICK)  # type: ignore[arg-type]
    first = next(stream)
    stream.close()  # leaving the loop ends the run
    unfinished = torchstone.read("run.jsonl")
    assert unfinished.outcomes == (first,)
    assert len(unfinished.plan) == 2
    names = [type(event).__name__ for event in events]
    assert names.index("Preparing") < names.index("Planned") < names.index("CaseStarted")
    assert names[-1] == "CaseMeasured"
    assert all(str(event) for event in events)

    run = torchstone.run(resume="run.jsonl", csv="csv", on_event=events.append)
    assert {outcome.status for outcome in run} == {"pass", "eager_fail_to_run"}
    assert (run.passed, run.exit_code, run.loss) == (False, 1, None)
    assert torchstone.read("run.jsonl").run == run.run
    assert torchstone.read("run.jsonl").reading.lines == tuple(run.reading.lines)
    assert list(Path("csv").iterdir())
    assert "this one never works" in str(run)
    assert {record["status"] for record in run.to_dicts()} == {"pass", "eager_fail_to_run"}
    assert torchstone.compare("run.jsonl", run).passed
    assert torchstone.check(run, baselines="run.jsonl").rows
    assert ("torch" in sys.modules) == had_torch

    again = torchstone.run(resume="run.jsonl")
    assert again.run == run.run


@pytest.mark.slow
def test_a_plan_names_the_cases_and_leaves_no_file(folder: Path) -> None:
    planned = torchstone.plan("bench_it.py", probes="performance", modes="inference", filters="good")
    assert [case.benchmark for case in planned.plan] == ["good"]
    assert not planned.outcomes
    assert [path.name for path in folder.iterdir()] == ["bench_it.py"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "no targets given"),
        ({"targets": "bench_it.py", "probes": "speed"}, "--probe speed: expected"),
        ({"targets": "bench_it.py", "dtypes": "float33"}, "--dtype float33"),
        ({"targets": "bench_it.py", "threads": 0}, "--threads"),
        ({"targets": "bench_it.py", "size": "tiny"}, "--size"),
        ({"targets": "bench_it.py", "shard": (3, 2)}, "--shard 3/2"),
        ({"targets": "bench_it.py", "batch_sizes": 0}, "--batch-size 0"),
        ({"targets": "bench_it.py", "buckets": -1.0}, "--bucket-mb -1"),
        ({"targets": "bench_it.py", "probes": "accuracy", "counter": "python"}, "--counter requires"),
        ({"targets": "bench_it.py", "trust": True}, "--trust requires"),
        ({"targets": "bench_it.py", "durations": "bench_it.py"}, "--durations requires --shard"),
        ({"targets": "bench_it.py", "raw_cells": True}, "--raw-cells requires --csv"),
        (
            {"targets": "bench_it.py", "compile_mode": "x", "compile_options": {"a": 1}},
            "--compile-mode cannot be used with --option",
        ),
        ({"targets": "bench_none.py"}, "bench_none.py"),
        (
            {"targets": "bench_it.py", "resume": "bench_it.py"},
            "the target bench_it.py cannot be used with --resume",
        ),
        ({"resume": "bench_it.py", "devices": "cpu"}, "devices cannot be used with --resume"),
        ({"resume": "bench_it.py"}, "this is not a run file"),
        ({"targets": "bench_it.py", "output": "bench_it.py"}, "bench_it.py already exists"),
        ({"targets": "bench_it.py", "speed": 9}, "unknown argument 'speed'"),
        ({"targets": "bench_it.py", "shard": 5}, "shard=5: expected two whole numbers"),
        ({"targets": "bench_it.py", "timeout": "x"}, "timeout='x': expected a number"),
        (
            {"targets": "bench_it.py", "compile_options": 5},
            "compile_options=5: expected a dictionary of strings",
        ),
        ({"targets": "bench_it.py", "on_event": 5}, "on_event=5: expected a function"),
        ({"targets": 5}, "targets=5: expected a string, or several strings"),
    ],
)
def test_what_cannot_be_meant_is_an_error_before_anything_starts(
    folder: Path, options: dict[str, object], problem: str
) -> None:
    with pytest.raises(torchstone.TorchstoneError) as raised:
        torchstone.run(**options)  # type: ignore[arg-type]
    assert problem in str(raised.value)
    assert [path.name for path in folder.iterdir()] == ["bench_it.py"]


def test_options_of_the_compiler_are_part_of_the_case_as_on_the_command_line(folder: Path) -> None:
    from torchstone.api.measuring.preparation import prepare_request  # noqa: PLC0415
    from torchstone.api.measuring.run_request import RunRequest  # noqa: PLC0415
    from torchstone.api.requests import make_request  # noqa: PLC0415
    from torchstone.cli.options.run_options import OPTIONS as ALL  # noqa: PLC0415
    from torchstone.cli.options.run_options import make_run_request  # noqa: PLC0415

    given = {"targets": "bench_it.py", "compile_options": {"max_autotune": True, "depth": 4}, "timeout": 90}
    request = make_request(RunRequest, given)
    unset = {each.name: () if each.multiple else None if each.metavar else False for each in ALL}
    texts = {"compile_options": ("max_autotune=true", "depth=4"), "timeout": "90s"}
    assert request == make_run_request(("bench_it.py",), unset | texts)
    prepared = prepare_request(request)
    assert prepared.settings.options == {"max_autotune": True, "depth": 4}
    assert prepared.axes.further == (("depth", "4"), ("max_autotune", "true"))


@pytest.mark.parametrize(
    ("suite", "problem"), [("smoke", "--benchmark smoke"), ("huggingface", "--repeat 10")]
)
def test_cachebench_has_the_suites_and_repeats_of_the_original(suite: str, problem: str) -> None:
    with pytest.raises(torchstone.UsageError, match=problem):
        torchstone.cachebench(suite, repeat=10)


def test_rows_of_two_benchmarks_of_one_name_are_refused() -> None:
    from torchstone.api.measuring.pr_time import refuse_namesakes  # noqa: PLC0415

    cases = tuple(Case("same", "instructions", suite) for suite in ("one", "other"))
    with pytest.raises(torchstone.UsageError, match="would be ambiguous"):
        refuse_namesakes(Run("x", cases, ()))


def test_pr_time_writes_rows_and_records(tmp_path: Path) -> None:
    case = Case("add_loop", "instructions", "mine", Variant(device="cpu"))
    counted = torchstone.Measurement("compile_time_instruction_count", (100,))
    outcomes = (
        Outcome(case, "pass", (counted,)),
        Outcome(structs.replace(case, benchmark="gone"), "timeout"),
    )
    run = Run("x", tuple(outcome.case for outcome in outcomes), outcomes)
    result = torchstone.PrTimeResult(Reading("run.jsonl", "run", run, (2, 3)))
    assert result.rows() == "add_loop,compile_time_instruction_count,100\n"
    assert [outcome.case.benchmark for outcome in result.missing] == ["gone"]
    result.write(tmp_path / "rows.csv")
    result.write(tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text() == 2 * result.rows()
    assert (tmp_path / "add_loop.json").exists()
    with pytest.raises(torchstone.UsageError, match="the rows are CSV"):
        result.write(tmp_path / "rows.json")


def test_cachebench_without_a_model_that_passed_writes_nothing(tmp_path: Path) -> None:
    case = Case("moco", "compile_cache", "torchbench", Variant(device="cpu", mode="training"))
    run = Run("x", (case,), (Outcome(case, "timeout"),))
    result = torchstone.CachebenchResult(Reading("run.jsonl", "run", run, (2,)))
    assert not result.write(tmp_path / "cache.json")
    assert not list(tmp_path.iterdir())


def test_nothing_is_measured_of_a_finished_run() -> None:
    class NoJournal:
        path = "run.jsonl"
        loss = None

    run = Run("x", (), ())
    execution = Execution(run, Settings(), NoJournal(), None, EventWatcher(None))  # type: ignore[arg-type]
    assert execution.was_finished
    assert list(execution) == []
    assert execution.measure_all().run == run


def execute(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False, env=os.environ
    )


class TestScript:
    def test_options_are_those_of_the_command(self, folder: Path) -> None:
        wrong = execute(folder, "bench_it.py", "--no-such-option")
        assert wrong.returncode == 2
        assert "no such option: --no-such-option" in wrong.stderr
        assert "see 'torchstone run --help'" in wrong.stderr
        named = execute(folder, "-W", "error", "-m", "bench_it", "--shard", "3/2")
        assert (named.returncode, "--shard 3/2" in named.stderr) == (2, True)

    def test_importing_the_file_starts_nothing(self, folder: Path) -> None:
        ran = execute(folder, "-c", "import bench_it; print(bench_it.good.__name__)")
        assert (ran.returncode, ran.stdout) == (0, "good\n")
        assert ran.stderr == ""

    def test_without_a_file_it_is_an_error(self, folder: Path) -> None:
        ran = execute(folder, "-c", "import torchstone; torchstone.main()")
        assert "UsageError: torchstone.main() can be called only from a file" in ran.stderr

    @pytest.mark.slow
    def test_the_file_measures_itself(self, folder: Path) -> None:
        ran = execute(folder, "bench_it.py", *OPTIONS, "-k", "good", "-o", "good.jsonl")
        assert ran.returncode == 0, ran.stderr
        assert [outcome.case.benchmark for outcome in torchstone.read(folder / "good.jsonl")] == ["good"]
        assert execute(folder, "bench_it.py", *OPTIONS, "-k", "broken", "-o", "broken.jsonl").returncode == 1
        # A worker that imports the file does not start another run.
        assert sorted(path.name for path in folder.glob("*.jsonl")) == ["broken.jsonl", "good.jsonl"]
        assert not (folder / ".torchstone").exists()
