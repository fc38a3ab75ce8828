"""A procedure: the jobs that one case takes, one worker after another, and the one outcome that they add up to."""

from __future__ import annotations

from typing import Protocol

from torchstone.core.records import Outcome
from torchstone.worker.protocol.jobs import MeasureJob


class Procedure(Protocol):
    """What the supervisor asks, from the first worker of a case to its outcome."""

    def next_job(self) -> MeasureJob | None:
        """What the next worker is told; None when there is nothing left to do."""

    def step(self) -> str:
        """What the present worker is there for, for whoever looks on; empty where there is only one."""

    def take(self, outcome: Outcome) -> None:
        """Take how the present worker ended, and what it measured."""

    def outcome(self) -> Outcome:
        """The one outcome of the case."""


class SingleProcedure:
    """One job in one worker, which is all that most probes need."""

    def __init__(self, job: MeasureJob) -> None:
        self._job: MeasureJob | None = job
        self._outcome: Outcome | None = None

    def next_job(self) -> MeasureJob | None:
        """The one job, once."""
        job, self._job = self._job, None
        return job

    def step(self) -> str:
        """There is only one."""
        return ""

    def take(self, outcome: Outcome) -> None:
        """Its end is the case's."""
        self._outcome = outcome

    def outcome(self) -> Outcome:
        """What the one worker measured."""
        if self._outcome is None:
            raise RuntimeError("the worker has not ended yet")
        return self._outcome
