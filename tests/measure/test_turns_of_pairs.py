"""A pair of workers: both are made ready, take turns, and whatever one of them does, the pair comes to its end."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_processes import Bench
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.records import Case, Outcome, Variant
from torchstone.measure.ab import pair as turns
from torchstone.measure.ab.pair import PairResult, PairWorker, measure_pair
from torchstone.measure.measuring import Settings, make_job
from torchstone.measure.supervisor import WorkerLimits
from torchstone.worker.protocol.jobs import CodeTree, PairPart
from torchstone.worker.protocol.replies import Malformed, TurnReady, TurnTaken, decode_reply

HERE = Path(__file__).parent
SOURCE = BenchmarkSource("file", "bench_pairs", str(HERE / "bench_pairs.py"))
SETTINGS = Settings({"bench_pairs": SOURCE}, str(HERE), threads=1)

Play = Callable[..., PairResult]


@pytest.fixture
def play(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Has two workers of a benchmark take turns for a moment; what they are told beside their job is given for each."""
    monkeypatch.setattr(turns, "LONGEST_PAIR", 0.1)

    def call(
        name: str, *further: dict[str, Any], timeout: float = 60.0, seed: int = 1, memory: int | None = None
    ) -> PairResult:
        case = Case(name, "performance", "bench_pairs", Variant("cpu", "none", "inference", "float32"))
        job = make_job(case, SETTINGS, "fork")
        own: dict[str, Any] = {"takes_turns": True, "cores": tuple(sorted(os.sched_getaffinity(0))[-1:])}
        limits = WorkerLimits(timeout, memory)

        def starter(more: dict[str, Any]) -> Callable[[], PairWorker]:
            part = own | {key: value for key, value in more.items() if key != "environment"}
            told = replace(job, environment=more.get("environment"), pair=PairPart(**part))
            return lambda: PairWorker(case, bench.session.launcher, told, limits)

        starts = [starter(more) for more in further or ({}, {})]
        return measure_pair(starts, random.Random(seed), case, bench.watcher)  # noqa: S311

    return call


FAIL = {"environment": {"FAIL": "1"}}


def test_both_sides_have_equally_many_turns_and_pass(play: Play) -> None:
    played = play("steps")
    one, other = played.times
    assert len(one) == len(other) >= turns.FEWEST_EXCHANGES
    assert all(time > 0 for time in (*one, *other))
    assert [outcome.status for outcome in played.outcomes] == ["pass", "pass"]
    assert math.isfinite(played.log_ratio)


def test_a_side_that_does_three_times_as_much_takes_longer(play: Play) -> None:
    played = play("steps", {}, {"environment": {"STEPS": "600"}})
    assert played.log_ratio > math.log(1.5)
    assert play("steps", {"environment": {"STEPS": "600"}}, {}).log_ratio < -math.log(1.5)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_side_that_fails_to_load_is_told_from_the_one_that_does_not_whoever_starts_first(
    play: Play, seed: int
) -> None:
    played = play("fails", {}, FAIL, seed=seed)
    assert [outcome.status for outcome in played.outcomes] == ["pass", "eager_fail_to_run"]
    assert played.outcomes[1].failure
    assert "it fails on this side" in played.outcomes[1].failure.message
    assert played.times == ((), ())


def test_a_worker_that_dies_in_its_turn_ends_the_pair_and_leaves_no_times(play: Play) -> None:
    played = play("dies", {}, FAIL)
    assert [outcome.status for outcome in played.outcomes] == ["pass", "worker_died"]
    assert played.times == ((), ())


def test_a_worker_that_does_not_end_in_time_is_ended_and_the_other_which_waited_for_it_passes(
    play: Play,
) -> None:
    played = play("steps", {}, {"environment": {"STEPS": "100000000"}}, timeout=3.0)
    assert [outcome.status for outcome in played.outcomes] == ["pass", "timeout"]
    assert played.times == ((), ())


def test_a_worker_that_uses_too_much_memory_is_ended(play: Play) -> None:
    played = play("steps", memory=1000)
    assert {outcome.status for outcome in played.outcomes} == {"OOM"}


def test_workers_are_timed_on_the_cores_they_are_told(bench: Bench, play: Play) -> None:
    core = sorted(os.sched_getaffinity(0))[0]
    seen: set[frozenset[int]] = set()
    read_log = turns.PairWorker.listen

    def listen(player: PairWorker) -> None:
        if player.is_ready:
            seen.add(frozenset(os.sched_getaffinity(player.worker.pid)))
        read_log(player)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns.PairWorker, "listen", listen)
        play("steps", {"cores": (core,)}, {"cores": (core,)})
    assert seen == {frozenset({core})}
    assert bench.session.launcher


def test_nothing_a_model_writes_into_the_channel_is_taken_for_a_time() -> None:
    given: list[object] = [0, -1, 1e-320, 1e300, math.nan, math.inf, True, "5", None, []]
    for told in given:
        assert isinstance(decode_reply({"each": told}), Malformed)
        assert isinstance(decode_reply({"took": told}), Malformed)
    assert isinstance(decode_reply({"each": 0.001, "from_elsewhere": 5}), Malformed)
    assert decode_reply({"each": 5}) == TurnReady(5)
    assert decode_reply({"took": 0.5}) == TurnTaken(0.5)


def test_modules_of_the_repository_that_do_not_come_from_the_worktree_are_named(
    play: Play, tmp_path: Path
) -> None:
    tree = CodeTree(str(HERE), str(tmp_path))
    played = play("steps", {}, {"tree": tree})
    assert played.code[0].from_elsewhere == ()
    assert any("bench_pairs" in module for module in played.code[1].from_elsewhere)
    assert played.times == ((), ())


def test_the_log_ratio_is_the_median_over_rounds_not_over_sides() -> None:
    outcome = Outcome(Case("x", "performance"), "pass")
    played = PairResult(((1.0, 2.0, 4.0), (2.0, 4.0, 4.0)), (outcome, outcome))
    assert played.log_ratio == pytest.approx(math.log(2))


def test_memory_is_scattered_by_chance_and_only_where_a_seed_says_so() -> None:
    from torchstone.worker.probes.turns import scatter_memory  # noqa: PLC0415  (imports torch)

    assert scatter_memory(None) == []
    sizes = [[len(block) for block in scatter_memory(seed)] for seed in (1, 1, 2)]
    assert sizes[0] == sizes[1] != sizes[2]
    assert all(512 <= size <= 1 << 17 for size in sizes[0])
