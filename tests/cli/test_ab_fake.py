"""What ``torchstone ab`` prints, writes and exits with, exactly: its workers are scripts, and no process is started."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Command
from live_processes import read_run
from torchstone.measure import session
from torchstone.measure.ab import budget, experiment, sides
from torchstone.measure.ab import pair as turns
from torchstone.measure.executors.fake import FakeExecutor, FakeLauncher, Script, fails, passes, takes_turns
from torchstone.measure.executors.protocol import LauncherRequest
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
    assert "[1/1] steps inference regression +25.0% [+22.0%, +28.0%] 10 pairs" in joined(ran.err)
    assert re.sub(r"in 0:0\d", "in 0:00", joined(ran.out)).startswith(
        "FAIL: 1 regression (margin 2%, alpha 0.25%) in 0:00; policy strict blocks red rows: exit code 1 case"
    )
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "regression steps inference +25.0% [+22.0%, +28.0%] 10 1 ms 1.25 ms" in lines
    a, b = (read_run(tmp_path / f"{side}.jsonl").run for side in "ab")
    assert set(a.outcomes[0].measurements[0].samples) == {1.0}
    assert set(b.outcomes[0].measurements[0].samples) == {1.25}
    assert a.plan[0].variant.backend == ""
    assert "policy strict blocks red rows: exit code 1" in ran.out
    again = torchstone(*shlex.split(a.outcomes[0].repro)[1:])
    assert (again.code, "1 regression" in again.out) == (1, True)


def test_sides_that_take_equally_long_are_the_same(torchstone: Command, workers: Ab) -> None:
    workers(lasting(2.0, 2.0))
    ran = torchstone("ab", "bench_ab.py", *SIDES)
    assert ran.code == 0
    assert re.match(r"PASS: 1 same \(margin 2%, alpha 0\.25%\) in 0:0\d; policy strict\n", ran.out)


def test_a_case_that_fails_on_both_sides_could_not_be_measured(torchstone: Command, workers: Ab) -> None:
    workers(lambda _: fails("eager_fail_to_run", "ValueError: no"))
    ran = torchstone("ab", "bench_ab.py", *SIDES)
    assert ran.code == 3
    assert joined(ran.out).startswith("UNDECIDED: 1 inconclusive ")
    assert "nothing could be measured: exit code 3" in joined(ran.out)
    assert "A failed: eager_fail_to_run: ValueError: no" in ran.out
    assert "B failed: eager_fail_to_run: ValueError: no" in ran.out


class Clock:
    """A clock that stands still, unless a worker or a keeper takes its time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def slowed(
        self, seconds: float, measure: Callable[[MeasureJob], Script]
    ) -> Callable[[MeasureJob], Script]:
        """Workers that take so many seconds each; a pair takes twice as long."""

        def answer(job: MeasureJob) -> Script:
            self.now += seconds
            return measure(job)

        return answer


class SlowExecutor(FakeExecutor):
    """Loads torch for so many seconds on each side."""

    def __init__(self, clock: Clock, seconds: float, measure: Callable[[MeasureJob], Script]) -> None:
        super().__init__(measure, [BenchmarkFound("steps", 4, modes=("inference",))])
        self._clock, self._seconds = clock, seconds

    def open(self, request: LauncherRequest) -> FakeLauncher:
        self._clock.now += self._seconds
        return super().open(request)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replaces the clock of everything that looks at the budget."""
    found = Clock()
    for module in (budget, experiment, turns, session, sides):
        monkeypatch.setattr(module, "time", found)
    return found


def joined(text: str) -> str:
    return " ".join(text.split())


def test_the_first_pair_shows_what_a_verdict_takes_and_that_the_budget_is_too_short(
    torchstone: Command, workers: Ab, clock: Clock, tmp_path: Path
) -> None:
    workers(clock.slowed(3.0, lasting(1.0, 1.25)))
    arguments = ("ab", "bench_ab.py", *SIDES, "--budget", "30s")
    ran = torchstone(*arguments, *FILES, "-o", "page.html")
    assert ran.code == 1
    lines = ran.err.splitlines()
    assert (
        "a pair takes 6 s here, a verdict takes at least 10 pairs: about 1 min in all; --budget is 30 s"
        in lines
    )
    assert "the budget is probably too short to decide anything: try --budget 80s" in lines
    assert (
        "[1/1] steps inference inconclusive not yet known (4 of at least 10 pairs) the budget was spent"
        " after 4 pairs, and at least 10 are needed to decide: about 6 more pairs (36 s)"
    ) in joined(ran.err)
    assert ran.out.startswith("UNDECIDED: 1 inconclusive ")
    assert "policy strict blocks undecided rows: exit code 1" in joined(ran.out)
    assert "inconclusive steps inference not yet known 4 of 10 1 ms 1.25 ms" in joined(ran.out)
    assert "about 36 s more would probably settle it: --budget 80s" in ran.out.splitlines()
    page = (tmp_path / "page.html").read_text()
    assert "not yet known (4 of at least 10 pairs)" in page
    assert "about 36 s more would probably settle it: --budget 80s" in page
    assert "?, ?" not in page + ran.out
    assert torchstone(*arguments, "--policy", "lenient").code == 0


def test_a_budget_that_suffices_is_said_to_without_advice(
    torchstone: Command, workers: Ab, clock: Clock
) -> None:
    workers(clock.slowed(3.0, lasting(1.0, 1.25)))
    ran = torchstone("ab", "bench_ab.py", *SIDES, "--budget", "80s")
    assert (ran.code, "1 regression" in ran.out) == (1, True)
    assert "about 1 min in all; --budget is 1 min 20 s" in ran.err
    assert "too short" not in ran.err
    assert "settle" not in ran.out


def test_a_budget_that_nobody_gave_allows_for_slow_pairs(
    torchstone: Command, workers: Ab, clock: Clock
) -> None:
    workers(clock.slowed(60.0, lasting(1.0, 1.25)))
    ran = torchstone("ab", "bench_ab.py", *SIDES)
    assert (ran.code, "1 regression" in ran.out) == (1, True)
    assert "a pair takes 2 min here" in ran.err
    assert "about 20 min in all; the default --budget is 30 min" in ran.err


def test_all_cases_share_the_budget_and_take_turns(torchstone: Command, workers: Ab, clock: Clock) -> None:
    workers(clock.slowed(3.0, lasting(1.0, 1.25)), "steps", "other")
    ran = torchstone("ab", "bench_ab.py", *SIDES, "--budget", "50s")
    assert "at least 10 pairs of each of 2 cases: about 2 min in all; --budget is 50 s" in ran.err
    assert "too short to decide every case" in ran.err
    assert ran.err.count("not yet known (4 of at least 10 pairs)") == 2  # a line of each
    assert joined(ran.out).count("not yet known 4 of 10 ") == 2  # and a row
    assert "about 1 min 12 s more would probably settle it: --budget 3m" in ran.out


def test_preparation_counts_and_is_shown_with_its_seconds(
    torchstone: Command, workers: Ab, clock: Clock
) -> None:
    workers(lasting(1.0, 1.0))
    with using_executor(SlowExecutor(clock, 20.0, clock.slowed(3.0, lasting(1.0, 1.25)))):
        ran = torchstone("ab", "bench_ab.py", *SIDES, "--budget", "60s")
    assert ran.code == 1
    assert "seed" in ran.err
    assert "at most 1:00 in all; preparing took 0:40" in ran.err
    assert "about 1 min 40 s in all; --budget is 1 min" in ran.err
    assert "not yet known (3 of at least 10 pairs)" in ran.err
    assert "1 inconclusive (margin 2%, alpha 0.25%) in 0:58" in ran.out


def test_preparation_that_takes_the_whole_budget_ends_inconclusive_and_writes_nothing(
    torchstone: Command, workers: Ab, clock: Clock, tmp_path: Path
) -> None:
    workers(lasting(1.0, 1.0))
    with using_executor(SlowExecutor(clock, 20.0, lasting(1.0, 1.0))):
        ran = torchstone("ab", "bench_ab.py", *SIDES, *FILES, "--budget", "30s")
    assert ran.code == 3
    assert (
        "error: inconclusive: the --budget of 30 s was spent before importing the benchmarks of B, and nothing was measured"
        in ran.err
    )
    assert "leave --budget out" in ran.err
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_pair_is_cut_off_when_the_budget_ends(
    torchstone: Command, workers: Ab, clock: Clock, tmp_path: Path
) -> None:
    workers(lasting(1.0, 1.0))
    with using_executor(SlowExecutor(clock, 14.0, clock.slowed(3.0, lasting(1.0, 1.0)))):
        ran = torchstone("ab", "bench_ab.py", *SIDES, *FILES, "--budget", "30s")
    assert "1 inconclusive" in ran.out
    assert "the budget was spent during the first pair, which was cut off after 6 s (load)" in joined(ran.out)
    assert (
        "--budget has to allow for the preparation (28 s here) and at least 10 pairs of each case" in ran.out
    )
    assert read_run(tmp_path / "a.jsonl").run.outcomes == ()


def test_a_compile_is_cut_off_when_the_budget_ends(torchstone: Command, workers: Ab, clock: Clock) -> None:
    workers(clock.slowed(40.0, lambda _: passes()))
    ran = torchstone("ab", "bench_ab.py", *SIDES, "--metric", "compile", "--budget", "30s")
    assert "the budget was spent during the first pair, which was cut off after 40 s" in joined(ran.out)


def test_a_failure_is_tried_again_even_if_the_budget_is_spent(
    torchstone: Command, workers: Ab, clock: Clock
) -> None:
    good = lasting(1.0, 1.0)
    workers(
        clock.slowed(
            14.0, lambda job: fails("OOM", "too large") if job.axes.backend == "eager" else good(job)
        )
    )
    ran = torchstone("ab", "bench_ab.py", *SIDES, "--budget", "30s")
    assert (ran.code, "1 regression" in ran.out) == (1, True)
    assert "B failed: OOM: too large" in ran.out


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
