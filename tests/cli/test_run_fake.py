"""What ``torchstone run`` prints and exits with, exactly: its workers are scripts, and no process is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Command
from live_processes import read_run
from torchstone.core.caution_kinds import CautionKind, caution_message
from torchstone.measure.executors.fake import FakeExecutor, Script, crashes, fails, passes
from torchstone.measure.executors.selection import using_executor
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
    assert "[1/5] pass good perf inf 1.500x ±1.0%, compile 3 s" in said
    assert "[2/5] pass slow perf inf 0.800x ±1.0%, compile 3 s" in said
    assert "[3/5] fail_accuracy: wrong perf inf: in compare: output: 3 of 4 elements differ" in said
    assert (
        "[4/5] worker_died: dead perf inf: in compile: the worker ended by SIGSEGV without a result" in said
    )
    (last,) = [line for line in said if line.startswith("[5/5]")]
    assert "worker_died: garbage perf inf: in load: the worker's reply is invalid" in last
    assert "2/5 (40%) 1.095x (2) 3 s 5" in said
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
