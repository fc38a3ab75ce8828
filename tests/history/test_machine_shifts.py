"""A machine that shifts is told from code that slows things down; what cannot be told apart needs every kind of time to move."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from comparison_files import case_of
from stored_runs import EPYC, one_number, opened, recorded, run_of
from torchstone.core.records import Measurement, Outcome
from torchstone.history.causes.machine_shifts import TimedSeries, find_way, has_shifted
from torchstone.history.causes.stored_groups import read_groups
from torchstone.history.change_records import Cause
from torchstone.history.update import bring_up_to_date


def machine(
    factors: Sequence[float],
    metric: str = "abs_latency",
    *,
    seed: int = 1,
    common: float = 0.0,
    behind: int = 4,
) -> list[TimedSeries]:
    """Series with a per cent of noise, each slower by its factor in the last runs; ``common`` noise moves all of a run."""
    chance = random.Random(seed)  # noqa: S311  (noise, not secrets)
    shared = [chance.gauss(0, common) for _ in range(15 + behind)]
    found = []
    for factor in factors:
        values = [chance.gauss(0, 0.01) + each for each in shared]
        found.append(
            TimedSeries(
                metric,
                dict(enumerate(values[:15])),
                {15 + n: value + math.log(factor) for n, value in enumerate(values[15:])},
            )
        )
    return found


STEADY, SLOWER = [1.0] * 40, [1.05] * 40


def test_a_machine_that_slows_down_alone_has_shifted() -> None:
    assert find_way(machine(SLOWER)) == 1
    assert find_way(machine([0.95] * 40)) == -1
    assert has_shifted(machine(SLOWER), [machine(STEADY, seed=2)])


def test_noise_is_no_shift() -> None:
    assert not any(find_way(machine(STEADY, seed=seed)) for seed in range(50))


def test_what_moves_all_cases_of_one_run_makes_the_test_stricter() -> None:
    shifted = sum(find_way(machine(STEADY, seed=seed, common=0.02, behind=1)) != 0 for seed in range(200))
    assert shifted <= 10


def test_half_of_the_cases_are_no_machine() -> None:
    part = [1.2] * 26 + [1.0] * 14
    assert not has_shifted(machine(part), [machine(STEADY, seed=2)])


def test_a_change_that_another_machine_shows_too_is_of_the_code() -> None:
    assert not has_shifted(machine(SLOWER), [machine(STEADY, seed=2), machine(SLOWER, seed=3)])
    some = [1.2] * 10 + [1.0] * 30
    assert not has_shifted(machine(SLOWER), [machine(some, seed=2)])


def test_another_machine_that_got_faster_is_no_witness_against_it() -> None:
    assert has_shifted(machine(SLOWER), [machine([0.9] * 40, seed=2)])


def test_control_cases_that_stay_show_that_it_is_the_code() -> None:
    assert not has_shifted(machine(SLOWER), [], machine([1.0] * 3, seed=2))
    assert has_shifted(machine(SLOWER), [], machine([1.05] * 3, seed=2))


def test_alone_every_kind_of_time_has_to_move() -> None:
    slower_calls = machine(SLOWER)
    assert not has_shifted([*slower_calls, *machine(STEADY[:20], "compile_seconds", seed=2)], [])
    assert has_shifted([*slower_calls, *machine(SLOWER[:20], "compile_seconds", seed=2)], [])


def test_a_few_series_are_no_machine() -> None:
    assert not has_shifted(machine(SLOWER[:7]), [])


def test_a_machine_with_too_few_runs_before_is_unknown() -> None:
    short = [
        TimedSeries(each.metric, dict(list(each.before.items())[:4]), each.behind) for each in machine(SLOWER)
    ]
    assert not has_shifted(short, [])


@pytest.mark.parametrize("factor", [1.0, 1.1], ids=["steady controls", "slower controls"])
def test_control_cases_of_the_runs_decide(tmp_path: Path, factor: float) -> None:
    chance = random.Random(5)  # noqa: S311  (noise, not secrets)

    def value(run: int, slower: float) -> float:
        return 10.0 * (slower if run >= 40 else 1.0) * (1 + chance.gauss(0, 0.01))

    with opened(str(tmp_path / "history.db")) as database:
        for run in range(1, 61):
            outcomes = [one_number(f"net{case}", value(run, 1.1)) for case in range(12)]
            controls = tuple(
                Outcome(
                    case_of(f"control{case}"), "pass", (Measurement("abs_latency", (value(run, factor),)),)
                )
                for case in range(3)
            )
            made = run_of(run, outcomes, environment=EPYC)
            recorded(database, structs.replace(made, controls=controls))
        bring_up_to_date(database)
        causes = {group.cause for group in read_groups(database) if len(group.changes) > 2}
    assert causes == {Cause.MACHINE if factor > 1 else Cause.CODE}
