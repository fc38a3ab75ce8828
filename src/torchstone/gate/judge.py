"""Judge comparisons: a rule or criteria, and a policy, turn each into a ruling.

Every command uses this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import structs

from torchstone.analyze.evidence import EXACT, VALUE, Comparison, Evidence
from torchstone.analyze.multiple_comparisons import adjust
from torchstone.core.records import Rule
from torchstone.core.text.units import format_number
from torchstone.core.vocabulary import METRICS, Verdict
from torchstone.gate.blocking_policy import Policy
from torchstone.gate.criteria import Criteria, Family, HostBound
from torchstone.gate.judgement import Row, Ruling
from torchstone.gate.rules import RATIOS, SHARES, decide_number, limits_of
from torchstone.gate.weigh import NO_INTERVAL, NO_VALUE, has_no_interval, weigh

WITHIN, BEYOND, UNCLEAR = "within", "beyond", "unclear"
"""Position of an interval relative to the margin: inside, outside, or across its edge."""
_PASSES = Ruling(Verdict.PASS)
_SLACK = 1e-12  # for rounding: 1.02 is within a margin of 2 %
_LEAST_ALPHA = 1e-12
_TRIALS_OVERLAP = "its trials differ from each other, and some equal those of the other side"
_AMONG_MANY = "significant by itself, but not after adjusting for all comparisons"
_BY_ASSUMPTION = (
    "more than the usual noise between processes, but a single process cannot show what is usual here"
)
_NO_DIRECTION = (
    "a significant change, but no rule says which direction of {metric} is better: add one to torchstone.toml, "
    "or compare with --better {metric}=lower, or higher"
)


def judge(
    comparison: Comparison, rule: Rule | Criteria, policy: Policy, metric: str, margin: float | None = None
) -> Ruling:
    """Judge one comparison: a value by the limits of a rule, or an interval by criteria.

    ``margin`` is the one that the baseline row of a value states.
    """
    if isinstance(rule, Criteria):
        return _by_criteria(comparison, rule, policy, metric)
    verdict, detail = Verdict.INCONCLUSIVE, comparison.obstacle
    if not comparison.obstacle:
        verdict = _by_limits(comparison, rule, policy, metric, margin)
    if verdict is Verdict.PASS and not policy.block:
        return _PASSES
    return Ruling(verdict, policy.blocks(verdict, rule), detail)


def judge_alone(side: Evidence, rule: Rule, policy: Policy, alpha: float) -> Ruling:
    """Judge one side by a rule that needs no baseline: its whole interval has to lie within the limits, or outside."""
    if not all(map(math.isfinite, side.values)):
        return Ruling(
            Verdict.INVALID, policy.blocks(Verdict.INVALID, rule), "the value is not a finite number"
        )
    if has_no_interval(side):
        return Ruling(Verdict.INCONCLUSIVE, policy.blocks(Verdict.INCONCLUSIVE, rule), NO_INTERVAL)
    low = high = side.values[0]
    if side.kind != VALUE:
        found = weigh(NO_VALUE, side, alpha=alpha)
        low, high = found.low, found.high
    limits = limits_of(rule, None, None)
    inside = (limits.low is None or low >= limits.low) and (limits.high is None or high <= limits.high)
    outside = (limits.low is not None and high < limits.low) or (
        limits.high is not None and low > limits.high
    )
    verdict = Verdict.PASS if inside else Verdict.REGRESSION if outside else Verdict.INCONCLUSIVE
    if verdict is not Verdict.INCONCLUSIVE:
        return Ruling(verdict, policy.blocks(verdict, rule))
    detail = f"the limit lies within its {100 * (1 - alpha):.4g}% interval, {format_number(low)} to {format_number(high)}; more trials would settle it"
    return Ruling(verdict, policy.blocks(verdict, rule), detail, levels=(alpha, alpha))


def _by_limits(
    comparison: Comparison, rule: Rule, policy: Policy, metric: str, margin: float | None
) -> Verdict:
    """Return the verdict of a rule with limits on a value."""
    base, new = comparison.base.values, comparison.new.values[0]
    expected = base[0] if base else None
    if new == expected and (rule.kind == "count" or (rule.kind in SHARES and new <= 0)):
        return Verdict.PASS
    better = METRICS[metric].better if metric in METRICS else rule.better or "lower"
    verdict = decide_number(rule, new, expected, limits_of(rule, expected, margin), better)
    unnoticed = policy.is_upstream and verdict is Verdict.IMPROVEMENT and rule.kind in RATIOS
    return Verdict.PASS if unnoticed else verdict


def _by_criteria(found: Comparison, criteria: Criteria, policy: Policy, metric: str) -> Ruling:
    """Return ``same`` within the margin, else better or worse if significant, else ``inconclusive``."""
    if found.obstacle:
        verdict = Verdict.INVALID if found.wrong else Verdict.INCONCLUSIVE
        return Ruling(verdict, policy.blocks(verdict), found.obstacle)
    family = criteria.family
    relevance = relevance_of(found, criteria)
    if found.method == VALUE:
        certain = relevance == BEYOND
    elif found.method == EXACT:
        certain = found.low > 1 or found.high < 1
    else:
        adjusted = family.adjusted if family else found.p_value
        certain = adjusted is not None and adjusted <= criteria.alpha
        certain = certain and (relevance == BEYOND or not criteria.holds_noise)
    verdict, detail, levels = Verdict.INCONCLUSIVE, "", None
    if relevance == WITHIN:
        verdict = Verdict.SAME
    elif not certain and found.method == EXACT:
        detail = _TRIALS_OVERLAP
    elif not certain:
        detail = _why_uncertain(found, criteria)
        levels = criteria.alpha, family.level if family else criteria.alpha
    elif not criteria.better:
        detail = _NO_DIRECTION.format(metric=metric)
    else:
        is_better = (found.ratio < 1) == (criteria.better == "lower") and criteria.better != "equal"
        verdict = Verdict.IMPROVEMENT if is_better else Verdict.REGRESSION
    if criteria.host_bound is not None and verdict is not Verdict.SAME:
        return _leave_to_device(criteria.host_bound, policy)
    return Ruling(verdict, policy.blocks(verdict), detail, certain, relevance, levels)


def _leave_to_device(host_bound: HostBound, policy: Policy) -> Ruling:
    """Return the ruling on a wall time that the host decides: neither red nor green, and it blocks only if no device time decides instead."""
    blocks = not host_bound.decided_by and policy.blocks(Verdict.INCONCLUSIVE)
    return Ruling(Verdict.INCONCLUSIVE, blocks, host_bound.detail)


def _why_uncertain(found: Comparison, criteria: Criteria) -> str:
    """Say why a change is not certain although its interval excludes none; empty if it does not, or if the margin contains the noise."""
    if found.low <= 1 <= found.high or criteria.holds_noise:
        return ""
    is_thin = found.p_value is not None and found.p_value > criteria.alpha
    return _BY_ASSUMPTION if is_thin else _AMONG_MANY


def relevance_of(comparison: Comparison, criteria: Criteria) -> str:
    """Return where the interval lies relative to the margin; for counts with a tolerance, where their differences lie relative to that."""
    interval, limits = (comparison.low, comparison.high), criteria.limits
    if comparison.method == VALUE:
        interval = comparison.ratio, comparison.ratio
    if criteria.tolerance and comparison.method in {EXACT, VALUE}:
        base, new = comparison.base.values, comparison.new.values
        interval = min(new) - max(base), max(new) - min(base)
        limits = -criteria.tolerance, criteria.tolerance
    low, high = limits[0] - _SLACK, limits[1] + _SLACK
    if low <= interval[0] and interval[1] <= high:
        return WITHIN
    return BEYOND if interval[1] < low or interval[0] > high else UNCLEAR


def judge_together(drafts: Sequence[Row], policy: Policy, alpha: float) -> list[Row]:
    """Judge rows as one family, so that more comparisons do not cause more false alarms. Rows without a comparison keep their verdicts."""
    adjusted = _adjust(drafts)
    # The level at which one more change would be significant, besides those that are, among all that were tested.
    significant = sum(value <= alpha for value in adjusted.values())
    level = max(_LEAST_ALPHA, alpha * (significant + 1) / max(significant + 1, len(adjusted)))
    untested = Family(None, level)
    # Rows of equal counts share one comparison: each is judged once.
    decided: dict[tuple[object, ...], tuple[Ruling, Criteria]] = {}
    rows = []
    for number, row in enumerate(drafts):
        found, criteria = row.comparison, row.criteria
        if found is None or criteria is None:
            rows.append(_with_policy(row, policy))
            continue
        if criteria.is_alone:
            rows.append(structs.replace(row, ruling=judge(found, criteria, policy, row.metric)))
            continue
        key = id(found), row.metric, criteria.better, criteria.margin, criteria.tolerance
        if (judged := decided.get(key)) is None:
            p_value = adjusted.get(number)
            family = untested if p_value is None else Family(p_value, level)
            criteria = structs.replace(criteria, family=family)
            judged = decided[key] = judge(found, criteria, policy, row.metric), criteria
        ruling, criteria = judged
        rows.append(
            Row(ruling, row.case, row.metric, row.new, row.base, row.rule, row.remarks, found, criteria)
        )
    return rows


def _with_policy(row: Row, policy: Policy) -> Row:
    """Return a row that has its verdict, with whether it blocks."""
    if not policy.blocks(row.verdict, new=row.new):
        return row
    return structs.replace(row, ruling=structs.replace(row.ruling, blocks=True))


def _adjust(drafts: Sequence[Row]) -> dict[int, float]:
    """Return the adjusted p-value of every tested row, by its index.

    A change within the margin is ``same``, however significant: it counts as a comparison, but must not make other changes significant. Otherwise a
    thousand significant changes of 0.1 % would allow ten false alarms among as many unchanged rows.
    """
    tested = {
        number: (found.p_value, relevance_of(found, row.criteria) == WITHIN)
        for number, row in enumerate(drafts)
        if (found := row.comparison) and (criteria := row.criteria) and found.p_value is not None
        if not criteria.is_alone
    }
    among_all = adjust([p_value for p_value, _ in tested.values()])
    among_changed = adjust([1.0 if within else p_value for p_value, within in tested.values()])
    return {
        number: if_same if within else if_changed
        for (number, (_, within)), if_same, if_changed in zip(
            tested.items(), among_all, among_changed, strict=True
        )
    }
