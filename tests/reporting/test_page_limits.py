"""Reports of very many cases: the page, the text and the annotations hold what can be looked at, and say what they left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_samples import ENVIRONMENT, large_run
from test_page import Seen, html_of

from conftest import Command, WriteFile
from torchstone.core.records import Case, Failure, Measurement, Outcome, Reading, Run
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import environment_from
from torchstone.formats.merge import merge
from torchstone.reporting.dialects.github_annotations import MOST_ANNOTATIONS
from torchstone.reporting.dialects.text_report import MOST_RED
from torchstone.reporting.html import case_table as page_table
from torchstone.reporting.html.page import fit_page, render_page
from torchstone.reporting.html.sections import MOST_GROUPS
from torchstone.reporting.views.page_view import MOST_ROWS, Page, make_page


def page_of(run: Run, most_rows: int) -> Page:
    results = merge([Reading("run.jsonl", "run", run, range(2, 2 + len(run.outcomes)))])
    command = ("torchstone", "report", "run.jsonl")
    return make_page(results, most_rows=most_rows, command=command, selection=("--only", "r*"))


def rows_in(html: str) -> list[str]:
    return re.findall(r'<tbody id="[^"]*" data-status="([^"]*)"', html)


def test_the_table_holds_failed_cases_before_any_other() -> None:
    """Of 300 cases 30 failed: of 20 rows all are such, of 50 all 30 are there, and then the slowest."""
    run = large_run(300)
    assert rows_in(render_page(page_of(run, 20))) == ["fail_to_run"] * 20
    page = page_of(run, 50)
    assert rows_in(render_page(page)) == ["fail_to_run"] * 30 + ["pass"] * 20
    speeds = [row.value("speedup") or 0 for row in page.rows if row.is_good]
    shown = [row.value("speedup") or 0 for row in page.shown if row.is_good]
    assert set(sorted(speeds)[:12]) <= set(shown), "the slowest"
    assert max(speeds) in shown, "the fastest too, for the summary names it"


def test_the_summary_is_of_all_cases_and_says_what_the_table_left_out() -> None:
    run = large_run(300)
    whole, part = Seen(html_of(run)).text, Seen(render_page(page_of(run, 20))).text
    for figure in ("270 of 300 cases passed: 30 failed", "270 / 300", "geometric mean over 270 cases"):
        assert figure in whole
        assert figure in part
    mean = re.search(r"Speedup(\d\.\d+x)geometric", whole)
    assert mean
    assert mean[1] in part
    assert "The table shows 20 of 300 cases, red and failed ones first" in part
    assert "280 cases not in this table: 270 pass, 10 fail_to_run." in part
    assert "torchstone report run.jsonl --only 'PATTERN'" in part
    assert "torchstone report run.jsonl --only 'r*' --most-rows 300" in part
    assert "not in this table" not in whole


def test_every_link_leads_somewhere_though_the_table_does_not_hold_every_case() -> None:
    html = render_page(page_of(large_run(300), 20))
    seen = Seen(html)
    anchors = {href[1:] for href in seen.values("href") if href.startswith("#")}
    assert anchors <= set(seen.values("id"))
    assert "resnet" in seen.text


def test_the_page_is_bounded_in_bytes_whatever_a_case_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case may come with many kilobytes of details: then the table holds fewer, the failed ones still first."""
    monkeypatch.setattr(page_table, "BYTES_A_ROW", 200)
    notes = {f"fact {n}": "x" * 390 for n in range(150)}
    outcomes = [
        Outcome(
            Case(f"m{n}", "performance"),
            "pass" if n % 4 else "fail_to_run",
            (Measurement("speedup", (1.5,)),) if n % 4 else (),
            None if n % 4 else Failure("compile", "no"),
            extra=notes,
        )
        for n in range(400)
    ]
    run = Run(
        "wide",
        tuple(each.case for each in outcomes),
        tuple(outcomes),
        environment=environment_from(ENVIRONMENT),
    )
    page, lines = fit_page(page_of(run, 400))
    html = render_page(page, lines)
    assert sum(map(len, lines)) <= MOST_ROWS * 200
    assert 0 < len(page.shown) == len(rows_in(html)) < 400
    assert rows_in(html) == sorted(rows_in(html)), "fail_to_run before pass"
    assert f"{400 - len(lines)} cases not in this table" in Seen(html).text
    anchors = {href[1:] for href in Seen(html).values("href") if href.startswith("#")}
    assert anchors <= set(Seen(html).values("id"))


def test_of_very_many_suites_those_with_the_smallest_share_passed_are_listed() -> None:
    cases = [Case("m", "performance", f"suite{n:03d}") for n in range(MOST_GROUPS + 50)]
    outcomes = tuple(
        Outcome(case, "fail_to_run" if n >= MOST_GROUPS + 40 else "pass") for n, case in enumerate(cases)
    )
    text = Seen(html_of(Run("many", tuple(cases), outcomes))).text
    assert "50 more groups with higher pass rates are not listed." in text
    assert re.findall(r"suite\d{3}0 / 1 \(0%\)", text) == [f"suite{n}0 / 1 (0%)" for n in range(240, 250)]


def test_the_command_takes_a_number_of_rows_and_says_what_it_did(torchstone: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(encode_run(large_run(120)))
    result = torchstone("report", str(path), "-o", str(tmp_path / "out.html"), "--most-rows", "30")
    assert result.code == 0
    assert result.out.endswith("its table has 30 of them (see --most-rows)\n")
    assert len(rows_in((tmp_path / "out.html").read_text())) == 30
    result = torchstone("report", str(path), "-o", str(tmp_path / "all.html"))
    assert "most-rows" not in result.out
    for wrong in ("0", "-1", "many"):
        result = torchstone("report", str(path), "--most-rows", wrong)
        assert result.code == 2
        assert f"--most-rows {wrong}: expected a whole number from 1" in result.err


@pytest.mark.parametrize("style", ["text", "github"])
def test_thousands_of_red_rows_are_counted_where_they_are_not_shown(
    style: str, torchstone: Command, write: WriteFile
) -> None:
    most = MOST_ANNOTATIONS if style == "github" else MOST_RED
    many = most + 1_234
    write("r.csv", "dev,name,batch_size,accuracy\n" + "".join(f"cuda,m{n},1,OOM\n" for n in range(many)))
    write("e.csv", "name,accuracy\n" + "".join(f"m{n},pass\n" for n in range(many)))
    result = torchstone(
        "check", "r.csv", "--baseline", "e.csv", "--format", style, "--report", "json=all.json"
    )
    assert result.code == 1
    shown = result.out.count("accuracy: OOM, expected pass")
    assert shown == most
    assert "1,234 more red rows; --report json=FILE and --report junit=FILE list all" in " ".join(
        result.out.split()
    )
    assert Path("all.json").read_text().count('"blocks": true') == many
