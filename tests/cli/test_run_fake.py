"""What ``torchstone run`` prints and exits with, exactly: its workers are scripts, and no process is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Command
from live_processes import read_run
from torchstone.core.caution_kinds import CautionKind
from torchstone.measure.executors.fake import FakeExecutor, Script, crashes, fails, passes
from torchstone.measure.executors.selection import using_executor
from torchstone.worker.protocol.caution_message import caution_message
from torchstone.worker.protocol.jobs import MeasureJob
from torchstone.worker.protocol.replies import BenchmarkFound

NAMES = ("good", "slow", "wrong", "dead", "garbage")


def measure(job: MeasureJob) -> Script:
    match job.benchmark:
        case "slow":
            return passes(0.8, cautions=[caution_message(CautionKind.RECORDED, text="the machine was busy")])
        case "wrong":
            return fails("fail_accuracy", "output: 3 of 4 elements differ", "compare", "last words\n")
        case "dead":
            return crashes()
        case "garbage":
            return garbage()
    return passes()


def garbage() -> Script:
    yield b'{"result": {"status": "pass", "measurements": [], "extra": {}, "cautions": 5}}'
    return 0


@pytest.fixture(autouse=True)
def _workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "kept"))
    (tmp_path / "bench_it.py").write_text("")
    found = [BenchmarkFound(name, 4, modes=("inference",)) for name in NAMES]
    with using_executor(FakeExecutor(measure, found)):
        yield


def test_every_case_has_its_line_and_its_place_in_the_summary(torchstone: Command, tmp_path: Path) -> None:
    ran = torchstone("run", "bench_it.py", "--probe", "performance", "-o", "run.jsonl", "--jobs", "1")
    assert ran.code == 1
    said = [" ".join(line.split()) for line in (ran.out + ran.err).splitlines()]
    assert "[1/5] pass good perf inf 1.500x (1.485 to 1.515), compile 3 s" in said
    assert "[2/5] pass slow perf inf 0.800x (0.792 to 0.808), compile 3 s" in said
    assert "[3/5] fail_accuracy: wrong perf inf: in compare: output: 3 of 4 elements differ" in said
    assert (
        "[4/5] worker_died: dead perf inf: in compile: the worker ended by SIGSEGV without a result" in said
    )
    (last,) = [line for line in said if line.startswith("[5/5]")]
    assert "worker_died: garbage perf inf: in load: the worker's reply is invalid" in last
    assert "2/5 (40%) 1.095x (1.088 to 1.103) of 2 3 s 5" in said
    statuses = {each.case.benchmark: each.status for each in read_run(tmp_path / "run.jsonl").run.outcomes}
    assert statuses == dict(
        zip(NAMES, ("pass", "pass", "fail_accuracy", "worker_died", "worker_died"), strict=True)
    )


@pytest.mark.parametrize("trials", ["1", "2"])
def test_a_run_with_garbage_in_it_can_be_shown_again_and_is_finished(
    torchstone: Command, tmp_path: Path, trials: str
) -> None:
    options = ("--probe", "performance", "--trials", trials, "-o", "run.jsonl")
    assert torchstone("run", "bench_it.py", *options).code == 1
    run = read_run(tmp_path / "run.jsonl").run
    assert run.finished
    assert {each.case for each in run.outcomes} == set(run.plan)
    ran = torchstone("report", "run.jsonl", "-o", "page.html")
    assert ran.code == 0, ran.err
    assert "cautions: expected a list, found 5" in (tmp_path / "page.html").read_text()


def test_a_failure_is_shown_with_what_was_printed_when_it_is_measured_again(torchstone: Command) -> None:
    torchstone("run", "bench_it.py", "--probe", "performance", "-o", "run.jsonl")
    ran = torchstone("repro", "run.jsonl", "wrong")
    assert ran.code == 1
    assert "now: fail_accuracy: wrong" in " ".join(ran.out.split())
    assert "last words" in ran.err


RUN = ("run", "bench_it.py", "--probe", "performance", "-o", "run.jsonl", "-k", "good")


def test_a_finished_file_is_left_alone_and_the_message_offers_force(
    torchstone: Command, tmp_path: Path
) -> None:
    torchstone(*RUN)
    before = (tmp_path / "run.jsonl").read_bytes()
    ran = torchstone(*RUN)
    assert ran.code == 2
    assert "run.jsonl already exists: a finished run" in ran.err
    assert "--force" in ran.err
    assert "torchstone show run.jsonl" in ran.err
    assert (tmp_path / "run.jsonl").read_bytes() == before


def test_an_unfinished_file_says_how_to_finish_it(torchstone: Command, tmp_path: Path) -> None:
    torchstone(*RUN)
    path = tmp_path / "run.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:1]))
    ran = torchstone(*RUN)
    assert ran.code == 2
    assert "run.jsonl already exists: an unfinished run" in ran.err
    assert "--force" in ran.err
    assert "torchstone run --resume run.jsonl" in ran.err


def test_force_replaces_a_run_and_leaves_nothing_behind(torchstone: Command, tmp_path: Path) -> None:
    torchstone(*RUN)
    first = read_run(tmp_path / "run.jsonl").run.id
    ran = torchstone(*RUN, "--force")
    assert ran.code == 0, ran.err
    second = read_run(tmp_path / "run.jsonl").run
    assert second.id != first
    assert second.finished
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["run.jsonl"]
    assert torchstone(*RUN[:-4], "-o", "new.jsonl", "--force").code == 1  # nothing to replace is no error


def test_force_replaces_nothing_but_a_run(torchstone: Command, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("precious")
    ran = torchstone(*RUN[:-4], "-o", "notes.txt", "--force")
    assert ran.code == 2
    assert "notes.txt already exists, and is not a run file" in ran.err
    assert (tmp_path / "notes.txt").read_text() == "precious"
    assert torchstone(*RUN[:-4], "-o", ".", "--force").code == 2
    ran = torchstone("run", "bench_it.py", "--force")
    assert (ran.code, "--force requires --output" in ran.err) == (2, True)


def test_a_plan_that_fails_leaves_the_old_file_alone(torchstone: Command, tmp_path: Path) -> None:
    torchstone(*RUN)
    before = (tmp_path / "run.jsonl").read_bytes()
    assert torchstone(*RUN[:-1], "nothing_matches", "--force").code == 2
    assert (tmp_path / "run.jsonl").read_bytes() == before
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["run.jsonl"]
