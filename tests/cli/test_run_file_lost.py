"""A run file that is taken away while a command writes it: nothing is lost, it is said where everything is, and the exit code is 3."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from conftest import Command
from live_processes import read_run, wait_until
from torchstone.measure.ab import experiment as ab
from torchstone.measure.ab import pair as turns

# The second benchmark does what the file 'damage' says.
BENCHMARKS = """
import os, pathlib, shutil
import torch, torchstone

@torchstone.benchmark(parameters={"number": [0, 1, 2]})
def lossy(number):
    if number == 1:
        exec(pathlib.Path("damage").read_text())
    return torch.relu, (torch.ones(4),)
"""
QUICK = ("--backend", "none", "--device", "cpu", "--threads", "1")
OPTIONS = (*QUICK, "--jobs", "1", "--repeat", "5", "--probe", "performance")


def damage(folder: Path, code: str) -> None:
    (folder / "bench_lossy.py").write_text(BENCHMARKS)
    (folder / "damage").write_text(code)


def test_a_run_whose_file_is_removed_has_all_outcomes_in_a_new_one(
    torchstone: Command, tmp_path: Path
) -> None:
    damage(tmp_path, "os.unlink('run.jsonl')")
    ran = torchstone("run", "bench_lossy.py", *OPTIONS, "-o", "run.jsonl", "--csv", "tables", "--exit-zero")
    assert ran.code == 3
    problem = "run.jsonl was removed or renamed during the run"
    assert f"WARNING: {problem}; nothing is lost" in ran.err
    assert ran.err.endswith(f"\nERROR: {problem}\n  all results are in run-rescued.jsonl\n")
    assert "run-rescued.jsonl" in ran.out
    run = read_run(tmp_path / "run-rescued.jsonl").run
    assert run.finished
    assert {outcome.case for outcome in run.outcomes} == set(run.plan)
    assert all(outcome.repro.startswith("torchstone repro run-rescued.jsonl ") for outcome in run.outcomes)
    assert list((tmp_path / "tables").iterdir())
    assert not (tmp_path / "run.jsonl").exists()
    again = torchstone("repro", "run-rescued.jsonl", run.plan[0].id)
    assert again.code == 0, again.err


def test_a_run_whose_folder_is_removed_goes_on_in_the_working_folder(
    torchstone: Command, tmp_path: Path
) -> None:
    damage(tmp_path, "shutil.rmtree('runs')")
    ran = torchstone("run", "bench_lossy.py", *OPTIONS, "-o", "runs/run.jsonl")
    assert ran.code == 3
    assert "ERROR: runs/run.jsonl was removed together with its folder" in ran.err
    assert len(read_run(tmp_path / "run-rescued.jsonl").run.outcomes) == 3
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_resumed_run_whose_file_is_truncated_keeps_what_was_in_it(
    torchstone: Command, tmp_path: Path
) -> None:
    damage(tmp_path, "")
    assert torchstone("run", "bench_lossy.py", *OPTIONS, "-o", "run.jsonl").code == 0
    path = tmp_path / "run.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    (first,) = read_run(path).run.outcomes
    damage(tmp_path, "os.truncate('run.jsonl', 0)")
    ran = torchstone("run", "--resume", "run.jsonl")
    assert ran.code == 3
    assert "ERROR: run.jsonl was truncated from " in ran.err
    run = read_run(tmp_path / "run-rescued.jsonl").run
    assert run.finished
    assert len(run.outcomes) == 3
    assert run.outcomes[0].measurements == first.measurements
    assert path.read_text() == ""


@pytest.mark.slow
def test_two_sides_whose_file_is_replaced_are_compared_to_the_end(
    torchstone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_PAIR", 0.1)
    monkeypatch.setattr(ab, "need_separate_zygotes", lambda _: False)
    damage(tmp_path, "os.unlink('a.jsonl'); pathlib.Path('a.jsonl').write_text('precious')")
    ran = torchstone(
        *("ab", "bench_lossy.py", "-k", "1", *QUICK, "--margin", "50%", "--budget", "10m"),
        *("--output-a", "a.jsonl", "--output-b", "b.jsonl"),
    )
    assert ran.code == 3, ran.err
    assert "ERROR: a.jsonl was replaced by another file" in ran.err
    assert "wrote a-rescued.jsonl\nwrote b.jsonl\n" in ran.out
    a, b = (read_run(tmp_path / name).run for name in ("a-rescued.jsonl", "b.jsonl"))
    assert a.finished
    assert b.finished
    assert [each.case for each in a.outcomes] == [each.case for each in b.outcomes]
    assert (tmp_path / "a.jsonl").read_text() == "precious"


def test_counted_rows_are_written_from_the_new_file(torchstone: Command, tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(
        "import pathlib, sys\n"
        "from benchmark_base import BenchmarkBase\n"
        "class Counted(BenchmarkBase):\n"
        "    def name(self): return 'counted'\n"
        "    def _prepare(self): pass\n"
        "    def _work(self):\n"
        "        for path in pathlib.Path('.torchstone/runs').glob('*.jsonl'): path.unlink()\n"
        "if __name__ == '__main__':\n"
        "    Counted('counted', 'cpu').enable_instruction_count().collect_all().append_results(sys.argv[1])\n"
    )
    ran = torchstone("pr-time", "counted.py", "--counter=python", "--repeat=2", "--output=results.csv")
    assert ran.code == 3
    assert "was removed or renamed during the run\n" in ran.err
    assert (tmp_path / "results.csv").read_text().startswith("counted,python_calls,")
    (path,) = (tmp_path / ".torchstone" / "runs").iterdir()
    assert path.name.endswith("-rescued.jsonl")
    assert read_run(path).run.finished


@pytest.mark.slow
def test_records_of_caches_are_written_from_the_new_file(torchstone: Command, tmp_path: Path) -> None:
    path = tmp_path / "cache.jsonl"

    def remove() -> None:
        wait_until(path.exists, "no run file")
        path.unlink()

    thread = threading.Thread(target=remove)
    thread.start()
    ran = torchstone(
        *("cachebench", "--benchmark=huggingface", "-m", "DistilBertForMaskedLM", "--mode=inference"),
        *("--device=cpu", "--size=small", "--threads=1", "--output", "cache.json"),
    )
    thread.join()
    assert ran.code == 3, ran.err
    assert "wrote 1 of 1 models to cache.json" in ran.out
    assert read_run(tmp_path / "cache-rescued.jsonl").run.finished
