"""What a row offers: the command that accepts it, or what to do where accepting would be refused.

The command is asked of the very code that carries it out (``adoption``, ``additions``), so that it is never offered in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from torchstone.core.fingerprint import differences
from torchstone.core.records import Reading
from torchstone.core.vocabulary import ACCURACY, NOT_AVAILABLE, Verdict
from torchstone.gate.baseline import expects_status
from torchstone.gate.rules import NEEDS_NO_BASELINE, RuleBook, numbers_count
from torchstone.gate.verdicts import Row


class Terms(Struct, frozen=True):
    """What accepting depends on besides the row itself.

    ``kinds`` has the kind of each baseline file, ``elsewhere`` how the environment of a file of results differs from that of a baseline, by both paths;
    ``metrics`` are the patterns that limit what is judged.
    """

    rules: RuleBook
    kinds: dict[str, str]
    elsewhere: dict[tuple[str, str], str] = {}
    metrics: tuple[str, ...] = ()


def find_terms(
    readings: Sequence[Reading], expected: Sequence[Reading], rules: RuleBook, metrics: tuple[str, ...] = ()
) -> Terms:
    """The terms on which these results could become part of these baselines. Only a run file says where it was measured."""
    elsewhere = {
        (reading.path, baseline.path): "; ".join(
            differences(reading.run.environment, baseline.run.environment)
        )
        for baseline in expected
        if baseline.kind == "run"
        for reading in readings
    }
    return Terms(rules, {baseline.path: baseline.kind for baseline in expected}, elsewhere, metrics)


class Offer(Struct, frozen=True):
    """The options of ``accept`` that adopt just this row; None, and what to do instead, where nothing would be adopted."""

    options: tuple[str, ...] | None
    instead: str = ""


def find_offer(row: Row, terms: Terms, baseline: str, results: str) -> Offer:
    """What can be done about a row; ``baseline`` and ``results`` are the files that it would be accepted from and into."""
    if row.rule and row.rule.kind in NEEDS_NO_BASELINE:
        return Offer(None, "fix the case, or change the rule: its limit is in no baseline")
    match row.verdict:
        case Verdict.NEW:
            return _offer_new(row, terms, baseline, results)
        case Verdict.MISSING:
            return _offer_missing(row)
        case Verdict.REGRESSION | Verdict.IMPROVEMENT:
            return _offer_adoption(row, terms, baseline, results)
        case Verdict.INVALID:
            return Offer(None, "measure it again: a result that contradicts itself is never accepted")
        case Verdict.INCONCLUSIVE if row.rule is None:
            return Offer(None, f"give {row.metric} a rule with --rule or in torchstone.toml")
        case Verdict.INCONCLUSIVE:
            return Offer(
                None, "measure it as the baseline was measured, or judge it by a baseline of its own"
            )
        case _:
            return Offer(None)


def _offer_missing(row: Row) -> Offer:
    where = row.remarks.expected_place
    if row.actual is None:
        if row.expected is not None and not row.remarks.place:
            return Offer(("--prune",))
        return Offer(None, "measure it: the run planned it, and ended without an outcome of it")
    if row.actual.status == NOT_AVAILABLE:
        advice = "measure it where it is available, or quarantine it with allow_missing"
        return Offer(None, advice)
    return Offer(None, f"measure it again, or remove {row.metric} from {where} by hand")


def _offer_new(row: Row, terms: Terms, baseline: str, results: str) -> Offer:
    """Adding a row, if the baseline would take it."""
    if row.remarks.expected_place:
        if terms.kinds.get(baseline) == "pr-time-expected":  # each metric has a row of its own
            return Offer(("--add-new",))
        return Offer(None, f"remove the row at {row.remarks.expected_place} by hand, and accept it as new")
    if row.actual is None or not (row.actual.measurements or row.metric == ACCURACY):
        return Offer(None, "fix it, or measure it again: it has no numbers to expect")
    if baseline not in terms.kinds:
        return Offer(None, "use a baseline that covers these cases")
    from torchstone.baselines.adopt import Wish  # noqa: PLC0415  (only a report with red rows needs it)
    from torchstone.baselines.new_rows import new_row  # noqa: PLC0415  (most checks have nothing to offer)
    from torchstone.baselines.text_edits import find_no_place, state  # noqa: PLC0415  (only a report with red rows needs it)

    kind = terms.kinds[baseline]
    case = state(row.actual.case, kind)
    wish = Wish(add_new=True, elsewhere=terms.elsewhere.get((results, baseline), ""))
    change, added = new_row(case, [row.actual], terms.rules, wish, None, find_no_place(case, kind))
    return Offer(("--add-new",)) if added is not None else Offer(None, _told(change.note))


def _offer_adoption(row: Row, terms: Terms, baseline: str, results: str) -> Offer:
    """Adopting the number or the status of a row, with as much of the row as has to go with it."""
    if row.actual is None or row.expected is None:
        return Offer(None, "fix the case: its baseline has no row that could change")
    from torchstone.baselines.adopt import Wish, compare_row, in_place  # noqa: PLC0415  (most checks have nothing to offer)

    refused = ""
    for metrics in _choices(row, terms):
        wish = Wish(metrics=metrics, elsewhere=terms.elsewhere.get((results, baseline), ""))
        changes = [
            in_place(change, terms.kinds.get(baseline, ""))
            for change in compare_row(row.expected, [row.actual], terms.rules, wish, 0)
        ]
        held = [change.note for change in changes if change.action == "hold"]
        done = {change.metric for change in changes if change.action == "change"}
        if not held and done & {row.metric, ACCURACY}:
            return Offer(tuple(word for metric in metrics for word in ("--metric", metric)))
        refused = held[0] if held else refused
    if refused:
        return Offer(None, _told(refused))
    return Offer(None, "fix the case, or quarantine it: a failure leaves no number to accept")


def _choices(row: Row, terms: Terms) -> Iterator[tuple[str, ...]]:
    """The metrics to accept, from the fewest to the most: a number that belongs to another status is accepted with that status."""
    assert row.actual is not None  # noqa: S101  (told apart above)
    assert row.expected is not None  # noqa: S101  (for the type checker)
    if numbers_count(row.actual, row.expected.status):
        yield (row.metric,)
    elif row.metric == ACCURACY:
        yield terms.metrics
    elif expects_status(row.expected):
        yield (ACCURACY, row.metric)
    else:
        yield (row.metric,)


def _told(why: str) -> str:
    return f"fix the case, or quarantine it; 'accept' would not adopt it: {why}"
