"""Render the red rows of a report as one compact table, a line for each cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from torchstone.core.errors import printable
from torchstone.core.records import Case
from torchstone.core.text.units import format_change
from torchstone.core.vocabulary import ACCURACY, Probe, Verdict
from torchstone.gate.judgement import Row
from torchstone.reporting.dialects.text_page import TextPage
from torchstone.reporting.views.report_view import ReportView, change_of, interval_of, metric_name, value_text

MOST_LINES = 60
MOST_SPAN = 100.0  # an interval that spans a larger factor says nothing
_HEAD = ("metric", "actual", "expected", "change")
_LONGEST = 400
_INDENT, _BETWEEN = "  ", "  "
_ONE_CAUSE = frozenset({Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.IMPROVEMENT})


class RedGroup(Struct, frozen=True):
    """Red rows of one case with one cause: the worst of them, and its other parts."""

    lead: Row
    parts: tuple[Row, ...] = ()


def group_causes(rows: Sequence[Row]) -> list[RedGroup]:
    """Group the numbers of one case that have the same verdict: a slower model is one finding, not one for each of its times.

    Statuses, and verdicts that are not about a number, stay by themselves. ``rows`` are worst first, and so are the groups.
    """
    groups: dict[tuple[Case, Verdict] | int, list[Row]] = {}
    for number, row in enumerate(rows):
        is_one = row.verdict in _ONE_CAUSE and row.metric != ACCURACY and row.case.probe == Probe.PERFORMANCE
        groups.setdefault((row.case, row.verdict) if is_one else number, []).append(row)
    return [RedGroup(found[0], tuple(found[1:])) for found in groups.values()]


def group_reasons(report: ReportView, groups: Sequence[RedGroup]) -> list[list[RedGroup]]:
    """Group the findings that no further trials can decide and that have the same next step: their reason is said once."""
    alike: dict[str | int, list[RedGroup]] = {}
    for number, group in enumerate(groups):
        row = group.lead
        can_be_settled = row.verdict is not Verdict.INCONCLUSIVE or row.ruling.levels is not None
        step = "" if can_be_settled else report.row_text(row).instead
        alike.setdefault(step or number, []).append(group)
    return list(alike.values())


def red_lines(report: ReportView, groups: Sequence[RedGroup], page: TextPage) -> Iterator[str]:
    """Yield a table of red rows for each verdict: case, metric, actual, expected, and the change with its interval.

    Nothing is cut: a name that leaves too little room for its numbers has a line of its own.
    """
    shown = groups[:MOST_LINES]
    names = [printable(report.name_of(group.lead.case), _LONGEST) for group in shown]
    cells = [_cells(group) for group in shown]
    verdicts = list(dict.fromkeys(group.lead.verdict for group in shown))
    widths = [max(map(len, column)) for column in zip(_HEAD, *cells, strict=True)]
    room = page.width - len(_INDENT) - sum(len(_BETWEEN) + width for width in widths)
    fitting = [len(name) for name in names if len(name) <= room]
    widths.insert(0, max([*fitting, *(len(verdict) - len(_INDENT) for verdict in verdicts)]))
    for verdict in verdicts:
        color = "yellow" if verdict is Verdict.INCONCLUSIVE else "red"
        first = verdict.ljust(widths[0] + len(_INDENT))
        yield page.paint(verdict, color) + page.paint(_line((first, *_HEAD), widths)[len(verdict) :], "dim")
        for group, name, words in zip(shown, names, cells, strict=True):
            if group.lead.verdict is not verdict:
                continue
            if len(name) > room:
                yield f"{_INDENT}{name}"
            yield f"{_INDENT}{_line((name if len(name) <= room else '', *words), widths)}"
    if any(group.parts for group in shown):
        yield f"{_INDENT}(+N: N more metrics of the case have this verdict)"
    if (left := len(groups) - MOST_LINES) > 0:
        yield f"... and {left:,} more red rows"


def _cells(group: RedGroup) -> tuple[str, ...]:
    row = group.lead
    actual, expected = row.new_value, row.base_value if row.base_value is not None else row.expected_value
    return (
        f"{printable(metric_name(row))}{f' +{len(group.parts)}' if group.parts else ''}",
        "no result" if actual is None else printable(value_text(actual, row), 30),
        "" if expected is None else printable(value_text(expected, row), 30),
        _change(row, actual, expected),
    )


def _change(row: Row, actual: object, expected: object) -> str:
    found = row.comparison
    if found is not None and found.p_value is not None:
        is_known = found.low > 0 and found.high <= MOST_SPAN * found.low
        between = interval_of(found.low, found.high).replace("% to ", " to ") if is_known else "not yet known"
        return f"{change_of(found.ratio)} ({between})"
    if isinstance(actual, int | float) and isinstance(expected, int | float):
        return format_change(actual, expected)
    return ""


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _BETWEEN.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
