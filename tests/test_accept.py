from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pexpect
import pytest

from conftest import Command, WriteFile, start_on_terminal
from torchstone.baselines.margins import least_margin
from torchstone.baselines.propose import Proposal, find_repeatable, propose
from torchstone.baselines.row_changes import AdoptionOptions
from torchstone.core.config import parse_rule
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Reading, Run, Variant
from torchstone.core.run_file import decode_run, encode_run
from torchstone.formats import FORMATS
from torchstone.gate.rules import RuleBook

HEADER = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks\n"
BASELINE = """name,accuracy,graph_breaks



# the first one
alpha,pass,0



beta,fail_accuracy,3
"""


def results(**models: str) -> str:
    return HEADER + "".join(f"cuda,{name},8,{rest}\n" for name, rest in models.items())


def test_what_changed_is_adopted_and_everything_else_kept(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", BASELINE))
    ran = torchstone(
        "accept",
        write("r.csv", results(alpha="pass,9,1,2", beta="pass,9,1,3")),
        "--baseline",
        "e.csv",
        "--yes",
    )
    assert ran.code == 0
    assert path.read_text() == BASELINE.replace("alpha,pass,0", "alpha,pass,2").replace(
        "beta,fail_accuracy,3", "beta,pass,3"
    )
    assert torchstone("check", "r.csv", "--baseline", "e.csv").code == 0


def test_crlf_bom_and_quotes_survive(torchstone: Command, write: WriteFile) -> None:
    text = '\ufeffname,accuracy,graph_breaks\r\n"odd, name",pass,0\r\nplain,pass,0\r\n'
    path = Path(write("e.csv", text))
    rows = HEADER + 'cuda,"odd, name",8,OOM,1,1,0\ncuda,plain,8,pass,1,1,4\n'
    assert torchstone("accept", write("r.csv", rows), "--baseline", "e.csv", "--yes").code == 0
    assert (
        path.read_bytes().decode()
        == '\ufeffname,accuracy,graph_breaks\r\n"odd, name",OOM,0\r\nplain,pass,4\r\n'
    )


def test_dry_run_shows_a_unified_diff_and_writes_nothing(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", BASELINE))
    ran = torchstone("accept", write("r.csv", results(alpha="OOM,9,1,0")), "--baseline", "e.csv", "--dry-run")
    assert ran.code == 0
    assert "-alpha,pass,0\n+alpha,OOM,0\n" in ran.out
    assert path.read_text() == BASELINE


def test_without_a_terminal_it_must_be_told_yes(
    torchstone: Command, write: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(write("e.csv", BASELINE))
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        ran = torchstone("accept", write("r.csv", results(alpha="OOM,9,1,0")), "--baseline", "e.csv")
    assert ran.code == 2
    assert "--yes" in ran.err
    assert path.read_text() == BASELINE


@pytest.mark.parametrize(("answer", "code", "status"), [("y", 0, "OOM"), ("n", 1, "pass"), ("", 1, "pass")])
def test_on_a_terminal_it_asks(answer: str, code: int, status: str, write: WriteFile, tmp_path: Path) -> None:
    path = tmp_path / write("e.csv", BASELINE)
    write("r.csv", results(alpha="OOM,9,1,0"))
    child = start_on_terminal(tmp_path, "accept", "r.csv", "--baseline", "e.csv")
    child.expect_exact("[y/N]")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == code
    assert f"alpha,{status},0" in path.read_text()


def test_ctrl_c_at_the_question_writes_nothing(write: WriteFile, tmp_path: Path) -> None:
    path = tmp_path / write("e.csv", BASELINE)
    write("r.csv", results(alpha="OOM,9,1,0"))
    child = start_on_terminal(tmp_path, "accept", "r.csv", "--baseline", "e.csv")
    child.expect_exact("[y/N]")
    for _ in range(10):  # one that comes while the terminal is being set up for the answer is lost
        child.sendintr()
        if child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=5) == 0:
            break
    child.close()
    assert child.exitstatus == 130
    assert "Traceback" not in str(child.before)
    assert path.read_text() == BASELINE


class TestSeveralFiles:
    def files(self, write: WriteFile, *statuses: str) -> list[str]:
        return [write(f"r{n}.csv", results(alpha=f"{status},9,1,0")) for n, status in enumerate(statuses)]

    def test_files_that_agree_are_adopted(self, torchstone: Command, write: WriteFile) -> None:
        path = Path(write("e.csv", BASELINE))
        torchstone("accept", *self.files(write, "OOM", "OOM", "OOM"), "--baseline", "e.csv", "--yes")
        assert "alpha,OOM,0" in path.read_text()

    def test_a_row_that_disagrees_with_itself_is_held_back(
        self, torchstone: Command, write: WriteFile
    ) -> None:
        path = Path(write("e.csv", BASELINE))
        ran = torchstone("accept", *self.files(write, "OOM", "OOM", "pass"), "--baseline", "e.csv", "--yes")
        assert "OOM x2, pass x1" in ran.out
        assert path.read_text() == BASELINE

    def test_its_majority_is_adopted_if_asked(self, torchstone: Command, write: WriteFile) -> None:
        path = Path(write("e.csv", BASELINE))
        files = self.files(write, "OOM", "OOM", "pass")
        torchstone("accept", *files, "--baseline", "e.csv", "--yes", "--include-unstable")
        assert "alpha,OOM,0" in path.read_text()

    def test_a_tie_is_never_adopted(self, torchstone: Command, write: WriteFile) -> None:
        path = Path(write("e.csv", BASELINE))
        torchstone(
            "accept", *self.files(write, "OOM", "pass"), "--baseline", "e.csv", "--yes", "--include-unstable"
        )
        assert path.read_text() == BASELINE

    def test_a_repeat_that_crashed_is_the_same_row(self, torchstone: Command, write: WriteFile) -> None:
        path = Path(write("e.csv", BASELINE))
        crashed = write("c.csv", HEADER + "cuda,alpha,0,timeout\n")
        ran = torchstone(
            "accept", write("r.csv", results(alpha="pass,9,1,0")), crashed, "--baseline", "e.csv", "--yes"
        )
        assert "the files disagree" in ran.out
        assert path.read_text() == BASELINE

    def test_shards_and_repeats_may_be_mixed(self, torchstone: Command, write: WriteFile) -> None:
        path = Path(write("e.csv", BASELINE))
        shards = [write("a.csv", results(alpha="OOM,9,1,0")), write("b.csv", results(beta="pass,9,1,3"))]
        repeats = [write("a2.csv", results(alpha="OOM,9,1,0")), write("b2.csv", results(beta="pass,9,1,3"))]
        assert torchstone("accept", *shards, *repeats, "--baseline", "e.csv", "--yes").code == 0
        assert path.read_text() == BASELINE.replace("alpha,pass", "alpha,OOM").replace(
            "beta,fail_accuracy", "beta,pass"
        )


class TestInstructionCounts:
    TEXT = "one,instruction_count,1000000,0.03\n\n\n\ntwo,compile_time_instruction_count,2000000,0.015\n"

    @pytest.mark.parametrize(
        ("count", "adopted"),
        [(1009999, 1000000), (1010001, 1010000), (990001, 990001), (989999, 989900), (1234567, 1234000)],
    )
    def test_only_a_change_of_a_third_of_the_margin_is_adopted_at_four_digits(
        self, count: int, adopted: int, torchstone: Command, write: WriteFile
    ) -> None:
        path = Path(write("e.csv", self.TEXT))
        rows = f"one,instruction_count,{count}\ntwo,compile_time_instruction_count,2000000\n"
        assert torchstone("accept", write("r.csv", rows), "--baseline", "e.csv", "--yes").code == 0
        kept = abs(count - 1000000) / 1000000 <= 0.01
        assert path.read_text() == self.TEXT.replace("1000000", "1000000" if kept else str(adopted))

    def test_a_new_count_gets_the_customary_margin_and_gap(
        self, torchstone: Command, write: WriteFile
    ) -> None:
        path = Path(write("e.csv", self.TEXT))
        rows = "one,instruction_count,1000000\ntwo,compile_time_instruction_count,2000000\nthree,instruction_count,123456\n"
        torchstone("accept", write("r.csv", rows), "--baseline", "e.csv", "--yes", "--add-new")
        assert path.read_text() == self.TEXT.replace(
            "two,", "three,instruction_count,123400,0.03\n\n\n\ntwo,"
        )


def test_a_noisy_number_moves_only_beyond_a_third_of_its_rule(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", "name,compression_ratio\na,1.0\nb,1.0\n"))
    rows = (
        "dev,name,batch_size,speedup,abs_latency,compression_ratio\ncuda,a,8,1,1,1.016\ncuda,b,8,1,1,1.017\n"
    )
    torchstone("accept", write("r.csv", rows), "--baseline", "e.csv", "--yes")
    assert path.read_text() == "name,compression_ratio\na,1.0\nb,1.017\n"


def test_a_case_with_a_negative_time_is_not_adopted(torchstone: Command, write: WriteFile) -> None:
    case = Case("a", "performance", "smoke", Variant("cpu"))

    def text(latency: float, compiling: float) -> str:
        numbers = (Measurement("abs_latency", (latency,)), Measurement("compilation_latency", (compiling,)))
        return encode_run(Run("r", (case,), (Outcome(case, "pass", numbers),)))

    path = Path(write("base.jsonl", text(1.0, 6.0)))
    ran = torchstone("accept", write("new.jsonl", text(2.0, -0.1)), "--baseline", "base.jsonl", "--yes")
    assert "-0.1 is negative" in " ".join(ran.out.split())
    (outcome,) = decode_run("base.jsonl", path.read_text()).run.outcomes
    assert [each.value for each in outcome.measurements] == [1.0, 6.0]


def test_add_new_puts_rows_where_they_belong(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", BASELINE))
    rows = write(
        "r.csv", results(alpha="pass,9,1,0", beta="fail_accuracy,9,1,3", bach="pass,9,1,1", zeta="OOM,9,1,0")
    )
    assert "2 cases without a baseline row" in torchstone("accept", rows, "--baseline", "e.csv", "--yes").out
    assert path.read_text() == BASELINE
    torchstone("accept", rows, "--baseline", "e.csv", "--yes", "--add-new")
    gap = "\n\n\n"
    expected = BASELINE.replace("beta,", f"bach,pass,1\n{gap}beta,") + f"{gap}zeta,OOM,0\n"
    assert path.read_text() == expected


def test_prune_removes_rows_without_a_result_and_their_gap(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", BASELINE))
    rows = write("r.csv", results(alpha="pass,9,1,0"))
    assert "1 row without a result kept" in torchstone("accept", rows, "--baseline", "e.csv", "--yes").out
    torchstone("accept", rows, "--baseline", "e.csv", "--yes", "--prune")
    assert path.read_text() == BASELINE.split("beta", maxsplit=1)[0].rstrip() + "\n"


def test_only_limits_what_is_touched_prune_included(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", "name,accuracy\na,pass\nb,pass\nc,pass\n"))
    rows = write("r.csv", HEADER + "cuda,a,8,OOM,1,1,0\ncuda,b,8,OOM,1,1,0\n")
    torchstone("accept", rows, "--baseline", "e.csv", "--yes", "--prune", "--only", "a")
    assert path.read_text() == "name,accuracy\na,OOM\nb,pass\nc,pass\n"


def test_a_wide_baseline_is_updated_in_the_column_of_the_dtype(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", "name,float32,bfloat16\na,pass,pass\nb,,pass\n"))
    rows = write("r.csv", HEADER + "cuda,a,8,OOM,1,1,0\ncuda,b,8,pass,1,1,0\n")
    torchstone("accept", rows, "--baseline", "e.csv", "--yes", "--set", "dtype=float32", "--add-new")
    assert path.read_text() == "name,float32,bfloat16\na,OOM,pass\nb,pass,pass\n"


def test_a_run_file_is_enough(torchstone: Command, write: WriteFile) -> None:
    case = Case("alpha", "accuracy", "smoke", Variant("cpu"))
    run = Run("r", (case,), (Outcome(case, "timeout", (Measurement("graph_breaks", (0,)),)),))
    path = Path(write("e.csv", BASELINE))
    assert torchstone("accept", write("run.jsonl", encode_run(run)), "--baseline", "e.csv", "--yes").code == 0
    assert path.read_text() == BASELINE.replace("alpha,pass", "alpha,timeout")


def test_a_pinned_run_can_be_updated_too(torchstone: Command, write: WriteFile) -> None:
    cases = [Case(name, "accuracy") for name in ("a", "b")]

    def text(*statuses: str) -> str:
        return encode_run(
            Run("r", tuple(cases), tuple(Outcome(c, s) for c, s in zip(cases, statuses, strict=True)))
        )

    path = Path(write("base.jsonl", text("pass", "pass")))
    assert (
        torchstone(
            "accept", write("new.jsonl", text("pass", "OOM")), "--baseline", "base.jsonl", "--yes"
        ).code
        == 0
    )
    assert [o.status for o in decode_run("base.jsonl", path.read_text()).run.outcomes] == ["pass", "OOM"]


def test_of_a_pinned_run_only_what_is_shown_is_changed(torchstone: Command, write: WriteFile) -> None:
    case = Case("a", "accuracy")

    def text(status: str, breaks: int) -> str:
        return encode_run(
            Run("r", (case,), (Outcome(case, status, (Measurement("graph_breaks", (breaks,)),)),))
        )

    path = Path(write("base.jsonl", text("pass", 1)))
    failing = write("new.jsonl", text("fail_accuracy", 2))
    torchstone("accept", failing, "--baseline", "base.jsonl", "--yes", "--metric", "graph_breaks")
    assert path.read_text() == text("pass", 2)
    files = [write("f1.jsonl", text("pass", 3)), write("f2.jsonl", text("pass", 3)), failing]
    torchstone("accept", *files, "--baseline", "base.jsonl", "--yes", "--include-unstable")
    assert path.read_text() == text("pass", 3)


def test_a_v3_list_stays_a_list(torchstone: Command, write: WriteFile) -> None:
    def records(speedup: float) -> str:
        metrics = [
            {"name": "speedup", "benchmark_values": [speedup]},
            {"name": "abs_latency", "benchmark_values": [3.0]},
        ]
        return json.dumps(
            [{"model": {"name": "m"}, "runners": [{"name": "x"}], "metric": metric} for metric in metrics]
        )

    path = Path(write("b.json", records(1.5)))
    assert torchstone("accept", write("n.json", records(1.2)), "--baseline", "b.json", "--yes").code == 0
    assert json.loads(path.read_text()) == json.loads(records(1.2))


def test_a_result_that_contradicts_itself_is_not_adopted(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", "name,accuracy,graph_breaks\na,pass,5\n"))
    header = HEADER.replace("graph_breaks", "graph_breaks,unique_graph_breaks")
    ran = torchstone(
        "accept", write("r.csv", header + "cuda,a,8,pass,1,1,2,3\n"), "--baseline", "e.csv", "--yes"
    )
    assert "contradicts itself" in ran.out
    assert path.read_text().endswith("a,pass,5\n")


def test_a_baseline_that_changed_meanwhile_is_not_overwritten(write: WriteFile, tmp_path: Path) -> None:
    path = tmp_path / write("e.csv", BASELINE)
    write("r.csv", results(alpha="OOM,9,1,0"))
    child = start_on_terminal(tmp_path, "accept", "r.csv", "--baseline", "e.csv")
    child.expect_exact("[y/N]")
    path.write_text(BASELINE + "# somebody else's line\n")
    child.sendline("y")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2
    assert path.read_text() == BASELINE + "# somebody else's line\n"


def test_prune_leaves_dtypes_alone_that_were_not_measured(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", "name,float32,bfloat16\na,pass,pass\nb,pass,pass\n"))
    rows = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\n")
    torchstone("accept", rows, "--baseline", "e.csv", "--yes", "--prune", "--set", "dtype=float32")
    assert path.read_text() == "name,float32,bfloat16\na,pass,pass\nb,,pass\n"


def test_a_new_baseline_has_what_metric_chooses_and_no_rows_without_numbers(
    torchstone: Command, write: WriteFile
) -> None:
    rows = (
        "dev,name,batch_size,speedup,abs_latency,compression_ratio\ncuda,a,8,1.5,2.0,0.9\ncuda,b,0,0.0,0.0\n"
    )
    ran = torchstone(
        *(
            "accept",
            write("r.csv", rows),
            "--baseline",
            "n.csv",
            "--add-new",
            "--yes",
            "--metric",
            "compression_ratio",
        )
    )
    assert "no numbers to expect" in ran.out
    assert Path("n.csv").read_text() == "name,compression_ratio\na,0.9\n"


def test_new_counts_on_which_files_disagree_are_held_back(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", BASELINE))
    files = [write(f"r{n}.csv", results(gamma=f"pass,9,1,{n}")) for n in range(2)]
    ran = torchstone("accept", *files, "--baseline", "e.csv", "--add-new", "--yes")
    assert "new, but the files disagree: 0 x1, 1 x1" in ran.out
    assert path.read_text() == BASELINE


def test_the_numbers_of_a_crash_are_not_adopted_with_its_status(
    torchstone: Command, write: WriteFile
) -> None:
    path = Path(write("e.csv", "name,accuracy,graph_breaks\na,pass,3\n"))
    torchstone(
        "accept", write("r.csv", HEADER + "cuda,a,8,fail_to_run,0,0,0\n"), "--baseline", "e.csv", "--yes"
    )
    assert path.read_text() == "name,accuracy,graph_breaks\na,fail_to_run,3\n"


def test_a_new_count_keeps_the_digits_that_the_margin_of_the_others_needs(
    torchstone: Command, write: WriteFile
) -> None:
    write("e.csv", "a,instruction_count,1000000,0.0001\n")
    rows = write("r.csv", "a,instruction_count,1000000\nb,instruction_count,29509285107\n")
    assert torchstone("accept", rows, "--baseline", "e.csv", "--yes", "--add-new").code == 0
    assert torchstone("check", rows, "--baseline", "e.csv").code == 0


def test_a_report_that_cannot_hold_what_is_left_is_not_written(torchstone: Command, write: WriteFile) -> None:
    rounds = [{"ranks": list(range(n)), "measurements": [0.1, 0.1]} for n in (1, 1, 2)]
    base = json.dumps({"benchmark_results": [{"model": "m", "batch_size": 32, "result": rounds}]})
    test = json.dumps({"benchmark_results": [{"model": "m", "batch_size": 32, "result": rounds[:1]}]})
    path = Path(write("b.json", base))
    ran = torchstone(
        *("accept", write("t.json", test), "--baseline", "b.json", "--yes", "--add-new", "--prune"),
        *("--only", "m[batch_size=32,ranks=1,strategy=ddp]::scaling"),
    )
    assert ran.code == 0
    assert len(json.loads(path.read_text())["benchmark_results"][0]["result"]) == 2
    other = json.dumps({"benchmark_results": [{"model": "n", "batch_size": 32, "result": rounds}]})
    ran = torchstone(
        *("accept", write("o.json", other), "--baseline", "b.json", "--yes", "--add-new"),
        *("--only", "n[batch_size=32,ranks=2,strategy=ddp]::scaling"),
    )
    assert (ran.code, "cannot hold" in ran.err) == (2, True)


class TestPrune:
    def test_refuses_results_of_another_probe(self, torchstone: Command, write: WriteFile) -> None:
        path = Path(write("e.csv", BASELINE))
        rows = write("p.csv", "dev,name,batch_size,speedup,abs_latency\ncuda,x,8,1.5,2.0\n")
        assert torchstone("accept", rows, "--baseline", "e.csv", "--yes", "--prune").code == 2
        assert path.read_text() == BASELINE

    def test_keeps_rows_whose_results_cannot_be_compared(self, torchstone: Command, write: WriteFile) -> None:
        header = "dev,name,batch_size,speedup,abs_latency\n"
        path = Path(write("b.csv", header + "cuda,a,4,1.5,2.0\n"))
        torchstone(
            "accept", write("r.csv", header + "cuda,a,8,1.5,2.0\n"), "--baseline", "b.csv", "--yes", "--prune"
        )
        assert path.read_text() == header + "cuda,a,4,1.5,2.0\n"

    def test_keeps_rows_that_an_unfinished_run_did_not_get_to(
        self, torchstone: Command, write: WriteFile
    ) -> None:
        cases = [Case(name, "accuracy") for name in ("alpha", "beta")]
        run = Run(
            "r",
            tuple(cases),
            (Outcome(cases[0], "pass", (Measurement("graph_breaks", (0,)),)),),
            finished=False,
        )
        path = Path(write("e.csv", BASELINE))
        ran = torchstone(
            "accept", write("r.jsonl", encode_run(run)), "--baseline", "e.csv", "--yes", "--prune"
        )
        assert path.read_text() == BASELINE
        assert "did not finish" in ran.out

    def test_keeps_rows_that_a_pattern_means_by_another_name(
        self, torchstone: Command, write: WriteFile
    ) -> None:
        path = Path(write("e.csv", BASELINE))
        rows = write("r.csv", results(alpha="pass,9,1,0"))
        torchstone("accept", rows, "--baseline", "e.csv", "--yes", "--prune", "--only", "alpha::accuracy")
        assert path.read_text() == BASELINE


@pytest.mark.parametrize(
    ("old", "margin", "new", "written"),
    [
        ("1.93", "0.1", "7.93", "7.93"),
        ("1000000", "0.0005", "1234999", "1234900"),
        ("1000000", "0.1", "1234999", "1234000"),
        ("0.5", "0.1", "1.5e-10", "1.5e-10"),
    ],
)
def test_a_number_is_written_so_that_it_passes(
    old: str, margin: str, new: str, written: str, torchstone: Command, write: WriteFile
) -> None:
    path = Path(write("e.csv", f"a,some_metric,{old},{margin}\n"))
    rows = write("r.csv", f"a,some_metric,{new}\n")
    assert torchstone("accept", rows, "--baseline", "e.csv", "--yes").code == 0
    assert path.read_text() == f"a,some_metric,{written},{margin}\n"
    assert torchstone("check", rows, "--baseline", "e.csv").code == 0


def test_if_a_status_is_held_back_so_is_the_rest_of_its_row(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", BASELINE))
    files = [write("r0.csv", results(alpha="pass,9,1,7"))]
    files += [write(f"r{n}.csv", HEADER + "cuda,alpha,0,timeout\n") for n in (1, 2)]
    torchstone("accept", *files, "--baseline", "e.csv", "--yes")
    assert path.read_text() == BASELINE


def test_a_new_benchmark_of_two_dtypes_is_one_row(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", "name,float32,bfloat16\nb,pass,pass\n"))
    cases = [Case("a", "accuracy", variant=Variant(dtype=dtype)) for dtype in ("float32", "bfloat16")]
    run = Run("r", tuple(cases), tuple(Outcome(case, "pass") for case in cases))
    torchstone("accept", write("r.jsonl", encode_run(run)), "--baseline", "e.csv", "--yes", "--add-new")
    assert path.read_text() == "name,float32,bfloat16\na,pass,pass\nb,pass,pass\n"


def test_a_new_count_goes_below_the_header(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", "name,metric,expected,margin\nqq,instruction_count,100,0.1\n"))
    rows = write("r.csv", "qq,instruction_count,100\naa,instruction_count,5\n")
    torchstone("accept", rows, "--baseline", "e.csv", "--yes", "--add-new")
    assert path.read_text().splitlines()[1:] == ["aa,instruction_count,5,0.1", "qq,instruction_count,100,0.1"]


def test_of_a_result_file_as_baseline_another_batch_size_is_a_row_of_its_own(
    torchstone: Command, write: WriteFile
) -> None:
    header = "dev,name,batch_size,tag,speedup,abs_latency\n"
    path = Path(write("b.csv", header + "cuda,a,4,,1.5,2.0\n"))
    rows = write("r.csv", header + "cuda,a,4,,1.5,2.0\ncuda,a,8,x,1.5,2.0\n")
    torchstone("accept", rows, "--baseline", "b.csv", "--yes", "--add-new")
    assert path.read_text() == header + "cuda,a,4,,1.5,2.0\ncuda,a,8,x,1.5,2\n"


def test_a_row_of_a_failure_is_not_filled_with_zeros(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("b.csv", HEADER + "cuda,a,0,fail_to_run,0,0,0\n"))
    ran = torchstone(
        "accept", write("r.csv", HEADER + "cuda,a,8,pass,9,1,3\n"), "--baseline", "b.csv", "--yes"
    )
    assert "remove it, and use --add-new" in ran.out
    assert path.read_text() == HEADER + "cuda,a,0,fail_to_run,0,0,0\n"


def test_a_new_baseline_can_be_started(torchstone: Command, write: WriteFile) -> None:
    rows = write("r.csv", results(alpha="pass,9,1,0", beta="OOM,9,1,3"))
    assert torchstone("accept", rows, "--baseline", "fresh.csv", "--yes").code == 2
    assert not Path("fresh.csv").exists()
    assert torchstone("accept", rows, "--baseline", "fresh.csv", "--yes", "--add-new").code == 0
    assert torchstone("check", rows, "--baseline", "fresh.csv").code == 0


def test_nothing_to_change_writes_nothing(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", BASELINE))
    before = path.stat().st_mtime_ns
    ran = torchstone(
        "accept",
        write("r.csv", results(alpha="pass,9,1,0", beta="fail_accuracy,9,1,3")),
        "--baseline",
        "e.csv",
    )
    assert (ran.code, "nothing to change" in ran.out) == (0, True)
    assert path.stat().st_mtime_ns == before


def test_permissions_and_links_of_the_baseline_survive(torchstone: Command, write: WriteFile) -> None:
    real = Path(write("real.csv", BASELINE))
    real.chmod(0o640)
    link = Path("link.csv")
    link.symlink_to("real.csv")
    torchstone("accept", write("r.csv", results(alpha="OOM,9,1,0")), "--baseline", "link.csv", "--yes")
    assert link.is_symlink()
    assert "alpha,OOM" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in Path().iterdir() if path.name.endswith(".tmp")] == []


def test_metric_limits_what_is_adopted(torchstone: Command, write: WriteFile) -> None:
    path = Path(write("e.csv", BASELINE))
    rows = write("r.csv", results(alpha="fail_accuracy,9,1,7"))
    torchstone("accept", rows, "--baseline", "e.csv", "--yes", "--metric", "graph_breaks")
    assert path.read_text() == BASELINE.replace("alpha,pass,0", "alpha,pass,7")


COUNT = "compile_time_instruction_count"


def counted(name: str, counter: str, **values: float) -> Outcome:
    details = MeasurementDetails(counter=counter) if counter else None
    measurements = tuple(Measurement(metric, (value,), details) for metric, value in values.items())
    return Outcome(Case(name, "instructions", "compile_time"), "pass", measurements)


def run_of(*outcomes: Outcome) -> str:
    return encode_run(Run("run", tuple(outcome.case for outcome in outcomes), outcomes))


class TestCounters:
    def test_counts_of_another_counter_are_held_back(self, torchstone: Command, write: WriteFile) -> None:
        before = run_of(counted("add", "hardware", **{COUNT: 100}))
        path = Path(write("before.jsonl", before))
        now = write("now.jsonl", run_of(counted("add", "simulated", **{COUNT: 200})))
        ran = torchstone("accept", now, "--baseline", "before.jsonl", "--yes")
        assert "counted by the simulated counter, the baseline by the hardware one" in ran.out
        assert path.read_text() == before

    @pytest.mark.parametrize("options", [(), ("--add-new",)])
    def test_files_of_two_counters_are_held_back(
        self, options: tuple[str, ...], torchstone: Command, write: WriteFile
    ) -> None:
        text = f"{'other' if options else 'add'},{COUNT},100,0.01\n"
        path = Path(write("e.csv", text))
        files = [
            write(f"{counter}.jsonl", run_of(counted("add", counter, **{COUNT: 200})))
            for counter in ("hardware", "simulated")
        ]
        ran = torchstone("accept", *files, "--baseline", "e.csv", "--yes", *options)
        assert "the files were counted by different counters: hardware, simulated" in ran.out
        assert path.read_text() == text

    def test_what_is_never_judged_gets_no_row_unless_it_is_asked_for(
        self, torchstone: Command, write: WriteFile
    ) -> None:
        now = write("now.jsonl", run_of(counted("add", "hardware", **{COUNT: 100, f"{COUNT}_tree": 900})))
        torchstone("accept", now, "--baseline", "new.csv", "--add-new", "--yes")
        assert Path("new.csv").read_text() == f"add,{COUNT},100,0.015\n"
        torchstone("accept", now, "--baseline", "new.csv", "--add-new", "--yes")
        assert Path("new.csv").read_text() == f"add,{COUNT},100,0.015\n"
        torchstone("accept", now, "--baseline", "new.csv", "--add-new", "--yes", "--metric", "*_tree")
        assert f"add,{COUNT}_tree,900,0.015" in Path("new.csv").read_text()

    @pytest.mark.parametrize("before", ["", f"other,{COUNT},100,0.01\n"])
    def test_a_time_gets_the_wider_margin_that_times_have(
        self, before: str, torchstone: Command, write: WriteFile
    ) -> None:
        if before:
            write("new.csv", before)
        now = write("now.jsonl", run_of(counted("add", "cpu_time", compile_time_cpu_seconds=1.25)))
        torchstone("accept", now, "--baseline", "new.csv", "--add-new", "--yes")
        assert "add,compile_time_cpu_seconds,1.25" in Path("new.csv").read_text()
        assert ",0.3\n" in Path("new.csv").read_text()

    def test_what_is_not_available_changes_no_row_and_adds_none(
        self, torchstone: Command, write: WriteFile
    ) -> None:
        gone = [
            Outcome(Case(name, "instructions"), "not_available", failure=Failure("", "no cuda"))
            for name in ("known", "unknown")
        ]
        path = Path(write("e.csv", f"known,{COUNT},100,0.01\n"))
        now = write("now.jsonl", run_of(*gone))
        ran = torchstone("accept", now, "--baseline", "e.csv", "--add-new", "--yes")
        assert "no value: not_available" in ran.out
        assert "unknown" not in ran.out
        assert path.read_text() == f"known,{COUNT},100,0.01\n"


class TestMargins:
    """What repeats make of a baseline: the first reading is the file, each further one a repeat of it."""

    TEXT = f"add,{COUNT},1000000,0.1\n\n\n\nmul,{COUNT},500,0.02\n"

    def reading(self, **values: int | str) -> Reading:
        outcomes = tuple(
            counted(name, "simulated", **{COUNT: value})
            if isinstance(value, int)
            else Outcome(Case(name, "instructions", "compile_time"), value, failure=Failure("", "too slow"))
            for name, value in values.items()
        )
        run = Run("run", tuple(outcome.case for outcome in outcomes), outcomes)
        return Reading("run.jsonl", "run", run, (1,) * len(outcomes))

    def propose(
        self, *readings: Reading, text: str = TEXT, add_new: bool = False, rule: str = ""
    ) -> Proposal:
        baseline = FORMATS["pr-time-expected"].read("e.csv", text)
        wish = AdoptionOptions(add_new=add_new, margins=True)
        return propose(baseline, text, readings, RuleBook([parse_rule(rule)] if rule else ()), wish)

    def test_a_row_gets_the_median_and_the_margin_of_its_repeats(self) -> None:
        values = (1_040_000, 1_040_100, 1_040_200, 1_039_900, 1_040_000, 1_040_100)
        proposal = self.propose(*(self.reading(add=value) for value in values))
        (change,) = proposal.changes
        assert (change.action, change.old, change.note) == ("change", 1_000_000, "median of 6")
        assert change.spread == pytest.approx(300 / 1_039_900)
        assert change.old_margin == 0.1
        assert change.margin == 0.001  # 7.4 standard deviations of 0.01 % are less than the least
        assert proposal.text == self.TEXT.replace("1000000,0.1", f"{change.new},0.001")
        assert abs(1_040_050 - int(str(change.new))) < 1_040_050 * 0.001 / 3

    def test_a_margin_covers_the_repeats_around_the_value_that_stays(self) -> None:
        values = (1_000_000, 1_010_000, 1_005_000)
        (change,) = self.propose(*(self.reading(add=value) for value in values)).changes
        assert change.new == change.old == 1_000_000
        # 36.5 standard deviations of 0.5 %, and the half per cent that it is off
        assert change.margin == 0.21

    def test_a_value_that_moved_by_less_than_the_old_margin_but_more_than_the_new_one_is_adopted(
        self,
    ) -> None:
        (change,) = self.propose(*(self.reading(add=1_009_000) for _ in range(4))).changes
        assert (change.new, change.margin) == (1_009_000, 0.001)

    def test_what_is_as_it_was_is_shown_and_kept(self) -> None:
        text = self.TEXT.replace("0.1", "0.001")
        proposal = self.propose(*(self.reading(add=1_000_000) for _ in range(4)), text=text)
        (change,) = proposal.changes
        assert (change.action, change.spread, change.margin) == ("keep", 0, 0.001)
        assert proposal.adopted == []
        assert proposal.text == text

    def test_a_case_whose_repeat_failed_is_held_back_and_the_others_are_not(self) -> None:
        readings = [self.reading(add=2_000_000, mul=500) for _ in range(3)]
        proposal = self.propose(*readings, self.reading(add="timeout", mul=500))
        held, changed = proposal.changes
        assert (held.action, held.note) == ("hold", "repeat 3 of 3 failed: timeout (too slow)")
        assert (changed.action, changed.case.name, changed.margin) == ("change", "mul", 0.001)
        assert f"add,{COUNT},1000000,0.1\n" in proposal.text

    def test_repeats_that_lie_too_far_apart_are_held_back(self) -> None:
        readings = [self.reading(add=value) for value in (1_000, 1_500, 900)]
        (held,) = self.propose(*readings).changes
        assert held.action == "hold"
        assert "vary too much for any margin" in held.note
        assert held.spread == pytest.approx(600 / 900)
        (held,) = self.propose(*readings, text=f"mul,{COUNT},500,0.02\n", add_new=True).changes
        assert (held.action, "vary too much" in held.note) == ("hold", True)

    def test_a_new_row_gets_its_own_margin_and_not_the_customary_one(self) -> None:
        proposal = self.propose(*(self.reading(new=7_000) for _ in range(3)), add_new=True)
        (change,) = proposal.changes
        assert (change.action, change.new, change.margin, change.spread) == ("add", 7_000, 0.001, 0)
        assert f"new,{COUNT},7000,0.001" in proposal.text

    def test_a_new_row_whose_repeat_failed_is_held_back(self) -> None:
        readings = [self.reading(new=7_000), self.reading(new=7_000), self.reading(new="worker_died")]
        proposal = self.propose(*readings, add_new=True)
        (held,) = proposal.changes
        assert held.note == "new, but repeat 2 of 2 failed: worker_died (too slow)"
        assert proposal.text == self.TEXT

    def test_a_rule_with_a_margin_of_its_own_is_pointed_out(self) -> None:
        readings = [self.reading(add=1_000_000) for _ in range(3)]
        (change,) = self.propose(*readings, rule=f"{COUNT}=margin:0.02").changes
        assert change.note == "a rule sets its own margin, which takes precedence"
        assert change.old_margin == 0.02

    def test_a_run_file_keeps_the_margin_with_what_it_measured(self) -> None:
        readings = [self.reading(add=value) for value in (1_000, 1_000, 1_000)]
        text = encode_run(readings[0].run)
        baseline = FORMATS["run"].read("base.jsonl", text)
        proposal = propose(baseline, text, readings, RuleBook(), AdoptionOptions(margins=True))
        (measurement,) = decode_run("base.jsonl", proposal.text).run.outcomes[0].measurements
        assert measurement.details == MeasurementDetails(counter="simulated", margin=0.001)
        assert measurement.samples == (1_000,)

    def test_only_counted_cases_that_were_measured_well_are_measured_again(self) -> None:
        reading = self.reading(mul=500, add=1_000, gone="timeout", new=7, zero=0)
        baseline = FORMATS["pr-time-expected"].read("e.csv", self.TEXT + f"gone,{COUNT},5,0.1\n")
        names = [case.name for case in find_repeatable(baseline, reading, AdoptionOptions())]
        assert names == ["mul", "add"]
        names = [
            case.name
            for case in find_repeatable(baseline, reading, AdoptionOptions(add_new=True, only=("[an]*",)))
        ]
        assert names == ["add", "new"]


@pytest.mark.parametrize(
    ("metric", "counter", "least"),
    [
        (COUNT, "hardware", 0.001),
        (COUNT, "simulated", 0.001),
        (COUNT, "", 0.001),
        ("python_calls", "python", 0.001),
        ("of_my_own", "hardware", 0.001),
        ("of_my_own", "", 0.05),
        ("cpu_seconds", "cpu_time", 0.05),
        ("import_time_us", "", 0.05),
    ],
)
def test_margins_of_counts_may_be_narrower_than_those_of_times(
    metric: str, counter: str, least: float
) -> None:
    assert least_margin(Measurement(metric, (1,), MeasurementDetails(counter=counter))) == least
