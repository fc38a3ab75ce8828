"""Measure more trials of the cases that are not decided, round after round, until each is decided or the time is spent.

After every round all results are judged again. Looking often would inflate the rate of false alarms, so a run has at most ``LOOKS`` looks, and each is
judged at that share of the significance level (Bonferroni): docs/statistics.md. The run file records the number of looks, so that ``check`` judges it alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing

from msgspec import Struct, structs

from torchstone.core.records import Case, Outcome, Run
from torchstone.core.run_settings import Settings
from torchstone.core.vocabulary import PASSED
from torchstone.measure.devices.case_limits import choose_limits
from torchstone.measure.journal import Journal
from torchstone.measure.measuring import provenance_of
from torchstone.measure.procedures.trials import join_trials
from torchstone.measure.runner import repro_command
from torchstone.measure.session import Session
from torchstone.measure.supervisor import Watcher

LOOKS = 5
"""How often the results of a run may be judged, the first and the last look included."""
TRIALS_AT_LOOKS = (1, 5, 10, 20, 40)
"""How many trials an undecided case has at each look."""
SHORT_BUDGET = 1.0
"""Seconds of timing in a further trial, unless a budget is asked for: many short processes tell more than few long ones."""

FindOpen = Callable[[Sequence[Outcome]], Collection[Case]]
"""Judges all outcomes, and returns the cases that need more trials."""


class TrialRound(Struct, frozen=True):
    """One round of further trials: the look that follows it, the cases, the trials of each, and the seconds that it takes and that are left."""

    look: int
    cases: tuple[Case, ...]
    trials: int
    seconds: float
    left: float


class Deciding:
    """Measures undecided cases again until ``deadline``, a time of ``time.monotonic``."""

    def __init__(
        self, run: Run, settings: Settings, journal: Journal, session: Session, watcher: Watcher
    ) -> None:
        self._run = run
        self._settings = structs.replace(
            settings, trials=None, budget=settings.budget or SHORT_BUDGET, profile=False
        )
        self._journal = journal
        self._session = session
        self._watcher = watcher
        self.outcomes = {outcome.case: outcome for outcome in run.outcomes}
        self._seconds: dict[Case, float] = {}

    def rounds(self, find_open: FindOpen, deadline: float) -> Generator[TrialRound, None, None]:
        """Yield each round before it is measured. End when nothing is open, or when the next trial would not end in time."""
        for look in range(2, LOOKS + 1):
            found = find_open(tuple(self.outcomes.values()))
            cases = tuple(case for case in self._run.plan if case in found and self._can_repeat(case))
            wanted = TRIALS_AT_LOOKS[look - 1]
            more = max((wanted - self._trials_of(case) for case in cases), default=0)
            left = deadline - time.monotonic()
            if not cases or left <= min(map(self._expected_seconds, cases)):
                return
            seconds = sum(
                max(0, wanted - self._trials_of(case)) * self._expected_seconds(case) for case in cases
            )
            yield TrialRound(look, cases, max(1, more), seconds, left)
            self._measure(cases, wanted, deadline)

    def _measure(self, cases: Sequence[Case], wanted: int, deadline: float) -> None:
        """Measure one trial of each case after another, so that all of them see the same weather."""
        while True:
            due = [
                case
                for case in cases
                if self._can_repeat(case)
                and self._trials_of(case) < wanted
                and time.monotonic() + self._expected_seconds(case) < deadline
            ]
            if not due:
                return
            for case in due:
                if time.monotonic() + self._expected_seconds(case) < deadline:
                    self._measure_once(case)

    def _measure_once(self, case: Case) -> None:
        """Measure one more trial of a case, and write all its trials to the run file."""
        started = time.monotonic()
        supervisor = self._session.supervisor(
            self._settings, choose_limits(self._settings, self._run), self._watcher
        )
        with closing(supervisor.execute([case])) as measured:
            for outcome in measured:
                joined = join_trials([self.outcomes[case], outcome])
                self._journal.secure()
                named = structs.replace(
                    joined,
                    repro=repro_command(self._journal.path, case),
                    provenance=provenance_of(self._run, case),
                )
                self.outcomes[case] = named
                self._journal.replace(named)
        self._seconds[case] = time.monotonic() - started

    def _can_repeat(self, case: Case) -> bool:
        """Return whether more trials can help: a case that failed has failed, however often it is measured."""
        outcome = self.outcomes.get(case)
        return outcome is not None and outcome.status == PASSED and bool(outcome.measurements)

    def _trials_of(self, case: Case) -> int:
        """Return how many undisturbed trials a case has."""
        found = self.outcomes[case].measurements
        return max(
            (len(each.trials) - len((each.details and each.details.disturbed) or ()) for each in found),
            default=0,
        )

    def _expected_seconds(self, case: Case) -> float:
        """Return about how long one more trial of a case takes."""
        if case in self._seconds:
            return self._seconds[case]
        details = self.outcomes[case].details
        return (details.duration if details and details.duration else 1.0) / max(1, self._trials_of(case))
