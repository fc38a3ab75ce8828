"""Accepting results: what would change in a baseline, and the baseline's new text with everything else kept as it is.

Several files of results may be shards, repeats, or both. A status or a count is adopted by majority, and one that the files do not agree
on is held back unless asked for. A number is the median over the files, and adopted only if it moved by more than a third of what its rule allows: smaller
moves are noise, and would make every update touch every row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from msgspec import Struct, structs

from torchstone.baseline import Baseline, expects_status
from torchstone.baseline_edit import SIGNIFICANT_DIGITS, Change, edit_table
from torchstone.errors import UsageError
from torchstone.formats import FORMATS
from torchstone.gate.rules import RuleBook, margin_of
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

_TABLES = frozenset(
    {"expected", "expected-by-dtype", "performance", "accuracy", "pr-time", "pr-time-expected"}
)


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
    index = Baseline([baseline])
    by_row, new = _collect(index, baseline.kind, readings, wish)
    changes: list[Change] = []
    unpruned = 0
    for number, expected in enumerate(baseline.run.outcomes):
        line = baseline.lines[number]
        if number in by_row:
            changes += _compare(expected, by_row[number], rules, wish, line)
        elif _is_wanted(expected.case, wish):
            unpruned += not wish.prune
            changes += (
                [Change("remove", expected.case, ACCURACY, None, None, "no result", line)]
                if wish.prune
                else []
            )
    added = [_agreed(case, outcomes, wish) for case, outcomes in new.items()] if wish.add_new else []
    changes += [change for change, _ in added]
    rows = {change.case: outcome for change, outcome in added if outcome}
    return Proposal(
        changes, _apply(baseline, text, changes, rows, by_row), unpruned, 0 if wish.add_new else len(new)
    )


def _is_wanted(case: Case, wish: Wish) -> bool:
    return not wish.only or any(matches(pattern, case) for pattern in wish.only)


def _collect(
    index: Baseline, kind: str, readings: Sequence[Reading], wish: Wish
) -> tuple[dict[int, list[Outcome]], dict[Case, list[Outcome]]]:
    """The results of each expected row, and of each case that has none, by as much of it as such a baseline can state."""
    by_row: dict[int, list[Outcome]] = {}
    new: dict[Case, list[Outcome]] = {}
    for reading in readings:
        claimed: dict[int | Case, int] = {}
        for number, outcome in enumerate(reading.run.outcomes):
            if not _is_wanted(outcome.case, wish):
                continue
            match = index.find(outcome.case)
            row: int | Case = match.row.number if match else _statable(outcome.case, kind)
            if row in claimed:
                raise UsageError(
                    f"{reading.place(number)}: {outcome.case.name} has a result already in line {reading.lines[claimed[row]]}",
                    advice="accept one of them with --only, or use a baseline that tells them apart",
                )
            claimed[row] = number
            if isinstance(row, Case):
                if not index.probes or index.probes & {"", outcome.case.probe}:
                    new.setdefault(row, []).append(outcome)
            elif match and not match.differences:
                by_row.setdefault(row, []).append(outcome)
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
    statuses = [outcome.status for outcome in outcomes]
    if expects_status(expected) and _wants_metric(ACCURACY, wish):
        if case.probe in {"", Probe.ACCURACY}:
            yield from _vote(case, ACCURACY, expected.status, statuses, wish, line)
        elif set(statuses) != {expected.status}:
            note = "the row has no numbers yet: remove it and use --add-new"
            yield Change("hold", case, ACCURACY, expected.status, statuses[-1], note, line)
    for measurement in expected.measurements:
        metric = measurement.metric
        rule = rules.find(metric, outcomes[0].case) or Rule(
            "margin" if measurement.margin is not None else "any"
        )
        values = [value for outcome in outcomes if isinstance(value := outcome.value(metric), int | float)]
        if not _wants_metric(metric, wish) or rule.kind == "ignore":
            continue
        if not values:
            failed = next(
                (outcome.status for outcome in outcomes if outcome.status not in {PASSED, SKIPPED}), ""
            )
            if failed and case.probe != Probe.ACCURACY:
                yield Change("hold", case, metric, measurement.value, None, f"no value: {failed}", line)
        elif rule.kind in {"count", "any"}:
            yield from _vote(case, metric, measurement.value, values, wish, line)
        else:
            yield from _settle(case, measurement, values, rule, line)


def _wants_metric(metric: str, wish: Wish) -> bool:
    return not wish.metrics or any(matches_name(pattern, metric) for pattern in wish.metrics)


def _vote(
    case: Case, metric: str, old: str | Number, values: Sequence[str | Number], wish: Wish, line: int
) -> Iterator[Change]:
    """Adopt what most files say. Disagreement is never adopted silently."""
    (winner, votes), *_ = Counter(values).most_common(1)
    note = ""
    if votes < len(values):
        tally = ", ".join(f"{value} x{times}" for value, times in Counter(values).most_common())
        if not wish.include_unstable or 2 * votes <= len(values):
            yield Change("hold", case, metric, old, winner, f"the files disagree: {tally}", line)
            return
        note = f"majority of {tally}"
    if winner != old:
        yield Change("change", case, metric, old, winner, note, line)


def _settle(
    case: Case, old: Measurement, values: Sequence[Number], rule: Rule, line: int
) -> Iterator[Change]:
    """Adopt the median if it moved by more than a third of what the rule allows."""
    middle, before = median(values), old.value
    new = truncate_digits(middle, SIGNIFICANT_DIGITS) if rule.kind == "margin" else round(middle, 6)
    allowed = margin_of(rule, old.margin) if rule.kind == "margin" else abs(1 - (rule.ratio or 1))
    moved = abs(middle - before) / abs(before) if before else 1.0
    if moved > allowed / 3 and new != before:
        note = f"median of {len(values)}" if len(values) > 1 else ""
        yield Change("change", case, old.metric, before, new, note, line)


def _agreed(case: Case, outcomes: Sequence[Outcome], wish: Wish) -> tuple[Change, Outcome | None]:
    """A new row, if the files agree on its status."""
    statuses = Counter(outcome.status for outcome in outcomes)
    tally = ", ".join(f"{status} x{times}" for status, times in statuses.most_common())
    status, votes = statuses.most_common(1)[0]
    if len(statuses) > 1 and (not wish.include_unstable or 2 * votes <= len(outcomes)):
        return Change("hold", case, ACCURACY, None, status, f"new, but the files disagree: {tally}"), None
    outcome = structs.replace([o for o in outcomes if o.status == status][-1], case=case)
    note = f"majority of {tally}" if len(statuses) > 1 else ""
    if case.probe == Probe.ACCURACY or not outcome.measurements:
        return Change("add", case, ACCURACY, None, status, note), outcome
    first = outcome.measurements[0]
    return Change("add", case, first.metric, None, first.value, note), outcome


def _apply(
    baseline: Reading,
    text: str,
    changes: list[Change],
    new: dict[Case, Outcome],
    by_row: dict[int, list[Outcome]],
) -> str:
    if not any(change.action != "hold" for change in changes):
        return text
    if not text:
        return FORMATS[baseline.kind].write(_run_of(baseline.run, tuple(new.values())))
    if baseline.kind in _TABLES:
        return edit_table(baseline, text, changes, new)
    rewritten = _rewrite(baseline, changes, new, by_row)
    if baseline.kind == "v3" and text.lstrip().startswith("["):
        return "[\n" + ",\n".join(rewritten.splitlines()) + "\n]\n"
    return rewritten


def _run_of(run: Run, outcomes: tuple[Outcome, ...]) -> Run:
    return structs.replace(run, plan=tuple(outcome.case for outcome in outcomes), outcomes=outcomes)


def _rewrite(
    baseline: Reading, changes: list[Change], new: dict[Case, Outcome], by_row: dict[int, list[Outcome]]
) -> str:
    """A baseline that is no table is written anew, with the changed outcomes taken whole from the last file."""
    changed = {change.case for change in changes if change.action == "change"}
    removed = {change.case for change in changes if change.action == "remove"}
    kept = [
        structs.replace(by_row[number][-1], case=outcome.case) if outcome.case in changed else outcome
        for number, outcome in enumerate(baseline.run.outcomes)
        if outcome.case not in removed
    ]
    return FORMATS[baseline.kind].write(_run_of(baseline.run, (*kept, *new.values())))


def new_baseline(path: str, readings: Sequence[Reading]) -> Reading:
    """An empty baseline of the customary kind for these results, to be filled by ``propose``."""
    probes = {outcome.case.probe for reading in readings for outcome in reading.run.outcomes}
    if len(probes) > 1:
        raise UsageError(
            f"{path} does not exist, and the results have several probes",
            advice="accept one with --only '*::PROBE'",
        )
    kind = {Probe.INSTRUCTIONS.value: "pr-time-expected", Probe.SCALING.value: "ddp"}.get(
        min(probes), "expected"
    )
    return Reading(path, kind, Run(path, (), ()), ())
