"""The time budget of a comparison: it starts with the command, so that preparation counts, and ends with the answer."""

from __future__ import annotations

import math
import time

from msgspec import Struct

from torchstone.core.text.units import count_of, duration_text
from torchstone.measure.executors.protocol import OutOfTimeError

_STEPS = ((120.0, 10.0, "s"), (math.inf, 60.0, "m"))
_SPARE = 1.2  # pairs do not all take equally long


class Budget:
    """Seconds of wall time from the start of a command. Without a limit given, preparation does not count."""

    def __init__(self, seconds: float | None = None) -> None:
        self.began = time.monotonic()
        self.is_given = seconds is not None
        self.seconds = math.inf if seconds is None else seconds
        self.preparation = 0.0

    @property
    def deadline(self) -> float:
        """Return the time on the monotonic clock at which it ends."""
        return self.began + self.seconds

    @property
    def end_of_pairs(self) -> float:
        """Return when a pair is cut off: at the deadline, or never if no limit was given."""
        return self.deadline if self.is_given else math.inf

    @property
    def spent(self) -> float:
        """Return the seconds spent so far."""
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        """Return the seconds left, at least 0."""
        return max(0.0, self.seconds - self.spent)

    def begin_measuring(self, usual: float) -> None:
        """Note that preparation has ended; without a limit given, measuring may take this many seconds."""
        self.preparation = self.spent
        if not self.is_given:
            self.seconds = self.preparation + usual

    def extend(self, seconds: float) -> None:
        """Allow at least this many seconds in all, unless a limit was given: pairs are slow here."""
        if not self.is_given:
            self.seconds = max(self.seconds, seconds)

    def out_of_time(self, when: str) -> OutOfTimeError:
        """Return the error for a preparation that did not end in time; ``when`` names its step."""
        return OutOfTimeError(
            f"inconclusive: the --budget of {duration_text(self.seconds)} was spent {when}, and nothing was measured",
            advice="the budget includes the preparation, which takes longest the first time: give more, or leave --budget out",
        )


class Pace(Struct, frozen=True):
    """What the first pair shows: how long a pair takes, and how long the verdicts of all cases take at least.

    ``first`` are the seconds of the first pair, ``compiling`` those of its compile, which later pairs load from a cache. ``pair`` are
    the expected seconds of a later pair, ``total`` those from the command to the last verdict.
    """

    first: float
    compiling: float
    pair: float
    fewest_pairs: int
    cases: int
    total: float
    budget: float
    is_budget_given: bool

    @property
    def is_budget_too_short(self) -> bool:
        """Return whether the budget probably ends before the cases can be decided."""
        return self.total > self.budget

    @property
    def text(self) -> str:
        """Describe it in one line."""
        pair = f"a pair takes {duration_text(self.pair)} here"
        if self.first > 1.5 * self.pair:
            pair += f" (the first, which compiles: {duration_text(self.first)})"
        cases = f" of each of {count_of(self.cases, 'case')}" if self.cases > 1 else ""
        verdict = f"a verdict takes at least {count_of(self.fewest_pairs, 'pair')}{cases}"
        name = "--budget" if self.is_budget_given else "the default --budget"
        total, budget = duration_text(self.total), duration_text(self.budget)
        return f"{pair}, {verdict}: about {total} in all; {name} is {budget}"

    @property
    def advice(self) -> str:
        """Return what to do if the budget is too short; else an empty text."""
        if not self.is_budget_too_short:
            return ""
        what = "anything" if self.cases == 1 else "every case"
        return f"the budget is probably too short to decide {what}: try --budget {budget_option(self.total)}"


def budget_option(seconds: float) -> str:
    """Return a value of ``--budget`` with some time to spare, such as ``90s`` or ``5m``.

    >>> budget_option(62), budget_option(250)
    ('80s', '5m')
    """
    ample = seconds * _SPARE
    unit, name = next((unit, name) for most, unit, name in _STEPS if ample <= most)
    rounded = math.ceil(ample / unit)
    return f"{rounded * 10 if name == 's' else rounded}{name}"
