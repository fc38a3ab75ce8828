"""Render the tables of the scaling section: rounds, ranks, stragglers and bucket sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from torchstone.analyze.bucket_sizes import Bucket, BucketSweep
from torchstone.analyze.scaling_curves import Point
from torchstone.core.records import Case
from torchstone.core.text.units import count_of, format_change
from torchstone.reporting.html.case_table import status_badge
from torchstone.reporting.html.elements import NOTHING, Child, Markup, element, join, long_text
from torchstone.reporting.html.links import link_row
from torchstone.reporting.views.case_row import ABSENT, FAIL, CaseRow
from torchstone.reporting.views.scaling_view import (
    BucketFinding,
    ShownSweep,
    count_trials,
    ending_of,
    find_bucket,
    format_part,
    format_peak,
    format_rate,
    format_time,
    format_times,
    interval_note,
    read_ranks,
    read_stragglers,
)

MOST_RANKS = 300
_HEADS = ("round", "ranks", "p50", "p95", "examples/s", "efficiency", "communication", "slowest rank", "peak")
_RANK_HEADS = ("round", "rank", "host", "device", "p50", "own work", "communication", "peak")


def _scrolled(heads: Sequence[str], lines: Sequence[Markup], label: str, kind: str) -> Markup:
    head = element("tr", [element("th", name, scope="col") for name in heads])
    table = element("table", element("thead", head), element("tbody", lines), class_=kind)
    return element("div", table, class_="scroll", role="region", aria_label=label, tabindex=0)


def render_rounds(shown: ShownSweep, rows: dict[Case, CaseRow]) -> Markup:
    """Render one line per round; empty columns are left out."""
    found = [(shown.name_of(curve), point) for curve in shown.sweep.curves for point in curve.points]
    cells = [_round_cells(shown, name, point) for name, point in found]
    used = [index for index, _ in enumerate(_HEADS[1:]) if any(line[index] for line in cells)]
    lines = [
        _round(_round_name(name, rows.get(point.case)), point, [line[index] for index in used])
        for (name, point), line in zip(found, cells, strict=True)
    ]
    heads = [_HEADS[0], *(_HEADS[1 + index] for index in used)]
    return _scrolled(heads, lines, f"Rounds of {shown.title}", "rounds")


def _round_name(name: str, row: CaseRow | None) -> Markup:
    return element("th", link_row(row, name) if row else name, scope="row")


def _round(head: Markup, point: Point, cells: Sequence[str]) -> Markup:
    if point.seconds is not None:
        return element("tr", head, [element("td", cell, class_="number") for cell in cells])
    ending = join(_ending(point), " ", _first_line(point))
    return element("tr", head, _number(cells[0]), element("td", ending, colspan=max(1, len(cells) - 1)))


def _round_cells(shown: ShownSweep, name: str, point: Point) -> list[str]:
    """Return the cells of a round below ``_HEADS``, except the first, with the baselines' values below."""
    before = shown.base_points(name, point.ranks)
    rates = [
        f"{_was(shown, file)} {format_rate(base.examples)} ({format_change(point.examples, base.examples)})"
        for file, base in before
        if base.examples and point.examples
    ]
    shares = [
        f"{_was(shown, file)} {format_part(base.efficiency)}"
        for file, base in before
        if base.efficiency is not None and point.efficiency is not None
    ]
    return [
        str(point.ranks),
        format_time(point.seconds),
        format_time(point.slow_seconds),
        _with_notes(format_rate(point.examples), rates),
        _with_notes(format_part(point.efficiency), shares),
        format_part(point.communication),
        f"+{format_part(point.rank_spread)}" if point.rank_spread is not None else "",
        format_peak(point.peak),
    ]


def _was(shown: ShownSweep, file: str) -> str:
    """Return the prefix of a baseline's value; it names the baseline if there are several."""
    return "was" if len(shown.bases) == 1 else f"{file}:"


def _with_notes(text: str, notes: Iterable[str]) -> Markup:
    return join(text, [element("small", note) for note in notes])


def _number(text: str) -> Markup:
    return element("td", text, class_="number")


def _ending(point: Point) -> Markup:
    return status_badge(ending_of(point), FAIL if point.outcome else ABSENT)


def _first_line(point: Point) -> Markup:
    failure = point.outcome.failure if point.outcome else None
    line = failure.message.strip().partition("\n")[0] if failure else ""
    return element("span", long_text(line, 300), class_="why") if line else NOTHING


def render_ranks(shown: ShownSweep) -> Markup:
    """Render each rank's own numbers, folded; nothing if every round has one rank."""
    if all(point.ranks == 1 for point in shown.sweep.points):
        return NOTHING
    lines = [
        _rank_line(f"{shown.name_of(curve)}, {count_of(point.ranks, 'rank')}", cells)
        for curve in shown.sweep.curves
        for point in curve.points
        for cells in _rank_cells(point)
    ]
    if not lines:
        return NOTHING
    left = len(lines) - MOST_RANKS
    trials = max(count_trials(point.outcome) for point in shown.sweep.points)
    return element(
        "details",
        element("summary", "By rank" if trials < 2 else "By rank, first trial"),
        _scrolled(_RANK_HEADS, lines[:MOST_RANKS], f"Ranks of {shown.title}", "ranks"),
        element("p", f"{left:,} more are listed with their cases.", class_="quiet") if left > 0 else None,
    )


def _rank_cells(point: Point) -> list[list[str]]:
    return [
        [
            str(rank.rank),
            rank.host,
            rank.device,
            format_time(rank.median),
            format_time(rank.own),
            format_part(rank.communication),
            format_peak(rank.peak),
        ]
        for rank in read_ranks(point.outcome)
    ]


def _rank_line(name: str, cells: Sequence[str]) -> Markup:
    texts: set[int] = {1, 2}  # the host and the device
    return element(
        "tr",
        element("th", name, scope="row"),
        [
            element("td", cell) if number in texts else _number(cell) for number, cell in enumerate(cells)
        ],
    )  # fmt: skip


def render_stragglers(shown: ShownSweep) -> Markup:
    """Render a warning for each straggler."""
    found = [
        (f"{shown.name_of(curve)} on {count_of(point.ranks, 'rank')}", text)
        for curve in shown.sweep.curves
        for point in curve.points
        for text in read_stragglers(point.outcome)
    ]
    return join(
        [
            element("p", element("strong", "Straggler"), f" with {name}: ", long_text(text, 300), class_="alert")
            for name, text in found
        ]
    )  # fmt: skip


def render_buckets(sweep: BucketSweep) -> Markup:
    """Render a sweep of bucket sizes compared with the fastest, and the conclusion."""
    best = sweep.best
    heads = ("bucket size", "p50", "interval", "relative to fastest", "interval", "")
    lines = [_bucket(bucket, best) for bucket in sweep.buckets]
    which = f" with {sweep.collective}" if sweep.collective else ""
    name = f"Bucket sizes on {count_of(sweep.ranks, 'rank')}{which}"
    return join(
        element("h4", name),
        element("p", _conclusion(find_bucket(sweep))),
        _scrolled(heads, lines, f"{name} of {sweep.of.name}", "buckets"),
        element("p", f"{interval_note(sweep)}.".replace("no ", "No ", 1), class_="quiet"),
    )


def _conclusion(found: BucketFinding) -> Markup:
    text = f"{found.text[:1].upper()}{found.text[1:]}"
    if not found.trials:
        return join(f"{text}.")
    return join(f"{text}: use ", element("code", found.option), " to find out.")


def _bucket(bucket: Bucket, best: Bucket | None) -> Markup:
    head = element("th", f"{bucket.size} MB", scope="row")
    if bucket.seconds is None:
        return element("tr", head, element("td", _ending(bucket.point), colspan=5))
    ratio = f"{bucket.ratio:.3f}x" if bucket.ratio is not None else ""
    return element(
        "tr",
        head,
        _number(format_time(bucket.seconds)),
        _number(format_times(*bucket.interval) if bucket.interval else ""),
        _number(ratio),
        _number(_ratio_interval(bucket)),
        element("td", _standing(bucket, best)),
    )


def _ratio_interval(bucket: Bucket) -> str:
    if bucket.ratio_interval is None:
        return ""
    low, high = bucket.ratio_interval
    return f"{low:.3f} to {high:.3f}x" if isfinite(high) else f"from {low:.3f}x"


def _standing(bucket: Bucket, best: Bucket | None) -> Child:
    if bucket is best:
        return element("span", "fastest", class_="badge ok")
    if bucket.is_slower:
        return "slower"
    return "as fast" if bucket.is_as_fast else "not clearly slower"
