"""The self-test: what comparisons come to, and real ones of a small model with itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from live_processes import run_torchstone
from torchstone.measure.ab.self_comparison import SelfComparison, score

BENCH = """
import torch, torchstone

@torchstone.benchmark
def layers():
    return torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(20))), (torch.ones(8, 64),)

@torchstone.benchmark
def broken():
    raise RuntimeError("no model")
"""


def tried(slow_down: float, verdict: str, *, pairs: int = 9, seconds: float = 20.0) -> SelfComparison:
    return SelfComparison("net::performance", slow_down, verdict, pairs, seconds, 1.0, 0.9, 1.1)


def test_comparisons_are_counted_by_the_work_that_was_added() -> None:
    found = score(
        [
            tried(0.0, "same", seconds=10),
            tried(0.0, "regression", seconds=30),
            tried(0.0, "improvement", seconds=20),
            tried(0.05, "regression"),
            tried(0.05, "inconclusive", pairs=12),
        ]
    )
    plain, slowed = found
    assert (plain.tries, plain.false_alarms, plain.same, plain.median_seconds) == (3, 2, 1, 20)
    assert (slowed.tries, slowed.slower, slowed.inconclusive, slowed.median_pairs) == (2, 1, 1, 10.5)
    assert plain.most_false == pytest.approx(0.983, abs=0.001)
    assert slowed.least_caught == pytest.approx(0.0253, abs=0.001)


def test_what_could_not_be_measured_says_nothing_about_verdicts() -> None:
    assert score([tried(0.0, "inconclusive", pairs=0)]) == []


@pytest.mark.slow
def test_work_that_is_really_added_is_noticed_and_everything_is_written_down(tmp_path: Path) -> None:
    (tmp_path / "bench_mine.py").write_text(BENCH)
    done = run_torchstone(
        tmp_path,
        *("selftest", "bench_mine.py", "--backend", "none", "--slow-down", "80%", "--seed", "3"),
        *("--margin", "20%", "--alpha", "5%", "--budget", "10m", "-o", "self.json"),
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "self.json").read_text())
    verdicts = {(each["case"].partition("[")[0], each["slow_down"]): each for each in told["comparisons"]}
    slowed = verdicts["bench_mine::layers", 0.8]
    assert slowed["verdict"] == "regression"
    assert 1.3 < slowed["ratio"] < 2.5
    assert verdicts["bench_mine::broken", 0.0]["pairs"] == 0
    assert {each["slow_down"]: each["tries"] for each in told["scores"]} == {0.0: 1, 0.8: 1}
    assert "false alarms: 0 of 1" in done.stdout
    assert "80% slower: 1 of 1 detected" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Usage: torchstone selftest"),
        (["smoke", "--slow-down", "fast"], "--slow-down fast"),
        (["smoke", "--slow-down", "0%"], "--slow-down 0%"),
        (["smoke", "--repeat", "0"], "--repeat 0"),
        (["smoke", "--output", "nowhere/x.json"], "nowhere"),
        (["nosuch"], "nosuch"),
    ],
)
def test_what_cannot_be_right_is_refused_at_once(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = run_torchstone(tmp_path, "selftest", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
