"""Judge comparisons: a rule or criteria, and a policy, turn each into a ruling. Every command comes through here."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from torchstone.analyze.evidence import EXACT, Comparison
from torchstone.analyze.multiple_comparisons import adjust
from torchstone.core.records import Rule
from torchstone.core.vocabulary import METRICS, Verdict
from torchstone.gate.baseline import has_ended_well
from torchstone.gate.criteria import Criteria, Family
from torchstone.gate.policy import Policy
from torchstone.gate.rules import SHARES, AllowedRange, decide_number, limits_of
from torchstone.gate.verdicts import Row, Ruling

WITHIN, BEYOND, UNCLEAR = "within", "beyond", "unclear"
"""Where an interval lies relative to the margin: inside, outside, or across its edge."""
NEAR_EDGE = 0.8
"""The share of what a rule allows from which on a value that passes is worth a caution."""
_PASSES = Ruling(Verdict.PASS)
_SLACK = 1e-12  # so that 1.02 is within a margin of 2 %, whatever the last binary digit says
_LEAST_ALPHA = 1e-12
_UNSETTLED = "its trials do not agree with each other, and some are as those of the other side"
_AMONG_MANY = "certain by itself, but not among so many comparisons"
_NO_DIRECTION = (
    "changed for certain, but nothing says which way is better: --better {metric}=lower, or higher"
)


def judge(
    comparison: Comparison, rule: Rule | Criteria, policy: Policy, metric: str, margin: float | None = None
) -> Ruling:
    """Decide on one comparison: by the limits of a gate's rule, on values; or by criteria, on the interval and its certainty.

    ``margin`` is the one that the baseline states for a value.
    """
    if isinstance(rule, Criteria):
        return _by_criteria(comparison, rule, policy, metric)
    verdict = Verdict.INCONCLUSIVE
    if not comparison.obstacle:
        verdict = _by_limits(comparison, rule, policy, metric, margin)
    if verdict is Verdict.PASS and not policy.block:
        return _PASSES
    return Ruling(verdict, policy.blocks(verdict, rule), comparison.obstacle)


def _by_limits(
    comparison: Comparison, rule: Rule, policy: Policy, metric: str, margin: float | None
) -> Verdict:
    """The verdict on a value that a rule has limits for."""
    base, new = comparison.base.values, comparison.new.values[0]
    expected = base[0] if base else None
    if new == expected and (rule.kind == "count" or (rule.kind in SHARES and new <= 0)):
        return Verdict.PASS
    better = METRICS[metric].better if metric in METRICS else "lower"
    verdict = decide_number(rule, new, expected, limits_of(rule, expected, margin), better)
    unnoticed = policy.is_upstream and verdict is Verdict.IMPROVEMENT and rule.kind.startswith("ratio")
    return Verdict.PASS if unnoticed else verdict


def find_near_edge(comparison: Comparison, rule: Rule, margin: float | None) -> float | None:
    """The limit that a passing value came near to; None where it is not near one."""
    if rule.kind not in SHARES or not comparison.base.values:
        return None
    expected, value = comparison.base.values[0], comparison.new.values[0]
    if value == expected:
        return None
    limits: AllowedRange = limits_of(rule, expected, margin)
    edge = limits.high if value > expected else limits.low
    if edge is not None and abs(value - expected) > NEAR_EDGE * abs(edge - expected):
        return edge
    return None


def _by_criteria(found: Comparison, criteria: Criteria, policy: Policy, metric: str) -> Ruling:
    """``same`` within the margin, else better or worse if that is certain, else open."""
    if found.obstacle:
        verdict = Verdict.INVALID if found.wrong else Verdict.INCONCLUSIVE
        return Ruling(verdict, policy.blocks(verdict), found.obstacle)
    family = criteria.family or Family(found.p_value, criteria.alpha)
    certain = found.low > 1 or found.high < 1
    if found.method != EXACT:
        certain = family.adjusted is not None and family.adjusted <= criteria.alpha
    relevance = relevance_of(found, criteria)
    verdict, detail, levels = Verdict.INCONCLUSIVE, "", None
    if relevance == WITHIN:
        verdict = Verdict.SAME
    elif not certain and found.method == EXACT:
        detail = _UNSETTLED
    elif not certain:
        detail = "" if found.low <= 1 <= found.high else _AMONG_MANY
        levels = criteria.alpha, family.level
    elif not criteria.better:
        detail = _NO_DIRECTION.format(metric=metric)
    else:
        is_better = (found.ratio < 1) == (criteria.better == "lower") and criteria.better != "equal"
        verdict = Verdict.IMPROVEMENT if is_better else Verdict.REGRESSION
    return Ruling(verdict, policy.blocks(verdict), detail, certain, relevance, levels)


def relevance_of(comparison: Comparison, criteria: Criteria) -> str:
    """Where the interval lies relative to the margin; for counts whose rule has a tolerance, where the differences lie relative to that."""
    interval, limits = (comparison.low, comparison.high), (1 / (1 + criteria.margin), 1 + criteria.margin)
    if comparison.method == EXACT and criteria.tolerance:
        base, new = comparison.base.values, comparison.new.values
        interval = min(new) - max(base), max(new) - min(base)
        limits = -criteria.tolerance, criteria.tolerance
    low, high = limits[0] - _SLACK, limits[1] + _SLACK
    if low <= interval[0] and interval[1] <= high:
        return WITHIN
    return BEYOND if interval[1] < low or interval[0] > high else UNCLEAR


def judge_together(drafts: Sequence[Row], policy: Policy, alpha: float) -> list[Row]:
    """Judge rows as one family, so that the number of comparisons does not raise the number of false alarms. Rows without a comparison keep their verdicts."""
    adjusted = _adjust(drafts)
    # The level for the next change: one of as many as are certain, and itself, among all that were tested.
    called = sum(value <= alpha for value in adjusted.values())
    level = max(_LEAST_ALPHA, alpha * (called + 1) / max(called + 1, len(adjusted)))
    untested = Family(None, level)
    decided: dict[
        tuple[object, ...], tuple[Ruling, Criteria]
    ] = {}  # rows of equal counts share one comparison
    rows = []
    for number, row in enumerate(drafts):
        found, criteria = row.comparison, row.criteria
        if found is None or criteria is None:
            rows.append(_with_policy(row, policy))
            continue
        key = id(found), row.metric, criteria.better, criteria.margin, criteria.tolerance
        if (judged := decided.get(key)) is None:
            p_value = adjusted.get(number)
            family = untested if p_value is None else Family(p_value, level)
            criteria = Criteria(criteria.margin, criteria.alpha, criteria.better, criteria.tolerance, family)
            judged = decided[key] = judge(found, criteria, policy, row.metric), criteria
        ruling, criteria = judged
        rows.append(
            Row(ruling, row.case, row.metric, row.new, row.base, row.rule, row.remarks, found, criteria)
        )
    return rows


def _with_policy(row: Row, policy: Policy) -> Row:
    """A row that has its verdict already, and whether it blocks: a new case that failed is as bad as any failure."""
    failed = row.verdict is Verdict.NEW and row.new is not None and not has_ended_well(row.new)
    if not policy.blocks(Verdict.REGRESSION if failed else row.verdict):
        return row
    return structs.replace(row, ruling=structs.replace(row.ruling, blocks=True))


def _adjust(drafts: Sequence[Row]) -> dict[int, float]:
    """The adjusted p-value of every row that was tested, by its index.

    A change within the margin is called ``same``, however certain: it counts as one of the many, and makes no other change more believable. Otherwise a thousand certain changes of
    0.1 % would allow ten false alarms among as many rows that did not change.
    """
    tested = {
        number: (found.p_value, relevance_of(found, row.criteria) == WITHIN)
        for number, row in enumerate(drafts)
        if (found := row.comparison) and row.criteria and found.p_value is not None
    }
    among_all = adjust([p_value for p_value, _ in tested.values()])
    among_called = adjust([1.0 if within else p_value for p_value, within in tested.values()])
    return {
        number: ours if within else called
        for (number, (_, within)), ours, called in zip(tested.items(), among_all, among_called, strict=True)
    }
