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
    Lessons,
    as_written,
    find_failed_repeat,
    find_other_counter,
    settle_row,
)
from torchstone.baselines.text_edits import Change
from torchstone.core.details.measurement_details import NO_DETAILS
from torchstone.core.errors import printable
from torchstone.core.records import Case, Measurement, Number, Outcome, Rule, Run, matches_metric
from torchstone.core.vocabulary import ACCURACY, FAILED, NOT_AVAILABLE, PASSED, SKIPPED, Probe
from torchstone.gate.baseline import expects_status, has_numbers, main_metric, runs_to_its_end
from torchstone.gate.comparable import WAYS, depends_on_environment
from torchstone.gate.rules import SHARES, RuleBook, allowance, ended_alike, numbers_count
from torchstone.gate.sanity import contradictions

Value = TypeVar("Value", bound="str | Number")


class Wish(Struct, frozen=True):
    """The options of the user."""

    only: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    prune: bool = False
    add_new: bool = False
    include_unstable: bool = False
    margins: bool = False
    """Whether the further files are repeats of the first, to derive margins from."""
    lessons: Lessons | None = None
    """Past measurements, if margins are learned from them."""
    elsewhere: str = ""
    """How the environments of results and baseline differ."""
    head: Run | None = None
    """The run whose environment the baseline takes over with all rows."""

    @property
    def is_apart(self) -> bool:
        """Return whether results from another environment would mix with rows that stay."""
        return bool(self.elsewhere) and self.head is None

    def settles_margin(self, rule: Rule, values: int) -> bool:
        """Return whether a metric with this rule gets a margin from this many measurements."""
        if self.lessons is not None:
            return rule.kind in SHARES
        return self.margins and rule.kind == "margin" and values > 1


ELSEWHERE = (
    "measured in another environment ({}): accept all rows together (no --only, --metric, --repeat or "
    "--learn-margins), or start another file"
)


def wants_metric(metric: str, wish: Wish) -> bool:
    """Return whether the user selected a metric."""
    return not wish.metrics or any(matches_metric(pattern, metric) for pattern in wish.metrics)


def compare_row(
    expected: Outcome, outcomes: Sequence[Outcome], rules: RuleBook, wish: Wish, line: int
) -> Iterator[Change]:
    """Yield the changes to one expected row. If its status is held back, so are its numbers."""
    case, ending = expected.case, expected.status
    if why := next((why for outcome in outcomes for _, why in contradictions(outcome.measurements)), ""):
        yield Change("hold", case, ACCURACY, None, None, f"contradicts itself: {why}", line)
        return
    if wish.margins and (why := find_failed_repeat(outcomes)):
        yield Change("hold", case, main_metric(expected), None, None, why, line)
        return
    if not expects_status(expected) and (why := _disagreement(outcomes, wish)):
        yield Change("hold", case, main_metric(expected), None, None, why, line)
        return
    if expects_status(expected) and wants_metric(ACCURACY, wish):
        changes = list(_compare_status(expected, outcomes, wish, line))
        yield from changes
        if any(change.action == "hold" for change in changes):
            return
        if case.probe in {"", Probe.ACCURACY}:
            ending = next((str(change.new) for change in changes if change.action == "change"), ending)
    for measurement in expected.measurements:
        if wants_metric(measurement.metric, wish):
            yield from _compare_metric(case, measurement, outcomes, ending, rules, wish, line)


def _disagreement(outcomes: Sequence[Outcome], wish: Wish) -> str:
    """Return how files disagree on whether a case can be measured; empty if they agree."""
    there = [outcome for outcome in outcomes if outcome.status != NOT_AVAILABLE]
    ran = [has_numbers(outcome) for outcome in there]
    if all(ran) or not any(ran):
        return ""
    winner, agreed, tally = majority_of([outcome.status for outcome in there], wish)
    ran_mostly = any(outcome.status == winner and has_numbers(outcome) for outcome in there)
    return "" if agreed and ran_mostly else f"the files disagree: {tally}"


def _compare_status(
    expected: Outcome, outcomes: Sequence[Outcome], wish: Wish, line: int
) -> Iterator[Change]:
    statuses = [outcome.status for outcome in outcomes if outcome.status != NOT_AVAILABLE]
    if expected.status == FAILED and statuses and not {*statuses} & {PASSED, SKIPPED}:
        return  # a row without the failure's status
    if not statuses:  # not_available says nothing about what to expect
        yield Change("hold", expected.case, ACCURACY, expected.status, None, "not available here", line)
        return
    without_numbers = not expected.measurements and any(outcome.measurements for outcome in outcomes)
    states_numbers = bool(expected.case.variant.device)  # a row of results, not of expected values
    if expected.status not in statuses and without_numbers and states_numbers:
        note = "the row is of a failure and has no numbers: remove it, and use --add-new"
        yield Change("hold", expected.case, ACCURACY, expected.status, statuses[-1], note, line)
    else:
        yield from _vote(expected.case, ACCURACY, expected.status, statuses, wish, line)


def _compare_metric(
    case: Case,
    old: Measurement,
    outcomes: Sequence[Outcome],
    ending: str,
    rules: RuleBook,
    wish: Wish,
    line: int,
) -> Iterator[Change]:
    rule = rule_for(old, outcomes[0].case, rules, wish)
    if rule.kind == "ignore":
        return
    found = measurements_of(outcomes, old.metric, ending)
    values = [measurement.value for measurement in found]
    why = find_other_counter(old, found) or _mixed_ways(found)
    if not why and wish.is_apart and values and depends_on_environment(old.metric):
        why = ELSEWHERE.format(wish.elsewhere)
    if why:
        yield Change("hold", case, old.metric, old.value, median(values) if values else None, why, line)
        return
    if not values:
        if why := _why_no_value(case, outcomes, ending, wish):
            yield Change("hold", case, old.metric, old.value, None, why, line)
    elif is_voted_on(old.metric, rule, values):
        yield from _vote(case, old.metric, old.value, values, wish, line)
    else:
        ways = _other_ways(old, found)
        if wish.settles_margin(rule, len(values)):
            changes = [settle_row(case, old, found, rule, wish.lessons, line)]
        else:
            changes = list(
                _settle(case, old, values, rule, line, always=wish.head is not None, anew=bool(ways))
            )
        for change in changes:
            anew = ways and change.action == "keep"
            yield structs.replace(change, ways=ways, action="change" if anew else change.action)


def _why_no_value(case: Case, outcomes: Sequence[Outcome], ending: str, wish: Wish) -> str:
    """Return why a number is not adopted, unless the status row already says so; empty if it is adopted."""
    failed = next((o.status for o in outcomes if o.status not in {PASSED, SKIPPED}), "")
    if not failed or any(ended_alike(outcome.status, ending) for outcome in outcomes):
        return ""
    if case.probe not in {"", Probe.ACCURACY}:
        return f"no value: {failed}"
    if wants_metric(ACCURACY, wish) or not ending:
        return ""
    return f"failed with {failed} where the baseline expects {ending}; accept its accuracy as well"


def is_voted_on(metric: str, rule: Rule, values: Sequence[Number]) -> bool:
    """Return whether a number is adopted by majority: a count that does not vary."""
    if rule.kind not in {"count", "any"}:
        return False
    return not depends_on_environment(metric) or all(type(value) is int for value in values)


def _mixed_ways(found: Sequence[Measurement]) -> str:
    """Return how the files' ways of measuring differ; empty if they are the same."""
    for way in WAYS:
        ways = sorted({str(said) for each in found if (said := (each.details or NO_DETAILS).ways()[way])})
        if len(ways) > 1:
            return f"the files differ in {way}: {printable(', '.join(ways), 80)}"
    return ""


def rule_for(measurement: Measurement, case: Case, rules: RuleBook, wish: Wish) -> Rule:
    """Return the rule that decides how large a change is worth adopting; by default any change is."""
    found = rules.find(measurement.metric, case)
    settled = wish.lessons is not None or (wish.margins and case.probe == Probe.INSTRUCTIONS)
    return found or Rule("any" if measurement.margin is None and not settled else "margin")


def measurements_of(outcomes: Sequence[Outcome], metric: str, ending: str) -> list[Measurement]:
    """Return the measurements for a row that expects this status.

    If the status is an early failure, only results that failed the same way count, if there are any.
    """
    alike = [outcome for outcome in outcomes if ended_alike(outcome.status, ending)]
    if runs_to_its_end(ending) or not alike:
        alike = [outcome for outcome in outcomes if has_numbers(outcome)]
    good = [outcome for outcome in alike if numbers_count(outcome, ending)]
    return [m for outcome in good for m in outcome.measurements if m.metric == metric]


def _vote(
    case: Case, metric: str, old: str | Number, values: Sequence[str | Number], wish: Wish, line: int
) -> Iterator[Change]:
    """Adopt the majority's value. Disagreement is never adopted silently."""
    winner, agreed, tally = majority_of(values, wish)
    if not agreed:
        yield Change("hold", case, metric, old, winner, f"the files disagree: {tally}", line)
    elif winner != old:
        yield Change("change", case, metric, old, winner, f"majority of {tally}" if tally else "", line)


def majority_of(values: Sequence[Value], wish: Wish) -> tuple[Value, bool, str]:
    """Return the majority's value, whether it may be adopted, and the tally if the values differ."""
    counted = Counter(values).most_common()
    winner, votes = counted[0]
    if votes == len(values):
        return winner, True, ""
    tally = ", ".join(f"{value} x{times}" for value, times in counted)
    return winner, wish.include_unstable and 2 * votes > len(values), tally


def _other_ways(old: Measurement, found: Sequence[Measurement]) -> dict[str, str | int | float | None] | None:
    """Return in which ways the new numbers were measured differently from the old one."""
    before = (old.details or NO_DETAILS).ways()
    now = (found[-1].details or NO_DETAILS).ways() if found else {}
    return {way: said for way, said in now.items() if said and before[way] and before[way] != said} or None


def _settle(
    case: Case,
    old: Measurement,
    values: Sequence[Number],
    rule: Rule,
    line: int,
    *,
    always: bool,
    anew: bool,
) -> Iterator[Change]:
    """Adopt the median if it moved by more than a third of the rule's limit.

    Numbers from another environment (``always``) or measured in another way (``anew``) are adopted in any
    case.
    """
    middle, before = middle_of(values), old.value
    allowed = allowance(rule, old.margin)
    if rule.kind == "count":
        allowed = rule.tolerance / abs(before) if before else 0.0
    if middle <= 0 < before and rule.kind in SHARES and not always:
        told = "not positive, so a relative limit makes no sense: measure it again"
        yield Change("hold", case, old.metric, before, middle, told, line)
        return
    new = as_written(middle, rule, allowed)
    moved = abs(middle - before) / abs(before) if before else 1.0
    if anew or ((always or moved > allowed / 3) and new != before):
        note = f"median of {len(values)}" if len(values) > 1 else ""
        yield Change("change", case, old.metric, before, new, note, line)


def can_be_expected(
    measurement: Measurement, outcomes: Sequence[Outcome], rules: RuleBook, wish: Wish
) -> bool:
    """Return whether a relative limit makes sense: not for a time difference that noise turned negative."""
    rule = rule_for(measurement, outcomes[-1].case, rules, wish)
    if rule.kind not in SHARES:
        return True
    found = measurements_of(outcomes, measurement.metric, outcomes[-1].status)
    return middle_of([each.value for each in found]) > 0


def middle_of(values: Sequence[Number]) -> Number:
    """Return the median; of counts, a count."""
    middle = median(values)
    return int(middle) if all(isinstance(value, int) for value in values) else middle


def in_place(change: Change, kind: str) -> Change:
    """Return the change as this format can hold it; a status without a column is held back."""
    of_status = change.metric == ACCURACY and change.action == "change"
    if not of_status or (
        kind != "performance" and not (kind == "v3" and change.case.probe == Probe.PERFORMANCE)
    ):
        return change
    note = "a file of performance does not say how a case fails: remove the row, and use --add-new"
    return structs.replace(change, action="hold", note=note)
