"""Collect the metrics that a benchmark reports itself: one sample of each for every timed block."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from torchstone.core.caution_kinds import CautionKind
from torchstone.define.custom_metrics import (
    MOST_METRICS,
    MetricError,
    Report,
    ReportedNumber,
    ResultMetrics,
    check_report,
    report_returned,
    set_recording,
    take_reports,
)
from torchstone.worker.probes.reply import Result

Call = Callable[[], Any]


class MetricCollector:
    """Collects reports while a case is built and called.

    A metric's samples are those of the timed calls, one for each block: the mean of what the calls of the block
    reported. A metric that only the build reports has one sample.
    """

    def __init__(self, function: ResultMetrics | None = None) -> None:
        self._function = function
        self._takes_seconds = function is not None and "seconds" in inspect.signature(function).parameters
        self._definitions: dict[str, ReportedNumber] = {}
        self._built: dict[str, float] = {}
        self._samples: dict[str, list[float]] = {}
        self._sources: dict[str, str] = {}
        self._pending: list[Report] = []
        self._reports_in_calls = False
        self._last: Any = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record reports until the end of the block."""
        set_recording(True)
        try:
            yield
        finally:
            set_recording(False)

    @property
    def names(self) -> list[str]:
        """Return the names of all metrics that were reported so far."""
        return list(self._definitions)

    @property
    def is_needed(self) -> bool:
        """Return whether calls have to be watched while they are timed."""
        return self._function is not None or self._reports_in_calls

    def end_build(self) -> None:
        """Take the reports made while the benchmark was built."""
        self._built = self._means(take_reports())

    def watch(self, call: Call) -> Call:
        """Return the call with its reports taken, and its result kept until the next call, if there is a function for it."""

        def watched() -> Any:  # noqa: ANN401  (a model returns anything)
            self._last = None
            result = call()
            self._take()
            if self._function is not None:
                self._last = result
            return result

        return watched

    def _take(self) -> None:
        """Take the reports of a call; they are checked later. A tensor is copied: CUDA graphs overwrite their outputs."""
        for name, value, better, unit in take_reports():
            kept = value.detach().clone() if isinstance(value, torch.Tensor) else value
            self._pending.append((name, kept, better, unit))

    def forget(self) -> None:
        """Check the reports since the last block, and drop them: warm-up calls do not count."""
        self._last = None
        if self._pending:
            self._reports_in_calls = True
            self._means(self._pending)
        self._pending = []

    def restart(self) -> None:
        """Drop all blocks: they were too short."""
        self._samples.clear()

    def end_block(self, seconds: float) -> None:
        """Keep one sample of each metric that was reported since the block began; a call took ``seconds``."""
        reports, self._pending = self._pending, []
        if reports:
            self._keep(self._means(reports), "call")
        if self._function is not None:
            result, self._last = self._last, None
            given = {"seconds": seconds} if self._takes_seconds else {}
            report_returned(self._function(result, **given))
            self._keep(self._means(take_reports()), "result")

    def end_work(self) -> None:
        """Keep one sample of each metric that an iteration of counted work reported."""
        self._keep(self._means(take_reports()), "work")

    def _keep(self, means: dict[str, float], source: str) -> None:
        for name, value in means.items():
            self._samples.setdefault(name, []).append(value)
            self._sources[name] = source

    def _means(self, reports: Sequence[Report]) -> dict[str, float]:
        """Return the mean of each metric; raise a MetricError for an invalid report."""
        values: dict[str, list[float]] = {}
        for each in map(check_report, reports):
            self._define(each)
            values.setdefault(each.name, []).append(each.value)
        return {name: _mean(found) for name, found in values.items()}

    def _define(self, report: ReportedNumber) -> None:
        """Check that a metric has one definition, and that there are not too many."""
        known = self._definitions.setdefault(report.name, report)
        for what, was, now in (
            ("better", known.better, report.better),
            ("unit", known.unit, report.unit),
        ):
            if was != now:
                raise MetricError(
                    f"torchstone.metric({report.name!r}, ...): {what}={now!r}, but it was {was!r} before: a metric has one definition"
                )
        if len(self._definitions) > MOST_METRICS:
            raise MetricError(
                f"more than {MOST_METRICS} metrics of its own, such as {report.name!r}: report fewer, or make them parameters of the benchmark"
            )

    def add_to(self, result: Result) -> None:
        """Add all metrics to the result."""
        for name, known in self._definitions.items():
            if samples := self._samples.get(name):
                source = self._sources[name]
            elif name in self._built:
                samples, source = [self._built[name]], "build"
            else:
                result.caution(CautionKind.REPORTED_IN_WARM_UP, metric=name)
                continue
            how = {"unit": known.unit} if known.unit else {}
            result.add(name, samples, better=known.better, reported=source, **how)


def _mean(values: Sequence[float]) -> float:
    """Return the mean; equal values as they are, without rounding."""
    first = values[0]
    return first if all(each == first for each in values) else sum(values) / len(values)
