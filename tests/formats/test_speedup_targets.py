"""Speedup targets of PyTorch's CPU smoke test: read by position, with a header that is a comment; results are judged by them, and accept changes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Command, WriteFile
from sample_files import SPEEDUP_TARGETS, read_as
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Measurement, Outcome, Variant
from torchstone.formats import read_file
from torchstone.formats.torch.ci_name import CiName, read_ci_name

NAME = "expected_ci_speedup_inductor_torchbench_cpu.csv"
HEADER, SWITCHED_OFF, *ROWS = SPEEDUP_TARGETS.splitlines(keepends=True)


def target(name: str, value: float, variant: Variant, suite: str = "torchbench") -> Outcome:
    return Outcome(
        Case(name, "performance", suite, variant),
        "",
        (Measurement("speedup", (value,), MeasurementDetails(margin=0.01)),),
    )


def test_each_way_of_running_a_model_is_a_case_of_its_own_and_rows_in_comments_are_none() -> None:
    reading = read_as("speedup-targets", SPEEDUP_TARGETS, f"a/b/{NAME}")
    default, cpp = (("wrapper", "default"),), (("wrapper", "cpp"),)
    assert reading.run.outcomes == (
        target("densenet", 1.4, Variant("cpu", "inductor", "", "float32", False, further=default)),
        target("mobilenet", 2.625, Variant("cpu", "inductor", "", "float32", False, further=cpp)),
        target("mobilenet", 2.25, Variant("cpu", "inductor", "", "amp", True, further=cpp)),
        target("mobilenet", 1, Variant("cpu", "export-aot-inductor", "", "float32", False, further=default)),
    )
    assert list(reading.lines) == [3, 4, 5, 6]


def test_older_files_have_no_backend_and_their_name_may_say_nothing() -> None:
    text = "#name,data_type,shape,wrapper,perf_speedup_target_c6i\n  #a,amp,static,cpp,2\nb,amp,dynamic,cpp,1.5\n"
    (outcome,) = read_as("speedup-targets", text).run.outcomes
    variant = Variant(dtype="amp", dynamic=True, further=(("wrapper", "cpp"),))
    assert outcome == target("b", 1.5, variant, suite="")


@pytest.mark.parametrize(
    ("row", "column"),
    [
        (",backend=inductor,amp,static,cpp,1.5", "name"),
        ("a,,amp,static,cpp,1.5", "backend"),
        ("a,backend=inductor,,static,cpp,1.5", "data_type"),
        ("a,backend=inductor,amp,round,cpp,1.5", "shape"),
        ("a,backend=inductor,amp,static,,1.5", "wrapper"),
        ("a,backend=inductor,amp,static,cpp,fast", "target"),
        ("a,backend=inductor,amp,static,cpp,0", "target"),
        ("a,backend=inductor,amp,static,cpp,-1", "target"),
        ("a,backend=inductor,amp,static,cpp,nan", "target"),
        ("a,backend=inductor,amp,static", "wrapper"),
        ("a,backend=inductor,amp,static,cpp,1.5,9", 7),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(row: str, column: str | int) -> None:
    with pytest.raises(InputError) as caught:
        read_as("speedup-targets", f"{HEADER}{ROWS[0]}{row}\n", "bad.csv")
    assert (caught.value.path, caught.value.line, caught.value.column) == ("bad.csv", 3, column)


def test_a_file_of_which_all_rows_are_switched_off_is_refused() -> None:
    with pytest.raises(InputError, match="no rows"):
        read_as("speedup-targets", HEADER + SWITCHED_OFF)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "inductor_inference_mobilenet_v3_backend=inductor_float32_dynamic_cpu_smoketest.csv",
            CiName("inductor", "", "float32", "inference", "cpu", "performance", True),
        ),
        (
            "inductor_inference_hf_T5_export-aot-inductor_amp_static_cpu_smoketest.csv",
            CiName("export-aot-inductor", "", "amp", "inference", "cpu", "performance", False),
        ),
        (
            "inductor_inference_hf_T5_amp_static_cpp_cpu_smoketest.csv",
            CiName("inductor", "", "amp", "inference", "cpu", "performance", False, "cpp"),
        ),
    ],
)
def test_the_names_of_the_smoke_tests_results_say_how_they_were_run(name: str, expected: CiName) -> None:
    assert read_ci_name(name, "performance") == expected
    assert read_ci_name(name, "accuracy") == CiName()
    assert expected.command() == ""


SPEEDUPS = {
    "densenet_backend=inductor_float32_static": 1.39,
    "mobilenet_backend=inductor_float32_static": 2.625,
    "mobilenet_backend=inductor_amp_dynamic": 2.25,
    "mobilenet_export-aot-inductor_float32_static": 1.0,
}


@pytest.fixture
def results(tmp_path: Path) -> dict[str, str]:
    """The files that the smoke test leaves, one a row of the targets, by what their names say."""
    (tmp_path / NAME).write_text(SPEEDUP_TARGETS)
    paths = {}
    for words, speedup in SPEEDUPS.items():
        path = tmp_path / f"inductor_inference_{words}_cpu_smoketest.csv"
        path.write_text(
            f"dev,name,batch_size,speedup,abs_latency\ncpu,{words.partition('_')[0]},4,{speedup},5.5\n"
        )
        paths[words] = str(path)
    return paths


def slow_down(path: str, old: float, new: float) -> None:
    text = Path(path).read_text()
    assert str(old) in text
    Path(path).write_text(text.replace(str(old), str(new)))


@pytest.mark.parametrize("policy", ["strict", "upstream"])
def test_a_speedup_may_be_one_percent_below_its_target(
    torchstone: Command, results: dict[str, str], policy: str
) -> None:
    judge = ("check", *results.values(), "--baseline", NAME, "--policy", policy)
    done = torchstone(*judge)
    assert done.code == 0, done.out + done.err
    assert "judged 4" in done.out
    slow_down(results["mobilenet_backend=inductor_amp_dynamic"], 2.25, 2.22)
    done = torchstone(*judge)
    assert done.code == 1
    assert "red 1" in done.out
    assert "expected 2.25x" in done.out
    assert "at least 0.99 x expected" in done.out


def test_a_target_without_a_result_is_missing_by_the_same_rule(
    torchstone: Command, results: dict[str, str]
) -> None:
    del results["densenet_backend=inductor_float32_static"]
    done = torchstone("check", *results.values(), "--baseline", NAME)
    assert done.code == 1
    assert "missing 1" in done.out
    assert "at least 0.99 x expected (>= 1.386)" in done.out


def test_results_that_do_not_say_how_they_were_run_are_not_judged_by_any_row(
    torchstone: Command, results: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "plain.csv").write_text(
        Path(results["mobilenet_backend=inductor_float32_static"]).read_text()
    )
    asked = ("check", "plain.csv", "--baseline", NAME, "--only", "mobilenet")
    done = torchstone(*asked)
    assert done.code == 2
    assert "say which with --set" in done.err
    done = torchstone(*asked, "--set", "dtype=float32")
    assert "say which with --set backend=" in done.err
    done = torchstone(*asked, "--set", "dtype=float32", "--set", "wrapper=cpp", "--allow", "missing")
    assert done.code == 0, done.out + done.err


def test_accept_puts_new_targets_into_their_cells_and_leaves_everything_else(
    torchstone: Command, results: dict[str, str], tmp_path: Path
) -> None:
    slow_down(results["mobilenet_backend=inductor_amp_dynamic"], 2.25, 2.125)
    assert torchstone("accept", *results.values(), "--baseline", NAME, "--yes").code == 0
    changed = ROWS[2].replace("2.25", "2.125")
    densenet = ROWS[0].replace("1.4", "1.39")
    assert (tmp_path / NAME).read_text() == "".join(
        [HEADER, SWITCHED_OFF, densenet, ROWS[1], changed, ROWS[3]]
    )


def test_accept_adds_and_removes_rows(torchstone: Command, results: dict[str, str], tmp_path: Path) -> None:
    del results["mobilenet_export-aot-inductor_float32_static"]
    new = tmp_path / "inductor_inference_efficientnet_backend=inductor_amp_dynamic_cpp_cpu_smoketest.csv"
    new.write_text("dev,name,batch_size,speedup,abs_latency\ncpu,efficientnet,4,1.75,5.5\n")
    done = torchstone(
        "accept",
        *results.values(),
        str(new),
        "--baseline",
        NAME,
        "--yes",
        "--add-new",
        "--prune",
        "--only",
        "*net*",
    )
    assert done.code == 0, done.err
    rows = (tmp_path / NAME).read_text().splitlines(keepends=True)
    assert rows[2:] == [
        ROWS[0].replace("1.4", "1.39"),
        "efficientnet,backend=inductor,amp,dynamic,cpp,1.75\n",
        *ROWS[1:3],
    ]
    assert len(read_file(str(tmp_path / NAME)).run.outcomes) == 4


def test_a_row_is_not_added_for_results_that_do_not_say_the_dtype(
    torchstone: Command, results: dict[str, str], tmp_path: Path
) -> None:
    assert results
    (tmp_path / "plain.csv").write_text("dev,name,batch_size,speedup\ncpu,efficientnet,4,1.75\n")
    done = torchstone("accept", "plain.csv", "--baseline", NAME, "--yes", "--add-new")
    assert done.code == 2
    assert "efficientnet: the results do not state the dtype\n  state it with --set dtype=" in done.err
    assert (tmp_path / NAME).read_text() == SPEEDUP_TARGETS


def test_the_command_of_a_file_is_not_suggested_for_another_configuration(
    torchstone: Command, write: WriteFile
) -> None:
    rows = "bert,inductor,amp,dynamic,cpp,1.5\nalex,inductor,float32,static,default,1.2\n"
    write(
        "expected_ci_speedup_inductor_torchbench_cpu.csv",
        f"#name,backend,data_type,shape,wrapper,target\n{rows}",
    )
    results = "inductor_torchbench_float32_inference_cpu_performance.csv"
    write(results, "dev,name,batch_size,speedup\ncpu,other,8,1.3\n")
    baseline = ("--baseline", "expected_ci_speedup_inductor_torchbench_cpu.csv")
    report = json.loads(torchstone("check", results, *baseline, "--format", "json").out)
    missing = {row["name"]: row["reproduce"] for row in report["rows"] if row["verdict"] == "missing"}
    assert missing["bert"].startswith("torchstone check ")
