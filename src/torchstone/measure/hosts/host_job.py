"""A run as part of a job on several hosts: host 0 runs it, the others do their part of every round it orders."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

import torchstone
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.records import Case, Variant
from torchstone.core.vocabulary import Probe
from torchstone.measure.case_end import WorkerEnd
from torchstone.measure.executors.protocol import CannotMeasureError
from torchstone.measure.hosts.host_group import HostConnection, JobPosition, find_position
from torchstone.measure.procedures.procedure import SingleProcedure
from torchstone.measure.procedures.rounds import COLLECTIVE_TIMEOUT, RankCapacity
from torchstone.measure.procedures.scaling_procedure import HostGroup, answer_for, make_part
from torchstone.measure.session import Session
from torchstone.measure.supervisor import Supervisor, Watcher, WorkerLimits
from torchstone.worker import worker_environment
from torchstone.worker.channel import Message
from torchstone.worker.protocol.codec import MalformedError
from torchstone.worker.protocol.jobs import MeasureJob, RoundPart, decode_job

_TO_MEET = 30.0  # seconds: torch is loaded first
_SOCKETS = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def own_position() -> JobPosition | None:
    """Return the position of this process in a job of torchrun or srun; None outside a job."""
    return find_position(os.environ)


def own_name() -> str:
    """Return the name of this host: Slurm's, if it has one."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


class MultiHostJob:
    """The hosts of a job, as seen by a leader. ``code`` is the exit code of this process."""

    def __init__(self, connection: HostConnection, hosts: Sequence[Mapping[str, Any]]) -> None:
        self.connection = connection
        self.position = connection.position
        self.code = 1
        self.names = name_hosts(hosts)
        self._hosts = hosts
        self._host_group: HostGroup | None = None

    def host_group(self) -> HostGroup:
        """Return all hosts, for the run on host 0."""
        capacity = RankCapacity(self.position.count, self.position.ranks, "rank")
        differences = find_differences(self._hosts, self.names)
        self._host_group = HostGroup(capacity, self.names, self.connection, differences, self.variables())
        return self._host_group

    def has_lost_hosts(self) -> bool:
        """Return whether a host has been lost."""
        return bool(self._host_group and self._host_group.lost)

    def variables(self) -> dict[str, str]:
        """Return variables that select the network towards the other hosts, unless the user has set them."""
        interface = self.connection.interface()
        return {name: interface for name in _SOCKETS if interface and name not in os.environ}


@contextlib.contextmanager
def join(
    position: JobPosition, timeout: float | None, sources: Mapping[str, BenchmarkSource]
) -> Iterator[MultiHostJob]:
    """Connect to the other hosts of the job, and always tell them when it ends."""
    connection = HostConnection(position, max(_TO_MEET, timeout or COLLECTIVE_TIMEOUT))
    job: MultiHostJob | None = None
    try:
        job = MultiHostJob(
            connection, connection.exchange_facts({"host": own_name(), "software": read_software(sources)})
        )
        yield job
    finally:
        if position.index == 0:
            connection.end()
        connection.leave(job.code if job else 3)


def read_software(sources: Mapping[str, BenchmarkSource]) -> dict[str, str]:
    """Return the versions that must be equal on all hosts for their times to be combined."""
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = "none"
    own = {
        "python": platform.python_version(),
        "torch": torch,
        "torchstone": torchstone.__version__,
        "machine": platform.machine(),
    }
    return own | {source.path: source.hash for source in sources.values() if source.hash}


def name_hosts(hosts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return host names; equal names get the address added, and if that is equal too, the host's number."""
    names = [str(each.get("host", "")) for each in hosts]
    for key, values in (
        ("", [each.get("address", "") for each in hosts]),
        ("host ", list(range(len(hosts)))),
    ):
        names = [
            f"{name} ({key}{value})" if names.count(name) > 1 else name
            for name, value in zip(names, values, strict=True)
        ]
    return names


def find_differences(hosts: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[int, str]:
    """Return how the software of each host differs from the first, by host."""
    first = hosts[0].get("software", {})
    found = {}
    for index, host in enumerate(hosts):
        own = host.get("software", {})
        differences = [
            f"{name} is {own.get(name, 'none')}, and {first.get(name, 'none')} on {names[0]}"
            for name in {**first, **own}
            if own.get(name) != first.get(name)
        ]
        if differences:
            found[index] = f"other software than on the first host: {'; '.join(differences)}"
    return found


def follow(job: MultiHostJob, session: Session, limits: WorkerLimits, watcher: Watcher) -> None:
    """Do this host's part of every round, until the first host ends the job."""
    number = 0
    while (order := job.connection.next_order(number)) is not None:
        number = int(str(order.pop("number")))
        ordered, part = _decode_round(order)
        if job.position.index < part.hosts:
            own, end = _do_part(number, ordered, part, job, session, limits, watcher)
            job.connection.answer(number, answer_for(own, end))


def _decode_round(order: Message) -> tuple[MeasureJob, RoundPart]:
    """Decode an order to the job of host 0's worker and its round."""
    try:
        ordered = decode_job(order)
    except MalformedError as error:
        problem = f"host 0 sent an order that this host does not understand: {error}"
        raise CannotMeasureError(problem, advice="all hosts need the same torchstone") from None
    if not isinstance(ordered, MeasureJob) or ordered.round is None:
        raise CannotMeasureError("host 0 sent an order that is not a round")
    return ordered, ordered.round


def _do_part(
    number: int,
    ordered: MeasureJob,
    part: RoundPart,
    job: MultiHostJob,
    session: Session,
    limits: WorkerLimits,
    watcher: Watcher,
) -> tuple[RoundPart, WorkerEnd]:
    """Do this host's part of a round; return the part and how its worker ended."""
    index = job.position.index
    environment = worker_environment.make_case_folder(session.scratch, number, session.template, None)
    folder = worker_environment.CaseFolders(session.scratch, number, session.template).make("round")
    variables = ordered.environment or {}
    threads = {key: variables[key] for key in ("OMP_NUM_THREADS",) if key in variables}
    own = make_part(
        replace(ordered, environment=environment | threads | job.variables()),
        replace(part, address=job.connection.own_address()),
        index,
        job.names[index],
        folder,
    )
    case = Case(own.benchmark, Probe.SCALING.value, variant=Variant(own.axes.device))
    procedure = SingleProcedure(own)
    supervisor = Supervisor(session.launcher, limits, lambda *_: procedure, lambda _: None, watcher)
    (outcome,) = supervisor.execute([case])
    return own.round or part, WorkerEnd(outcome, procedure.report())
