"""A folder as baseline: a file for each probe, updated by ``accept`` and read by ``check``."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

import torchstone as ts
from comparison_files import case_of, counts, passed, times, write_run
from conftest import Command, WriteFile
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.records import Measurement, Outcome

ADD = ("--baseline", "base/", "--add-new", "--yes")


def run_of_both(folder: Path, name: str = "run.jsonl", *, status: str = "pass", speedup: float = 1.5) -> str:
    return write_run(
        folder,
        name,
        [
            passed("a", Measurement("speedup", (speedup,)), times(5)),
            Outcome(case_of("a", "accuracy"), status, (counts("graph_breaks", 0),)),
        ],
    )


def test_a_new_folder_gets_a_file_for_each_probe_and_check_reads_it(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    run = run_of_both(tmp_path)
    ran = torchstone("accept", run, *ADD)
    assert ran.code == 0
    assert ran.out.endswith("wrote base/performance.csv\nwrote base/accuracy.csv\n")
    assert sorted(path.name for path in Path("base").iterdir()) == ["accuracy.csv", "performance.csv"]
    assert torchstone("check", run, "--baseline", "base").code == 0
    write("torchstone.toml", '[check]\nbaseline = "base"\n')
    assert torchstone("check", run).code == 0
    ran = torchstone("check", run_of_both(tmp_path, "worse.jsonl", status="fail_to_run", speedup=1.0))
    assert ran.code == 1
    assert "base/accuracy.csv:2" in ran.out
    assert "base/performance.csv:2" in ran.out


def test_only_the_file_that_changes_is_written(torchstone: Command, tmp_path: Path) -> None:
    torchstone("accept", run_of_both(tmp_path), *ADD)
    before = Path("base/accuracy.csv").read_text()
    faster = run_of_both(tmp_path, "faster.jsonl", speedup=3.0)
    ran = torchstone("accept", faster, "--baseline", "base", "--yes")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "wrote base/performance.csv")
    assert Path("base/accuracy.csv").read_text() == before
    assert torchstone("check", faster, "--baseline", "base").code == 0
    ran = torchstone("accept", faster, "--baseline", "base", "--yes")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "nothing was written")


def test_files_of_the_folder_may_have_any_name_and_format(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    Path("base").mkdir()
    write("base/statuses.csv", "name,accuracy\na,timeout\n")
    run = run_of_both(tmp_path)
    assert torchstone("accept", run, "--baseline", "base", "--yes").code == 0
    assert Path("base/statuses.csv").read_text() == "name,accuracy\na,pass\n"
    assert not Path("base/performance.csv").exists()
    assert torchstone("accept", run, *ADD).code == 0
    assert Path("base/performance.csv").exists()


def test_only_and_metric_limit_the_files(torchstone: Command, tmp_path: Path) -> None:
    run = run_of_both(tmp_path)
    assert torchstone("accept", run, *ADD, "--only", "*::accuracy").code == 0
    assert [path.name for path in Path("base").iterdir()] == ["accuracy.csv"]
    assert torchstone("accept", run, *ADD, "--metric", "speedup").code == 0
    assert Path("base/performance.csv").read_text() == "name,speedup,trials\na,1.5,1\n"
    ran = torchstone("accept", run, *ADD, "--metric", "speedupp")
    assert (ran.code, ran.out) == (2, "")
    assert "--metric speedupp: the results have no such metric" in ran.err


def test_a_dry_run_creates_no_folder(torchstone: Command, tmp_path: Path) -> None:
    ran = torchstone("accept", run_of_both(tmp_path), "--baseline", "base/", "--add-new", "--dry-run")
    assert ran.code == 0
    assert "+++ base/performance.csv" in ran.out
    assert "+++ base/accuracy.csv" in ran.out
    assert not Path("base").exists()


@pytest.mark.parametrize(
    ("command", "options", "problem"),
    [
        ("check", (), "base: no baseline in this folder"),
        ("accept", (), "base: no baseline for these results in this folder"),
        ("accept", ("--add-new", "--repeat", "3"), "--repeat finds margins for one file"),
        ("accept", ("--add-new", "--learn-margins", "."), "--learn-margins finds margins for one file"),
    ],
)
def test_an_empty_folder_and_options_for_one_file_are_refused(
    command: str, options: tuple[str, ...], problem: str, torchstone: Command, tmp_path: Path
) -> None:
    Path("base").mkdir()
    ran = torchstone(command, run_of_both(tmp_path), "--baseline", "base", *options)
    assert (ran.code, ran.out) == (2, "")
    assert problem in ran.err


def test_two_files_for_one_probe_are_refused(torchstone: Command, write: WriteFile, tmp_path: Path) -> None:
    Path("base").mkdir()
    for name in ("x.csv", "y.csv"):
        write(f"base/{name}", f"name,accuracy\n{name[0]},pass\n")
    ran = torchstone("accept", run_of_both(tmp_path), "--baseline", "base", "--yes")
    assert (ran.code, ran.out) == (2, "")
    assert "several files of base expect accuracy: x.csv, y.csv" in ran.err


def test_python_proposes_and_writes_a_folder(tmp_path: Path) -> None:
    run = str(tmp_path / run_of_both(tmp_path))
    proposal = ts.accept(run, f"{tmp_path}/base/", add_new=True)
    assert [Path(file.path).name for file in proposal.files] == ["performance.csv", "accuracy.csv"]
    assert len(proposal.adopted) == 2
    assert not Path(tmp_path / "base").exists()
    assert "+a,pass,0" in proposal.diff()
    proposal.write()
    assert ts.check(run, baselines=f"{tmp_path}/base").passed
    assert not ts.accept(run, f"{tmp_path}/base").write()
    assert ts.report(run, baselines=f"{tmp_path}/base")


def disturbed_run(folder: Path, *cautions: Caution) -> str:
    alike = [
        passed(name, Measurement("speedup", (1.5,)), times(5), counts("graph_breaks", 0)) for name in "ab"
    ]
    return write_run(folder, "busy.jsonl", [structs.replace(each, cautions=cautions) for each in alike])


@pytest.mark.parametrize("baseline", ["base/", "expected.csv"])
def test_values_that_were_disturbed_are_adopted_with_a_warning_that_counts_them(
    torchstone: Command, tmp_path: Path, write: WriteFile, baseline: str
) -> None:
    if not baseline.endswith("/"):
        write(baseline, "name,speedup,abs_latency\nother,1.5,1\n")
    run = disturbed_run(tmp_path, make_caution(CautionKind.BUSY_MACHINE, rate=100.0, share=0.6))
    ran = torchstone("accept", run, "--baseline", baseline, "--add-new", "--yes")
    assert ran.code == 0
    (said,) = [line for line in ran.out.splitlines() if line.startswith("caution: disturbed")]
    assert said == (
        "caution: disturbed while measured: 4 values to be written (a, b), because other work had the processor 60% of the time; "
        "later results would be judged by them; measure again on a quiet machine before accepting"
    )


def test_values_that_nothing_disturbed_are_adopted_without_a_warning(
    torchstone: Command, tmp_path: Path
) -> None:
    compiled = disturbed_run(tmp_path, make_caution(CautionKind.BUSY_WHILE_COMPILING, share=0.6))
    assert "disturbed" not in torchstone("accept", compiled, *ADD).out
