"""Learn expected values and margins from repeats or from past runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from torchstone.analyze.count_margin import find_margin, round_up, spread
from torchstone.analyze.forecast import FEWEST, forecast_around
from torchstone.analyze.student_t import spread_of
from torchstone.baselines.proposed_changes import Change, TrialEvidence
from torchstone.core.errors import printable
from torchstone.core.records import Case, Measurement, Number, Outcome, Rule, find_metric
from torchstone.core.text.units import count_of, truncate_digits
from torchstone.core.vocabulary import PASSED
from torchstone.formats.torch.expected_csv import is_noisy
from torchstone.gate.comparable import counter_difference, have_same_method
from torchstone.gate.rules import SHARES, allowance, use_own_margin
from torchstone.gate.sanity import is_consistent

LEAST_MARGIN = 0.001
LEAST_MARGIN_OF_TIMES = 0.05
LEAST_LEARNED_MARGIN_OF_TIMES = 0.01
SIGNIFICANT_DIGITS = 4
_WHOLE = 10**15  # floats below it are exact whole numbers
_ALL_DIGITS = 17  # of a float: more digits change nothing
TOO_WIDE = "its repeats vary too much for any margin: measure it more often, or fix it"
PAST_TOO_WIDE = "its past values vary too much for any margin: measure it longer, or fix it"
_EXACT_COUNTERS = frozenset({"hardware", "simulated", "python"})
_EXACT_UNITS = frozenset({"instructions", "calls"})


class LearnedMargin(Struct, frozen=True):
    """Expected value, margin and spread of a row.

    A margin of 1 or more is unusable, and ``why`` gives the reason. ``note`` says where the margin comes from.
    """

    value: Number
    margin: float
    spread: float
    note: str = ""
    why: str = TOO_WIDE

    @property
    def is_usable(self) -> bool:
        """Return whether the margin can be written to a baseline."""
        return self.margin < 1


class PastMeasurements(Struct, frozen=True):
    """Past measurements by case, oldest first, and the accepted rate of false alarms."""

    outcomes: dict[Case, tuple[Outcome, ...]]
    false_alarms: float

    def of(self, case: Case, like: Measurement) -> list[Measurement]:
        """Return the past measurements of a case by the same method as ``like``, as far as known."""
        good = [outcome for outcome in self.outcomes.get(case, ()) if is_consistent(outcome)]
        found = [m for outcome in good for m in outcome.measurements if m.metric == like.metric]
        return [measurement for measurement in found if have_same_method(measurement, like)]


def learn_row(
    case: Case,
    old: Measurement,
    found: Sequence[Measurement],
    rule: Rule,
    past: PastMeasurements | None,
    line: int,
) -> Change:
    """Adopt the learned margin, and the median if it moved by more than a third of that margin."""
    before, stated = old.value, allowance(rule, old.margin)
    new = learn_value(case, found, before, rule, past)
    if not new.is_usable:
        return Change("hold", case, old.metric, before, new.value, new.why, line, None, stated, new.spread)
    action = "keep" if new.value == before and new.margin == old.margin else "change"
    notes = [f"median of {len(found)}"] if new.value != before and past is None else []
    notes += [new.note] if new.note else []
    notes += (
        ["a rule sets its own margin, which takes precedence"] if _overrides_baseline_margin(rule) else []
    )
    return Change(
        action, case, old.metric, before, new.value, "; ".join(notes), line, new.margin, stated, new.spread
    )


def learn_value(
    case: Case, found: Sequence[Measurement], before: Number | None, rule: Rule, past: PastMeasurements | None
) -> LearnedMargin:
    """Return value and margin, learned from past runs if there are any, else from repeats.

    The current value ``before`` stays if the new one is less than a third of the margin away.
    """
    if past is None:
        return _learn_from_repeats(found, before, rule)
    return _learn_from_past(found, before, rule, past.of(case, found[0]), past.false_alarms)


def _learn_from_repeats(found: Sequence[Measurement], before: Number | None, rule: Rule) -> LearnedMargin:
    values = [measurement.value for measurement in found]
    least, spread_now = least_margin(found[0]), spread(values)
    middle = _int_if_all_are(median(values), found)
    margin = find_margin(values, middle, least)
    if margin >= 1:
        return LearnedMargin(middle, margin, spread_now)
    value = _keep_or_write(middle, before, margin, rule)
    return LearnedMargin(value, find_margin(values, value, least), spread_now)


def _learn_from_past(
    found: Sequence[Measurement],
    before: Number | None,
    rule: Rule,
    past: Sequence[Measurement],
    false_alarms: float,
) -> LearnedMargin:
    """Return the median of the newest level, and the margin for the given rate of false alarms."""
    now, values = median(measurement.value for measurement in found), [each.value for each in past]
    if len(values) < FEWEST:
        why = f"{count_of(len(values), 'past value')}: learning a margin needs {FEWEST} or more"
        return LearnedMargin(now, math.inf, spread(values), why=why)
    if min(now, *values) <= 0:
        return LearnedMargin(
            now, math.inf, 0.0, why="a value is not positive, so a relative margin makes no sense"
        )
    known = forecast_around(values, now, false_alarms)
    least, spread_now = _least_learned_margin(found[0]), spread(known.level)

    def margin_around(value: Number) -> float:
        reach = max(least, known.high / value - 1, 1 - known.low / value)
        return reach if math.isinf(reach) else round_up(reach)

    middle = _int_if_all_are(known.middle, (*found, *past))
    if margin_around(middle) >= 1:
        return LearnedMargin(middle, margin_around(middle), spread_now, why=PAST_TOO_WIDE)
    value = _keep_or_write(middle, before, margin_around(middle), rule)
    note = count_of(len(values), "past value")
    note += f", {count_of(known.shifts, 'level shift')}" if known.shifts else ""
    return LearnedMargin(value, margin_around(value), spread_now, note, PAST_TOO_WIDE)


def _least_learned_margin(measurement: Measurement) -> float:
    """Return the smallest margin to learn from past runs; for times, it is smaller than the one for repeats."""
    return min(least_margin(measurement), LEAST_LEARNED_MARGIN_OF_TIMES)


def _int_if_all_are(middle: Number, measurements: Sequence[Measurement]) -> Number:
    """Return an int if all values are ints, because PyTorch's updater script reads only ints."""
    return int(middle) if all(isinstance(each.value, int) for each in measurements) else middle


def _keep_or_write(middle: Number, before: Number | None, margin: float, rule: Rule) -> Number:
    """Keep the current value if the median moved by less than a third of the margin; else round the median."""
    stays = before is not None and before > 0 and abs(middle - before) / before <= margin / 3
    return before if before is not None and stays else round_for_baseline(middle, rule, margin)


def _overrides_baseline_margin(rule: Rule) -> bool:
    """Return whether the rule states its own limit, so that a margin in the baseline is ignored."""
    return rule.margin is not None or (rule.kind != "margin" and use_own_margin(rule, 0.0) is rule)


def round_for_baseline(value: Number, rule: Rule, margin: float) -> Number:
    """Round a number to the digits a baseline keeps: four for counts, or as many as the margin needs."""
    if not isinstance(value, int) and value != int(value):
        rounded = round(value, 6)
        return rounded if abs(rounded - value) <= 1e-4 * abs(value) else float(f"{value:.6g}")
    if rule.kind != "margin":
        return value
    whole = int(value)
    digits = SIGNIFICANT_DIGITS
    while abs(whole - truncate_digits(whole, digits)) > margin / 3 * abs(whole):
        digits += 1
    return truncate_digits(whole, digits)


def shorten(value: Number, rule: Rule, margin: float) -> Number:
    """Round a number to four significant digits, or as many as its rule needs; counts stay exact.

    Rounding uses up at most a third of what the rule allows, so that a result passes against its own baseline.
    """
    if isinstance(value, int) or (value == int(value) and abs(value) < _WHOLE):
        return int(value)
    allowed = margin * abs(value) / 3 if rule.kind in SHARES else rule.tolerance / 3
    for digits in range(SIGNIFICANT_DIGITS, _ALL_DIGITS):
        rounded = float(f"{value:.{digits}g}")
        if abs(rounded - value) <= allowed:
            return rounded
    return value


def find_evidence(outcomes: Sequence[Outcome], metric: str) -> TrialEvidence | None:
    """Return the evidence of all trials of a noisy metric; None if it is not known how it was measured."""
    measured = [
        m
        for outcome in outcomes
        if _states_trials(outcome)
        for m in outcome.measurements
        if m.metric == metric
    ]
    if len(measured) < len(outcomes) or not measured or not is_noisy(metric, *measured):
        return None
    values = [value for each in measured for value in each.trial_values]
    return TrialEvidence(spread_of(values), len(values))


def _states_trials(outcome: Outcome) -> bool:
    """Return whether an outcome is torchstone's own, or another tool's that states its trials."""
    return any(m.details and (m.details.start or m.details.trials) for m in outcome.measurements)


def least_margin(measurement: Measurement) -> float:
    """Return the smallest margin to propose: a few equal repeats do not prove that there is no noise."""
    metric = find_metric(measurement.metric, measurement)
    counts = measurement.counter in _EXACT_COUNTERS or (metric and metric.unit in _EXACT_UNITS)
    return LEAST_MARGIN if counts else LEAST_MARGIN_OF_TIMES


def find_failed_repeat(outcomes: Sequence[Outcome]) -> str:
    """Return which repeat of a case (any outcome after its first) failed, and how; empty if none did."""
    for number, outcome in enumerate(outcomes[1:], 1):
        if outcome.status != PASSED:
            message = printable(outcome.failure.message) if outcome.failure else ""
            reason = f"{outcome.status}{f' ({message})' if message else ''}"
            return f"repeat {number} of {len(outcomes) - 1} failed: {reason}"
    return ""


def find_other_counter(old: Measurement | None, found: Sequence[Measurement]) -> str:
    """Return which two counters were used for one row; empty if there is only one."""
    counters = sorted({measurement.counter for measurement in found} - {""})
    if len(counters) > 1:
        return f"the files were counted by different counters: {', '.join(map(printable, counters))}"
    if old and counters and (why := counter_difference(counters[0], old.counter)):
        return f"{why}: one row cannot mix counts of two counters"
    return ""
