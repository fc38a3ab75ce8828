from __future__ import annotations

import pytest
from hypothesis import given, settings

from record_strategies import accuracy_runs, performance_runs
from sample_files import ACCURACY, PERFORMANCE, STATS, read_as, rewrite
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.vocabulary import CAPTURE_METRICS
from torchstone.formats import FORMATS

FULL = (
    "dev,name,batch_size,tag,speedup,abs_latency,baseline,speedup_vs_baseline,compilation_latency,compression_ratio,"
    f"eager_peak_mem,dynamo_peak_mem,cache_lookup_latency,{STATS}\n"
)


def one(kind: str, text: str, path: str = "file") -> Outcome:
    (outcome,) = read_as(kind, text, path).run.outcomes
    return outcome


def refused(kind: str, text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_as(kind, text, "bad.csv")
    assert caught.value.path == "bad.csv"
    return caught.value


def test_every_column_of_a_performance_file_is_a_metric_of_the_case() -> None:
    row = "cuda,BERT_pytorch,128,main,1.5,12.3,1.25,1.2,31.25,0.98,4.12,4.25,0.5,412,1,2,3,4,5,6,7\n"
    outcome = one("performance", FULL + row)
    assert outcome.case == Case(
        "BERT_pytorch", "performance", variant=Variant("cuda", batch_size=128, further=(("tag", "main"),))
    )
    assert outcome.status == "pass"
    values = {measurement.metric: measurement.samples for measurement in outcome.measurements}
    assert values == {
        "speedup": (1.5,),
        "abs_latency": (12.3,),
        "baseline": (1.25,),
        "speedup_vs_baseline": (1.2,),
        "compilation_latency": (31.25,),
        "compression_ratio": (0.98,),
        "eager_peak_mem": (4.12,),
        "dynamo_peak_mem": (4.25,),
        "cache_lookup_latency": (0.5,),
        **dict(zip(CAPTURE_METRICS, [(412,), (1,), (2,), (3,), (4,), (5,), (6,), (7,)], strict=True)),
    }


def test_the_same_column_is_another_metric_in_an_accuracy_file() -> None:
    of_accuracy = read_as("accuracy", ACCURACY).run.outcomes[0]
    of_performance = read_as("performance", PERFORMANCE).run.outcomes[0]
    assert of_accuracy.value("compile_seconds") == 20.125
    assert of_accuracy.value("compilation_latency") is None
    assert of_performance.value("compilation_latency") == 31.25
    assert of_performance.value("compile_seconds") is None


def test_an_accuracy_file_keeps_every_status_word_as_it_is() -> None:
    reading = read_as("accuracy", ACCURACY)
    assert [outcome.status for outcome in reading.run.outcomes] == [
        "pass",
        "fail_accuracy",
        "pass_due_to_skip",
        "eager_1st_run_OOM",
    ]
    assert list(reading.lines) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    "row",
    [
        "cuda,moco,0,0.0,0.0",
        "cuda,moco,0,0.0,0.0" + ",0" * 14,
        "cuda,moco,0,0,0" + ",0.0" * 14,
        "cuda,moco,0,0.0,0.0" + "," * 14,
    ],
    ids=["short", "padded", "padded with decimals", "padded with nothing"],
)
def test_a_failed_performance_row_has_a_status_and_no_measurements(row: str) -> None:
    header = PERFORMANCE.partition("\n")[0]
    outcome = one("performance", f"{header},cache_lookup_latency,own_metric\n{row}\n")
    assert outcome == Outcome(Case("moco", "performance", variant=Variant("cuda")), "failed")


@pytest.mark.parametrize("padding", ["", ",0,0,0,0,0,0,0,0,0", ",,,,,,,,,"])
def test_a_failed_accuracy_row_has_a_status_and_no_measurements(padding: str) -> None:
    header = ACCURACY.partition("\n")[0]
    outcome = one("accuracy", f"{header}\ncuda,moco,0,fail_to_run{padding}\n")
    assert outcome == Outcome(Case("moco", "accuracy", variant=Variant("cuda")), "fail_to_run")


@pytest.mark.parametrize("zero", ["0", "0.0", "0.000000", "-0.0", "0e0", "+0", "00"])
def test_a_speedup_of_zero_is_a_failure_however_it_is_written(zero: str) -> None:
    outcome = one("performance", f"dev,name,batch_size,speedup,abs_latency\ncuda,moco,8,{zero},1.5\n")
    assert (outcome.status, outcome.measurements) == ("failed", ())


def test_a_failed_row_with_text_in_a_number_is_refused_all_the_same() -> None:
    error = refused("performance", "dev,name,batch_size,speedup,abs_latency\ncuda,moco,8,0.0,fast\n")
    assert (error.line, error.column) == (2, "abs_latency")


@pytest.mark.parametrize("cell", [".", "..", "0.0.0", "0 0"])
def test_what_only_looks_like_zero_is_no_speedup(cell: str) -> None:
    for size in (0, 8):
        error = refused("performance", f"dev,name,batch_size,speedup\ncuda,moco,{size},{cell}\n")
        assert (error.line, error.column) == (2, "speedup")


def test_a_status_called_failed_in_an_accuracy_file_keeps_its_measurements() -> None:
    outcome = one("accuracy", "dev,name,batch_size,accuracy,graph_breaks\ncuda,sam,4,failed,3\n")
    assert (outcome.status, outcome.value("graph_breaks")) == ("failed", 3)


@pytest.mark.parametrize("status", ["pass", ""])
def test_a_short_row_that_did_not_fail_was_cut_off(status: str) -> None:
    error = refused("accuracy", f"dev,name,batch_size,accuracy,graph_breaks\ncuda,sam,0,{status}\n")
    assert (error.line, error.column) == (2, "graph_breaks")


def test_a_measured_row_that_is_too_long_or_too_short_is_refused() -> None:
    header = "dev,name,batch_size,speedup,abs_latency\n"
    assert refused("performance", f"{header}cuda,a,8,1.5\n").column == "abs_latency"
    assert refused("performance", f"{header}cuda,a,8,1.5,2,3\n").column == 6
    assert refused("performance", f"{header}cuda,a,0,0.0,0.0,0\n").line == 2


@pytest.mark.parametrize(
    "header",
    ["speedup,dev,name,batch_size", "name,speedup,dev,batch_size", "batch_size,speedup,dev,name,tag"],
)
def test_columns_may_stand_in_any_order_and_a_short_row_is_then_refused(header: str) -> None:
    row = {"dev": "cpu", "name": "a", "batch_size": "0", "speedup": "0.0", "tag": ""}
    cells = [row[column] for column in header.split(",")]
    assert one("performance", f"{header}\n{','.join(cells)}\n").status == "failed"
    for length in range(1, len(cells)):
        assert refused("performance", f"{header}\n{','.join(cells[:length])}\n").line == 2


def test_a_count_before_the_status_column_is_kept() -> None:
    outcome = one("accuracy", "dev,name,graph_breaks,batch_size,accuracy\ncpu,sam,3,0,fail_to_run\n")
    assert outcome.value("graph_breaks") == 3


def test_empty_cells_are_absent_and_zeros_are_not() -> None:
    outcome = one("accuracy", "dev,name,batch_size,accuracy,graph_breaks,calls_captured\ncpu,a,4,pass,,0\n")
    assert outcome.measurements == (Measurement("calls_captured", (0,)),)


def test_blank_lines_comments_and_spaces_are_passed_over() -> None:
    text = "# by hand\n\ndev, name ,batch_size,speedup\n\n\n\n# later: more\n cpu , a ,4, 1.5 \n\n  \ncpu,b,4,2\n"
    reading = read_as("performance", text)
    assert [outcome.case.benchmark for outcome in reading.run.outcomes] == ["a", "b"]
    assert [outcome.value("speedup") for outcome in reading.run.outcomes] == [1.5, 2]
    assert list(reading.lines) == [8, 11]


def test_the_file_name_of_ci_states_axes_and_the_command_to_run_again() -> None:
    reading = read_as("accuracy", ACCURACY, "/a/b/inductor_huggingface_bfloat16_training_cuda_accuracy.csv")
    case = reading.run.outcomes[0].case
    assert case.suite == "huggingface"
    assert case.variant == Variant("cuda", "inductor", "training", "bfloat16", batch_size=8)
    assert reading.repro == (
        "python benchmarks/dynamo/huggingface.py --accuracy --training --bfloat16 --backend inductor "
        "--device cuda --only {name}"
    )


def test_a_backend_that_is_not_known_has_no_command_to_run_again() -> None:
    reading = read_as("accuracy", ACCURACY, "my_own_timm_models_amp_inference_cpu_accuracy.csv")
    assert reading.run.outcomes[0].case.variant == Variant("cuda", "my_own", "inference", "amp", batch_size=8)
    assert reading.repro == ""


def test_a_file_whose_last_line_has_no_end_is_read_with_a_caution() -> None:
    for kind, text in (("accuracy", ACCURACY), ("performance", PERFORMANCE)):
        assert read_as(kind, text).cautions == ()
        assert read_as(kind, text.replace("\n", "\r\n")).cautions == ()
        (caution,) = read_as(kind, text.rstrip(), "cut.csv").cautions
        assert caution.text == "cut.csv: the last line is incomplete: was the file truncated?"


@pytest.mark.parametrize(
    "path",
    [
        "inductor_huggingface_amp_training_cuda_performance.csv",
        "results.csv",
        "$(reboot)_torchbench_amp_training_cuda_accuracy.csv",
        "a\tb_torchbench_amp_training_cuda_accuracy.csv",
        "{name}_torchbench_amp_training_cuda_accuracy.csv",
    ],
)
def test_any_other_file_name_states_nothing(path: str) -> None:
    reading = read_as("accuracy", ACCURACY, path)
    assert reading.repro == ""
    assert reading.run.outcomes[0].case.variant == Variant("cuda", batch_size=8)


@pytest.mark.parametrize(
    ("kind", "header", "column"),
    [
        ("performance", "dev,batch_size,speedup", "name"),
        ("accuracy", "dev,batch_size,accuracy", "name"),
        ("accuracy", "dev,name,batch_size", "accuracy"),
        ("performance", "dev,name,batch_size", None),
        ("performance", "dev,name,my_own_number", None),
        ("performance", "dev,name,accuracy", None),
    ],
)
def test_without_names_or_anything_measured_a_file_is_refused(
    kind: str, header: str, column: str | None
) -> None:
    error = refused(kind, f"# first\n{header}\n1,1,1\n")
    assert (error.line, error.column) == (2, column)


@pytest.mark.parametrize(
    ("text", "variant", "values"),
    [
        (
            "dev,name,batch_size,compression_ratio\ncuda,a,4,0.95\n",
            Variant("cuda", batch_size=4),
            {"compression_ratio": 0.95},
        ),
        ("name,batch_size,abs_latency\na,4,1.5\n", Variant(batch_size=4), {"abs_latency": 1.5}),
        ("dev,name,graph_breaks\ncuda,a,0\n", Variant("cuda"), {"graph_breaks": 0}),
        ("compilation_latency,name,dev\n-0.5,a,cpu\n", Variant("cpu"), {"compilation_latency": -0.5}),
        ("name,eager_peak_mem\na,2.5\n", Variant(), {"eager_peak_mem": 2.5}),
        (
            "dev,name,speedup,my_own_number\ncpu,a,1.5,7\n",
            Variant("cpu"),
            {"speedup": 1.5, "my_own_number": 7},
        ),
    ],
)
def test_any_column_but_the_name_may_be_absent(text: str, variant: Variant, values: dict[str, float]) -> None:
    outcome = one("performance", text)
    assert (outcome.case.variant, outcome.status) == (variant, "pass")
    assert {measurement.metric: measurement.value for measurement in outcome.measurements} == values


def test_an_accuracy_file_may_have_nothing_but_names_and_statuses() -> None:
    outcome = one("accuracy", "name,accuracy\na,fail_accuracy\n")
    assert outcome == Outcome(Case("a", "accuracy"), "fail_accuracy")
    counted = one("accuracy", "dev,name,accuracy,graph_breaks\ncuda,a,fail_accuracy,0\n")
    assert counted.value("graph_breaks") == 0


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("performance", "dev,name,batch_size,compression_ratio\ncuda,a,0,0.0\n"),
        ("performance", "dev,name,compression_ratio,graph_breaks\ncuda,a,0.0,0\n"),
        ("performance", "dev,name,abs_latency,graph_breaks\ncuda,a,0.0\n"),
        ("accuracy", "dev,name,accuracy,graph_breaks\ncuda,a,fail_to_run\n"),
    ],
)
def test_a_failed_row_is_found_in_a_file_without_speedup_or_batch_size(kind: str, text: str) -> None:
    status = "failed" if kind == "performance" else "fail_to_run"
    assert one(kind, text) == Outcome(Case("a", kind, variant=Variant("cuda")), status)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("cuda,a,eight,1.5,0", "batch_size"),
        ("cuda,a,1.5,1.5,0", "batch_size"),
        ("cuda,a,-8,1.5,0", "batch_size"),
        ("cuda,a,8,nan,0", "speedup"),
        ("cuda,a,8,inf,0", "speedup"),
        ("cuda,a,8,1e999,0", "speedup"),
        ("cuda,a,8,-1.5,0", "speedup"),
        ("cuda,a,8,1_0,0", "speedup"),
        ("cuda,a,8,\u0661,0", "speedup"),
        ("cuda,a,8,1.5,2.5", "graph_breaks"),
        ("cuda,a,8,1.5,many", "graph_breaks"),
        ("cuda,a,8,1.5,1e308", "graph_breaks"),
        (f"cuda,a,{2**63},1.5,0", "batch_size"),
        ("cuda,,8,1.5,0", "name"),
        (",a,8,1.5,0", "dev"),
        ('cuda,"a\nb",8,1.5,0', "name"),
    ],
)
def test_a_cell_that_cannot_be_meant_is_refused_with_its_place(row: str, column: str) -> None:
    text = f"dev,name,batch_size,speedup,graph_breaks\ncuda,ok,8,1.5,0\n\n{row}\n"
    error = refused("performance", text)
    assert (error.line, error.column) == (4, column)


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("nan", "is not a finite number"),
        ("-INF", "is not a finite number"),
        ("1e999", "is too large"),
        ("9" * 400, "is too large"),
        ("fast", "is not a number"),
        ("1,5", "is not a number"),
        ("--1", "is not a number"),
        ("-1.5", "is negative"),
    ],
)
def test_the_message_says_what_is_wrong_with_a_number(cell: str, problem: str) -> None:
    error = refused("performance", f'dev,name,batch_size,speedup\ncuda,a,8,"{cell}"\n')
    assert error.message.endswith(problem)
    assert len(error.message) < 80


@pytest.mark.parametrize("status", ["", '"a\nb"', "x" * 101])
def test_a_status_that_is_none_is_refused(status: str) -> None:
    error = refused("accuracy", f"dev,name,batch_size,accuracy\ncuda,a,8,{status}\n")
    assert (error.line, error.column) == (2, "accuracy")


def test_a_header_alone_is_refused() -> None:
    assert refused("accuracy", "dev,name,batch_size,accuracy\n").message == "no rows after the header"


@pytest.mark.parametrize("header", ["dev,name,batch_size,speedup,speedup", "dev,name,batch_size,,speedup"])
def test_a_column_twice_or_without_a_name_is_refused(header: str) -> None:
    assert refused("performance", f"{header}\ncuda,a,8,1,1\n").line == 1


def test_a_column_name_on_two_lines_is_refused() -> None:
    error = refused("performance", 'dev,name,batch_size,speedup,"my\nown"\ncuda,a,8,1,1\n')
    assert error.line == 1


@pytest.mark.parametrize(("kind", "text"), [("performance", PERFORMANCE), ("accuracy", ACCURACY)])
def test_a_file_as_the_runner_writes_it_comes_back_byte_for_byte(kind: str, text: str) -> None:
    assert rewrite(kind, text) == text


def test_optional_columns_are_written_only_if_a_case_has_them() -> None:
    text = "dev,name,batch_size,tag,speedup,abs_latency,graph_breaks\ncpu,a,4,x,1.500000,2.000000,\ncpu,b,4,,1.500000,2.000000,3\n"
    assert rewrite("performance", text) == text


def test_a_failure_of_known_batch_size_does_not_gain_counts_when_written() -> None:
    sized = Variant("cuda", batch_size=8)
    failed = Outcome(Case("a", "accuracy", variant=sized), "fail_to_run")
    passed = Outcome(Case("b", "accuracy", variant=sized), "pass", (Measurement("graph_breaks", (2,)),))
    run = Run("file", (failed.case, passed.case), (failed, passed))
    assert read_as("accuracy", FORMATS["accuracy"].write(run)).run.outcomes == run.outcomes


def test_a_writer_leaves_out_the_cases_of_other_probes() -> None:
    both = (*read_as("performance", PERFORMANCE).run.outcomes, *read_as("accuracy", ACCURACY).run.outcomes)
    run = Run("file", tuple(outcome.case for outcome in both), both)
    assert FORMATS["performance"].write(run) == PERFORMANCE
    assert FORMATS["accuracy"].write(run) == ACCURACY


@settings(deadline=None)
@given(performance_runs())
def test_a_performance_run_that_is_written_reads_the_same(run: Run) -> None:
    assert read_as("performance", FORMATS["performance"].write(run)).run == run


@settings(deadline=None)
@given(accuracy_runs())
def test_an_accuracy_run_that_is_written_reads_the_same(run: Run) -> None:
    assert read_as("accuracy", FORMATS["accuracy"].write(run)).run == run
