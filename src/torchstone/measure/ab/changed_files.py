"""Which files differ between the code of two sides, and whether any of them was imported: if none was, both sides may have run the same code."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.text.units import some_of
from torchstone.measure.code.git import ask_git

_GIT_TIMEOUT = 60.0


class Changes(Struct, frozen=True):
    """The files that differ, relative to the repository; None where the sides do not differ in code, or git cannot say in what.

    ``benchmarks`` are files of benchmarks among them: these are imported in any case, and so say nothing about the others. ``are_all`` says that the sides should differ in nothing else.
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
    """The files in which two commits of a repository differ; an empty one stands for the files as they lie there, of which only modules of Python may be new."""
    if one == other:
        return Changes()
    commits = [each for each in (one, other) if each]
    diff = ["diff", "--no-ext-diff", "--no-textconv", "--name-only", "-z", "--no-renames", *commits, "--"]
    told = [ask_git(diff, root, _GIT_TIMEOUT)]
    if len(commits) == 1:
        told.append(
            ask_git(["ls-files", "-z", "--others", "--exclude-standard", "--", "*.py"], root, _GIT_TIMEOUT)
        )
    if any(answer.code != 0 for answer in told):
        return Changes()
    files = frozenset(name for answer in told for name in answer.out.split("\0") if name)
    return Changes(files, frozenset(benchmarks), are_all)
