"""The order of revisions that no repository knows."""

from __future__ import annotations

from torchstone.store.ordering import NO_HISTORY, History, Placed, Places


def test_revisions_without_a_history_stand_one_behind_the_other() -> None:
    places = Places([], NO_HISTORY)
    assert [places.add(name, "").position for name in ("one", "two", "three")] == [1, 2, 3]


def test_commits_stand_behind_all_labels_that_were_recorded_before() -> None:
    labels = [Placed("one", "", None, 1), Placed("two", "", None, 2)]
    places = Places(labels, History({"a": 5, "b": 6, "c": 7}, is_there=True))
    assert all(places.add(name, name).position > 2 for name in ("c", "a", "b"))
