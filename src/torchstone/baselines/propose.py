"""Propose what accepting results changes in a baseline, and produce its new text.

Result files may be shards, repeats, or both. A status or a count is adopted by majority; if files disagree it
is held back unless requested. Other numbers become the median over the files, if it moved by more than a
third of the rule's limit: adopting smaller changes would touch every row on every update. A row's margin can
be derived from the spread of repeats, or learned from past runs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, structs

from torchstone.baselines.margins import PastMeasurements
from torchstone.baselines.new_rows import new_row, wants_new_metric
from torchstone.baselines.proposed_changes import NO_EDIT, Change
from torchstone.baselines.row_changes import (
    AdoptionOptions,
    compare_row,
    hold_unsupported_status,
    median_of,
    wants_metric,
)
from torchstone.baselines.text_edits import apply_changes, case_in_row, describe_added, why_unsupported
from torchstone.core.details.measurement_details import NO_DETAILS
from torchstone.core.environments import differences
from torchstone.core.errors import UsageError
from torchstone.core.records import (
    Case,
    Measurement,
    Number,
    Outcome,
    Reading,
    Run,
    matches_metric,
    unit_of,
)
from torchstone.core.vocabulary import ACCURACY, METRICS, NOT_AVAILABLE, PASSED, Probe
from torchstone.formats.merge import is_selected, no_match
from torchstone.gate.baseline import Baseline, main_metric
from torchstone.gate.comparable import depends_on_environment
from torchstone.gate.rules import RuleBook
from torchstone.gate.sanity import find_inconsistencies

_FORMATS_WITH_VARIANTS = frozenset({"performance", "accuracy", "run", "v3", "ddp"})


class Proposal(Struct, frozen=True):
    """Changes and new text of a baseline, and how many rows an option that was not given would change."""

    changes: list[Change]
    text: str
    unpruned: int
    unadded: int
    unfit: dict[str, int]
    """Cases per probe that were not added, because the baseline is for other probes."""

    @property
    def adopted(self) -> list[Change]:
        """Return the changes that the new text contains."""
        return [change for change in self.changes if change.action not in NO_EDIT]


def propose(
    baseline: Reading, text: str, readings: Sequence[Reading], rules: RuleBook, options: AdoptionOptions
) -> Proposal:
    """Propose what accepting these results does to a baseline file with this text."""
    rules.learn_from((baseline, *readings))
    found = _collect(Baseline([baseline]), baseline.kind, readings, options)
    _require_matches(baseline, readings, options, found)
    options = _check_environments(baseline, readings, _fit_table(options, baseline, text), found)
    changes, unpruned = _compare_rows(baseline, found, rules, options)
    if options.moves_to is not None and any(change.action == "hold" for change in changes):
        options = structs.replace(options, moves_to=None)  # rows that stay belong to the old environment
        changes, unpruned = _compare_rows(baseline, found, rules, options)
    if options.moves_to is not None:
        baseline = _move(baseline, found, options.moves_to)
    rows: dict[Case, Outcome] = {}
    margin = _most_common_margin(baseline)
    for case, outcomes in found.new.items() if options.add_new else ():
        change, outcome = new_row(
            case, outcomes, rules, options, margin, why_unsupported(case, baseline.kind)
        )
        changes.append(change)
        rows |= {case: outcome} if outcome else {}
    if options.moves_to is not None and not changes:
        changes.append(_moved(baseline, options.environment_differences))
    new_text = apply_changes(baseline, text, changes, rows, all_numbers=bool(options.metrics))
    changes = describe_added(changes, baseline, new_text)
    changes = [_with_unit(change, (baseline, *readings)) for change in changes]
    return Proposal(changes, new_text, unpruned, 0 if options.add_new else len(found.new), dict(found.unfit))


def _fit_table(options: AdoptionOptions, baseline: Reading, text: str) -> AdoptionOptions:
    """Return the options for a table that people review: a new one, or one that ``accept`` started earlier."""
    starts = not text and baseline.kind in {"expected", "pr-time-expected"}
    is_ours = baseline.kind == "expected" and any(
        m.details is not None and m.details.spread_trials is not None
        for outcome in baseline.run.outcomes
        for m in outcome.measurements
    )
    return structs.replace(options, starts=starts, shortens=starts or is_ours)


def _with_unit(change: Change, readings: Sequence[Reading]) -> Change:
    """Return a change with its unit, which the files define if a benchmark reports the metric itself."""
    own = [] if change.metric in METRICS else [o for reading in readings for o in reading.run.outcomes]
    return structs.replace(change, unit=unit_of(change.metric, *own))


def _check_environments(
    baseline: Reading, readings: Sequence[Reading], options: AdoptionOptions, found: _Found
) -> AdoptionOptions:
    """Return the options for results of another environment.

    A baseline that states its environment moves to the new one with all rows, or keeps all its times.
    """
    if baseline.kind != "run" or not readings:
        return options
    then = baseline.run.environment
    found_differences = [each for reading in readings for each in differences(reading.run.environment, then)]
    if not found_differences:
        return options
    environment_differences = "; ".join(dict.fromkeys(found_differences))
    last = readings[-1].run
    is_one_place = all(
        reading.run.environment.is_stated and not differences(reading.run.environment, last.environment)
        for reading in readings
    )
    is_whole = not (options.only or options.metrics or options.margins or options.past) and all(
        _covers(expected, found.by_row[number])
        if number in found.by_row
        else options.prune and number not in found.touched
        for number, expected in enumerate(baseline.run.outcomes)
    )
    return structs.replace(
        options,
        environment_differences=environment_differences,
        moves_to=last if is_one_place and is_whole else None,
    )


def _covers(expected: Outcome, outcomes: Sequence[Outcome]) -> bool:
    """Return whether the results have every metric of a row."""
    return {each.metric for each in expected.measurements} <= {
        each.metric for each in _agreeing(outcomes)[-1].measurements
    }


def _agreeing(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the results with the most common status."""
    status = Counter(outcome.status for outcome in outcomes).most_common(1)[0][0]
    return [outcome for outcome in outcomes if outcome.status == status]


def _compare_rows(
    baseline: Reading, found: _Found, rules: RuleBook, options: AdoptionOptions
) -> tuple[list[Change], int]:
    """Return the changes to existing rows, and how many rows are left because --prune was not given."""
    changes: list[Change] = []
    unpruned = 0
    for number, expected in enumerate(baseline.run.outcomes):
        line = baseline.lines[number]
        if number in found.by_row:
            of_row = compare_row(expected, found.by_row[number], rules, options, line)
            changes += [hold_unsupported_status(change, baseline.kind) for change in of_row]
            if options.add_new and baseline.kind == "pr-time-expected":
                found.new |= _further_counts(expected, found.by_row[number], rules, options)
        elif number not in found.touched and _could_be_pruned(expected, baseline.kind, found, options):
            unpruned += not options.prune
            changes += [_removal(expected, line)] if options.prune else []
    return changes, unpruned


def _move(baseline: Reading, found: _Found, head: Run) -> Reading:
    """Move a baseline to another run's environment, with the numbers measured there; margins stay."""
    outcomes = list(baseline.run.outcomes)
    for number, measured in found.by_row.items():
        old, agreeing = outcomes[number], _agreeing(measured)
        margins = {each.metric: each.margin for each in old.measurements if each.margin is not None}
        numbers = []
        for each in agreeing[-1].measurements:
            details = each.details or NO_DETAILS
            if each.metric in margins:
                details = structs.replace(details, margin=margins[each.metric])
            values = [
                m.value for outcome in agreeing for m in outcome.measurements if m.metric == each.metric
            ]
            if len(values) > 1:
                details = structs.replace(details, trials=())
            samples = each.samples if len(values) == 1 else (_middle_value(each, values),)
            known = None if details == NO_DETAILS else details
            numbers.append(Measurement(each.metric, samples, known, each.extra))
        outcomes[number] = structs.replace(agreeing[-1], case=old.case, measurements=tuple(numbers))
    run = structs.replace(
        baseline.run,
        outcomes=tuple(outcomes),
        environment=head.environment,
        revision=head.revision,
        settings=head.settings,
    )
    return structs.replace(baseline, run=run)


def _middle_value(like: Measurement, values: Sequence[Number]) -> Number:
    """Return the value for several results: the majority's for counts, else the median."""
    if depends_on_environment(like.metric, like):
        return median_of(values)
    return Counter(values).most_common(1)[0][0]


def _moved(baseline: Reading, environment_differences: str) -> Change:
    """Return the change for a baseline whose numbers are the same in another environment."""
    first = baseline.run.outcomes[0]
    metric = main_metric(first)
    value = first.value(metric)
    return Change(
        "change", first.case, metric, value, value, f"all rows: {environment_differences}", baseline.lines[0]
    )


class _Found(Struct):
    """Results by expected row, results without a row, and rows whose case was at least planned."""

    by_row: dict[int, list[Outcome]]
    new: dict[Case, list[Outcome]]
    touched: set[int]
    dtypes: set[str]
    unfit: Counter[str]


def _removal(expected: Outcome, line: int) -> Change:
    old = expected.status or (expected.measurements[0].value if expected.measurements else None)
    return Change("remove", expected.case, main_metric(expected), old, None, "no result", line)


def find_repeatable(baseline: Reading, reading: Reading, options: AdoptionOptions) -> list[Case]:
    """Return the counted cases that would be accepted and can be measured again for their spread."""
    found = _collect(Baseline([baseline]), baseline.kind, [reading], options)
    _require_matches(baseline, [reading], options, found)
    groups = [*found.by_row.values(), *(found.new.values() if options.add_new else ())]
    wanted = {outcome.case for group in groups for outcome in group}
    return [
        outcome.case
        for outcome in reading.run.outcomes
        if outcome.case in wanted
        and outcome.case.probe == Probe.INSTRUCTIONS
        and outcome.status == PASSED
        and not any(find_inconsistencies(outcome.measurements))
    ]


def collect_past(
    baseline: Reading, past: Sequence[Reading], options: AdoptionOptions, false_alarms: float
) -> PastMeasurements:
    """Collect past measurements, oldest first, for every case that has a row or could get one."""
    found = _collect(Baseline([baseline]), baseline.kind, past, options)
    of_rows = {baseline.run.outcomes[number].case: outcomes for number, outcomes in found.by_row.items()}
    return PastMeasurements(
        {case: tuple(outcomes) for case, outcomes in (found.new | of_rows).items()}, false_alarms
    )


def _further_counts(
    expected: Outcome, outcomes: Sequence[Outcome], rules: RuleBook, options: AdoptionOptions
) -> dict[Case, list[Outcome]]:
    """Return counts of an expected benchmark that have no row yet; each metric has its own row."""
    known = {measurement.metric for measurement in expected.measurements}
    further = [
        structs.replace(outcome, measurements=tuple(m for m in outcome.measurements if m.metric not in known))
        for outcome in outcomes
    ]
    wanted = any(
        wants_new_metric(m.metric, outcome.case, rules, options)
        for outcome in further
        for m in outcome.measurements
    )
    return {expected.case: further} if wanted else {}


def _could_be_pruned(expected: Outcome, kind: str, found: _Found, options: AdoptionOptions) -> bool:
    """Return whether a row without a result could have had one.

    In a table by dtype, only measured dtypes count. If metrics were selected, a row with other metrics stays.
    """
    case = expected.case
    metrics = [measurement.metric for measurement in expected.measurements] or [ACCURACY]
    if not all(wants_metric(metric, options) for metric in metrics):
        return False
    return is_selected(case, options.only) and (
        kind != "expected-by-dtype" or case.variant.dtype in found.dtypes
    )


def _require_matches(
    baseline: Reading, readings: Sequence[Reading], options: AdoptionOptions, found: _Found
) -> None:
    """Raise UsageError if a pattern matches nothing, because it is probably a typing error."""
    cases = [case for reading in (baseline, *readings) for case in reading.run.plan]
    if not found.by_row and not found.new and not any(is_selected(case, options.only) for case in cases):
        raise no_match(options.only, (baseline, *readings))
    outcomes = [outcome for reading in (baseline, *readings) for outcome in reading.run.outcomes]
    metrics = {m.metric for outcome in outcomes for m in outcome.measurements} | {ACCURACY}
    for pattern in options.metrics:
        if not any(matches_metric(pattern, metric) for metric in metrics):
            advice = f"there are: {', '.join(sorted(metrics))}"
            raise UsageError(f"--metric {pattern}: neither results nor baseline have it", advice=advice)


def _collect(index: Baseline, kind: str, readings: Sequence[Reading], options: AdoptionOptions) -> _Found:
    """Group results by the row they belong to. A planned but unmeasured case protects its row from pruning."""
    dtypes = {case.variant.dtype for reading in readings for case in reading.run.plan}
    found = _Found({}, {}, set(), dtypes, Counter())
    for reading in readings:
        claimed: dict[int | Case, int] = {}
        for number, outcome in enumerate(reading.run.outcomes):
            row = _row_for(outcome.case, index, kind, options)
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
                found.unfit.update([outcome.case.probe] if options.add_new else [])
            elif outcome.status != NOT_AVAILABLE:
                found.new.setdefault(row, []).append(outcome)
        for case in reading.run.plan:
            if match := index.find(case):
                found.touched.add(match.row.number)
    return found


def _row_for(case: Case, index: Baseline, kind: str, options: AdoptionOptions) -> int | Case | None:
    """Return the index of a case's row, or the case of the row it could get; None if it is not selected."""
    match = index.find(case)
    if not is_selected(case, options.only) and not (
        match and is_selected(match.row.outcome.case, options.only)
    ):
        return None
    if match and not match.differences:
        return match.row.number
    if match and kind not in _FORMATS_WITH_VARIANTS:
        return None
    return case_in_row(case, kind)


def _most_common_margin(baseline: Reading) -> float | None:
    """Return the most common margin of a baseline, for new rows."""
    margins = Counter(
        m.margin for outcome in baseline.run.outcomes for m in outcome.measurements if m.margin is not None
    )
    return margins.most_common(1)[0][0] if margins else None


def new_baseline(path: str, readings: Sequence[Reading], only: Sequence[str] = ()) -> Reading:
    """Return an empty baseline of the usual format for these results, for ``propose`` to fill."""
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
