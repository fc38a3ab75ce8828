"""A procedure: the jobs of one case, one worker after another, and the outcome made from them."""

from __future__ import annotations

from typing import Protocol

from torchstone.core.records import Outcome
from torchstone.worker.protocol.jobs import MeasureJob


class Procedure(Protocol):
    """The protocol between the supervisor and a case, from its first worker to its outcome."""

    def next_job(self) -> MeasureJob | None:
        """Return the job of the next worker; None when all are done."""

    def step(self) -> str:
        """Return the name of the current worker's step, for a display; empty if there is only one."""

    def take(self, outcome: Outcome) -> None:
        """Receive the outcome of the current worker."""

    def outcome(self) -> Outcome:
        """Return the outcome of the case."""


class SingleProcedure:
    """One job in one worker, as most probes need."""

    def __init__(self, job: MeasureJob) -> None:
        self._job: MeasureJob | None = job
        self._outcome: Outcome | None = None

    def next_job(self) -> MeasureJob | None:
        """Return the job once, then None."""
        job, self._job = self._job, None
        return job

    def step(self) -> str:
        """Return an empty name: there is only one step."""
        return ""

    def take(self, outcome: Outcome) -> None:
        """Receive the outcome, which is the case's."""
        self._outcome = outcome

    def outcome(self) -> Outcome:
        """Return the outcome of the worker."""
        if self._outcome is None:
            raise RuntimeError("the worker has not ended yet")
        return self._outcome
