"""The hosts of a job: the position of a process among them, and the connection between their leaders.

On every host one process leads (local rank 0). The leader of host 0 is the run itself; the others do their part of each round.
They communicate through torch's ``TCPStore``: that of torchrun's agent, or else one opened by host 0. Every leader increments a
heartbeat counter.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from torchstone.core.errors import UsageError, printable
from torchstone.measure.executors.protocol import CannotMeasureError
from torchstone.measure.hosts.network import (
    Connection,
    Heartbeats,
    HostLostError,
    Store,
    interface_of,
    local_address,
    read_message,
    write_message,
)
from torchstone.worker.channel import Message

__all__ = ["HostConnection", "HostLostError", "JobPosition", "find_position", "wait_for_leader"]

SILENCE = 15.0
_TIME_TO_LEAVE = 5.0
_BEAT = 1.0
_TICK = 0.1
_WAITING_TICK = 0.5
_OVER = "over"
_FIRST_PORT, _PORTS = 20_000, 10_000


class JobPosition(Struct, frozen=True):
    """The position of a process in its job: host ``index`` of ``count``, ``ranks`` processes on this host, ``world`` in all.

    ``address`` and ``port`` are those of host 0. ``agent_store``: torchrun has a store there; otherwise the leader of host 0 opens
    it. ``attempt`` distinguishes restarts of the job that share a store, and jobs of other clusters that use the same port.
    """

    index: int
    count: int
    ranks: int
    local_rank: int
    address: str
    port: int
    agent_store: bool
    world: int = 0
    attempt: str = ""

    @property
    def opens_store(self) -> bool:
        """Return whether this process opens the store."""
        return not self.agent_store and self.index == 0 and self.local_rank == 0

    @property
    def others(self) -> int:
        """Return the number of other processes in the job."""
        return (self.world or self.count * self.ranks) - 1


def find_position(environ: Mapping[str, str]) -> JobPosition | None:
    """Return the position that torchrun or srun gave this process; None outside a job, or if it is the only process."""
    if "GROUP_RANK" in environ and "LOCAL_RANK" in environ:
        return _torchrun_position(environ)
    # In a batch script, outside srun, Slurm's variables look like those of task 0, but there are no other tasks.
    if "SLURM_PROCID" in environ and ("SLURM_STEP_ID" in environ or "SLURM_STEPID" in environ):
        return _slurm_position(environ)
    return None


def _torchrun_position(environ: Mapping[str, str]) -> JobPosition | None:
    world = _number(environ, "WORLD_SIZE")
    if world == 1:
        return None
    return JobPosition(
        index=_number(environ, "GROUP_RANK"),
        count=_number(environ, "GROUP_WORLD_SIZE"),
        ranks=_number(environ, "LOCAL_WORLD_SIZE"),
        local_rank=_number(environ, "LOCAL_RANK"),
        address=_text(environ, "MASTER_ADDR"),
        port=_number(environ, "MASTER_PORT"),
        agent_store=environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True),
        world=world,
        attempt=f"{environ.get('TORCHELASTIC_RUN_ID', '')}/{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}",
    )


def _slurm_position(environ: Mapping[str, str]) -> JobPosition | None:
    world = _number(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    if world == 1:
        return None
    index = _number(environ, "SLURM_NODEID")
    count = _number(environ, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    job = _number(environ, "SLURM_JOB_ID", "SLURM_JOBID", otherwise=0)
    step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID")
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
    return JobPosition(
        index=index,
        count=count,
        ranks=_slurm_ranks(environ, index, world, count),
        local_rank=_number(environ, "SLURM_LOCALID"),
        address=environ.get("MASTER_ADDR")
        or first_host(_text(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")),
        port=_number(environ, "MASTER_PORT", otherwise=_FIRST_PORT + job % _PORTS),
        agent_store=False,
        world=world,
        attempt=f"{job}.{step}.{nodes}",
    )


def _slurm_ranks(environ: Mapping[str, str], index: int, world: int, count: int) -> int:
    """Return the number of tasks on this host; Slurm writes those of all hosts as ``2(x3),1``."""
    text = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_NTASKS_PER_NODE") or ""
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if found:
            counts += [int(found[1])] * int(found[2] or 1)
    if len(counts) == 1:
        return counts[0]
    return counts[index] if index < len(counts) else max(1, world // max(1, count))


def first_host(names: str) -> str:
    """Return the first host of a Slurm host list.

    >>> first_host("gpu[07-09,12],login1"), first_host("rack[1-2]-n[003,5]"), first_host("a,b")
    ('gpu07', 'rack1-n003', 'a')
    """
    whole = re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", names)
    return whole.partition(",")[0].strip()


def _text(environ: Mapping[str, str], *names: str) -> str:
    for name in names:
        if environ.get(name):
            return environ[name]
    raise UsageError(f"this is a process of a job, but {names[-1]} is not set")


def _number(environ: Mapping[str, str], *names: str, otherwise: int | None = None) -> int:
    """Return the first of these variables that is set, which must be a number."""
    for name in names:
        if environ.get(name):
            if not re.fullmatch(r"\d{1,9}", environ[name], re.ASCII):
                raise UsageError(f"{name} is not a number: {printable(environ[name])}")
            return int(environ[name])
    if otherwise is None:
        raise UsageError(f"this is a process of a job, but {names[-1]} is not set")
    return otherwise


def _connect(position: JobPosition, timeout: float, opens: bool = False) -> Connection:
    is_here = position.index == 0 and not position.agent_store
    address = "localhost" if is_here else position.address
    return Connection(address, position.port, f"torchstone/{position.attempt}", timeout, opens)


class HostConnection:
    """Connects one leader to the others. Calls time out after the given time, or about ten seconds."""

    def __init__(self, position: JobPosition, timeout: float, silence: float = SILENCE) -> None:
        self.position = position
        self._timeout = timeout
        self._silence = silence
        self._facts: list[Message] = [{} for _ in range(position.count)]
        self._connection = _connect(position, timeout, opens=position.opens_store)
        self._beating = _connect(
            position, timeout
        )  # separate, so that heartbeats do not wait for other calls
        self._stopped = threading.Event()
        self._heartbeats = Heartbeats()
        self._beats = threading.Thread(target=self._beat, daemon=True)
        self._beats.start()

    def _beat(self) -> None:
        """Send heartbeats and read those of others: host 0 of all hosts, the others of host 0."""
        position = self.position
        watched = range(1, position.count) if position.index == 0 else [0]

        def beat(store: Store) -> None:
            store.add(f"heartbeat/{position.index}", 1)
            for index in watched:
                self._heartbeats.look(store, index)

        with contextlib.suppress(HostLostError):
            while not self._stopped.is_set():
                self._beating.do(beat, self._silence)
                self._stopped.wait(_BEAT)

    def exchange_facts(self, facts: Mapping[str, Any]) -> list[Message]:
        """Publish this host's facts, and return those of all hosts, in order; each has at least its ``address``."""
        position = self.position
        own = {"address": self.own_address(), **facts}
        self._connection.do(lambda store: write_message(store, f"facts/{position.index}", own))
        deadline = time.monotonic() + self._timeout
        missing = list(range(position.count))
        while missing:
            for index in list(missing):
                facts_there = self._connection.do(partial(read_message, key=f"facts/{index}"))
                if facts_there is not None:
                    self._facts[index] = facts_there
                    missing.remove(index)
            if missing and time.monotonic() >= deadline:
                raise CannotMeasureError(
                    f"{_listed(missing)} of {position.count} did not join within {self._timeout:g} s",
                    advice="start the same command on every host of the job",
                )
            if missing:
                time.sleep(_TICK)
        self._heartbeats = Heartbeats()
        return list(self._facts)

    def order(self, number: int, job: Mapping[str, Any]) -> None:
        """On host 0: send the other hosts their job of round ``number``; numbers increase."""

        def write(store: Store) -> None:
            write_message(store, f"order/{number}", {**job, "number": number})
            store.set("turn", str(number))

        self._connection.do(write)

    def next_order(self, after: int) -> Message | None:
        """On other hosts: wait for an order with a higher ``number``; None when host 0 has finished."""

        def look(store: Store) -> Message | str | None:
            turn = store.get("turn").decode() if store.check(["turn"]) else ""
            if turn == _OVER:
                store.add("heard", 1)
                return _OVER
            return read_message(store, f"order/{turn}") if turn and int(turn) > after else None

        while True:
            found = self._connection.do(look)
            if found is not None:
                return found if isinstance(found, dict) else None
            if self.lost_hosts():
                silent = self._heartbeats.silence(0)
                raise HostLostError(f"no sign of {self._named(0)} for {silent:.0f} s")
            time.sleep(_TICK)

    def answer(self, number: int, result: Mapping[str, Any]) -> None:
        """On other hosts: send the result of this host's part of a round."""

        def write(store: Store) -> None:
            write_message(store, f"answer/{number}/{self.position.index}", result)
            store.check(["turn"])  # set() does not wait; this call confirms that it has arrived

        self._connection.do(write)

    def collect(self, number: int, hosts: int, patience: float) -> dict[int, Message | None]:
        """On host 0: return the answers of hosts 1 to ``hosts`` - 1; None for one that did not answer in time, or is lost."""
        found: dict[int, Message | None] = dict.fromkeys(range(1, hosts))
        deadline = time.monotonic() + patience
        while True:
            lost = set(self.lost_hosts())
            for index in [index for index, answer in found.items() if answer is None]:
                found[index] = self._connection.do(partial(read_message, key=f"answer/{number}/{index}"))
            waiting = {index for index, answer in found.items() if answer is None} - lost
            if not waiting or time.monotonic() >= deadline:
                return found
            time.sleep(_TICK)

    def lost_hosts(self) -> list[int]:
        """Return the hosts without a recent heartbeat: on host 0 of all hosts, on the others only host 0."""
        watched = range(1, self.position.count) if self.position.index == 0 else [0]
        return [index for index in watched if self._heartbeats.silence(index) > self._silence]

    def end(self) -> None:
        """On host 0: announce the end, and wait briefly for the others, because the store may end with this process."""
        with contextlib.suppress(HostLostError):
            self._connection.do(lambda store: store.set("turn", _OVER))
            self._wait_for("heard", self.position.count - 1 - len(self.lost_hosts()))

    def leave(self, code: int) -> None:
        """Publish the exit code for the other processes of this host; host 0 waits briefly until all others have left."""

        def write(store: Store) -> None:
            store.set(f"code/{self.position.index}", str(code))
            store.add("left", 1)

        with contextlib.suppress(HostLostError):
            self._connection.do(write)
            if self.position.index == 0:
                self._wait_for(
                    "left", 1 + self.position.others - len(self.lost_hosts()) * self.position.ranks
                )
        self._stopped.set()
        self._beats.join(2 * _BEAT)  # a Python program that ends during a call of torch's store would crash

    def _wait_for(self, key: str, count: int) -> None:
        deadline = time.monotonic() + _TIME_TO_LEAVE
        while self._connection.do(lambda store: store.add(key, 0)) < count and time.monotonic() < deadline:
            time.sleep(_TICK)

    def own_address(self) -> str:
        """Return the address of this host as the others see it."""
        return self.position.address if self.position.index == 0 else local_address(self.position.address)

    def interface(self) -> str:
        """Return the network interface towards the other hosts, after ``exchange_facts``; empty if unknown."""
        other = 1 if self.position.index == 0 else 0
        towards = self._facts[other].get("address") if other < self.position.count else None
        return interface_of(local_address(str(towards))) if towards else ""

    def free_port(self) -> int:
        """Return a free port of this host."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return int(probe.getsockname()[1])

    def _named(self, index: int) -> str:
        name = self._facts[index].get("host")
        return f"host {index} ({name})" if name else f"host {index}"


def wait_for_leader(position: JobPosition, timeout: float = 60.0, silence: float = SILENCE) -> int:
    """In a process that does not lead: wait for the leader of its host, and return its exit code."""
    connection = _connect(position, timeout)
    heartbeats = Heartbeats()
    begun = time.monotonic()

    def look(store: Store) -> int | None:
        heartbeats.look(store, position.index)
        if not store.check([f"code/{position.index}"]):
            return None
        store.add("left", 1)
        return int(store.get(f"code/{position.index}"))

    while True:
        code: int | None = connection.do(look)
        if code is not None:
            return code
        silent = heartbeats.silence(position.index)
        if silent > silence and time.monotonic() - begun > max(timeout, silence):
            raise HostLostError(f"no sign of the leading process of host {position.index} for {silent:.0f} s")
        time.sleep(_WAITING_TICK)


def _listed(indexes: list[int]) -> str:
    return f"host{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"
