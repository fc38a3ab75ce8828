"""Report to the parent: phases as they begin, waiting for the turn to time, and the result."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from torchstone.core.caution_kinds import CautionKind
from torchstone.worker.machine.clock import monotonic
from torchstone.worker.protocol.caution_message import CautionMessage, caution_message
from torchstone.worker.protocol.jobs import Order
from torchstone.worker.protocol.replies import CaseDetails, Measured, MeasuredDetails, TurnReady, TurnTaken

Exchange = Callable[[TurnReady | TurnTaken], Order]
"""Sends a reply to the parent, and returns the order that it answers with."""


class Reporter(Protocol):
    """The connection to the parent."""

    def enter(self, phase: str) -> None:
        """Report that a phase begins."""

    def wait_for_turn(self) -> None:
        """Wait until only this worker may time."""

    def end_turn(self) -> None:
        """Let another worker time."""


class Stopped(Exception):  # noqa: N818  (not an error of ours: how a case ended)
    """Raised when a case ends early with a status; ``error`` is the exception behind it, if any."""

    def __init__(self, status: str, message: str = "", error: BaseException | None = None) -> None:
        super().__init__(message or status)
        self.status = status
        self.message = message
        self.error = error


@dataclass
class Result:
    """The result so far: complete when the probe returns, and still useful if it does not.

    ``details`` is a frozen record: a probe replaces it by one with more fields.
    """

    status: str = "pass"
    measurements: list[Measured] = field(default_factory=list)
    details: CaseDetails = field(default_factory=CaseDetails)
    message: str = ""
    cautions: list[CautionMessage] = field(default_factory=list)

    def add(self, metric: str, samples: Sequence[float] | float, **details: Any) -> None:  # noqa: ANN401  (fields of MeasuredDetails)
        """Add a measurement, with the fields of ``MeasuredDetails``; samples that are not finite are dropped."""
        taken = [samples] if isinstance(samples, int | float) else [_plain_number(each) for each in samples]
        if not taken or not all(map(math.isfinite, taken)):
            self.caution(CautionKind.NOT_MEASURED, metric=metric)
            return
        self.measurements.append(
            Measured(metric, tuple(taken), MeasuredDetails(**details) if details else None)
        )

    def leave_out(self, metric: str, why: str) -> None:
        """Record that a metric is deliberately absent, and why."""
        left_out = {**(self.details.left_out or {}), metric: why}
        self.details = replace(self.details, left_out=left_out)
        self.caution(CautionKind.LEFT_OUT, metric=metric, why=why)

    def caution(self, kind: CautionKind, **values: str | float) -> None:
        """Add a warning for the reader of the numbers."""
        self.cautions.append(caution_message(kind, **values))


def _plain_number(value: Any) -> float:  # noqa: ANN401  (a user's number may be numpy's or torch's)
    return value if type(value) in {int, float} else float(value)


class PhaseClock:
    """Report each phase to the parent, and record how long it took."""

    def __init__(self, reporter: Reporter, result: Result) -> None:
        self._reporter = reporter
        self._result = result
        self._seconds: dict[str, float] = {}
        self._phase = ""
        self._since = monotonic()

    def enter(self, phase: str) -> None:
        """End the current phase, and begin this one."""
        self.leave()
        self._phase = phase
        self._reporter.enter(phase)

    def leave(self) -> None:
        """End the current phase."""
        now = monotonic()
        if self._phase:
            self._seconds[self._phase] = round(self._seconds.get(self._phase, 0.0) + now - self._since, 4)
        self._phase, self._since = "", now
        self._result.details = replace(self._result.details, phases={**self._seconds})

    @property
    def phase(self) -> str:
        """Return the current phase."""
        return self._phase

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the turn, alone among all workers; waiting counts towards no phase."""
        phase = self._phase
        self.leave()
        self._reporter.wait_for_turn()
        self.enter(phase)
        try:
            yield
        finally:
            self._reporter.end_turn()


@contextlib.contextmanager
def ending_as(
    status: str, out_of_memory: str, is_out_of_memory: Callable[[BaseException], bool]
) -> Iterator[None]:
    """Turn any exception into the status it means here."""
    try:
        yield
    except Stopped:
        raise
    except (Exception, SystemExit) as error:
        oom = is_out_of_memory(error)
        raise Stopped(out_of_memory if oom else status, error=error) from error


def tell(error: BaseException) -> str:
    """Return an exception's type and message, if it can be formatted."""
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001  (an exception may fail even at this)
        text = "(its message cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
