"""Which files differ between the code of two sides, and whether any of them was imported: if none was, both sides may have run the same code."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from torchstone.measure.asking import ask

_GIT_TIMEOUT = 60.0
_SHOWN = 3


class Changes(Struct, frozen=True):
    """The files that differ, relative to the repository. ``are_known`` is false where the sides do not differ in code, or git cannot say in what."""

    files: frozenset[str] = frozenset()
    are_known: bool = False

    def caution(self, imported: Collection[str]) -> str:
        """What to say if none of them was among the imported files; empty otherwise."""
        if not self.are_known or self.files & set(imported):
            return ""
        if not self.files:
            return "no file differs between A and B"
        names = ", ".join(sorted(self.files)[:_SHOWN]) + (", ..." if len(self.files) > _SHOWN else "")
        differ = "the one file" if len(self.files) == 1 else f"none of the {len(self.files):,} files"
        was = "was not imported" if len(self.files) == 1 else "was imported"
        return (
            f"{differ} in which A and B differ {was} ({names}): is the code under test installed elsewhere, "
            "or does it have to be built first?"
        )


def find_changes(root: str, one: str, other: str) -> Changes:
    """The files in which two commits of a repository differ; an empty one stands for the files as they lie there."""
    if one == other:
        return Changes()
    command = [
        "git",
        "-C",
        root,
        "diff",
        "--name-only",
        "-z",
        "--no-renames",
        *(each for each in (one, other) if each),
    ]
    told = [ask(command, _GIT_TIMEOUT)]
    if not (one and other):
        told.append(
            ask(["git", "-C", root, "ls-files", "-z", "--others", "--exclude-standard"], _GIT_TIMEOUT)
        )
    if any(answer.code != 0 for answer in told):
        return Changes()
    return Changes(frozenset(name for answer in told for name in answer.out.split("\0") if name), True)
