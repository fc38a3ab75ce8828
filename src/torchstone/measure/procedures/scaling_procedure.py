"""Measure one round of the scaling probe: this host's part, the parts of other hosts, and the combined outcome."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.details.round_details import RoundSettings
from torchstone.core.records import Case, Failure, Outcome
from torchstone.core.text.units import count_of
from torchstone.measure.case_end import WorkerEnd
from torchstone.measure.measuring import Settings
from torchstone.measure.procedures.rank_reports import (
    Host,
    conclude,
    decode_host,
    encode_host,
    ranks_in,
    read_host,
)
from torchstone.measure.procedures.rounds import COLLECTIVE_TIMEOUT, WARM_UP, RankCapacity, hosts_for
from torchstone.worker.channel import Message
from torchstone.worker.protocol.jobs import MeasureJob, RoundPart, RoundPlan, encode_job

GRACE = 10.0
"""Extra seconds that another host may take for its part of a round."""


class HostGroup:
    """The hosts of a job, this one first: their names, which are lost, and how their software differs.

    ``variables`` select the network between hosts, for the ranks.
    """

    def __init__(
        self,
        capacity: RankCapacity,
        names: Sequence[str],
        link: HostLink | None = None,
        differences: Mapping[int, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.capacity = capacity
        self.names = list(names)
        self.link = link
        self.lost: set[int] = set()
        self.differences = dict(differences or {})
        self.variables = dict(variables or {})
        self.orders = 0


class HostLink(Protocol):
    """The connection to the other hosts."""

    def own_address(self) -> str:
        """Return the address of this host, as the others see it."""

    def order(self, number: int, job: Message) -> None:
        """Send them the job of a round."""

    def collect(self, number: int, hosts: int, patience: float) -> dict[int, Message | None]:
        """Return their answers; None for a host that does not answer in time."""

    def free_port(self) -> int:
        """Return a free port of the first host."""


class ScalingProcedure:
    """One round: torchrun on every host it needs."""

    def __init__(
        self,
        case: Case,
        job: MeasureJob,
        plan: RoundPlan,
        make_folder: Callable[[], str],
        host_group: HostGroup,
    ) -> None:
        self._case = case
        self._job: MeasureJob | None = job
        self._plan = plan
        self._host_group = host_group
        self._hosts, self._local = hosts_for(ranks_in(case), host_group.capacity)
        self._files = make_folder
        self._folder = ""
        self._number = 0
        self._outcome: Outcome | None = None

    def next_job(self) -> MeasureJob | None:
        """Return the job of this host once, and send the other hosts theirs."""
        job, self._job = self._job, None
        if job is None or self._cannot_begin():
            return None
        self._folder = self._files()
        part = RoundPart(secrets.token_hex(6), self._plan, self._hosts, self._local)
        link = self._host_group.link
        if self._hosts > 1 and link is not None:
            self._host_group.orders = self._number = self._host_group.orders + 1
            address = link.own_address()
            part = replace(part, endpoint=f"{address}:{link.free_port()}", address=address)
            link.order(self._number, encode_job(replace(job, round=part)))
        return make_part(job, part, 0, self._host_group.names[0], self._folder)

    def _cannot_begin(self) -> bool:
        """Return whether a host of the round is missing, lost or different; the outcome then says so."""
        there = len(self._host_group.names)
        if self._hosts > there:
            message = f"the round needs {count_of(self._hosts, 'host')}, but there {'is' if there == 1 else 'are'} {there}"
            self._outcome = _ended(self._case, "infra_error", message)
            return True
        for index in range(1, self._hosts):
            name = self._host_group.names[index]
            if index in self._host_group.lost:
                self._outcome = _ended(self._case, "worker_died", f"host {name}: lost in an earlier round")
            elif problem := self._host_group.differences.get(index):
                self._outcome = _ended(
                    self._case, "infra_error", f"rank {index * self._local} on {name}: {problem}"
                )
        return self._outcome is not None

    def step(self) -> str:
        """Return an empty name: there is only one step."""
        return ""

    def take(self, end: WorkerEnd) -> None:
        """Combine the reports of this host's ranks with those of the other hosts."""
        names = self._host_group.names
        hosts = [read_host(names[0], self._folder, range(self._local), end)]
        if self._hosts > 1 and self._host_group.link is not None:
            answers = self._host_group.link.collect(self._number, self._hosts, self._plan.timeout + GRACE)
            for index in range(1, self._hosts):
                ranks = tuple(range(index * self._local, (index + 1) * self._local))
                if answers.get(index) is None:
                    self._host_group.lost.add(index)
                    hosts.append(Host(names[index], ranks, lost=True))
                else:
                    hosts.append(decode_host(answers[index], names[index], ranks))
        plan = self._plan
        settings = RoundSettings(plan.warm_up or None, plan.collective, plan.bucket_mb or None)
        self._outcome = conclude(self._case, hosts, end.outcome, settings)

    def outcome(self) -> Outcome:
        """Return the outcome of all hosts."""
        if self._outcome is None:
            raise RuntimeError("the round has not ended yet")
        return self._outcome


def plan_of(case: Case, settings: Settings) -> RoundPlan:
    """Return how a round is trained, from its case and the settings of the run."""
    axes = dict(case.variant.further)
    return RoundPlan(
        strategy=axes["strategy"],
        ranks=ranks_in(case),
        collective=axes.get("collective", ""),
        bucket_mb=float(axes["bucket_mb"]) if "bucket_mb" in axes else None,
        timeout=settings.collective_timeout or COLLECTIVE_TIMEOUT,
        warm_up=WARM_UP if settings.warm_up is None else settings.warm_up,
        iterations=settings.repeat,
    )


def make_part(job: MeasureJob, part: RoundPart, index: int, host: str, folder: str) -> MeasureJob:
    """Return the job of one host's part of a round."""
    first = index * part.local_ranks
    return replace(job, round=replace(part, index=index, host=host, first=first, files=folder))


def answer_for(part: RoundPart, end: WorkerEnd) -> Message:
    """Return the answer of another host about its part."""
    ranks = range(part.first, part.first + part.local_ranks)
    return encode_host(read_host(part.host, part.files, ranks, end))


def _ended(case: Case, status: str, message: str) -> Outcome:
    return Outcome(case, status, failure=Failure("load", message), details=OutcomeDetails(duration=0.0))
