"""Which case a line is about, where a plan has several of one name."""

from __future__ import annotations

from itertools import product

import pytest

from torchstone.cli.terminal.run_display import Display
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Run, Variant
from torchstone.reporting.dialects.case_label import Labels
from torchstone.reporting.run_text.case_lines import CaseLines


def case(name: str = "mlp", suite: str = "smoke", probe: str = "performance", **axes: object) -> Case:
    stated = {"device": "cpu", "backend": "inductor", "mode": "inference", "dtype": "float32"} | axes
    return Case(name, probe, suite, Variant(**stated))  # type: ignore[arg-type]


def label(first: Case, *others: Case) -> str:
    return Labels([first, *others]).of(first).rstrip()


def test_what_all_cases_share_is_not_said() -> None:
    assert label(case(), case("cnn"), case(probe="accuracy"), case(mode="training")) == ""
    assert Labels([]).of(case()) == ""


def test_every_axis_that_differs_is_said_in_few_letters() -> None:
    assert label(case(), case(backend="eager")) == "inductor"
    assert label(case(), case(dtype="bfloat16")) == "fp32"
    assert label(case(device="cuda"), case()) == "cuda"
    assert label(case(dynamic=True), case()) == "dyn"
    assert label(case(), case(dynamic=True)) == "auto"
    assert label(case(batch_size=4), case(batch_size=8)) == "bs4"
    assert label(case(suite="timm"), case()) == "timm"
    assert label(case(further=(("size", "small"),)), case()) == "small"
    assert label(case(further=(("ranks", "2"),)), case()) == "ranks=2"
    assert label(case(), case(further=(("ranks", "2"),))) == ""


def test_a_batch_size_or_suite_that_goes_with_the_name_is_not_said() -> None:
    assert label(case(batch_size=4), case("cnn", suite="timm", batch_size=8)) == ""


def test_columns_line_up() -> None:
    cases = [case(backend=b, dynamic=d) for b, d in product(("none", "aot_eager"), (True, False))]
    labels = Labels(cases)
    assert [labels.of(each) for each in cases] == [
        "none      dyn   ",
        "none      static",
        "aot_eager dyn   ",
        "aot_eager static",
    ]


def test_no_value_can_disturb_the_terminal_or_fill_it() -> None:
    cases = [case(backend="\x1b[2J" + 100 * "x"), case()]
    told = Labels(cases, 24).of(cases[0])
    assert told.isprintable()
    assert len(told) == 24


def test_a_long_value_keeps_what_distinguishes_it() -> None:
    cases = [case(backend=f"{40 * 'x'}{middle}{end * 'y'}") for middle in "ab" for end in (5, 40)]
    for longest in (24, None):
        told = [Labels(cases, longest).of(each).rstrip() for each in cases]
        assert len(set(told)) == len(cases)
    assert told[3] == cases[3].variant.backend


def outcome_of(each: Case) -> Outcome:
    measured = {"compile_seconds": 12.3456, "graph_breaks": 3, "dynamo_peak_mem": 0.123456}
    speedup = Measurement("speedup", (1.2345,), MeasurementDetails(interval=(1.2, 1.25)))
    return Outcome(each, "pass", (speedup, *(Measurement(m, (v,)) for m, v in measured.items())))


def lines_of(capsys: pytest.CaptureFixture[str], outcomes: list[Outcome]) -> list[str]:
    display = Display()
    with display.showing(Run("r", tuple(each.case for each in outcomes), ())):
        for outcome in outcomes:
            display.finished(outcome)
    return capsys.readouterr().out.splitlines()


NUMBERS = "1.234x (1.200 to 1.250), compile 12.3 s, breaks 3, peak 0.123 GB"


def many_cases() -> list[Case]:
    axes = product(("none", "eager", "aot_eager"), (True, False), ("float32", "bfloat16"))
    return [case("resnet18", backend=b, dynamic=d, dtype=t) for b, d, t in axes]


def test_the_lines_of_a_run_differ_and_have_all_numbers_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(capsys, [outcome_of(each) for each in many_cases()])
    assert lines[0] == f"[ 1/12] pass resnet18 perf inf   none      fp32 dyn     {NUMBERS}"
    assert len({line.partition("] ")[2] for line in lines}) == len(lines)
    (line,) = lines_of(capsys, [outcome_of(case(90 * "n"))])
    assert line == f"[1/1] pass {90 * 'n'} perf inf    {NUMBERS}"


def test_on_a_terminal_of_80_columns_everything_is_there_too() -> None:
    lines = CaseLines(many_cases(), 80)
    for each in many_cases():
        shown = lines.of(outcome_of(each))
        assert max(map(len, shown.splitlines())) <= 80
        assert " ".join(shown.split()).endswith(NUMBERS)
    usual = Outcome(case("conv_net"), "pass", tuple(m for m in outcome_of(case()).measurements if m.metric != "graph_breaks"))  # fmt: skip
    assert CaseLines([usual.case, case("transformer")], 80).of(usual) == (
        "pass conv_net    perf  1.234x (1.200 to 1.250), compile 12.3 s, peak 0.123 GB"
    )


def test_long_names_are_cut_on_a_terminal_and_stay_distinct() -> None:
    cases = [case(f"{start}{60 * 'n'}{end}") for start in "ab" for end in "cd"]
    lines = CaseLines(cases, 80)
    names = [lines.of(outcome_of(each)).split()[1] for each in cases]
    assert len(set(names)) == len(cases)
    assert max(map(len, names)) == 34


def test_a_failure_says_which_case_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    bad = Outcome(case(backend="tvm"), "fail_to_run", (), Failure("compile", "no"))
    assert (
        lines_of(capsys, [outcome_of(case()), bad])[1]
        == "[2/2] fail_to_run: mlp perf inf tvm: in compile: no"
    )
