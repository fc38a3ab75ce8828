"""``explain_change``: what differs between the runs on both sides of a change, and may explain it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from torchstone.api.explaining.clues import Clue, find_clues
from torchstone.core.environments import differences
from torchstone.core.records import Case, Outcome, Reading
from torchstone.history.change_records import ChangeEnd, SeriesChange
from torchstone.store.database.connection import Database
from torchstone.store.reading_runs import find_runs, read_run


class ChangeExplanation(Struct, frozen=True):
    """What differs between the last run of the old level and the first of the new one. ``note`` says why there is nothing.

    ``differences`` are those of the environments: ``torch: 2.12.1 / 2.13.0``.
    """

    change: SeriesChange
    clues: tuple[Clue, ...] = ()
    differences: tuple[str, ...] = ()
    note: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each clue; if there is none, one that says so."""
        return tuple(map(str, self.clues)) or (self.note,)


def explain_change(database: Database, change: SeriesChange) -> ChangeExplanation:
    """Compare what the store has of a case on both sides of a change: status, graphs, caches, compile phases, kernels, instructions.

    Nothing is measured. Cases of other probes of the same benchmark may have clues, too.
    """
    sides = []
    for end in (change.last_old, change.first_new):
        reading = _read(database, end)
        if reading is None:
            return ChangeExplanation(change, note=f"run {end.run} is no longer in the store")
        sides.append(reading)
    before, after = sides
    case = change.series.case
    old, new = ({each.case: each for each in reading.run.outcomes} for reading in sides)
    shared = [each for each in _relatives(case, after.run.outcomes) if each in old]
    differing = tuple(differences(after.run.environment, before.run.environment))
    if case not in shared:
        missing = change.last_old if case not in old else change.first_new
        return ChangeExplanation(
            change, differences=differing, note=f"run {missing.run} has no outcome of this case"
        )
    found = find_clues([old[each] for each in shared], [new[each] for each in shared], change.metric.name)
    return ChangeExplanation(change, found, differing, "" if found else _say_nothing(old[case], new[case]))


def _read(database: Database, end: ChangeEnd) -> Reading | None:
    found = find_runs(database, str(end.run_id))
    return read_run(database, found[0]) if found and found[0].id == end.run_id else None


def _relatives(case: Case, outcomes: Sequence[Outcome]) -> list[Case]:
    """Return the case, and those of other probes with the same benchmark and variant."""
    same = [
        each.case
        for each in outcomes
        if (each.case.suite, each.case.benchmark, each.case.variant)
        == (case.suite, case.benchmark, case.variant)
    ]
    return sorted(same, key=lambda each: (each != case, each.probe))


def _say_nothing(old: Outcome, new: Outcome) -> str:
    """Return what to do if the stored runs explain nothing."""
    has_profile = all(
        each.details and (each.details.time_profile or each.details.profile) for each in (old, new)
    )
    advice = "" if has_profile else "; runs measured with --profile say more"
    return f"what the runs stored of this case (status, graphs, caches, compile phases, kernels) does not explain it{advice}"
