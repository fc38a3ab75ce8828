"""Render the details of one case, which its table row expands to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.details.capture_details import GraphBreak
from torchstone.core.details.outcome_details import NO_OUTCOME_DETAILS, outcome_facts
from torchstone.core.records import Failure, Measurement, Outcome
from torchstone.core.text.safe_text import clean_log
from torchstone.core.text.units import count_of, format_number, format_value
from torchstone.core.vocabulary import CAPTURE_METRICS, METRICS, Verdict
from torchstone.gate.judgement import QUIET
from torchstone.reporting.html.cache_details import render_matrix, render_reasons
from torchstone.reporting.html.elements import NOTHING, Markup, element, join, long_text
from torchstone.reporting.svg.drawing import draw_parts, draw_samples
from torchstone.reporting.views.caches import read_reasons, split_metric
from torchstone.reporting.views.case_row import CaseFinding, CaseRow, interval_of, short_unit
from torchstone.reporting.views.facts_of_files import text_of
from torchstone.reporting.views.page_view import DetailLimits
from torchstone.reporting.views.summary import graph_breaks

DEEPEST = 6
MOST_ENTRIES = 200
_COUNTS = frozenset({*CAPTURE_METRICS, "recompiles"})
_ORDER = {metric: number for number, metric in enumerate(METRICS)}
_PHASES = ("load", "eager", "compile", "run", "compare")
_SHOWN_APART = frozenset({"duration", "phases", "not_warm", "log", "profile"})


def render_details(row: CaseRow, room: DetailLimits) -> Markup:
    """Render everything known about a case, most urgent first."""
    outcome = row.outcome
    told: list[Markup] = [
        element("p", row.note, class_="note") if row.note else NOTHING,
        *(element("p", "Caution: ", long_text(each.text, 600), class_="note") for each in row.cautions),
        _failure(outcome.failure, room.text) if outcome and outcome.failure else NOTHING,
        render_reasons(read_reasons(outcome)) if outcome else NOTHING,
        _gate(row, room),
        _commands(row),
    ]
    measured, extra = _measurements(row, room), list(_extra(outcome, room)) if outcome else []
    place = element("span", str(row.place), class_="place") if row.place else NOTHING
    return join(
        element(
            "p",
            element("a", row.case.id, href=f"#{row.anchor}", class_="id"),
            " ",
            place,
        ),
        _panes(told, measured, extra, is_long=bool(outcome and outcome.failure) or len(row.findings) > 1),
    )


def _panes(told: Sequence[Markup], measured: Markup, extra: Sequence[Markup], *, is_long: bool) -> Markup:
    """Divide the whole width: what is long stands beside the measurements, what is short above them."""
    if is_long:
        return element("div", element("div", told), element("div", measured, extra), class_="panes")
    if len(extra) < 2:
        return element("div", told, extra, measured, class_="whole")
    return join(told, element("div", element("div", measured), element("div", extra), class_="panes"))


def _failure(failure: Failure, limit: int) -> Markup:
    phase = f" during {failure.phase}" if failure.phase else ""
    return join(
        element("h3", f"Failed{phase}"),
        element("pre", long_text(failure.message, limit), class_="message found")
        if failure.message
        else None,
        _folded_text("Traceback", failure.traceback, limit),
        _folded_text("Last output", failure.log, limit),
    )


def _folded_text(name: str, text: str, limit: int) -> Markup:
    """Render a long text, folded behind a title."""
    if not text.strip():
        return NOTHING
    lines = count_of(clean_log(text).strip().count("\n") + 1, "line")
    return element("details", element("summary", f"{name} ({lines})"), element("pre", long_text(text, limit)))


def _gate(row: CaseRow, room: DetailLimits) -> Markup:
    if not row.findings:
        return NOTHING
    loud = [finding for finding in row.findings if finding.words]
    quiet = [finding.metric for finding in row.findings if finding.verdict in QUIET and not finding.words]
    metrics = count_of(len(quiet), "metric") if room.compact else ", ".join(quiet)
    passed = element("p", f"As expected: {metrics}", class_="quiet") if quiet else None
    return join(element("h3", "Gate"), [_finding(finding) for finding in loud], passed)


def _finding(finding: CaseFinding) -> Markup:
    words = finding.words
    if words is None:
        return NOTHING
    return element(
        "div",
        element("p", verdict_badge(finding.verdict, blocks=finding.blocks), " ", words.finding),
        element("p", f"Rule: {words.fact('rule')}. At {words.fact('at')}.", class_="quiet"),
        element("details", element("summary", "Accept this result"), command(words.accept))
        if words.accept
        else None,
        element("p", f"Next step: {words.instead}.") if words.instead else None,
        class_="finding",
    )


def verdict_badge(verdict: Verdict, *, blocks: bool) -> Markup:
    """Render the verdict, red if it blocks; an undecided one is amber, whatever the policy makes of it."""
    calm = {
        **dict.fromkeys((Verdict.PASS, Verdict.SAME, Verdict.IMPROVEMENT), "ok"),
        Verdict.EXPECTED_FAILURE: "skip",
    }
    is_red = blocks and verdict is not Verdict.INCONCLUSIVE
    kind = "fail" if is_red else calm.get(verdict, "absent")
    return element("span", verdict.value, class_=f"badge {kind}")


def command(text: str) -> Markup:
    """Render a command to copy."""
    return element("div", element("pre", long_text(text, 20_000)), class_="command")


def _commands(row: CaseRow) -> Markup:
    return join(element("h3", "Measure again"), command(row.repro)) if row.repro else NOTHING


def _measurements(row: CaseRow, room: DetailLimits) -> Markup:
    """Render the measurements: a table, and a line of plain numbers below."""
    measured = row.outcome.measurements if row.outcome else ()
    measurements = sorted(measured, key=lambda m: _ORDER.get(m.metric, len(_ORDER)))
    if not measurements:
        return NOTHING
    findings = [f for f in row.findings if f.expected and not (room.compact and f.verdict in QUIET)]
    expected = {finding.metric: finding.expected for finding in findings}
    by_start = [m for m in measurements if split_metric(m.metric)]
    in_line = [m for m in measurements if m not in by_start and _fits_in_line(m, expected, room)]
    names = ["metric", "value", *(["expected"] if expected else []), "samples"]
    head = element("tr", [element("th", name) for name in names])
    body = [
        _measurement(m, expected.get(m.metric, "") if expected else None, room.points)
        for m in measurements
        if m not in in_line and m not in by_start
    ]
    table = element("table", element("thead", head), element("tbody", body)) if body else NOTHING
    scrolled = element("div", table, class_="scroll") if body else NOTHING
    matrix = render_matrix(by_start, expected)
    notes = list(dict.fromkeys(_note(m) for m in by_start))
    noted = element("p", "; ".join(note for note in notes if note), class_="quiet") if any(notes) else None
    return join(element("h3", "Measurements"), scrolled, _line(in_line), matrix, noted)


def _fits_in_line(measurement: Measurement, expected: dict[str, str], room: DetailLimits) -> bool:
    """Return whether a measurement is a single number that needs no row of its own."""
    metric = measurement.metric
    if len(set(measurement.samples)) > 1 or not (room.compact or metric in _COUNTS):
        return False
    if measurement.facts().keys() - {"trials"}:
        return False
    return expected.get(metric, "") in {"", format_value(measurement.value, short_unit(metric, measurement))}


def _line(measurements: Sequence[Measurement]) -> Markup:
    """Render numbers in a line, zeros last and together."""
    some = [f"{m.metric} {format_value(m.value, short_unit(m.metric, m))}" for m in measurements if m.value]
    none = [m.metric for m in measurements if not m.value]
    text = ", ".join([*some, *([f"0 {', '.join(none)}"] if none else [])])
    return element("p", text, class_="quiet") if text else NOTHING


def _measurement(measurement: Measurement, expected: str | None, points: int) -> Markup:
    """Render one metric; empty cells at the end of the line are left out."""
    unit, samples = short_unit(measurement.metric, measurement), measurement.samples
    interval = _interval(measurement, unit)
    cells: list[str] = [
        join(format_value(measurement.value, unit), element("small", interval) if interval else None)
    ]
    if expected is not None:
        cells.append(expected)
    if len(samples) > 1:
        strip = draw_samples(samples, measurement.value, points)
        ends = f"{len(samples):,}: {format_number(min(samples))} to {format_value(max(samples), unit)}"
        cells.append(join(strip, element("small", ends)))
    while not cells[-1]:
        cells.pop()
    note = _note(measurement)
    name = join(measurement.metric, element("small", note) if note else None)
    return element("tr", element("th", name), [element("td", cell) for cell in cells])


def _interval(measurement: Measurement, unit: str) -> str:
    interval = interval_of(measurement)
    if interval is None:
        return ""
    stated = measurement.details.confidence if measurement.details else None
    share = f" ({100 * stated:.4g}%)" if stated is not None and 0 < stated <= 1 else ""
    return f"{format_number(interval[0])} to {format_value(interval[1], unit)}{share}"


def _note(measurement: Measurement) -> str:
    """Return further facts about a measurement, shortened."""
    told = [
        count_of(len(value), "trial")
        if key == "trials" and isinstance(value, tuple)
        else f"{key} {text_of(value)}"
        for key, value in measurement.facts().items()
        if key not in {"interval", "confidence"}
    ]
    text = ", ".join(told)
    return text if len(text) <= 160 else f"{text[:160]}..."


def _extra(outcome: Outcome, room: DetailLimits) -> Iterator[Markup]:
    """Yield the times, graph breaks, reasons for recompiling and other details of an outcome."""
    details = outcome.details or NO_OUTCOME_DETAILS
    phases = _in_order(details.phases or {})
    if details.duration is not None or phases:
        yield _times(details.duration, phases, compact=room.compact)
    if details.device_state:
        yield join(
            element("h3", "Device"), element("p", long_text(details.device_state.text, 1_000), class_="quiet")
        )
    if breaks := graph_breaks(outcome):
        yield element("h3", "Graph breaks")
        yield element("ul", [element("li", graph_break(cause)) for cause in breaks], class_="breaks")
    if outcome.capture and (reasons := outcome.capture.recompile_reasons):
        items = [element("li", long_text(reason, 2_000), class_="found") for reason in reasons]
        yield join(element("h3", "Reasons for recompiling"), element("ul", items, class_="breaks"))
    if details.log:
        yield _folded_text("Log", details.log, room.text)
    if others := _other_facts(outcome):
        tree = render_tree(others, room.text)
        yield element("details", element("summary", "Other details"), tree)


def _other_facts(outcome: Outcome) -> dict[str, object]:
    """Return the details that have no place of their own on the page, and what a foreign file states."""
    known = outcome_facts(outcome.details, None)
    others = {name: value for name, value in known.items() if name not in _SHOWN_APART}
    return {**others, **(outcome.extra or {})}


def _in_order(phases: dict[str, float]) -> dict[str, float]:
    """Return the seconds of each phase, in the order in which phases follow each other."""
    return {name: phases[name] for name in dict.fromkeys((*_PHASES, *phases)) if name in phases}


def _times(duration: float | None, phases: dict[str, float], *, compact: bool) -> Markup:
    whole = f": {format_value(duration, 's')}" if duration is not None else ""
    if compact:
        text = ", ".join(f"{name} {format_value(seconds, 's')}" for name, seconds in phases.items())
        return join(element("h3", f"Time{whole}"), element("p", text, class_="quiet") if text else None)
    kinds = [f"phase{number % 5}" for number, _ in enumerate(phases)]
    bar = draw_parts(zip(kinds, phases.values(), strict=True)) if phases else None
    legend = [
        element("li", f"{name} {format_value(seconds, 's')}", class_=kind)
        for kind, (name, seconds) in zip(kinds, phases.items(), strict=True)
    ]
    return join(
        element("h3", f"Time{whole}"), bar, element("ul", legend, class_="legend") if legend else None
    )


def graph_break(cause: GraphBreak) -> Markup:
    """Render a graph break: reason, place and source line."""
    times = f"{cause.count:,} x " if cause.count != 1 else ""
    return join(
        element("p", times, element("span", long_text(cause.reason, 2_000), class_="found")),
        element("p", element("code", long_text(cause.place, 400)), class_="quiet") if cause.place else None,
        element("pre", long_text(cause.source, 2_000)) if cause.source else None,
    )


def render_tree(value: object, limit: int, depth: int = 0) -> Markup:
    """Render any JSON value as nested lists."""
    if isinstance(value, dict) and value and depth < DEEPEST:
        shown = list(value.items())[:MOST_ENTRIES]
        pairs = [
            element("div", element("dt", str(key)), element("dd", render_tree(below, limit, depth + 1)))
            for key, below in shown
        ]
        return join(element("dl", pairs, class_="tree"), _left_out(len(value) - len(shown)))
    if isinstance(value, list | tuple) and depth < DEEPEST and any(isinstance(v, dict | list) for v in value):
        items = [element("li", render_tree(below, limit, depth + 1)) for below in value[:MOST_ENTRIES]]
        return join(element("ol", items, class_="tree"), _left_out(len(value) - len(items)))
    if isinstance(value, list | tuple) and value:
        return long_text(", ".join(map(text_of, value)), limit)
    return long_text("-" if value in (None, [], {}, "") else text_of(value), limit)


def _left_out(number: int) -> Markup:
    return element("p", f"{number:,} more are not shown", class_="quiet") if number > 0 else NOTHING
