"""Only what may have another cause now is grouped again, also in a store full of changes."""

from __future__ import annotations

import pytest

from torchstone.analyze.changepoints.common_causes import CauseRange
from torchstone.history.causes import touched_changes
from torchstone.history.causes.touched_changes import ChangePlace, find_touched


def place(number: int, at: int, group: int | None) -> ChangePlace:
    return ChangePlace(number, group, CauseRange(at - 1, at - 1, at, at, is_exact=True))


def test_a_new_change_touches_what_begins_with_it_and_nothing_else() -> None:
    places = [place(1, 10, 1), place(2, 50, 2), place(3, 50, 2), place(4, 50, None)]
    assert find_touched(places, ()).ids == (2, 3, 4)


def test_a_change_that_moved_touches_its_group_elsewhere() -> None:
    places = [place(1, 10, 1), place(2, 50, 1), place(3, 90, 2), place(4, 10, 3)]
    assert find_touched(places, {2}).ids == (1, 2, 4)


def test_without_anything_new_nothing_is_touched() -> None:
    assert find_touched([place(1, 10, 1), place(2, 50, 2)], ()).ids == ()


def test_in_a_chain_of_changes_only_what_is_near_is_grouped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched_changes, "LARGEST_PART", 20)
    chain = [ChangePlace(n, n, CauseRange(n, n, n + 2, n + 2, is_exact=True)) for n in range(1, 101)]
    new = ChangePlace(500, None, CauseRange(49, 49, 51, 51, is_exact=True))
    touched = find_touched([*chain, new], ())
    assert {48, 49, 50, 500} <= set(touched.ids)
    assert touched.kept
    assert not {48, 49, 50} & touched.kept
    assert max(abs(number - 49) for number in touched.ids if number != 500) < 10
