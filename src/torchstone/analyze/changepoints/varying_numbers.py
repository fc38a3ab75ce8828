"""Find changes of numbers that vary, such as times: scale, segment, describe and prune, window by window."""

from __future__ import annotations

from torchstone.analyze.changepoints.change_point import CONFIRMED, FRESH, ChangePoint
from torchstone.analyze.changepoints.noise_estimate import Floats
from torchstone.analyze.changepoints.pruning import Kept, prune
from torchstone.analyze.changepoints.scaled_windows import WindowBlock, make_blocks
from torchstone.analyze.changepoints.segmentation import segment


def find_in_numbers(windows: list[Floats], is_last: list[bool], certainty: float) -> list[list[ChangePoint]]:
    """Return the changes of each window; their indices count from its start."""
    changes: list[list[ChangePoint]] = [[] for _ in windows]
    for block in make_blocks(windows):
        ends = [is_last[number] for number in block.numbers]
        candidates = segment(block.windows.points, block.windows.counts, block.levels)
        for row, kept in enumerate(prune(block.windows, candidates, ends, certainty)):
            changes[block.numbers[row]] = [
                _report(block, row, change, at_end=ends[row] and change is kept[-1]) for change in kept
            ]
    return changes


def _report(block: WindowBlock, row: int, change: Kept, *, at_end: bool) -> ChangePoint:
    is_fresh = at_end and block.windows.counts[row] - change.at <= FRESH
    restore = block.units[row].restore
    return ChangePoint(
        change.at,
        change.certainty,
        restore(change.before),
        restore(change.after),
        provisional=bool(is_fresh and change.certainty < CONFIRMED),
    )
