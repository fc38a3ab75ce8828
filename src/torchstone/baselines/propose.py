"""Accepting results: what would change in a baseline, and the baseline's new text with everything else kept as it is.

Several files of results may be shards, repeats, or both. A status or a count is adopted by majority, and one that the files do not agree
on is held back unless asked for. A number is the median over the files, and adopted only if it moved by more than a third of what its rule allows: smaller
moves are noise, and would make every update touch every row. Where counts were measured again for that, their spread also gives each row its margin; where there
are past runs to learn from, they do.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, structs

from torchstone.baselines.adopt import Wish, compare_row, in_place, middle_of, wants_metric
from torchstone.baselines.margins import Lessons
from torchstone.baselines.new_rows import new_row, wants_new_metric
from torchstone.baselines.text_edits import (
    NOTHING_DONE,
    Change,
    apply_changes,
    find_no_place,
    name_added,
    state,
)
from torchstone.core.errors import UsageError
from torchstone.core.fingerprint import differences
from torchstone.core.records import TRIALS, Case, Measurement, Number, Outcome, Reading, Run, matches_metric
from torchstone.core.vocabulary import ACCURACY, NOT_AVAILABLE, PASSED, Probe
from torchstone.formats.merge import is_selected, no_match
from torchstone.gate.baseline import Baseline, main_metric
from torchstone.gate.comparable import depends_on_environment
from torchstone.gate.rules import RuleBook
from torchstone.gate.sanity import contradictions

_STATING_VARIANTS = frozenset({"performance", "accuracy", "run", "v3", "ddp"})


class Proposal(Struct, frozen=True):
    """The changes, the new text, and how many rows were left alone for want of an option."""

    changes: list[Change]
    text: str
    unpruned: int
    unadded: int
    unfit: dict[str, int]
    """How many cases of which probes were not added, because the rows of the baseline are of others."""

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
    wish = _look_at_environments(baseline, readings, wish, found)
    changes, unpruned = _compare_rows(baseline, found, rules, wish)
    if wish.head is not None and any(change.action == "hold" for change in changes):
        wish = structs.replace(wish, head=None)  # a row that stays is of the old environment
        changes, unpruned = _compare_rows(baseline, found, rules, wish)
    if wish.head is not None:
        baseline = _move(baseline, found, wish.head)
    rows: dict[Case, Outcome] = {}
    margin = _customary_margin(baseline)
    for case, outcomes in found.new.items() if wish.add_new else ():
        change, outcome = new_row(case, outcomes, rules, wish, margin, find_no_place(case, baseline.kind))
        changes.append(change)
        rows |= {case: outcome} if outcome else {}
    if wish.head is not None and not changes:
        changes.append(_moved(baseline, wish.elsewhere))
    new_text = apply_changes(baseline, text, changes, rows, all_numbers=bool(wish.metrics))
    changes = name_added(changes, baseline.kind, baseline.path, new_text)
    return Proposal(changes, new_text, unpruned, 0 if wish.add_new else len(found.new), dict(found.unfit))


def _look_at_environments(baseline: Reading, readings: Sequence[Reading], wish: Wish, found: _Found) -> Wish:
    """The wish, with what follows from another environment: a baseline that says where it was measured becomes one of the new place as a whole, or its times stay."""
    if baseline.kind != "run" or not readings:
        return wish
    then = baseline.run.environment
    told = [each for reading in readings for each in differences(reading.run.environment, then)]
    if not told:
        return wish
    elsewhere = "; ".join(dict.fromkeys(told))
    last = readings[-1].run
    is_one_place = all(
        reading.run.environment.is_stated and not differences(reading.run.environment, last.environment)
        for reading in readings
    )
    is_whole = not (wish.only or wish.metrics or wish.margins or wish.lessons) and all(
        _has_all(expected, found.by_row[number])
        if number in found.by_row
        else wish.prune and number not in found.touched
        for number, expected in enumerate(baseline.run.outcomes)
    )
    return structs.replace(wish, elsewhere=elsewhere, head=last if is_one_place and is_whole else None)


def _has_all(expected: Outcome, outcomes: Sequence[Outcome]) -> bool:
    """Whether results have everything that a row has."""
    return {each.metric for each in expected.measurements} <= {
        each.metric for each in _agreeing(outcomes)[-1].measurements
    }


def _agreeing(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The results that ended as most of them did."""
    status = Counter(outcome.status for outcome in outcomes).most_common(1)[0][0]
    return [outcome for outcome in outcomes if outcome.status == status]


def _compare_rows(baseline: Reading, found: _Found, rules: RuleBook, wish: Wish) -> tuple[list[Change], int]:
    """What accepting does to the rows that are there, and how many it leaves for want of --prune."""
    changes: list[Change] = []
    unpruned = 0
    for number, expected in enumerate(baseline.run.outcomes):
        line = baseline.lines[number]
        if number in found.by_row:
            of_row = compare_row(expected, found.by_row[number], rules, wish, line)
            changes += [in_place(change, baseline.kind) for change in of_row]
            if wish.add_new and baseline.kind == "pr-time-expected":
                found.new |= _further_counts(expected, found.by_row[number], rules, wish)
        elif number not in found.touched and _could_be_pruned(expected, baseline.kind, found, wish):
            unpruned += not wish.prune
            changes += [_removal(expected, line)] if wish.prune else []
    return changes, unpruned


def _move(baseline: Reading, found: _Found, head: Run) -> Reading:
    """A baseline with the head of another run, and what was measured there in all of its rows; margins stay."""
    outcomes = list(baseline.run.outcomes)
    for number, measured in found.by_row.items():
        old, agreeing = outcomes[number], _agreeing(measured)
        margins = {each.metric: each.margin for each in old.measurements if each.margin is not None}
        numbers = []
        for each in agreeing[-1].measurements:
            extra = dict(each.extra or {}) | (
                {"margin": margins[each.metric]} if each.metric in margins else {}
            )
            values = [
                m.value for outcome in agreeing for m in outcome.measurements if m.metric == each.metric
            ]
            if len(values) > 1:
                extra.pop(TRIALS, None)
            samples = each.samples if len(values) == 1 else (_middle_value(each.metric, values),)
            numbers.append(Measurement(each.metric, samples, extra or None))
        outcomes[number] = structs.replace(agreeing[-1], case=old.case, measurements=tuple(numbers))
    run = structs.replace(
        baseline.run,
        outcomes=tuple(outcomes),
        environment=head.environment,
        revision=head.revision,
        settings=head.settings,
    )
    return structs.replace(baseline, run=run)


def _middle_value(metric: str, values: Sequence[Number]) -> Number:
    """What stands for the numbers of several results: of counts what most of them have, else the median."""
    return middle_of(values) if depends_on_environment(metric) else Counter(values).most_common(1)[0][0]


def _moved(baseline: Reading, elsewhere: str) -> Change:
    """The change of a baseline whose numbers are the same in another environment."""
    first = baseline.run.outcomes[0]
    metric = main_metric(first)
    value = first.value(metric)
    return Change("change", first.case, metric, value, value, f"all rows: {elsewhere}", baseline.lines[0])


class _Found(Struct):
    """What the results say: of each expected row, of cases without one, and which rows were met though not comparable."""

    by_row: dict[int, list[Outcome]]
    new: dict[Case, list[Outcome]]
    touched: set[int]
    dtypes: set[str]
    unfit: Counter[str]


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
        wants_new_metric(m.metric, outcome.case, rules, wish)
        for outcome in further
        for m in outcome.measurements
    )
    return {expected.case: further} if wanted else {}


def _could_be_pruned(expected: Outcome, kind: str, found: _Found, wish: Wish) -> bool:
    """Whether a row without a result is one that could have had one: of a table by dtype, only dtypes that were measured. With some metrics only, a row that has others stays."""
    case = expected.case
    metrics = [measurement.metric for measurement in expected.measurements] or [ACCURACY]
    if not all(wants_metric(metric, wish) for metric in metrics):
        return False
    return is_selected(case, wish.only) and (
        kind != "expected-by-dtype" or case.variant.dtype in found.dtypes
    )


def _require_matches(baseline: Reading, readings: Sequence[Reading], wish: Wish, found: _Found) -> None:
    """Refuse patterns that mean nothing here: they are typing mistakes."""
    cases = [case for reading in (baseline, *readings) for case in reading.run.plan]
    if not found.by_row and not found.new and not any(is_selected(case, wish.only) for case in cases):
        raise no_match(wish.only, (baseline, *readings))
    outcomes = [outcome for reading in (baseline, *readings) for outcome in reading.run.outcomes]
    metrics = {m.metric for outcome in outcomes for m in outcome.measurements} | {ACCURACY}
    for pattern in wish.metrics:
        if not any(matches_metric(pattern, metric) for metric in metrics):
            advice = f"there are: {', '.join(sorted(metrics))}"
            raise UsageError(f"--metric {pattern}: neither results nor baseline have it", advice=advice)


def _collect(index: Baseline, kind: str, readings: Sequence[Reading], wish: Wish) -> _Found:
    """Sort the results by the row they are for. A case that was planned and not measured only keeps its row from being pruned."""
    dtypes = {case.variant.dtype for reading in readings for case in reading.run.plan}
    found = _Found({}, {}, set(), dtypes, Counter())
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
            elif index.probes and not index.probes & {"", outcome.case.probe}:
                found.unfit[outcome.case.probe] += wish.add_new
            elif outcome.status != NOT_AVAILABLE:
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


def _customary_margin(baseline: Reading) -> float | None:
    """The margin that most rows of a baseline have: a new row gets it too."""
    margins = Counter(
        m.margin for outcome in baseline.run.outcomes for m in outcome.measurements if m.margin is not None
    )
    return margins.most_common(1)[0][0] if margins else None


def new_baseline(path: str, readings: Sequence[Reading], only: Sequence[str] = ()) -> Reading:
    """An empty baseline of the customary kind for these results, to be filled by ``propose``."""
    cases = [outcome.case for reading in readings for outcome in reading.run.outcomes]
    probes = {case.probe for case in cases if is_selected(case, only)}
    if cases and not probes:
        raise no_match(only, readings)
    if not probes:
        advice = "measure something first: torchstone run"
        raise UsageError(
            f"{path} does not exist, and the results have no outcome to start it with", advice=advice
        )
    if path.endswith(".jsonl"):
        return Reading(path, "run", Run(path, (), ()), ())
    if len(probes) > 1:
        whole = os.path.splitext(path)[0] + ".jsonl"
        advice = f"they have: {', '.join(sorted(probes))}; choose one with --only '*::{min(probes)}', or name a run file, which holds all: {whole}"
        raise UsageError(f"{path} does not exist, and the results have several probes", advice=advice)
    customary = {Probe.INSTRUCTIONS.value: "pr-time-expected", Probe.SCALING.value: "ddp"}
    return Reading(path, customary.get(min(probes), "expected"), Run(path, (), ()), ())
