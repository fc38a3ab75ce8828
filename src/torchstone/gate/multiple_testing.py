"""From comparisons to verdicts: what is certain is decided over all rows together, then each gets its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from torchstone.analyze.multiple_comparisons import adjust
from torchstone.analyze.two_samples import EXACT, Comparison
from torchstone.core.vocabulary import Verdict
from torchstone.gate.baseline import has_ended_well
from torchstone.gate.compared import WITHIN, ComparedRow, is_blocking, relevance_of
from torchstone.gate.criteria import Terms

_UNSETTLED = "its trials do not agree with each other, and some are as those of the other side"
_AMONG_MANY = "certain by itself, but not among so many comparisons"
_NO_DIRECTION = (
    "changed for certain, but nothing says which way is better: --better {metric}=lower, or higher"
)
_LEAST_ALPHA = 1e-12


def settle(drafts: Sequence[ComparedRow], terms: Terms) -> list[ComparedRow]:
    """The rows with their verdicts, and whether they block. Rows without a comparison have theirs already."""
    adjusted = _adjust(drafts)
    # The next change is believed at this level: one of as many as are certain, and itself, among all that were tested.
    called = sum(value <= terms.alpha for value in adjusted.values())
    level = max(_LEAST_ALPHA, terms.alpha * (called + 1) / max(called + 1, len(adjusted)))
    levels = terms.alpha, level
    blocking = {verdict for verdict in Verdict if is_blocking(terms.policy, verdict)}
    decided: dict[tuple[object, ...], dict[str, Any]] = {}  # rows of equal counts share one comparison
    rows = []
    for n, row in enumerate(drafts):
        if not (found := row.comparison):
            blocks = _severity(row) in blocking
            rows.append(structs.replace(row, blocks=True) if blocks else row)
            continue
        key = id(found), row.metric, row.better, row.margin, row.tolerance
        if (changes := decided.get(key)) is None:
            changes = _decide(row, found, adjusted.get(n), levels)
            changes["blocks"] = changes.get("verdict", row.verdict) in blocking
            decided[key] = changes
        rows.append(structs.replace(row, **changes))
    return rows


def _severity(row: ComparedRow) -> Verdict:
    """The verdict that decides whether a row without a comparison blocks: what is new and failed is as bad as any failure."""
    failed = row.verdict is Verdict.NEW and row.new is not None and not has_ended_well(row.new)
    return Verdict.REGRESSION if failed else row.verdict


def _adjust(drafts: Sequence[ComparedRow]) -> dict[int, float]:
    """The p-value among all of every row that was tested, by its number.

    A change within the margin is called ``same``, however certain: it counts as one of the many, and makes no other change more believable. Else a thousand certain changes of
    0.1 % would allow ten false alarms among as many rows that did not change.
    """
    tested = {
        n: (found.p_value, relevance_of(found, row) == WITHIN)
        for n, row in enumerate(drafts)
        if (found := row.comparison) and found.p_value is not None
    }
    among_all = adjust([p_value for p_value, _ in tested.values()])
    among_called = adjust([1.0 if within else p_value for p_value, within in tested.values()])
    return {
        n: ours if within else called
        for (n, (_, within)), ours, called in zip(tested.items(), among_all, among_called, strict=True)
    }


def _decide(
    row: ComparedRow, found: Comparison, adjusted: float | None, levels: tuple[float, float]
) -> dict[str, Any]:
    """The fields of a row that its verdict decides: ``same`` within the margin, else better or worse if that is certain, else open."""
    if found.obstacle:
        verdict = Verdict.INVALID if found.wrong else Verdict.INCONCLUSIVE
        return {"verdict": verdict, "detail": found.obstacle}
    certain = found.low > 1 or found.high < 1
    if found.method != EXACT:
        certain = adjusted is not None and adjusted <= levels[0]
    relevance = relevance_of(found, row)
    known = {"adjusted": adjusted, "is_significant": certain, "relevance": relevance}
    if relevance == WITHIN:
        return known | {"verdict": Verdict.PASS}
    if not certain:
        return known | _leave_open(found, levels)
    if not row.better:
        return known | {"detail": _NO_DIRECTION.format(metric=row.metric)}
    is_better = (found.ratio < 1) == (row.better == "lower") and row.better != "equal"
    return known | {"verdict": Verdict.IMPROVEMENT if is_better else Verdict.REGRESSION}


def _leave_open(found: Comparison, levels: tuple[float, float]) -> dict[str, Any]:
    """What a row that cannot be decided says: why, and at which levels more trials would decide it."""
    if found.method == EXACT:
        return {"detail": _UNSETTLED}
    return {"levels": levels, "detail": "" if found.low <= 1 <= found.high else _AMONG_MANY}
