from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given

import torchstone as ts
from conftest import Command, WriteFile
from record_strategies import full_runs
from sample_files import PERFORMANCE, RUN, read_as
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.text.safe_text import defuse_cell
from torchstone.formats import recognise
from torchstone.formats.convert import convert

CASE = Case("mlp", "performance", "smoke", Variant("cpu", "inductor", dynamic=True, batch_size=4))


def rows_of(*outcomes: Outcome, plan: Sequence[Case] = ()) -> list[dict[str, str]]:
    run = Run("x", (*(outcome.case for outcome in outcomes), *plan), outcomes)
    return list(csv.DictReader(StringIO(convert(run, "csv").text)))


def measured(*measurements: Measurement, case: Case = CASE, status: str = "pass") -> Outcome:
    return Outcome(case, status, measurements)


def test_every_metric_of_a_case_has_a_row_with_the_axes_of_the_case() -> None:
    rows = rows_of(measured(Measurement("speedup", (1.5,)), Measurement("graph_breaks", (0,))))
    assert rows[0] == {
        "suite": "smoke",
        "benchmark": "mlp",
        "probe": "performance",
        "device": "cpu",
        "backend": "inductor",
        "mode": "",
        "dtype": "",
        "dynamic": "true",
        "batch_size": "4",
        "status": "pass",
        "metric": "speedup",
        "value": "1.5",
        "low": "",
        "high": "",
        "unit": "x",
        "trials": "1",
        "samples": "1",
    }
    assert [(row["metric"], row["value"], row["unit"]) for row in rows[1:]] == [
        ("graph_breaks", "0", "breaks")
    ]


def test_the_interval_is_the_one_that_the_file_states() -> None:
    stated = MeasurementDetails(interval=(1.25, 1.75), confidence=0.95)
    (row,) = rows_of(measured(Measurement("speedup", (1.5,), stated)))
    assert (row["low"], row["high"]) == ("1.25", "1.75")


def test_without_a_stated_interval_the_trials_give_one() -> None:
    of_trials = MeasurementDetails(trials=(2, 2, 2))
    (row,) = rows_of(measured(Measurement("abs_latency", (9.9, 10.1, 10, 10, 10.2, 10.4), of_trials)))
    assert (row["trials"], row["samples"]) == ("3", "6")
    assert 9.6 < float(row["low"]) < 9.9 < float(row["value"]) < 10.3 < float(row["high"]) < 10.6
    (row,) = rows_of(measured(Measurement("abs_latency", (9.9, 10.1, 10, 10, 10.2, 10.4))))
    assert (row["low"], row["high"], row["trials"], row["samples"]) == ("", "", "1", "6")


@pytest.mark.parametrize("interval", [(2.0, 1.0), (float("nan"), 1.0), (0.0, float("inf"))])
def test_an_interval_that_is_none_is_not_written(interval: tuple[float, float]) -> None:
    (row,) = rows_of(measured(Measurement("speedup", (1.5,), MeasurementDetails(interval=interval))))
    assert (row["low"], row["high"]) == ("", "")


def test_a_case_without_numbers_and_one_without_an_outcome_have_a_row_too() -> None:
    planned = Case("later", "performance")
    rows = rows_of(measured(status="timeout"), plan=[planned])
    assert [(row["benchmark"], row["status"], row["metric"], row["value"]) for row in rows] == [
        ("mlp", "timeout", "", ""),
        ("later", "", "", ""),
    ]


def test_further_axes_have_columns_of_their_own_whatever_they_are_called() -> None:
    sorts = [
        Case("sort", "performance", variant=Variant(further=(("metric", "l2"), ("n", str(size)))))
        for size in (10, 20)
    ]
    rows = rows_of(*(measured(Measurement("seconds", (1.0,)), case=case) for case in sorts))
    assert [(row["n"], row["metric (axis)"], row["metric"]) for row in rows] == [
        ("10", "l2", "seconds"),
        ("20", "l2", "seconds"),
    ]


def test_names_that_a_spreadsheet_would_execute_are_escaped_unless_asked_for() -> None:
    outcome = measured(Measurement("speedup", (1.5,)), case=Case("=HYPERLINK(1)", "performance"))
    run = Run("x", (outcome.case,), (outcome,))
    assert "'=HYPERLINK(1)" in convert(run, "csv").text
    assert "'" not in convert(run, "csv", raw_cells=True).text


@given(full_runs())
def test_any_run_is_a_table_of_equally_long_rows_without_formulas(run: Run) -> None:
    table = list(csv.reader(StringIO(convert(run, "csv").text), strict=True))
    assert len({len(row) for row in table}) == 1
    assert len(set(table[0])) == len(table[0])
    assert all(cell.startswith("'") or defuse_cell(cell) == cell for row in table for cell in row)
    metrics = sum(max(1, len(outcome.measurements)) for outcome in run.outcomes)
    assert len(table) == 1 + metrics + len(set(run.plan) - {outcome.case for outcome in run.outcomes})


def test_the_command_writes_what_python_converts_and_counts_it(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("run.jsonl", RUN)
    ran = torchstone("export", "run.jsonl", "--to", "csv", "--output", "out.csv")
    text = ts.convert(str(tmp_path / "run.jsonl"), to="csv").text
    assert (ran.code, ran.out) == (0, f"wrote 2 cases ({text.count(chr(10)) - 1} rows) to out.csv\n")
    assert (tmp_path / "out.csv").read_text() == text


def test_a_table_of_results_is_not_read_and_the_message_says_what_to_read(
    torchstone: Command, write: WriteFile
) -> None:
    text = convert(Run("x", (CASE,), (measured(Measurement("speedup", (1.5,))),)), "csv").text
    with pytest.raises(InputError, match="export --to csv"):
        recognise("out.csv", text)
    write("base.csv", PERFORMANCE)
    ran = torchstone("check", write("out.csv", text), "--baseline", "base.csv")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: out.csv:1: a table made by 'torchstone export --to csv'")
    assert "name the file that it was made from" in ran.err


class TestOwnRunFiles:
    """Run files of torchstone itself, with both default probes."""

    DETAILS = MeasurementDetails(start="fork", cache="cold", trials=(1, 1))

    def run(self, status: str = "pass") -> Run:
        accuracy = Case("mlp", "accuracy", "smoke", CASE.variant)
        outcomes = (
            Outcome(
                CASE,
                status,
                (
                    Measurement("speedup", (1.5, 1.6), self.DETAILS),
                    Measurement("compilation_latency", (2.0, 2.5), self.DETAILS),
                    Measurement("compile_seconds", (1.0, 1.5), self.DETAILS),
                    Measurement("graph_breaks", (0, 0), self.DETAILS),
                )
                if status == "pass"
                else (),
                repro="torchstone repro run.jsonl mlp",
            ),
            Outcome(
                accuracy,
                "pass",
                (Measurement("compile_seconds", (1.1, 1.2), self.DETAILS),),
                repro="torchstone repro run.jsonl mlp",
            ),
        )
        return Run("x", (CASE, accuracy), outcomes)

    @pytest.mark.parametrize("status", ["pass", "timeout"])
    def test_v3_holds_all_that_is_compared(self, status: str) -> None:
        run = self.run(status)
        converted = convert(run, "v3")
        assert (converted.losses, converted.omitted, converted.cases) == ((), ("repro",), 2)
        back = {o.case: o for o in read_as("v3", converted.text).run.outcomes}
        for outcome in run.outcomes:
            copy = back[outcome.case]
            assert copy.status == outcome.status
            assert [(m.metric, m.samples, m.details) for m in copy.measurements] == [
                (m.metric, m.samples, m.details) for m in outcome.measurements
            ]

    def test_export_needs_no_lossy_and_counts_what_is_in_the_file(
        self, torchstone: Command, write: WriteFile, tmp_path: Path
    ) -> None:
        write("run.jsonl", encode_run(self.run()))
        ran = torchstone("export", "run.jsonl", "--to", "v3", "--output", "out.json")
        assert (ran.code, ran.out, ran.err) == (0, "wrote 2 cases (6 records) to out.json\n", "")
        assert (tmp_path / "out.json").read_text().count("\n") == 6
        ran = torchstone("export", "run.jsonl", "--to", "accuracy", "--lossy", "--output", "out.csv")
        assert (ran.code, ran.out) == (0, "wrote 1 case to out.csv\n")
        assert "repro" not in ran.err
        assert "1 case (mlp)" in ran.err
