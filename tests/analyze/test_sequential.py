"""The paired test: it may be looked at after every pair, and is right about as often as it says, whatever the noise is like."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchstone.analyze.sequential import PairedTest, hodges_lehmann

MARGIN, ALPHA = 0.02, 0.0025

LOG_RATIOS = st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=25)


def decide(log_ratios: Iterator[float], most: int = 60) -> tuple[str, int]:
    """The decision of someone who looks after every pair, and the pairs it took."""
    test = PairedTest(MARGIN, ALPHA)
    while not test.decision() and test.pairs < most:
        test.add(next(log_ratios))
    return test.decision(), test.pairs


def draw(
    chance: random.Random, one: Callable[[random.Random], float], effect: float = 0.0
) -> Iterator[float]:
    while True:
        yield effect + one(chance)


NOISES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda chance: chance.gauss(0, 0.01),
    "wide": lambda chance: chance.gauss(0, 0.03),
    "heavy-tailed": lambda chance: 0.003 * math.tan(math.pi * (chance.random() - 0.5)),
    "bimodal": lambda chance: chance.choice((-0.02, 0.02)) + chance.gauss(0, 0.002),
    "mostly none": lambda chance: chance.choice((0.0, 0.0, 0.0, -0.05, 0.05)),
}


@pytest.mark.parametrize("noise", NOISES)
def test_without_a_difference_hardly_ever_is_one_seen(noise: str) -> None:
    chance = random.Random(7)  # noqa: S311
    verdicts = [decide(draw(chance, NOISES[noise]))[0] for _ in range(1000)]
    false = sum(verdict in {"slower", "faster"} for verdict in verdicts)
    assert false <= 17  # of 10 that are allowed on average; more than 17 would be one chance in a hundred


@pytest.mark.parametrize("noise", ["normal", "bimodal", "mostly none"])
def test_a_slow_down_of_twice_the_margin_is_caught(noise: str) -> None:
    chance = random.Random(8)  # noqa: S311
    verdicts = [decide(draw(chance, NOISES[noise], effect=math.log(1.04)))[0] for _ in range(300)]
    assert sum(verdict == "slower" for verdict in verdicts) >= 285


def test_noise_that_gets_wider_and_drifts_raises_no_alarm() -> None:
    chance = random.Random(9)  # noqa: S311

    def wander() -> Iterator[float]:
        width = 0.002
        while True:
            width *= chance.choice((0.7, 1.6))
            yield chance.choice((-1, 1)) * width

    verdicts = [decide(wander())[0] for _ in range(1000)]
    assert sum(verdict in {"slower", "faster"} for verdict in verdicts) <= 17


def test_certain_but_smaller_than_the_margin_is_the_same() -> None:
    chance = random.Random(10)  # noqa: S311
    verdicts = [decide(draw(chance, lambda c: c.gauss(0, 0.002), effect=0.003))[0] for _ in range(50)]
    assert verdicts.count("same") >= 48


def test_no_decision_comes_from_fewer_pairs_than_chance_could_explain() -> None:
    verdict, pairs = decide(repeat(0.5))
    assert (verdict, pairs) == ("slower", 10)  # 2 ** -9 is not yet below half of alpha
    assert 2**-9 > ALPHA / 2 >= 2**-10


def test_which_way_round_is_all_that_a_sign_changes() -> None:
    assert decide(repeat(-0.5)) == ("faster", 10)


@given(LOG_RATIOS)
def test_the_interval_holds_the_estimate_and_turns_round_with_the_sides(log_ratios: list[float]) -> None:
    test, turned = PairedTest(MARGIN, ALPHA), PairedTest(MARGIN, ALPHA)
    for log_ratio in log_ratios:
        test.add(log_ratio)
        turned.add(-log_ratio)
    ratio, low, high = test.effect()
    assert 0 <= low <= ratio <= high
    assert turned.effect().ratio == pytest.approx(1 / ratio)
    assert turned.effect().high == pytest.approx(1 / low if low else math.inf, rel=1e-6)


@given(LOG_RATIOS)
def test_the_decision_is_what_the_interval_says(log_ratios: list[float]) -> None:
    test = PairedTest(MARGIN, ALPHA)
    for log_ratio in log_ratios:
        test.add(log_ratio)
    _, low, high = test.effect()
    if test.decision() == "same":
        assert low > 1 / 1.02 - 1e-6
        assert high < 1.02 + 1e-6
    elif test.decision() == "slower":
        assert low > 1 - 1e-6
    elif test.decision() == "faster":
        assert high < 1 + 1e-6
    else:
        assert low <= 1 + 1e-6
        assert high >= 1 - 1e-6


@given(LOG_RATIOS)
@settings(deadline=None)
def test_an_interval_never_gets_wider(log_ratios: list[float]) -> None:
    test = PairedTest(MARGIN, ALPHA)
    before = 0.0
    for log_ratio in log_ratios:
        test.add(log_ratio)
        low = test.effect().low
        assert low >= min(before, test.effect().ratio) - 1e-9
        before = low


def test_how_many_more_pairs_it_takes_is_about_right() -> None:
    chance = random.Random(11)  # noqa: S311
    test = PairedTest(MARGIN, ALPHA)
    for _ in range(6):
        test.add(chance.gauss(0.04, 0.005))
    more = test.more_pairs()
    assert more is not None
    assert 1 <= more <= 4
    for _ in range(more + 3):
        test.add(chance.gauss(0.04, 0.005))
    assert test.decision() == "slower"
    assert test.more_pairs() == 0


def test_of_one_pair_nothing_can_be_said() -> None:
    test = PairedTest(MARGIN, ALPHA)
    assert test.effect() == (1.0, 0.0, math.inf)
    test.add(0.1)
    assert (test.decision(), test.more_pairs()) == ("", None)


@pytest.mark.parametrize("log_ratio", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(log_ratio: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        PairedTest(MARGIN, ALPHA).add(log_ratio)


@pytest.mark.parametrize(("margin", "alpha"), [(0, 0.01), (0.02, 0), (-1, 0.5), (0.02, 1), (math.inf, 0.01)])
def test_shares_that_are_none_are_refused(margin: float, alpha: float) -> None:
    with pytest.raises(ValueError, match="a share above 0"):
        PairedTest(margin, alpha)


def test_log_ratios_that_are_all_the_same_and_huge_overflow_nothing() -> None:
    test = PairedTest(MARGIN, ALPHA)
    for _ in range(30):
        test.add(800.0)
    assert test.decision() == "slower"
    assert test.effect().high == math.inf


def test_the_estimate_is_the_median_of_the_means_of_two() -> None:
    assert hodges_lehmann([1.0]) == 1.0
    assert hodges_lehmann([0.0, 0.0, 0.0, 100.0]) == 0.0
