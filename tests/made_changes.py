"""Changes of series, made as a detector would report them."""

from __future__ import annotations

from itertools import count
from typing import Any

from comparison_files import VARIANT, case_of
from torchstone.core.records import Case
from torchstone.core.vocabulary import METRICS
from torchstone.history.change_records import ChangeEnd, Direction, SeriesChange
from torchstone.store.stored import SeriesKey

_NUMBERS = count(1)


def end_of(position: int, **versions: str) -> ChangeEnd:
    """The run of a revision."""
    return ChangeEnd(position, f"run{position}", f"{position:040x}", f"{position:040x}", position, **versions)


def change_of(
    at: int,
    case: Case | str = "net",
    metric: str = "abs_latency",
    *,
    reach: int = 0,
    after: int | None = None,
    before: float | str = 10.0,
    then: float | str = 11.0,
    machine: str = "EPYC",
    group: int | None = None,
    branch: str = "main",
    number: int | None = None,
    versions: tuple[dict[str, str], dict[str, str]] = ({}, {}),
    **further: Any,  # noqa: ANN401  (fields of any kind)
) -> SeriesChange:
    """A change at a revision; noise may have moved it by as many as `reach`, and `after` is the last revision before a gap."""
    old = at - 1 if after is None else after
    one = case_of(case) if isinstance(case, str) else case
    return SeriesChange(
        id=next(_NUMBERS) if number is None else number,
        series=SeriesKey(one, metric, machine),
        metric=METRICS[metric],
        branch=branch,
        last_old=end_of(old, **versions[0]),
        first_new=end_of(at, **versions[1]),
        earliest=old - reach,
        latest=at + reach,
        direction=further.pop("direction", Direction.REGRESSION),
        before=before,
        after=then,
        certainty=0.95,
        is_provisional=False,
        group=group,
        **further,
    )


__all__ = ["VARIANT", "change_of", "end_of"]
