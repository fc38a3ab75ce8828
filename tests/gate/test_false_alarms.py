"""Unchanged code is hardly ever red, as long as the machine is no noisier than the documented default: a small simulation."""

from __future__ import annotations

import random

import pytest
from simulated_checks import DESIGNS, Alarms, Design, check_once, count_alarms

from torchstone.core.vocabulary import Verdict

RUNS = 40
DECIDING = Design("--decide, a baseline of 10", 10, 1, decides=True)
TWICE_THE_MARGIN = 0.3


@pytest.mark.parametrize("scale", [0.5, 1.0])
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_at_most_one_row_in_a_hundred_is_red_by_chance(design: Design, scale: float) -> None:
    found = count_alarms(design, scale, RUNS)
    assert found.rows == RUNS * 24
    assert found.red_share <= 0.01


def test_two_single_processes_are_hardly_ever_red_where_the_noise_is_twice_the_default() -> None:
    """Such a machine is not rare, and one process a side cannot know it."""
    for base in (1, 5):
        assert count_alarms(Design("one process", base, 1), 2.0, RUNS).red_share <= 0.01


def test_five_looks_do_not_cause_more_alarms_where_the_noise_is_twice_the_default() -> None:
    """With trials on both sides nothing is assumed about the noise."""
    assert count_alarms(DECIDING, 2.0, RUNS).red_share <= 0.01


def test_looking_again_decides_what_one_process_left_open() -> None:
    once, again = Alarms(), Alarms()
    chance = random.Random("looking")  # noqa: S311  (noise, not secrets)
    for _ in range(RUNS):
        once = once.and_those_of(check_once(Design("once", 10, 1), 1.0, chance)[0])
        again = again.and_those_of(check_once(DECIDING, 1.0, chance)[0])
    assert again.undecided < once.undecided
    assert again.passed > once.passed


def test_twice_the_margin_slower_is_red() -> None:
    chance = random.Random("slower")  # noqa: S311  (noise, not secrets)
    red = 0
    for _ in range(20):
        judged, _ = check_once(DECIDING, 1.0, chance, TWICE_THE_MARGIN)
        rows = {row.metric for row in judged.rows if row.verdict is Verdict.REGRESSION and row.blocks}
        red += bool(rows & {"abs_latency", "speedup"})
    assert red >= 19
