"""The course of one round of the scaling probe: its part on this host, the parts of other hosts, and the one outcome of all."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import convert, to_builtins

from torchstone.core.records import Case, Failure, Outcome
from torchstone.core.text.units import count_of
from torchstone.measure.measuring import Settings
from torchstone.measure.procedures.rank_reports import Host, conclude, ranks_in, read_host
from torchstone.measure.procedures.rounds import COLLECTIVE_TIMEOUT, WARM_UP, Room, hosts_for
from torchstone.worker.channel import Message

GRACE = 10.0
"""Seconds that another host may take longer with its part of a round than this one did."""


class Crew:
    """The hosts of a job, of which this is the first: who they are, which have been lost, and what keeps them from working together.

    ``variables`` are what ranks are told of the network between hosts.
    """

    def __init__(
        self,
        room: Room,
        names: Sequence[str],
        line: Line | None = None,
        differences: Mapping[int, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.room = room
        self.names = list(names)
        self.line = line
        self.lost: set[int] = set()
        self.differences = dict(differences or {})
        self.variables = dict(variables or {})
        self.orders = 0


class Line(Protocol):
    """The way to the other hosts."""

    def own_address(self) -> str:
        """The address of this host, as the others see it."""

    def order(self, number: int, job: Message) -> None:
        """Tell them what their part of a round is."""

    def collect(self, number: int, hosts: int, patience: float) -> dict[int, Message | None]:
        """What they say of it; nothing of one that does not answer in time."""

    def free_port(self) -> int:
        """A port of the first host that nobody uses."""


class ScalingCourse:
    """One round: torchrun on every host that it needs."""

    def __init__(
        self, case: Case, job: Message, plan: Mapping[str, Any], make_folder: Callable[[], str], crew: Crew
    ) -> None:
        self._case = case
        self._job: Message | None = job
        self._plan = dict(plan)
        self._crew = crew
        self._hosts, self._local = hosts_for(ranks_in(case), crew.room)
        self._files = make_folder
        self._folder = ""
        self._number = 0
        self._outcome: Outcome | None = None

    def next_job(self) -> Message | None:
        """Torchrun on this host, once; the other hosts of the round are told to start theirs."""
        job, self._job = self._job, None
        if job is None or self._cannot_begin():
            return None
        self._folder = self._files()
        told = {
            "id": secrets.token_hex(6),
            "plan": self._plan,
            "hosts": self._hosts,
            "local_ranks": self._local,
        }
        line = self._crew.line
        if self._hosts > 1 and line is not None:
            self._crew.orders = self._number = self._crew.orders + 1
            address = line.own_address()
            told |= {"endpoint": f"{address}:{line.free_port()}", "address": address}
            line.order(self._number, {**job, "round": told})
        return make_part(job, told, 0, self._crew.names[0], self._folder)

    def _cannot_begin(self) -> bool:
        """Whether a host that the round needs is gone, or is not like this one; the outcome then says so."""
        there = len(self._crew.names)
        if self._hosts > there:
            message = f"the round needs {count_of(self._hosts, 'host')}, and there {'is' if there == 1 else 'are'} {there}"
            self._outcome = _ended(self._case, "infra_error", message)
            return True
        for index in range(1, self._hosts):
            name = self._crew.names[index]
            if index in self._crew.lost:
                self._outcome = _ended(self._case, "worker_died", f"host {name}: lost in an earlier round")
            elif problem := self._crew.differences.get(index):
                self._outcome = _ended(
                    self._case, "infra_error", f"rank {index * self._local} on {name}: {problem}"
                )
        return self._outcome is not None

    def step(self) -> str:
        """There is only one."""
        return ""

    def take(self, outcome: Outcome) -> None:
        """The part of this host has ended: the reports of its ranks, and those of the other hosts."""
        names = self._crew.names
        hosts = [read_host(names[0], self._folder, range(self._local), outcome)]
        if self._hosts > 1 and self._crew.line is not None:
            answers = self._crew.line.collect(self._number, self._hosts, float(self._plan["timeout"]) + GRACE)
            for index in range(1, self._hosts):
                answer = answers.get(index)
                if answer is None:
                    self._crew.lost.add(index)
                    ranks = tuple(range(index * self._local, (index + 1) * self._local))
                    hosts.append(Host(names[index], ranks, lost=True))
                else:
                    hosts.append(convert(answer, Host, str_keys=True))
        told = {key: self._plan[key] for key in ("warm_up", "collective", "bucket_mb") if self._plan.get(key)}
        self._outcome = conclude(self._case, hosts, outcome, told)

    def outcome(self) -> Outcome:
        """What all hosts together measured."""
        if self._outcome is None:
            raise RuntimeError("the round has not ended yet")
        return self._outcome


def plan_of(case: Case, settings: Settings) -> dict[str, Any]:
    """How a round is trained: what its case says, and what the run says of all."""
    axes = dict(case.variant.further)
    return {
        "strategy": axes["strategy"],
        "ranks": ranks_in(case),
        "collective": axes.get("collective", ""),
        "bucket_mb": float(axes["bucket_mb"]) if "bucket_mb" in axes else None,
        "timeout": settings.collective_timeout or COLLECTIVE_TIMEOUT,
        "warm_up": WARM_UP if settings.warm_up is None else settings.warm_up,
        "iterations": settings.repeat,
    }


def make_part(job: Message, told: Mapping[str, Any], index: int, host: str, folder: str) -> Message:
    """One host's part of a round, as its worker is told."""
    first = index * int(told["local_ranks"])
    return {**job, "round": {**told, "index": index, "host": host, "first": first, "files": folder}}


def answer_for(part: Message, outcome: Outcome) -> Message:
    """What another host than the first says of its part."""
    own = part["round"]
    ranks = range(own["first"], own["first"] + own["local_ranks"])
    answer: Message = to_builtins(read_host(own["host"], own["files"], ranks, outcome), str_keys=True)
    return answer


def _ended(case: Case, status: str, message: str) -> Outcome:
    return Outcome(case, status, failure=Failure("load", message), extra={"duration": 0.0})
