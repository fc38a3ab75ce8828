"""Compile time under its former name and by its former definition: files and rules that have them go on working, and nothing is compared by mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Command
from stated_facts import measurement_of, with_facts
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import decode_run, encode_run
from torchstone.formats import FORMATS

OLD = "dynamo_compilation_latency"
NOW = "compile_seconds"
WriteFile = Callable[[str, str], str]


def run_text(probe: str, *measurements: Measurement, extra: dict[str, Any] | None = None) -> str:
    case = Case("net", probe, "mine", Variant("cpu", "inductor", "inference", "float32", None, 4))
    return encode_run(Run("r", (case,), (with_facts(Outcome(case, "pass", measurements), extra),)))


def performance(seconds: float, name: str = NOW) -> str:
    return run_text("performance", Measurement("speedup", (1.5,)), Measurement(name, (seconds,)))


def rows_of(torchstone: Command, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    ran = torchstone(*arguments, "--format", "json")
    report = json.loads(ran.out)
    return ran.code, {
        row["metric"]: (row["verdict"], row.get("detail") or row.get("reason") or "")
        for row in report["rows"]
    }


FILES_WITH_THE_OLD_NAME = {
    "old.jsonl": performance(10.0, OLD),
    "old.csv": f"dev,name,batch_size,speedup,abs_latency,{OLD}\ncpu,net,4,1.5,2.0,10.0\n",
    "old-expected.csv": f"name,speedup,{OLD}\nnet,1.5,10.0\n",
    "old.json": json.dumps(
        [
            {
                "benchmark": {"name": "b", "mode": "inference", "dtype": "float32", "extra_info": {"device": "cpu"}},
                "model": {"name": "net", "backend": "inductor", "origins": ["mine"]},
                "metric": {"name": name, "benchmark_values": [value]},
            }
            for name, value in (("speedup", 1.5), (OLD, 10.0))
        ]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES_WITH_THE_OLD_NAME)
def test_a_baseline_with_the_old_name_is_for_the_new_one(
    torchstone: Command, write: WriteFile, name: str
) -> None:
    write(name, FILES_WITH_THE_OLD_NAME[name])
    for seconds, verdict in ((10.5, "pass"), (20.0, "regression")):
        write("new.jsonl", performance(seconds))
        code = torchstone("check", "new.jsonl", "--baseline", name, "--metric", NOW).code
        assert code == (0 if verdict == "pass" else 1)
        assert torchstone("check", "new.jsonl", "--baseline", name, "--metric", OLD).code == code


@pytest.mark.parametrize("name", ["old.jsonl", "old.csv", "old-expected.csv"])
def test_such_a_baseline_can_be_brought_up_to_date(torchstone: Command, write: WriteFile, name: str) -> None:
    path = Path(write(name, FILES_WITH_THE_OLD_NAME[name]))
    new = performance(20.0) if name != "old.csv" else FILES_WITH_THE_OLD_NAME[name].replace("10.0", "20.0")
    write("new.jsonl", new)
    assert torchstone("accept", "new.jsonl", "--baseline", name, "--metric", OLD, "--yes").code == 0
    assert "20" in path.read_text()
    assert torchstone("check", "new.jsonl", "--baseline", name).code == 0


@pytest.mark.parametrize("pattern", [OLD, NOW, "dynamo_comp*", "dynamo_*latency"])
def test_a_rule_with_the_old_name_judges_it(torchstone: Command, write: WriteFile, pattern: str) -> None:
    write("new.jsonl", performance(10.0))
    assert torchstone("check", "new.jsonl", "--rule", f"{pattern}=ceiling:9").code == 1
    assert torchstone("check", "new.jsonl", "--rule", f"{pattern}=ceiling:11").code == 0
    write("torchstone.toml", f'[[rule]]\nmetric = "{pattern}"\nkind = "ceiling"\nhigh = 9\n')
    assert torchstone("check", "new.jsonl").code == 1


def test_a_quarantine_entry_with_the_old_name_covers_it(torchstone: Command, write: WriteFile) -> None:
    write("new.jsonl", performance(20.0))
    write("old.jsonl", performance(10.0, OLD))
    write(
        "quarantine.toml",
        f'[[quarantine]]\ncase = "net"\nreason = "slow"\nowner = "me"\nmetric = ["{OLD}"]\nexpires = 2999-01-01\n',
    )
    arguments = ("check", "new.jsonl", "--baseline", "old.jsonl")
    ran = torchstone(*arguments)
    assert ran.code == 0, ran
    assert "quarantined 1" in ran.out


def test_two_names_of_one_metric_in_one_table_are_refused(torchstone: Command, write: WriteFile) -> None:
    write("both.csv", f"name,{OLD},{NOW}\nnet,1.0,1.0\n")
    ran = torchstone("check", "both.csv", "--kind", "expected", "--rule", f"{NOW}=ceiling:9")
    assert (ran.code, f"column {OLD}: the same metric" in ran.err) == (2, True), ran.err


def cache(seconds: float, **extra: str) -> str:
    return run_text(
        "compile_cache",
        measurement_of("cold_compile_seconds", (seconds,), {"start": "fork", **extra}),
    )


def test_compile_times_of_two_definitions_are_not_compared(torchstone: Command, write: WriteFile) -> None:
    write("old.jsonl", cache(17.0))
    write("new.jsonl", cache(17.0, definition="torch_timers"))
    code, rows = rows_of(torchstone, "check", "new.jsonl", "--baseline", "old.jsonl")
    verdict, detail = rows["cold_compile_seconds"]
    assert (code, verdict) == (1, "inconclusive")
    assert "by torch's own timers, the baseline as five compiled calls less five eager ones" in detail
    assert torchstone("check", "new.jsonl", "--baseline", "old.jsonl", "--compare-anyway").code == 0
    assert torchstone("check", "new.jsonl", "--baseline", "new.jsonl").code == 0
    _, rows = rows_of(torchstone, "compare", "old.jsonl", "new.jsonl")
    assert rows["cold_compile_seconds"][0] == "inconclusive"


@pytest.mark.parametrize("kind", ["cachebench", "v3", "run"])
def test_the_definition_is_kept_on_the_way(kind: str) -> None:
    for extra, definition in (({"definition": "torch_timers"}, "torch_timers"), ({}, "warm_up_calls")):
        run = decode_run("r", cache(17.0, **extra)).run
        (measurement,) = FORMATS[kind].read("x", FORMATS[kind].write(run)).run.outcomes[0].measurements
        assert measurement.facts()["definition"] == definition


@pytest.mark.parametrize(
    ("probe", "metric"),
    [
        ("compile_cache", "cold_compile_seconds"),
        ("compile_cache", "warm_first_result_seconds"),
        ("performance", "compilation_latency"),
        ("performance", NOW),
        ("performance", "abs_latency"),
        ("performance", "eager_latency"),
        ("accuracy", NOW),
        ("scaling", "iteration_time"),
        ("instructions", "cpu_seconds"),
    ],
)
def test_a_negative_time_is_invalid_and_never_adopted(
    torchstone: Command, write: WriteFile, probe: str, metric: str
) -> None:
    stated = MeasurementDetails(definition="torch_timers")
    base = write("base.jsonl", run_text(probe, Measurement(metric, (17.0,), stated)))
    write("new.jsonl", run_text(probe, Measurement(metric, (-14.3,), stated)))
    code, rows = rows_of(torchstone, "check", "new.jsonl", "--baseline", "base.jsonl")
    assert (code, rows[metric][0]) == (1, "invalid")
    assert rows[metric][1].endswith("-14.3 is negative")
    code, rows = rows_of(torchstone, "compare", "base.jsonl", "new.jsonl")
    assert (code, rows[metric][0]) == (1, "invalid")
    before = Path(base).read_text()
    ran = torchstone("accept", "new.jsonl", "--baseline", "base.jsonl", "--yes")
    assert "-14.3 is negative" in ran.out
    assert Path(base).read_text() == before


def test_a_negative_compile_time_in_pytorchs_own_files_is_invalid(
    torchstone: Command, write: WriteFile
) -> None:
    header = "dev,name,batch_size,speedup,abs_latency,compilation_latency\n"
    write("base.csv", header + "cpu,net,4,1.5,2.0,17.0\n")
    write("new.csv", header + "cpu,net,4,1.5,2.0,-14.3\n")
    code, rows = rows_of(torchstone, "check", "new.csv", "--baseline", "base.csv")
    assert (code, rows["compilation_latency"][0]) == (1, "invalid")
    for name, value in (("base.json", 17.0), ("new.json", -14.3)):
        write(name, FORMATS["cachebench"].write(decode_run("r", cache(17.0)).run).replace("17.0", str(value)))
    code, rows = rows_of(torchstone, "check", "new.json", "--baseline", "base.json")
    assert (code, rows["cold_compile_seconds"][0]) == (1, "invalid")


def test_a_negative_compile_time_is_not_exported(torchstone: Command, write: WriteFile) -> None:
    write("old.jsonl", cache(-14.3))
    assert FORMATS["cachebench"].write(decode_run("r", cache(-14.3)).run) == ""
    assert torchstone("export", "old.jsonl", "--to", "cachebench", "-o", "out.json").code == 2


def test_a_saving_may_be_negative(torchstone: Command, write: WriteFile) -> None:
    write("run.jsonl", run_text("compile_cache", Measurement("warm_saved", (-3.0,))))
    assert torchstone("check", "run.jsonl", "--baseline", "run.jsonl").code == 0


def test_what_was_left_out_on_purpose_is_not_missing(torchstone: Command, write: WriteFile) -> None:
    told = {"left_out": {"compilation_latency": "calls of 50 s scatter"}}
    speedup = Measurement("speedup", (1.5,))
    write("base.jsonl", run_text("performance", speedup, Measurement("compilation_latency", (17.0,))))
    write("new.jsonl", run_text("performance", speedup, extra=told))
    for command in (
        ("check", "new.jsonl", "--baseline", "base.jsonl"),
        ("compare", "base.jsonl", "new.jsonl"),
    ):
        _, rows = rows_of(torchstone, *command)
        verdict, detail = rows["compilation_latency"]
        assert verdict == "inconclusive"
        assert "calls of 50 s scatter" in detail
