"""Results in words: one line a case, and the table at the end of a run."""

from __future__ import annotations

import shlex

from torchstone.cli.tables import print_table
from torchstone.errors import printable
from torchstone.model import Measurement, Outcome, Reading, Run
from torchstone.report.page_case import CaseRow, interval_of, make_rows
from torchstone.report.page_summary import Group, Summary, group_rows, summarise, wrong_cases
from torchstone.results import merge
from torchstone.units import count_of, format_value
from torchstone.vocabulary import PASSED, SKIPPED

MOST_FAILURES = 20
LONGEST_NAME = 34


def result_line(outcome: Outcome, name_width: int) -> str:
    """One case: its status, its name, and the numbers that matter, or what went wrong."""
    case = outcome.case
    width = min(name_width, LONGEST_NAME)
    name = printable(case.benchmark)
    name = name if len(name) <= width else f"{name[: width - 1]}…"
    if outcome.status in {PASSED, SKIPPED}:
        return f"{outcome.status:<4} {name:<{width}} {_axes(outcome)}  {_numbers(outcome)}".rstrip()
    return f"{outcome.status}: {name} {_axes(outcome).strip()}: {_numbers(outcome)}"


def _axes(outcome: Outcome) -> str:
    variant = outcome.case.variant
    short = {"performance": "perf", "accuracy": "acc"}.get(outcome.case.probe, outcome.case.probe)
    mode = {"inference": "inf", "training": "train"}.get(variant.mode, variant.mode)
    return f"{short:<4} {mode:<5}"


def _numbers(outcome: Outcome) -> str:
    if outcome.failure and not outcome.status.startswith("pass"):
        phase = f"in {outcome.failure.phase}: " if outcome.failure.phase else ""
        return printable(f"{phase}{outcome.failure.message.strip().partition(chr(10))[0]}", 160)
    found = {measurement.metric: measurement for measurement in outcome.measurements}
    parts = []
    if "speedup" in found:
        parts.append(speedup_text(found["speedup"]))
    for metric, unit, label in (
        ("compilation_latency", "s", "compile"),
        ("dynamo_peak_mem", "GB", "peak"),
        ("graph_breaks", "", "breaks"),
    ):
        if metric in found and (metric != "graph_breaks" or found[metric].value):
            parts.append(f"{label} {found[metric].value:.3g}{' ' + unit if unit else ''}")
    return ", ".join(parts)


def speedup_text(measurement: Measurement) -> str:
    """``1.24x ±1.0%``, without the interval where there is none."""
    value = measurement.value
    interval = interval_of(measurement)
    if interval is None:
        return f"{value:.3f}x"
    low, high = interval
    return f"{value:.3f}x ±{100 * (high - low) / 2 / value:.1f}%"


def print_summary(run: Run, path: str, seconds: float) -> None:
    """The table of a whole run: pass rate, speedup, compile time and memory, and what failed."""
    reading = Reading(path, "run", run, range(2, 2 + len(run.outcomes)))
    rows = make_rows(merge([reading]), None, {})
    wrong = wrong_cases(rows)
    axes, groups = group_rows(rows, wrong)
    print()
    print_table(
        [*axes, "passed", "speedup", "compile", "peak", "cases"],
        [_cells(group) for group in groups or [Group((), summarise(rows, wrong))]],
        title=f"{count_of(len(run.outcomes), 'case')} in {seconds:.0f} s",
    )
    _print_failures([row for row in rows if not row.is_good], path)
    print(f"\nrun file: {path}")
    print(f"a page to look at: torchstone report {shlex.quote(path)} -o report.html")


def _print_failures(rows: list[CaseRow], path: str) -> None:
    """Each case that failed, where and why, and how to measure one of them again."""
    if not rows:
        return
    print()
    for row in rows[:MOST_FAILURES]:
        print(printable(row.case.id, 1000))
        if row.outcome:
            print(f"  {row.status} {_numbers(row.outcome)}")
    if len(rows) > MOST_FAILURES:
        print(f"... and {len(rows) - MOST_FAILURES} more: the page shows all of them")
    print(
        f"\nmeasure one of them again:\n  torchstone repro {shlex.quote(path)} {shlex.quote(rows[0].case.id)}"
    )


def _cells(group: Group) -> list[str]:
    summary = group.summary
    return [*group.axes, _pass_rate(summary), *_figures(summary), str(summary.planned)]


def _pass_rate(summary: Summary) -> str:
    return f"{summary.passed}/{summary.planned} ({100 * summary.share:.0f}%)"


def _figures(summary: Summary) -> list[str]:
    speedup = f"{summary.speedup.mean:.3f}x ({summary.speedup.cases})" if summary.speedup else ""
    compile_time = format_value(summary.compile_time.mean, "s") if summary.compile_time else ""
    memory = format_value(summary.memory.mean, "GB") if summary.memory else ""
    return [speedup, compile_time, memory]
