"""Cases on several devices: where each is measured, how many run at once, and that nobody disturbs a timed one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

from conftest import Command
from live_processes import read_run
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Run, Variant
from torchstone.core.run_settings import Environment, Settings
from torchstone.measure.devices import case_limits
from torchstone.measure.devices.case_limits import choose_limits
from torchstone.measure.devices.placement import (
    DevicePlacement,
    check_alike,
    is_all,
    kind_of_all,
    list_places,
)
from torchstone.measure.executors.fake import FakeExecutor, Script, Works
from torchstone.measure.executors.selection import using_executor
from torchstone.worker.protocol.jobs import MeasureJob
from torchstone.worker.protocol.replies import (
    BenchmarkFound,
    CaseDetails,
    CaseReply,
    DeviceReleased,
    DeviceWanted,
    FailureReport,
    PhaseReply,
    TurnEnded,
    TurnWanted,
)

GIB = 1 << 30


def run_on(
    *devices: str, probe: str = "performance", memory: int | None = 80, count: int = 1, host: int = 512
) -> Run:
    """A run with one case for each device, on a machine with so many equal accelerators of so much memory in GiB."""
    plan = tuple(Case(f"m{number}", probe, "s", Variant(device)) for number, device in enumerate(devices))
    facts = {"name": "GPU"} | ({"memory": memory * GIB} if memory else {})
    environment = Environment(
        machine={"memory": {"total": host * GIB}}, device="cuda", accelerators=(facts,) * count
    )
    return Run("r", plan, (), environment=environment)


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda count: monkeypatch.setattr(case_limits, "_cores", lambda: count)


@pytest.mark.parametrize(
    ("count", "memory", "host", "jobs"),
    [(16, 140, 128, 8), (64, 140, 128, 8), (16, 40, 128, 2), (16, 16, 128, 1), (2, 140, 128, 1), (16, 140, 16, 2), (16, 8, 128, 1)],
)  # fmt: skip
def test_as_many_cases_run_on_an_accelerator_as_cores_and_memory_allow(
    cores: Callable[[int], None], count: int, memory: int, host: int, jobs: int
) -> None:
    cores(count)
    assert choose_limits(Settings(), run_on("cuda", memory=memory, host=host)).jobs == jobs


def test_one_case_runs_where_the_memory_of_the_device_is_unknown(cores: Callable[[int], None]) -> None:
    cores(16)
    assert choose_limits(Settings(), run_on("cuda", memory=None)).jobs == 1


def test_caches_are_measured_one_at_a_time_on_an_accelerator(cores: Callable[[int], None]) -> None:
    cores(16)
    assert choose_limits(Settings(), run_on("cuda", probe="compile_cache")).jobs == 1
    assert choose_limits(Settings(), run_on("cuda", probe="accuracy")).jobs == 5


def test_several_devices_take_more_cases_if_there_are_cores(cores: Callable[[int], None]) -> None:
    cores(64)
    limits = choose_limits(Settings(all_devices=True), run_on("cuda", memory=40, count=4))
    assert (limits.jobs, limits.places) == (8, ("cuda:0", "cuda:1", "cuda:2", "cuda:3"))
    assert choose_limits(Settings(all_devices=True, jobs=3), run_on("cuda", count=4)).jobs == 3


def test_a_case_goes_to_the_device_with_the_fewest() -> None:
    placement = DevicePlacement(("cuda:0", "cuda:1"))
    case = Case("m", "performance", "s", Variant("cuda"))
    assert [placement.place(number, case) for number in (1, 2, 3, 1)] == [
        "cuda:0",
        "cuda:1",
        "cuda:0",
        "cuda:0",
    ]
    placement.remove(2)
    assert placement.place(4, case) == "cuda:1"


def test_a_case_of_another_kind_of_device_keeps_its_own() -> None:
    placement = DevicePlacement(("cuda:0", "cuda:1"))
    assert placement.place(1, Case("m", "performance", "s", Variant("cpu"))) == "cpu"
    assert placement.place(2, Case("m", "performance", "s", Variant("cuda:1"))) == "cuda:1"
    assert DevicePlacement().place(3, Case("m", "performance", "s", Variant("cuda"))) == "cuda"


def test_all_is_the_end_of_a_device_name() -> None:
    assert is_all("cuda:all")
    assert not is_all("cuda:0")
    assert (kind_of_all("cuda:all"), kind_of_all("cuda")) == ("cuda", "cuda")
    with pytest.raises(UsageError, match="there is only one CPU"):
        is_all("cpu:all")


def test_devices_that_differ_are_refused() -> None:
    environment = Environment(device="cuda", accelerators=({"name": "A100"}, {"name": "T4"}))
    with pytest.raises(UsageError, match="the devices differ: A100, T4"):
        check_alike(Settings(all_devices=True), environment)
    check_alike(Settings(), environment)
    assert list_places(Settings(), environment) == ()


class Machine:
    """A machine with fake GPUs: it notes what every worker does on which device, and complains if a timed one is disturbed."""

    def __init__(self) -> None:
        self.timed: dict[str, str] = {}
        self.used: dict[str, set[str]] = {}
        self.disturbed: list[str] = []
        self.most_timed = 0
        self.most_used = 0
        self.places: dict[str, str] = {}
        self.shared: set[bool] = set()

    def use(self, name: str, device: str) -> None:
        self.used.setdefault(device, set()).add(name)
        self.most_used = max(self.most_used, len(self.used[device]))
        if device in self.timed:
            self.disturbed.append(f"{name} uses {device} while {self.timed[device]} is timed")

    def leave(self, name: str, device: str) -> None:
        self.used[device].discard(name)

    def time(self, name: str, device: str) -> None:
        if device in self.timed or self.used.get(device):
            self.disturbed.append(f"{name} is timed on {device} beside others")
        self.timed[device] = name
        self.most_timed = max(self.most_timed, len(self.timed))

    def measure(self, job: MeasureJob) -> Script:
        name, device = job.benchmark, job.axes.device
        self.places[name] = device
        self.shared.add(job.shares_device)
        if name == "dies":
            yield DeviceWanted()
            return -11
        for _ in range(2):
            yield PhaseReply("compile")
            yield DeviceWanted()
            self.use(name, device)
            yield Works(2)
            self.leave(name, device)
            yield DeviceReleased()
            yield Works(1)
        yield TurnWanted()
        self.time(name, device)
        yield PhaseReply("run")
        yield Works(3)
        self.timed.pop(device)
        yield TurnEnded()
        status = "fail_to_run" if name == "fails" else "pass"
        failure = FailureReport("run", "no") if status != "pass" else None
        yield CaseReply(status, (), CaseDetails(duration=1.0, device=device), failure)
        return 0


NAMES = ("one", "two", "dies", "three", "fails", "four", "five")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(case_limits, "_cores", lambda: 16)
    (tmp_path / "bench_it.py").write_text("")
    made = Machine()
    found = [BenchmarkFound(name, 4, modes=("inference",)) for name in NAMES]
    with using_executor(FakeExecutor(made.measure, found, ("Fake GPU", "Fake GPU"))):
        yield made


def statuses(path: Path) -> dict[str, str]:
    return {each.case.benchmark: each.status for each in read_run(path).run.outcomes}


def test_a_timed_worker_has_its_device_to_itself(
    torchstone: Command, machine: Machine, tmp_path: Path
) -> None:
    ran = torchstone("run", "bench_it.py", "--device", "cuda", "--probe", "performance", "-o", "run.jsonl")
    assert ran.code == 1, ran.err
    assert machine.disturbed == []
    assert (machine.shared, machine.most_timed) == ({True}, 1)
    assert machine.most_used > 1
    assert set(machine.places.values()) == {"cuda"}
    found = statuses(tmp_path / "run.jsonl")
    assert (found.pop("dies"), found.pop("fails")) == ("worker_died", "fail_to_run")
    assert set(found.values()) == {"pass"}


def test_all_devices_measure_at_once_and_cases_keep_their_names(
    torchstone: Command, machine: Machine, tmp_path: Path
) -> None:
    ran = torchstone(
        "run", "bench_it.py", "--device", "cuda:all", "--probe", "performance", "-o", "run.jsonl"
    )
    assert ran.code == 1, ran.err
    assert machine.disturbed == []
    assert set(machine.places.values()) == {"cuda:0", "cuda:1"}
    assert machine.most_timed == 2
    run = read_run(tmp_path / "run.jsonl").run
    assert {case.variant.device for case in run.plan} == {"cuda"}
    assert run.settings.all_devices
    measured = {each.case.benchmark: each.details.device for each in run.outcomes if each.details}
    assert measured["one"] == machine.places["one"]
    assert len(run.outcomes) == len(NAMES)


def test_one_job_asks_nobody(torchstone: Command, machine: Machine) -> None:
    torchstone(
        "run", "bench_it.py", "--device", "cuda", "--probe", "performance", "-o", "run.jsonl", "-j", "1"
    )
    assert machine.shared == {False}


def test_a_run_on_all_devices_is_resumed_on_all(
    torchstone: Command, machine: Machine, tmp_path: Path
) -> None:
    torchstone("run", "bench_it.py", "--device", "cuda:all", "--probe", "performance", "-o", "run.jsonl")
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["kind"] == "run" or '"one"' in line]
    (tmp_path / "run.jsonl").write_text("".join(f"{line}\n" for line in kept[:2]))
    machine.places.clear()
    ran = torchstone("run", "--resume", "run.jsonl", "--trust")
    assert ran.code == 1, ran.err
    assert set(machine.places.values()) == {"cuda:0", "cuda:1"}


def test_there_is_only_one_cpu(torchstone: Command, machine: Machine, tmp_path: Path) -> None:
    ran = torchstone("run", "bench_it.py", "--device", "cpu:all", "-o", "run.jsonl")
    assert ran.code == 2
    assert "there is only one CPU" in ran.err
    assert not (tmp_path / "run.jsonl").exists()


def test_ab_takes_turns_on_one_device(torchstone: Command, machine: Machine) -> None:
    ran = torchstone("ab", "bench_it.py", "--device", "cuda:all")
    assert ran.code == 2
    assert "both sides take turns on one device" in ran.err


def test_limits_are_those_of_the_settings() -> None:
    limits = choose_limits(structs.replace(Settings(timeout=7.0), memory_limit=9), run_on("cpu"))
    assert (limits.timeout, limits.memory, limits.places) == (7.0, 9, ())
