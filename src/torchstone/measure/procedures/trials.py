"""Measure a case in several trials, one worker after another, and combine them into one outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from torchstone.analyze.student_t import interval_around
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import make_caution, merged
from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.details.outcome_details import NO_OUTCOME_DETAILS, OutcomeDetails
from torchstone.core.details.round_details import RoundDetails
from torchstone.core.records import Measurement, Outcome
from torchstone.core.vocabulary import PASSED
from torchstone.gate.disturbance import mark_disturbed
from torchstone.measure.case_end import WorkerEnd
from torchstone.measure.procedures.procedure import Procedure
from torchstone.worker.protocol.jobs import MeasureJob

CONFIDENCE = 0.95
METHOD = "mean of the logarithms of the trials, Student's t"
_OF_ONE_TRIAL = {"interval": None, "confidence": None, "method": "", "pairs": None, "stopped": ""}
"""Details of one trial alone, at their defaults: they do not hold for several trials together."""


class TrialsProcedure:
    """As many trials as asked for, each from a fresh start; the first that fails is the last."""

    def __init__(self, begin: Callable[[], Procedure], count: int) -> None:
        self._begin = begin
        self._count = count
        self._current: Procedure | None = None
        self._outcomes: list[Outcome] = []

    def next_job(self) -> MeasureJob | None:
        """The next job of the present trial, else the first of the next."""
        while True:
            if self._current is None:
                if len(self._outcomes) == self._count or not all(map(_has_passed, self._outcomes)):
                    return None
                self._current = self._begin()
            if (job := self._current.next_job()) is not None:
                return job
            self._outcomes.append(self._current.outcome())
            self._current = None

    def step(self) -> str:
        """Return the number of the trial, and the purpose of its worker."""
        step = self._current.step() if self._current else ""
        return f"{len(self._outcomes) + 1}/{self._count} {step}".rstrip()

    def take(self, end: WorkerEnd) -> None:
        """Hand the end of the current worker to the current trial."""
        if self._current is None:
            raise RuntimeError("no trial is under way")
        self._current.take(end)

    def outcome(self) -> Outcome:
        """All trials as one outcome."""
        return join_trials(self._outcomes)


def join_trials(outcomes: Sequence[Outcome]) -> Outcome:
    """Trials of one case as one outcome: that of the one that failed, if one did, with what the others measured; else of all."""
    last = outcomes[-1]
    if len(outcomes) == 1:
        return last
    passed = [each for each in outcomes if _has_passed(each)]
    cautions = merged(caution for each in outcomes for caution in each.cautions)
    if not _has_passed(last):
        trials = 1 + sum(map(_count_trials, passed))
        cautions += (make_caution(CautionKind.TRIAL_FAILED, trials=trials, status=last.status),)
    return structs.replace(
        last,
        measurements=_join_measurements(passed),
        details=_join_details(outcomes),
        cautions=cautions,
        capture=outcomes[0].capture,
    )


def _has_passed(outcome: Outcome) -> bool:
    return outcome.status == PASSED


def _count_trials(outcome: Outcome) -> int:
    """Return how many trials an outcome consists of."""
    return max((len(each.trials) for each in outcome.measurements), default=1)


def _join_measurements(outcomes: Sequence[Outcome]) -> tuple[Measurement, ...]:
    """The metrics that every trial has; their samples one trial after another."""
    found = [{each.metric: each for each in outcome.measurements} for outcome in outcomes]
    return tuple(
        mark_disturbed(_join_metric([of_trial[metric] for of_trial in found]), outcomes)
        for metric in (found[0] if found else {})
        if all(metric in of_trial for of_trial in found)
    )


def _join_metric(measurements: Sequence[Measurement]) -> Measurement:
    stated = [each.details or NO_DETAILS for each in measurements]
    first = structs.replace(stated[0], **_OF_ONE_TRIAL)
    differs = {
        field.name: field.default
        for field in structs.fields(MeasurementDetails)
        if any(getattr(each, field.name) != getattr(first, field.name) for each in stated)
        if field.name not in _OF_ONE_TRIAL
    }
    ranks = tuple(count for each in stated for count in each.ranks) if all(e.ranks for e in stated) else ()
    trials = tuple(len(samples) for each in measurements for samples in each.trials)
    details = structs.replace(structs.replace(first, **differs), ranks=ranks, trials=trials)
    samples = tuple(sample for each in measurements for sample in each.samples)
    joined = Measurement(measurements[0].metric, samples, details)
    is_wanted = any(each.interval for each in stated) or first.better in {"higher", "lower"}
    if is_wanted and (interval := interval_of(joined)):
        details = structs.replace(details, interval=interval, confidence=CONFIDENCE, method=METHOD)
        joined = structs.replace(joined, details=details)
    return joined


def interval_of(measurement: Measurement) -> tuple[float, float] | None:
    """Confidence interval of the mean over trials; None for a single trial, and for values that are not positive."""
    return interval_around(measurement.trial_values, measurement.value, CONFIDENCE)


def _join_details(outcomes: Sequence[Outcome]) -> OutcomeDetails:
    """Return the details of the first trial, with the times of all trials added up, and everything left out and all stragglers of any."""
    found = [each.details or NO_OUTCOME_DETAILS for each in outcomes]
    phases: dict[str, float] = {}
    for each in found:
        for phase, seconds in (each.phases or {}).items():
            phases[phase] = round(phases.get(phase, 0.0) + seconds, 4)
    left_out = {metric: why for each in found for metric, why in (each.left_out or {}).items()}
    return structs.replace(
        found[0],
        duration=round(sum(each.duration or 0.0 for each in found), 3),
        phases=phases,
        left_out=left_out or None,
        scaling=_join_rounds([each.scaling for each in found if each.scaling]),
    )


def _join_rounds(rounds: Sequence[RoundDetails]) -> RoundDetails | None:
    if not rounds:
        return None
    stragglers = dict.fromkeys(text for each in rounds for text in each.stragglers)
    return structs.replace(rounds[0], stragglers=tuple(stragglers))
