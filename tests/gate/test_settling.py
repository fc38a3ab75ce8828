"""Verdicts over all rows of a comparison: what is certain among many, and what within the margin has no say in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from comparison_files import case_of
from torchstone.analyze.evidence import WELCH, Comparison, Evidence
from torchstone.core.vocabulary import Verdict
from torchstone.gate.blocking_policy import comparison_policy
from torchstone.gate.criteria import Criteria
from torchstone.gate.defaults import DEFAULTS
from torchstone.gate.judge import judge_together
from torchstone.gate.judgement import Row, Ruling

SIDE = Evidence((1.0, 1.1), 2)


def row_of(low: float, high: float, p_value: float) -> Row:
    found = Comparison(SIDE, SIDE, WELCH, (low * high) ** 0.5, low, high, p_value)
    criteria = Criteria(0.02, DEFAULTS.alpha, "lower")
    ruling = Ruling(Verdict.INCONCLUSIVE)
    return Row(ruling, case_of("a"), "abs_latency", comparison=found, criteria=criteria)


def settle(rows: Sequence[Row]) -> list[Row]:
    return judge_together(rows, comparison_policy(), DEFAULTS.alpha)


def test_certain_changes_within_the_margin_do_not_make_others_more_believable() -> None:
    tiny = [row_of(1.0009, 1.0011, 1e-9)] * 500
    # Where nothing changes, p-values lie evenly between 0 and 1: of 500, five below 1 %.
    unchanged = [
        row_of(1.0001 if p_value < 0.01 else 0.95, 1.1, p_value)
        for p_value in ((n + 0.5) / 500 for n in range(500))
    ]
    rows = settle([*tiny, *unchanged])
    assert Counter(row.verdict for row in rows[:500]) == {Verdict.SAME: 500}
    assert all(row.ruling.is_significant for row in rows[:500])
    assert Counter(row.verdict for row in rows[500:]) == {Verdict.INCONCLUSIVE: 500}


def test_changes_beyond_the_margin_do() -> None:
    large = [row_of(1.05, 1.07, 1e-9)] * 500
    slight = [row_of(1.001, 1.1, 0.004)]
    assert [row.verdict for row in settle(slight)] == [Verdict.REGRESSION]
    rest = [row_of(0.95, 1.1, 0.5)] * 499
    assert settle([*large, *slight, *rest])[500].verdict is Verdict.REGRESSION
    assert settle([*slight, *rest, *rest])[0].verdict is Verdict.INCONCLUSIVE
