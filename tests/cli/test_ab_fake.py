"""What ``torchstone ab`` prints, writes and exits with, exactly: its workers are scripts, and no process is started."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import Command
from live_processes import read_run
from torchstone.measure.ab import experiment
from torchstone.measure.ab import pair as turns
from torchstone.measure.executors.fake import FakeExecutor, Script, fails, passes, takes_turns
from torchstone.measure.executors.selection import using_executor
from torchstone.worker.protocol.jobs import MeasureJob
from torchstone.worker.protocol.replies import BenchmarkFound

FILES = ("--output-a", "a.jsonl", "--output-b", "b.jsonl")
SIDES = ("--a", "backend=inductor", "--b", "backend=eager")
MILLISECOND = 1e6

Ab = Callable[..., FakeExecutor]


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ab]:
    """Has the commands to come use workers that answer as a function of their job says."""
    monkeypatch.setattr(turns, "LONGEST_PAIR", 0.0)
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "kept"))
    (tmp_path / "bench_ab.py").write_text("")
    chosen = []

    def choose(measure: Callable[[MeasureJob], Script], *names: str) -> FakeExecutor:
        found = [BenchmarkFound(name, 4, modes=("inference",)) for name in names or ("steps",)]
        executor = FakeExecutor(measure, found)
        chosen.append(using_executor(executor))
        chosen[-1].__enter__()
        return executor

    yield choose
    for each in reversed(chosen):
        each.__exit__(None, None, None)


def lasting(a: float, b: float) -> Callable[[MeasureJob], Script]:
    """Workers whose calls take so many milliseconds."""
    return lambda job: takes_turns(lambda _: MILLISECOND * (b if job.axes.backend == "eager" else a))


def test_a_side_that_takes_longer_is_a_regression_with_exact_numbers(
    torchstone: Command, workers: Ab, tmp_path: Path
) -> None:
    workers(lasting(1.0, 1.25))
    ran = torchstone("ab", "bench_ab.py", *SIDES, *FILES, "--seed", "7")
    assert ran.code == 1
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert lines[0] == "[1/1] steps inference regression +25.0% [+22.0%, +28.0%] 10 pairs"
    assert "1 regression (margin 2%, alpha 0.25%) in 0:00" in lines
    assert "regression steps inference +25.0% [+22.0%, +28.0%] 10 1 ms 1.25 ms" in lines
    a, b = (read_run(tmp_path / f"{side}.jsonl").run for side in "ab")
    assert set(a.outcomes[0].measurements[0].samples) == {1.0}
    assert set(b.outcomes[0].measurements[0].samples) == {1.25}
    assert a.plan[0].variant.backend == ""
    again = torchstone(*shlex.split(a.outcomes[0].repro)[1:])
    assert (again.code, "1 regression" in again.out) == (1, True)


def test_sides_that_take_equally_long_are_the_same(torchstone: Command, workers: Ab) -> None:
    workers(lasting(2.0, 2.0))
    ran = torchstone("ab", "bench_ab.py", *SIDES)
    assert ran.code == 0
    assert "1 same" in ran.out


def test_a_case_that_fails_on_both_sides_could_not_be_measured(torchstone: Command, workers: Ab) -> None:
    workers(lambda _: fails("eager_fail_to_run", "ValueError: no"))
    ran = torchstone("ab", "bench_ab.py", *SIDES)
    assert ran.code == 3
    assert "1 inconclusive" in ran.out
    assert "A failed: eager_fail_to_run: ValueError: no" in ran.out
    assert "B failed: eager_fail_to_run: ValueError: no" in ran.out


def test_a_budget_that_is_spent_leaves_cases_inconclusive_which_only_strict_takes_for_a_failure(
    torchstone: Command, workers: Ab, tmp_path: Path
) -> None:
    workers(lasting(1.0, 1.0), "steps", "fails")
    arguments = ("ab", "bench_ab.py", *SIDES, "--budget", "0.1ms")
    ran = torchstone(*arguments, *FILES)
    assert ran.code == 0
    assert "2 inconclusive" in ran.out
    assert "one pair, which is not enough to decide" in " ".join(ran.out.split())
    assert "the budget was spent before a pair was measured" in ran.out
    assert "--strict" in ran.out
    run = read_run(tmp_path / "a.jsonl").run
    assert [each.status for each in run.outcomes] == ["pass"]
    assert {case.benchmark for case in run.plan} == {"fails", "steps"}
    assert torchstone(*arguments, "--strict").code == 1


def test_a_failure_is_tried_again_even_if_the_budget_is_spent(torchstone: Command, workers: Ab) -> None:
    good = lasting(1.0, 1.0)
    workers(lambda job: fails("OOM", "too large") if job.axes.backend == "eager" else good(job))
    ran = torchstone("ab", "bench_ab.py", *SIDES, "--budget", "0.1ms")
    assert (ran.code, "1 regression" in ran.out) == (1, True)
    assert "B failed: OOM: too large" in ran.out


def test_a_budget_for_fewer_pairs_than_can_decide_says_so(
    torchstone: Command, workers: Ab, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers(lasting(1.0, 4.0))
    seconds = itertools.count()  # every look at the clock is a second later
    monkeypatch.setattr(experiment, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    ran = torchstone("ab", "bench_ab.py", *SIDES, "--alpha", "0.000000001", "--budget", "16s")
    assert ran.code == 0
    assert "spent after 5 pairs, and at least 31 are needed to decide" in " ".join(ran.out.split())


def test_compile_times_are_compared_by_workers_that_take_no_turns(
    torchstone: Command, workers: Ab, tmp_path: Path
) -> None:
    executor = workers(lambda _: passes())
    ran = torchstone("ab", "bench_ab.py", *SIDES, "--metric", "compile", *FILES)
    assert ran.code == 0
    measured = read_run(tmp_path / "b.jsonl").run.outcomes[0].measurements[0]
    assert measured.metric == "compile_seconds"
    assert len(measured.trials) == len(measured.samples) >= 8
    jobs = [job for job in executor.jobs if isinstance(job, MeasureJob)]
    assert all(job.pair is not None and not job.pair.takes_turns for job in jobs)
    assert {job.options.repeat for job in jobs} == {1}
