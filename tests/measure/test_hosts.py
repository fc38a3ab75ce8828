"""The hosts of a job: real processes that form a line, lose each other, and say so in time."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from torchstone.core.errors import UsageError
from torchstone.measure.executors.protocol import CannotMeasureError
from torchstone.measure.hosts.host_group import (
    HostConnection,
    JobPosition,
    find_position,
    first_host,
    wait_for_leader,
)
from torchstone.measure.hosts.network import interface_of, local_address

SOON = 60.0

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "alpha",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
SLURM = {
    "SLURM_JOB_ID": "1234567",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "6",
    "SLURM_NODEID": "2",
    "SLURM_NNODES": "3",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
    "SLURM_JOB_NODELIST": "gpu[07-08,12]",
}


def test_a_process_of_torchrun_knows_its_place() -> None:
    assert find_position(TORCHRUN) == JobPosition(
        index=1,
        count=2,
        ranks=2,
        local_rank=1,
        address="alpha",
        port=29500,
        agent_store=True,
        world=4,
        attempt="none/0",
    )


def test_a_task_of_srun_knows_its_place_and_takes_a_port_by_its_job() -> None:
    assert find_position(SLURM) == JobPosition(
        index=2,
        count=3,
        ranks=2,
        local_rank=1,
        address="gpu07",
        port=24567,
        agent_store=False,
        world=6,
        attempt="1234567.0.gpu[07-08,12]",
    )


def test_two_jobs_of_slurm_do_not_take_the_same_port() -> None:
    one, other = find_position(SLURM), find_position({**SLURM, "SLURM_JOB_ID": "1234568"})
    assert one
    assert other
    assert one.port != other.port


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "4000"}, {"address": "10.0.0.7", "port": 4000}),
        ({"SLURM_STEP_NODELIST": "gpu12"}, {"address": "gpu12"}),
        ({"SLURM_STEP_TASKS_PER_NODE": "2,3,1"}, {"ranks": 1}),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x2),4"}, {"ranks": 4}),
        ({"SLURM_STEP_TASKS_PER_NODE": "", "SLURM_NTASKS_PER_NODE": "2"}, {"ranks": 2}),
        ({"SLURM_STEP_TASKS_PER_NODE": ""}, {"ranks": 2}),
        ({"SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NUM_NODES": "3"}, {"world": 3, "count": 3}),
    ],
)
def test_what_slurm_says_of_the_step_and_the_user_of_host_0_is_heeded(
    changed: Mapping[str, str], expected: Mapping[str, object]
) -> None:
    place = find_position({**SLURM, **changed})
    assert {name: getattr(place, name) for name in expected} == expected


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "2"},
        {**TORCHRUN, "WORLD_SIZE": "1"},
        {**SLURM, "SLURM_NTASKS": "1"},
        {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"},
    ],
    ids=["nothing", "no launcher", "torchrun of one", "srun of one", "a batch script outside of srun"],
)
def test_a_process_that_is_alone_has_no_place(environ: Mapping[str, str]) -> None:
    assert find_position(environ) is None


def test_torchrun_inside_of_srun_is_what_counts() -> None:
    place = find_position({**SLURM, **TORCHRUN})
    assert place is not None
    assert (place.count, place.agent_store) == (2, True)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({**TORCHRUN, "GROUP_WORLD_SIZE": "two"}, "GROUP_WORLD_SIZE is not a number: two"),
        ({**TORCHRUN, "MASTER_ADDR": ""}, "MASTER_ADDR is not set"),
        ({**SLURM, "SLURM_JOB_NODELIST": ""}, "SLURM_JOB_NODELIST is not set"),
    ],
)
def test_a_job_whose_variables_make_no_sense_is_refused(environ: Mapping[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_position(environ)


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ("alpha", "alpha"),
        ("alpha,beta", "alpha"),
        ("n[1-4]", "n1"),
        ("n[001,003-9],m1", "n001"),
        ("rack[2-3]n[7,9]", "rack2n7"),
    ],
)
def test_the_first_host_of_a_list(names: str, first: str) -> None:
    assert first_host(names) == first


def test_this_host_knows_the_way_to_an_address() -> None:
    assert local_address("127.0.0.1") == "127.0.0.1"
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.77") == ""
    assert local_address("no-such-host.invalid") == ""


# Lines: every part is a process of its own, which says what it finds as lines of JSON.

# Like the command, they end without taking the interpreter apart, which a thread inside of torch would not survive.
PRELUDE = """
import atexit, json, os, sys, time
atexit.register(os._exit, 0)
from torchstone.measure.hosts.host_group import HostLostError, HostConnection, JobPosition, wait_for_leader
def say(**told): print(json.dumps({"at": time.monotonic(), **told}), flush=True)
place = JobPosition(index=int(sys.argv[1]), count=int(sys.argv[2]), ranks=int(sys.argv[3]), local_rank=int(sys.argv[4]), address="127.0.0.1", port=int(sys.argv[5]), agent_store=False)
"""
FOLLOWER = """
line = HostConnection(place, 30, silence=3)
done = 0
try:
    line.exchange_facts({"host": f"h{place.index}"})
    while (order := line.next_order(done)) is not None:
        done = order["number"]
        line.answer(done, {"twice": [2 * each for each in order["numbers"]], "host": place.index, **({"blob": order["blob"]} if "blob" in order else {})})
    say(over=True)
except HostLostError as error:
    say(lost=str(error))
    os._exit(3)
"""


class Part:
    """One process of a job, and what it says."""

    def __init__(
        self, code: str, index: int, port: int, count: int = 2, ranks: int = 1, local: int = 0
    ) -> None:
        words = [str(word) for word in (index, count, ranks, local, port)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + code, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> dict[str, Any]:
        """The next thing that it says."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return dict(json.loads(line))

    def end(self, told: str = "") -> list[dict[str, Any]]:
        """All else that it says until it ends by itself, without a word to standard error."""
        out, err = self.process.communicate(told, timeout=SOON)
        assert err == ""
        return [json.loads(line) for line in out.splitlines()]


Start = Callable[..., Part]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts parts of a job at one free port; none outlives the test."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    parts: list[Part] = []

    def call(code: str, index: int, **further: int) -> Part:
        parts.append(Part(code, index, port, **further))
        return parts[-1]

    yield call
    for part in parts:
        with part.process:
            part.process.kill()


def test_hosts_introduce_themselves_and_work_off_orders_until_it_is_over(start: Start) -> None:
    leader = start(
        """
line = HostConnection(place, 30)
say(facts=line.exchange_facts({"host": "h0", "address": "a0"}), interface=line.interface())
line.order(1, {"numbers": [1, 2]})
say(first=line.collect(1, 3, 20))
blob = os.urandom(7_000_000).hex()  # more than a store takes at once, and nothing to compress
line.order(4, {"numbers": [], "blob": blob})
say(large={index: told["blob"] == blob for index, told in line.collect(4, 3, 30).items()})
line.order(5, {"numbers": []})
say(fewer=list(line.collect(5, 2, 20)))
line.end()
line.leave(0)
""",
        0,
        count=3,
    )
    followers = [start(FOLLOWER, index, count=3) for index in (1, 2)]
    facts, first, large, fewer = leader.end()
    assert facts["facts"] == [
        {"host": "h0", "address": "a0"},
        {"host": "h1", "address": "127.0.0.1"},
        {"host": "h2", "address": "127.0.0.1"},
    ]
    assert facts["interface"] == "lo"
    assert first["first"] == {"1": {"twice": [2, 4], "host": 1}, "2": {"twice": [2, 4], "host": 2}}
    assert large["large"] == {"1": True, "2": True}
    assert fewer["fewer"] == [1]
    for follower in followers:
        (over,) = follower.end()
        assert over["over"]
        assert follower.process.returncode == 0


@pytest.mark.slow
def test_a_follower_gets_the_newest_order_and_not_one_that_was_given_up(start: Start) -> None:
    leader = start(
        """
line = HostConnection(place, 30)
line.exchange_facts({})
for number in (1, 2, 3):
    line.order(number, {})
say(ordered=True)
say(answers=line.collect(3, 2, 30))
line.end()
""",
        0,
    )
    follower = start(
        """
line = HostConnection(place, 30)
line.exchange_facts({})
time.sleep(1)
order = line.next_order(0)
line.answer(order["number"], {"did": order["number"]})
say(next=line.next_order(order["number"]))
""",
        1,
    )
    assert leader.end()[1]["answers"] == {"1": {"did": 3}}
    assert follower.end()[0]["next"] is None


def test_a_follower_that_dies_is_not_waited_for_longer_than_patience(start: Start) -> None:
    leader = start(
        """
line = HostConnection(place, 30, silence=2)
line.exchange_facts({})
line.order(1, {"numbers": []})
say(before=line.collect(1, 3, 30))
sys.stdin.readline()
line.order(2, {"numbers": [1]})
begun = time.monotonic()
say(after=line.collect(2, 3, 1.0), took=time.monotonic() - begun, lost=line.lost_hosts())
begun = time.monotonic()
say(later=line.collect(2, 3, 60.0), took=time.monotonic() - begun, lost=line.lost_hosts())
line.end()
""",
        0,
        count=3,
    )
    stays = start(FOLLOWER, 1, count=3)
    dies = start(FOLLOWER, 2, count=3)
    assert set(leader.hear()["before"]) == {"1", "2"}
    dies.process.kill()
    dies.process.wait()
    after, later = leader.end("go\n")
    assert after["after"] == {"1": {"twice": [2], "host": 1}, "2": None}
    assert 1.0 <= after["took"] < 4
    assert later["later"] == after["after"]  # known to be lost, which is soon noticed
    assert later["took"] < 10
    assert later["lost"] == [2]
    assert stays.end()[0]["over"]


def test_followers_notice_that_host_0_has_died(start: Start) -> None:
    leader = start(
        "line = HostConnection(place, 30); line.exchange_facts({}); say(ready=1); time.sleep(600)", 0
    )
    follower = start(FOLLOWER, 1)
    leader.hear()
    leader.process.kill()
    killed = time.monotonic()
    (lost,) = follower.end()
    assert "host 0" in lost["lost"]
    assert lost["at"] - killed < 10
    assert follower.process.returncode == 3


@pytest.mark.slow
def test_followers_notice_that_host_0_hangs(start: Start) -> None:
    """Its store answers no more, as on a link that was cut, and no connection is closed."""
    leader = start(
        "line = HostConnection(place, 30); line.exchange_facts({}); say(ready=1); time.sleep(600)", 0
    )
    follower = start(FOLLOWER, 1)
    leader.hear()
    leader.process.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    (lost,) = follower.end()
    assert "the store of host 0 at 127.0.0.1" in lost["lost"]
    assert lost["at"] - stopped < 20


@pytest.mark.slow
def test_followers_notice_a_dead_leader_though_the_store_of_the_agent_lives(start: Start) -> None:
    """As under torchrun, whose agent has the store."""
    agent = start(
        """
from datetime import timedelta
from torch.distributed import TCPStore
store = TCPStore("localhost", place.port, is_master=True, timeout=timedelta(seconds=30), wait_for_workers=False)
say(ready=1)
time.sleep(600)
""",
        0,
    )
    agent.hear()
    of_agent = "from msgspec.structs import replace; place = replace(place, agent_store=True)\n"
    leader = start(
        of_agent
        + "line = HostConnection(place, 30); line.exchange_facts({'host': 'h0'}); say(ready=1); time.sleep(600)",
        0,
    )
    follower = start(of_agent + FOLLOWER, 1)
    leader.hear()
    leader.process.kill()
    killed = time.monotonic()
    (lost,) = follower.end()
    assert lost["lost"].startswith("no sign of host 0 (h0) for ")
    assert lost["at"] - killed < 15


def test_a_host_that_does_not_come_is_named(start: Start) -> None:
    leader = start(
        """
from torchstone.measure.executors.protocol import CannotMeasureError
line = HostConnection(place, 2)
try:
    line.exchange_facts({})
except CannotMeasureError as error:
    say(error=str(error), code=error.exit_code)
""",
        0,
        count=3,
    )
    start("line = HostConnection(place, 30); line.exchange_facts({}); time.sleep(600)", 2, count=3)
    (told,) = leader.end()
    assert told["error"].startswith("host 1 of 3 did not join within 2 s") or told["error"].startswith(
        "hosts 1, 2 of 3 did not join"
    )
    assert told["code"] == 3


@pytest.mark.slow
def test_those_that_do_not_lead_end_as_their_leader_does(start: Start) -> None:
    lead = "line = HostConnection(place, 30); line.exchange_facts({}); time.sleep(1)\n"
    parts = [
        start(lead + "line.end(); line.leave(0)", 0, ranks=2),
        start("os._exit(wait_for_leader(place, 30))", 0, ranks=2, local=1),
        start(lead + "line.next_order(0); line.leave(5); os._exit(5)", 1, ranks=2),
        start("os._exit(wait_for_leader(place, 30))", 1, ranks=2, local=1),
    ]
    for part in parts:
        part.end()
    assert [part.process.returncode for part in parts] == [0, 0, 5, 5]


@pytest.mark.slow
def test_those_that_do_not_lead_notice_that_their_leader_has_died(start: Start) -> None:
    start("line = HostConnection(place, 30); line.exchange_facts({}); time.sleep(600)", 0)
    leader = start(
        "line = HostConnection(place, 30); line.exchange_facts({}); say(ready=1); time.sleep(600)", 1
    )
    waits = start(
        """
try:
    wait_for_leader(place, 5, silence=3)
except HostLostError as error:
    say(lost=str(error))
""",
        1,
        local=1,
    )
    leader.hear()
    leader.process.kill()
    (told,) = waits.end()
    assert "no sign of the leading process of host 1" in told["lost"]


def place_at(address: str, port: int, **further: Any) -> JobPosition:  # noqa: ANN401
    return JobPosition(
        **{"index": 1, "count": 2, "ranks": 1, "local_rank": 0, "agent_store": False, **further},
        address=address,
        port=port,
    )


@pytest.mark.parametrize(
    "call", [lambda place: HostConnection(place, 1.5), lambda place: wait_for_leader(place, 1.5)]
)
@pytest.mark.parametrize(
    ("address", "why"),
    [("127.0.0.1", "connection refused"), ("no-such-host.invalid", "unknown host name")],
)
def test_a_host_0_that_cannot_be_reached_is_a_clear_error_in_time(
    call: Callable[[JobPosition], object], address: str, why: str
) -> None:
    import torch.distributed  # noqa: F401, PLC0415  (takes its time)

    with socket.socket() as unused:  # bound, and nobody listens
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        begun = time.monotonic()
        with pytest.raises(CannotMeasureError) as caught:
            call(place_at(address, port))
    assert f"could not be reached at {address}:{port} within 1.5 s: {why}" in str(caught.value)
    assert "MASTER_ADDR" in caught.value.advice
    assert time.monotonic() - begun < 8


def test_something_else_that_listens_at_host_0_is_a_clear_error_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        begun = time.monotonic()
        with pytest.raises(CannotMeasureError, match="could not be reached at"):
            HostConnection(place_at("127.0.0.1", mute.getsockname()[1]), 2)
        assert time.monotonic() - begun < 15


def test_a_port_that_is_taken_on_host_0_is_a_clear_error() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotMeasureError, match=f"host 0 cannot open a store on port {port}") as caught:
            HostConnection(place_at("127.0.0.1", port, index=0), 5)
    assert "MASTER_PORT" in caught.value.advice


def test_no_torch_is_loaded_for_a_process_without_a_place() -> None:
    code = "import sys; from torchstone.measure.hosts.host_group import find_position; find_position({}); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=SOON
    )
    assert done.stdout == "False\n"


def test_a_job_without_torch_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    with pytest.raises(CannotMeasureError, match="runs on several hosts need torch") as caught:
        HostConnection(place_at("127.0.0.1", 1), 5)
    assert "pip install torch" in caught.value.advice
