"""Margins that are measured: what a row of a baseline is to expect, and within what margin, judging by repeats or by past runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from torchstone.analyze.count_margin import find_margin, round_up, spread
from torchstone.analyze.forecast import FEWEST, forecast_around
from torchstone.baselines.text_edits import Change
from torchstone.core.errors import printable
from torchstone.core.records import Case, Measurement, Number, Outcome, Rule
from torchstone.core.text.units import count_of, truncate_digits
from torchstone.core.vocabulary import METRICS, PASSED
from torchstone.gate.comparable import counter_of, is_alike, other_counter
from torchstone.gate.rules import allowance, use_own_margin
from torchstone.gate.sanity import is_sound

LEAST_MARGIN = 0.001
LEAST_MARGIN_OF_TIMES = 0.05
LEAST_LEARNED_MARGIN_OF_TIMES = 0.01
SIGNIFICANT_DIGITS = 4
TOO_WIDE = "its repeats lie too far apart for any margin: measure it more often, or mend it"
PAST_TOO_WIDE = "its past values lie too far apart for any margin: measure it longer, or mend it"
_EXACT_COUNTERS = frozenset({"hardware", "simulated", "python"})
_EXACT_UNITS = frozenset({"instructions", "calls"})


class Settled(Struct, frozen=True):
    """What is to be expected, within what margin, and how far apart the values are; there is no margin of 1 or more, and ``why`` says why not.

    ``note`` says what the margin was found from.
    """

    value: Number
    margin: float
    spread: float
    note: str = ""
    why: str = TOO_WIDE

    @property
    def is_usable(self) -> bool:
        """Whether such a margin can stand in a baseline."""
        return self.margin < 1


class Lessons(Struct, frozen=True):
    """What past runs measured of each case that has a row, or could get one, oldest first; and how many false alarms are wanted, as a share of all values."""

    outcomes: dict[Case, tuple[Outcome, ...]]
    false_alarms: float

    def of(self, case: Case, like: Measurement) -> list[Measurement]:
        """The past measurements of a case that were made in the same way as this one, where both say how."""
        good = [outcome for outcome in self.outcomes.get(case, ()) if is_sound(outcome)]
        found = [m for outcome in good for m in outcome.measurements if m.metric == like.metric]
        return [measurement for measurement in found if is_alike(measurement, like)]


def settle_row(
    case: Case, old: Measurement, found: Sequence[Measurement], rule: Rule, lessons: Lessons | None, line: int
) -> Change:
    """Adopt the median if it moved by more than a third of the margin that the values ask for, and that margin."""
    before, stated = old.value, allowance(rule, old.margin)
    new = settle(case, found, before, rule, lessons)
    if not new.is_usable:
        return Change("hold", case, old.metric, before, new.value, new.why, line, None, stated, new.spread)
    action = "keep" if new.value == before and new.margin == old.margin else "change"
    notes = [f"median of {len(found)}"] if new.value != before and lessons is None else []
    notes += [new.note] if new.note else []
    notes += ["a rule has a margin of its own, which comes first"] if _comes_first(rule) else []
    return Change(
        action, case, old.metric, before, new.value, "; ".join(notes), line, new.margin, stated, new.spread
    )


def settle(
    case: Case, found: Sequence[Measurement], before: Number | None, rule: Rule, lessons: Lessons | None
) -> Settled:
    """What to expect, and within what margin: as past runs have it, if there are any to learn from, else as the repeats that were found do.

    ``before`` is what is expected so far: it stays, if what was found is less than a third of the margin from it.
    """
    if lessons is None:
        return _from_repeats(found, before, rule)
    return _from_past(found, before, rule, lessons.of(case, found[0]), lessons.false_alarms)


def _from_repeats(found: Sequence[Measurement], before: Number | None, rule: Rule) -> Settled:
    values = [measurement.value for measurement in found]
    least, apart = least_margin(found[0]), spread(values)
    middle = _whole(median(values), found)
    margin = find_margin(values, middle, least)
    if margin >= 1:
        return Settled(middle, margin, apart)
    value = _keep_or_write(middle, before, margin, rule)
    return Settled(value, find_margin(values, value, least), apart)


def _from_past(
    found: Sequence[Measurement],
    before: Number | None,
    rule: Rule,
    past: Sequence[Measurement],
    false_alarms: float,
) -> Settled:
    """The middle of the level that the newest value belongs to, and the margin that leaves out only so many of all values."""
    now, values = median(measurement.value for measurement in found), [each.value for each in past]
    if len(values) < FEWEST:
        told = f"{count_of(len(values), 'past value')}: a margin needs {FEWEST} or more to be learned from"
        return Settled(now, math.inf, spread(values), why=told)
    if min(now, *values) <= 0:
        return Settled(now, math.inf, 0.0, why="a value is not above 0: nothing can be a share of it")
    known = forecast_around(values, now, false_alarms)
    least, apart = _least_learned(found[0]), spread(known.level)

    def margin_around(value: Number) -> float:
        reach = max(least, known.high / value - 1, 1 - known.low / value)
        return reach if math.isinf(reach) else round_up(reach)

    middle = _whole(known.middle, (*found, *past))
    if margin_around(middle) >= 1:
        return Settled(middle, margin_around(middle), apart, why=PAST_TOO_WIDE)
    value = _keep_or_write(middle, before, margin_around(middle), rule)
    told = count_of(len(values), "past value")
    told += f", {count_of(known.shifts, 'level shift')}" if known.shifts else ""
    return Settled(value, margin_around(value), apart, told, PAST_TOO_WIDE)


def _least_learned(measurement: Measurement) -> float:
    """The narrowest margin that is ever learned: past runs show more than repeats do, so that of times is narrower."""
    return min(least_margin(measurement), LEAST_LEARNED_MARGIN_OF_TIMES)


def _whole(middle: Number, measurements: Sequence[Measurement]) -> Number:
    """A whole number where all are: the original's updater reads no others."""
    return int(middle) if all(isinstance(each.value, int) for each in measurements) else middle


def _keep_or_write(middle: Number, before: Number | None, margin: float, rule: Rule) -> Number:
    """What is expected so far, if the middle moved by less than a third of the margin from it; else the middle, with the digits that are kept."""
    stays = before is not None and before > 0 and abs(middle - before) / before <= margin / 3
    return before if before is not None and stays else as_written(middle, rule, margin)


def _comes_first(rule: Rule) -> bool:
    """Whether a rule says by itself how far off a value may be, so that a margin in the baseline is not looked at."""
    return rule.margin is not None or (rule.kind != "margin" and use_own_margin(rule, 0.0) is rule)


def as_written(value: Number, rule: Rule, margin: float) -> Number:
    """A number with as many digits as a baseline keeps of it: for counts four, or as many as its margin needs."""
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


def least_margin(measurement: Measurement) -> float:
    """The narrowest margin that is ever proposed: a spread of nothing over a few repeats is no promise for all times."""
    metric = METRICS.get(measurement.metric)
    counts = counter_of(measurement) in _EXACT_COUNTERS or (metric and metric.unit in _EXACT_UNITS)
    return LEAST_MARGIN if counts else LEAST_MARGIN_OF_TIMES


def find_failed_repeat(outcomes: Sequence[Outcome]) -> str:
    """Why the repeats of a case, which come after its first outcome, say nothing about its spread: one of them failed. Empty if none did."""
    for number, outcome in enumerate(outcomes[1:], 1):
        if outcome.status != PASSED:
            said = printable(outcome.failure.message) if outcome.failure else ""
            reason = f"{outcome.status}{f' ({said})' if said else ''}"
            return f"repeat {number} of {len(outcomes) - 1} failed: {reason}"
    return ""


def find_other_counter(old: Measurement | None, found: Sequence[Measurement]) -> str:
    """Why counts cannot stand in one row: two counters made them. Empty if one did, or nothing is said."""
    counters = sorted({counter_of(measurement) for measurement in found} - {""})
    if len(counters) > 1:
        return f"the files were counted by different counters: {', '.join(map(printable, counters))}"
    if old and old.extra and counters and (why := other_counter({"counter": counters[0]}, old.extra)):
        return f"{why}: counts of two counters never stand in one row"
    return ""
