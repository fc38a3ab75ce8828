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

from msgspec import Struct

from torchstone.baseline import Baseline, expects_status, main_metric
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
    matches,
    matches_name,
)
from torchstone.units import truncate_digits
from torchstone.vocabulary import ACCURACY, PASSED, SKIPPED, Probe

SIGNIFICANT_DIGITS = 4
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
    by_row, new = _collect(Baseline([baseline]), baseline.kind, readings, wish)
    _require_matches(baseline, readings, wish, found=bool(by_row or new))
    dtypes = {outcome.case.variant.dtype for reading in readings for outcome in reading.run.outcomes}
    changes: list[Change] = []
    unpruned = 0
    for number, expected in enumerate(baseline.run.outcomes):
        line = baseline.lines[number]
        if number in by_row:
            changes += _compare(expected, by_row[number], rules, wish, line)
        elif _could_be_pruned(expected.case, baseline.kind, dtypes, wish):
            unpruned += not wish.prune
            old = expected.status or (expected.measurements[0].value if expected.measurements else None)
            removal = Change("remove", expected.case, main_metric(expected), old, None, "no result", line)
            changes += [removal] if wish.prune else []
    added = [_new_row(case, outcomes, rules, wish) for case, outcomes in new.items()] if wish.add_new else []
    changes += [change for change, _ in added]
    rows = {change.case: outcome for change, outcome in added if outcome}
    new_text = apply_changes(baseline, text, changes, rows)
    return Proposal(changes, new_text, unpruned, 0 if wish.add_new else len(new))


def _is_wanted(case: Case, wish: Wish) -> bool:
    return not wish.only or any(matches(pattern, case) for pattern in wish.only)


def _wants_metric(metric: str, wish: Wish) -> bool:
    return not wish.metrics or any(matches_name(pattern, metric) for pattern in wish.metrics)


def _could_be_pruned(case: Case, kind: str, dtypes: set[str], wish: Wish) -> bool:
    """Whether a row without a result is one that could have had one: of a table by dtype, only dtypes that were measured."""
    return _is_wanted(case, wish) and (kind != "expected-by-dtype" or case.variant.dtype in dtypes)


def _require_matches(baseline: Reading, readings: Sequence[Reading], wish: Wish, *, found: bool) -> None:
    """Refuse patterns that mean nothing here: they are typing mistakes."""
    cases = [case for reading in (baseline, *readings) for case in reading.run.plan]
    if wish.only and not found and not any(_is_wanted(case, wish) for case in cases):
        raise UsageError(f"--only {' '.join(wish.only)}: no case matches")
    outcomes = [outcome for reading in (baseline, *readings) for outcome in reading.run.outcomes]
    metrics = {m.metric for outcome in outcomes for m in outcome.measurements} | {ACCURACY}
    for pattern in wish.metrics:
        if not any(matches_name(pattern, metric) for metric in metrics):
            advice = f"there are: {', '.join(sorted(metrics))}"
            raise UsageError(f"--metric {pattern}: neither results nor baseline have it", advice=advice)


def _collect(
    index: Baseline, kind: str, readings: Sequence[Reading], wish: Wish
) -> tuple[dict[int, list[Outcome]], dict[Case, list[Outcome]]]:
    """The results of each expected row, and of each case that has none, by as much of it as such a baseline can state."""
    by_row: dict[int, list[Outcome]] = {}
    new: dict[Case, list[Outcome]] = {}
    for reading in readings:
        claimed: dict[int | Case, int] = {}
        for number, outcome in enumerate(reading.run.outcomes):
            match = index.find(outcome.case) if _is_wanted(outcome.case, wish) else None
            if not _is_wanted(outcome.case, wish) or (match and match.differences):
                continue
            row: int | Case = match.row.number if match else _statable(outcome.case, kind)
            if row in claimed:
                raise UsageError(
                    f"{reading.place(number)}: {outcome.case.name} has a result already in line {reading.lines[claimed[row]]}",
                    advice="accept one of them with --only, or use a baseline that tells them apart",
                )
            claimed[row] = number
            if isinstance(row, int):
                by_row.setdefault(row, []).append(outcome)
            elif not index.probes or index.probes & {"", outcome.case.probe}:
                new.setdefault(row, []).append(outcome)
    return by_row, new


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
    """What accepting does to one expected row."""
    case = expected.case
    for outcome in outcomes:
        for metric, why in contradictions(outcome.measurements):
            yield Change("hold", case, metric, None, None, f"contradicts itself: {why}", line)
            return
    statuses = [outcome.status for outcome in outcomes]
    if expects_status(expected) and _wants_metric(ACCURACY, wish):
        if case.probe in {"", Probe.ACCURACY}:
            yield from _vote(case, ACCURACY, expected.status, statuses, wish, line)
        elif set(statuses) != {expected.status}:
            note = "the row has no numbers yet: remove it and use --add-new"
            yield Change("hold", case, ACCURACY, expected.status, statuses[-1], note, line)
    for measurement in expected.measurements:
        if _wants_metric(measurement.metric, wish):
            yield from _compare_metric(case, measurement, outcomes, rules, wish, line)


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
    return [m.value for outcome in outcomes for m in outcome.measurements if m.metric == metric]


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
    new = _as_written(middle, rule)
    allowed = margin_of(rule, old.margin) if rule.kind == "margin" else abs(1 - (rule.ratio or 1))
    moved = abs(middle - before) / abs(before) if before else 1.0
    if moved > allowed / 3 and new != before:
        note = f"median of {len(values)}" if len(values) > 1 else ""
        yield Change("change", case, old.metric, before, new, note, line)


def _as_written(value: Number, rule: Rule) -> Number:
    """A number with as many digits as a baseline keeps of it."""
    if rule.kind == "margin":
        return truncate_digits(value, SIGNIFICANT_DIGITS)
    return value if isinstance(value, int) else round(value, 6)


def _new_row(
    case: Case, outcomes: Sequence[Outcome], rules: RuleBook, wish: Wish
) -> tuple[Change, Outcome | None]:
    """A new row, if the files agree on its status and its counts."""
    status, agreed, tally = _majority([outcome.status for outcome in outcomes], wish)
    if not agreed:
        return Change("hold", case, ACCURACY, None, status, f"new, but the files disagree: {tally}"), None
    agreeing = [outcome for outcome in outcomes if outcome.status == status]
    measurements = []
    for measurement in agreeing[-1].measurements:
        rule = _rule_for(measurement, agreeing[-1].case, rules)
        if not _wants_metric(measurement.metric, wish):
            continue
        values = _values(agreeing, measurement.metric)
        value: Number = median(values)
        if rule.kind == "count":
            value, agreed, counts = _majority(values, wish)
            if not agreed:
                note = f"new, but the files disagree: {counts}"
                return Change("hold", case, measurement.metric, None, value, note), None
        kept = (
            measurement.samples if len(values) == 1 and rule.kind != "margin" else (_as_written(value, rule),)
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
