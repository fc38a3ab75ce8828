"""Student's t, against the tables of every textbook, and against scipy where it is installed."""

from __future__ import annotations

import math

import pytest

from torchstone.analyze.student_t import t_quantile, two_sided_p, whole_t_quantile

TABLE = {
    (0.05, 1): 12.706,
    (0.05, 4): 2.776,
    (0.05, 10): 2.228,
    (0.05, 120): 1.980,
    (0.01, 1): 63.657,
    (0.01, 4): 4.604,
    (0.01, 8): 3.355,
    (0.01, 30): 2.750,
    (0.001, 2): 31.599,
    (0.001, 60): 3.460,
}


@pytest.mark.parametrize(("alpha", "freedom"), TABLE)
def test_quantiles_are_those_of_the_tables(alpha: float, freedom: int) -> None:
    assert t_quantile(alpha, freedom) == pytest.approx(TABLE[alpha, freedom], abs=6e-4)


@pytest.mark.parametrize("freedom", [1.0, 1.7, 3.0, 8.25, 40.0, 1e6])
@pytest.mark.parametrize("alpha", [1e-9, 0.001, 0.01, 0.2, 0.9, 0.999])
def test_a_quantile_is_as_likely_as_it_was_asked_to_be(alpha: float, freedom: float) -> None:
    assert two_sided_p(t_quantile(alpha, freedom), freedom) == pytest.approx(alpha, rel=1e-6)


def test_with_one_degree_of_freedom_it_is_the_cauchy_distribution() -> None:
    for t in (0.1, 1.0, 5.0, 300.0):
        assert two_sided_p(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, rel=1e-9)


def test_values_at_the_ends_are_certain_or_impossible() -> None:
    assert two_sided_p(0.0, 5) == 1
    assert two_sided_p(math.inf, 5) == 0
    assert two_sided_p(1e200, 5) == 0
    assert two_sided_p(math.nan, 5) == 1
    assert t_quantile(1e-300, 1e6) > 30


@pytest.mark.parametrize(("alpha", "freedom"), [(0.0, 3), (1.0, 3), (0.05, 0)])
def test_a_level_or_a_freedom_that_cannot_be_is_refused(alpha: float, freedom: float) -> None:
    with pytest.raises(ValueError, match="alpha is a share"):
        t_quantile(alpha, freedom)


def test_whole_degrees_of_freedom_give_the_same() -> None:
    assert whole_t_quantile(0.01, 8) == t_quantile(0.01, 8)


def test_it_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for freedom in (1, 2.5, 7, 31.4, 200):
        for t in (0.01, 0.5, 2.0, 7.0, 40.0):
            assert two_sided_p(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-8, abs=1e-200)
        for alpha in (0.5, 0.05, 0.01, 1e-6):
            assert t_quantile(alpha, freedom) == pytest.approx(stats.t.isf(alpha / 2, freedom), rel=1e-8)
