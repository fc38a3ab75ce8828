"""Find the command that accepts a row, or what to do if ``accept`` would refuse it.

The code that carries out ``accept`` decides, so that a suggested command always works.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from torchstone.analyze.evidence import MOST_MORE
from torchstone.core.environments import differences
from torchstone.core.records import Reading
from torchstone.core.text.units import clock_text
from torchstone.core.vocabulary import ACCURACY, NOT_AVAILABLE, Verdict
from torchstone.gate.baseline import HISTORY, expects_status
from torchstone.gate.disturbance import is_all_disturbed
from torchstone.gate.judgement import Row
from torchstone.gate.rules import NEEDS_NO_BASELINE, RuleBook, numbers_count
from torchstone.gate.trial_statuses import find_disagreement
from torchstone.gate.weigh import has_no_interval

_ACCEPTED = frozenset({Verdict.NEW, Verdict.MISSING, Verdict.REGRESSION, Verdict.IMPROVEMENT})


class Acceptance(Struct, frozen=True):
    """Everything that accepting a row depends on, besides the row.

    ``kinds`` is the format of each baseline file. ``environment_differences`` says, by the paths of results and
    baseline, how their environments differ. ``metrics`` are the patterns that limit which metrics are judged.
    """

    rules: RuleBook
    kinds: dict[str, str]
    environment_differences: dict[tuple[str, str], str] = {}
    metrics: tuple[str, ...] = ()


def acceptance_for(
    readings: Sequence[Reading], expected: Sequence[Reading], rules: RuleBook, metrics: tuple[str, ...] = ()
) -> Acceptance:
    """Return the conditions for accepting these results into these baselines.

    Only a run file states its environment.
    """
    environment_differences = {
        (reading.path, baseline.path): "; ".join(
            differences(reading.run.environment, baseline.run.environment)
        )
        for baseline in expected
        if baseline.kind == "run"
        for reading in readings
    }
    return Acceptance(
        rules, {baseline.path: baseline.kind for baseline in expected}, environment_differences, metrics
    )


class AcceptAdvice(Struct, frozen=True):
    """The options of ``accept`` that adopt just this row; None if it would adopt nothing, and what to do instead."""

    options: tuple[str, ...] | None
    instead: str = ""


def find_advice(row: Row, acceptance: Acceptance, baseline: str, results: str) -> AcceptAdvice:
    """Return how to accept a row of the file ``results`` into the file ``baseline``, or what to do instead."""
    if row.rule and row.rule.kind in NEEDS_NO_BASELINE:
        if row.verdict is Verdict.INCONCLUSIVE:
            return AcceptAdvice(None, _advise_on_undecided(row))
        return AcceptAdvice(None, "fix the case, or change the rule: its limit does not come from a baseline")
    if acceptance.kinds.get(baseline) == HISTORY and row.verdict in _ACCEPTED:
        return AcceptAdvice(
            None, "once it is on that branch, record its runs: their level becomes the baseline"
        )
    match row.verdict:
        case Verdict.NEW:
            return _advise_on_new(row, acceptance, baseline, results)
        case Verdict.MISSING:
            return _advise_on_missing(row)
        case Verdict.REGRESSION | Verdict.IMPROVEMENT:
            return _advise_on_change(row, acceptance, baseline, results)
        case Verdict.INVALID:
            return AcceptAdvice(None, "measure it again: a result that contradicts itself is never accepted")
        case Verdict.INCONCLUSIVE if row.rule is None:
            return AcceptAdvice(None, f"give {row.metric} a rule with --rule or in torchstone.toml")
        case Verdict.INCONCLUSIVE:
            return AcceptAdvice(None, _advise_on_undecided(row))
        case _:
            return AcceptAdvice(None)


def _advise_on_undecided(row: Row) -> str:
    """Return what would settle a row: more trials of it, about how long they take, or another baseline."""
    if row.decided_by:
        return f"nothing: {row.decided_by} decides, because the host decides this wall time"
    if row.ruling.levels is None:
        if advice := advise_on_unjudged(row, "the baseline"):
            return advice
        if _has_no_interval(row) or (row.new and row.new.why_left_out(row.metric)):
            return "measure it again"
        return "measure it as the baseline was measured, or judge it by a baseline of its own"
    found, more = row.comparison, row.more_new
    if found is None or more is None:
        return "measure it with more trials: --trials 5, or run with --decide"
    if more > MOST_MORE:
        of_both = row.more
        how = f"--trials {trials_needed(row, of_both)}" if of_both and of_both <= MOST_MORE else "more trials"
        return f"measure the baseline with {how}, too: its own noise leaves this open"
    duration = row.new.details.duration if row.new and row.new.details else None
    trials = trials_needed(row, more)
    seconds = f", about {clock_text(duration / len(found.new.values) * trials)}" if duration else ""
    return f"measure it with --trials {trials}{seconds}, or run with --decide"


def _has_no_interval(row: Row) -> bool:
    """Return whether a side states an interval that is none."""
    found = row.comparison
    return found is not None and (has_no_interval(found.new) or has_no_interval(found.base))


def advise_on_unjudged(row: Row, base: str) -> str:
    """Return what to do about a row that was disturbed, or whose trials disagree; empty for any other. ``base`` names the other side."""
    if row.verdict is not Verdict.INCONCLUSIVE or row.ruling.levels is not None or row.decided_by:
        return ""
    if row.new and find_disagreement(row.base, row.new):
        return "find out why its trials differ, and measure it again: torchstone show RUNFILE CASE has their logs"
    disturbed = [
        name for name, outcome in (("it", row.new), (base, row.base)) if is_all_disturbed(outcome, row.metric)
    ]
    if not disturbed or not row.is_comparable:
        return ""
    return f"measure {' and '.join(disturbed)} again on a quiet machine: a disturbed time decides nothing"


def trials_needed(row: Row, more: int) -> int:
    """Return how many trials the new side has in all after so many more."""
    return (len(row.comparison.new.values) if row.comparison else 1) + more


def _advise_on_missing(row: Row) -> AcceptAdvice:
    where = row.remarks.base_place
    if row.new is None:
        if row.base is not None and not row.remarks.new_place:
            return AcceptAdvice(("--prune",))
        return AcceptAdvice(None, "measure it: the run planned it, but ended without an outcome for it")
    if row.new.status == NOT_AVAILABLE:
        advice = "measure it where it is available, or quarantine it with allow_missing"
        return AcceptAdvice(None, advice)
    return AcceptAdvice(None, f"measure it again, or remove {row.metric} from {where} by hand")


def _advise_on_new(row: Row, acceptance: Acceptance, baseline: str, results: str) -> AcceptAdvice:
    """Suggest adding a row, if the baseline can hold it."""
    if row.remarks.base_place:
        if acceptance.kinds.get(baseline) == "pr-time-expected":  # each metric has a row of its own
            return AcceptAdvice(("--add-new",))
        return AcceptAdvice(None, f"remove the row at {row.remarks.base_place} by hand, and accept it as new")
    if row.new is None or not (row.new.measurements or row.metric == ACCURACY):
        return AcceptAdvice(None, "fix it, or measure it again: it has no numbers to expect")
    if baseline not in acceptance.kinds:
        return AcceptAdvice(None, "use a baseline that covers these cases")
    from torchstone.baselines import new_rows, row_changes, text_edits  # noqa: PLC0415  (start-up: 14 ms, for red rows only)

    kind = acceptance.kinds[baseline]
    case = text_edits.case_in_row(row.new.case, kind)
    options = row_changes.AdoptionOptions(
        add_new=True, environment_differences=acceptance.environment_differences.get((results, baseline), "")
    )
    obstacle = text_edits.why_unsupported(case, kind)
    change, added = new_rows.new_row(case, [row.new], acceptance.rules, options, None, obstacle)
    return (
        AcceptAdvice(("--add-new",)) if added is not None else AcceptAdvice(None, _why_refused(change.note))
    )


def _advise_on_change(row: Row, acceptance: Acceptance, baseline: str, results: str) -> AcceptAdvice:
    """Suggest adopting the number or status of a row, together with whatever must change with it."""
    if row.new is None or row.base is None:
        return AcceptAdvice(None, "fix the case: its baseline has no row that could change")
    from torchstone.baselines.row_changes import AdoptionOptions, compare_row, hold_unsupported_status  # noqa: PLC0415  (start-up: 14 ms, for red rows only)

    refused = ""
    for metrics in _choices(row, acceptance):
        options = AdoptionOptions(
            metrics=metrics,
            environment_differences=acceptance.environment_differences.get((results, baseline), ""),
        )
        changes = [
            hold_unsupported_status(change, acceptance.kinds.get(baseline, ""))
            for change in compare_row(row.base, [row.new], acceptance.rules, options, 0)
        ]
        held = [change.note for change in changes if change.action == "hold"]
        done = {change.metric for change in changes if change.action == "change"}
        if not held and done & {row.metric, ACCURACY}:
            return AcceptAdvice(tuple(word for metric in metrics for word in ("--metric", metric)))
        refused = held[0] if held else refused
    if refused:
        return AcceptAdvice(None, _why_refused(refused))
    return AcceptAdvice(None, "fix the case, or quarantine it: a failure leaves no number to accept")


def _choices(row: Row, acceptance: Acceptance) -> Iterator[tuple[str, ...]]:
    """Yield the metrics to accept, fewest first. A number of another status is accepted with that status."""
    assert row.new is not None  # noqa: S101  (the caller has checked)
    assert row.base is not None  # noqa: S101  (for the type checker)
    if numbers_count(row.new, row.base.status):
        yield (row.metric,)
    elif row.metric == ACCURACY:
        yield acceptance.metrics
    elif expects_status(row.base):
        yield (ACCURACY, row.metric)
    else:
        yield (row.metric,)


def _why_refused(why: str) -> str:
    return f"fix the case, or quarantine it; 'accept' would not adopt it: {why}"
