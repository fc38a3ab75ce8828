"""Show everything about one case as text: metrics, trials, cautions, failure, log, repro command."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.errors import printable
from torchstone.core.records import Failure
from torchstone.core.text.intervals import format_interval, format_with_interval
from torchstone.core.text.units import count_of, short_number
from torchstone.reporting.run_text.blocks import Block, indented, wrapped
from torchstone.reporting.run_text.case_lines import phase_words
from torchstone.reporting.run_text.case_view import CaseView, MetricView
from torchstone.reporting.views.result_table import ResultTable

_COLUMNS = ("metric", "value", "interval", "samples", "counter")
_ON_ITS_SIDE = "  "


def case_blocks(view: CaseView, width: int) -> Iterator[Block]:
    """Yield everything that a file says about a case."""
    took = f" after {view.duration:.3g} s" if view.duration is not None else ""
    yield printable(view.case.id, 1000)
    yield f"  {printable(view.status or '(no status)')}{took}, in {printable(str(view.place), 1000)}"
    if view.metrics:
        ordered = sorted(
            view.metrics, key=lambda metric: metric.interval is None
        )  # what was timed comes first
        yield ResultTable("", _COLUMNS, [_cells(metric) for metric in ordered])
    yield from _trial_blocks(view, width)
    if under := ", ".join(filter(None, (view.device, view.settings))):
        yield wrapped(f"measured on: {printable(under, 1000)}", _ON_ITS_SIDE, "    ", width)
    if view.device_state:
        yield wrapped(f"device: {printable(view.device_state.text, 1000)}", _ON_ITS_SIDE, "    ", width)
    for metric, why in view.left_out:
        yield wrapped(f"{metric} was left out: {why}", _ON_ITS_SIDE, "    ", width)
    for caution in view.cautions:
        yield wrapped(f"caution: {' '.join(caution.text.split())}", _ON_ITS_SIDE, "    ", width)
    yield from _capture_blocks(view, width)
    if view.failure:
        yield from _reason_blocks(view.failure, width)
    yield from log_blocks(view)
    if view.repro:
        yield f"  measure it again:\n    {view.repro}"


def _cells(metric: MetricView) -> list[str]:
    interval = ""
    if metric.interval:
        level = f" ({100 * metric.confidence:.4g}%)" if metric.confidence else ""
        interval = f"{format_interval(*metric.interval)}{level}"
    value = format_with_interval(metric.value, metric.interval, metric.unit).partition(" (")[0]
    return [metric.metric, value, interval, f"{metric.samples:,}", metric.counter]


def _trial_blocks(view: CaseView, width: int) -> Iterator[Block]:
    """Yield the values of each trial, where they differ."""
    for metric in view.metrics:
        if len({*metric.trials}) > 1:
            values = ", ".join(short_number(value) for value in metric.trials)
            text = f"{metric.metric} in {count_of(len(metric.trials), 'trial')}: {values}"
            yield wrapped(text, _ON_ITS_SIDE, "    ", width)


def _capture_blocks(view: CaseView, width: int) -> Iterator[Block]:
    for cause in view.graph_breaks:
        where = " ".join(filter(None, (cause.place and f"at {cause.place}:", cause.source)))
        times = f" ({cause.count}x)" if cause.count > 1 else ""
        text = f"graph break{times} {where}: {cause.reason}".replace(" : ", ": ")
        yield wrapped(" ".join(text.split()), _ON_ITS_SIDE, "    ", width)
    for reason in view.recompile_reasons:
        yield wrapped(f"recompiled: {' '.join(reason.split())}", _ON_ITS_SIDE, "    ", width)


def _reason_blocks(failure: Failure, width: int) -> Iterator[Block]:
    first, *further = failure.message.strip().splitlines() or [""]
    yield wrapped(f"{phase_words(failure)}{first}", _ON_ITS_SIDE, "    ", width)
    yield from (wrapped(line, "    ", "    ", width) for line in further if line.strip())


def log_blocks(view: CaseView, most_log_lines: int | None = None) -> Iterator[Block]:
    """Yield the traceback of a case, and what it printed: the last lines if there are more than ``most_log_lines``."""
    if view.failure and view.failure.traceback:
        yield f"  traceback:\n{indented(view.failure.traceback)}"
    if view.log.strip():
        lines = view.log.rstrip().splitlines()
        left = len(lines) - most_log_lines if most_log_lines is not None else 0
        more = f" (the last {most_log_lines} of {len(lines):,} lines)" if left > 0 else ""
        yield f"  log{more}:\n{indented(chr(10).join(lines[max(0, left) :]))}"
