"""Two hosts that are joined by a link: jobs across it, and jobs during which it is cut."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from namespaces import Host, TwoHosts, supported, two_hosts

import torchstone
from live_processes import read_run, wait_until
from stated_facts import facts_of
from torchstone.core.records import Outcome
from torchstone.worker.process_tree import list_children

pytestmark = pytest.mark.slow

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
PORT = 29500
LONG = 300.0  # for what takes a minute: the machine may be busy with other tests

STARTED: list[subprocess.Popen[bytes]] = []  # of this test; they end with the hosts that they are on
Cut = Callable[[TwoHosts], None]


@pytest.fixture(scope="module")
def allowed() -> None:
    if reason := supported():
        pytest.skip(reason)


@pytest.fixture
def hosts(allowed: None) -> Iterator[TwoHosts]:
    with two_hosts() as made:
        yield made
    for process in STARTED:
        process.wait()
    STARTED.clear()


class Started:
    """A process on one of the hosts, whose output goes into files."""

    def __init__(self, host: Host, folder: Path, *words: str) -> None:
        folder.mkdir(exist_ok=True)
        self.host = host
        self.folder = folder
        self._out, self._err = folder / "out", folder / "err"
        with open(self._out, "w") as out, open(self._err, "w") as err:
            self.process = subprocess.Popen(
                host.command(*words), cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        STARTED.append(self.process)

    def said(self) -> str:
        return self._out.read_text() + self._err.read_text()

    def told(self, key: str) -> dict[str, Any] | None:
        """The line of JSON that has this key, if it has been said."""
        lines = [json.loads(line) for line in self._out.read_text().splitlines() if line.startswith("{")]
        return next((line for line in lines if key in line), None)

    def expect(self, key: str) -> dict[str, Any]:
        wait_until(
            lambda: self.told(key) is not None or self.process.poll() is not None, f"{key}: {self.said()}"
        )
        told = self.told(key)
        assert told is not None, self.said()
        return told

    def end(self, seconds: float = LONG) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.host.name} has not ended within {seconds:g} s: {self.said()}")


def start_torchrun(
    hosts: TwoHosts,
    folder: Path,
    *words: str,
    ranks: int = 1,
    variables: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[Started]:
    """The same command by torchrun on both hosts, each in a folder of its own, and with its own further variables."""
    return [
        Started(
            host,
            folder / host.name,
            "env",
            *variables.get(host.name, ()),
            *TORCHRUN,
            "--nnodes=2",
            f"--nproc-per-node={ranks}",
            f"--node-rank={index}",
            f"--master-addr={hosts.first.address}",
            f"--master-port={PORT}",
            *words,
        )
        for index, host in enumerate(hosts)
    ]


ALL_REDUCE = """
import datetime, json, os, socket, sys, time, torch, torch.distributed as dist
def say(**told): print(json.dumps({"at": time.monotonic(), **told}), flush=True)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=float(sys.argv[1])))
for number in range(int(sys.argv[2])):
    told = torch.ones(1000)
    try:
        dist.all_reduce(told)
    except RuntimeError as error:
        say(lost=str(error))
        os._exit(1)
    if number == 4:
        say(sum=told[0].item(), host=socket.gethostname())
    time.sleep(0.01)
dist.barrier()
dist.destroy_process_group()
"""


def test_two_hosts_train_together(hosts: TwoHosts, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ALL_REDUCE)
    parts = start_torchrun(hosts, tmp_path, str(script), "30", "10")
    for part in parts:
        told = part.expect("sum")
        assert (told["sum"], told["host"]) == (2.0, part.host.name)
        assert part.end() == 0
    assert hosts.processes() == []


@pytest.mark.parametrize("how", [TwoHosts.cut, TwoHosts.unplug])
def test_a_collective_ends_in_its_time_when_the_link_is_cut(
    hosts: TwoHosts, tmp_path: Path, how: Cut
) -> None:
    script = tmp_path / "script.py"
    script.write_text(ALL_REDUCE)
    parts = start_torchrun(hosts, tmp_path, str(script), "5", "100000")
    for part in parts:
        part.expect("sum")
    how(hosts)
    cut = time.monotonic()
    for part in parts:
        assert 4 < part.expect("lost")["at"] - cut < 15
        assert part.end() != 0


LINE = """
import json, os, sys, time
from torchstone.measure.hosts.host_group import HostLostError, HostConnection, find_position, wait_for_leader
def say(**told): print(json.dumps({"at": time.monotonic(), **told}), flush=True)
place = find_position(os.environ)
if place.local_rank:
    sys.exit(wait_for_leader(place))
line = HostConnection(place, 60, silence=4)
say(facts=line.exchange_facts({"host": os.uname().nodename}), interface=line.interface(), agent=place.agent_store)
number = 0
if place.index == 0:
    while number < 3 or "--cut" in sys.argv:
        number += 1
        line.order(number, {"number": number})
        answers = line.collect(number, 2, 30)
        if answers[1] is None:
            say(missing=1, lost=line.lost_hosts())
            line.end()
            line.leave(3)
            os._exit(3)
        say(**{f"answer {number}": answers[1]})
    line.end()
else:
    try:
        while (order := line.next_order(number)) is not None:
            number = order["number"]
            line.answer(number, {"did": number})
    except HostLostError as error:
        say(lost=str(error))
        os._exit(3)
line.leave(0)
"""


def slurm_variables(hosts: TwoHosts, index: int, local: int, ranks: int) -> list[str]:
    """What srun tells each of its tasks."""
    return [
        "SLURM_JOB_ID=77",
        "SLURM_STEP_ID=0",
        f"SLURM_NTASKS={2 * ranks}",
        "SLURM_NNODES=2",
        f"SLURM_STEP_TASKS_PER_NODE={ranks}(x2)",
        f"SLURM_JOB_NODELIST={hosts.first.name},{hosts.second.name}",
        f"SLURM_NODEID={index}",
        f"SLURM_PROCID={ranks * index + local}",
        f"SLURM_LOCALID={local}",
    ]


def start_line(hosts: TwoHosts, folder: Path, launcher: str, *words: str) -> list[Started]:
    """Leaders on both hosts, and one more process on each, started by torchrun or as Slurm's srun would."""
    script = folder / "script.py"
    script.write_text(LINE)
    if launcher == "torchrun":
        return start_torchrun(hosts, folder, str(script), *words, ranks=2)
    return [
        Started(
            host,
            folder / f"{host.name}{local}",
            "env",
            *slurm_variables(hosts, index, local, 2),
            sys.executable,
            str(script),
            *words,
        )
        for local in (0, 1)
        for index, host in enumerate(hosts)
    ]


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_leaders_of_two_hosts_talk_on_a_line(hosts: TwoHosts, tmp_path: Path, launcher: str) -> None:
    parts = start_line(hosts, tmp_path, launcher)
    for part in parts[:2]:
        told = part.expect("facts")
        assert [each["host"] for each in told["facts"]] == ["alpha", "beta"]
        assert told["facts"][1]["address"] == hosts.second.address
        assert told["interface"] == "veth0"
        assert told["agent"] is (launcher == "torchrun")
    assert parts[0].expect("answer 3")["answer 3"] == {"did": 3}
    assert [part.end() for part in parts] == [0] * len(parts)
    assert hosts.processes() == []


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
@pytest.mark.parametrize("how", [TwoHosts.cut, TwoHosts.unplug])
def test_both_ends_of_a_line_notice_that_the_link_is_cut(
    hosts: TwoHosts,
    tmp_path: Path,
    launcher: str,
    how: Cut,
) -> None:
    parts = start_line(hosts, tmp_path, launcher, "--cut")
    parts[0].expect("answer 3")
    how(hosts)
    cut = time.monotonic()
    missing, lost = parts[0].expect("missing"), parts[1].expect("lost")
    assert missing["lost"] == [1]
    assert missing["at"] - cut < 20
    assert "host 0" in lost["lost"]
    assert lost["at"] - cut < 20
    for part in parts:
        assert part.end(60) != 0, part.said()
    assert hosts.processes() == []


SCALING = ("run", "scaling", "--only", "mlp", "--probe", "scaling", "--output", "run.jsonl")
COLLECTIVE_TIMEOUT = 20.0
GRACE = 20.0  # until host 0 has noticed that the other is gone, and everything has ended there; as long again elsewhere


def start_scaling(hosts: TwoHosts, folder: Path, *options: str, launcher: str = "torchrun") -> list[Started]:
    """A scaling run on both hosts, each with one rank."""
    words = [*SCALING, "--collective-timeout", f"{COLLECTIVE_TIMEOUT:g}s", *options]
    if launcher == "torchrun":
        return start_torchrun(hosts, folder, "-m", "torchstone", *words)
    return [
        Started(
            host,
            folder / host.name,
            "env",
            *slurm_variables(hosts, index, 0, 1),
            sys.executable,
            "-m",
            "torchstone",
            *words,
        )
        for index, host in enumerate(hosts)
    ]


def run_file(part: Started) -> Path:
    return part.folder / "run.jsonl"


def outcomes_of(part: Started) -> dict[tuple[str, str, str], Outcome]:
    """What the run file holds, by strategy, ranks and bucket size."""
    found = {}
    for outcome in read_run(run_file(part)).run.outcomes:
        axes = dict(outcome.case.variant.further)
        found[axes["strategy"], axes["ranks"], axes.get("bucket_mb", "")] = outcome
    return found


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_a_run_measures_rounds_on_one_host_and_on_both(
    hosts: TwoHosts, tmp_path: Path, launcher: str
) -> None:
    first, second = start_scaling(hosts, tmp_path, "--ranks", "1,2", "--repeat", "5", launcher=launcher)
    assert (first.end(), second.end()) == (0, 0), first.said() + second.said()
    outcomes = outcomes_of(first)
    assert list(outcomes) == [("none", "1", ""), ("ddp", "1", "25"), ("ddp", "2", "25")]
    assert {outcome.status for outcome in outcomes.values()} == {"pass"}
    hosts_used = [facts_of(outcome)["round"]["hosts"] for outcome in outcomes.values()]
    assert hosts_used == [("alpha",), ("alpha",), ("alpha", "beta")]
    both = facts_of(outcomes["ddp", "2", "25"])["ranks"]
    assert [(each["rank"], each["host"], each["local_rank"]) for each in both] == [
        (0, "alpha", 0),
        (1, "beta", 0),
    ]
    assert not run_file(second).exists()
    variables = read_run(run_file(first)).run.environment.variables or {}
    assert not any(
        name.startswith("TORCHELASTIC_") for name in variables
    )  # else no two jobs could be compared
    assert hosts.processes() == []


def wait_for_iterations(hosts: TwoHosts, first: Started) -> None:
    """Until the round of both hosts has exchanged its 10 MB of gradients many times."""
    wait_until(
        lambda: hosts.traffic() > 150e6 or first.process.poll() is not None,
        "no iterations on both hosts",
        LONG,
    )
    assert first.process.poll() is None, first.said()


@pytest.mark.parametrize(("how", "launcher"), [(TwoHosts.cut, "torchrun"), (TwoHosts.unplug, "srun")])
def test_a_run_whose_link_is_cut_in_an_iteration_ends_in_time_and_names_the_lost_host(
    hosts: TwoHosts, tmp_path: Path, how: Cut, launcher: str
) -> None:
    options = ("--ranks", "2", "--repeat", "200", "--bucket-mb", "25,50")
    first, second = start_scaling(hosts, tmp_path, *options, launcher=launcher)
    wait_for_iterations(hosts, first)
    how(hosts)
    cut = time.monotonic()
    assert first.end(COLLECTIVE_TIMEOUT + GRACE) == 1
    assert second.end(COLLECTIVE_TIMEOUT + 2 * GRACE - (time.monotonic() - cut)) == (
        1 if launcher == "torchrun" else 3
    )
    outcomes = outcomes_of(first)
    assert {axes: outcome.status for axes, outcome in outcomes.items()} == {
        ("none", "1", ""): "pass",
        ("ddp", "2", "25"): "worker_died",
        ("ddp", "2", "50"): "worker_died",
    }
    for bucket in ("25", "50"):
        failure = outcomes["ddp", "2", bucket].failure
        assert failure
        assert "host beta" in failure.message
        assert "lost" in failure.message
    assert re.search("error: the store of host 0 at .* can no longer be reached", second.said())
    assert hosts.processes() == []


def test_a_run_that_is_stopped_ends_on_both_hosts_and_the_next_job_finishes_it(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    first, second = start_scaling(hosts, tmp_path, "--ranks", "2", "--repeat", "100")
    wait_for_iterations(hosts, first)
    first.process.send_signal(signal.SIGINT)
    assert first.end(GRACE) == 1
    second.end(GRACE)
    assert list(outcomes_of(first)) == [("none", "1", "")]
    assert hosts.processes() == []
    again = start_torchrun(hosts, tmp_path, "-m", "torchstone", "run", "--resume", "run.jsonl")
    assert [part.end() for part in again] == [0, 0], again[0].said()
    assert {axes: outcome.status for axes, outcome in outcomes_of(first).items()} == {
        ("none", "1", ""): "pass",
        ("ddp", "2", "25"): "pass",
    }
    assert hosts.processes() == []


def test_a_run_whose_first_host_is_killed_ends_on_the_other_too(hosts: TwoHosts, tmp_path: Path) -> None:
    first, second = start_scaling(hosts, tmp_path, "--ranks", "2", "--repeat", "200")
    wait_for_iterations(hosts, first)
    leader = next(pid for pid in list_children(first.process.pid) if "torchstone" in command_of(pid))
    os.kill(leader, signal.SIGKILL)
    assert first.end(GRACE) == 1
    assert second.end(COLLECTIVE_TIMEOUT + 2 * GRACE) == 1
    assert {outcome.status for outcome in outcomes_of(first).values()} == {"pass"}  # of the rounds before
    assert "error: " in second.said()
    wait_until(lambda: not hosts.processes(), "processes are left", 30)


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_other_software_on_a_host_is_an_outcome_that_names_it(hosts: TwoHosts, tmp_path: Path) -> None:
    source = Path(torchstone.__file__).parent
    shutil.copytree(source, tmp_path / "older" / "torchstone")
    changed = tmp_path / "older" / "torchstone" / "__init__.py"
    text = changed.read_text()
    assert f'"{torchstone.__version__}"' in text
    changed.write_text(text.replace(f'"{torchstone.__version__}"', '"0.0.1"'))
    words = ["-m", "torchstone", *SCALING, "--ranks", "2", "--repeat", "5", "--collective-timeout", "20s"]
    first, second = start_torchrun(
        hosts, tmp_path, *words, variables={"beta": [f"PYTHONPATH={tmp_path / 'older'}"]}
    )
    assert first.end() == 1
    second.end()
    outcomes = outcomes_of(first)
    assert [outcome.status for outcome in outcomes.values()] == ["pass", "infra_error"]
    failure = outcomes["ddp", "2", "25"].failure
    assert failure
    assert failure.message.startswith("rank 1 on beta: other software than on the first host: ")
    assert f"torchstone is 0.0.1, and {torchstone.__version__} on alpha" in failure.message
    assert hosts.processes() == []


def test_a_host_0_that_cannot_be_reached_is_an_error_in_time(hosts: TwoHosts, tmp_path: Path) -> None:
    variables = [*slurm_variables(hosts, 1, 0, 1), "MASTER_ADDR=10.211.1.77", "MASTER_PORT=4000"]
    begun = time.monotonic()
    lonely = Started(
        hosts.second,
        tmp_path / "beta",
        *("env", *variables, sys.executable, "-m", "torchstone", *SCALING, "--collective-timeout", "5s"),
    )
    assert lonely.end(60) == 3
    assert "error: host 0 of the job could not be reached at 10.211.1.77:4000 within " in lonely.said()
    assert "MASTER_ADDR" in lonely.said()
    assert "Traceback" not in lonely.said()
    assert time.monotonic() - begun < 60
    assert hosts.processes() == []
