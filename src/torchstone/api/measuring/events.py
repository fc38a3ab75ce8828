"""Progress of a run: events for a callback, and the interface of whoever watches one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from msgspec import Struct

from torchstone.core.records import Case, Outcome, Run
from torchstone.core.text.units import count_of


class Notice(Struct, frozen=True):
    """Something a person should know: a caution, or a file that was written."""

    text: str

    def __str__(self) -> str:
        return self.text


class Preparing(Struct, frozen=True):
    """Something has begun that takes long and measures nothing yet, such as loading torch."""

    what: str

    def __str__(self) -> str:
        return self.what


class Planned(Struct, frozen=True):
    """The cases of a run are known; those of a resumed run that were measured before have their outcomes."""

    run: Run

    def __str__(self) -> str:
        left = len(self.run.plan) - len(self.run.outcomes)
        return f"{count_of(left, 'case')} to measure"


class CaseStarted(Struct, frozen=True):
    """A worker for this case has been started."""

    case: Case

    def __str__(self) -> str:
        return f"started {self.case.id}"


class PhaseEntered(Struct, frozen=True):
    """A case is in another phase: load, eager, compile, run, compare."""

    case: Case
    phase: str

    def __str__(self) -> str:
        return f"{self.phase}: {self.case.id}"


class CaseMeasured(Struct, frozen=True):
    """A case has its outcome, which is on disk."""

    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.outcome.status}: {self.outcome.case.id}"


Event = Notice | Preparing | Planned | CaseStarted | PhaseEntered | CaseMeasured
OnEvent = Callable[[Event], None]


class RunWatcher(Protocol):
    """Is told how a run goes on. The command line's display is one."""

    def say(self, text: str) -> None:
        """Something a person should know."""

    def busy(self, what: str) -> AbstractContextManager[None]:
        """While something takes long and measures nothing yet."""

    def showing(self, run: Run) -> AbstractContextManager[None]:
        """While the cases of a run are measured."""

    def started(self, case: Case) -> None:
        """A worker for this case has been started."""

    def entered(self, case: Case, phase: str) -> None:
        """The case is in this phase now."""

    def tick(self) -> None:
        """Some time has passed."""

    def finished(self, outcome: Outcome) -> None:
        """A case has its outcome."""


class EventWatcher:
    """Passes everything on to a callback."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._tell: OnEvent = on_event or _ignore

    def say(self, text: str) -> None:
        """Something a person should know."""
        self._tell(Notice(text))

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """While something takes long and measures nothing yet."""
        self._tell(Preparing(what))
        yield

    @contextmanager
    def showing(self, run: Run) -> Iterator[None]:
        """While the cases of a run are measured."""
        self._tell(Planned(run))
        yield

    def started(self, case: Case) -> None:
        """A worker for this case has been started."""
        self._tell(CaseStarted(case))

    def entered(self, case: Case, phase: str) -> None:
        """The case is in this phase now."""
        self._tell(PhaseEntered(case, phase))

    def tick(self) -> None:
        """Time alone is no event."""

    def finished(self, outcome: Outcome) -> None:
        """A case has its outcome."""
        self._tell(CaseMeasured(outcome))


def _ignore(_event: Event) -> None:
    """Nobody listens."""
