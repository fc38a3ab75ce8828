"""The command that a report suggests for a missing row measures the case of that row."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from conftest import Command, WriteFile
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import decode_run, encode_run
from torchstone.core.run_settings import Settings

VARIANT = Variant("cpu", "inductor", "inference", "float32", batch_size=4)
SMOKE = {"smoke": BenchmarkSource("suite", "smoke")}
BENCH = """
import torch, torchstone

@torchstone.benchmark
def doubled():
    return (lambda x: x * 2), (torch.ones(4),)

@torchstone.benchmark
def tripled():
    return (lambda x: x * 3), (torch.ones(4),)
"""


def run_with(*names: str, settings: Settings, variant: Variant = VARIANT, planned: Sequence[str] = ()) -> str:
    suite = next(iter(settings.sources), "")
    cases = [Case(name, "performance", suite, variant) for name in (*names, *planned)]
    outcomes = [Outcome(case, "pass", (Measurement("speedup", (1.5,)),)) for case in cases[: len(names)]]
    return encode_run(Run("x", tuple(cases), tuple(outcomes), settings=settings))


def reproduce(torchstone: Command, *arguments: str) -> list[str]:
    ran = torchstone("check", *arguments, "--format", "json")
    assert ran.code == 1
    commands = [row["reproduce"] for row in json.loads(ran.out)["rows"] if row["blocks"]]
    assert len(commands) == 1
    return shlex.split(commands[0])


def test_a_row_of_a_table_is_measured_with_the_axes_that_all_cases_share(
    torchstone: Command, write: WriteFile
) -> None:
    write("e.csv", "name,speedup\na,1.5\ngone,1.5\n")
    write("r.jsonl", run_with("a", settings=Settings(sources=SMOKE, trials=3)))
    words = "torchstone run smoke --only gone --probe performance --device cpu --backend inductor --mode inference"
    assert reproduce(torchstone, "r.jsonl", "--baseline", "e.csv") == [
        *words.split(),
        *("--dtype", "float32", "--trials", "3"),
    ]


@pytest.mark.parametrize("preset", ["", "dashboard"])
def test_what_decides_whether_results_can_be_compared_is_as_in_the_run(
    preset: str, torchstone: Command, write: WriteFile
) -> None:
    write("e.csv", "name,speedup\na,1.5\ngone,1.5\n")
    settings = Settings(sources=SMOKE, threads=2, cache="warm", start="spawn", preset=preset)
    write("r.jsonl", run_with("a", settings=settings))
    found = reproduce(torchstone, "r.jsonl", "--baseline", "e.csv")
    assert found[-6:] == [*("--threads", "2", "--start", "spawn", "--cache", "warm")]
    assert ("--preset" in found) == bool(preset)


def test_an_undecided_row_is_measured_again_with_the_threads_and_cache_of_the_run(
    torchstone: Command, write: WriteFile
) -> None:
    for name, speedups in (("base.jsonl", (1.5, 1.49)), ("new.jsonl", (1.5, 1.46))):
        case = Case("a", "performance", "smoke", VARIANT)
        found = Measurement("speedup", speedups, MeasurementDetails(trials=(1, 1)))
        settings = Settings(sources=SMOKE, trials=2, threads=2, cache="warm")
        write(name, encode_run(Run("x", (case,), (Outcome(case, "pass", (found,)),), settings=settings)))
    command = reproduce(torchstone, "new.jsonl", "--baseline", "base.jsonl")
    assert " ".join(command).count(" --threads 2 --cache warm") == 1


def test_a_row_of_a_run_file_is_measured_with_its_own_axes(torchstone: Command, write: WriteFile) -> None:
    further = (("compile_mode", "max-autotune"), ("fullgraph", "true"), ("max_fusion_size", "8"))
    gone = Variant("cpu", "inductor", "training", "bfloat16", dynamic=True, batch_size=16, further=further)
    case = Case("-gone", "performance", "smoke", gone)
    base = Run("b", (case,), (Outcome(case, "pass", (Measurement("speedup", (1.5,)),)),))
    write("base.jsonl", encode_run(base))
    write("r.jsonl", run_with("a", settings=Settings(sources=SMOKE)))
    found = reproduce(torchstone, "r.jsonl", "--baseline", "base.jsonl", "--allow", "new")
    assert found[3:] == [
        *("--only=-gone", "--probe", "performance", "--device", "cpu", "--backend", "inductor"),
        *("--mode", "training", "--dtype", "bfloat16", "--dynamic", "true", "--batch-size", "16"),
        *("--compile-mode", "max-autotune", "--fullgraph", "--option", "max_fusion_size=8"),
    ]


def test_a_planned_case_is_measured_with_all_settings_of_its_run(
    torchstone: Command, write: WriteFile
) -> None:
    write("r.jsonl", run_with("a", settings=Settings(sources=SMOKE), planned=["gone"]))
    write("e.csv", "name,speedup\na,1.5\n")
    gone = Case("gone", "performance", "smoke", VARIANT)
    found = reproduce(torchstone, "r.jsonl", "--baseline", "e.csv")
    assert found == ["torchstone", "repro", "r.jsonl", gone.id]


@pytest.mark.parametrize(
    "source",
    [
        BenchmarkSource("file", "bench_x", "/nonexistent/bench_x.py"),
        BenchmarkSource("file", "bench_x", "/etc/passwd"),
        BenchmarkSource("suite", "--trust"),
        BenchmarkSource("suite", "../elsewhere.py"),
    ],
)
def test_a_file_elsewhere_is_never_suggested(
    source: BenchmarkSource, torchstone: Command, write: WriteFile
) -> None:
    write("r.jsonl", run_with("a", settings=Settings(sources={"s": source})))
    write("e.csv", "name,speedup\na,1.5\ngone,1.5\n")
    found = reproduce(torchstone, "r.jsonl", "--baseline", "e.csv")
    assert found[:3] == ["torchstone", "check", "r.jsonl"]


@pytest.mark.slow
def test_the_suggested_command_measures_the_missing_case(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("bench_two.py", BENCH)
    options = ("--probe", "accuracy", "--device", "cpu", "--backend", "eager")
    assert torchstone("run", "bench_two.py", *options, "-o", "both.jsonl").code == 0
    assert torchstone("accept", "both.jsonl", "--baseline", "e.csv", "--add-new", "--yes").code == 0
    assert torchstone("run", "bench_two.py::doubled", *options, "-o", "one.jsonl").code == 0
    found = reproduce(torchstone, "one.jsonl", "--baseline", "e.csv")
    assert found[:3] == ["torchstone", "run", "bench_two.py"]
    assert torchstone(*found[1:], "-o", "again.jsonl").code == 0
    runs = [decode_run(name, (tmp_path / name).read_text()).run for name in ("both.jsonl", "again.jsonl")]
    assert runs[1].plan == tuple(case for case in runs[0].plan if case.benchmark == "tripled")
    assert torchstone("check", "one.jsonl", "again.jsonl", "--baseline", "e.csv").code == 0
