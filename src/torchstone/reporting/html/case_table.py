"""Render the table of all cases, with its sorting and filtering controls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from torchstone.core.text.intervals import is_too_wide
from torchstone.core.text.safe_text import join_words
from torchstone.core.text.units import count_of, format_number
from torchstone.core.vocabulary import Verdict
from torchstone.reporting.html.case_details import render_details, verdict_badge
from torchstone.reporting.html.elements import NOTHING, Markup, element, join
from torchstone.reporting.views.case_row import CaseRow, format_metric, format_ratio, interval_of, short_unit
from torchstone.reporting.views.page_view import MOST_ROWS, Category, Page

BYTES_A_ROW = 3_000
"""Average bytes per row with its details: 15 MB in total, unless more rows are requested."""
MOST_CATEGORIES = 8

_MARKS = {"ok": "\u2713", "skip": "\u2013", "fail": "\u2717", "absent": "?"}
_SHORT = {
    "device_speedup": "Device speedup",
    "device_latency": "Device time",
    "speedup": "Speedup",
    "abs_latency": "Latency",
    "compile_seconds": "Compile",
    "compilation_latency": "Compile",
    "compression_ratio": "Memory",
    "dynamo_peak_mem": "Peak",
    "graph_breaks": "Breaks",
    "recompiles": "Recompiles",
    "instruction_count": "Instructions",
    "compile_time_instruction_count": "Compile instr.",
    "python_calls": "Python calls",
    "compile_time_python_calls": "Compile calls",
    "cpu_seconds": "CPU time",
    "compile_time_cpu_seconds": "Compile CPU",
    "import_time_us": "Import",
    "iteration_time": "Iteration",
    "examples_per_second": "Examples/s",
    "scaling_efficiency": "Efficiency",
    "communication_share": "Communication",
    "rank_spread": "Slowest rank",
    "peak_memory": "Peak memory",
    "cold_compile_seconds": "Cold",
    "warm_compile_seconds": "Warm",
    "warm_saved": "Warm saves",
    "warm_hit_rate": "Hit rate",
    "portable_compile_seconds": "Portable",
    "precompile_compile_seconds": "Precompile",
}


def render_rows(page: Page) -> list[Markup]:
    """Render the table rows with their details, as many as keep the page small enough for a browser."""
    left, lines = max(page.most_rows, MOST_ROWS) * BYTES_A_ROW, list[Markup]()
    many_probes, width = _has_many_probes(page), len(_names(page)) + len(page.columns)
    for row in page.shown:
        line = _row(page, row, many_probes=many_probes, width=width)
        left -= len(line)
        if left < 0 and lines:
            break
        lines.append(line)
    return lines


def _has_many_probes(page: Page) -> bool:
    return len({row.case.probe for row in page.shown}) > 1


def _names(page: Page) -> list[str]:
    """Return the column heads before those of metrics."""
    probe = ["Probe"] if _has_many_probes(page) else []
    return ["Case", *probe, "Status", *(["Gate"] if page.gate else [])]


def render_table(page: Page, lines: Sequence[Markup]) -> Markup:
    """Render the section of all cases."""
    head = [_head(name, "") for name in _names(page)]
    head += [_head(short_name_of(metric), metric) for metric in page.columns]
    several = len(page.shown) < len(page.rows)
    table = element(
        "table",
        element(
            "caption",
            "Cases, those that need attention first"
            if several
            else "All cases, those that need attention first",
            class_="unseen",
        ),
        element("thead", element("tr", head)),
        lines,
        id="cases-table",
    )
    title = f"{len(page.shown):,} of {count_of(len(page.rows), 'case')}" if several else "All cases"
    return element(
        "section",
        element("h2", title, id="cases"),
        render_left_out(page),
        _controls(page, many_probes=_has_many_probes(page)),
        element("div", table, class_="cases", role="region", aria_label="Table of all cases", tabindex=0),
        element("p", "No case matches.", class_="quiet", id="none-found", hidden=True),
        element("button", "Show all", type="button", id="more", hidden=True),
    )


def render_left_out(page: Page) -> Markup:
    """Render which cases the table omits, and how to see them."""
    left = page.left_out
    if not left:
        return NOTHING
    total = sum(each.cases for each in left)
    named = ", ".join(_category_text(each) for each in left[:MOST_CATEGORIES])
    others = sum(each.cases for each in left[MOST_CATEGORIES:])
    more = f", and {others:,} others" if others else ""
    command = join_words(page.command)
    how = f"{command} --only 'PATTERN'" if command else ""
    every = join_words((*page.selection, "--most-rows", str(len(page.rows))))
    everything = f"{command} {every}" if command else ""
    return element(
        "div",
        element(
            "p",
            element("strong", f"{count_of(total, 'case')} not in this table: "),
            f"{named}{more}. The table shows red and failed cases first. The numbers, charts and lists above it cover all {count_of(len(page.rows), 'case')}.",
        ),
        element("p", "To see some of them: ", element("code", how)) if how else None,
        element("p", "To make a larger page: ", element("code", everything)) if everything else None,
        class_="alert bad" if left[0].is_red else "alert",
        id="left-out",
    )


def _category_text(category: Category) -> str:
    gate = f" (gate: {category.verdict}{', red' if category.is_red else ''})" if category.verdict else ""
    return f"{category.cases:,} {category.status}{gate}"


def short_name_of(metric: str) -> str:
    """Return a metric's name as a column head."""
    return _SHORT.get(metric, metric)


def _head(name: str, metric: str) -> Markup:
    button = element("button", name, type="button", title=metric or None)
    return element("th", button, scope="col", class_="number" if metric else None)


def status_badge(status: str, kind: str) -> Markup:
    """Render the status, with a mark that does not depend on color."""
    return element("span", f"{_MARKS[kind]}\u00a0{status}", class_=f"badge {kind}")


def _row(page: Page, row: CaseRow, *, many_probes: bool, width: int) -> Markup:
    caution = element("span", "\u26a0", class_="warn", title="has cautions") if row.cautions else None
    under = " \u00b7 ".join(part for part in (row.axes, row.source) if part)
    name = element(
        "th",
        element("button", row.case.name, type="button", aria_expanded="true"),
        caution,
        element("small", under) if under else None,
        scope="row",
    )
    cells = [
        name,
        element("td", row.case.probe) if many_probes else NOTHING,
        element("td", status_badge(row.status, row.kind)),
        element("td", _verdict(row)) if page.gate else NOTHING,
        *(_number(row, metric) for metric in page.columns),
    ]
    details = element("td", element("div", render_details(row, page.room)), colspan=width)
    return element(
        "tbody",
        element("tr", cells),
        element("tr", details, class_="detail"),
        id=row.anchor,
        data_status=row.status,
        data_probe=row.case.probe if many_probes else None,
        data_gate=row.verdict.value if row.verdict else None,
    )


def _verdict(row: CaseRow) -> Markup:
    return verdict_badge(row.verdict, blocks=row.blocks) if row.verdict else NOTHING


def _number(row: CaseRow, metric: str) -> Markup:
    measurement = row.measurement(metric)
    if measurement is None:
        return element("td")
    interval = interval_of(measurement)
    write = format_ratio if short_unit(metric, measurement) == "x" else format_number
    unsure = "uncertain, " if is_too_wide(float(measurement.value), interval) else ""
    around = element("small", f"{unsure}{write(interval[0])}\u2013{write(interval[1])}") if interval else None
    shown = format_metric(measurement.value, metric, measurement)
    return element("td", shown, around, data_name=short_name_of(metric))


def _controls(page: Page, *, many_probes: bool) -> Markup:
    """Render the filters; they are shown only if the script runs."""
    total = count_of(len(page.shown), "case")
    search = element(
        "label",
        "Find ",
        element("input", type="search", id="find", placeholder="name, status, message \u2026"),
    )
    ended, judged = Counter(row.status for row in page.shown), Counter(row.verdict for row in page.shown)
    statuses = [(status, status, ended[status]) for status, _, _ in page.summary.statuses if ended[status]]
    verdicts = [(v.value, v.value, judged[v]) for v in Verdict if judged[v]]
    return element(
        "form",
        element("div", search, _probe_select(page) if many_probes else None, class_="line"),
        _chips("Status", "status", statuses),
        _chips("Gate", "gate", verdicts),
        element("p", f"{total} shown", id="shown", role="status"),
        element("button", "Clear filters", type="reset"),
        id="filters",
    )


def _chips(legend: str, name: str, chips: Sequence[tuple[str, str, int]]) -> Markup:
    """Render a checkbox per value; if none is ticked, all are shown."""
    if len(chips) < 2:
        return NOTHING
    return element("fieldset", element("legend", legend), list(_each_chip(name, chips)))


def _each_chip(name: str, chips: Sequence[tuple[str, str, int]]) -> Iterator[Markup]:
    for value, text, number in chips:
        box = element("input", type="checkbox", name=name, value=value)
        yield element("label", box, join(text, " ", element("small", f"{number:,}")), class_="chip")


def _probe_select(page: Page) -> Markup:
    probes = sorted({row.case.probe for row in page.shown if row.case.probe})
    options = [element("option", "all", value=""), *(element("option", p, value=p) for p in probes)]
    return element("label", "Probe ", element("select", options, id="probe"))
