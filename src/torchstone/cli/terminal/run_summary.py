"""Print results: one line per case, and the summary at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchstone.cli.terminal.run_notes import cut, print_notes, wrapped
from torchstone.cli.terminal.scaling_tables import print_scaling, round_texts
from torchstone.cli.terminal.tables import print_table
from torchstone.core.errors import printable
from torchstone.core.records import Failure, Measurement, Outcome, Reading, Run
from torchstone.core.text.safe_text import quote_word
from torchstone.core.text.units import count_of, format_value
from torchstone.core.vocabulary import COMPILE_SECONDS, NOT_AVAILABLE, PASSED, SCENARIOS, SKIPPED, Probe
from torchstone.formats.merge import merge
from torchstone.reporting.dialects.case_label import round_words
from torchstone.reporting.views.caches import (
    COLD,
    WARM,
    Reason,
    Start,
    Total,
    format_percent,
    graphs_text,
    hit_rate,
    hits_of,
    read_reasons,
    read_starts,
)
from torchstone.reporting.views.case_row import CaseRow, interval_of, make_rows
from torchstone.reporting.views.summary import (
    Group,
    Summary,
    count_text,
    group_rows,
    main_count,
    summarise,
    total_text,
    wrong_cases,
)

MOST_FAILURES = 20
LONGEST_NAME = 34
LONGEST_REASON = 160  # in the line of a case
MOST_LINES, MOST_CHARACTERS = 5, 600  # of a message, after the table
_INDENT = " " * 13
_SHORT_PROBES = {
    "performance": "perf",
    "accuracy": "acc",
    "compile_cache": "cache",
    "instructions": "count",
}


def result_line(outcome: Outcome, name_width: int, label: str = "", room: int | None = None) -> str:
    """Return a case as a line: status, name, and the main numbers or the reason of a failure.

    ``label`` distinguishes it from cases of the same name. Numbers that do not fit into ``room`` characters are left out.
    """
    width = min(name_width, LONGEST_NAME)
    name = printable(outcome.case.benchmark)
    name = name if len(name) <= width else f"{name[: width - 1]}…"
    if outcome.status not in {PASSED, SKIPPED, NOT_AVAILABLE}:
        axes = " ".join(f"{_axes(outcome, label)} {label}".split())
        return f"{outcome.status}: {name} {axes}: {_numbers(outcome)}"
    axes = _axes(outcome, label)
    head = f"{outcome.status:<4} {name:<{width}} {axes}{' ' if label and axes else ''}{label}  "
    return f"{head}{_numbers(outcome, None if room is None else room - len(head))}".rstrip()


def _axes(outcome: Outcome, label: str) -> str:
    """Return probe and mode; for a scaling round, its ranks and strategy unless the label has them."""
    variant = outcome.case.variant
    if words := round_words(outcome.case):
        return "" if words in label else words
    short = _SHORT_PROBES.get(outcome.case.probe, outcome.case.probe)
    mode = {"inference": "inf", "training": "train"}.get(variant.mode, variant.mode)
    return f"{short:<4} {mode:<5}"


def _numbers(outcome: Outcome, room: int | None = None) -> str:
    if outcome.failure and not outcome.status.startswith("pass"):
        return _reason_line(outcome.failure)
    if outcome.case.probe == Probe.COMPILE_CACHE:
        return ", ".join(_start_texts(read_starts(outcome)))
    if counted := main_count(outcome):
        return count_text(counted)
    if outcome.case.probe == Probe.SCALING:
        parts = list(round_texts(outcome))
    else:
        parts = list(_timing_texts({measurement.metric: measurement for measurement in outcome.measurements}))
    while room is not None and len(parts) > 1 and len(", ".join(parts)) > room:
        parts.pop()
    return ", ".join(parts)


def _timing_texts(found: dict[str, Measurement]) -> Iterator[str]:
    """Yield the numbers of a case, most important first."""
    if "speedup" in found:
        yield speedup_text(found["speedup"])
    for metric, unit, label in (
        (COMPILE_SECONDS, " s", "compile"),
        ("graph_breaks", "", "breaks"),
        ("dynamo_peak_mem", " GB", "peak"),
    ):
        if metric in found and (metric != "graph_breaks" or found[metric].value):
            yield f"{label} {found[metric].value:.3g}{unit}"


def _reason_line(failure: Failure) -> str:
    """Return where and why a case failed, shortened to one line."""
    text = cut(f"{_phase(failure)}{' '.join(failure.message.split())}", LONGEST_REASON)
    return printable(text, LONGEST_REASON)


def _reason_lines(failure: Failure) -> list[str]:
    """Return the first lines of the reason of a failure; the first alone often says little."""
    lines = [" ".join(line.split()) for line in failure.message.splitlines() if line.strip()]
    more = ["…"] if len(lines) > MOST_LINES else []
    text = "\n".join([*lines[:MOST_LINES], *more])
    return f"{_phase(failure)}{cut(text, MOST_CHARACTERS)}".splitlines() or [""]


def _phase(failure: Failure) -> str:
    return f"in {failure.phase}: " if failure.phase else ""


def _start_texts(starts: Iterable[Start]) -> Iterator[str]:
    """Yield each scenario with its time and savings, most important first: a narrow terminal cuts off the end."""
    for start in starts:
        if start.seconds is not None:
            saved = f" (saves {format_percent(start.saved)})" if start.saved is not None else ""
            yield f"{start.scenario} {start.seconds:.3g} s{saved}"
        if start.scenario == WARM and start.asked:
            yield f"hits {hits_of(start.hits, start.asked)}"


def speedup_text(measurement: Measurement) -> str:
    """Format a speedup such as ``1.24x ±1.0%``, without the interval if there is none."""
    value = measurement.value
    interval = interval_of(measurement)
    if interval is None or value <= 0:
        return f"{value:.3f}x"
    low, high = interval
    return f"{value:.3f}x ±{100 * (high - low) / 2 / value:.1f}%"


def print_summary(run: Run, path: str, seconds: float) -> None:
    """Print the summary of a run: pass rate, speedup, compile time, memory, and failures."""
    reading = Reading(path, "run", run, range(2, 2 + len(run.outcomes)))
    rows = make_rows(merge([reading]), None, {})
    wrong = wrong_cases(rows)
    axes, groups = group_rows(rows, wrong)
    groups = groups or [Group((), summarise(rows, wrong))]
    print()
    _print_groups(axes, groups, f"{count_of(len(run.outcomes), 'case')} in {seconds:.0f} s")
    print_scaling(run)
    print_notes(rows)
    _print_unavailable([row for row in rows if row.status == NOT_AVAILABLE])
    _print_failures([row for row in rows if not row.is_good], path)
    print(f"\nrun file: {printable(path)}")
    print(f"HTML page: torchstone report {quote_word(path)} -o report.html")


def _print_unavailable(rows: list[CaseRow]) -> None:
    """Print the cases that cannot be measured here, grouped by reason."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        failure = row.outcome.failure if row.outcome else None
        alike.setdefault(failure.message if failure else "", []).append(row.case.name)
    for reason, names in alike.items():
        print()
        text = f"{count_of(len(names), 'case')} not available here: {reason} ({', '.join(names)})"
        print("\n".join(wrapped(text, "", "  ")))


def _print_failures(rows: list[CaseRow], path: str) -> None:
    """Print the failed cases, grouped by reason, and the command that measures one of them again."""
    if not rows:
        return
    print()
    alike: dict[str, list[CaseRow]] = {}
    for row in rows[:MOST_FAILURES]:
        alike.setdefault(_ending_text(row), []).append(row)
    for reason, group in alike.items():
        print("\n".join(printable(row.case.id, 1000) for row in group))
        if reason:
            print(reason)
    if len(rows) > MOST_FAILURES:
        print(f"... and {len(rows) - MOST_FAILURES} more; 'torchstone report' shows all")
    print(
        f"\nmeasure one of them again:\n  torchstone repro {quote_word(path)} {quote_word(rows[0].case.id)}"
    )


def _ending_text(row: CaseRow) -> str:
    """Return status and reason of a failed case, wrapped; empty if it was not measured."""
    if not row.outcome:
        return ""
    first, *further = _reason_lines(row.outcome.failure) if row.outcome.failure else [""]
    lines = wrapped(f"{row.outcome.status} {first}".rstrip(), "  ", "    ")
    for line in further:
        lines += wrapped(line, "    ", "    ")
    return "\n".join(lines)


def _print_groups(axes: list[str], groups: list[Group], title: str) -> None:
    """Print a line per group, in separate tables for timings, caches and counts."""
    cached = [group for group in groups if group.summary.caches]
    counted = [group for group in groups if group.summary.counts]
    timed = [group for group in groups if group not in cached and group not in counted]
    if timed:
        lines = [_cells(group, _figures(group.summary)) for group in timed]
        print_table([*axes, "passed", "speedup", "compile", "peak", "cases"], lines, title=title)
    if timed and cached:
        print()
    if cached:
        lines = [_cells(group, _cache_figures(group.summary)) for group in cached]
        print_table(
            [*axes, "passed", *_CACHE_COLUMNS, "cases"], lines, title="compile caches" if timed else title
        )
    if counted and (timed or cached):
        print()
    if counted:
        lines = [_cells(group, [", ".join(map(total_text, group.summary.counts))]) for group in counted]
        print_table(
            [*axes, "passed", "total count", "cases"],
            lines,
            title="counts" if timed or cached else title,
        )


def _cells(group: Group, figures: list[str]) -> list[str]:
    return [*group.axes, _pass_rate(group.summary), *figures, str(group.summary.planned)]


def _pass_rate(summary: Summary) -> str:
    return f"{summary.passed}/{summary.planned} ({100 * summary.share:.0f}%)"


def _figures(summary: Summary) -> list[str]:
    speedup = f"{summary.speedup.mean:.3f}x ({summary.speedup.cases})" if summary.speedup else ""
    compile_time = format_value(summary.compile_time.mean, "s") if summary.compile_time else ""
    memory = format_value(summary.memory.mean, "GB") if summary.memory else ""
    return [speedup, compile_time, memory]


_OTHERS = [scenario for scenario in SCENARIOS if scenario not in {COLD, WARM}]
_CACHE_COLUMNS = [COLD, WARM, "saved", "hit rate", *_OTHERS]


def _cache_figures(summary: Summary) -> list[str]:
    """Return total times; cold and warm of cases that have both. The number of cases follows where it is not all of them."""
    totals = {total.scenario: total for total in summary.caches}
    cold, warm = totals.get(COLD), totals.get(WARM)
    if cold is None:
        return [""] * len(_CACHE_COLUMNS)
    others = [_saved(totals.get(scenario), cold.cases, seconds=True) for scenario in _OTHERS]
    if warm is None:
        return [_seconds(cold.seconds), "", "", "", *others]
    rate = hit_rate(warm.hits, warm.asked)
    return [_seconds(warm.cold), _seconds(warm.seconds), _saved(warm, cold.cases), rate, *others]


def _saved(total: Total | None, cases: int, *, seconds: bool = False) -> str:
    if total is None:
        return ""
    parts = [_seconds(total.seconds)] if seconds else []
    parts += [format_percent(total.saved)] if total.saved is not None else []
    return ", ".join(parts) + (f" ({total.cases})" if total.cases < cases else "")


def _seconds(seconds: float) -> str:
    return f"{seconds:,.3g} s" if abs(seconds) < 100 else f"{seconds:,.0f} s"


def print_cache_reasons(outcomes: Iterable[Outcome]) -> None:
    """Print, for every compile_cache case, the cache misses with their reasons, and scenarios without a result."""
    cases = [outcome for outcome in outcomes if outcome.case.probe == Probe.COMPILE_CACHE]
    if not cases:
        print("\nnothing to explain: the run has no compile_cache cases")
        return
    unserved = {outcome.case: problems for outcome in cases if (problems := list(_unserved(outcome)))}
    if not unserved:
        print(f"\nall cache lookups were hits, in {count_of(len(cases), 'case')}")
        return
    print("\nwhy caches were not used:")
    for case, problems in unserved.items():
        print(printable(case.id, 1000))
        for scenario, text in problems:
            print("\n".join(wrapped(printable(text, 2_000), f"  {scenario:<10} ", _INDENT)))
    if served := len(cases) - len(unserved):
        print(f"all cache lookups were hits in {count_of(served, 'other case')}")


def _unserved(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield the scenarios of a case that have a problem, with its description."""
    starts, reasons = read_starts(outcome), read_reasons(outcome)
    if not starts:
        yield "", f"{outcome.status}: {_numbers(outcome)}".removesuffix(": ")
    for start in starts:
        own = [_reason_text(reason) for reason in reasons if reason.scenario == start.scenario]
        yield from ((start.scenario, text) for text in [*_problem(start, explained=bool(own)), *own])


def _problem(start: Start, *, explained: bool) -> Iterator[str]:
    """Yield the problem of a scenario that torch gives no reason for."""
    if not start.is_good:
        yield f"{start.status}: {start.reason}".removesuffix(": ")
    elif start.scenario != COLD and not start.asked:
        yield "no cache was looked up"
    elif start.scenario != COLD and start.hits < start.asked and not explained:
        yield f"hits {hits_of(start.hits, start.asked)}, and torch gives no reason for the misses"


def _reason_text(reason: Reason) -> str:
    """Format a reason such as ``fx_graph bypass, graphs 0/0, 1/0 (repeats 1, 2): ...``."""
    repeats = f" (repeats {', '.join(reason.repeats)})" if len(reason.repeats) > 1 else ""
    return f"{reason.cache} {reason.state}, {graphs_text(reason.graphs)}{repeats}: {reason.text}"
