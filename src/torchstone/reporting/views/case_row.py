"""Define a row of the page: a case with its outcome, its verdicts and its name."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any

from msgspec import Struct

from torchstone.core.cautions import Caution
from torchstone.core.records import (
    NOWHERE,
    Case,
    FilePlace,
    Measurement,
    Number,
    Outcome,
    Reading,
    unit_of,
)
from torchstone.core.text.intervals import is_too_wide
from torchstone.core.text.safe_text import quote_word, simple_command
from torchstone.core.text.units import format_change, format_number, format_value
from torchstone.core.vocabulary import NOT_AVAILABLE, PASSED, SKIPPED, Verdict
from torchstone.formats.merge import Results
from torchstone.gate.judgement import QUIET, Row
from torchstone.reporting.views.check_rows import Report, describe
from torchstone.reporting.views.report_view import RowText

SPEEDUP = "speedup"
MISSING = Verdict.MISSING.value

OK, SKIP, FAIL, ABSENT = "ok", "skip", "fail", "absent"
_KINDS = {ABSENT: 0, FAIL: 1, OK: 2, SKIP: 3}
_KIND_OF_STATUS = {PASSED: OK, "": OK, SKIPPED: SKIP, NOT_AVAILABLE: SKIP}
_ORDER = {verdict: place for place, verdict in enumerate(Verdict)}


class CaseFinding(Struct, frozen=True):
    """The verdict on one metric of a case; ``words`` is None if it needs no explanation."""

    verdict: Verdict
    blocks: bool
    metric: str
    expected: str
    words: RowText | None


class CaseRow(Struct, frozen=True, eq=False, gc=False):
    """A case that was measured, planned or expected, with its judged rows.

    A page may have half a million rows, of which its table shows a few thousand. So everything that only the
    table needs is computed on demand.
    """

    case: Case
    outcome: Outcome | None
    reading: Reading | None
    index: int
    judged: tuple[Row, ...]
    naming: Naming

    @property
    def anchor(self) -> str:
        """Return its id in the page, the same in every page; empty if the table does not show it."""
        return self.naming.anchor_of(self)

    @property
    def label(self) -> str:
        """Return its name, with axes if other cases have the same name."""
        return self.naming.label_of(self.case)

    @property
    def axes(self) -> str:
        """Return the axes that not all cases share."""
        return self.naming.axes_of(self.case)

    @property
    def status(self) -> str:
        """Return its status, or ``missing``."""
        return (self.outcome.status or "(no status)") if self.outcome else MISSING

    @property
    def place(self) -> FilePlace:
        """The file and line it was read from."""
        if self.reading is None:
            return NOWHERE
        return self.reading.place(self.index if self.outcome else None)

    @property
    def source(self) -> str:
        """Return the name of its file if there are several files; else an empty string."""
        return os.path.basename(self.reading.path) if self.naming.has_several_files and self.reading else ""

    @property
    def repro(self) -> str:
        """Return the command that measures it again; empty if unknown."""
        return repro_of(self.case, self.outcome, self.reading)

    @property
    def note(self) -> str:
        """Return why there is no outcome; empty if there is one."""
        if self.reading is None:
            return f"expected by {self.judged[0].remarks.base_place}, but neither planned nor measured"
        return "" if self.outcome else f"planned in {self.place}, but has no outcome"

    @property
    def findings(self) -> tuple[CaseFinding, ...]:
        """Return the verdicts on its metrics, worst first."""
        return tuple(_findings(self.naming.report, self.judged))

    @property
    def old(self) -> Number | None:
        """Return the speedup in the baseline; None if there is none."""
        return _old_speedup(self.judged)

    @property
    def kind(self) -> str:
        """Return the kind of its status: ok, skip, fail, or absent if there is no outcome."""
        if self.outcome is None:
            return ABSENT
        return _KIND_OF_STATUS.get(self.outcome.status, FAIL)

    @property
    def is_good(self) -> bool:
        """Return whether it passed or was skipped."""
        return self.kind in {OK, SKIP}

    @property
    def verdict(self) -> Verdict | None:
        """Return its worst verdict; None if it was not judged."""
        return min((row.verdict for row in self.judged), key=_ORDER.__getitem__, default=None)

    @property
    def blocks(self) -> bool:
        """Return whether it blocks."""
        return any(row.blocks for row in self.judged)

    @property
    def is_plain(self) -> bool:
        """Return whether it needs no attention: as expected, without cautions, and without a profile."""
        details = self.outcome.details if self.outcome else None
        told = self.cautions or (details is not None and details.profile)
        return self.is_good and not told and all(row.verdict in QUIET for row in self.judged)

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """The cautions of whoever measured it."""
        return self.outcome.cautions if self.outcome else ()

    def measurement(self, metric: str) -> Measurement | None:
        """Return the measurement of a metric; None if there is none."""
        for measurement in self.outcome.measurements if self.outcome else ():
            if measurement.metric == metric:
                return measurement
        return None

    def is_uncertain(self, metric: str) -> bool:
        """Return whether the interval of a metric is too wide to quote its value alone."""
        measurement = self.measurement(metric)
        return measurement is not None and is_too_wide(float(measurement.value), interval_of(measurement))

    def value(self, metric: str) -> Number | None:
        """Return the value of a metric; None if it was not measured."""
        measurement = self.measurement(metric)
        return measurement.value if measurement else None


def make_rows(results: Results, report: Report | None, shared: dict[str, str]) -> list[CaseRow]:
    """Return a row for every case that was measured, planned or expected, worst first."""
    naming, judged = Naming(results, report, shared), _judged_rows(report)
    rows = [
        CaseRow(outcome.case, outcome, reading, index, tuple(judged.pop(outcome.case, ())), naming)
        for reading, index, outcome in results
    ]
    rows += [
        CaseRow(case, None, reading, 0, tuple(judged.pop(case, ())), naming)
        for reading, case in results.unmeasured()
    ]
    rows += [CaseRow(case, None, None, 0, tuple(of_gate), naming) for case, of_gate in judged.items()]
    return sorted(rows, key=severity)


def _judged_rows(report: Report | None) -> dict[Case, list[Row]]:
    """Return the judged rows by case; cases that were only expected come last."""
    found: dict[Case, list[Row]] = {}
    for row in report.judgement.rows if report else ():
        found.setdefault(row.case, []).append(row)
    return found


class Naming:
    """Names and anchors of the rows, and which rows the table shows: all, unless ``keep`` was called."""

    def __init__(self, results: Results, report: Report | None, shared: dict[str, str]) -> None:
        self.has_several_files = len(results.readings) > 1
        self.report = report
        self._shared = shared
        self._anchors: dict[CaseRow, str] = {}
        self._taken: set[str] = set()
        self._kept: frozenset[CaseRow] | None = None
        cases = {case for reading in results.readings for case in reading.run.plan}
        self._names = Counter((case.benchmark, case.probe) for case in cases)

    def keep(self, rows: Iterable[CaseRow]) -> None:
        """Set the rows that the table shows; other rows have no anchor."""
        self._kept = frozenset(rows)

    def anchor_of(self, row: CaseRow) -> str:
        """Return a readable id that depends only on the case; empty if the table does not show it."""
        if self._kept is not None and row not in self._kept:
            return ""
        if row not in self._anchors:
            self._anchors[row] = _anchor(row.case, self._taken)
        return self._anchors[row]

    def axes_of(self, case: Case) -> str:
        """Return the axes of a case that not all cases share."""
        return ", ".join(_own_axes(case, self._shared))

    def label_of(self, case: Case) -> str:
        """Return the name of a case, with axes if others have the same name."""
        if self._names[case.benchmark, case.probe] < 2:
            return case.name
        axes = self.axes_of(case)
        return f"{case.name} ({axes})" if axes else case.name


def shared_axes(cases: Iterable[Case]) -> dict[str, str]:
    """Return the suite and axes that all cases share, to be shown once instead of in every row."""
    shared: dict[str, str] | None = None
    for case in cases:
        axes = _all_axes(case)
        shared = axes if shared is None else {a: v for a, v in shared.items() if axes.get(a) == v}
    return shared or {}


def _all_axes(case: Case) -> dict[str, str]:
    return ({"suite": case.suite} if case.suite else {}) | case.variant.axes()


def _own_axes(case: Case, shared: dict[str, str]) -> Iterator[str]:
    for axis, value in _all_axes(case).items():
        if axis not in shared:
            known = axis in {"suite", "device", "backend", "mode", "dtype", "strategy", "collective"}
            words = {
                "batch_size": f"batch {value}",
                "dynamic": "dynamic" if value == "true" else "static",
                "ranks": "1 rank"
                if value == "1"
                else f"{value} ranks"
                if value.isdigit()
                else f"ranks {value}",
                "bucket_mb": f"{value} MB buckets",
            }
            yield value if known else words.get(axis, f"{axis} {value}")


def _anchor(case: Case, taken: set[str]) -> str:
    """Return a readable and unique id that depends only on the case."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{case.benchmark[:40]}-{case.probe[:20]}").strip("-").lower()
    digest = hashlib.sha256(case.id.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    anchor = first = f"case-{readable}-{digest}"
    number = 1
    while anchor in taken:
        number += 1
        anchor = f"{first}-{number}"
    taken.add(anchor)
    return anchor


def repro_of(case: Case, outcome: Outcome | None, reading: Reading | None) -> str:
    """Return the command that measures the case again; empty if unknown."""
    if outcome and (command := simple_command(outcome.repro)):
        return command
    if not reading or not reading.repro or case.probe not in {"", reading.kind}:
        return ""
    return simple_command(reading.repro.replace("{name}", quote_word(case.benchmark)))


def _findings(report: Report | None, rows: Sequence[Row]) -> Iterator[CaseFinding]:
    for row in sorted(rows, key=lambda row: _ORDER[row.verdict]):
        if report:
            quiet = row.verdict in QUIET and not row.blocks
            words = None if quiet else describe(row, report.context)
            yield CaseFinding(row.verdict, row.blocks, row.metric, _expected(row), words)


def _expected(row: Row) -> str:
    """Return the expected value, and how far off the result is: ``1.25x (-4.0%)``."""
    actual, expected = row.new_value, row.expected_value
    if expected is None:
        return ""
    text = format_value(expected, short_unit(row.metric, row.new, row.base))
    if not isinstance(expected, int | float) or not isinstance(actual, int | float) or actual == expected:
        return text
    return f"{text} ({format_change(actual, expected)})"


def short_unit(metric: str, *found: Measurement | Outcome | None) -> str:
    """Return the unit of a metric, empty if it is unknown; ``% of look-ups`` is shortened to ``%``."""
    return unit_of(metric, *found).removesuffix(" of look-ups")


def _old_speedup(rows: Sequence[Row]) -> Number | None:
    for row in rows:
        was_compared = row.comparison is not None and not row.comparison.obstacle
        if row.metric == SPEEDUP and (was_compared or row.verdict is not Verdict.INCONCLUSIVE):
            value = row.expected_value
            return value if isinstance(value, int | float) and value > 0 else None
    return None


def severity(row: CaseRow) -> tuple[bool, int, float]:
    """Return a sort key: blocking rows first, then missing and failed ones, then from slow to fast."""
    kind = row.kind
    speedup = row.value(SPEEDUP) if kind == OK else None
    return not row.blocks, _KINDS[kind], float("inf") if speedup is None else float(speedup)


def interval_of(measurement: Measurement | None) -> tuple[float, float] | None:
    """Return the interval that a measurement states; None if there is no valid one."""
    stated = measurement.details.interval if measurement and measurement.details else None
    if stated is None:
        return None
    low, high = map(as_number, stated)
    return (low, high) if low is not None and high is not None and low <= high else None


def as_number(value: Any) -> float | None:  # noqa: ANN401  (whatever a file says)
    """Return a finite number as a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        return None
    return float(value) if isfinite(value) else None


def format_ratio(value: float) -> str:
    """Format a ratio with three decimals, so that columns line up: ``1.050``."""
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 else format_number(value)


def format_metric(value: Number | None, metric: str, *found: Measurement | None) -> str:
    """Format a metric's value with its unit, which ``found`` may define; ratios with three decimals."""
    unit = short_unit(metric, *found)
    return f"{format_ratio(value)}x" if unit == "x" and value is not None else format_value(value, unit)
