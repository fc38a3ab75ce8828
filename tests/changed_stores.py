"""Stores with known changes: steps, statuses and noise, night by night."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from comparison_files import case_of, times
from stored_runs import opened, recorded, run_of
from torchstone.core.records import Outcome, Run

STORE = ".torchstone/history.db"
NIGHTS = 40


def nights(
    levels: Mapping[str, list[float]], statuses: Mapping[str, str] | None = None, *, first: int = 1
) -> Iterator[Run]:
    """Yield a run for each night. A level of 1 is that of the case; of a status, ``.`` passed and ``t`` timed out."""
    count = max(map(len, [*levels.values(), *(statuses or {}).values()]))
    for n in range(count):
        outcomes = [
            Outcome(case_of(name), "pass", (times(of[n], seed=100 * number + n + first, spread=0.004),))
            for number, (name, of) in enumerate(levels.items())
        ]
        outcomes += [
            Outcome(case_of(name), "pass" if of[n] == "." else "timeout", ())
            for name, of in (statuses or {}).items()
        ]
        yield run_of(n + first, outcomes)


def step(at: int, factor: float = 1.2, back: int = 0, count: int = NIGHTS) -> list[float]:
    """The levels of a case that gets worse at a night, and better again at another one."""
    return [factor if n >= at and not (back and n >= back) else 1.0 for n in range(count)]


def make_store(*runs: Run, store: str = STORE) -> None:
    """Record runs, without looking for changes."""
    with opened(store) as database:
        recorded(database, *runs)


def usual_store(store: str = STORE) -> None:
    """A store of 40 nights: two cases 20 % slower since night 25, one that times out since night 32, one unchanged."""
    worse = step(25)
    make_store(
        *nights({"net": worse, "mlp": worse, "same": step(99)}, {"bad": "." * 32 + "t" * 8}), store=store
    )
