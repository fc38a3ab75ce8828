"""A procedure: the jobs of one case, one worker after another, and the outcome made from them."""

from __future__ import annotations

from typing import Protocol

from torchstone.core.records import Outcome
from torchstone.measure.case_end import WorkerEnd
from torchstone.worker.protocol.jobs import MeasureJob
from torchstone.worker.protocol.replies import CaseDetails


class Procedure(Protocol):
    """The protocol between the supervisor and a case, from its first worker to its outcome."""

    def next_job(self) -> MeasureJob | None:
        """Return the job of the next worker; None when all are done."""

    def step(self) -> str:
        """Return the name of the current worker's step, for a display; empty if there is only one."""

    def take(self, end: WorkerEnd) -> None:
        """Receive how the current worker ended."""

    def outcome(self) -> Outcome:
        """Return the outcome of the case."""


class SingleProcedure:
    """One job in one worker, as most probes need."""

    def __init__(self, job: MeasureJob) -> None:
        self._job: MeasureJob | None = job
        self._end: WorkerEnd | None = None

    def next_job(self) -> MeasureJob | None:
        """Return the job once, then None."""
        job, self._job = self._job, None
        return job

    def step(self) -> str:
        """Return an empty name: there is only one step."""
        return ""

    def take(self, end: WorkerEnd) -> None:
        """Receive the end of the worker; its outcome is the case's."""
        self._end = end

    def outcome(self) -> Outcome:
        """Return the outcome of the worker."""
        if self._end is None:
            raise RuntimeError("the worker has not ended yet")
        return self._end.outcome

    def report(self) -> CaseDetails:
        """Return what the worker reported beside its measurements; an empty record if it did not start or gave no result."""
        return self._end.report if self._end else CaseDetails()
