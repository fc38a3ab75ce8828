"""Render the section on scaling: charts of throughput and efficiency by number of ranks, and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torchstone.analyze.scaling_curves import Curve, Point
from torchstone.core.records import Case
from torchstone.core.text.units import count_of
from torchstone.reporting.html.elements import NOTHING, Markup, element, join
from torchstone.reporting.html.scaling_details import (
    render_buckets,
    render_ranks,
    render_rounds,
    render_stragglers,
)
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
from torchstone.reporting.views.case_row import CaseRow
from torchstone.reporting.views.page_view import Page
from torchstone.reporting.views.scaling_view import (
    ShownSweep,
    conditions_of,
    ending_of,
    format_part,
    format_rate,
)

SHOWN_SWEEPS = 12
MOST_SWEEPS = 60
_Format = Callable[[float | None], str]
OPEN_TABLES = 4  # with more benchmarks than this, tables are folded


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
    tables = join(render_rounds(shown, rows), render_ranks(shown))
    if pictures and len(page.scaling) > OPEN_TABLES:
        tables = element("details", element("summary", "Rounds"), tables)
    return element(
        "div",
        element("h3", shown.title, " ", small, class_="benchmark"),
        [element("p", text, class_="quiet") for text in shown.others],
        pictures,
        tables,
        render_stragglers(shown),
        [render_buckets(sweep) for sweep in shown.buckets],
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
