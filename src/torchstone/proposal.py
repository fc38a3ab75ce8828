"""Accepting results: what would change in a baseline, and the baseline's new text with everything else kept as it is.

Several files of results may be shards, repeats, or both. A status or a count is adopted by majority, and one that the files do not agree
on is held back unless asked for. A number is the median over the files, and adopted only if it moved by more than a third of what its rule allows: smaller
moves are noise, and would make every update touch every row. Where counts were measured again for that, their spread also gives each row its margin; where there
are past runs to learn from, they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TypeVar

from msgspec import Struct, structs

from torchstone.baseline import Baseline, expects_status, has_numbers, main_metric
from torchstone.baseline_edit import NOTHING_DONE, Change, apply_changes, find_no_place, state
from torchstone.errors import UsageError
from torchstone.gate.margins import (
    Lessons,
    allowance,
    as_written,
    find_failed_repeat,
    find_other_counter,
    settle,
    settle_row,
)
from torchstone.gate.rules import SHARES, RuleBook, margin_of
from torchstone.gate.sanity import contradictions
from torchstone.model import (
    Case,
    Measurement,
    Number,
    Outcome,
    Reading,
    Rule,
    Run,
    matches_name,
)
from torchstone.results import is_selected
from torchstone.vocabulary import ACCURACY, NOT_AVAILABLE, PASSED, SKIPPED, Probe

_STATING_VARIANTS = frozenset({"performance", "accuracy", "run", "v3", "ddp"})
Value = TypeVar("Value", bound="str | Number")


class Wish(Struct, frozen=True):
    """What the user asked for."""

    only: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    prune: bool = False
    add_new: bool = False
    include_unstable: bool = False
    margins: bool = False
    """Whether the first file was measured again, and each further one is such a repeat, from which margins are to be found."""
    lessons: Lessons | None = None
    """What past runs say, if margins are to be learned from them."""

    def settles_margin(self, rule: Rule, values: int) -> bool:
        """Whether a metric with this rule is to get a margin from what was measured so many times."""
        if self.lessons is not None:
            return rule.kind in SHARES
        return self.margins and rule.kind == "margin" and values > 1


class Proposal(Struct, frozen=True):
    """The changes, the new text, and how many rows were left alone for want of an option."""

    changes: list[Change]
    text: str
    unpruned: int
    unadded: int

    @property
    def adopted(self) -> list[Change]:
        """The changes that the new text has."""
        return [change for change in self.changes if change.action not in NOTHING_DONE]


def propose(
    baseline: Reading, text: str, readings: Sequence[Reading], rules: RuleBook, wish: Wish
) -> Proposal:
    """What accepting these results would do to a baseline file with this text."""
    found = _collect(Baseline([baseline]), baseline.kind, readings, wish)
    _require_matches(baseline, readings, wish, found)
    changes: list[Change] = []
    rows: dict[Case, Outcome] = {}
    unpruned = 0
    for number, expected in enumerate(baseline.run.outcomes):
        line = baseline.lines[number]
        if number in found.by_row:
            changes += _compare(expected, found.by_row[number], rules, wish, line)
            if wish.add_new and baseline.kind == "pr-time-expected":
                found.new |= _further_counts(expected, found.by_row[number], rules, wish)
        elif number not in found.touched and _could_be_pruned(expected.case, baseline.kind, found, wish):
            unpruned += not wish.prune
            changes += [_removal(expected, line)] if wish.prune else []
    margin = _customary_margin(baseline)
    for case, outcomes in found.new.items() if wish.add_new else ():
        change, outcome = _new_row(case, outcomes, rules, wish, margin, find_no_place(case, baseline.kind))
        changes.append(change)
        rows |= {case: outcome} if outcome else {}
    new_text = apply_changes(baseline, text, changes, rows)
    return Proposal(changes, new_text, unpruned, 0 if wish.add_new else len(found.new))


class _Found(Struct):
    """What the results say: of each expected row, of cases without one, and which rows were met though not comparable."""

    by_row: dict[int, list[Outcome]]
    new: dict[Case, list[Outcome]]
    touched: set[int]
    dtypes: set[str]


def _removal(expected: Outcome, line: int) -> Change:
    old = expected.status or (expected.measurements[0].value if expected.measurements else None)
    return Change("remove", expected.case, main_metric(expected), old, None, "no result", line)


def find_repeatable(baseline: Reading, reading: Reading, wish: Wish) -> list[Case]:
    """The counted cases that accepting would look at and that were measured well: those whose spread can be found by measuring them again."""
    found = _collect(Baseline([baseline]), baseline.kind, [reading], wish)
    _require_matches(baseline, [reading], wish, found)
    groups = [*found.by_row.values(), *(found.new.values() if wish.add_new else ())]
    wanted = {outcome.case for group in groups for outcome in group}
    return [
        outcome.case
        for outcome in reading.run.outcomes
        if outcome.case in wanted
        and outcome.case.probe == Probe.INSTRUCTIONS
        and outcome.status == PASSED
        and not any(contradictions(outcome.measurements))
    ]


def find_lessons(baseline: Reading, past: Sequence[Reading], wish: Wish, false_alarms: float) -> Lessons:
    """What past runs, oldest first, measured of each case that has a row in a baseline or could get one."""
    found = _collect(Baseline([baseline]), baseline.kind, past, wish)
    of_rows = {baseline.run.outcomes[number].case: outcomes for number, outcomes in found.by_row.items()}
    return Lessons({case: tuple(outcomes) for case, outcomes in (found.new | of_rows).items()}, false_alarms)


def _further_counts(
    expected: Outcome, outcomes: Sequence[Outcome], rules: RuleBook, wish: Wish
) -> dict[Case, list[Outcome]]:
    """Of instruction counts each metric is a row: those of a known benchmark that have none yet."""
    known = {measurement.metric for measurement in expected.measurements}
    further = [
        structs.replace(outcome, measurements=tuple(m for m in outcome.measurements if m.metric not in known))
        for outcome in outcomes
    ]
    wanted = any(
        _wants_new_metric(m.metric, outcome.case, rules, wish)
        for outcome in further
        for m in outcome.measurements
    )
    return {expected.case: further} if wanted else {}


def _wants_metric(metric: str, wish: Wish) -> bool:
    return not wish.metrics or any(matches_name(pattern, metric) for pattern in wish.metrics)


def _wants_new_metric(metric: str, case: Case, rules: RuleBook, wish: Wish) -> bool:
    """Whether a new row is wanted for a metric: of counts, not for one that is never judged, unless it is asked for."""
    if not wish.metrics and case.probe == Probe.INSTRUCTIONS and rules.ignores(metric, case):
        return False
    return _wants_metric(metric, wish)


def _could_be_pruned(case: Case, kind: str, found: _Found, wish: Wish) -> bool:
    """Whether a row without a result is one that could have had one: of a table by dtype, only dtypes that were measured."""
    return is_selected(case, wish.only) and (
        kind != "expected-by-dtype" or case.variant.dtype in found.dtypes
    )


def _require_matches(baseline: Reading, readings: Sequence[Reading], wish: Wish, found: _Found) -> None:
    """Refuse patterns that mean nothing here: they are typing mistakes."""
    cases = [case for reading in (baseline, *readings) for case in reading.run.plan]
    if not found.by_row and not found.new and not any(is_selected(case, wish.only) for case in cases):
        raise UsageError(f"--only {' '.join(wish.only)}: no case matches")
    outcomes = [outcome for reading in (baseline, *readings) for outcome in reading.run.outcomes]
    metrics = {m.metric for outcome in outcomes for m in outcome.measurements} | {ACCURACY}
    for pattern in wish.metrics:
        if not any(matches_name(pattern, metric) for metric in metrics):
            advice = f"there are: {', '.join(sorted(metrics))}"
            raise UsageError(f"--metric {pattern}: neither results nor baseline have it", advice=advice)


def _collect(index: Baseline, kind: str, readings: Sequence[Reading], wish: Wish) -> _Found:
    """Sort the results by the row they are for. A case that was planned and not measured only keeps its row from being pruned."""
    found = _Found({}, {}, set(), {case.variant.dtype for reading in readings for case in reading.run.plan})
    for reading in readings:
        claimed: dict[int | Case, int] = {}
        for number, outcome in enumerate(reading.run.outcomes):
            row = _row_for(outcome.case, index, kind, wish)
            if row is None:
                continue
            if row in claimed:
                raise UsageError(
                    f"{reading.place(number)}: {outcome.case.name} has a result already in line {reading.lines[claimed[row]]}",
                    advice="accept one of them with --only, or use a baseline that tells them apart",
                )
            claimed[row] = number
            if isinstance(row, int):
                found.by_row.setdefault(row, []).append(outcome)
            elif outcome.status != NOT_AVAILABLE and (
                not index.probes or index.probes & {"", outcome.case.probe}
            ):
                found.new.setdefault(row, []).append(outcome)
        for case in reading.run.plan:
            if match := index.find(case):
                found.touched.add(match.row.number)
    return found


def _row_for(case: Case, index: Baseline, kind: str, wish: Wish) -> int | Case | None:
    """The number of the row that a case is for, or the case of a row it could get; None if it is not to be looked at."""
    match = index.find(case)
    if not is_selected(case, wish.only) and not (match and is_selected(match.row.outcome.case, wish.only)):
        return None
    if match and not match.differences:
        return match.row.number
    if match and kind not in _STATING_VARIANTS:
        return None
    return state(case, kind)


def _compare(
    expected: Outcome, outcomes: Sequence[Outcome], rules: RuleBook, wish: Wish, line: int
) -> Iterator[Change]:
    """What accepting does to one expected row. If its status is held back, so is the rest."""
    case = expected.case
    if why := next((why for outcome in outcomes for _, why in contradictions(outcome.measurements)), ""):
        yield Change("hold", case, ACCURACY, None, None, f"contradicts itself: {why}", line)
        return
    if wish.margins and (why := find_failed_repeat(outcomes)):
        yield Change("hold", case, main_metric(expected), None, None, why, line)
        return
    if expects_status(expected) and _wants_metric(ACCURACY, wish):
        changes = list(_compare_status(expected, outcomes, wish, line))
        yield from changes
        if any(change.action == "hold" for change in changes):
            return
    for measurement in expected.measurements:
        if _wants_metric(measurement.metric, wish):
            yield from _compare_metric(case, measurement, outcomes, rules, wish, line)


def _compare_status(
    expected: Outcome, outcomes: Sequence[Outcome], wish: Wish, line: int
) -> Iterator[Change]:
    statuses = [outcome.status for outcome in outcomes]
    without_numbers = not expected.measurements and any(outcome.measurements for outcome in outcomes)
    states_numbers = bool(expected.case.variant.device)  # a row of a result file, and not of expected values
    if expected.status not in statuses and without_numbers and states_numbers:
        note = "the row is of a failure and has no numbers: remove it, and use --add-new"
        yield Change("hold", expected.case, ACCURACY, expected.status, statuses[-1], note, line)
    else:
        yield from _vote(expected.case, ACCURACY, expected.status, statuses, wish, line)


def _compare_metric(
    case: Case, old: Measurement, outcomes: Sequence[Outcome], rules: RuleBook, wish: Wish, line: int
) -> Iterator[Change]:
    rule = _rule_for(old, outcomes[0].case, rules, wish)
    values = _values(outcomes, old.metric)
    if rule.kind == "ignore":
        return
    if why := find_other_counter(old, _measurements(outcomes, old.metric)):
        yield Change("hold", case, old.metric, old.value, median(values) if values else None, why, line)
        return
    if not values:
        failed = next((o.status for o in outcomes if o.status not in {PASSED, SKIPPED}), "")
        if failed and case.probe != Probe.ACCURACY:
            yield Change("hold", case, old.metric, old.value, None, f"no value: {failed}", line)
    elif rule.kind in {"count", "any"}:
        yield from _vote(case, old.metric, old.value, values, wish, line)
    elif wish.settles_margin(rule, len(values)):
        found = _measurements(outcomes, old.metric)
        yield settle_row(case, old, found, rule, wish.lessons, line)
    else:
        yield from _settle(case, old, values, rule, line)


def _rule_for(measurement: Measurement, case: Case, rules: RuleBook, wish: Wish) -> Rule:
    """The rule that says how large a change is worth adopting; any change is, where nothing says so."""
    found = rules.find(measurement.metric, case)
    settled = wish.lessons is not None or (wish.margins and case.probe == Probe.INSTRUCTIONS)
    return found or Rule("any" if measurement.margin is None and not settled else "margin")


def _measurements(outcomes: Sequence[Outcome], metric: str) -> list[Measurement]:
    """What was measured. The numbers of a case that failed before its end mean nothing."""
    good = [outcome for outcome in outcomes if has_numbers(outcome)]
    return [m for outcome in good for m in outcome.measurements if m.metric == metric]


def _values(outcomes: Sequence[Outcome], metric: str) -> list[Number]:
    return [measurement.value for measurement in _measurements(outcomes, metric)]


def _vote(
    case: Case, metric: str, old: str | Number, values: Sequence[str | Number], wish: Wish, line: int
) -> Iterator[Change]:
    """Adopt what most files say. Disagreement is never adopted silently."""
    winner, agreed, tally = _majority(values, wish)
    if not agreed:
        yield Change("hold", case, metric, old, winner, f"the files disagree: {tally}", line)
    elif winner != old:
        yield Change("change", case, metric, old, winner, f"majority of {tally}" if tally else "", line)


def _majority(values: Sequence[Value], wish: Wish) -> tuple[Value, bool, str]:
    """What most of the values are, whether that may be adopted, and the tally where they are not all the same."""
    counted = Counter(values).most_common()
    winner, votes = counted[0]
    if votes == len(values):
        return winner, True, ""
    tally = ", ".join(f"{value} x{times}" for value, times in counted)
    return winner, wish.include_unstable and 2 * votes > len(values), tally


def _settle(
    case: Case, old: Measurement, values: Sequence[Number], rule: Rule, line: int
) -> Iterator[Change]:
    """Adopt the median if it moved by more than a third of what the rule allows."""
    middle, before = median(values), old.value
    allowed = allowance(rule, old.margin)
    new = as_written(middle, rule, allowed)
    moved = abs(middle - before) / abs(before) if before else 1.0
    if moved > allowed / 3 and new != before:
        note = f"median of {len(values)}" if len(values) > 1 else ""
        yield Change("change", case, old.metric, before, new, note, line)


def _customary_margin(baseline: Reading) -> float | None:
    """The margin that most rows of a baseline have: a new row gets it too."""
    margins = Counter(
        m.margin for outcome in baseline.run.outcomes for m in outcome.measurements if m.margin is not None
    )
    return margins.most_common(1)[0][0] if margins else None


class _HeldBackError(Exception):
    """Why a new row is not added, and what it would have expected."""

    def __init__(self, why: str, metric: str = ACCURACY, value: str | Number | None = None) -> None:
        super().__init__(why)
        self.why, self.metric, self.value = why, metric, value


def _new_row(
    case: Case, outcomes: Sequence[Outcome], rules: RuleBook, wish: Wish, margin: float | None, no_place: str
) -> tuple[Change, Outcome | None]:
    """A new row, if the baseline has a place for it, and the files agree on its status and its counts."""
    try:
        if no_place:
            raise _HeldBackError(
                no_place, main_metric(outcomes[0]), outcomes[0].value(main_metric(outcomes[0]))
            )
        return _new_row_of(case, outcomes, rules, wish, margin)
    except _HeldBackError as held:
        return Change("hold", case, held.metric, None, held.value, f"new, but {held.why}"), None


def _new_row_of(
    case: Case, outcomes: Sequence[Outcome], rules: RuleBook, wish: Wish, margin: float | None
) -> tuple[Change, Outcome]:
    if why := next((why for outcome in outcomes for _, why in contradictions(outcome.measurements)), ""):
        raise _HeldBackError(f"it contradicts itself: {why}")
    if wish.margins and (why := find_failed_repeat(outcomes)):
        raise _HeldBackError(why)
    status, agreed, tally = _majority([outcome.status for outcome in outcomes], wish)
    if not agreed:
        raise _HeldBackError(f"the files disagree: {tally}", ACCURACY, status)
    agreeing = [outcome for outcome in outcomes if outcome.status == status]
    like = agreeing[-1]
    new = [
        _new_expectation(case, measurement, agreeing, rules, wish, margin)
        for measurement in like.measurements
        if has_numbers(like) and _wants_new_metric(measurement.metric, like.case, rules, wish)
    ]
    measurements = tuple(measurement for measurement, _ in new)
    outcome = Outcome(case, status, measurements, like.failure, extra=like.extra)
    note = f"majority of {tally}" if tally else ""
    if case.probe == Probe.ACCURACY:
        return Change("add", case, ACCURACY, None, status, note), outcome
    if not new:
        raise _HeldBackError("it has no numbers to expect", ACCURACY, status)
    first, apart = new[0]
    found = None if apart is None else first.margin
    change = Change("add", case, first.metric, None, first.value, note, margin=found, spread=apart)
    return change, outcome


def _new_expectation(
    case: Case,
    measurement: Measurement,
    agreeing: Sequence[Outcome],
    rules: RuleBook,
    wish: Wish,
    margin: float | None,
) -> tuple[Measurement, float | None]:
    """What a new row is to expect of one metric, and how far repeats lie apart if there were any."""
    metric, extra = measurement.metric, measurement.extra or {}
    rule = _rule_for(measurement, agreeing[-1].case, rules, wish)
    found = _measurements(agreeing, metric)
    values = [each.value for each in found]
    value: Number = median(values)
    if why := find_other_counter(None, found):
        raise _HeldBackError(why, metric)
    if wish.settles_margin(rule, len(values)):
        new = settle(case, found, None, rule, wish.lessons)
        if not new.is_usable:
            raise _HeldBackError(new.why, metric, value)
        return Measurement(metric, (new.value,), {**extra, "margin": new.margin}), new.spread
    if rule.kind == "count":
        value, agreed, counts = _majority(values, wish)
        if not agreed:
            raise _HeldBackError(f"the files disagree: {counts}", metric, value)
    whole = len(values) == 1 and rule.kind != "margin"
    kept = measurement.samples if whole else (as_written(value, rule, margin_of(rule, margin)),)
    usual = {} if rule.usual is None else {"margin": rule.usual}
    return Measurement(metric, kept, {**usual, **extra} or None), None


def new_baseline(path: str, readings: Sequence[Reading]) -> Reading:
    """An empty baseline of the customary kind for these results, to be filled by ``propose``."""
    probes = {outcome.case.probe for reading in readings for outcome in reading.run.outcomes}
    if len(probes) > 1:
        advice = f"they have: {', '.join(sorted(probes))}; give files of one probe"
        raise UsageError(f"{path} does not exist, and the results have several probes", advice=advice)
    customary = {Probe.INSTRUCTIONS.value: "pr-time-expected", Probe.SCALING.value: "ddp"}
    return Reading(path, customary.get(min(probes), "expected"), Run(path, (), ()), ())
