"""Accepting results: what would change in a baseline, and the baseline's new text with everything else kept as it is.

Several files of results may be shards, repeats, or both. A status or a count is adopted by majority, and one that the files do not agree
on is held back unless asked for. A number is the median over the files, and adopted only if it moved by more than a third of what its rule allows: smaller
moves are noise, and would make every update touch every row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TypeVar

from msgspec import Struct, structs

from torchstone.baseline import Baseline, expects_status, has_numbers, main_metric
from torchstone.baseline_edit import Change, apply_changes
from torchstone.errors import UsageError
from torchstone.gate.rules import RuleBook, margin_of
from torchstone.gate.sanity import contradictions
from torchstone.model import (
    Case,
    Measurement,
    Number,
    Outcome,
    Reading,
    Rule,
    Run,
    Variant,
    matches_name,
)
from torchstone.results import is_selected
from torchstone.units import truncate_digits
from torchstone.vocabulary import ACCURACY, PASSED, SKIPPED, Probe

SIGNIFICANT_DIGITS = 4
_STATING_VARIANTS = frozenset({"performance", "accuracy", "run", "v3", "ddp"})
Value = TypeVar("Value", bound="str | Number")


class Wish(Struct, frozen=True):
    """What the user asked for."""

    only: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    prune: bool = False
    add_new: bool = False
    include_unstable: bool = False


class Proposal(Struct, frozen=True):
    """The changes, the new text, and how many rows were left alone for want of an option."""

    changes: list[Change]
    text: str
    unpruned: int
    unadded: int

    @property
    def adopted(self) -> list[Change]:
        """The changes that the new text has."""
        return [change for change in self.changes if change.action != "hold"]


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
                found.new |= _further_counts(expected, found.by_row[number], wish)
        elif number not in found.touched and _could_be_pruned(expected.case, baseline.kind, found, wish):
            unpruned += not wish.prune
            changes += [_removal(expected, line)] if wish.prune else []
    margin = _customary_margin(baseline)
    for case, outcomes in found.new.items() if wish.add_new else ():
        change, outcome = _new_row(case, outcomes, rules, wish, margin)
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


def _further_counts(expected: Outcome, outcomes: Sequence[Outcome], wish: Wish) -> dict[Case, list[Outcome]]:
    """Of instruction counts each metric is a row: those of a known benchmark that have none yet."""
    known = {measurement.metric for measurement in expected.measurements}
    further = [
        structs.replace(outcome, measurements=tuple(m for m in outcome.measurements if m.metric not in known))
        for outcome in outcomes
    ]
    wanted = any(_wants_metric(m.metric, wish) for outcome in further for m in outcome.measurements)
    return {expected.case: further} if wanted else {}


def _wants_metric(metric: str, wish: Wish) -> bool:
    return not wish.metrics or any(matches_name(pattern, metric) for pattern in wish.metrics)


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
            elif not index.probes or index.probes & {"", outcome.case.probe}:
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
    return _statable(case, kind)


def _statable(case: Case, kind: str) -> Case:
    """As much of a case as a row of this kind of baseline says."""
    if kind in {"expected", "pr-time", "pr-time-expected"}:
        return Case(case.benchmark, case.probe)
    if kind == "expected-by-dtype":
        return Case(case.benchmark, case.probe, variant=Variant(dtype=case.variant.dtype))
    return case


def _compare(
    expected: Outcome, outcomes: Sequence[Outcome], rules: RuleBook, wish: Wish, line: int
) -> Iterator[Change]:
    """What accepting does to one expected row. If its status is held back, so is the rest."""
    case = expected.case
    if why := next((why for outcome in outcomes for _, why in contradictions(outcome.measurements)), ""):
        yield Change("hold", case, ACCURACY, None, None, f"contradicts itself: {why}", line)
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
    rule = _rule_for(old, outcomes[0].case, rules)
    values = _values(outcomes, old.metric)
    if rule.kind == "ignore":
        return
    if not values:
        failed = next((o.status for o in outcomes if o.status not in {PASSED, SKIPPED}), "")
        if failed and case.probe != Probe.ACCURACY:
            yield Change("hold", case, old.metric, old.value, None, f"no value: {failed}", line)
    elif rule.kind in {"count", "any"}:
        yield from _vote(case, old.metric, old.value, values, wish, line)
    else:
        yield from _settle(case, old, values, rule, line)


def _rule_for(measurement: Measurement, case: Case, rules: RuleBook) -> Rule:
    """The rule that says how large a change is worth adopting; any change is, where nothing says so."""
    found = rules.find(measurement.metric, case)
    return found or Rule("any" if measurement.margin is None else "margin")


def _values(outcomes: Sequence[Outcome], metric: str) -> list[Number]:
    """What was measured. The numbers of a case that failed before its end mean nothing."""
    good = [outcome for outcome in outcomes if has_numbers(outcome)]
    return [m.value for outcome in good for m in outcome.measurements if m.metric == metric]


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
    allowed = margin_of(rule, old.margin) if rule.kind == "margin" else abs(1 - (rule.ratio or 1))
    new = _as_written(middle, rule, allowed)
    moved = abs(middle - before) / abs(before) if before else 1.0
    if moved > allowed / 3 and new != before:
        note = f"median of {len(values)}" if len(values) > 1 else ""
        yield Change("change", case, old.metric, before, new, note, line)


def _as_written(value: Number, rule: Rule, margin: float) -> Number:
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


def _customary_margin(baseline: Reading) -> float | None:
    """The margin that most rows of a baseline have: a new row gets it too."""
    margins = Counter(
        m.margin for outcome in baseline.run.outcomes for m in outcome.measurements if m.margin is not None
    )
    return margins.most_common(1)[0][0] if margins else None


def _new_row(
    case: Case, outcomes: Sequence[Outcome], rules: RuleBook, wish: Wish, margin: float | None
) -> tuple[Change, Outcome | None]:
    """A new row, if the files agree on its status and its counts."""
    if why := next((why for outcome in outcomes for _, why in contradictions(outcome.measurements)), ""):
        return Change("hold", case, ACCURACY, None, None, f"new, but it contradicts itself: {why}"), None
    status, agreed, tally = _majority([outcome.status for outcome in outcomes], wish)
    if not agreed:
        return Change("hold", case, ACCURACY, None, status, f"new, but the files disagree: {tally}"), None
    agreeing = [outcome for outcome in outcomes if outcome.status == status]
    measurements = []
    for measurement in agreeing[-1].measurements:
        rule = _rule_for(measurement, agreeing[-1].case, rules)
        values = _values(agreeing, measurement.metric)
        if not values or not _wants_metric(measurement.metric, wish):
            continue
        value: Number = median(values)
        if rule.kind == "count":
            value, agreed, counts = _majority(values, wish)
            if not agreed:
                note = f"new, but the files disagree: {counts}"
                return Change("hold", case, measurement.metric, None, value, note), None
        kept = (
            measurement.samples
            if len(values) == 1 and rule.kind != "margin"
            else (_as_written(value, rule, margin_of(rule, margin)),)
        )
        measurements.append(Measurement(measurement.metric, kept, measurement.extra))
    outcome = Outcome(case, status, tuple(measurements), agreeing[-1].failure, extra=agreeing[-1].extra)
    note = f"majority of {tally}" if tally else ""
    if case.probe == Probe.ACCURACY:
        return Change("add", case, ACCURACY, None, status, note), outcome
    if not measurements:
        return Change("hold", case, ACCURACY, None, status, "new, but it has no numbers to expect"), None
    return Change("add", case, measurements[0].metric, None, measurements[0].value, note), outcome


def new_baseline(path: str, readings: Sequence[Reading]) -> Reading:
    """An empty baseline of the customary kind for these results, to be filled by ``propose``."""
    probes = {outcome.case.probe for reading in readings for outcome in reading.run.outcomes}
    if len(probes) > 1:
        advice = f"they have: {', '.join(sorted(probes))}; give files of one probe"
        raise UsageError(f"{path} does not exist, and the results have several probes", advice=advice)
    customary = {Probe.INSTRUCTIONS.value: "pr-time-expected", Probe.SCALING.value: "ddp"}
    return Reading(path, customary.get(min(probes), "expected"), Run(path, (), ()), ())
