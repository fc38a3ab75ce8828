"""Progress of a run: events for a callback, and the interfaces of watchers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from msgspec import Struct

from torchstone.api.argument_types import describe_value
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Outcome, Run
from torchstone.core.text.units import count_of, duration_text
from torchstone.measure.ab.budget import Budget
from torchstone.measure.ab.contest import AbSettings, Contest
from torchstone.measure.ab.self_comparison import SelfComparison
from torchstone.measure.supervisor import Watcher


class Notice(Struct, frozen=True):
    """A message for the user, such as a caution or the name of a file that was written."""

    text: str

    def __str__(self) -> str:
        return self.text


class Preparing(Struct, frozen=True):
    """A slow preparation has started, such as loading torch."""

    what: str

    def __str__(self) -> str:
        return self.what


class Prepared(Struct, frozen=True):
    """A slow preparation has ended, after this many seconds."""

    what: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.what}: {duration_text(self.seconds)}"


class Planned(Struct, frozen=True):
    """The cases of a run are known. A resumed run includes the outcomes so far."""

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
    """A case has entered a phase: load, eager, compile, run or compare."""

    case: Case
    phase: str

    def __str__(self) -> str:
        return f"{self.phase}: {self.case.id}"


class CaseMeasured(Struct, frozen=True):
    """A case has been measured, and its outcome is on disk."""

    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.outcome.status}: {self.outcome.case.id}"


class PairMeasured(Struct, frozen=True):
    """A pair of ``ab`` has been measured. ``ratio`` is B's cost divided by A's; ``verdict`` is empty until the case is decided."""

    case: Case
    pairs: int
    verdict: str
    ratio: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return f"{self.verdict or 'open'} after {count_of(self.pairs, 'pair')}: {self.case.id}"


class SelfCompared(Struct, frozen=True):
    """A comparison of ``selftest`` has ended."""

    comparison: SelfComparison

    def __str__(self) -> str:
        return str(self.comparison)


Event = (
    Notice
    | Preparing
    | Prepared
    | Planned
    | CaseStarted
    | PhaseEntered
    | CaseMeasured
    | PairMeasured
    | SelfCompared
)
OnEvent = Callable[[Event], None]


class RunWatcher(Protocol):
    """Receives the progress of a run, such as the display of the command line."""

    def say(self, text: str) -> None:
        """Show a message to the user."""

    def busy(self, what: str) -> AbstractContextManager[None]:
        """Enclose a slow preparation."""

    def showing(self, run: Run) -> AbstractContextManager[None]:
        """Enclose the measurement of a run."""

    def started(self, case: Case) -> None:
        """A worker for this case has been started."""

    def entered(self, case: Case, phase: str) -> None:
        """The case has entered this phase."""

    def tick(self) -> None:
        """Some time has passed."""

    def finished(self, outcome: Outcome) -> None:
        """A case has been measured."""


class AbWatcher(Watcher, Protocol):
    """Receives the progress of a comparison of two sides."""

    def say(self, text: str) -> None:
        """Show a message to the user."""

    def busy(self, what: str) -> AbstractContextManager[None]:
        """Enclose a slow preparation."""

    def comparing(
        self, contests: Sequence[Contest], settings: AbSettings, budget: Budget
    ) -> AbstractContextManager[None]:
        """Enclose the measurement of pairs."""

    def measured(self, contest: Contest) -> None:
        """A pair of a case has been measured, or the case was given up."""


class SelftestWatcher(Watcher, Protocol):
    """Receives the progress of a self-test."""

    def say(self, text: str) -> None:
        """Show a message to the user."""

    def busy(self, what: str) -> AbstractContextManager[None]:
        """Enclose a slow preparation."""

    def trying(self, run: Run, total: int) -> AbstractContextManager[None]:
        """Enclose this many comparisons."""

    def tried(self, each: SelfComparison) -> None:
        """A comparison has ended."""


class EventWatcher:
    """Passes all progress to a callback, as events."""

    def __init__(self, on_event: OnEvent | None) -> None:
        if on_event is not None and not callable(on_event):
            raise UsageError(f"on_event={describe_value(on_event)}: expected a function")
        self._tell: OnEvent = on_event or _ignore

    def say(self, text: str) -> None:
        """Show a message to the user."""
        self._tell(Notice(text))

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Enclose a slow preparation."""
        began = time.monotonic()
        self._tell(Preparing(what))
        yield
        self._tell(Prepared(what, time.monotonic() - began))

    @contextmanager
    def showing(self, run: Run) -> Iterator[None]:
        """Enclose the measurement of a run."""
        self._tell(Planned(run))
        yield

    def started(self, case: Case) -> None:
        """A worker for this case has been started."""
        self._tell(CaseStarted(case))

    def entered(self, case: Case, phase: str) -> None:
        """The case has entered this phase."""
        self._tell(PhaseEntered(case, phase))

    def tick(self) -> None:
        """Ignore: passing time is not an event."""

    @contextmanager
    def comparing(
        self, contests: Sequence[Contest], _settings: AbSettings, _budget: Budget
    ) -> Iterator[None]:
        """Enclose the measurement of pairs."""
        self._tell(Planned(Run("", tuple(contest.case for contest in contests), ())))
        yield

    def measured(self, contest: Contest) -> None:
        """A pair of a case has been measured, or the case was given up."""
        effect = contest.effect or (None, None, None)
        self._tell(PairMeasured(contest.case, contest.pairs, contest.verdict or "", *effect))

    @contextmanager
    def trying(self, run: Run, _total: int) -> Iterator[None]:
        """Enclose the comparisons."""
        self._tell(Planned(run))
        yield

    def tried(self, each: SelfComparison) -> None:
        """A comparison has ended."""
        self._tell(SelfCompared(each))

    def finished(self, outcome: Outcome) -> None:
        """A case has been measured."""
        self._tell(CaseMeasured(outcome))


def _ignore(_event: Event) -> None:
    """Ignore an event."""
