"""One whole run through the command line, and everything that can be done with its files."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import Command
from live_processes import read_run
from stated_facts import facts_of
from torchstone.core.records import Outcome
from torchstone.core.vocabulary import CAPTURE_METRICS

BENCHMARKS = """
import sys, torch, torchstone

@torchstone.benchmark(batch_size=4, parameters={"width": [4, 8]})
def linear(width, batch_size):
    print("building", width)
    return torch.nn.Linear(width, width), (torch.ones(batch_size, width),)

@torchstone.benchmark
def broken():
    raise ValueError("broken <b>on purpose</b>")
"""

# The command, in a process that afterwards looks at what it has imported.
WATCHED = """
import sys
from torchstone.cli.main import run
code = run(sys.argv[1:])
print("imported:", *sorted({"torch", "numpy"} & set(sys.modules)))
sys.exit(code)
"""


class Finished(NamedTuple):
    folder: Path
    code: int
    out: str
    err: str

    @property
    def run_file(self) -> Path:
        return self.folder / "run.jsonl"

    def outcomes(self) -> dict[tuple[str, str], Outcome]:
        return {(o.case.benchmark, o.case.probe): o for o in read_run(self.run_file).run.outcomes}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run of a user's file, in a git repository, with all outputs."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "bench_mine.py").write_text(BENCHMARKS)
    identity = ["-c", "user.name=me", "-c", "user.email=me@here"]
    for arguments in (["init", "-b", "main"], ["add", "."], ["commit", "-m", "one"]):
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)
    options = "--backend eager --repeat 20 --threads 1 --jobs 2 -o run.jsonl --csv csv --v3 v3 --label first"
    ran = subprocess.run(
        [sys.executable, "-c", WATCHED, "run", "bench_mine.py", *options.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return Finished(folder, ran.returncode, ran.stdout, ran.stderr)


def test_a_run_with_a_failure_ends_with_exit_code_1_and_a_run_file_of_all_cases(finished: Finished) -> None:
    assert finished.code == 1, finished.err
    assert "Traceback" not in finished.err
    run = read_run(finished.run_file).run
    assert run.finished
    assert {outcome.case for outcome in run.outcomes} == set(run.plan)
    assert len(run.plan) == 6
    statuses = {name: outcome.status for (name, _), outcome in finished.outcomes().items()}
    assert statuses == {"linear(width=4)": "pass", "linear(width=8)": "pass", "broken": "eager_fail_to_run"}


def test_the_run_file_knows_revision_environment_and_settings(finished: Finished) -> None:
    run = read_run(finished.run_file).run
    assert len(run.revision.commit) == 40
    assert (run.revision.branch, run.revision.dirty, run.revision.label) == ("main", False, "first")
    assert run.environment.versions["torch"]
    assert run.environment.threads == 1
    assert run.settings.repeat == 20


def test_the_parent_never_imports_torch(finished: Finished) -> None:
    assert finished.out.splitlines()[-1] == "imported:"


def test_a_line_for_each_case_and_a_summary_are_printed(finished: Finished) -> None:
    for number in range(1, 7):
        assert f"[{number}/6] " in finished.out
    assert "broken <b>on purpose</b>" in finished.out
    assert "run file: run.jsonl" in finished.out
    assert "\x1b" not in finished.out


def test_what_takes_long_is_said_at_once_where_nothing_can_be_seen_to_move(finished: Finished) -> None:
    assert finished.err.splitlines()[0] == "loading torch and inspecting the machine"


def test_measured_values_and_what_was_printed_are_kept(finished: Finished) -> None:
    outcome = finished.outcomes()["linear(width=8)", "performance"]
    for metric in ("speedup", "abs_latency", "eager_latency", "compilation_latency", "eager_peak_mem"):
        assert outcome.value(metric) is not None, metric
    (latency,) = [each for each in outcome.measurements if each.metric == "abs_latency"]
    assert len(latency.samples) == 20
    assert "building 8" in facts_of(outcome)["log"]
    failure = finished.outcomes()["broken", "accuracy"].failure
    assert failure is not None
    assert (failure.phase, failure.message) == ("load", "ValueError: broken <b>on purpose</b>")
    assert "bench_mine.py" in failure.traceback


def test_the_csv_files_have_the_originals_names_and_headers(finished: Finished) -> None:
    stem = "eager_bench_mine_float32_inference_cpu"
    assert sorted(path.name for path in (finished.folder / "csv").iterdir()) == [
        f"{stem}_accuracy.csv",
        f"{stem}_performance.csv",
    ]
    stats = list(CAPTURE_METRICS)
    with open(finished.folder / "csv" / f"{stem}_performance.csv") as file:
        rows = list(csv.reader(file))
    assert rows[0] == [
        *("dev", "name", "batch_size", "speedup", "abs_latency", "compilation_latency"),
        *("compression_ratio", "eager_peak_mem", "dynamo_peak_mem", *stats),
    ]
    assert {row[1]: row[0] for row in rows[1:]} == dict.fromkeys(
        ("linear(width=4)", "linear(width=8)", "broken"), "cpu"
    )
    with open(finished.folder / "csv" / f"{stem}_accuracy.csv") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["dev", "name", "batch_size", "accuracy", *stats, "compilation_latency"]
    assert {row[1]: row[3] for row in rows[1:]} == {
        "linear(width=4)": "pass",
        "linear(width=8)": "pass",
        "broken": "eager_fail_to_run",
    }


def test_the_v3_records_carry_machine_versions_and_revision(finished: Finished) -> None:
    run = read_run(finished.run_file).run
    files = sorted((finished.folder / "v3").iterdir())
    assert [path.suffix for path in files] == [".json", ".json"]
    records = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert {record["metric"]["name"] for record in records} >= {"accuracy", "speedup", "abs_latency"}
    for record in records:
        assert record["head_sha"] == run.revision.commit
        assert record["head_branch"] == "main"
        assert record["dependencies"]["torch"]["version"] == run.environment.versions["torch"]
        assert record["runners"][0]["name"] == "cpu"
        assert record["runners"][0]["extra_info"]["fingerprint"] == run.environment.fingerprint
        assert record["model"]["origins"] == ["bench_mine"]


def test_the_gate_takes_the_run_file_the_csvs_and_the_records(
    finished: Finished, torchstone: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished.folder)
    expected = finished.folder / "expected.csv"
    expected.write_text(
        "name,accuracy\nlinear(width=4),pass\nlinear(width=8),pass\nbroken,eager_fail_to_run\n"
    )
    (v3,) = [str(path) for path in (finished.folder / "v3").iterdir() if "accuracy" in path.name]
    (table,) = [str(path) for path in (finished.folder / "csv").iterdir() if "accuracy" in path.name]
    for path in ("run.jsonl", v3, table):
        ran = torchstone("check", path, "--baseline", str(expected))
        assert ran.code == 0, (path, ran)


def test_the_run_file_the_csvs_and_the_records_can_be_exported(
    finished: Finished, torchstone: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished.folder)
    files = [str(path) for folder in ("csv", "v3") for path in (finished.folder / folder).iterdir()]
    conversions = [("run.jsonl", "expected"), *((path, "v3") for path in files)]
    for path, kind in conversions:
        ran = torchstone("export", path, "--to", kind, "--lossy", "--output", f"exported.{kind}")
        assert ran.code == 0, (path, kind, ran.err)


@pytest.fixture
def there(finished: Finished, torchstone: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Runs a command in the folder of the finished run, and sees that the run file stays as it is."""
    monkeypatch.chdir(finished.folder)
    before = finished.run_file.read_bytes()
    yield torchstone
    assert finished.run_file.read_bytes() == before


def test_each_outcome_has_the_command_that_measures_it_again(finished: Finished, there: Command) -> None:
    outcome = finished.outcomes()["broken", "performance"]
    program, *arguments = shlex.split(outcome.repro)
    assert program == "torchstone"
    ran = there(*arguments)
    assert ran.code == 1
    assert ran.out.count("broken <b>on purpose</b>") >= 2
    assert ran.out.startswith("then: ")
    assert "now:  " in ran.out


def test_cases_of_several_benchmarks_are_listed_on_lines_of_their_own(there: Command) -> None:
    ran = there("repro", "run.jsonl", "linear*")
    assert ran.code == 2
    first, say, *cases = ran.err.splitlines()
    assert first == "error: linear* matches 4 cases of several benchmarks in run.jsonl"
    assert say == "  choose one of:"
    assert [case.split("[")[0] for case in cases] == [
        f"    bench_mine::linear(width={n})" for n in (4, 4, 8, 8)
    ]


def test_a_name_that_no_benchmark_has_is_refused(there: Command) -> None:
    ran = there("repro", "run.jsonl", "brokem")
    assert ran.code == 2
    assert "run.jsonl has no case brokem\n  did you mean bench_mine::broken[" in ran.err


def test_a_benchmarks_name_means_all_its_cases_one_after_the_other(there: Command) -> None:
    ran = there("repro", "run.jsonl", "linear(width=8)")
    assert ran.code == 0
    lines = [line.split()[:4] for line in ran.out.splitlines() if line.startswith(("then: ", "now: "))]
    expected = [
        [word, "pass", "linear(width=8)", probe] for probe in ("perf", "acc") for word in ("then:", "now:")
    ]
    assert sorted(lines) == sorted(expected)
    assert [line[0] for line in lines] == ["then:", "now:", "then:", "now:"]


def test_a_pattern_that_means_one_case_is_enough(there: Command) -> None:
    ran = there("repro", "run.jsonl", "*linear(width=4)*::accuracy", "--times", "2")
    assert ran.code == 0
    assert ran.out.count("now:  ") == 2
    assert "building 4" in ran.err


def test_a_file_that_was_not_measured_here_cannot_be_measured_again(
    there: Command, finished: Finished
) -> None:
    (table,) = [path for path in (finished.folder / "csv").iterdir() if "accuracy" in path.name]
    assert there("import", str(table), "--output", "imported.jsonl").code == 0
    for command in (["repro", "imported.jsonl", "broken"], ["run", "--resume", "imported.jsonl"]):
        ran = there(*command)
        assert ran.code == 2
        assert "it was not measured by 'torchstone run'" in ran.err


def test_a_finished_run_has_nothing_left_to_measure_but_its_other_files_can_still_be_written(
    there: Command,
) -> None:
    ran = there("run", "--resume", "run.jsonl", "--csv", "later")
    assert ran.code == 1
    assert "run.jsonl: nothing is left to measure" in ran.err
    assert len(os.listdir("later")) == 2
    assert there("run", "--resume", "run.jsonl", "--exit-zero", "-j", "1", "--timeout", "5m").code == 0


def test_the_file_of_a_run_is_not_overwritten(there: Command) -> None:
    ran = there("run", "bench_mine.py", "-o", "run.jsonl")
    assert ran.code == 2
    assert "run.jsonl already exists: a finished run" in ran.err
    assert "torchstone show run.jsonl" in ran.err


def test_the_plan_can_be_looked_at_and_nothing_is_measured(there: Command, finished: Finished) -> None:
    before = sorted(os.listdir(finished.folder))
    ran = there(
        "run", "bench_mine.py::broken", "--dry-run", "--mode", "inference,training", "--device", "cpu"
    )
    assert ran.code == 0
    assert "4 cases would be measured" in ran.out
    assert ran.out.count("broken") == 4
    assert "linear" not in ran.out
    assert sorted(os.listdir(finished.folder)) == before


def test_the_benchmarks_of_a_file_are_listed(there: Command) -> None:
    ran = there("list", "bench_mine.py", "--json")
    assert ran.code == 0
    assert [each["name"] for each in json.loads(ran.out)] == ["linear(width=4)", "linear(width=8)", "broken"]


def test_suites_and_probes_are_listed_without_torch() -> None:
    ran = subprocess.run([sys.executable, "-c", WATCHED, "list"], capture_output=True, text=True, check=True)
    assert "smoke" in ran.stdout
    assert "accuracy" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "imported:"


def test_where_torch_is_missing_each_package_is_named_once(
    torchstone: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchstone.api.inspecting.listing.find_spec", lambda _: None)
    listed = json.loads(torchstone("list", "--json").out)
    suites = {each["name"]: each["runs_here"] for each in listed["suites"]}
    assert suites["smoke"] == "no: torch not installed"
    assert suites["huggingface"] == "no: torch and transformers not installed"
    probes = {each["name"]: each["runs_here"] for each in listed["probes"]}
    assert probes["performance"] == "no: torch not installed"
    assert "yes" not in probes.values()


PACKAGE = """
import sys
from torchstone import Benchmark, Suite

def build(batch_size):
    import torch
    return torch.nn.Linear(4, 4), (torch.ones(batch_size, 4),)

def collect():
    return [Benchmark("shipped", build, 4)]

SUITE = Suite("their_suite", "comes with a package", collect)
"""


def test_another_package_can_ship_a_suite(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    info = installed / "their_package-1.0.dist-info"
    info.mkdir(parents=True)
    (installed / "their_package.py").write_text(PACKAGE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torchstone.suites]\ntheir_suite = their_package:SUITE\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])}

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "torchstone", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    assert "their_suite" in call("list").stdout
    assert "shipped" in call("list", "their_suite").stdout
    ran = call("run", "their_suite", "--backend", "eager", "--repeat", "20", "--device", "cpu")
    assert ran.returncode == 0, ran.stderr
    (path,) = (tmp_path / ".torchstone" / "runs").iterdir()
    run = read_run(path).run
    assert [outcome.status for outcome in run.outcomes] == ["pass", "pass"]
    assert path.name == f"{run.id}.jsonl"
