from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped
from markdown_it import MarkdownIt

from conftest import Command, WriteFile
from torchstone.reporting.dialects.markdown_page import code, escape
from torchstone.reporting.dialects.markdown_report import GITHUB_LIMIT
from torchstone.reporting.dialects.text_page import TextPage

HEADER = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks\n"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NASTY = [
    "a|b",
    "<script>alert(1)</script>",
    "`tick` ``two``",
    "::error::x",
    "50%",
    "@everyone",
    "[x](y)",
    "&amp;",
    "it's",
    "*_~#",
    "über",
]


@pytest.fixture
def files(write: WriteFile) -> tuple[str, ...]:
    """One row of each sort: red (three ways), improved, quarantined, passing."""
    rows = (
        "fine,8,pass,1,1,0",
        "worse,8,OOM,1,1,0",
        "better,8,pass,1,1,0",
        "newcomer,8,pass,1,1,0",
        "flaky,8,timeout,1,1,0",
    )
    write("r.csv", HEADER + "".join(f"cuda,{row}\n" for row in rows))
    write("e.csv", "name,accuracy\nfine,pass\nworse,pass\nbetter,fail_to_run\nflaky,pass\ngone,pass\n")
    write("quarantine.toml", '[[quarantine]]\ncase = "flaky"\nreason = "races"\n')
    return "r.csv", "--baseline", "e.csv"


RED = {"worse", "newcomer", "gone"}


class TestText:
    def test_it_starts_with_how_it_stands(self, torchstone: Command, files: tuple[str, ...]) -> None:
        lines = torchstone("check", *files).out.splitlines()
        assert lines[0] == "FAIL: 3 of 6 cases are red; policy strict blocks red rows: exit code 1"
        assert lines[2].split() == [
            *("planned", "5", "judged", "5", "red", "3", "improved", "1"),
            *("quarantined", "1", "missing", "1", "new", "1"),
        ]

    def test_every_red_row_says_what_is_wrong_where_and_what_to_do(
        self, torchstone: Command, files: tuple[str, ...]
    ) -> None:
        out = torchstone("check", *files).out
        block = next(part for part in out.split("\n\n") if part.startswith("regression"))
        assert "accuracy: OOM, expected pass" in block
        assert "r.csv:3" in block
        assert "e.csv:3" in block
        assert "status equals the expected one" in block
        assert "torchstone check r.csv --baseline e.csv --only worse" in block
        assert "torchstone accept r.csv --baseline e.csv --only worse" in " ".join(
            block.replace("\\", "").split()
        )

    def test_piped_it_is_plain(self, torchstone: Command, files: tuple[str, ...]) -> None:
        assert "\x1b" not in torchstone("check", *files).out

    def test_the_example_fits_eighty_columns_but_for_ids_and_paths(self, torchstone: Command) -> None:
        results = str(EXAMPLES / "inductor_huggingface_amp_training_cuda_accuracy.csv")
        out = torchstone("check", results, "--config", str(EXAMPLES / "torchstone.toml")).out
        wide = [line for line in out.splitlines() if len(line) > 80]
        assert all(line.split()[0] == "case" or str(EXAMPLES) in line for line in wide)

    @pytest.mark.parametrize("name", ["plain", "two words", "it's", 'say "hi"', "a\\b", "$HOME `x`"])
    def test_a_command_that_is_wrapped_can_be_pasted(self, name: str) -> None:
        words = ["printf", "%s|", *(f"--only={name}_{n}" for n in range(20))]
        command = " ".join(shlex.quote(word) for word in words)
        lines = TextPage(80).wrap_command(command, " " * 13)
        assert len(lines) > 1
        assert all(len(line) <= 80 for line in lines)
        pasted = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
        assert pasted.stdout.split("|")[:-1] == words[2:]

    def test_a_command_whose_quotes_do_not_close_is_left_as_it_is(self) -> None:
        command = "python run.py --name it's --fast " + "x" * 80
        assert TextPage(80).wrap_command(command, " " * 13) == [" " * 13 + command]

    def test_a_command_cannot_control_the_terminal(self) -> None:
        assert "\x1b" not in "".join(TextPage(80).wrap_command("python \x1b[31m", ""))


class TestMarkdown:
    def test_red_rows_come_first_and_the_rest_is_folded(
        self, torchstone: Command, files: tuple[str, ...]
    ) -> None:
        out = torchstone("check", *files, "--format", "markdown").out
        before, _, after = out.partition("<details>")
        assert all(f"`{name}`" in before for name in RED)
        assert all(f"`{name}`" not in before and f"`{name}`" in after for name in ("better", "flaky"))
        assert out.count("<details>") == out.count("</details>")

    def test_it_never_exceeds_githubs_limit(self, torchstone: Command, write: WriteFile) -> None:
        names = [f"model_{'x' * 80}_{number}" for number in range(3000)]
        write("r.csv", HEADER + "".join(f"cuda,{name},8,OOM,1,1,0\n" for name in names))
        write("e.csv", "name,accuracy\n" + "".join(f"{name},pass\n" for name in names))
        out = torchstone("check", "r.csv", "--baseline", "e.csv", "--format", "markdown").out
        assert len(out.encode()) <= GITHUB_LIMIT
        assert "3,000 of 3,000 cases are red" in out
        shown = sum(line.startswith("| **regression**") for line in out.splitlines())
        assert shown > 50
        assert f"{3000 - shown:,} more red rows are not shown here" in out
        assert out.count("<details>") == out.count("</details>")

    @pytest.mark.parametrize("name", NASTY)
    def test_a_name_is_shown_as_it_is_and_never_as_markup(
        self, name: str, torchstone: Command, write: WriteFile
    ) -> None:
        quoted = '"' + name.replace('"', '""') + '"'
        write("r.csv", HEADER + f"cuda,{quoted},8,OOM,1,1,0\n")
        write("e.csv", f"name,accuracy\n{quoted},pass\n")
        out = torchstone("check", "r.csv", "--baseline", "e.csv", "--format", "markdown").out
        tokens = MarkdownIt("commonmark").enable("table").parse(out)
        spans = [
            child.content for token in tokens for child in token.children or [] if child.type == "code_inline"
        ]
        assert name in [span.strip() for span in spans]
        html = [token.content for token in tokens if token.type == "html_block"]
        assert all(re.fullmatch(r"(</?details>|<summary>[\w ]+</summary>|\s)*", block) for block in html)

    def test_escaped_text_is_only_text(self) -> None:
        for name in NASTY:
            (token,) = [t for t in MarkdownIt("commonmark").parseInline(escape(name)) if t.children]
            assert [child.type for child in token.children or []] == ["text"]
            assert (token.children or [])[0].content == name

    def test_code_spans_survive_backticks(self) -> None:
        (token,) = MarkdownIt("commonmark").parseInline(code("a `b` ``c``"))
        assert [(child.type, child.content) for child in token.children or []] == [
            ("code_inline", "a `b` ``c``")
        ]

    def test_a_long_command_is_whole(self, torchstone: Command, write: WriteFile) -> None:
        shards = [write(f"{'shard' * 8}_{n}.csv", HEADER + f"cuda,m{n},8,pass,1,1,0\n") for n in range(30)]
        rows = "".join(f"m{n},pass\n" for n in range(31))
        out = torchstone(
            "check", *shards, "--baseline", write("e.csv", "name,accuracy\n" + rows), "--format", "markdown"
        ).out
        assert all(shard in out for shard in shards)

    def test_what_was_allowed_is_shown_all_the_same(
        self, torchstone: Command, files: tuple[str, ...]
    ) -> None:
        allowed = ("--allow", "regression", "--allow", "missing", "--allow", "new")
        for style in ("text", "markdown", "github", "json"):
            ran = torchstone("check", *files, *allowed, "--format", style)
            assert ran.code == 0
            assert all(name in ran.out for name in RED)


class TestJUnit:
    def test_another_reader_sees_failures_errors_and_skips(
        self, torchstone: Command, files: tuple[str, ...]
    ) -> None:
        torchstone("check", *files, "--format", "junit", "--output", "report.xml")
        (suite,) = JUnitXml.fromfile("report.xml")
        found = {
            case.name.split("::")[0].split("[")[0]: [type(result) for result in case.result] for case in suite
        }
        assert found == {
            "fine": [],
            "worse": [Failure],
            "better": [],
            "newcomer": [Failure],
            "flaky": [Skipped],
            "gone": [Error],
        }
        assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (6, 2, 1, 1)

    @pytest.mark.parametrize("name", NASTY)
    def test_a_name_cannot_break_the_file(self, name: str, torchstone: Command, write: WriteFile) -> None:
        quoted = '"' + name.replace('"', '""') + '"'
        write("r.csv", HEADER + f"cuda,{quoted},8,OOM,1,1,0\n")
        write("e.csv", f"name,accuracy\n{quoted},pass\n")
        torchstone("check", "r.csv", "--baseline", "e.csv", "--format", "junit", "--output", "report.xml")
        ((case,),) = JUnitXml.fromfile("report.xml")
        assert "OOM" in case.result[0].message


class TestGithub:
    def test_red_rows_are_errors_on_the_baselines_lines(
        self, torchstone: Command, files: tuple[str, ...]
    ) -> None:
        lines = torchstone("check", *files, "--format", "github").out.splitlines()
        assert lines[0].startswith("::error title=torchstone::FAIL")
        assert any(line.startswith("::error title=regression%3A worse,file=e.csv,line=3::") for line in lines)
        assert sum(line.startswith("::error") for line in lines) == 4
        assert any(line.startswith("::warning title=quarantined") for line in lines)
        assert any(line.startswith("::notice title=improvement") for line in lines)

    @pytest.mark.parametrize("name", NASTY)
    def test_a_name_cannot_forge_a_command(self, name: str, torchstone: Command, write: WriteFile) -> None:
        quoted = '"' + name.replace('"', '""') + '"'
        write("r.csv", HEADER + f"cuda,{quoted},8,OOM,1,1,0\n")
        write("e.csv", f"name,accuracy\n{quoted},pass\n")
        lines = torchstone("check", "r.csv", "--baseline", "e.csv", "--format", "github").out.splitlines()
        for line in lines:
            match = re.fullmatch(r"::(error|notice|warning) ((?:\w+=[^,:]*,?)+)::(.*)", line)
            assert match, line
        assert len(lines) == 2


class TestJson:
    def test_every_row_has_what_programs_need(self, torchstone: Command, files: tuple[str, ...]) -> None:
        report = json.loads(torchstone("check", *files, "--format", "json").out)
        for row in report["rows"]:
            assert {"name", "case", "metric", "verdict", "actual", "expected", "rule"} <= row.keys()
            assert "label" not in row
        assert {row["name"] for row in report["rows"] if row["blocks"]} == RED

    def test_under_the_policy_upstream_rows_have_the_originals_word(
        self, torchstone: Command, files: tuple[str, ...]
    ) -> None:
        report = json.loads(torchstone("check", *files, "--format", "json", "--policy", "upstream").out)
        assert {row["name"]: row["label"] for row in report["rows"]} == {
            "fine": "PASS",
            "worse": "FAIL",
            "better": "IMPROVED",
            "newcomer": "IMPROVED",
            "flaky": "FAIL",
        }


def test_with_output_the_report_goes_to_the_file_and_the_text_to_the_terminal(
    torchstone: Command, files: tuple[str, ...]
) -> None:
    ran = torchstone("check", *files, "--format", "json", "--output", "report.json")
    assert ran.out.startswith("FAIL")
    assert json.loads(Path("report.json").read_text())["exit_code"] == ran.code == 1
