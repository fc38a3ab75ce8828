"""What a contest makes of its pairs, and zygotes that are renewed between them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec import structs

from live_processes import Bench
from torchstone.core.details.device_state import DeviceState
from torchstone.core.details.outcome_details import OutcomeDetails, TorchSettingsDetails
from torchstone.core.records import Case, Failure, Outcome
from torchstone.core.text.units import duration_text
from torchstone.measure.ab.contest import AbSettings, Contest
from torchstone.measure.ab.pair import PairResult
from torchstone.worker.machine.external_programs import ask

CASE = Case("steps", "performance")
GOOD = Outcome(CASE, "pass")
CRASHED = Outcome(CASE, "worker_died", failure=Failure("run", "ended by SIGABRT"))


def pair(ratio: float = 1.0, *, a: bool = True, b: bool = True) -> PairResult:
    times = ((1.0,), (ratio,)) if a and b else ((), ())
    return PairResult(times, (GOOD if a else CRASHED, GOOD if b else CRASHED))


def decided(pairs: Iterable[PairResult], terms: AbSettings | None = None) -> Contest:
    contest = Contest(CASE, (CASE, CASE), 0, terms or AbSettings())
    for played in pairs:
        if not contest.verdict:
            contest.take(played)
    return contest


def test_a_b_that_crashes_every_other_time_is_a_regression_however_fast() -> None:
    contest = decided(pair(b=bool(number % 2)) for number in range(60))
    assert contest.verdict == "regression"
    assert contest.reason.startswith("B failed in ")
    assert contest.could_measure


@pytest.mark.parametrize("failing", [{"a": False}, {"b": False}])
def test_a_single_failure_is_told_and_decides_nothing(failing: dict[str, bool]) -> None:
    contest = decided([pair(), pair(**failing), *(pair() for _ in range(40))])
    assert contest.verdict == "inconclusive"
    assert "failed in 1 of " in contest.reason
    assert re.search(r"disagree: \d+ pass, 1 worker_died", contest.reason)


def test_a_side_states_what_its_latest_trial_was_measured_under() -> None:
    state = DeviceState("nvml", name="NVIDIA H200")
    under = OutcomeDetails(
        torch=TorchSettingsDetails(tf32=True), device_state=state, device="cuda:0", duration=1.0
    )
    measured = (GOOD, structs.replace(GOOD, details=under))
    contest = decided(PairResult(((1.0,), (1.0,)), measured) for _ in range(40))
    found = contest.outcome(1, "").details
    assert found is not None
    assert (found.torch, found.device_state, found.device) == (under.torch, state, "cuda:0")
    before = contest.outcome(0, "").details
    assert before is not None
    assert before.device_state is None


def test_without_failures_there_is_nothing_to_tell() -> None:
    contest = decided(pair(1.1) for _ in range(40))
    assert (contest.verdict, contest.reason) == ("regression", "")


def test_a_contest_that_waits_for_more_pairs_says_for_how_many() -> None:
    contest = decided((pair() for _ in range(20)), AbSettings(fewest_pairs=100))
    contest.give_up()
    assert contest.reason == (
        "the budget was spent after 20 pairs, and at least 100 are needed to decide: about 80 more pairs"
    )


def test_an_undecided_contest_says_how_many_more_pairs_would_settle_it_and_how_long_they_take() -> None:
    contest = Contest(CASE, (CASE, CASE), 0, AbSettings())
    for number in range(12):
        contest.take(pair(1.02 if number % 2 else 1.0), seconds=30.0)
    contest.give_up()
    more = contest.more_pairs()
    assert more is not None
    assert contest.reason == f"about {more} more pairs ({duration_text(30.0 * more)}) would settle it"


def test_a_pair_after_the_first_is_expected_to_take_as_long_without_compiling() -> None:
    contest = Contest(CASE, (CASE, CASE), 0, AbSettings())
    assert contest.pair_seconds is None
    compiled = [
        Outcome(CASE, "pass", details=OutcomeDetails(phases={"compile": each})) for each in (25.0, 20.0)
    ]
    contest.take(PairResult(((1.0,), (1.0,)), (compiled[0], compiled[1])), seconds=30.0)
    assert [contest.pair_seconds] == [5.0]
    for seconds in (7.0, 9.0, 8.0):
        contest.take(pair(), seconds)
    assert contest.seconds == 54.0
    assert [contest.pair_seconds] == [8.0]


BENCHES = """
import torch, torchstone

@torchstone.benchmark
def adds():
    return torch.neg, (torch.ones(4),)
"""


def test_a_renewed_zygote_is_another_process_and_keeps_what_the_old_one_had(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "bench_it.py").write_text(BENCHES)
    scratch = Path(bench.session.scratch)
    (scratch / "kept").touch()
    before = set(_zygotes())
    wait_until_ready = bench.session.renew()
    wait_until_ready()
    assert len(set(_zygotes()) - before) == 1
    assert (scratch / "kept").exists()
    outcomes = bench.measure(tmp_path / "bench_it.py", ["adds"])
    assert [outcome.status for outcome in outcomes.values()] == ["pass"]


def _zygotes() -> list[int]:
    """The children of this process that fork workers."""
    listed = ask(["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())]).out.splitlines()
    return [int(line.split()[0]) for line in listed if "torchstone.worker.zygote" in line]


def test_git_is_asked_as_if_there_were_no_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(["git", "init", "--quiet", str(tmp_path / "one")])
    ask(["git", "init", "--quiet", str(tmp_path / "other")])
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "one" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "one" / ".git" / "index"))
    found = ask(["git", "-C", str(tmp_path / "other"), "rev-parse", "--absolute-git-dir"])
    assert found.out.strip() == str(tmp_path / "other" / ".git")


def on_device(ratio: float = 1.0) -> PairResult:
    return PairResult(((1.0,), (ratio,)), (GOOD, GOOD), on_device=True)


def test_pairs_timed_on_the_device_are_compared_by_device_latency() -> None:
    contest = decided(on_device(1.1) for _ in range(40))
    assert (contest.metric, contest.verdict) == ("device_latency", "regression")
    assert [each.metric for each in contest.outcome(1, "").measurements] == ["device_latency"]
    assert decided([pair()]).metric == "abs_latency"


def test_pairs_of_two_clocks_are_never_mixed() -> None:
    contest = decided([on_device(), pair(), pair()])
    assert contest.pairs == 1
    assert contest.verdict == "inconclusive"
    assert contest.reason == "the device's own time is known in some pairs only"
