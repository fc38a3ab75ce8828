"""False discoveries among many comparisons."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.analyze.multiple_comparisons import adjust


def test_one_comparison_is_left_as_it_is() -> None:
    assert adjust([0.02]) == [0.02]
    assert adjust([]) == []


def test_adjusted_values_are_those_worked_out_by_hand() -> None:
    assert adjust([0.001, 0.04, 0.03, 0.2, 0.9]) == pytest.approx([0.005, 0.2 / 3, 0.2 / 3, 0.25, 0.9])


@given(st.lists(st.floats(0, 1), max_size=30))
def test_nothing_becomes_more_certain_and_the_order_stays(p_values: list[float]) -> None:
    adjusted = adjust(p_values)
    assert all(0 <= before <= after <= 1 for before, after in zip(p_values, adjusted, strict=True))
    by_size = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [adjusted[n] for n in by_size] == sorted(adjusted)


def test_among_comparisons_without_any_difference_one_table_in_a_hundred_has_a_finding() -> None:
    chance = random.Random(7)  # noqa: S311  (noise, not secrets)
    tables = [[chance.random() for _ in range(40)] for _ in range(2000)]
    with_a_finding = sum(min(adjust(table)) <= 0.01 for table in tables)
    assert 5 <= with_a_finding <= 40
    assert sum(min(table) <= 0.01 for table in tables) > 500  # what looking at each by itself would find
