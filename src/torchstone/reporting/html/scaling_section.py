"""Render the section on scaling: throughput and efficiency over ranks, rounds, ranks and bucket sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import isfinite

from torchstone.analyze.bucket_sizes import Bucket, BucketSweep
from torchstone.analyze.scaling_curves import Curve, Point
from torchstone.core.records import Case
from torchstone.core.text.units import count_of, format_change
from torchstone.reporting.html.case_table import status_badge
from torchstone.reporting.html.elements import NOTHING, Child, Markup, element, join, long_text
from torchstone.reporting.html.links import link_row
from torchstone.reporting.svg.drawing import Scale
from torchstone.reporting.svg.line_chart import (
    ChartLine,
    Mark,
    draw_lines,
    draw_sample,
    format_percent_tick,
    format_tick,
    rank_scale,
    rate_scale,
    share_scale,
)
from torchstone.reporting.views.case_row import ABSENT, FAIL, CaseRow
from torchstone.reporting.views.page_view import Page
from torchstone.reporting.views.scaling_view import (
    ShownSweep,
    bucket_words,
    conditions_of,
    count_trials,
    ending_of,
    format_part,
    format_peak,
    format_rate,
    format_time,
    format_times,
    interval_note,
    read_ranks,
    read_stragglers,
)

SHOWN_SWEEPS = 12
MOST_SWEEPS = 60
_Format = Callable[[float | None], str]
OPEN_TABLES = 4  # with more benchmarks than this, tables are folded
MOST_RANKS = 300
_HEADS = ("round", "ranks", "p50", "p95", "examples/s", "efficiency", "communication", "slowest rank", "peak")
_RANK_HEADS = ("round", "rank", "host", "device", "p50", "own work", "communication", "peak")


def render_scaling(page: Page) -> Markup:
    """Render the section, if a run has scaling rounds."""
    if not page.scaling:
        return NOTHING
    rows = {row.case: row for row in page.rows}
    kinds = _kinds(page.scaling)
    drawn = [_benchmark(page, sweep, rows, kinds) for sweep in page.scaling[:MOST_SWEEPS]]
    rest, left = drawn[SHOWN_SWEEPS:], len(page.scaling) - len(drawn)
    return element(
        "section",
        element("h2", "Scaling", id="scaling"),
        _words(page),
        _legend(page, kinds),
        drawn[:SHOWN_SWEEPS],
        element("details", element("summary", f"{len(rest):,} more"), rest) if rest else None,
        element("p", f"{left:,} more are in the table of all cases.", class_="quiet") if left else None,
    )


def _words(page: Page) -> Markup:
    if not any(point.efficiency is not None for sweep in page.scaling for point in sweep.sweep.points):
        return NOTHING
    text = (
        "Efficiency is examples per second per rank, relative to the smallest round of the benchmark: "
        "the one on the fewest ranks, and if there are several, the one without a strategy."
    )
    return element("p", text, class_="quiet")


def _kinds(sweeps: Iterable[ShownSweep]) -> dict[str, int]:
    """Number the color and shape of each drawn curve; the same name gets the same number everywhere."""
    drawn = (sweep for sweep in sweeps if _has_picture(sweep))
    names = dict.fromkeys(name for sweep in drawn for name in sweep.names.values())
    return {name: number for number, name in enumerate(names)}


def _legend(page: Page, kinds: dict[str, int]) -> Markup:
    """Render the legend, if lines are drawn."""
    if not kinds:
        return NOTHING
    items = [
        element("li", draw_sample(ChartLine(kind, ())), name, class_="curve-name")
        for name, kind in kinds.items()
    ]
    names = _base_names(page)
    if names:
        ours = page.sources[0].path if len(page.sources) == 1 else count_of(len(page.sources), "file")
        items.append(element("li", draw_sample(ChartLine(0, ()), "plain-line"), ours, class_="run-name"))
        items += [
            element("li", draw_sample(ChartLine(0, (), base), "plain-line"), name, class_="base-name")
            for name, base in names.items()
        ]
    items.append(element("li", draw_sample(ChartLine(0, ()), "ideal"), "ideal"))
    return element("ul", items, class_="legend lines-legend")


def _base_names(page: Page) -> dict[str, int]:
    """Number the drawn baselines from 1."""
    names = dict.fromkeys(base.name for sweep in page.scaling for base in sweep.bases)
    return {name: number for number, name in enumerate(names, start=1)}


def _benchmark(page: Page, shown: ShownSweep, rows: dict[Case, CaseRow], kinds: dict[str, int]) -> Markup:
    """Render one benchmark: its pictures, and its tables below."""
    conditions = conditions_of(shown.sweep, page.shared)
    small = element("small", conditions) if conditions else None
    pictures = _pictures(shown, kinds, _base_names(page))
    tables = join(_rounds(shown, rows), _ranks(shown))
    if pictures and len(page.scaling) > OPEN_TABLES:
        tables = element("details", element("summary", "Rounds"), tables)
    return element(
        "div",
        element("h3", shown.title, " ", small, class_="benchmark"),
        [element("p", text, class_="quiet") for text in shown.others],
        pictures,
        tables,
        _stragglers(shown),
        [_buckets(sweep) for sweep in shown.buckets],
        class_="sweep",
    )


def _curves(shown: ShownSweep, bases: dict[str, int]) -> list[tuple[int, str, Curve]]:
    """Return all curves with the number (0 for the run itself) and file name of their baseline."""
    ours = [(0, "", curve) for curve in shown.sweep.curves]
    theirs = [
        (bases.get(base.name, 1), base.name, curve) for base in shown.bases for curve in base.sweep.curves
    ]
    return ours + theirs


def _has_picture(shown: ShownSweep) -> bool:
    """Return whether there is anything to draw: at least two numbers of ranks."""
    points = [point for _, _, curve in _curves(shown, {}) for point in curve.points]
    return len({point.ranks for point in points if point.examples is not None}) > 1


def _pictures(shown: ShownSweep, kinds: dict[str, int], bases: dict[str, int]) -> Markup:
    if not _has_picture(shown):
        return NOTHING
    across = rank_scale([point.ranks for _, _, curve in _curves(shown, {}) for point in curve.points])

    def lines_of(height: Callable[[Point], float | None], write: _Format) -> list[ChartLine]:
        return [
            ChartLine(
                kinds[name], tuple(_mark(point, height(point), write, name, file) for point in points), base
            )
            for base, file, curve in _curves(shown, bases)
            if (points := _drawn(curve, height)) and (name := shown.name_of(curve))
        ]

    rates = lines_of(lambda point: point.examples, lambda value: f"{format_rate(value)} examples per second")
    shares = lines_of(lambda point: point.efficiency, lambda value: f"efficiency {format_part(value)}")
    return element("div", _rate_picture(shown, across, rates), _share_picture(across, shares), class_="pictures")  # fmt: skip


def _drawn(curve: Curve, height: Callable[[Point], float | None]) -> list[Point]:
    """Return the points to draw: those with a number, and failed rounds."""
    return [point for point in curve.points if height(point) is not None or point.seconds is None]


def _mark(
    point: Point, height: float | None, write: Callable[[float | None], str], name: str, file: str
) -> Mark:
    text = write(height) if height is not None else ending_of(point)
    where = f" ({file})" if file else ""
    return Mark(point.ranks, height, f"{name} on {count_of(point.ranks, 'rank')}: {text}{where}")


def _rate_picture(shown: ShownSweep, across: Scale, lines: Sequence[ChartLine]) -> Markup:
    smallest = shown.sweep.smallest
    ideal = None
    if smallest.examples:
        each = smallest.examples / smallest.ranks
        ideal = (each * across.low, each * across.high)
    heights = [*(ideal or ()), *_heights(lines)]
    picture = draw_lines(across, rate_scale(heights), lines, ideal, format_tick)
    return _figure("Examples per second, by number of ranks", picture)


def _share_picture(across: Scale, lines: Sequence[ChartLine]) -> Markup:
    heights = _heights(lines)
    if not heights:
        return NOTHING
    picture = draw_lines(across, share_scale(heights), lines, (100.0, 100.0), format_percent_tick)
    return _figure("Efficiency, by number of ranks", picture)


def _heights(lines: Iterable[ChartLine]) -> list[float]:
    return [mark.height for line in lines for mark in line.marks if mark.height is not None]


def _figure(name: str, picture: Markup) -> Markup:
    return element("figure", element("figcaption", name), picture)


def _scrolled(heads: Sequence[str], lines: Sequence[Markup], label: str, kind: str) -> Markup:
    head = element("tr", [element("th", name, scope="col") for name in heads])
    table = element("table", element("thead", head), element("tbody", lines), class_=kind)
    return element("div", table, class_="scroll", role="region", aria_label=label, tabindex=0)


def _rounds(shown: ShownSweep, rows: dict[Case, CaseRow]) -> Markup:
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


def _ranks(shown: ShownSweep) -> Markup:
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


def _stragglers(shown: ShownSweep) -> Markup:
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


def _buckets(sweep: BucketSweep) -> Markup:
    """Render a sweep of bucket sizes compared with the fastest, and the conclusion."""
    best = sweep.best
    heads = ("bucket size", "p50", "interval", "relative to fastest", "interval", "")
    lines = [_bucket(bucket, best) for bucket in sweep.buckets]
    which = f" with {sweep.collective}" if sweep.collective else ""
    name = f"Bucket sizes on {count_of(sweep.ranks, 'rank')}{which}"
    words = bucket_words(sweep)
    return join(
        element("h4", name),
        element("p", _with_options(f"{words[:1].upper()}{words[1:]}.")),
        _scrolled(heads, lines, f"{name} of {sweep.of.name}", "buckets"),
        element("p", f"{interval_note(sweep)}.".replace("no ", "No ", 1), class_="quiet"),
    )


def _with_options(text: str) -> Markup:
    """Render text without breaking options of commands."""
    parts = re.split(r"(--trials \d+)", text)
    return join([element("code", part) if part.startswith("--") else part for part in parts])


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
