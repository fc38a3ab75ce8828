"""Contests as a judgement: policy, quarantine and every report format, on pairs that were recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date

import pytest
from junitparser import JUnitXml

from torchstone.api.measuring.ab_request import AbRequest, make_ab_policy
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.records import Case, Failure, FilePlace, Outcome
from torchstone.gate.apply_quarantine import Exemptions
from torchstone.gate.blocking_policy import Policy, comparison_policy
from torchstone.gate.judgement import Judgement
from torchstone.measure.ab.contest import AbSettings, Contest
from torchstone.measure.ab.judging import Unmatched, judge_contests
from torchstone.measure.ab.pair import PairResult
from torchstone.reporting.dialects.styles import STYLES, render_report
from torchstone.reporting.views.comparison_rows import CompareReport

SETTINGS = AbSettings(session="s")
TODAY = date(2026, 1, 1)
GONE = Case("gone", "performance")


def contest(name: str, pairs: Iterable[float | None], policy: Policy | None = None) -> Contest:
    """A case whose pairs had these ratios; None is a B that crashed."""
    case = Case(name, "performance")
    found = Contest(case, (case, case), 0, SETTINGS, policy or make_ab_policy(AbRequest()))
    passed = Outcome(case, "pass")
    crashed = Outcome(case, "worker_died", failure=Failure("run", "ended by SIGABRT"))
    for ratio in pairs:
        if not found.verdict:
            times = ((1.0,), (ratio,)) if ratio else ((), ())
            found.take(PairResult(times, (passed, passed if ratio else crashed)))
    if not found.verdict:
        found.give_up()
    return found


def all_kinds(policy: Policy | None = None) -> list[Contest]:
    return [
        contest("slow", [1.1, 1.11] * 20, policy),
        contest("fast", [0.9, 0.91] * 20, policy),
        contest("alike", [1.0, 1.001] * 20, policy),
        contest("crash", [None, None], policy),
        contest("open", [1.0, 1.1, 1.2], policy),
    ]


def judged(
    contests: Sequence[Contest],
    policy: Policy | None = None,
    entries: Sequence[QuarantineEntry] = (),
    unmatched: Unmatched | None = None,
) -> Judgement:
    policy = policy or make_ab_policy(AbRequest())
    exemptions = Exemptions(policy, entries, TODAY)
    return judge_contests(
        contests,
        unmatched or Unmatched(),
        SETTINGS,
        policy,
        exemptions,
        lambda each: f"torchstone ab x --only {each.case.id}",
        (FilePlace("a.jsonl"), FilePlace("b.jsonl")),
    )


def verdicts(judgement: Judgement) -> dict[str, tuple[str, bool]]:
    return {row.case.benchmark: (row.verdict.value, row.blocks) for row in judgement.rows}


def test_what_is_undecided_or_missing_blocks_like_a_regression() -> None:
    unmatched = Unmatched(only_a=(GONE,))
    assert verdicts(judged(all_kinds(), unmatched=unmatched)) == {
        "slow": ("regression", True),
        "fast": ("improvement", False),
        "alike": ("same", False),
        "crash": ("regression", True),
        "open": ("inconclusive", True),
        "gone": ("missing", True),
    }
    lenient = make_ab_policy(AbRequest(policy="lenient"))
    blocking = {
        name
        for name, (_, blocks) in verdicts(judged(all_kinds(lenient), lenient, (), unmatched)).items()
        if blocks
    }
    assert blocking == {"slow", "crash", "gone"}
    upstream = comparison_policy("upstream")
    assert judged(all_kinds(upstream), upstream).exit_code == 0


def test_a_quarantine_entry_covers_a_regression_until_it_expires() -> None:
    entry = QuarantineEntry("slow", "known to be slow", "quarantine.toml", 3, expires=date(2026, 6, 1))
    slow = [contest("slow", [1.1, 1.11] * 20)]
    covered = judged(slow, entries=[entry])
    assert verdicts(covered) == {"slow": ("quarantined", False)}
    assert covered.exit_code == 0
    old = QuarantineEntry("slow", "known to be slow", "quarantine.toml", 3, expires=date(2025, 6, 1))
    expired = judged(slow, entries=[old])
    assert verdicts(expired) == {"slow": ("regression", True)}
    assert expired.expired == (old,)
    released = judged([contest("slow", [1.0, 1.001] * 20)], entries=[entry])
    assert [each.case.benchmark for each in released.releases] == ["slow"]


@pytest.mark.parametrize("style", STYLES)
def test_every_format_tells_each_case_with_its_verdict(style: str) -> None:
    entry = QuarantineEntry("slow", "known to be slow", "quarantine.toml", 3)
    report = CompareReport(judged(all_kinds(), entries=[entry]), ("a.jsonl",), ("b.jsonl",), command="ab")
    text = render_report(report, style)
    assert all(name in text for name in ("slow", "fast", "crash", "open"))
    assert "ended by SIGABRT" in " ".join(text.split())
    if style == "json":
        rows = {row["name"]: row for row in json.loads(text)["rows"]}
        assert rows["slow"]["quarantine"]["reason"] == "known to be slow"
        assert rows["crash"]["reproduce"] == "torchstone ab x --only crash::performance"
    if style == "junit":
        suite = JUnitXml.fromstring(text.encode())
        assert (suite.tests, suite.failures, suite.errors) == (5, 1, 1)
        assert 'testsuite name="torchstone ab"' in text
    if style in {"text", "markdown"}:
        assert "known to be slow" in text
