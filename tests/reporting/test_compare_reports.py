"""The report of a comparison in every format: it says what there is to say, and its readers can read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from junitparser import JUnitXml
from markdown_it import MarkdownIt

from comparison_files import case_of, failed, passed, times, write_run
from conftest import Command
from torchstone.core.records import Measurement
from torchstone.reporting.dialects.markdown_report import GITHUB_LIMIT


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """One row of each sort."""
    breaks = [Measurement("graph_breaks", (n,)) for n in (0, 1)]
    base = [
        passed("slower", times(5), breaks[0]),
        passed("faster", times(5)),
        passed("steady", times(5), breaks[0]),
        passed("noisy", times(5, 3, spread=0.1)),
        passed("thin", times(5, 1)),
        passed("gone", times(5)),
        passed("broken", times(5)),
    ]
    new = [
        passed("slower", times(6, seed=2), breaks[1]),
        passed("faster", times(4, seed=2)),
        passed("steady", times(5, seed=2), breaks[0]),
        passed("noisy", times(5, 3, spread=0.1, seed=2)),
        passed("thin", times(5, 1)),
        passed("fresh", times(5)),
        failed("broken"),
    ]
    return write_run(tmp_path, "base.jsonl", base), write_run(tmp_path, "new.jsonl", new)


def test_the_text_has_the_summary_first_then_regressions_then_the_rest(
    torchstone: Command, files: tuple[str, str]
) -> None:
    out = torchstone("compare", *files).out
    headline = "FAIL: 3 regressions, 1 missing, 1 inconclusive, 1 new of 10 rows in 6 common"
    assert out.startswith(headline)
    assert "new of 10 rows in 6 common cases; policy strict blocks red rows: exit code 1" in " ".join(
        out.split()
    )
    order = [
        "regression 3   missing 1   inconclusive 1   new 1   improvement 1   same 3",
        "geometric mean, new/base",
        "pass rate 5 of 6, was 6",
        "no longer pass: broken (timeout)",
        "regression   broken",
        "regression   slower",
        "missing      gone",
        "inconclusive noisy",
        "interval        margin",
        "1 count unchanged",
    ]
    places = [out.index(text) for text in order]
    assert places == sorted(places)


def test_the_text_fits_eighty_columns_but_for_ids(torchstone: Command, files: tuple[str, str]) -> None:
    out = torchstone("compare", *files).out
    assert [line for line in out.splitlines() if len(line) > 80 and "smoke::" not in line] == []


def test_a_long_table_is_cut_and_says_where_the_rest_is(torchstone: Command, tmp_path: Path) -> None:
    base = [passed(f"case{n:03}", times(5, seed=n)) for n in range(100)]
    new = [passed(f"case{n:03}", times(5, seed=500 + n)) for n in range(100)]
    pair = write_run(tmp_path, "base.jsonl", base), write_run(tmp_path, "new.jsonl", new)
    out = torchstone("compare", *pair, "--margin", "15%").out
    assert "... and 70 more; --format json lists all of them" in out
    assert len(out.splitlines()) < 60


def test_cases_of_one_name_are_told_apart(torchstone: Command, tmp_path: Path) -> None:
    cases = [case_of("a", device="cpu", dtype=dtype) for dtype in ("float32", "bfloat16")]
    for name, level in (("base.jsonl", 5), ("new.jsonl", 6)):
        write_run(tmp_path, name, [passed("a", times(level, seed=level), case=case) for case in cases])
    out = torchstone("compare", "base.jsonl", "new.jsonl").out
    assert "a (dtype bfloat16)" in out
    assert "a (dtype float32)" in out


def test_junit_has_a_test_for_each_row_and_a_failure_for_each_red_one(
    torchstone: Command, files: tuple[str, str], tmp_path: Path
) -> None:
    torchstone("compare", *files, "--report", "junit=report.xml")
    suite = next(iter(JUnitXml.fromfile(str(tmp_path / "report.xml"))))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (10, 4, 2, 0)


def test_markdown_is_a_table_and_folded_sections(torchstone: Command, files: tuple[str, str]) -> None:
    out = torchstone("compare", *files, "--format", "markdown").out
    html = MarkdownIt("gfm-like", {"linkify": False}).render(out)
    assert html.count("<table>") >= 4
    assert out.startswith("### torchstone: FAIL: 3 regressions")
    assert "| **regression** | `slower` |" in out
    assert "<summary>1 row improvement</summary>" in out
    assert "torchstone compare base.jsonl new.jsonl --only" in out


def test_markdown_of_a_huge_comparison_stays_under_the_limit_of_github(
    torchstone: Command, tmp_path: Path
) -> None:
    base = [passed(f"a_long_name_for_a_case_{n:05}", times(5, 2, seed=n, samples=1)) for n in range(800)]
    new = [passed(f"a_long_name_for_a_case_{n:05}", times(9, 2, seed=9 * n, samples=1)) for n in range(800)]
    pair = write_run(tmp_path, "base.jsonl", base), write_run(tmp_path, "new.jsonl", new)
    out = torchstone("compare", *pair, "--format", "markdown", "--margin", "1%").out
    assert len(out.encode()) <= GITHUB_LIMIT
    assert "more red rows are not shown here" in out or "more are not shown here" in out


def test_github_gets_the_summary_first_and_an_error_for_each_red_row(
    torchstone: Command, files: tuple[str, str]
) -> None:
    lines = torchstone("compare", *files, "--format", "github").out.splitlines()
    assert lines[0].startswith("::error title=torchstone::FAIL: 3 regressions")
    assert sum(line.startswith("::error") for line in lines) == 7
    assert any(line.startswith("::notice title=improvement%3A faster,file=new.jsonl,line=") for line in lines)


def test_json_has_every_row_with_both_kinds_of_significance(
    torchstone: Command, files: tuple[str, str]
) -> None:
    report = json.loads(torchstone("compare", *files, "--format", "json").out)
    assert report["summary"] == {
        "regression": 3,
        "missing": 1,
        "inconclusive": 1,
        "new": 1,
        "improvement": 1,
        "same": 3,
    }
    slower = next(row for row in report["rows"] if row["name"] == "slower" and row["metric"] == "abs_latency")
    assert slower["significant"] is True
    assert slower["relevance"] in {"beyond", "unclear"}
    assert slower["margin"] == pytest.approx(0.15)
    broken = next(row for row in report["rows"] if row["name"] == "broken")
    assert broken["base_place"] == "base.jsonl:8"


def test_a_report_goes_into_a_file_and_the_text_onto_the_screen(
    torchstone: Command, files: tuple[str, str], tmp_path: Path
) -> None:
    ran = torchstone("compare", *files, "--format", "json", "--output", "report.json")
    assert ran.out.startswith("FAIL")
    assert json.loads((tmp_path / "report.json").read_text())["exit_code"] == 1
