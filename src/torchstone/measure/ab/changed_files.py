"""Find the files that differ between two sides, and warn if none of them was imported: both may have run the same code."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.text.units import some_of
from torchstone.measure.code.git import ask_git

_GIT_TIMEOUT = 60.0


class Changes(Struct, frozen=True):
    """The files that differ, relative to the repository; None if the sides do not differ in code, or git cannot list the files.

    ``benchmarks`` are the benchmark files, which are always imported, and so prove nothing about the others. ``are_all``: the
    sides differ in nothing but files.
    """

    files: frozenset[str] | None = None
    benchmarks: frozenset[str] = frozenset()
    are_all: bool = True

    def caution(self, imported: Collection[str]) -> Caution | None:
        """Return a caution if none of them was among the imported files."""
        if self.files is None or (not self.files and not self.are_all):
            return None
        if not self.files:
            return make_caution(CautionKind.NO_FILE_DIFFERS)
        files = self.files - self.benchmarks or self.files
        if files & set(imported):
            return None
        names = some_of(sorted(files), most=3)
        if len(files) == 1:
            return make_caution(CautionKind.CHANGED_FILE_NOT_IMPORTED, files=names)
        return make_caution(CautionKind.CHANGED_FILES_NOT_IMPORTED, files=names, count=len(files))


def find_changes(
    root: str, one: str, other: str, benchmarks: Collection[str] = (), *, are_all: bool = True
) -> Changes:
    """Return the files that differ between two commits. An empty commit is the working tree, including untracked Python files."""
    if one == other:
        return Changes()
    commits = [each for each in (one, other) if each]
    diff = ["diff", "--no-ext-diff", "--no-textconv", "--name-only", "-z", "--no-renames", *commits, "--"]
    answers = [ask_git(diff, root, _GIT_TIMEOUT)]
    if len(commits) == 1:
        answers.append(
            ask_git(["ls-files", "-z", "--others", "--exclude-standard", "--", "*.py"], root, _GIT_TIMEOUT)
        )
    if any(answer.code != 0 for answer in answers):
        return Changes()
    files = frozenset(name for answer in answers for name in answer.out.split("\0") if name)
    return Changes(files, frozenset(benchmarks), are_all)
