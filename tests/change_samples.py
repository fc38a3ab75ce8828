"""Changes as the store has them, without a store."""

from __future__ import annotations

from msgspec import structs

from comparison_files import case_of
from torchstone.core.vocabulary import ACCURACY, METRICS
from torchstone.history.change_records import ChangeEnd, Direction, SeriesChange
from torchstone.store.stored import SeriesKey


def end(position: int) -> ChangeEnd:
    return ChangeEnd(position, f"run{position}", f"rev{position}", "", position)


def change(
    number: int,
    at: int,
    before: float | str,
    after: float | str,
    *,
    name: str = "net",
    group: int | None = None,
    **facts: object,
) -> SeriesChange:
    metric = ACCURACY if isinstance(before, str) else "abs_latency"
    worse = after != "pass" if isinstance(before, str) else float(after) > float(before)
    found = SeriesChange(
        id=number,
        series=SeriesKey(case_of(name), metric),
        metric=METRICS[metric],
        branch="main",
        last_old=end(at - 1),
        first_new=end(at),
        earliest=at - 1,
        latest=at,
        direction=Direction.REGRESSION if worse else Direction.IMPROVEMENT,
        before=before,
        after=after,
        certainty=0.99,
        is_provisional=False,
        group=group,
    )
    return structs.replace(found, **facts)
