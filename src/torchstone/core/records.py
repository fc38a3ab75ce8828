"""The records: frozen, tuples inside, no I/O, no clock, no formatting.

Seconds, bytes and counts are plain numbers; the unit belongs to the metric. ``gc=False`` marks records that hold no
cycles, which keeps a million of them cheap; that is also why ``extra`` is None rather than an empty dictionary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

from torchstone.core.cautions import Caution
from torchstone.core.details.capture_details import CaptureDetails
from torchstone.core.details.known_fields import facts_of
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_details import OutcomeDetails, outcome_facts
from torchstone.core.run_settings import NO_ENVIRONMENT, Environment, JsonObject, Settings
from torchstone.core.vocabulary import (
    ACCURACY,
    COMPILE_SECONDS,
    METRICS,
    SAVED,
    SCENARIOS,
    Metric,
    names_of,
    reported_metric,
)

Number = int | float

BY_TIMERS, BY_CALLS = "torch_timers", "warm_up_calls"
"""Definitions of compile time: by torch's own timers, or (in older files) as five compiled calls less five eager ones."""

REDEFINED = frozenset(f"{scenario}_{name}" for scenario in SCENARIOS for name in (COMPILE_SECONDS, SAVED[0]))
"""Metrics whose definition is ``BY_CALLS`` in a file that states none: one of an older torchstone, or of PyTorch's cachebench."""

AXES = ("device", "backend", "mode", "dtype", "dynamic", "batch_size")


class Variant(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The axes a benchmark is run under; an axis that is not known is left at its default.

    ``further`` holds axes that only some probes have (``ranks``, ``strategy``, ``tag``), sorted by name.
    """

    device: str = ""
    backend: str = ""
    mode: str = ""
    dtype: str = ""
    dynamic: bool | None = None
    batch_size: int | None = None
    further: tuple[tuple[str, str], ...] = ()

    def axes(self) -> dict[str, str]:
        """Return the known axes as text, in a fixed order."""
        known = {axis: getattr(self, axis) for axis in AXES}
        stated = {axis: axis_text(value) for axis, value in known.items() if value not in ("", None)}
        return stated | dict(self.further)


def axis_text(value: object) -> str:
    """Return an axis value as text: ``true`` and ``false`` in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_NEEDS_ESCAPE = r"[%\[\]\x00-\x1f\x7f]|::"


class Case(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Benchmark x variant x probe: what is measured, and the key of every comparison."""

    benchmark: str
    probe: str
    suite: str = ""
    variant: Variant = Variant()

    @property
    def id(self) -> str:
        """Return the stable id: ``suite::benchmark[axis=value,...]::probe``, with ``%xx`` for characters it uses itself."""
        suite = f"{_escape(self.suite)}::" if self.suite else ""
        return f"{suite}{_escape(self.benchmark)}{_axes_of_id(self.variant)}::{self.probe}"

    @property
    def name(self) -> str:
        """Return the benchmark's name, or a placeholder if it has none."""
        return self.benchmark or "(unnamed)"


@lru_cache(maxsize=1024)
def _axes_of_id(variant: Variant) -> str:
    """Return the axes as part of an id; cached, because most cases of a run share a few variants."""
    axes = ",".join(f"{axis}={_escape(value)}" for axis, value in variant.axes().items())
    return f"[{axes}]" if axes else ""


def _escape(text: str) -> str:
    if text.isidentifier():  # as most names are: letters, digits and underscores, with nothing to escape
        return text
    return re.sub(_NEEDS_ESCAPE, lambda found: "".join(f"%{ord(c):02X}" for c in found[0]), text)


def matches(pattern: str, case: Case) -> bool:
    """Return whether a pattern matches a case: its exact name or id, or a shell pattern on either."""
    return matches_name(pattern, case.benchmark) or matches_name(pattern, case.id)


def is_pattern(text: str) -> bool:
    """Return whether a text contains wildcards."""
    return "*" in text or "?" in text or "[" in text


def matches_name(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name, exactly or as a shell pattern."""
    # fnmatch compiles every pattern: the names of the default rules alone would take 2 ms.
    return pattern == name or (is_pattern(pattern) and fnmatchcase(name, pattern))


def matches_metric(pattern: str, metric: str) -> bool:
    """Return whether a pattern matches a metric, by its current or a former name."""
    return any(matches_name(pattern, name) for name in names_of(metric))


class Measurement(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Samples of one metric. ``details`` says how they were taken; ``extra`` keeps what else a foreign file states."""

    metric: str
    samples: tuple[Number, ...]
    details: MeasurementDetails | None = None
    extra: JsonObject | None = None

    @property
    def margin(self) -> float | None:
        """Return the margin that the file states for this row, as a share; None if it states none."""
        return self.details.margin if self.details else None

    @property
    def counter(self) -> str:
        """Return the counter of instructions; empty if not stated."""
        return self.details.counter if self.details else ""

    @property
    def value(self) -> Number:
        """Return the samples as one number, by the metric's estimator; of several trials, the geometric mean of their medians."""
        if len(self.samples) == 1:
            return self.samples[0]
        sizes = self._trial_sizes()
        known = METRICS.get(self.metric)
        if len(sizes) < 2 or (known and known.estimator in _EXTREMES):
            return estimate(self.metric, self.samples)
        return middle_of(self.trial_values)

    @property
    def trials(self) -> tuple[tuple[Number, ...], ...]:
        """The samples of each trial; one trial if the stated sizes are missing or do not add up."""
        if self.details is None:
            return (self.samples,)
        counts = self._trial_sizes()
        ends = accumulate(counts)
        return tuple(self.samples[end - count : end] for count, end in zip(counts, ends, strict=True))

    @property
    def trial_values(self) -> tuple[Number, ...]:
        """The estimate of each trial. Trials are independent of each other; samples of one trial are not."""
        if len(self.samples) == len(self._trial_sizes()):  # one sample each
            return self.samples
        return tuple(estimate(self.metric, samples) for samples in self.trials)

    def _trial_sizes(self) -> Sequence[int]:
        """Return the number of samples of each trial."""
        counts = self.details.trials if self.details else ()
        return counts if counts and sum(counts) == len(self.samples) else (len(self.samples),)

    def facts(self) -> dict[str, object]:
        """Return everything stated beyond the numbers, by name."""
        return facts_of(self.details, self.extra)


_EXTREMES = {"min": min, "max": max}


def estimate(metric: str, samples: Sequence[Number]) -> Number:
    """Summarise samples of a metric as one number, by the metric's estimator."""
    if len(samples) == 1:
        return samples[0]
    known = METRICS.get(metric)
    if known and known.estimator in _EXTREMES:
        return _EXTREMES[known.estimator](samples)
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def middle_of(values: Sequence[Number]) -> Number:
    """Return the geometric mean of trials, the arithmetic mean if one is not positive, or the value that all have."""
    least = min(values)
    if least == max(values):
        return least
    if not all(map(math.isfinite, values)):
        return math.nan
    if least <= 0:
        return math.fsum(value / len(values) for value in values)
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def find_metric(name: str, *found: Measurement | Outcome | None) -> Metric | None:
    """Return the definition of a metric: torchstone's own, else the one that the first of the given records states; None if there is none.

    A benchmark may report metrics of its own, which ``METRICS`` does not have: every reader of units and directions asks here.
    """
    if (known := METRICS.get(name)) is not None:
        return known
    for record in found:
        measurements = record.measurements if isinstance(record, Outcome) else (record,)
        for each in measurements:
            if each and each.metric == name and (own := each.details) and own.better:
                return reported_metric(name, own.unit, own.better)
    return None


def unit_of(name: str, *found: Measurement | Outcome | None) -> str:
    """Return the unit of a metric, as ``find_metric`` finds it; empty if it is not known."""
    known = find_metric(name, *found)
    return known.unit if known else ""


class Failure(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The failure of a case: its last phase, the message, the traceback, and the last lines it printed."""

    phase: str = ""
    message: str = ""
    traceback: str = ""
    log: str = ""


class Provenance(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Host, device and part of a job of an outcome; unknown fields have their defaults.

    ``machine_class`` names machines whose times may be compared; ``device_uuid`` is the accelerator's own; ``attempt`` counts from 1;
    ``shard`` is ``2/8``; ``scheduler_job`` is the job's name in a cluster's scheduler.
    """

    host: str = ""
    machine_class: str = ""
    device_uuid: str = ""
    attempt: int = 0
    shard: str = ""
    scheduler_job: str = ""


class Outcome(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The result of one planned case.

    ``repro`` is a command that measures just this case again; ``extra`` keeps what else a foreign file states.
    """

    case: Case
    status: str
    measurements: tuple[Measurement, ...] = ()
    failure: Failure | None = None
    repro: str = ""
    extra: JsonObject | None = None
    cautions: tuple[Caution, ...] = ()
    provenance: Provenance | None = None
    capture: CaptureDetails | None = None
    details: OutcomeDetails | None = None

    def value(self, metric: str) -> str | Number | None:
        """Return the measured value: the status for ``accuracy``, the estimate for any other metric, None if absent."""
        if metric == ACCURACY:
            return self.status
        for measurement in self.measurements:
            if measurement.metric == metric:
                return measurement.value
        return None

    def why_left_out(self, metric: str) -> str:
        """Return why a metric was left out on purpose; empty if not stated."""
        left_out = self.details.left_out if self.details else None
        return left_out.get(metric, "") if left_out else ""

    def facts(self) -> dict[str, object]:
        """Return everything stated beside status, measurements, failure, cautions and capture, by name."""
        return outcome_facts(self.details, self.extra)


class Revision(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The code under test: a commit, or a label where there is none."""

    commit: str = ""
    branch: str = ""
    dirty: bool | None = None
    label: str = ""


class Run(Struct, frozen=True):
    """All outcomes of one plan, of one revision in one environment. ``plan`` names every case that was to be measured.

    ``controls`` are outcomes of control cases, which show how steady the machine was: no part of the plan, and never judged.
    """

    id: str
    plan: tuple[Case, ...]
    outcomes: tuple[Outcome, ...]
    revision: Revision = Revision()
    environment: Environment = NO_ENVIRONMENT
    settings: Settings = Settings()
    finished: bool = True
    controls: tuple[Outcome, ...] = ()


def run_of(path: str, outcomes: Sequence[Outcome]) -> Run:
    """A run that was read from a foreign file: its plan is what it has outcomes of, its id the file's name."""
    return Run(
        path.replace("\\", "/").rpartition("/")[2],
        tuple(outcome.case for outcome in outcomes),
        tuple(outcomes),
    )


class FilePlace(Struct, frozen=True, gc=False):
    """A place in a file: its path, and a line from 1; line 0 is the whole file. A place without a path is false."""

    path: str = ""
    line: int = 0

    def __bool__(self) -> bool:
        """Return whether it is anywhere."""
        return bool(self.path)

    def __str__(self) -> str:
        """The place as people write it: ``file:line``."""
        return f"{self.path}:{self.line}" if self.line else self.path


NOWHERE = FilePlace()


class Reading(Struct, frozen=True):
    """A run as read from one file: ``lines[i]`` is where ``run.outcomes[i]`` stands; ``cautions`` are worth telling the user.

    Expected values are read as a run too: a row's outcome is then the expected one. It states only what the file states: a status
    may be empty, a probe may be empty (any), a variant may name no axis. ``repro`` is a command that measures one case again, with ``{name}``
    where its name goes, for files whose outcomes do not each have their own. ``metric_lines`` is for tables that have a row for each metric of a case:
    by the line of the outcome and the metric, the line of that metric, where it is another one.
    """

    path: str
    kind: str
    run: Run
    lines: Sequence[int]
    cautions: tuple[Caution, ...] = ()
    repro: str = ""
    metric_lines: dict[tuple[int, str], int] = {}

    def place(self, index: int | None, metric: str = "") -> FilePlace:
        """Return the place of outcome ``index``, or of a metric of it; without an index, the whole file."""
        if index is None:
            return FilePlace(self.path)
        line = self.lines[index]
        return FilePlace(self.path, self.metric_lines.get((line, metric), line))


class Rule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A rule that judges one metric. ``kind`` determines which other fields apply: see docs/gate.md.

    ``usual`` is the margin where neither the rule nor the baseline's row says one.
    """

    kind: str
    ratio: float | None = None
    margin: float | None = None
    better: str = ""
    tolerance: float = 0
    low: float | None = None
    high: float | None = None
    usual: float | None = None


STATUS_RULES = frozenset({"status_equal", "must_pass"})  # the kinds for a status; all others are for numbers


class ScopedRule(Struct, frozen=True):
    """A rule and the metrics and cases it is for; ``asked`` marks one given on the command line."""

    rule: Rule
    metric: str
    case: str = "*"
    asked: bool = False
