"""Values with their intervals, and names that are cut but stay distinct."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.core.text.intervals import format_interval, format_with_interval, is_too_wide
from torchstone.core.text.short_names import shorten_names
from torchstone.reporting.dialects.columns import render_table_text
from torchstone.reporting.views.result_table import ResultTable

NUMBERS = st.floats(1e-9, 1e9)


@pytest.mark.parametrize(
    ("value", "interval", "unit", "text"),
    [
        (0.153, (0.052, 0.9), "x", "0.15x (0.05 to 0.90)"),
        (1.2431, (1.2307, 1.2555), "x", "1.243x (1.231 to 1.256)"),
        (1.24, (1.2, 1.3), "x", "1.24x (1.20 to 1.30)"),
        (1.24321, (1.24319, 1.24323), "x", "1.243x"),
        (2.0, (2.0, 2.0), "x", "2.000x"),
        (1.5, None, "x", "1.500x"),
        (3.0, (0.5, 250.0), "ms", "3 ms (0.5 to 250)"),
        (12500.0, (12345.0, 12890.0), "ms", "12,500 ms (12,345 to 12,890)"),
        (3.3e-7, (3.2e-7, 3.4e-7), "s", "3.3e-07 s (3.2e-07 to 3.4e-07)"),
        (-2.0, (-5.0, 1.0), "%", "-2.0% (-5.0 to 1.0)"),
        (1.5, (0.5, math.inf), "x", "1.500x (at least 0.5)"),
        (1.5, (math.nan, 2.0), "x", "1.500x (not known)"),
    ],
)
def test_a_value_has_as_many_digits_as_its_interval_allows(
    value: float, interval: tuple[float, float] | None, unit: str, text: str
) -> None:
    assert format_with_interval(value, interval, unit) == text


@given(NUMBERS, NUMBERS)
def test_both_ends_are_close_to_what_they_say(one: float, other: float) -> None:
    low, high = sorted((one, other))
    text = format_interval(low, high)
    assert len(text) <= 30
    ends = [float(end.replace(",", "")) for end in text.split(" to ")]
    for shown, end in zip((ends[0], ends[-1]), (low, high), strict=True):
        assert abs(shown - end) <= max(0.5, 0.05 * (high - low), 6e-3 * abs(end))
        assert shown > 0


@given(st.floats(-1e6, 1e6), st.floats(), st.floats())
def test_no_interval_is_too_odd_to_be_shown(value: float, low: float, high: float) -> None:
    assert format_with_interval(value, (low, high), "x")
    assert isinstance(is_too_wide(value, (low, high)), bool)


@pytest.mark.parametrize(
    ("value", "interval", "wide"),
    [
        (1.0, (0.76, 1.25), False),
        (1.0, (0.7, 1.25), True),
        (0.0, (0.0, 0.0), False),
        (0.0, (0.0, 0.1), True),
        (1.0, (0.9, math.inf), True),
        (1.0, (math.nan, 1.0), True),
        (1.0, None, False),
    ],
)
def test_an_interval_wider_than_half_its_value_is_too_wide(
    value: float, interval: tuple[float, float] | None, wide: bool
) -> None:
    assert is_too_wide(value, interval) is wide


@given(st.lists(st.text("ab_", min_size=1, max_size=30), unique=True), st.integers(4, 20))
def test_names_stay_distinct_and_short_ones_whole(names: list[str], width: int) -> None:
    shown = shorten_names(names, width)
    assert list(shown) == names
    assert len(set(shown.values())) == len(names)
    for name, text in shown.items():
        assert text == name or (len(text) == width < len(name))
        start, _, end = text.partition("…")
        assert re.fullmatch(f"{re.escape(start)}.*{re.escape(end)}", name)


def test_a_table_of_80_columns_wraps_its_cells_and_cuts_none() -> None:
    names = [f"{50 * 'n'}_{number}" for number in range(3)]
    text = render_table_text(ResultTable("", ("case", "result"), [(name, 40 * "word ") for name in names]))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    joined = "".join(line.split()[0] for line in text.splitlines() if line[:1] == "n" or line[:1] == "_")
    assert all(name in joined for name in names)
