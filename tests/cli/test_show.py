"""``torchstone show``: a run again on the terminal, and everything about one case; the same from Python."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import torchstone as public
from conftest import Command, start_on_terminal
from live_processes import read_run
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.records import Run
from torchstone.core.run_file import encode_run
from torchstone.measure.executors.fake import FakeExecutor, Script, crashes, fails, passes
from torchstone.measure.executors.selection import using_executor
from torchstone.worker.protocol.caution_message import caution_message
from torchstone.worker.protocol.jobs import MeasureJob
from torchstone.worker.protocol.replies import BenchmarkFound

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
LOG = "".join(f"line {number}\n" for number in range(1, 41))


def measure(job: MeasureJob) -> Script:
    match job.benchmark:
        case "slow":
            busy = caution_message(CautionKind.BUSY_MACHINE, rate=12.0, share=0.6, threads=1)
            return passes(0.8, cautions=[busy])
        case "wrong":
            return fails("fail_accuracy", "output: 3 of 4 elements differ", "compare", LOG)
        case "dead":
            return crashes()
    return passes()


@pytest.fixture
def run_file(torchstone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A run of four benchmarks, of which two fail."""
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "kept"))
    (tmp_path / "bench_it.py").write_text("")
    names = ("good", "slow", "wrong", "dead")
    found = [BenchmarkFound(name, 4, modes=("inference",)) for name in names]
    with using_executor(FakeExecutor(measure, found)):
        said = torchstone("run", "bench_it.py", "--probe", "performance", "-o", "run.jsonl", "--jobs", "1")
        (tmp_path / "said.txt").write_text(said.out)
        yield "run.jsonl"


def test_a_run_is_shown_as_it_was_printed(torchstone: Command, run_file: str, tmp_path: Path) -> None:
    said = (tmp_path / "said.txt").read_text()
    ran = torchstone("show", run_file)
    assert ran.code == 0
    lines, summary = said.split("\n\n", 1)
    for line in lines.splitlines():
        assert line.partition("] ")[2] in ran.out.splitlines()
    for line in summary.partition("\n\nrun file: ")[0].splitlines()[1:]:
        assert line in ran.out.splitlines()
    assert "stop that work (1 case: slow)" in " ".join(ran.out.split())


def test_tracebacks_and_the_end_of_logs_follow(torchstone: Command, run_file: str) -> None:
    shown = torchstone("show", run_file).out
    assert "  log (the last 20 of 40 lines):\n    line 21\n" in shown
    assert "    line 40\n" in shown
    one = torchstone("show", run_file, "wrong").out
    assert "  log:\n    line 1\n" in one


def test_a_case_is_shown_with_all_that_is_known_of_it(torchstone: Command, run_file: str) -> None:
    shown = torchstone("show", run_file, "slow").out
    (case,) = [each for each in read_run(Path(run_file)).run.plan if each.benchmark == "slow"]
    words = [line.split() for line in shown.splitlines()]
    assert words[0] == [case.id]
    assert ["speedup", "0.800x", "0.792", "to", "0.808"] in [each[:5] for each in words]
    assert "caution: other work took the processor away 12 times a second" in " ".join(shown.split())
    assert f"torchstone repro {run_file} '{case.id}'" in shown
    assert "good" not in shown


@pytest.mark.parametrize("wanted", ["*", "*::performance", "[gw]*"])
def test_a_pattern_shows_every_case_that_matches(torchstone: Command, run_file: str, wanted: str) -> None:
    shown = torchstone("show", run_file, wanted)
    assert shown.code == 0
    assert [name for name in ("good", "wrong") if f"::{name}[" in shown.out] == ["good", "wrong"]
    assert shown.out.count("measure it again:") == (2 if wanted == "[gw]*" else 4)


def test_a_case_that_is_not_there_is_an_error_with_a_hint(torchstone: Command, run_file: str) -> None:
    ran = torchstone("show", run_file, "god")
    assert ran.code == 2
    assert "run.jsonl has no case god" in ran.err
    assert "did you mean bench_it::good[" in ran.err
    assert not ran.out


def test_json_has_the_same(torchstone: Command, run_file: str) -> None:
    told = json.loads(torchstone("show", run_file, "--format", "json").out)
    assert (told["planned"], told["measured"], told["finished"]) == (4, 4, True)
    cases = {case["benchmark"]: case for case in told["cases"]}
    (speedup,) = [each for each in cases["slow"]["metrics"] if each["metric"] == "speedup"]
    assert (speedup["value"], speedup["unit"]) == (0.8, "x")
    assert speedup["interval"] == pytest.approx([0.792, 0.808])
    assert cases["slow"]["cautions"][0]["advice"] == "stop that work"
    assert cases["wrong"]["failure"]["phase"] == "compare"
    assert cases["wrong"]["log"] == LOG
    (one,) = json.loads(torchstone("show", run_file, "dead", "--format", "json").out)["cases"]
    assert one == cases["dead"]


def unfinished(path: Path) -> None:
    run = read_run(path).run
    half = Run(
        run.id, run.plan, run.outcomes[:2], run.revision, run.environment, run.settings, finished=False
    )
    path.write_text(encode_run(half))


def test_an_unfinished_run_says_what_is_left(torchstone: Command, run_file: str, tmp_path: Path) -> None:
    unfinished(tmp_path / run_file)
    ran = torchstone("show", run_file)
    assert ran.code == 0
    assert (
        "the run is not finished: 2 cases left; finish it:\n  torchstone run --resume run.jsonl\n" in ran.out
    )
    missing = torchstone("show", run_file, "dead").out
    assert "  missing, in run.jsonl\n" in missing


def test_a_file_of_another_format_is_shown_too(torchstone: Command, tmp_path: Path) -> None:
    name = "inductor_huggingface_amp_training_cuda_accuracy.csv"
    shutil.copy(EXAMPLES / name, tmp_path)
    shown = torchstone("show", name)
    assert shown.code == 0
    assert "pass AlbertForMaskedLM" in shown.out
    assert "16/18 (89%)" in shown.out
    assert "fail_accuracy" in torchstone("show", name, "BertForMaskedLM").out


@pytest.mark.parametrize("arguments", [["a", "b", "c"], ["a", "b", "--no-such"]])
def test_the_wrong_number_of_arguments_is_an_error(torchstone: Command, arguments: list[str]) -> None:
    assert torchstone("show", *arguments).code == 2


def test_a_broken_file_is_an_error(torchstone: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"kind":"run"\n')
    ran = torchstone("show", "bad.jsonl")
    assert ran.code == 2
    assert "bad.jsonl" in ran.err
    assert torchstone("show", "none.jsonl").code == 2


def test_python_gives_the_same_text_and_typed_cases(torchstone: Command, run_file: str) -> None:
    result = public.show(run_file)
    assert f"{result}\n" == torchstone("show", run_file).out
    assert str(public.show(run_file, "slow")) == torchstone("show", run_file, "slow").out.rstrip("\n")
    assert {case.case.benchmark: case.status for case in result.cases} == {
        "good": "pass",
        "slow": "pass",
        "wrong": "fail_accuracy",
        "dead": "worker_died",
    }
    assert result.render("json") == torchstone("show", run_file, "--format", "json").out
    assert public.show(public.read(run_file), "good").cases[0].metrics[0].samples >= 1
    assert "<pre>" in result._repr_html_()
    with pytest.raises(public.UsageError, match="expected text or json"):
        result.render("html")


def test_on_a_terminal_of_80_columns_numbers_and_tables_fit(
    torchstone: Command, run_file: str, tmp_path: Path
) -> None:
    assert torchstone("show", run_file).code == 0
    child = start_on_terminal(tmp_path, "show", run_file, env={"NO_COLOR": "1"})
    text = child.read()
    child.wait()
    assert child.exitstatus == 0
    lines = [line.rstrip() for line in text.replace("\r", "").splitlines()]
    allowed = ("bench_it::", "  torchstone repro")  # ids and commands are never broken
    assert max(len(line) for line in lines if not line.startswith(allowed)) <= 80
    assert "pass good  perf  1.500x (1.485 to 1.515), compile 3 s" in lines
