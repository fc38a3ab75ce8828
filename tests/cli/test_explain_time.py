"""`torchstone explain` for time: eager against compiled, two runs, every format, the trace, and what is said where there is none."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from markdown_it import MarkdownIt

from conftest import Command, WriteFile
from time_samples import (
    DECOMPOSED,
    GEMM_16,
    GEMM_32,
    RECORDED,
    kernel,
    profile,
    side,
    timed_case,
    timed_outcome,
    timed_run,
)
from torchstone.core.details.time_profile import SideTime
from torchstone.core.run_file import encode_run

ATTACK = "</script><img src=x onerror=alert(1)>\x1b[31m"


@pytest.fixture
def bert(tmp_path: Path) -> str:
    """A run file that was recorded on an H200."""
    shutil.copy(RECORDED, tmp_path / "run.jsonl")
    return "run.jsonl"


# What is shown


def test_a_recorded_bert_is_explained_in_80_columns(torchstone: Command, bert: str) -> None:
    ran = torchstone("explain", bert, "BertForMaskedLM")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:2] == [
        "BertForMaskedLM: device time a call on NVIDIA H200: eager 10.41 ms, compiled",
        "18.30 ms: +7.885 ms (+75.7%).",
    ]
    assert "  - 24 matrix products run in float32 although the model is bfloat16, 47% of the" in lines
    families = lines.index("By family, in ms of device time a call")
    assert lines[families + 1 : families + 5] == [
        "family                    eager  compiled  change    launches",
        "matrix products float32       0     8.478  +8.478     0 -> 24",
        "softmax                       0     2.291  +2.291     0 -> 12",
        "matrix products bfloat16  7.242     5.045  -2.197          74",
    ]
    assert any(line.startswith("sm80_xmma_gemm_f32f") and "new" in line for line in lines)
    assert any("bert.encoder" in line and "modeling_bert.py" in line for line in lines)


def test_two_runs_are_compared_by_their_compiled_calls(torchstone: Command, write: WriteFile) -> None:
    better = profile(DECOMPOSED.eager, side(kernel(GEMM_16, 5.0, 36)), tf32=True, torch="2.13.0")
    write("base.jsonl", encode_run(timed_run(timed_outcome(DECOMPOSED))))
    write("new.jsonl", encode_run(timed_run(timed_outcome(better))))
    ran = torchstone("explain", "base.jsonl", "new.jsonl", "mlp")
    assert (ran.code, ran.err) == (0, "")
    assert "base 15.00 ms, new 5.000 ms: -10.00 ms (-66.7%)." in ran.out.replace("\n", " ")
    assert "Both sides are compiled calls." in ran.out
    assert "torch 2.11.0 against 2.13.0" in ran.out
    assert "TF32 is on in new, off in base." in ran.out
    assert "run in float32" not in ran.out  # that was so in base


@pytest.mark.parametrize("style", ["text", "markdown", "html"])
def test_work_that_no_line_launches_says_so(torchstone: Command, write: WriteFile, style: str) -> None:
    wrapped = side(kernel("CompiledFxGraph", 5.0, module="Net"), kernel("aten::mm", 1.0, place="net.py:3"))
    write("run.jsonl", encode_run(timed_run(timed_outcome(profile(DECOMPOSED.eager, wrapped)))))
    if style == "html":
        assert torchstone("explain", "run.jsonl", "mlp", "-o", "page.html").code == 0
        shown = Path("page.html").read_text()
    else:
        shown = torchstone("explain", "run.jsonl", "mlp", "--format", style).out
    assert shown.count("(no line)") == 1
    assert "net.py:3" in shown


def test_a_hint_that_held_before_says_so(torchstone: Command, write: WriteFile) -> None:
    write("base.jsonl", encode_run(timed_run(timed_outcome(DECOMPOSED))))
    write("new.jsonl", encode_run(timed_run(timed_outcome(DECOMPOSED))))
    assert "(In base too.)" in torchstone("explain", "base.jsonl", "new.jsonl", "mlp").out.replace(
        "\n    ", " "
    )


def test_without_a_case_all_cases_are_listed_with_the_largest_change_first(
    torchstone: Command, write: WriteFile
) -> None:
    small = profile(side(kernel(GEMM_16, 1.0)), side(kernel(GEMM_16, 1.1)))
    run = timed_run(
        timed_outcome(small, timed_case("small")),
        timed_outcome(DECOMPOSED, timed_case("large")),
        timed_outcome(None, timed_case("without")),
    )
    write("run.jsonl", encode_run(run))
    ran = torchstone("explain", "run.jsonl")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["large", "small"]
    assert "matrix products float32" in lines[2]
    assert lines[-1] == "1 case without a time profile."
    for style in ("json", "markdown"):
        assert torchstone("explain", "run.jsonl", "--format", style).code == 0


def test_a_case_that_compiled_nothing_shows_where_its_time_went(
    torchstone: Command, write: WriteFile
) -> None:
    only = profile(
        side(kernel("aten::addmm", 3.0, 2), kernel("aten::gelu", 1.0)), None, device="cpu", device_name=""
    )
    write("run.jsonl", encode_run(timed_run(timed_outcome(only, timed_case(backend="none")))))
    out = torchstone("explain", "run.jsonl", "mlp").out
    assert out.startswith("mlp: 4.000 ms of time in operators a call.\n")
    assert "change" not in out
    assert "idle" not in out


# Formats


def test_json_has_everything(torchstone: Command, bert: str) -> None:
    found = json.loads(torchstone("explain", bert, "BertForMaskedLM", "--format", "json").out)
    assert (found["format"], found["explains"], found["files"]) == (1, "time", [bert])
    (case,) = found["cases"]
    assert case["sides"] == ["eager", "compiled"]
    assert case["total"]["new"] == pytest.approx(18.3, abs=0.05)
    assert sum(each["new"] for each in case["families"]) == pytest.approx(case["total"]["new"], rel=0.02)
    assert {each["state"] for each in case["kernels"]} >= {"new", "gone"}
    assert case["hints"][0]["kind"] == "float32_products"
    assert (case["hints"][0]["count"], case["hints"][0]["names"]["attention"]) == (24, "decomposed")
    assert any(each["source"] for each in case["places"])


def test_markdown_has_tables(torchstone: Command, bert: str) -> None:
    text = torchstone("explain", bert, "BertForMaskedLM", "--format", "markdown").out
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert sum(token.type == "table_open" for token in tokens) == 3
    assert "### torchstone explain" in text


def test_the_page_has_bars_and_escapes_what_a_model_says(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    evil = profile(
        side(kernel(ATTACK, 1.0, module=ATTACK, place=ATTACK, source=ATTACK)), side(kernel(GEMM_32, 2.0))
    )
    write("run.jsonl", encode_run(timed_run(timed_outcome(evil))))
    ran = torchstone("explain", "run.jsonl", "mlp", "-o", "why.html")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "wrote why.html")
    assert "\x1b" not in ran.out
    page = (tmp_path / "why.html").read_text()
    assert "<img src=x" not in page
    assert "\x1b" not in page
    assert 'class="family-products"' in page
    assert page.count('class="bars"') >= 4


def test_the_report_page_shows_where_time_went_and_no_raw_profile(
    torchstone: Command, bert: str, tmp_path: Path
) -> None:
    assert torchstone("report", bert, "-o", "report.html").code == 0
    page = (tmp_path / "report.html").read_text()
    assert "Where time went: 1 case" in page
    assert "24 matrix products run in float32" in page
    assert "timeline" not in page


# The trace


def is_valid_trace(trace: dict[str, Any]) -> None:
    """Check what Perfetto and Chrome's trace viewer need of a trace in JSON."""
    assert isinstance(trace["traceEvents"], list)
    named = set()
    for event in trace["traceEvents"]:
        assert event["ph"] in {"X", "M"}
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["name"], str)
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in named
        elif event["name"] == "thread_name":
            named.add((event["pid"], event["tid"]))


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_trace_is_valid_and_has_both_calls(
    torchstone: Command, bert: str, tmp_path: Path, name: str
) -> None:
    assert torchstone("explain", bert, "BertForMaskedLM", "--trace", name).code == 0
    data = (tmp_path / name).read_bytes()
    trace = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    is_valid_trace(trace)
    work = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {event["pid"] for event in work} == {1, 2}
    assert len(work) == 241 + 272
    eager_end = max(event["ts"] + event["dur"] for event in work if event["pid"] == 1)
    assert 10_410 <= eager_end <= 14_000  # microseconds, with gaps
    assert any(event["args"].get("module") == "bert.embeddings.LayerNorm" for event in work)


def test_a_trace_needs_one_case(torchstone: Command, write: WriteFile, tmp_path: Path) -> None:
    run = timed_run(timed_outcome(DECOMPOSED, timed_case("a")), timed_outcome(DECOMPOSED, timed_case("b")))
    write("run.jsonl", encode_run(run))
    ran = torchstone("explain", "run.jsonl", "--trace", "t.json")
    assert (ran.code, "a trace is of one case" in ran.err) == (2, True)
    assert not (tmp_path / "t.json").exists()


def test_the_largest_profile_of_a_run_file_can_be_shown(torchstone: Command, write: WriteFile) -> None:
    many = tuple(kernel(f"kernel_{number}", 1.0 + number, module=f"m{number}") for number in range(400))
    timeline = tuple((number % 400, number % 8, 10 * number, 9) for number in range(4_000))
    large = SideTime(500.0, 400.0, 4_000, many, 3_600, timeline)
    write("run.jsonl", encode_run(timed_run(timed_outcome(profile(large, large)))))
    ran = torchstone("explain", "run.jsonl", "mlp", "-o", "why.html", "--trace", "t.json.gz")
    assert ran.code == 0
    assert "3,600 small rows were recorded only by family" in ran.out


# What cannot be explained


def fails(torchstone: Command, *arguments: str) -> str:
    ran = torchstone("explain", *arguments)
    assert (ran.code, ran.out) == (2, "")
    return ran.err


def test_an_unknown_case_suggests_a_similar_one(torchstone: Command, bert: str) -> None:
    error = fails(torchstone, bert, "BertForMaskdLM")
    assert "has no case BertForMaskdLM" in error
    assert "did you mean huggingface::BertForMaskedLM" in error


def test_a_run_without_a_profile_says_how_to_take_it(torchstone: Command, write: WriteFile) -> None:
    write("run.jsonl", encode_run(timed_run(timed_outcome(None))))
    assert "explain run.jsonl 'smoke::mlp" in fails(torchstone, "run.jsonl", "mlp")
    assert "--probe performance --profile" in fails(torchstone, "run.jsonl")


def test_a_case_that_failed_says_so(torchstone: Command, write: WriteFile) -> None:
    write("run.jsonl", encode_run(timed_run(timed_outcome(None, status="OOM"))))
    assert "its status is OOM" in fails(torchstone, "run.jsonl", "mlp")


def test_a_profiler_that_returned_no_kernels_is_no_explanation(torchstone: Command, write: WriteFile) -> None:
    empty = side(wall=3.0, problem="torch's profiler returned no kernels of the call")
    write("run.jsonl", encode_run(timed_run(timed_outcome(profile(empty, empty)))))
    assert "is empty: torch's profiler returned no kernels" in fails(torchstone, "run.jsonl", "mlp")


def test_a_case_of_another_probe_has_no_time_profile(torchstone: Command, write: WriteFile) -> None:
    write("run.jsonl", encode_run(timed_run(timed_outcome(None, timed_case(probe="accuracy")))))
    assert "measured by the probe accuracy" in fails(torchstone, "run.jsonl", "mlp")


def test_several_variants_are_listed(torchstone: Command, write: WriteFile) -> None:
    outcomes = (timed_outcome(DECOMPOSED, timed_case(dtype=dtype)) for dtype in ("bfloat16", "float16"))
    write("run.jsonl", encode_run(timed_run(*outcomes)))
    error = fails(torchstone, "run.jsonl", "mlp")
    assert "matches 2 cases" in error
    assert "dtype=float16" in error


def test_devices_that_differ_are_named(torchstone: Command, write: WriteFile) -> None:
    write("base.jsonl", encode_run(timed_run(timed_outcome(DECOMPOSED))))
    other = profile(DECOMPOSED.eager, DECOMPOSED.compiled, device_name="NVIDIA A100")
    write("new.jsonl", encode_run(timed_run(timed_outcome(other))))
    out = torchstone("explain", "base.jsonl", "new.jsonl", "mlp").out
    assert "NVIDIA H200 against NVIDIA A100" in out


def test_options_that_exclude_each_other_are_refused(torchstone: Command, bert: str) -> None:
    assert "--measure cannot be used with two run files" in fails(torchstone, bert, bert, "--measure")
    assert "--measure requires a case" in fails(torchstone, bert, "--measure")
    assert "--trust requires --measure" in fails(torchstone, bert, "x", "--trust")


def test_a_damaged_profile_names_the_field(torchstone: Command, bert: str, tmp_path: Path) -> None:
    path = tmp_path / bert
    path.write_text(path.read_text().replace('"launches":241', '"launches":-1'))
    error = fails(torchstone, bert, "BertForMaskedLM")
    assert "time_profile.eager.launches" in error


@pytest.mark.parametrize("command", [("explain", "--measure"), ("repro",)])
@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a device")
def test_a_device_that_is_not_here_is_an_error_before_anything_is_measured(
    torchstone: Command, bert: str, command: tuple[str, ...]
) -> None:
    ran = torchstone(command[0], bert, "BertForMaskedLM", *command[1:])
    assert ran.code == 2
    assert "error: device cuda: no cuda device is available here" in ran.err
    assert "changed since the run" not in ran.err


def test_a_file_of_one_case_has_no_cases(torchstone: Command, bert: str) -> None:
    error = torchstone("explain", bert, "zzz").err
    assert error.rstrip().endswith("the run has 1 case")


# Measured for real


@pytest.mark.slow
def test_a_run_takes_a_profile_that_is_explained_and_a_run_without_one_is_measured_again(
    torchstone: Command, write: WriteFile
) -> None:
    write("bench_net.py", NETWORK)
    command = (
        "run",
        "bench_net.py",
        "--probe",
        "performance",
        "--backend",
        "eager",
        "--repeat",
        "3",
        "--device",
        "cpu",
        "--threads",
        "1",
    )
    assert torchstone(*command, "--profile", "-o", "with.jsonl").code == 0
    ran = torchstone("explain", "with.jsonl", "net")
    assert ran.code == 0
    assert "By family, in ms of time in operators a call" in ran.out
    assert "matrix products float32" in ran.out
    assert "bench_net.py:11" in ran.out
    assert torchstone(*command, "-o", "without.jsonl").code == 0
    ran = torchstone("explain", "without.jsonl", "net", "--measure", "--trace", "t.json")
    assert ran.code == 0
    assert ran.out.startswith("net: time in operators a call: eager ")


NETWORK = """\
import torch
from torch import nn
import torchstone


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 32)
    def forward(self, inputs):
        return torch.relu(self.first(inputs))


@torchstone.benchmark
def net():
    return Net(), (torch.randn(4, 32),)
"""
