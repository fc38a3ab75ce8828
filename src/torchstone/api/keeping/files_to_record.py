"""Find the files to record, read them, and give each its revision."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from msgspec import structs

from torchstone.api.sources import ENDINGS, Axes, Input
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.disk import read_text
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Reading, Revision
from torchstone.core.text.safe_text import is_plain
from torchstone.formats import FORMATS, read_file, recognise
from torchstone.formats.merge import EXPECTED_KINDS, fill_in, merge, parse_axes, require_results
from torchstone.measure.code.ancestry import resolve_commits
from torchstone.store.identity import find_revision, name_revision
from torchstone.store.record_runs import ToRecord

_DIGITS = re.compile(r"(\d+)")
_HEXADECIMAL = re.compile(r"[0-9a-f]{7,40}\Z")


def list_files(inputs: Sequence[Input]) -> list[tuple[Input, bool]]:
    """Return the files to record, and whether each was only found in a folder. Folders are searched to their end, sorted by the numbers in names."""
    files: list[tuple[Input, bool]] = []
    for each in inputs:
        if isinstance(each, str) and os.path.isdir(each):
            found = list(_walk(each))
            if not found:
                raise InputError(
                    "no results in this folder", path=each, advice=f"expected {', '.join(ENDINGS)}"
                )
            files += [(path, True) for path in found]
        else:
            files.append((each, False))
    return files


def _walk(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted((each for each in folders if each[0] != "."), key=_by_numbers)
        for name in sorted(names, key=_by_numbers):
            if name.endswith(ENDINGS) and name[0] != ".":
                yield os.path.join(place, name)


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``run2`` before ``run10``."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in _DIGITS.split(name)]


def read_results(
    given: Input, kind: str, axes: Axes, *, was_found: bool, cautions: list[Caution]
) -> Reading | None:
    """Read a file of results. One that is none is an error, unless it was only found in a folder: then None, with a caution."""
    if isinstance(given, Reading):
        reading = given
    elif was_found and not kind:
        text = read_text(given)
        try:
            known = recognise(given, text)
        except InputError:
            cautions.append(make_caution(CautionKind.NOT_RESULTS, path=given))
            return None
        if known in EXPECTED_KINDS:
            cautions.append(make_caution(CautionKind.EXPECTED_VALUES, path=given))
            return None
        reading = FORMATS[known].read(given, text)
    else:
        reading = read_file(given, kind)
    require_results([reading], kind)
    merge([reading])  # a case that occurs twice is an error
    return fill_in(reading, parse_axes(f"{axis}={value}" for axis, value in axes))


class RevisionFinder:
    """Gives each file its revision: the requested one, else that which the file states, else that in its name."""

    def __init__(self, folder: str, revision: str, pattern: str, branch: str) -> None:
        self._folder = folder
        self._branch = branch
        self._pattern = _compile(pattern)
        self._given = Revision()
        if revision:
            if not is_plain(revision):
                raise UsageError("--revision: expected a commit or a label on one line")
            full = resolve_commits(folder, [revision]).get(revision, "")
            is_commit = bool(full) or _HEXADECIMAL.match(revision) is not None
            self._given = Revision(full or revision, dirty=False) if is_commit else Revision(label=revision)

    def find(self, readings: Sequence[Reading]) -> list[ToRecord]:
        """Return the files with their revisions."""
        named = {each.path: self._in_path(each.path) for each in readings if self._needs_name(each)}
        commits = resolve_commits(
            self._folder, sorted({name for name in named.values() if _HEXADECIMAL.match(name)})
        )
        return [ToRecord(each, self._revision(each, named.get(each.path, ""), commits)) for each in readings]

    def _needs_name(self, reading: Reading) -> bool:
        if name_revision(self._given, reading.run):
            return False
        return self._pattern is not None or not name_revision(reading.run.revision, reading.run)

    def _revision(self, reading: Reading, name: str, commits: dict[str, str]) -> Revision:
        stated = reading.run.revision
        branch = self._branch or stated.branch
        if self._given.commit or self._given.label:
            return structs.replace(self._given, branch=branch)
        if not name:
            return structs.replace(stated, branch=branch)
        if _HEXADECIMAL.match(name):
            return Revision(commits.get(name, name), branch, dirty=False)
        return Revision("", branch, label=name)

    def _in_path(self, path: str) -> str:
        if self._pattern is None:
            found = find_revision(path)
        else:
            match = self._pattern.search(path)
            found = (match[1] if self._pattern.groups else match[0]) or "" if match else ""
        if not found:
            problem = (
                f"{self._pattern.pattern} matches nothing in its name"
                if self._pattern
                else "it states no revision, and neither does its name"
            )
            advice = (
                "state it with --revision, or say where it is in the names: --revision-from 'perf_(.*).csv'"
            )
            raise InputError(problem, path=path, advice=advice)
        return found


def _compile(pattern: str) -> re.Pattern[str] | None:
    if not pattern:
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--revision-from {pattern}: no regular expression: {error}") from None
