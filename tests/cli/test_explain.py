"""`torchstone explain`: where a difference in counts came from, in every format, and what is said where it cannot be told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from conftest import Command, WriteFile, start_on_terminal
from profile_samples import (
    ATTACK,
    ENVIRONMENT,
    case_of,
    outcome_of,
    profile,
    run_of,
    sample_profile,
    sample_run,
    stacks,
)
from torchstone.core.records import Outcome, Run
from torchstone.core.run_file import encode_run
from torchstone.core.text.units import short_number

Save = Callable[[Run, Run], None]
BOTH = ("base.jsonl", "new.jsonl")
BEFORE = profile(
    [["dynamo", "libpython3.11.so.1.0", "eval", 700_000], ["inductor", "libc.so.6", "malloc", 300_000]],
    stacks=stacks(["work", 1, [["compile", 2, [["lower", 100, []]]]]]),
)
AFTER = profile(
    [
        ["inductor", "libc.so.6", "malloc", 350_000],
        ["dynamo", "libpython3.11.so.1.0", "eval", 690_000],
        ["inductor", "", "(rest)", 10_000],
    ],
    stacks=stacks(["work", 1, [["compile", 2, [["lower", 100, [["extra_pass", 500, []]]]]]]]),
)


@pytest.fixture
def save(write: WriteFile) -> Save:
    def call(base: Run, new: Run) -> None:
        write(BOTH[0], encode_run(base))
        write(BOTH[1], encode_run(new))

    return call


@pytest.fixture
def small(save: Save) -> None:
    save(run_of(of("add_loop", BEFORE)), run_of(of("add_loop", AFTER)))


@pytest.fixture
def large(save: Save) -> None:
    save(sample_run(changed=False), sample_run(changed=True))


def of(name: str, stated: object, **axes: Any) -> Outcome:  # noqa: ANN401
    return outcome_of(case_of(name, **axes), stated)


@pytest.mark.usefixtures("small")
class TestText:
    def test_total_phases_functions_and_the_way_down_are_told(self, torchstone: Command) -> None:
        ran = torchstone("explain", *BOTH, "add_loop")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == (
            "add_loop: 1,050,000 instructions, was 1,000,000: +50,000 (+5.0%), counted by\n"
            "simulated.\n"
            "\n"
            "By compiler phase, in instructions\n"
            "phase        base      new   change  share of change\n"
            "dynamo    700,000  690,000  -10,000             -20%\n"
            "inductor  300,000  360,000  +60,000             120%\n"
            "\n"
            "Functions that changed most, by own cost\n"
            "phase     function  library           base   new  change\n"
            "inductor  malloc    libc.so           300k  350k    +50k\n"
            "dynamo    eval      libpython3.11.so  700k  690k    -10k\n"
            "inductor  (rest)                         0   10k    +10k\n"
            "\n"
            "Call path that explains most of the change, in calls\n"
            "+500  work\n"
            "+500   compile\n"
            "+500    lower\n"
            "+500     extra_pass\n"
        )

    def test_top_says_how_many_functions(self, torchstone: Command) -> None:
        out = torchstone("explain", *BOTH, "add_loop", "--top", "1").out
        assert "Functions that changed most (1 of 3)" in out
        assert "malloc" in out
        assert "(rest)" not in out

    @pytest.mark.parametrize(
        "wanted", ["add_loop", "add_*", "compile_time::add_loop[device=cpu,backend=inductor]::instructions"]
    )
    def test_a_case_is_a_name_an_id_or_a_pattern(self, torchstone: Command, wanted: str) -> None:
        assert torchstone("explain", *BOTH, wanted).out.startswith("add_loop: ")

    def test_the_other_way_round_the_signs_are_the_others(self, torchstone: Command) -> None:
        out = torchstone("explain", *reversed(BOTH), "add_loop").out
        assert "-50,000 (-4.8%)" in out
        assert "-500     extra_pass" in out

    def test_a_file_compared_with_itself_has_no_change(self, torchstone: Command) -> None:
        out = torchstone("explain", BOTH[0], BOTH[0], "add_loop").out
        assert "1,000,000 instructions, unchanged, counted by simulated." in " ".join(out.split())
        assert "No function changed." in out
        assert "Call stacks: no change, in calls." in out


@pytest.mark.usefixtures("large")
class TestLarge:
    @pytest.mark.parametrize("wanted", [(), ("add_loop_inductor",), ("mm_loop",)])
    def test_no_line_is_longer_than_a_terminal_is_wide(
        self, torchstone: Command, wanted: tuple[str, ...]
    ) -> None:
        lines = torchstone("explain", *BOTH, *wanted).out.splitlines()
        assert max(map(len, lines)) <= 80

    def test_names_too_long_keep_both_ends(self, torchstone: Command) -> None:
        assert "_PyObject_Ge\u2026AttrWithDict" in torchstone("explain", *BOTH, "add_loop_inductor").out

    def test_the_python_counter_is_said_to_see_no_cpp(self, torchstone: Command) -> None:
        note = "The python counter does not count C++ code"
        assert note in torchstone("explain", *BOTH, "mm_loop").out
        assert note not in torchstone("explain", *BOTH, "add_loop_inductor").out
        assert note in torchstone("explain", *BOTH, "mm_loop", "--format", "markdown").out
        assert note in torchstone("explain", *BOTH, "mm_loop", "--format", "json").out

    def test_without_a_case_all_are_listed_the_largest_change_first(self, torchstone: Command) -> None:
        lines = torchstone("explain", *BOTH).out.splitlines()
        assert lines[0] == "3 cases with a profile in both files, largest change first"
        assert [line.split()[0] for line in lines[2:5]] == ["mm_loop", "add_loop_inductor", "symint_sum"]
        assert lines[3].split() == [
            "add_loop_inductor",
            "2.88G",
            "2.942G",
            "+61.88M",
            "+2.1%",
            "inductor",
            "215%",
        ]
        assert "1 more case of both has no profile in both files." in lines

    def test_on_a_terminal_it_is_a_table_too(self, tmp_path: Path) -> None:
        child = start_on_terminal(tmp_path, "explain", *BOTH, "add_loop_inductor")
        child.expect("By compiler phase")
        child.expect("1,532,999,995")
        child.expect("run_extra_pass")
        child.expect_exact("walk.py")
        child.wait()
        assert child.exitstatus == 0


def test_help_has_examples_on_lines_of_their_own(torchstone: Command) -> None:
    out = torchstone("explain", "--help").out
    assert "  Examples:\n    torchstone explain main.jsonl mine.jsonl add_loop_eager\n" in out


def test_differences_of_the_environments_are_shown_first(torchstone: Command, save: Save) -> None:
    other = ENVIRONMENT | {"versions": {"torch": "2.14.0"}}
    save(run_of(of("a", BEFORE)), run_of(of("a", AFTER), environment=other))
    ran = torchstone("explain", *BOTH, "a")
    first, second = ran.out.splitlines()[:2]
    assert first == "The environments differ, which may be the cause:"
    assert second == "  torch is 2.14.0, was 2.13.0"
    assert json.loads(torchstone("explain", *BOTH, "--format", "json").out)["environment_differences"] == [
        "torch is 2.14.0, was 2.13.0"
    ]
    assert "torch is 2.14.0, was 2.13.0" in torchstone("explain", *BOTH, "a", "--format", "markdown").out


class TestFormats:
    @pytest.mark.usefixtures("large")
    def test_json_has_everything_exactly(self, torchstone: Command) -> None:
        found = json.loads(
            torchstone("explain", *BOTH, "add_loop_inductor", "--format", "json", "--top", "1").out
        )
        assert (found["format"], found["base"], found["new"]) == (1, *BOTH)
        (case,) = found["cases"]
        assert case["case"] == "compile_time::add_loop_inductor[device=cpu,backend=inductor]::instructions"
        assert (case["counter"], case["unit"], case["stacks_unit"]) == ("simulated", "instructions", "calls")
        total = sample_profile(changed=True)["total"]
        assert case["total"]["new"] == total
        assert case["total"]["change"] == sum(phase["change"] for phase in case["phases"])
        assert case["total"]["change"] == sum(function["change"] for function in case["functions"])
        assert ATTACK in {function["function"] for function in case["functions"]}
        assert case["path"][0]["name"] == "work"

    @pytest.mark.usefixtures("large")
    def test_json_of_all_cases_is_the_same_form(self, torchstone: Command) -> None:
        found = json.loads(torchstone("explain", *BOTH, "--format", "json").out)
        assert [case["name"] for case in found["cases"]] == ["mm_loop", "add_loop_inductor", "symint_sum"]

    def test_markdown_is_markdown_whatever_names_are_made_of(self, torchstone: Command, save: Save) -> None:
        name = "a|b `c` <script> @d \x1b[31m"
        new = profile([["dyn|amo", name, name, 9], ["inductor", "l", "f", 1]], stacks=stacks([name, 5, []]))
        save(run_of(of("x|y", BEFORE)), run_of(of("x|y", new)))
        for wanted in ((), ("x|y",)):
            text = torchstone("explain", *BOTH, *wanted, "--format", "markdown").out
            tokens = MarkdownIt("commonmark").enable("table").parse(text)
            assert not [token for token in tokens if token.type == "html_block"]
            assert not [
                below for token in tokens for below in token.children or [] if below.type == "html_inline"
            ]
            rows = [token for token in tokens if token.type == "tr_open"]
            assert len(rows) == (2 if not wanted else 9)
            assert "\x1b" not in text

    @pytest.mark.usefixtures("small")
    def test_markdown_has_the_tables(self, torchstone: Command) -> None:
        text = torchstone("explain", *BOTH, "add_loop", "--format", "markdown").out
        assert text.startswith("### torchstone explain: `add_loop`\n\n")
        assert "| inductor | 300,000 | 360,000 | +60,000 | 120% |" in text
        assert "| inductor | `malloc` | `libc.so.6` | 300,000 | 350,000 | +50,000 |" in text
        assert "      - +500 `extra_pass`" in text

    @pytest.mark.parametrize(
        ("name", "start"),
        [
            ("why.html", "<!doctype html>"),
            ("why.json", '{\n  "format": 1'),
            ("why.md", "### torchstone explain"),
            ("why.txt", "add_loop: 1,050,000 instructions"),
        ],
    )
    @pytest.mark.usefixtures("small")
    def test_a_file_is_what_its_name_says(
        self, torchstone: Command, tmp_path: Path, name: str, start: str
    ) -> None:
        ran = torchstone("explain", *BOTH, "add_loop", "-o", name)
        assert (tmp_path / name).read_text().startswith(start)
        assert ran.out.startswith("add_loop: 1,050,000 instructions")
        assert ran.out.endswith(f"\n\nwrote {name}\n")

    @pytest.mark.usefixtures("small")
    def test_format_decides_over_a_name_that_says_nothing(self, torchstone: Command, tmp_path: Path) -> None:
        torchstone("explain", *BOTH, "add_loop", "-o", "why", "--format", "json")
        assert json.loads((tmp_path / "why").read_text())["cases"]

    @pytest.mark.usefixtures("large")
    def test_the_page_of_all_cases_has_each(self, torchstone: Command, tmp_path: Path) -> None:
        torchstone("explain", *BOTH, "-o", "all.html")
        page = (tmp_path / "all.html").read_text()
        assert all(name in page for name in ("mm_loop", "add_loop_inductor", "symint_sum"))

    @pytest.mark.parametrize(
        ("number", "text"),
        [(0, "0"), (9_999, "9,999"), (12_345, "12.35k"), (-1_234_567, "-1.235M"), (2.5, "2.5"), (3e12, "3T")],
    )
    def test_numbers_fit_into_few_characters(self, number: float, text: str) -> None:
        assert short_number(number) == text


class TestBadInput:
    def refused(self, torchstone: Command, *arguments: str) -> str:
        ran = torchstone("explain", *arguments)
        assert (ran.code, ran.out) == (2, "")
        return ran.err

    @pytest.mark.usefixtures("small")
    def test_a_case_that_is_nowhere(self, torchstone: Command) -> None:
        err = self.refused(torchstone, *BOTH, "ad_loop")
        assert "new.jsonl has no case ad_loop" in err
        assert "did you mean compile_time::add_loop[" in err

    def test_a_case_that_is_not_in_base(self, torchstone: Command, save: Save) -> None:
        save(run_of(of("a", BEFORE)), run_of(of("a", AFTER), of("b", AFTER)))
        assert "base.jsonl has no case b" in self.refused(torchstone, *BOTH, "b")

    def test_another_variant_in_base(self, torchstone: Command, save: Save) -> None:
        save(run_of(of("a", BEFORE, dynamic=True)), run_of(of("a", AFTER)))
        err = self.refused(torchstone, *BOTH, "a")
        assert "base.jsonl has no case compile_time::a[device=cpu,backend=inductor]::instructions" in err
        assert "it has compile_time::a[device=cpu,backend=inductor,dynamic=true]::instructions" in err

    def test_a_name_that_means_several(self, torchstone: Command, save: Save) -> None:
        two = [(of("a", each), of("a", each, dynamic=True)) for each in (BEFORE, AFTER)]
        save(run_of(*two[0]), run_of(*two[1]))
        err = self.refused(torchstone, *BOTH, "a")
        assert "a matches 2 cases of both files" in err
        assert "dynamic=true" in err

    def test_of_several_the_one_with_profiles_is_meant(self, torchstone: Command, save: Save) -> None:
        save(
            run_of(of("a", None, dynamic=True), of("a", BEFORE)),
            run_of(of("a", None, dynamic=True), of("a", AFTER)),
        )
        assert "+50,000 (+5.0%)" in torchstone("explain", *BOTH, "a").out

    def test_no_profile_says_how_to_get_one(self, torchstone: Command, save: Save) -> None:
        save(run_of(of("a", BEFORE)), run_of(of("a", None)))
        advice = "measure both with: torchstone run ... --probe instructions --profile"
        err = self.refused(torchstone, *BOTH, "a")
        assert "new.jsonl has no profile of compile_time::a[" in err
        assert advice in err
        err = self.refused(torchstone, *BOTH)
        assert "none of 1 case has a profile in both files" in err
        assert advice in err

    def test_a_case_that_failed_says_so(self, torchstone: Command, save: Save) -> None:
        save(run_of(of("a", BEFORE)), run_of(outcome_of(case_of("a"), None, "timeout")))
        assert "its status is timeout" in self.refused(torchstone, *BOTH, "a")

    def test_a_case_without_an_outcome(self, torchstone: Command, save: Save) -> None:
        new = Run("new", (case_of("a"),), (), finished=False)
        save(run_of(of("a", BEFORE)), new)
        assert "new.jsonl has no outcome of" in self.refused(torchstone, *BOTH, "a")

    def test_two_counters_are_never_compared(self, torchstone: Command, save: Save) -> None:
        by_python = AFTER | {"counter": "python", "unit": "calls"}
        save(run_of(of("a", BEFORE), of("b", BEFORE)), run_of(of("a", by_python), of("b", AFTER)))
        err = self.refused(torchstone, *BOTH, "a")
        assert "base.jsonl was counted by simulated, new.jsonl by python" in err
        out = torchstone("explain", *BOTH).out
        assert "1 case with a profile" in out
        assert "a is left out: base.jsonl was counted by simulated" in " ".join(out.split())

    def test_stacks_on_one_side_only_are_mentioned(self, torchstone: Command, save: Save) -> None:
        without = {key: value for key, value in BEFORE.items() if key != "stacks"}
        save(run_of(of("a", without)), run_of(of("a", AFTER)))
        out = " ".join(torchstone("explain", *BOTH, "a").out.split())
        assert "new.jsonl has call stacks, base.jsonl has none; they are not shown." in out

    @pytest.mark.parametrize("wanted", [(), ("a",)])
    def test_a_malformed_profile_is_named_by_file_and_line(
        self,
        torchstone: Command,
        save: Save,
        wanted: tuple[str, ...],
    ) -> None:
        save(
            run_of(of("b", BEFORE), of("a", BEFORE)), run_of(of("b", AFTER), of("a", AFTER | {"total": "1"}))
        )
        err = self.refused(torchstone, *BOTH, *wanted)
        assert "new.jsonl:3: column outcome.details.profile.total: expected a number" in err

    @pytest.mark.usefixtures("small")
    def test_stacks_nested_too_deeply_for_a_file(self, torchstone: Command, write: WriteFile) -> None:
        deep = '["f",1,[' * 5_000 + "]]" * 5_000
        line = encode_run(run_of(of("add_loop", AFTER | {"stacks": "STACKS"}))).replace(
            '"STACKS"', '{"unit":"calls","tree":' + deep + "}"
        )
        write("new.jsonl", line)
        assert "nested too deeply" in self.refused(torchstone, *BOTH, "add_loop")

    @pytest.mark.usefixtures("small")
    def test_other_files_have_no_profiles(self, torchstone: Command, write: WriteFile) -> None:
        write("counts.csv", "add_loop,compile_time_instruction_count,1000\n")
        err = self.refused(torchstone, "counts.csv", BOTH[1], "add_loop")
        assert "counts.csv: expected a run file, but the format is pr-time" in err

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (("base.jsonl",), "base.jsonl: no case has a time profile"),
            ((*BOTH, "a", "b"), "expected two run files"),
            ((*BOTH, "add_loop", "--top", "0"), "--top 0"),
            ((*BOTH, "add_loop", "--format", "pdf"), "pdf"),
            ((*BOTH, "add_loop", "-o", "x.html", "--format", "json"), "x.html is an HTML page"),
            ((*BOTH, "add_loop", "-o", "base.jsonl"), "base.jsonl is an input file"),
            (("nowhere.jsonl", "new.jsonl"), "no such file"),
        ],
    )
    @pytest.mark.usefixtures("small")
    def test_bad_usage_is_explained(
        self, torchstone: Command, arguments: tuple[str, ...], problem: str
    ) -> None:
        assert problem in self.refused(torchstone, *arguments)

    def test_files_without_a_common_case(self, torchstone: Command, save: Save) -> None:
        save(run_of(of("a", BEFORE)), run_of(of("b", AFTER)))
        assert "have no case in common" in self.refused(torchstone, *BOTH)

    def test_an_unfinished_run_is_a_caution(self, torchstone: Command, save: Save) -> None:
        outcome = of("a", AFTER)
        new = Run("new", (outcome.case, case_of("b")), (outcome,), finished=False)
        save(run_of(of("a", BEFORE)), new)
        ran = torchstone("explain", *BOTH, "a")
        assert ran.code == 0
        assert "caution: new.jsonl: the run did not finish" in ran.err
