"""Propose the measurement that would confirm a provisional change, or show that there is none."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from torchstone.api.judging.missing_cases import run_words
from torchstone.core.records import Run
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import join_words
from torchstone.history.change_records import SeriesChange
from torchstone.store.database.connection import Database
from torchstone.store.reading_runs import find_run, read_run

_ONLY = "--only"


class Remeasurement(Struct, frozen=True):
    """A command that measures the cases of provisional changes again, to be run at ``revision``, and the numbers of these changes."""

    command: str
    revision: str
    changes: tuple[int, ...]


def propose_remeasurements(
    database: Database, changes: Sequence[SeriesChange], store: str = ""
) -> list[Remeasurement]:
    """Return one command for each revision, and for cases that differ in their axes; none for changes that are certain, or of runs that do not say how they were measured."""
    runs: dict[int, Run] = {}
    wanted: dict[tuple[str, ...], tuple[dict[str, None], list[SeriesChange]]] = {}
    for change in changes:
        if not change.is_provisional:
            continue
        end = change.first_new
        if end.run_id not in runs:
            runs[end.run_id] = read_run(database, find_run(database, str(end.run_id))).run
        case = change.series.case
        words = run_words(case, runs[end.run_id])
        if words:
            at = next((place for place, word in enumerate(words) if word.startswith(_ONLY)), len(words))
            width = 1 if at < len(words) and words[at] != _ONLY else 2
            rest = (end.revision, change.branch, *words[:at], *words[at + width :])
            names, members = wanted.setdefault(rest, ({}, []))
            names[case.benchmark] = None
            members.append(change)
    return [
        Remeasurement(
            _command(list(words), list(names), branch, store),
            revision,
            tuple(each.id for each in members),
        )
        for (revision, branch, *words), (names, members) in wanted.items()
    ]


def _command(words: list[str], names: list[str], branch: str, store: str) -> str:
    chosen = [f"{_ONLY}={name}" if name.startswith("-") else f"{_ONLY} {name}" for name in names]
    only = [word for each in chosen for word in each.split(" ", 1)]
    baseline = f"history:{branch}" if branch else "history"
    place = ["--store", redact(store)] if store else []
    return join_words((*words, *only, "--baseline", baseline, "--decide", "--record", *place))
