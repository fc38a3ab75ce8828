"""Find changes of values that do not vary at random: statuses, and counts whose recent values are equal.

One point of another value suffices there. How certain it is follows from Laplace's rule of succession: after n equal
points, the chance of another value without any cause is 1 / (n + 2), and that of m such points in a row is the m-th
power. A single point after which the old value returns is a disturbance, not a level; disturbances within the last
30 points add to the chance of others, so a flaky status needs several points in a row.
"""

from __future__ import annotations

from collections import deque

from torchstone.analyze.changepoints.change_point import ChangePoint
from torchstone.analyze.changepoints.noise_estimate import Floats
from torchstone.analyze.changepoints.varying_numbers import find_in_numbers

RECENT = 30
"""Points that say whether a value varies."""
CONFIRMING = 15
"""More points of a new value add nothing to its certainty."""
FEWEST_EQUAL = 5
"""Counts are exact if at least so many recent points are equal; fewer may be equal by chance."""
NEAR = 5
"""A change of varying numbers this near an exact change is the same change."""


def find_in_statuses(
    windows: list[Floats], _is_last: list[bool], certainty: float
) -> list[list[ChangePoint]]:
    """Return the changes of each window of statuses."""
    return [_find_exact(values.tolist(), 1, certainty, allow_disturbed=True) for values in windows]


def find_in_counts(windows: list[Floats], is_last: list[bool], certainty: float) -> list[list[ChangePoint]]:
    """Return the changes of each window of counts: exact where its recent points are equal, else as of any number."""
    varying = find_in_numbers(windows, is_last, certainty)
    found = []
    for values, of_numbers in zip(windows, varying, strict=True):
        counts = values.tolist()
        exact = _find_exact(counts, FEWEST_EQUAL, certainty, allow_disturbed=False)
        others = [
            change
            for change in of_numbers
            if not _is_exact_before(counts, change.index)
            and all(abs(change.index - other.index) > NEAR for other in exact)
        ]
        found.append(sorted([*exact, *others], key=lambda change: change.index))
    return found


def _is_exact_before(counts: list[float], index: int) -> bool:
    recent = counts[max(0, index - RECENT) : index]
    return len(recent) >= FEWEST_EQUAL and len(set(recent)) == 1


def _find_exact(
    values: list[float], fewest_equal: int, certainty: float, *, allow_disturbed: bool
) -> list[ChangePoint]:
    """Go from run to run of equal values; a run begins a level, or is a disturbance of the level before it."""
    changes: list[ChangePoint] = []
    disturbed: deque[int] = deque()  # recent points that were not of the level then
    level, began, at = 0.0, 0, 0
    while at < len(values):
        run = _count_run(values, at)
        while disturbed and disturbed[0] < at - RECENT:
            disturbed.popleft()
        equal = min(at - began, RECENT) - sum(place >= began for place in disturbed)
        if at and values[at] != level:
            sure = _weigh(equal, len(disturbed), run)
            returns = run == 1 and at + 1 < len(values) and values[at + 1] == level
            is_exact = equal >= fewest_equal and (allow_disturbed or not disturbed)
            if is_exact and not returns and sure >= certainty:
                provisional = run == 1 and at + 1 == len(values)
                changes.append(ChangePoint(at, sure, level, values[at], provisional))
                level, began = values[at], at
            else:
                disturbed.extend(range(at, at + min(run, RECENT)))
                if run >= equal:  # the level before was none
                    level, began = values[at], at
                    disturbed = deque(place for place in disturbed if place < at or not allow_disturbed)
        elif not at:
            level = values[0]
        at += run
    return changes


def _count_run(values: list[float], at: int) -> int:
    end = at + 1
    while end < len(values) and values[end] == values[at]:
        end += 1
    return end - at


def _weigh(equal: int, disturbed: int, run: int) -> float:
    """Return 1 minus the chance that a run of other values has no cause."""
    chance = ((disturbed + 1) / (equal + disturbed + 2)) ** min(run, CONFIRMING)
    return 1 - min(1.0, chance * (RECENT if disturbed else 1))
