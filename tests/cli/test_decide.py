"""``torchstone run --decide``: what is red or undecided is measured again, in new processes, until it is decided. Workers are scripts."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Command, Ran
from live_processes import read_run
from torchstone.core.caution_kinds import CautionKind
from torchstone.measure.executors.fake import FakeExecutor, Script, crashes, passes
from torchstone.measure.executors.selection import using_executor
from torchstone.worker.protocol.caution_message import caution_message
from torchstone.worker.protocol.jobs import MeasureJob
from torchstone.worker.protocol.replies import BenchmarkFound

NAMES = ("steady", "slowed")
BUSY = caution_message(CautionKind.BUSY_MACHINE, rate=100.0, share=0.6, threads=1)
RUN = ("run", "bench_it.py", "--probe", "performance", "--jobs", "1")


class Weather:
    """Times that vary by 1 % from process to process; ``slow`` is a factor by benchmark."""

    def __init__(self) -> None:
        self._chance = random.Random(5)  # noqa: S311  (noise, not secrets)
        self.slow: dict[str, float] = {}
        self.disturbed = 0
        self.measured: list[str] = []
        self.crash_at = 0
        self.stop_at = 0

    def _noise(self) -> float:
        return 1 + self._chance.gauss(0, 0.01)

    def measure(self, job: MeasureJob) -> Script:
        self.measured.append(job.benchmark)
        if len(self.measured) == self.crash_at:
            return crashes()
        if len(self.measured) == self.stop_at:
            signal.raise_signal(signal.SIGINT)
        slow = self.slow.get(job.benchmark, 1.0)
        is_disturbed = len(self.measured) <= self.disturbed
        return passes(
            1.5 / slow * (1 + (self._noise() - 1) / 4),
            2.0 * slow * self._noise() * (9 if is_disturbed else 1),
            [BUSY] if is_disturbed else [],
            3.0 * self._noise(),
        )


@pytest.fixture
def weather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Weather]:
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "kept"))
    (tmp_path / "bench_it.py").write_text("")
    found = [BenchmarkFound(name, 4, modes=("inference",)) for name in NAMES]
    weather = Weather()
    with using_executor(FakeExecutor(weather.measure, found)):
        yield weather


@pytest.fixture
def baseline(weather: Weather, torchstone: Command) -> str:
    assert torchstone(*RUN, "--trials", "8", "-o", "base.jsonl").code == 0
    weather.measured.clear()
    return "base.jsonl"


Decide = Callable[..., Ran]


@pytest.fixture
def decide(torchstone: Command, baseline: str) -> Decide:
    return lambda *more: torchstone(*RUN, "--baseline", baseline, "--decide", "-o", "new.jsonl", *more)


def verdicts(torchstone: Command) -> dict[tuple[str, str], str]:
    ran = torchstone("check", "new.jsonl", "--baseline", "base.jsonl", "--format", "json")
    return {(row["name"], row["metric"]): row["verdict"] for row in json.loads(ran.out)["rows"]}


def trials_of(tmp_path: Path, name: str) -> int:
    (found,) = [o for o in read_run(tmp_path / "new.jsonl").run.outcomes if o.case.benchmark == name]
    return max(len(each.trials) for each in found.measurements)


def test_unchanged_code_passes_and_all_trials_are_in_the_file(
    decide: Decide, torchstone: Command, weather: Weather, tmp_path: Path
) -> None:
    ran = decide()
    assert ran.code == 0, ran.out
    assert "PASS: 2 cases judged, none red (policy strict)" in ran.out
    assert sum(trials_of(tmp_path, name) for name in NAMES) == len(weather.measured)
    assert set(verdicts(torchstone).values()) == {"pass"}
    assert read_run(tmp_path / "new.jsonl").run.finished


def test_a_slow_down_is_red_in_several_processes_and_only_what_is_open_is_measured_again(
    decide: Decide, torchstone: Command, weather: Weather, tmp_path: Path
) -> None:
    weather.slow = {"slowed": 1.5}
    ran = decide()
    assert ran.code == 1
    assert "FAIL: 1 of 2 cases is red; policy strict blocks red rows: exit code 1" in ran.out
    assert "deciding: " in ran.err
    assert trials_of(tmp_path, "slowed") >= 5
    assert trials_of(tmp_path, "steady") <= trials_of(tmp_path, "slowed")
    found = verdicts(torchstone)
    assert found["slowed", "abs_latency"] == found["slowed", "speedup"] == "regression"
    assert {verdict for (name, _), verdict in found.items() if name == "steady"} == {"pass"}
    lines = (tmp_path / "new.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["kind"] == "again" for line in lines) == len(weather.measured) - 2
    compared = torchstone("compare", "base.jsonl", "new.jsonl", "--format", "json")
    assert {
        (row["name"], row["metric"]): row["verdict"].replace("same", "pass")
        for row in json.loads(compared.out)["rows"]
    } == found


def test_disturbed_trials_decide_nothing_and_are_measured_again(
    decide: Decide, weather: Weather, tmp_path: Path
) -> None:
    weather.disturbed = 2  # the first trial of either case: nine times as slow
    ran = decide()
    assert ran.code == 0, ran.out
    assert trials_of(tmp_path, "steady") >= 2


def test_a_baseline_of_another_machine_is_not_decided_by_measuring_again(
    decide: Decide, baseline: str, weather: Weather, tmp_path: Path
) -> None:
    head, *rest = (tmp_path / baseline).read_text().splitlines()
    told = json.loads(head)
    told["environment"]["machine"]["cpu"]["model"] = "another one"
    (tmp_path / baseline).write_text("\n".join([json.dumps(told, separators=(",", ":")), *rest, ""]))
    weather.disturbed = 2
    ran = decide()
    assert (ran.code, len(weather.measured)) == (1, 2)
    assert ran.out.startswith("UNDECIDED: ") or "\nUNDECIDED: " in ran.out
    said = " ".join(ran.out.split())
    assert "not comparable: " in said
    assert "another one" in said
    assert "on a quiet machine: a disturbed time decides nothing" not in said


def test_a_run_that_is_stopped_while_it_decides_can_be_resumed(
    decide: Decide, torchstone: Command, weather: Weather, tmp_path: Path
) -> None:
    weather.slow = {"slowed": 1.5}
    weather.stop_at = 4
    stopped = decide()
    assert stopped.code == 130
    assert "not all of them are decided; resume with" in stopped.err
    assert "torchstone run --resume new.jsonl --baseline base.jsonl --decide" in stopped.err
    done = trials_of(tmp_path, "slowed")
    assert not read_run(tmp_path / "new.jsonl").run.finished
    ran = torchstone("run", "--resume", "new.jsonl", "--baseline", "base.jsonl", "--decide")
    assert ran.code == 1, ran.err
    assert trials_of(tmp_path, "slowed") > done
    assert read_run(tmp_path / "new.jsonl").run.finished


def test_a_time_that_is_spent_leaves_it_undecided(decide: Decide, weather: Weather) -> None:
    weather.disturbed = 99
    ran = decide("--decide-within", "1ms")
    assert (ran.code, len(weather.measured)) == (1, 2)
    assert "UNDECIDED: " in ran.out
    assert "other work had the processor 60% of the time" in " ".join(ran.out.split())
    assert decide("--decide-within", "1ms", "--policy", "lenient", "--force").code == 0


def test_a_case_that_crashes_when_it_is_measured_again_is_red(decide: Decide, weather: Weather) -> None:
    weather.slow = {"slowed": 1.5}
    weather.crash_at = 4
    ran = decide()
    assert ran.code == 1
    assert "worker_died" in ran.out


def test_a_run_that_was_killed_while_it_decided_goes_on(
    decide: Decide, torchstone: Command, weather: Weather, tmp_path: Path
) -> None:
    weather.slow = {"slowed": 1.5}
    decide()
    path = tmp_path / "new.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5]))  # the head, two outcomes, and two trials more
    assert trials_of(tmp_path, "slowed") < 5
    ran = torchstone("run", "--resume", "new.jsonl", "--baseline", "base.jsonl", "--decide")
    assert ran.code == 1, ran.err
    assert trials_of(tmp_path, "slowed") >= 5
    assert read_run(path).run.finished


def test_without_decide_a_baseline_only_judges(torchstone: Command, baseline: str, weather: Weather) -> None:
    ran = torchstone(*RUN, "--baseline", baseline, "-o", "new.jsonl", "--policy", "lenient")
    assert ran.code == 0
    assert len(weather.measured) == 2
    assert "judged" in ran.out or "UNDECIDED" in ran.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--decide",), "--decide requires a baseline"),
        (("--decide-within", "5m", "--baseline", "base.jsonl"), "--decide-within requires --decide"),
        (("--policy", "lenient"), "--policy requires --baseline"),
        (("--decide", "--baseline", "gone.jsonl"), "gone.jsonl"),
        (
            ("--decide", "--baseline", "base.jsonl", "--policy", "upstream"),
            "--policy upstream cannot be used",
        ),
        (("--decide", "--baseline", "other.csv"), "other.csv: no row is for any of the 2 planned cases"),
    ],
)
def test_what_cannot_be_decided_is_refused_before_anything_is_measured(
    options: tuple[str, ...], said: str, torchstone: Command, baseline: str, weather: Weather, tmp_path: Path
) -> None:
    (tmp_path / "other.csv").write_text("name,speedup\nelsewhere,1.5\n")
    ran = torchstone(*RUN, *options, "-o", "new.jsonl")
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert not weather.measured
    assert not (tmp_path / "new.jsonl").exists()
