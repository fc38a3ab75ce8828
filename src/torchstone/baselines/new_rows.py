"""Build baseline rows for new cases, or say why a case gets none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from torchstone.baselines.margins import (
    find_evidence,
    find_failed_repeat,
    find_other_counter,
    learn_value,
    round_for_baseline,
    shorten,
)
from torchstone.baselines.proposed_changes import Change, details_of_value
from torchstone.baselines.row_changes import (
    OTHER_ENVIRONMENT,
    AdoptionOptions,
    can_be_expected,
    majority_of,
    measurements_of,
    median_of,
    rule_for,
    uses_majority,
    wants_metric,
)
from torchstone.core.details.measurement_details import NO_DETAILS
from torchstone.core.records import Case, Measurement, Number, Outcome, Rule
from torchstone.core.vocabulary import ACCURACY, METRICS, Probe
from torchstone.gate.baseline import main_metric
from torchstone.gate.comparable import depends_on_environment
from torchstone.gate.rules import RuleBook, allowance, margin_of, numbers_count
from torchstone.gate.sanity import find_inconsistencies


def wants_new_metric(metric: str, case: Case, rules: RuleBook, options: AdoptionOptions) -> bool:
    """Return whether to add a metric; one that no rule judges is added only on request, or to a file that has it."""
    if options.metrics:
        return wants_metric(metric, options)
    if case.probe == Probe.INSTRUCTIONS:
        return not rules.ignores(metric, case)
    return not options.starts or (rules.find(metric, case) is not None and not rules.ignores(metric, case))


class _HeldBackError(Exception):
    """The reason why a new row is not added, and the value it would have had."""

    def __init__(self, why: str, metric: str = ACCURACY, value: str | Number | None = None) -> None:
        super().__init__(why)
        self.why, self.metric, self.value = why, metric, value


def new_row(
    case: Case,
    outcomes: Sequence[Outcome],
    rules: RuleBook,
    options: AdoptionOptions,
    margin: float | None,
    unsupported: str,
) -> tuple[Change, Outcome | None]:
    """Build a new row if the format can hold it and the files agree on status and counts."""
    try:
        if unsupported:
            raise _HeldBackError(
                unsupported, main_metric(outcomes[0]), outcomes[0].value(main_metric(outcomes[0]))
            )
        return _new_row_of(case, outcomes, rules, options, margin)
    except _HeldBackError as held:
        return Change("hold", case, held.metric, None, held.value, f"new, but {held.why}"), None


def _new_row_of(
    case: Case, outcomes: Sequence[Outcome], rules: RuleBook, options: AdoptionOptions, margin: float | None
) -> tuple[Change, Outcome]:
    if why := next(
        (why for outcome in outcomes for _, why in find_inconsistencies(outcome.measurements)), ""
    ):
        raise _HeldBackError(f"it contradicts itself: {why}")
    if options.margins and (why := find_failed_repeat(outcomes)):
        raise _HeldBackError(why)
    numbers = [m for outcome in outcomes for m in outcome.measurements]
    if options.mixes_environments and any(depends_on_environment(m.metric, m) for m in numbers):
        raise _HeldBackError(OTHER_ENVIRONMENT.format(options.environment_differences))
    status, agreed, tally = majority_of([outcome.status for outcome in outcomes], options)
    if not agreed:
        raise _HeldBackError(f"the files disagree: {tally}", ACCURACY, status)
    agreeing = [outcome for outcome in outcomes if outcome.status == status]
    like = agreeing[-1]
    measured = {each.metric: each for outcome in agreeing for each in outcome.measurements}
    new = [
        _new_expectation(case, measurement, agreeing, rules, options, margin)
        for measurement in _in_order(measured.values(), options)
        if _may_expect_numbers(like) and wants_new_metric(measurement.metric, like.case, rules, options)
        if can_be_expected(measurement, agreeing, rules, options)
    ]
    measurements = tuple(measurement for measurement, _ in new)
    outcome = Outcome(case, status, measurements, like.failure, extra=like.extra, details=like.details)
    note = f"majority of {tally}" if tally else ""
    if case.probe == Probe.ACCURACY:
        return Change("add", case, ACCURACY, None, status, note), outcome
    if not new:
        raise _HeldBackError("it has no numbers to expect", ACCURACY, status)
    first, apart = new[0]
    found = None if apart is None else first.margin
    change = Change("add", case, first.metric, None, first.value, note, margin=found, spread=apart)
    return change, outcome


def _in_order(measurements: Iterable[Measurement], options: AdoptionOptions) -> list[Measurement]:
    """Return measurements in the order of the columns of a new table, so that the most telling one names the row."""
    order = {metric: number for number, metric in enumerate(METRICS)} if options.starts else {}
    return sorted(measurements, key=lambda each: order.get(each.metric, len(order)))


def _may_expect_numbers(outcome: Outcome) -> bool:
    """Return whether a row may expect this result's numbers.

    Numbers of a failed case need a row that states the failure, as accuracy rows do in every file.
    """
    return numbers_count(outcome, outcome.status if outcome.case.probe == Probe.ACCURACY else "")


def _new_expectation(
    case: Case,
    measurement: Measurement,
    agreeing: Sequence[Outcome],
    rules: RuleBook,
    options: AdoptionOptions,
    margin: float | None,
) -> tuple[Measurement, float | None]:
    """Return the expected measurement of a new row, and the spread of repeats if there were any."""
    metric, details = measurement.metric, measurement.details or NO_DETAILS
    rule = rule_for(measurement, agreeing[-1].case, rules, options)
    found = measurements_of(agreeing, metric, agreeing[-1].status)
    values = [each.value for each in found]
    value = median_of(values)
    if why := find_other_counter(None, found):
        raise _HeldBackError(why, metric)
    if options.learns_margin(rule, len(values)):
        new = learn_value(case, found, None, rule, options.past)
        if not new.is_usable:
            raise _HeldBackError(new.why, metric, value)
        learned = structs.replace(details, margin=new.margin)
        return Measurement(metric, (new.value,), learned, measurement.extra), new.spread
    if rule.kind == "count" and uses_majority(measurement, rule, values):
        value, agreed, counts = majority_of(values, options)
        if not agreed:
            raise _HeldBackError(f"the files disagree: {counts}", metric, value)
    if options.shortens:
        return _short(case, measurement, agreeing, value, rule), None
    whole = len(values) == 1 and rule.kind != "margin"
    kept = measurement.samples if whole else (round_for_baseline(value, rule, margin_of(rule, margin)),)
    if details.margin is None and rule.usual is not None:
        details = structs.replace(details, margin=rule.usual)
    known = None if details == NO_DETAILS else details
    return Measurement(metric, kept, known, measurement.extra), None


def _short(
    case: Case, measurement: Measurement, agreeing: Sequence[Outcome], value: Number, rule: Rule
) -> Measurement:
    """Return an expected value with few digits and the evidence behind it, for a table that people review."""
    metric = measurement.metric
    evidence = find_evidence([o for o in agreeing if o.value(metric) is not None], metric)
    details = details_of_value(measurement.details or NO_DETAILS, evidence)
    if details.margin is None and rule.usual is not None:
        details = structs.replace(details, margin=rule.usual)
    rounded = value if case.probe == Probe.INSTRUCTIONS else shorten(value, rule, allowance(rule, None))
    return Measurement(metric, (rounded,), None if details == NO_DETAILS else details)
