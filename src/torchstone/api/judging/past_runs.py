"""Read past runs from files, folders and patterns, sort them by time, and find those that cannot be compared."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from glob import glob

from msgspec import Struct

from torchstone.analyze.forecast import FEWEST
from torchstone.api.sources import ENDINGS, Axes
from torchstone.baselines.margins import PastMeasurements
from torchstone.baselines.propose import collect_past
from torchstone.baselines.row_changes import AdoptionOptions
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.disk import read_text
from torchstone.core.environments import differences
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Reading, is_pattern
from torchstone.core.text.units import count_of
from torchstone.formats import FORMATS, recognise
from torchstone.formats.merge import (
    EXPECTED_KINDS,
    fill_in,
    is_same_run,
    merge,
    parse_axes,
    require_results,
    select,
)
from torchstone.gate.baseline import agree
from torchstone.gate.checking.drift_cautions import day_of

FALSE_ALARMS = 0.01
MOST_FALSE_ALARMS = 0.5
MOST_NAMED = 3
_DIGITS = re.compile(r"(\d+)")


class Past(Struct, frozen=True):
    """Past runs, oldest first; the reasons why files are from another environment (``apart``); and cautions."""

    readings: list[Reading]
    apart: dict[str, str]
    cautions: list[Caution]

    @property
    def comparable(self) -> list[Reading]:
        """The runs whose numbers can be compared with the results."""
        return [reading for reading in self.readings if reading.path not in self.apart]

    @property
    def cases(self) -> set[Case]:
        """All cases with a result in some past run."""
        return {outcome.case for reading in self.readings for outcome in reading.run.outcomes}

    def tell_apart(self, what: str = "") -> list[Caution]:
        """Return a caution for each reason to leave files, or parts of them, out."""
        by_reason: dict[str, list[str]] = {}
        for path, why in self.apart.items():
            by_reason.setdefault(why, []).append(path)
        return [
            make_caution(CautionKind.PAST_ELSEWHERE, why=why, what=what, paths=_some(paths, ", "))
            for why, paths in by_reason.items()
        ]


def read_past(
    option: str,
    names: Sequence[str],
    readings: Sequence[Reading],
    others: Sequence[str],
    kind: str,
    axes: Axes,
) -> Past:
    """Read the past runs that an option names, except the results themselves (``readings``) and ``others``."""
    stated = parse_axes(f"{axis}={value}" for axis, value in axes)
    cautions: list[Caution] = []
    seen = {os.path.realpath(path) for path in (*(reading.path for reading in readings), *others)}
    found: list[Reading] = []
    for path, listed in _expand(option, names):
        if os.path.realpath(path) in seen:
            continue
        seen.add(os.path.realpath(path))
        reading = _read(path, kind, cautions if listed else None)
        if reading is None:
            continue
        merge([reading])
        same = next((other.path for other in (*readings, *found) if is_same_run(other, reading)), "")
        if same:
            cautions.append(make_caution(CautionKind.COPY_OF_RUN, path=path, same=same))
            continue
        found.append(fill_in(reading, stated))
    if not found:
        raise UsageError(
            f"{option} {' '.join(names)}: no past runs found",
            advice="name files or folders of earlier results",
        )
    return Past(_in_order(found), _set_apart(found, readings), cautions)


def _expand(option: str, names: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the files that match, and whether each was found in a folder or by a pattern; sorted by the numbers in their names."""
    files: list[tuple[str, bool]] = []
    for name in names:
        if os.path.isdir(name):
            listed = [entry for entry in os.listdir(name) if entry.endswith(ENDINGS) and entry[0] != "."]
            files += [(os.path.join(name, entry), True) for entry in sorted(listed, key=_numbered)]
        elif not os.path.exists(name) and is_pattern(name):
            matching = sorted(glob(name), key=_numbered)
            if not matching:
                raise UsageError(f"{option} {name}: no file matches")
            files += [(path, True) for path in matching if os.path.isfile(path)]
        else:
            files.append((name, False))
    return files


def _numbered(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``run2`` before ``run10``."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in _DIGITS.split(name)]


def _read(path: str, kind: str, cautions: list[Caution] | None) -> Reading | None:
    """Read a file. If it is not a result file, raise an error; if it was only found in a folder, add a caution and return None."""
    text = read_text(path)
    try:
        known = kind or recognise(path, text)
    except InputError:
        if cautions is None:
            raise
        cautions.append(make_caution(CautionKind.NOT_RESULTS, path=path))
        return None
    if known in EXPECTED_KINDS and not kind and cautions is not None:
        cautions.append(make_caution(CautionKind.EXPECTED_VALUES, path=path))
        return None
    reading = FORMATS[known].read(path, text)
    require_results([reading], kind)
    return reading


def _in_order(readings: list[Reading]) -> list[Reading]:
    """Sort by the time at the start of run ids, oldest first; keep the order if an id has none."""
    if all(day_of(reading.run) for reading in readings):
        return sorted(readings, key=lambda reading: reading.run.id)
    return readings


def _set_apart(past: Sequence[Reading], readings: Sequence[Reading]) -> dict[str, str]:
    """Return the past files from another environment than the results, and how they differ."""
    apart = {}
    for reading in past:
        for new in readings:
            if new.run.environment.is_stated and reading.run.environment.is_stated:
                found = differences(new.run.environment, reading.run.environment)
                if found:
                    apart[reading.path] = _some(found, "; ")
                    break
    return apart


def _some(texts: Sequence[str], between: str) -> str:
    more = len(texts) - MOST_NAMED
    return between.join(texts[:MOST_NAMED]) + (f"{between}and {more} more" if more > 0 else "")


def check_false_alarms(share: float | None) -> float:
    """Return the accepted share of false alarms, or the default; raise an error if it is invalid."""
    if share is not None and not 0 < share <= MOST_FALSE_ALARMS:
        raise UsageError(f"--false-alarms {share:g}: expected a share of at most {MOST_FALSE_ALARMS:g}")
    return FALSE_ALARMS if share is None else share


def learn_from(
    past: Past, readings: Sequence[Reading], old: Reading, options: AdoptionOptions, false_alarms: float
) -> PastMeasurements:
    """Learn margins for each row from past cases like those of the results. Raise an error if there are too few runs."""
    usable = past.comparable
    if len(usable) < FEWEST:
        left = f" (and {len(past.apart)} more from another environment)" if past.apart else ""
        raise UsageError(
            f"--learn-margins: {count_of(len(usable), 'past run')} to learn from{left}; at least {FEWEST} are needed",
            advice="name a folder, repeat the option, or quote a pattern: --learn-margins 'runs/*.jsonl'",
        )
    is_like = _likeness(readings)
    return collect_past(old, [select(reading, is_like) for reading in usable], options, false_alarms)


def _likeness(results: Sequence[Reading]) -> Callable[[Case], bool]:
    """Return a test of whether a past case has the same axes as the results; a row of a table may apply to several dtypes."""
    measured: dict[str, list[Case]] = {}
    for outcome in (outcome for result in results for outcome in result.run.outcomes):
        measured.setdefault(outcome.case.benchmark, []).append(outcome.case)

    @cache
    def is_like(case: Case) -> bool:
        cases = [each for each in measured.get(case.benchmark, ()) if each.probe == case.probe]
        return not cases or any(agree(each, case) for each in cases)

    return is_like
