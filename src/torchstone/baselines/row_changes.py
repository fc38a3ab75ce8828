"""Decide what accepting changes in one expected row.

A status or a count is adopted by majority, another number by its median; otherwise the change is held back
with a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TypeVar

from msgspec import Struct, structs

from torchstone.baselines.margins import (
    PastMeasurements,
    find_evidence,
    find_failed_repeat,
    find_other_counter,
    learn_row,
    round_for_baseline,
    shorten,
)
from torchstone.baselines.proposed_changes import Change
from torchstone.core.details.measurement_details import NO_DETAILS
from torchstone.core.errors import printable
from torchstone.core.records import Case, Measurement, Number, Outcome, Rule, Run, matches_metric
from torchstone.core.vocabulary import ACCURACY, FAILED, NOT_AVAILABLE, PASSED, SKIPPED, Probe
from torchstone.gate.baseline import expects_status, has_numbers, main_metric, runs_to_its_end
from torchstone.gate.comparable import METHOD_KEYS, depends_on_environment
from torchstone.gate.rules import SHARES, RuleBook, allowance, numbers_count, statuses_agree
from torchstone.gate.sanity import find_inconsistencies

Value = TypeVar("Value", bound="str | Number")


class AdoptionOptions(Struct, frozen=True):
    """Options for adopting results, as the user gave them."""

    only: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    prune: bool = False
    add_new: bool = False
    include_unstable: bool = False
    margins: bool = False
    """Whether the further files are repeats of the first, to derive margins from their spread."""
    past: PastMeasurements | None = None
    """Past measurements to learn margins from; None if margins are not learned."""
    environment_differences: str = ""
    """Differences between the environments of results and baseline; empty if they are the same."""
    shortens: bool = False
    """Whether the baseline is a table that accept started: numbers have four digits, and state their evidence."""
    starts: bool = False
    """Whether the baseline is a new table, with columns for what rules judge."""
    moves_to: Run | None = None
    """The run whose environment the baseline takes over; None if it keeps its own."""

    @property
    def mixes_environments(self) -> bool:
        """Return whether results of another environment would be mixed with rows that stay."""
        return bool(self.environment_differences) and self.moves_to is None

    def learns_margin(self, rule: Rule, values: int) -> bool:
        """Return whether a metric with this rule gets a margin from this many measurements."""
        if self.past is not None:
            return rule.kind in SHARES
        return self.margins and rule.kind == "margin" and values > 1


OTHER_ENVIRONMENT = (
    "measured in another environment ({}): accept all rows together (no --only, --metric, --repeat or "
    "--learn-margins), or start another file"
)


def wants_metric(metric: str, options: AdoptionOptions) -> bool:
    """Return whether the user selected a metric."""
    return not options.metrics or any(matches_metric(pattern, metric) for pattern in options.metrics)


def compare_row(
    expected: Outcome, outcomes: Sequence[Outcome], rules: RuleBook, options: AdoptionOptions, line: int
) -> Iterator[Change]:
    """Yield the changes to one expected row. If its status is held back, its numbers are too."""
    case, ending = expected.case, expected.status
    if why := next(
        (why for outcome in outcomes for _, why in find_inconsistencies(outcome.measurements)), ""
    ):
        yield Change("hold", case, ACCURACY, None, None, f"contradicts itself: {why}", line)
        return
    if options.margins and (why := find_failed_repeat(outcomes)):
        yield Change("hold", case, main_metric(expected), None, None, why, line)
        return
    if not expects_status(expected) and (why := _disagreement(outcomes, options)):
        yield Change("hold", case, main_metric(expected), None, None, why, line)
        return
    if expects_status(expected) and wants_metric(ACCURACY, options):
        changes = list(_compare_status(expected, outcomes, options, line))
        yield from changes
        if any(change.action == "hold" for change in changes):
            return
        if case.probe in {"", Probe.ACCURACY}:
            ending = next((str(change.new) for change in changes if change.action == "change"), ending)
    for measurement in expected.measurements:
        if wants_metric(measurement.metric, options):
            yield from _compare_metric(case, measurement, outcomes, ending, rules, options, line)


def _disagreement(outcomes: Sequence[Outcome], options: AdoptionOptions) -> str:
    """Return how the files disagree on whether a case has numbers; empty if they agree."""
    available = [outcome for outcome in outcomes if outcome.status != NOT_AVAILABLE]
    ran = [has_numbers(outcome) for outcome in available]
    if all(ran) or not any(ran):
        return ""
    winner, agreed, tally = majority_of([outcome.status for outcome in available], options)
    ran_mostly = any(outcome.status == winner and has_numbers(outcome) for outcome in available)
    return "" if agreed and ran_mostly else f"the files disagree: {tally}"


def _compare_status(
    expected: Outcome, outcomes: Sequence[Outcome], options: AdoptionOptions, line: int
) -> Iterator[Change]:
    statuses = [outcome.status for outcome in outcomes if outcome.status != NOT_AVAILABLE]
    if expected.status == FAILED and statuses and not {*statuses} & {PASSED, SKIPPED}:
        return  # the row does not say how the case fails
    if not statuses:  # not_available says nothing about what to expect
        yield Change("hold", expected.case, ACCURACY, expected.status, None, "not available here", line)
        return
    without_numbers = not expected.measurements and any(outcome.measurements for outcome in outcomes)
    states_numbers = bool(expected.case.variant.device)  # a row of results, not of expected values
    if expected.status not in statuses and without_numbers and states_numbers:
        note = "the row states a failure and has no numbers: remove it, and use --add-new"
        yield Change("hold", expected.case, ACCURACY, expected.status, statuses[-1], note, line)
    else:
        yield from _adopt_majority(expected.case, ACCURACY, expected.status, statuses, options, line)


def _compare_metric(
    case: Case,
    old: Measurement,
    outcomes: Sequence[Outcome],
    ending: str,
    rules: RuleBook,
    options: AdoptionOptions,
    line: int,
) -> Iterator[Change]:
    rule = rule_for(old, outcomes[0].case, rules, options)
    if rule.kind == "ignore":
        return
    found = measurements_of(outcomes, old.metric, ending)
    values = [measurement.value for measurement in found]
    why = find_other_counter(old, found) or _find_mixed_methods(found)
    if not why and options.mixes_environments and values and depends_on_environment(old.metric, old):
        why = OTHER_ENVIRONMENT.format(options.environment_differences)
    if why:
        yield Change("hold", case, old.metric, old.value, median(values) if values else None, why, line)
        return
    if not values:
        if why := _why_no_value(case, outcomes, ending, options):
            yield Change("hold", case, old.metric, old.value, None, why, line)
    elif uses_majority(old, rule, values):
        yield from _adopt_majority(case, old.metric, old.value, values, options, line)
    else:
        ways = _changed_methods(old, found)
        if options.learns_margin(rule, len(values)):
            changes = [learn_row(case, old, found, rule, options.past, line)]
        else:
            changes = list(_adopt_median(case, old, values, rule, line, options, remeasured=bool(ways)))
            evidence = find_evidence([o for o in outcomes if o.value(old.metric) is not None], old.metric)
            changes = [structs.replace(change, evidence=evidence) for change in changes]
        for change in changes:
            must_edit = ways and change.action == "keep"
            yield structs.replace(change, ways=ways, action="change" if must_edit else change.action)


def _why_no_value(case: Case, outcomes: Sequence[Outcome], ending: str, options: AdoptionOptions) -> str:
    """Return why a number is not adopted, unless the status row already says so; empty if it is adopted."""
    failed = next((o.status for o in outcomes if o.status not in {PASSED, SKIPPED}), "")
    if not failed or any(statuses_agree(outcome.status, ending) for outcome in outcomes):
        return ""
    if case.probe not in {"", Probe.ACCURACY}:
        return f"no value: {failed}"
    if wants_metric(ACCURACY, options) or not ending:
        return ""
    return f"failed with {failed} where the baseline expects {ending}; accept its accuracy as well"


def uses_majority(like: Measurement, rule: Rule, values: Sequence[Number]) -> bool:
    """Return whether a number is adopted by majority, as counts that do not vary are."""
    if rule.kind not in {"count", "any"}:
        return False
    return not depends_on_environment(like.metric, like) or all(type(value) is int for value in values)


def _find_mixed_methods(found: Sequence[Measurement]) -> str:
    """Return how the files' methods of measuring differ; empty if they are the same."""
    for way in METHOD_KEYS:
        ways = sorted({str(said) for each in found if (said := (each.details or NO_DETAILS).methods()[way])})
        if len(ways) > 1:
            return f"the files differ in {way}: {printable(', '.join(ways), 80)}"
    return ""


def rule_for(measurement: Measurement, case: Case, rules: RuleBook, options: AdoptionOptions) -> Rule:
    """Return the rule that decides how large a change must be to be adopted; by default any change is."""
    found = rules.find(measurement.metric, case)
    learned = options.past is not None or (options.margins and case.probe == Probe.INSTRUCTIONS)
    return found or Rule("any" if measurement.margin is None and not learned else "margin")


def measurements_of(outcomes: Sequence[Outcome], metric: str, ending: str) -> list[Measurement]:
    """Return the measurements for a row that expects this status.

    If the status is an early failure, only results that failed the same way count, if there are any.
    """
    alike = [outcome for outcome in outcomes if statuses_agree(outcome.status, ending)]
    if runs_to_its_end(ending) or not alike:
        alike = [outcome for outcome in outcomes if has_numbers(outcome)]
    good = [outcome for outcome in alike if numbers_count(outcome, ending)]
    return [m for outcome in good for m in outcome.measurements if m.metric == metric]


def _adopt_majority(
    case: Case,
    metric: str,
    old: str | Number,
    values: Sequence[str | Number],
    options: AdoptionOptions,
    line: int,
) -> Iterator[Change]:
    """Adopt the majority's value. Disagreement is never adopted silently."""
    winner, agreed, tally = majority_of(values, options)
    if not agreed:
        yield Change("hold", case, metric, old, winner, f"the files disagree: {tally}", line)
    elif winner != old:
        yield Change("change", case, metric, old, winner, f"majority of {tally}" if tally else "", line)


def majority_of(values: Sequence[Value], options: AdoptionOptions) -> tuple[Value, bool, str]:
    """Return the majority's value, whether it may be adopted, and the tally if the values differ."""
    counted = Counter(values).most_common()
    winner, votes = counted[0]
    if votes == len(values):
        return winner, True, ""
    tally = ", ".join(f"{value} x{times}" for value, times in counted)
    return winner, options.include_unstable and 2 * votes > len(values), tally


def _changed_methods(
    old: Measurement, found: Sequence[Measurement]
) -> dict[str, str | int | float | None] | None:
    """Return the methods by which the new numbers were measured, where they differ from the old one's."""
    before = (old.details or NO_DETAILS).methods()
    now = (found[-1].details or NO_DETAILS).methods() if found else {}
    return {way: said for way, said in now.items() if said and before[way] and before[way] != said} or None


def _adopt_median(
    case: Case,
    old: Measurement,
    values: Sequence[Number],
    rule: Rule,
    line: int,
    options: AdoptionOptions,
    *,
    remeasured: bool,
) -> Iterator[Change]:
    """Adopt the median if it moved by more than a third of the rule's limit.

    A baseline that moves to another environment adopts any change, and ``remeasured`` adopts even an unchanged value
    (it was measured by another method).
    """
    middle, before, always = median_of(values), old.value, options.moves_to is not None
    allowed = allowance(rule, old.margin)
    if rule.kind == "count":
        allowed = rule.tolerance / abs(before) if before else 0.0
    if middle <= 0 < before and rule.kind in SHARES and not always:
        why = "not positive, so a relative limit makes no sense: measure it again"
        yield Change("hold", case, old.metric, before, middle, why, line)
        return
    new = (shorten if options.shortens else round_for_baseline)(middle, rule, allowed)
    moved = abs(middle - before) / abs(before) if before else 1.0
    if remeasured or ((always or moved > allowed / 3) and new != before):
        note = f"median of {len(values)}" if len(values) > 1 else ""
        yield Change("change", case, old.metric, before, new, note, line)


def can_be_expected(
    measurement: Measurement, outcomes: Sequence[Outcome], rules: RuleBook, options: AdoptionOptions
) -> bool:
    """Return whether the metric's rule can judge it: a relative limit needs a positive median.

    Noise can turn a difference of two times negative.
    """
    rule = rule_for(measurement, outcomes[-1].case, rules, options)
    if rule.kind not in SHARES:
        return True
    found = measurements_of(outcomes, measurement.metric, outcomes[-1].status)
    return median_of([each.value for each in found]) > 0


def median_of(values: Sequence[Number]) -> Number:
    """Return the median, as an int if all values are."""
    middle = median(values)
    return int(middle) if all(isinstance(value, int) for value in values) else middle


def hold_unsupported_status(change: Change, kind: str) -> Change:
    """Return the change, held back if it changes a status that this format has no column for."""
    of_status = change.metric == ACCURACY and change.action == "change"
    if not of_status or (
        kind != "performance" and not (kind == "v3" and change.case.probe == Probe.PERFORMANCE)
    ):
        return change
    note = "a performance file does not say how a case fails: remove the row, and use --add-new"
    return structs.replace(change, action="hold", note=note)
