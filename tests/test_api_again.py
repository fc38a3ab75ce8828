"""``repro`` and ``list_benchmarks`` from Python: what their commands do, with workers that are scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import torchstone
from conftest import Command
from torchstone.measure.executors.fake import FakeExecutor, Script, fails, passes
from torchstone.measure.executors.selection import using_executor
from torchstone.worker.protocol.jobs import MeasureJob
from torchstone.worker.protocol.replies import BenchmarkFound


def measure(job: MeasureJob) -> Script:
    return passes() if job.benchmark == "good" else fails("fail_accuracy", "it differs", "compare")


@pytest.fixture(autouse=True)
def _workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "kept"))
    (tmp_path / "bench_it.py").write_text("")
    found = [BenchmarkFound(name, 4, modes=("inference",)) for name in ("good", "wrong")]
    with using_executor(FakeExecutor(measure, found)):
        yield


def test_a_case_is_measured_again_and_nothing_is_written() -> None:
    run = torchstone.run("bench_it.py", probes="performance", output="run.jsonl")
    before = Path("run.jsonl").read_bytes()
    events: list[object] = []
    again = torchstone.repro("run.jsonl", "good", times=3, on_event=events.append)
    assert [outcome.status for outcome in again.outcomes] == ["pass"] * 3
    assert (again.passed, again.exit_code) == (True, 0)
    assert [each.before for each in again.cases] == [run["good"]]
    assert sum(isinstance(event, torchstone.CaseMeasured) for event in events) == 3
    assert Path("run.jsonl").read_bytes() == before
    assert [line.split()[0] for line in str(again).splitlines()[-4:]] == ["then", "now", "now", "now"]
    assert "<table>" in again._repr_html_()


def test_a_result_that_was_read_can_be_measured_again(torchstone: Command) -> None:
    import torchstone as package  # noqa: PLC0415  (the fixture has its name)

    package.run("bench_it.py", probes="performance", output="run.jsonl")
    again = package.repro(package.read("run.jsonl"), "wrong")
    ran = torchstone("repro", "run.jsonl", "wrong")
    assert (again.exit_code, ran.code) == (1, 1)
    assert [outcome.status for outcome in again.outcomes] == ["fail_accuracy"]


def test_only_a_run_file_can_be_measured_again() -> None:
    Path("r.csv").write_text("dev,name,batch_size,accuracy\ncpu,good,4,pass\n")
    for given in ("r.csv", torchstone.read("r.csv")):
        with pytest.raises(torchstone.InputError, match="not a run file"):
            torchstone.repro(given, "good")
    torchstone.run("bench_it.py", probes="performance", output="run.jsonl")
    with pytest.raises(torchstone.UsageError, match="has no case nothing_of_this_name"):
        torchstone.repro("run.jsonl", "nothing_of_this_name")


def test_what_can_be_measured_is_listed(torchstone: Command) -> None:
    import torchstone as package  # noqa: PLC0415  (the fixture has its name)

    found = package.list_benchmarks("bench_it.py")
    assert [(each.suite, each.name, each.modes) for each in found.benchmarks] == [
        ("bench_it", "good", "inference"),
        ("bench_it", "wrong", "inference"),
    ]
    assert (found.exit_code, torchstone("list", "bench_it.py").code) == (0, 0)
    everything = package.list_benchmarks()
    assert {"smoke", "huggingface"} <= {suite.name for suite in everything.suites}
    assert {"performance", "accuracy"} <= {probe.name for probe in everything.probes}
    shown = torchstone("list").out
    assert all(suite.name in shown and suite.name in str(everything) for suite in everything.suites)
    assert everything._repr_html_().count("<table>") == 2
