"""Report to the parent: phases as they begin, waiting for the turn to time, and the result."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

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

    def wait_for_device(self) -> None:
        """Wait until no other worker is timing on the device."""

    def release_device(self) -> None:
        """Let another worker time on the device."""


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
    """Report each phase to the parent, and record how long it took.

    With ``shares_device``, this worker has to ask before it uses its device. ``waited`` is how many seconds it has
    waited for that: they count towards no phase.
    """

    def __init__(self, reporter: Reporter, result: Result, *, shares_device: bool = False) -> None:
        self.shares_device = shares_device
        self.waited = 0.0
        self._use: Literal["none", "shared", "alone"] = "none"
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
        used = self.pause_device()
        with self._waiting():
            self._reporter.wait_for_turn()
        self._use = "alone"
        try:
            yield
        finally:
            self._use = "none"
            self._reporter.end_turn()
            if used:
                self.resume_device()

    @contextlib.contextmanager
    def using_device(self) -> Iterator[None]:
        """Use the device, but not while another worker is timed on it; may be nested."""
        acquired = self.resume_device()
        try:
            yield
        finally:
            if acquired:
                self.pause_device()

    def resume_device(self) -> bool:
        """Ask for the device, and wait for it; return False if that is not necessary."""
        if not self.shares_device or self._use != "none":
            return False
        with self._waiting():
            self._reporter.wait_for_device()
        self._use = "shared"
        return True

    def pause_device(self) -> bool:
        """Leave the device to others; return False if it was not in use."""
        if self._use != "shared":
            return False
        self._use = "none"
        self._reporter.release_device()
        return True

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Stop the clock of the phase."""
        phase, since = self._phase, monotonic()
        self.leave()
        yield
        self.waited += monotonic() - since
        if phase:
            self.enter(phase)


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
