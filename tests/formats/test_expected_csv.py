from __future__ import annotations

import pytest
from hypothesis import given, settings

from record_strategies import by_dtype_runs, expected_runs
from sample_files import ACCURACY, BY_DTYPE, EXPECTED, MEMORY, PERFORMANCE, read_as, rewrite
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.formats import FORMATS


def refused(kind: str, text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_as(kind, text, "bad.csv")
    assert caught.value.path == "bad.csv"
    return caught.value


def test_a_row_expects_a_status_and_the_counts_that_it_states() -> None:
    reading = read_as("expected", EXPECTED)
    assert reading.run.outcomes == (
        Outcome(
            Case("AlbertForMaskedLM", "accuracy"),
            "pass",
            (
                Measurement("graph_breaks", (0,)),
                Measurement("calls_captured", (373,)),
                Measurement("fallbacks_to_eager", (0,)),
            ),
        ),
        Outcome(Case("GPTJForCausalLM", "accuracy"), "eager_1st_run_OOM"),
        Outcome(
            Case("sam", "accuracy"),
            "fail_accuracy",
            (Measurement("graph_breaks", (6,)), Measurement("calls_captured", (801,))),
        ),
    )


def test_rows_apart_by_three_blank_lines_read_as_upstream_writes_them() -> None:
    spread = EXPECTED.replace("\n", "\n\n\n\n")
    reading = read_as("expected", spread)
    assert reading.run == read_as("expected", EXPECTED).run
    assert list(reading.lines) == [5, 9, 13]


@pytest.mark.parametrize("text", [EXPECTED, MEMORY, "name,accuracy\na,pass\n", "name,graph_breaks\na,0\n"])
def test_a_plain_file_of_expected_values_comes_back_byte_for_byte(text: str) -> None:
    assert rewrite("expected", text) == text


@pytest.mark.parametrize(
    ("header", "probe"),
    [
        ("name,accuracy", "accuracy"),
        ("name,compression_ratio", "performance"),
        ("graph_breaks,name,speedup", "performance"),
        ("name,graph_breaks,calls_captured", ""),
        ("name,compile_seconds", ""),
        ("name,iteration_time", "scaling"),
    ],
)
def test_the_columns_say_which_probe_the_values_are_of(header: str, probe: str) -> None:
    cells = ",".join("a" if column == "name" else "1" for column in header.split(","))
    assert read_as("expected", f"{header}\n{cells}\n").run.outcomes[0].case == Case("a", probe)


def test_a_cell_with_nothing_but_spaces_expects_nothing() -> None:
    outcomes = read_as("expected", "name,accuracy,graph_breaks\na, ,  \nb,,1\n").run.outcomes
    assert outcomes[0] == Outcome(Case("a", "accuracy"), "")


def test_rows_that_share_their_cells_do_not_share_their_errors_or_lines() -> None:
    reading = read_as("expected", "name,accuracy\na,pass\nb,pass\nc,fail\n")
    assert [(o.case.benchmark, o.status) for o in reading.run.outcomes] == [
        ("a", "pass"),
        ("b", "pass"),
        ("c", "fail"),
    ]
    assert refused("expected", "name,graph_breaks\na,1\nb,x\nc,x\n").line == 3


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("name,accuracy,graph_breaks\na,pass,1\nb,pass\n", 3, "graph_breaks"),
        ("name,accuracy,graph_breaks\na,pass,1,2\n", 2, 4),
        ("name,accuracy,graph_breaks\na,pass,-1\n", 2, "graph_breaks"),
        ("name,accuracy,graph_breaks\na,pass,1.5\n", 2, "graph_breaks"),
        ("name,accuracy,graph_breaks\na,pass,nan\n", 2, "graph_breaks"),
        ("name,compression_ratio\na,0\n", 2, "compression_ratio"),
        ("name,compression_ratio\na,-0.0\n", 2, "compression_ratio"),
        ("name,compression_ratio\na,-1\n", 2, "compression_ratio"),
        ("name,compression_ratio\na,inf\n", 2, "compression_ratio"),
        ("name,accuracy\n,pass\n", 2, "name"),
        ('name,accuracy\na,"pa\nss"\n', 2, "accuracy"),
        ("name,accuracy\n", 1, None),
        ("name,own_metric\na,1\n", 1, "own_metric"),
        ("accuracy,graph_breaks\npass,1\n", 1, "name"),
        ("name\na\n", 1, "name"),
        ("name,accuracy,accuracy\na,pass,pass\n", 1, "accuracy"),
    ],
)
def test_what_cannot_be_expected_is_refused_with_its_place(
    text: str, line: int, column: str | int | None
) -> None:
    error = refused("expected", text)
    assert (error.line, error.column) == (line, column)


def test_the_wide_kind_has_a_case_for_each_dtype_with_a_status() -> None:
    reading = read_as("expected-by-dtype", BY_DTYPE)
    assert [(o.case.benchmark, o.case.variant, o.status) for o in reading.run.outcomes] == [
        ("resnet50", Variant(dtype="float32"), "pass"),
        ("resnet50", Variant(dtype="bfloat16"), "pass"),
        ("resnet50", Variant(dtype="amp"), "fail_accuracy"),
        ("sam", Variant(dtype="float32"), "fail_accuracy"),
        ("sam", Variant(dtype="amp"), "pass"),
        ("yolov3", Variant(dtype="bfloat16"), "pass"),
    ]
    assert list(reading.lines) == [2, 2, 2, 3, 3, 4]


def test_the_wide_kind_comes_back_byte_for_byte() -> None:
    assert rewrite("expected-by-dtype", BY_DTYPE) == BY_DTYPE


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("name,float32,int8\na,pass,pass\n", 1, "int8"),
        ("name,float32\na,pass,pass\n", 2, 3),
        ("name,float32\na,\n", 1, None),
        ('name,float32\na,"x\ny"\n', 2, "float32"),
    ],
)
def test_a_wide_file_that_cannot_be_meant_is_refused(text: str, line: int, column: str | int | None) -> None:
    error = refused("expected-by-dtype", text)
    assert (error.line, error.column) == (line, column)


def test_expected_values_of_mixed_results_are_those_of_accuracy() -> None:
    both = (*read_as("accuracy", ACCURACY).run.outcomes, *read_as("performance", PERFORMANCE).run.outcomes)
    run = Run("file", tuple(outcome.case for outcome in both), both)
    of_accuracy = Run("file", run.plan[:4], both[:4])
    assert FORMATS["expected"].write(run) == FORMATS["expected"].write(of_accuracy)
    assert "moco" not in FORMATS["expected"].write(run)


def test_the_wide_kind_takes_no_status_from_another_probe() -> None:
    variant = Variant(dtype="amp")
    outcomes = (
        Outcome(Case("a", "accuracy", variant=variant), "fail_accuracy"),
        Outcome(Case("a", "performance", variant=variant), "pass"),
        Outcome(Case("b", "accuracy"), "pass"),
    )
    run = Run("file", tuple(outcome.case for outcome in outcomes), outcomes)
    assert FORMATS["expected-by-dtype"].write(run) == "name,amp\na,fail_accuracy\n"


@settings(deadline=None)
@given(expected_runs())
def test_expected_values_that_are_written_read_the_same(run: Run) -> None:
    assert read_as("expected", FORMATS["expected"].write(run)).run == run


@settings(deadline=None)
@given(by_dtype_runs())
def test_statuses_by_dtype_that_are_written_read_the_same(run: Run) -> None:
    assert read_as("expected-by-dtype", FORMATS["expected-by-dtype"].write(run)).run == run


def test_an_unknown_metric_is_named_with_the_closest_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        read_as("expected", "name,graph_brakes\na,0\n")
    assert (caught.value.message, caught.value.line, caught.value.column) == (
        "not a known metric",
        1,
        "graph_brakes",
    )
    assert "did you mean graph_breaks" in str(caught.value)
