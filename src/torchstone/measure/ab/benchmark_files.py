"""Give each side its benchmark files: its own, or those of another place.

A side takes files from elsewhere if it lacks one, or if ``--bench-from`` says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.errors import InputError, UsageError
from torchstone.measure.ab.side_spec import SideSpec
from torchstone.measure.ab.worktrees import Worktree, find_commit
from torchstone.measure.code.git import ask_git
from torchstone.measure.targets import hash_file

WORKTREE = "worktree"
PLACES = ("a", "b", WORKTREE)
"""Where the benchmark files of both sides can be taken from."""


class SideFolder(Struct, frozen=True):
    """Where the code of a side is: in a worktree, or in the repository's working tree. ``scratch`` is for files that it lacks."""

    name: str
    spec: SideSpec
    tree: Worktree | None
    scratch: str

    @property
    def title(self) -> str:
        """Return how messages name it."""
        return f"{self.name} (rev={self.spec.revision})" if self.tree else f"{self.name} (working tree)"

    def own(self, path: str) -> str:
        """Return the path at which this side has a file of the working tree, if it does."""
        return self.tree.place(path) if self.tree else path

    def has(self, path: str) -> bool:
        """Return whether this side has a file of the working tree."""
        return os.path.isfile(self.own(path))


class Borrowed(Struct, frozen=True):
    """A benchmark file that is not the side's own: its path in the repository, and where it came from."""

    path: str
    origin: str


def check_bench_from(bench_from: str, specs: Sequence[SideSpec]) -> None:
    """Raise UsageError for a place that there is not, or if no side is a revision, so that there is nothing to choose."""
    if bench_from and bench_from not in PLACES:
        raise UsageError(f"--bench-from {bench_from}: expected {', '.join(PLACES[:-1])} or {PLACES[-1]}")
    if bench_from and not any(spec.revision for spec in specs):
        raise UsageError(
            "--bench-from: both sides use the working tree, and so the same benchmark files",
            advice="name a revision with --a rev=... or --b rev=..., or leave --bench-from out",
        )


def find_in_revisions(targets: Sequence[str], specs: Sequence[SideSpec]) -> frozenset[str]:
    """Return the files among the targets that are not in the working tree, but in a revision of a side."""
    revisions = [spec.revision for spec in specs if spec.revision]
    places = {target.partition("::")[0] for target in targets}
    absent = sorted(place for place in places if place.endswith(".py") and not os.path.exists(place))
    found = set()
    for place in absent if revisions else ():
        for revision in revisions:
            root, commit = find_commit(revision)
            name = os.path.relpath(os.path.realpath(place), root)
            if ask_git(["cat-file", "-e", f"{commit}:{name}"], root).code == 0:
                found.add(place)
        if place not in found:
            raise InputError(
                f"no such file, neither in the working tree nor in {' or '.join(dict.fromkeys(revisions))}",
                path=place,
            )
    return frozenset(found)


def give_files(
    sources: Mapping[str, BenchmarkSource], sides: Sequence[SideFolder], bench_from: str = ""
) -> list[tuple[dict[str, BenchmarkSource], list[Borrowed]]]:
    """Return the sources of each side, and which of their files are not its own. Files are copied into worktrees, never into the working tree."""
    given: list[tuple[dict[str, BenchmarkSource], list[Borrowed]]] = [({}, []) for _ in sides]
    for name, source in sources.items():
        tree = next((side.tree for side in sides if side.tree), None)
        is_shared = not source.is_file or tree is None or tree.place(source.path) == source.path
        origin = None if is_shared else _choose_origin(source.path, sides, bench_from)
        for side, (own, borrowed) in zip(sides, given, strict=True):
            path = source.path if is_shared else side.own(source.path)
            if tree is not None and origin is not None and path != origin.path:
                path = _copy(origin.path, source.path, side, tree.root)
                borrowed.append(
                    Borrowed(os.path.relpath(os.path.realpath(source.path), tree.root), origin.title)
                )
            own[name] = source if is_shared else structs.replace(source, path=path, hash=hash_file(path))
    return given


class _Origin(Struct, frozen=True):
    """Where both sides take a file from: its path, and what messages call the place."""

    path: str
    title: str


def _choose_origin(path: str, sides: Sequence[SideFolder], bench_from: str) -> _Origin | None:
    """Choose where a file is taken from: as ``--bench-from`` says, else from the side that has it; None if each side uses its own."""
    having = [side for side in sides if side.has(path)]
    here = _Origin(path, "the working tree") if os.path.isfile(path) else None
    origins = dict(zip(PLACES, (*(_origin_in(side, path) for side in sides), here), strict=True))
    if bench_from:
        origin = origins[bench_from]
        if origin is None:
            others = [place for place, found in origins.items() if found]
            raise InputError(
                f"--bench-from {bench_from}: this file is not there",
                path=path,
                advice=f"it is in: {', '.join(others)}" if others else "no side has it",
            )
        return origin
    if len(having) == len(sides):
        return None
    found = _origin_in(having[0], path) if having else here
    if found is None:
        titles = " nor ".join(side.title for side in sides)
        raise InputError(f"neither {titles} has this file", path=path, advice="commit it, or restore it")
    return found


def _origin_in(side: SideFolder, path: str) -> _Origin | None:
    title = side.title if side.tree else "the working tree"
    return _Origin(side.own(path), title) if side.has(path) else None


def _copy(origin: str, path: str, side: SideFolder, root: str) -> str:
    """Copy a file to where a side would have it: in its worktree, or for the working tree in a scratch folder."""
    name = os.path.relpath(os.path.realpath(path), root)
    top = os.path.realpath(
        side.tree.path if side.tree else os.path.join(side.scratch, f"benchmarks-{side.name}")
    )
    copy = os.path.join(top, name)
    folder = os.path.dirname(copy)
    if not f"{os.path.realpath(folder)}{os.sep}".startswith(f"{top}{os.sep}"):
        raise InputError(f"in {side.title}, its folder is a link that leaves the repository", path=path)
    os.makedirs(folder, exist_ok=True)
    if os.path.islink(copy):
        os.unlink(copy)
    shutil.copyfile(origin, copy)
    return copy
