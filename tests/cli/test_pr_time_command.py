"""``torchstone pr-time``: PyTorch's files in, PyTorch's files out, and a benchmark that fails makes itself heard."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Command
from live_processes import PATIENCE, read_run, start_torchstone, wait_until
from torchstone.api.measuring.pr_time import file_name

ADDITIONS = """\
import gc
import subprocess
import sys

import torch
from benchmark_base import BenchmarkBase


class Additions(BenchmarkBase):
    def __init__(self, backend, dynamic=None):
        super().__init__("additions", "cpu", backend=backend, mode="inference", dynamic=dynamic)

    def name(self):
        shapes = "_dynamic" if self.is_dynamic() else ""
        return f"{self.category()}/{self.backend()}{shapes}"

    def description(self):
        return "ten additions in a loop"

    def _prepare_once(self):
        self.start = torch.ones(16)

    def _prepare(self):
        torch._dynamo.reset()
        gc.collect()
        gc.disable()

    def _work(self):
        @torch.compile(backend=self.backend(), fullgraph=True, dynamic=self.is_dynamic())
        def add(total):
            for step in range(10):
                total = total + step
            return total

        add(self.start)


class Broken(Additions):
    def name(self):
        return "broken"

    def _work(self):
        raise ValueError("this one never worked")


class Import(BenchmarkBase):
    def __init__(self, module):
        super().__init__(category="import", device="cpu")
        self.module = module

    def name(self):
        return f"import_{self.module}"

    def _prepare(self):
        pass

    def _work(self):
        pass

    def collect_all(self):
        command = [sys.executable, "-X", "importtime", "-c", f"import {self.module}"]
        lines = subprocess.run(command, capture_output=True, text=True).stderr.splitlines()
        times = [int(line.split("|")[1]) for line in lines if line.split("|")[-1].strip() == self.module]
        self.results = [(self.name(), "import_time_us", min(times))]
        return self


def main():
    path = sys.argv[1]
    for benchmark in (Additions("eager"), Additions("eager", dynamic=True), Broken("eager")):
        benchmark.enable_compile_time_instruction_count().collect_all().append_results(path)
    Import("csv").with_iterations(2).collect_all().append_results(path)


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def additions(tmp_path: Path) -> str:
    """A file of the original's kind, in a folder that has another benchmark_base."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "benchmark_base.py").write_text("raise RuntimeError('not this one')\n")
    path = folder / "additions.py"
    path.write_text(ADDITIONS)
    return str(path)


def only_run_file(folder: Path) -> Path:
    (found,) = (folder / ".torchstone" / "runs").iterdir()
    return found


def test_rows_are_appended_and_records_written_and_what_failed_is_named(
    torchstone: Command, tmp_path: Path, additions: str
) -> None:
    output = tmp_path / "results.csv"
    output.write_text("earlier,instruction_count,5")
    done = torchstone(
        "pr-time", additions, "--counter=python", "--repeat=2", "--jobs=2", "--output", str(output)
    )
    assert done.code == 1
    assert "no row for broken (" in done.err
    assert "this one never worked" in done.err
    earlier, static, dynamic, imported, *rest = output.read_text().split("\n")
    assert earlier == "earlier,instruction_count,5"
    assert rest == [""]
    run = read_run(only_run_file(tmp_path)).run
    by_name = {outcome.case.benchmark: outcome for outcome in run.outcomes}
    assert set(by_name) == {"additions/eager", "additions/eager_dynamic", "broken", "import_csv"}
    counts = by_name["additions/eager"].measurements[0]
    assert len(counts.samples) == 2
    assert static == f"additions/eager,compile_time_python_calls,{min(counts.samples)}"
    assert dynamic.startswith("additions/eager_dynamic,compile_time_python_calls,")
    assert imported.startswith("import_csv,import_time_us,")
    written = sorted(path.name for path in tmp_path.glob("*.json"))
    assert written == ["additions%2Feager.json", "additions%2Feager_dynamic.json", "import_csv.json"]
    assert json.loads((tmp_path / "additions%2Feager_dynamic.json").read_text()) == [
        {
            "benchmark": {
                "name": "pr_time_benchmarks",
                "mode": "inference",
                "extra_info": {
                    "is_dynamic": True,
                    "device": "cpu",
                    "description": "ten additions in a loop",
                    "counter": "python",
                },
            },
            "model": {"name": "additions/eager_dynamic", "type": "additions", "backend": "eager"},
            "metric": {
                "name": "compile_time_python_calls",
                "benchmark_values": [int(dynamic.rpartition(",")[2])],
            },
        }
    ]
    judged = torchstone("check", str(output), "--baseline", str(output))
    assert judged.code == 0, judged.out + judged.err


def test_without_a_file_the_rows_are_all_that_is_on_stdout(
    torchstone: Command, tmp_path: Path, additions: str
) -> None:
    done = torchstone("pr-time", additions, "-k", "eager$", "--counter=python", "--repeat=1")
    assert done.code == 0, done.err
    (row,) = done.out.splitlines()
    assert row.startswith("additions/eager,compile_time_python_calls,")
    assert list(tmp_path.glob("*.json")) == []
    assert only_run_file(tmp_path).name in done.err


def test_run_takes_the_same_file(torchstone: Command, tmp_path: Path, additions: str) -> None:
    target = f"{additions}::additions/eager"
    done = torchstone("run", target, "--counter=python", "--repeat=1", "-o", "run.jsonl")
    assert done.code == 0, done.err
    (outcome,) = read_run(tmp_path / "run.jsonl").run.outcomes
    assert outcome.case.probe == "instructions"
    assert outcome.details
    assert outcome.details.category == "additions"


def test_a_suite_can_be_named_too(torchstone: Command, tmp_path: Path) -> None:
    output = tmp_path / "results.csv"
    done = torchstone(
        "pr-time",
        "compile_time",
        "-k",
        "^disable_overhead$",
        "--counter=python",
        "--repeat=1",
        "--output",
        str(output),
    )
    assert done.code == 0, done.err
    assert output.read_text().startswith("disable_overhead,python_calls,")


def test_if_nothing_passed_nothing_is_written(torchstone: Command, tmp_path: Path, additions: str) -> None:
    output = tmp_path / "results.csv"
    done = torchstone("pr-time", additions, "-k", "broken", "--counter=python", "--output", str(output))
    assert done.code == 1
    assert not output.exists()
    assert list(tmp_path.glob("*.json")) == []


def test_two_files_with_one_name_are_refused_before_anything_is_measured(
    torchstone: Command, tmp_path: Path, additions: str
) -> None:
    other = tmp_path / "again.py"
    other.write_text(ADDITIONS)
    output = tmp_path / "results.csv"
    done = torchstone(
        "pr-time", additions, str(other), "-k", "broken", "--counter=python", "--output", str(output)
    )
    assert done.code == 2
    assert "broken is both in additions and in again" in done.err
    assert not (tmp_path / ".torchstone").exists()
    assert not output.exists()


def test_a_record_that_could_not_be_written_is_told_before_anything_is_measured(
    torchstone: Command, tmp_path: Path, additions: str
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "broken.json").mkdir()
    asked = ("pr-time", additions, "-k", "broken", "--counter=python", "--output")
    done = torchstone(*asked, "results/rows.csv")
    assert done.code == 2
    assert f"{tmp_path}/results/broken.json: this is a folder, expected a file" in done.err
    assert not (tmp_path / ".torchstone").exists()
    assert os.listdir(tmp_path / "results") == ["broken.json"]


def test_an_interrupted_run_writes_no_rows_and_says_how_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import pathlib, sys, time\n"
        "from benchmark_base import BenchmarkBase\n"
        "class Slow(BenchmarkBase):\n"
        "    def name(self): return 'slow'\n"
        "    def _prepare(self): pass\n"
        "    def _work(self):\n"
        "        pathlib.Path('started').touch()\n"
        "        time.sleep(1000)\n"
        "if __name__ == '__main__':\n"
        "    Slow('slow', 'cpu').enable_instruction_count().collect_all().append_results(sys.argv[1])\n"
    )
    running = start_torchstone(tmp_path, "pr-time", "slow.py", "--counter=python", "--output=results.csv")
    wait_until((tmp_path / "started").exists, "the work has not begun")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    run_file = only_run_file(tmp_path).relative_to(tmp_path)
    assert f"torchstone run --resume {run_file}" in said
    assert f"torchstone export {run_file} --to pr-time" in said
    assert not (tmp_path / "results.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["not_there.py"], "not_there.py"),
        (["--output=results.csv"], "FILES"),
        (["smoke", "--output=no_such_folder/results.csv"], "the parent folder does not exist"),
        (["smoke", "--output=."], "a folder"),
        (["smoke", "--output=results.json"], "the rows are CSV"),
        (["smoke", "--counter=fingers"], "fingers"),
        (["smoke", "--repeat=0"], "--repeat"),
        (["smoke", "-k", "("], "not a regular expression"),
    ],
)
def test_bad_usage_is_refused_before_anything_is_measured(
    torchstone: Command, tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = torchstone("pr-time", *arguments)
    assert done.code == 2
    assert said in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("main", "said"),
    [
        ("raise OSError('no disk')", "bad.py:3: running its main() raised OSError: no disk"),
        ("import os; os._exit(3)", "bad.py: the worker exited with code 3"),
        ("import sys; sys.exit(1)", "bad.py:3: its main() ended with sys.exit(1)"),
        ("pass", "bad.py: no benchmark is defined in it: its main() measures nothing"),
    ],
)
def test_a_main_that_fails_is_told_with_its_place(
    torchstone: Command, tmp_path: Path, main: str, said: str
) -> None:
    (tmp_path / "bad.py").write_text(f"import benchmark_base\ndef main():\n    {main}\n")
    done = torchstone("pr-time", "bad.py", "--output=results.csv")
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "results.csv").exists()


@pytest.mark.parametrize("name", ["a/b", "../up", "/etc/x", "a\\b", "c:d", "..", "100%"])
def test_a_json_file_stays_in_its_folder_whatever_the_benchmark_is_called(name: str, tmp_path: Path) -> None:
    path = tmp_path / file_name(name)
    path.touch()
    assert list(tmp_path.iterdir()) == [path]


def test_different_names_have_different_json_files() -> None:
    names = ["a/b", "a_b", "a%2Fb", "a\\b", "a b"]
    assert len({file_name(name) for name in names}) == len(names)


def test_the_command_line_starts_without_torch() -> None:
    code = "import sys; import torchstone.cli.commands.measuring.pr_time; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
