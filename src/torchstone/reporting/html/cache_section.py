"""Render the section on compile caches: compile time of each scenario, and reasons for cache misses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchstone.core.text.units import count_of, format_number
from torchstone.core.vocabulary import SCENARIOS
from torchstone.reporting.html.cache_details import reason_head
from torchstone.reporting.html.case_table import status_badge
from torchstone.reporting.html.elements import NOTHING, Markup, element, join, long_text, term_list
from torchstone.reporting.html.links import link_row, link_rows
from torchstone.reporting.svg.drawing import draw_stack
from torchstone.reporting.views.caches import (
    COLD,
    PHASES,
    CacheCase,
    MissingStart,
    ReasonGroup,
    Start,
    Total,
    artifact_sizes,
    format_percent,
    format_seconds,
    format_size,
    graphs_text,
    group_missing_starts,
    group_reasons,
    hits_text,
)
from torchstone.reporting.views.case_row import FAIL, CaseRow
from torchstone.reporting.views.page_view import Page

MOST_PICTURES = 60
SHOWN_PICTURES = 12
MOST_LINES = 500
MOST_REASONS = 100
SHOWN_REASONS = 12
MOST_CASES = 8


def render_caches(page: Page) -> Markup:
    """Render the section, if a run has compile_cache cases."""
    if not page.caches:
        return NOTHING
    scenarios = [s for s in SCENARIOS if any(case.start(s) for case in page.caches)]
    return element(
        "section",
        element("h2", "Compile caches, smallest saving first", id="compile-caches"),
        element(
            "dl",
            term_list({scenario: SCENARIOS[scenario] for scenario in scenarios}),
            class_="tree starts-words",
        ),
        _pictures(page.caches),
        _table(page, scenarios),
        _reasons(page.caches),
        _missing_starts(group_missing_starts(page.caches)),
    )


def _pictures(cases: Sequence[CacheCase]) -> Markup:
    """Render a picture per case; the later ones of many are folded."""
    used = {phase for case in cases for start in case.starts for phase, _ in start.parts}
    legend = [
        element("li", f"{phase}: {meaning}", class_=f"part-{phase}")
        for phase, meaning in PHASES.items()
        if phase in used
    ]
    drawn = [_picture(case) for case in cases[:MOST_PICTURES]]
    rest = drawn[SHOWN_PICTURES:]
    left = len(cases) - len(drawn)
    return join(
        element("h3", "Compile time by scenario, each case on its own scale"),
        element("ul", legend, class_="legend"),
        element("div", drawn[:SHOWN_PICTURES], class_="pictures"),
        _folded(f"{len(rest):,} more", element("div", rest, class_="pictures")) if rest else None,
        element("p", f"{left:,} more are in the table below.", class_="quiet") if left else None,
    )


def _folded(name: str, content: Markup) -> Markup:
    return element("details", element("summary", name), content)


def _picture(case: CacheCase) -> Markup:
    """Render a bar per scenario, split into phases, with the numbers in a folded table."""
    longest = max((start.seconds or 0.0 for start in case.starts), default=0.0)
    lines = [_bar(start, longest) for start in case.starts]
    return element(
        "div",
        element("h4", _link(case.row)),
        element("ol", lines, class_="plot starts"),
        _phase_table(case),
    )


def _link(row: CaseRow) -> Markup:
    return link_row(row, title=f"{row.case.name} {row.axes}".strip())


def _bar(start: Start, longest: float) -> Markup:
    name = element("span", start.scenario)
    if start.seconds is None:
        return element("li", name, element("span", _state(start), class_="without"))
    parts = [(f"part-{phase}", amount, f"{phase} {format_seconds(amount)}") for phase, amount in start.parts]
    saved = f" saves {format_percent(start.saved)}" if start.saved is not None else ""
    value = join(format_seconds(start.seconds), element("small", saved) if saved else None)
    share = start.seconds / longest if longest > 0 else 0.0
    return element("li", name, draw_stack(share, parts), element("span", value, class_="value"))


def _state(start: Start) -> Markup:
    """Render how a scenario ended if it has no numbers."""
    if start.status == "not available":
        return element("span", start.status, class_="quiet")
    return status_badge(start.status or "no result", FAIL)


def _phase_table(case: CacheCase) -> Markup:
    """Render the numbers of a picture."""
    timed = [start for start in case.starts if start.seconds is not None]
    if not timed:
        return NOTHING
    parts = [dict(start.parts) for start in timed]
    lines = [
        _line(phase, [format_seconds(each[phase]) if phase in each else "0" for each in parts])
        for phase in PHASES
        if any(phase in each for each in parts)
    ]
    if any(start.load is not None for start in timed):
        loads = ["" if start.load is None else format_seconds(start.load) for start in timed]
        lines.append(_line("loading artifacts (before)", loads))
    head = element("tr", [element("th", n, scope="col") for n in ("phase", *(s.scenario for s in timed))])
    table = element("table", element("thead", head), element("tbody", lines))
    return _folded("Seconds by phase", _scrolled(table, f"Seconds by phase of {case.row.label}"))


def _line(name: str | Markup, cells: Iterable[str]) -> Markup:
    return element("tr", element("th", name, scope="row"), [element("td", cell) for cell in cells])


def _scrolled(table: Markup, label: str) -> Markup:
    return element("div", table, class_="scroll", role="region", aria_label=label, tabindex=0)


def _where(page: Page) -> str:
    return "in the table of all cases" if len(page.shown) == len(page.rows) else "not listed here"


def _table(page: Page, scenarios: Sequence[str]) -> Markup:
    """Render one line per case and a total; empty columns are left out."""
    names = ["case", *scenarios, "hit rate", "cache", "saved artifacts"]
    shown = page.caches[:MOST_LINES]
    lines = [[_link(case.row), *_cells(case, scenarios)] for case in shown]
    used = [index for index, _ in enumerate(names) if any(line[index] for line in lines)]
    head = element("tr", [element("th", names[index], scope="col") for index in used])
    body = [_used_line(line, used) for line in lines]
    foot = None
    if len(page.caches) > 1:
        foot = element("tfoot", _used_line(_total_cells(page, scenarios), used))
    table = element("table", element("thead", head), element("tbody", body), foot, class_="caches")
    left = len(page.caches) - len(shown)
    return join(
        element("h3", "Compile time and cache contents"),
        _scrolled(table, "Compile caches"),
        element("p", f"{left:,} more are {_where(page)}.", class_="quiet") if left else None,
    )


def _used_line(cells: Sequence[str], used: Sequence[int]) -> Markup:
    name, *others = (cells[index] for index in used)
    return _line(name, others)


def _cells(case: CacheCase, scenarios: Sequence[str]) -> list[Markup]:
    starts = {start.scenario: start for start in case.starts}
    later = {name: start for name, start in starts.items() if name != COLD}
    rates = [(name, rate) for name, start in later.items() if (rate := hits_text(start.hits, start.asked))]
    first = starts.get(COLD)
    size = _size(first) if first else NOTHING
    return [
        *(_seconds(starts[name]) if name in starts else NOTHING for name in scenarios),
        join([element("span", f"{name} {rate}", class_="rate") for name, rate in rates]),
        size,
        _artifacts(case.row),
    ]


def _seconds(start: Start) -> Markup:
    if start.seconds is None:
        return _state(start)
    notes = [f"saves {format_percent(start.saved)}"] if start.saved is not None else []
    if start.interval:
        notes.append(" to ".join(map(format_percent, start.interval)))
    state = _state(start) if not start.is_good else None
    return join(format_seconds(start.seconds), [element("small", note) for note in notes], state)


def _size(start: Start) -> Markup:
    if start.files is None or start.size is None:
        return NOTHING
    files = f"{format_number(start.files)} file{'' if start.files == 1 else 's'}"
    return join(files, element("small", format_size(start.size)))


def _artifacts(row: CaseRow) -> Markup:
    """Render the size of the portable artifacts."""
    sizes = artifact_sizes(row.outcome).items()
    return join([element("span", f"{name} {format_size(size)}", class_="rate") for name, size in sizes])


def _total_cells(page: Page, scenarios: Sequence[str]) -> list[str]:
    """Return the totals; a saving covers only cases that have both numbers, and says how many if not all."""
    totals = {total.scenario: total for total in page.summary.caches}
    cases = len(page.caches)
    cells = [_total_cell(totals.get(scenario), cases) for scenario in scenarios]
    rates = [
        element("span", f"{name} {rate}", class_="rate")
        for name, total in totals.items()
        if name != COLD and (rate := hits_text(total.hits, total.asked))
    ]
    return [f"all {count_of(cases, 'case')}", *cells, join(rates), "", ""]


def _total_cell(total: Total | None, cases: int) -> Markup:
    if total is None:
        return NOTHING
    saved = f"saves {format_percent(total.saved)}" if total.saved is not None else ""
    some = f"of {count_of(total.cases, 'case')}" if total.cases < cases else ""
    if some and total.scenario != COLD:
        some = f"{some}, cold {format_seconds(total.cold)}"
    return join(format_seconds(total.seconds), [element("small", note) for note in (saved, some) if note])


def _reasons(cases: Sequence[CacheCase]) -> Markup:
    """Render why caches missed; say so if none did."""
    groups = group_reasons(cases)
    if not groups:
        return _without_reasons([s for case in cases for s in case.starts if s.scenario != COLD])
    items = [element("li", _reason(group)) for group in groups[:MOST_REASONS]]
    rest, left = items[SHOWN_REASONS:], len(groups) - len(items)
    return join(
        element("h3", "Reasons for cache misses", id="why-not-warm"),
        element("ul", items[:SHOWN_REASONS], class_="troubles"),
        _folded(f"{len(rest):,} more", element("ul", rest, class_="troubles")) if rest else None,
        element("p", f"{left:,} more are listed with their cases.", class_="quiet") if left else None,
    )


def _without_reasons(starts: Sequence[Start]) -> Markup:
    if not any(start.asked for start in starts):
        return NOTHING
    if all(start.hits >= start.asked for start in starts):
        return element("p", "After the cold start, every cache look-up was a hit.")
    return element("p", "Some cache look-ups were not hits; no reason was recorded.")


def _reason(group: ReasonGroup) -> Markup:
    where = [join(link_row(row), _which(graphs)) for row, graphs in group.graphs[:MOST_CASES]]
    more = len(group.graphs) - len(where)
    alike = element("span", " (with other numbers in other cases)", class_="quiet") if group.alike else None
    head = element("strong", long_text(reason_head(group.reason), 200))
    return join(
        element("p", head, " in ", join(*where, separator=", "), f" and {more:,} more" if more > 0 else None),
        element("p", element("span", long_text(group.reason.text, 2_000), class_="found"), alike),
    )


def _which(graphs: Sequence[str]) -> str:
    """Name the graphs of a case, unless it is all of them."""
    return "" if graphs == ("all",) else f" ({graphs_text(graphs, 8)})"


def _missing_starts(missing: Sequence[MissingStart]) -> Markup:
    """Render the scenarios without a result, and why."""
    if not missing:
        return NOTHING
    items = [
        element(
            "li",
            element("p", element("strong", start.scenario), f" {start.status}: ", link_rows(start.rows)),
            element("p", long_text(start.reason, 2_000), class_="found") if start.reason else None,
        )
        for start in missing[:MOST_REASONS]
    ]
    left = len(missing) - len(items)
    return join(
        element("h3", "Scenarios without a result"),
        element("ul", items, class_="troubles"),
        element("p", f"{left:,} more are listed with their cases.", class_="quiet") if left else None,
    )
