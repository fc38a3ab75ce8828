"""Render the sections around the table: summary, failures, environment, glossary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.text.intervals import WIDEST, format_interval
from torchstone.core.text.units import count_of, format_number, format_value
from torchstone.core.vocabulary import METRICS, STATUSES, VERDICTS, Metric
from torchstone.reporting.html.case_details import graph_break, render_tree, verdict_badge
from torchstone.reporting.html.case_table import status_badge
from torchstone.reporting.html.elements import NOTHING, Child, Markup, element, join, long_text, term_list
from torchstone.reporting.html.links import link_row, link_rows
from torchstone.reporting.svg.drawing import draw_parts
from torchstone.reporting.views.caches import WARM, cache_figures, format_percent
from torchstone.reporting.views.case_row import CaseFinding, CaseRow, format_metric, format_ratio
from torchstone.reporting.views.comparison.page_headline import BAD, GOOD, OPEN, PLAIN
from torchstone.reporting.views.facts_of_files import FileFacts
from torchstone.reporting.views.page_view import Gate, Page
from torchstone.reporting.views.scaling_view import scaling_figures
from torchstone.reporting.views.summary import BreakGroup, FailureGroup, Group, Spread, Summary

MOST_FAILURES, SHOWN_FAILURES, MOST_GROUPS = 50, 12, 200
MOST_BREAKS = 100
MOST_CAUTIONS = 10
_GATE_FIGURES = {GOOD: "pass", BAD: "fail", OPEN: "undecided", PLAIN: "not judged"}


def render_alerts(page: Page) -> Markup:
    """Render alerts: cases without a result, and unfinished runs."""
    absent = [row for row in page.rows if row.outcome is None]
    alerts = []
    if absent:
        one = len(absent) == 1
        who = "1 case was" if one else f"{len(absent):,} cases were"
        text = f"{who} planned or expected, but {'has' if one else 'have'} no result: "
        alerts.append(element("div", element("strong", text), link_rows(absent), class_="alert bad"))
    if len(page.shown) < len(page.rows):
        text = f"The table shows {len(page.shown):,} of {count_of(len(page.rows), 'case')}, red and failed ones first: "
        alerts.append(element("div", text, element("a", "omitted cases", href="#left-out"), class_="alert"))
    for source in page.sources:
        if not source.finished:
            outcomes = f"{source.outcomes:,} of {count_of(source.planned, 'planned outcome')}"
            text = f"{source.path}: the run did not finish; it has {outcomes}."
            alerts.append(element("div", text, class_="alert bad"))
    return join(alerts)


def render_cautions(page: Page) -> Markup:
    """Render cautions; the alerts at the top already say which runs did not finish."""
    shown = (each.text for each in page.cautions if each.kind is not CautionKind.RUN_UNFINISHED)
    texts = [*(page.gate.expired if page.gate else ()), *shown]
    alerts = [element("div", long_text(text, 1_000), class_="alert") for text in texts]
    for text, rows in page.case_cautions[:MOST_CAUTIONS]:
        alerts.append(element("div", long_text(text, 600), ": ", link_rows(rows), class_="alert"))
    if left := len(page.case_cautions) - MOST_CAUTIONS:
        more = f"{left:,} more cautions are listed with their cases."
        alerts.append(element("p", more, class_="quiet") if left > 0 else NOTHING)
    return join(alerts)


def render_summary(page: Page) -> Markup:
    """Render the summary, and one line per suite and variant if there are several."""
    summary = page.summary
    tiles = [
        _passed_tile(summary),
        _gate_tile(page.gate) if page.gate else NOTHING,
        _speedup_tile(summary),
        _compile_tile(summary),
        _memory_tile(summary),
        _cache_tile(page),
        _scaling_tile(page),
    ]
    return element(
        "section",
        element("h2", "Summary", class_="unseen"),
        element("div", tiles, class_="tiles"),
        render_cautions(page),
        _groups(page),
    )


def _tile(name: str, figure: str, *notes: Child, kind: str = "", below: Markup = NOTHING) -> Markup:
    return element(
        "div",
        element("h3", name),
        element("p", figure, class_="figure"),
        [element("p", note) for note in notes if note],
        below,
        class_=f"tile {kind}".strip(),
    )


def _passed_tile(summary: Summary) -> Markup:
    bar = draw_parts(((kind, number) for _, kind, number in reversed(summary.statuses)), 8)
    counts = [
        element("li", status_badge(status, kind), f" {number:,}") for status, kind, number in summary.statuses
    ]
    share = f"{100 * summary.share:.1f}% of {count_of(summary.planned, 'case')}"
    figure = f"{summary.passed:,} / {summary.planned:,}"
    return _tile("Passed", figure, share, below=join(bar, element("ul", counts, class_="counts")))


def _speedup_tile(summary: Summary) -> Markup:
    speedup = summary.speedup
    wrong = _left_out("accuracy failed", summary.unsound)
    uncertain = _left_out(f"interval wider than {100 * WIDEST:.0f} %", summary.uncertain)
    if speedup is None:
        return _tile("Speedup", "not known", uncertain) if summary.uncertain else NOTHING
    mean = f"geometric mean over {count_of(speedup.cases, 'case')}"
    return _tile(
        "Speedup",
        f"{format_ratio(speedup.mean)}x",
        f"{mean}, {format_interval(*speedup.interval)}" if speedup.interval else mean,
        _ends(speedup, "speedup", "slowest", "fastest"),
        wrong,
        uncertain,
    )


def _left_out(why: str, rows: Sequence[CaseRow]) -> Markup:
    """Say which rows a mean leaves out; nothing if there are none."""
    return join(f"left out, {why}: {len(rows):,} ", link_rows(rows, 3)) if rows else NOTHING


def _compile_tile(summary: Summary) -> Markup:
    spread = summary.compile_time
    if spread is None:
        return NOTHING
    whole = f"all cases took {format_number(summary.duration)} s" if summary.duration is not None else ""
    return _tile(
        "Compile time",
        f"{format_number(spread.total)} s",
        f"in total; mean {format_number(spread.mean)} s over {count_of(spread.cases, 'case')}",
        _end("longest", spread.most, summary.compile_metric),
        whole,
    )


def _memory_tile(summary: Summary) -> Markup:
    ratio, memory = summary.compression, summary.memory
    if ratio is None and memory is None:
        return NOTHING
    most = _end("largest peak", memory.most, "dynamo_peak_mem") if memory else NOTHING
    if ratio is None:
        return _tile("Memory", format_value(memory.mean if memory else None, "GB"), "mean peak", most)
    return _tile(
        "Memory",
        f"{format_ratio(ratio.mean)}x",
        f"eager peak / compiled peak, geometric mean over {count_of(ratio.cases, 'case')}",
        most,
        _end("smallest saving", ratio.least, "compression_ratio"),
    )


def _cache_tile(page: Page) -> Markup:
    summary = page.summary
    figure, notes = cache_figures(summary.caches)
    if not figure:
        return NOTHING
    least = next((case.row for case in page.caches if case.row.measurement("warm_saved")), None)
    end = _end("smallest saving", least, "warm_saved") if least and len(page.caches) > 1 else NOTHING
    is_said = summary.compile_time is not None or summary.duration is None
    whole = "" if is_said else f"all cases took {format_number(summary.duration or 0)} s"
    return _tile("Compile caches", figure, *notes, end, whole)


def _scaling_tile(page: Page) -> Markup:
    figure, notes = scaling_figures(page.scaling)
    return _tile("Scaling", figure, *notes) if figure else NOTHING


def _ends(spread: Spread, metric: str, least: str, most: str) -> Markup:
    if spread.cases < 2:
        return NOTHING
    return join(_end(least, spread.least, metric), "; ", _end(most, spread.most, metric))


def _end(name: str, row: CaseRow, metric: str) -> Markup:
    value = format_metric(row.value(metric), metric)
    return join(f"{name} ", link_row(row), f" {value}")


def _gate_tile(gate: Gate) -> Markup:
    counts = ", ".join(f"{name} {number:,}" for name, number in gate.counts.items() if number)
    return _tile(
        "Gate",
        _GATE_FIGURES[gate.tone],
        gate.finding,
        counts,
        f"baseline {', '.join(gate.baselines)}",
        kind=gate.tone,
    )


def _groups(page: Page) -> Markup:
    """Render one line per suite and variant."""
    if not page.groups:
        return NOTHING
    names = [
        *page.group_axes,
        "passed",
        "mean speedup",
        "compile time, sum",
        "mean memory ratio",
        "warm start",
    ]
    summaries = [group.summary for group in page.groups]
    has_numbers = [
        True,
        any(s.speedup for s in summaries),
        any(s.compile_time for s in summaries),
        any(s.compression for s in summaries),
        any(s.caches for s in summaries),
    ]
    shown = [True] * len(page.group_axes) + has_numbers
    lines = []
    for group in _worst_groups(page.groups):
        s = group.summary
        cells = [
            *group.axes,
            f"{s.passed:,} / {s.planned:,} ({100 * s.share:.0f}%)",
            f"{format_ratio(s.speedup.mean)}x of {s.speedup.cases:,}" if s.speedup else "",
            f"{format_number(s.compile_time.total)} s" if s.compile_time else "",
            f"{format_ratio(s.compression.mean)}x" if s.compression else "",
            _warm_saving(s),
        ]
        kept = [cell for cell, wanted in zip(cells, shown, strict=True) if wanted]
        lines.append(element("tr", [element("td", cell) for cell in kept]))
    head = [element("th", name, scope="col") for name, wanted in zip(names, shown, strict=True) if wanted]
    table = element("table", element("thead", element("tr", head)), element("tbody", lines))
    left = len(page.groups) - len(lines)
    return join(
        element(
            "div", table, class_="scroll groups", role="region", aria_label="By suite and variant", tabindex=0
        ),
        element("p", f"{left:,} more groups with higher pass rates are not listed.", class_="quiet")
        if left
        else None,
    )


def _worst_groups(groups: Sequence[Group]) -> list[Group]:
    """Return the groups to list, in order; if there are too many, those with the lowest pass rates."""
    kept = sorted(range(len(groups)), key=lambda at: groups[at].summary.share)[:MOST_GROUPS]
    return [groups[at] for at in sorted(kept)]


def _warm_saving(summary: Summary) -> str:
    totals = (total for total in summary.caches if total.scenario == WARM and total.saved is not None)
    total = next(totals, None)
    return f"saves {format_percent(total.saved or 0)} in {count_of(total.cases, 'case')}" if total else ""


def render_failures(page: Page) -> Markup:
    """Render failures, grouped by message, then regressions of cases that ran."""
    worse = page.gate.worse if page.gate else ()
    if not page.failures and not worse:
        return NOTHING
    items = [element("li", _failure_group(trouble)) for trouble in page.failures[:MOST_FAILURES]]
    left = len(page.failures) - len(items)
    regressions = [element("li", _regression(row, finding)) for row, finding in worse]
    more = page.gate.more_worse if page.gate else 0
    where = "in the table" if len(page.shown) == len(page.rows) else "not listed here"
    return element(
        "section",
        element("h2", "Failures", id="failures"),
        _folded_list(items),
        element("p", f"{left:,} more kinds of failure are {where}.", class_="quiet") if left else None,
        element("h3", "Worse than the baseline allows") if worse else None,
        _folded_list(regressions),
        element("p", f"{more:,} more are {where}.", class_="quiet") if more else None,
    )


def _folded_list(items: Sequence[Markup]) -> Markup:
    """Render a list of which only the first items are visible."""
    first = element("ul", items[:SHOWN_FAILURES], class_="troubles") if items else NOTHING
    rest = items[SHOWN_FAILURES:]
    if not rest:
        return first
    return join(
        first,
        element("details", element("summary", f"{len(rest):,} more"), element("ul", rest, class_="troubles")),
    )


def _regression(row: CaseRow, finding: CaseFinding) -> Markup:
    link = link_row(row)
    text = finding.words.finding if finding.words else finding.metric
    return element("p", verdict_badge(finding.verdict, blocks=finding.blocks), " ", link, " ", text)


def _failure_group(trouble: FailureGroup) -> Markup:
    phase = element("span", f"in {trouble.phase}", class_="quiet") if trouble.phase else None
    return join(
        element("p", status_badge(trouble.status, trouble.kind), " ", phase, " ", link_rows(trouble.rows)),
        element("p", trouble.message, class_="first-line") if trouble.message else None,
    )


def render_breaks(page: Page) -> Markup:
    """Render the graph breaks of all cases."""
    if not page.breaks:
        return NOTHING
    shown = page.breaks[:MOST_BREAKS]
    left = len(page.breaks) - len(shown)
    more = element("p", f"{left:,} more are listed with their cases.", class_="quiet") if left else None
    items = [element("li", _break_group(group)) for group in shown]
    heading = element("h2", f"Graph breaks: {count_of(len(page.breaks), 'reason')}", id="breaks")
    return element("section", heading, element("ol", items, class_="breaks"), more)


def _break_group(group: BreakGroup) -> Markup:
    return join(graph_break(group.cause), element("p", "In ", link_rows(group.rows), class_="quiet"))


def render_environment(page: Page) -> Markup:
    """Render files, revision, machine, software and settings."""
    names = ("file", "kind", "run", "outcomes")
    lines = [
        [s.path, s.kind, s.run, f"{s.outcomes:,} of {s.planned:,}" + ("" if s.finished else ", unfinished")]
        for s in page.sources
    ]
    head = element("tr", [element("th", name, scope="col") for name in names])
    body = [element("tr", [element("td", cell) for cell in line]) for line in lines]
    files = element("table", element("thead", head), element("tbody", body))
    return element(
        "section",
        element("h2", "Environment", id="environment"),
        element("div", files, class_="scroll"),
        _facts(page.facts, page.room.text),
    )


def _facts(facts: FileFacts, limit: int) -> Markup:
    differing = [
        element(
            "div",
            element("dt", " / ".join(difference.path)),
            [
                element("dd", long_text(text, 400), " ", element("small", ", ".join(files)))
                for text, files in difference.values
            ],
        )
        for difference in facts.differences
    ]
    silent = f"No environment recorded in {', '.join(facts.silent)}." if facts.silent else ""
    return join(
        element("h3", "Differences between the files") if differing else None,
        element("dl", differing, class_="tree differing") if differing else None,
        element("div", list(_blocks(facts.common, limit)), class_="blocks"),
        element("p", silent, class_="quiet") if silent else None,
    )


def _blocks(common: Mapping[str, Mapping[str, object]], limit: int) -> Iterator[Markup]:
    """Yield a block per group of facts; the machine is separate from the software."""
    for name, part in common.items():
        groups = {key: below for key, below in part.items() if isinstance(below, dict | list) and below}
        plain = {key: below for key, below in part.items() if key not in groups}
        if plain:
            yield _block(name, plain, limit)
        for key, below in groups.items():
            yield _block(key, below[0] if isinstance(below, list) and len(below) == 1 else below, limit)


def _block(title: str, block: object, limit: int) -> Markup:
    name = f"{title[:1].upper()}{title[1:]}"
    return element("div", element("h3", name), render_tree(block, limit))


def render_glossary(page: Page) -> Markup:
    """Render the meaning of the metrics, statuses and verdicts on this page."""
    statuses = {status: STATUSES[status] for status, _, _ in page.summary.statuses if status in STATUSES}
    metrics = _metric_meanings(page.metrics, page.reported_metrics)
    verdicts = {v.value: VERDICTS[v] for v, _ in page.gate.verdicts} if page.gate else {}
    lists = {"Metrics": metrics, "Statuses": statuses, "Verdicts": verdicts}
    parts = [
        element("div", element("h3", name), element("dl", term_list(words), class_="tree"))
        for name, words in lists.items()
        if words
    ]
    return element("section", element("h2", "Glossary", id="words"), element("div", parts, class_="words"))


def _metric_meanings(names: Sequence[str], reported: Mapping[str, Metric]) -> dict[str, str]:
    """Return the meaning of metrics; those that every scenario has are explained once."""
    words = {}
    for name in names:
        if metric := METRICS.get(name) or reported.get(name):
            word = f"\u2026_{metric.quantity}" if metric.quantity else name
            way = f"; {metric.better} is better" if name in reported and metric.better != "equal" else ""
            meaning = f"{metric.quantity_meaning or metric.meaning}{way} [{metric.unit}]"
            words[word] = meaning.removesuffix(" []")
    return words
