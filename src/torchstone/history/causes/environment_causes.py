"""Tell changes that begin with another driver, image or release of torch from those of the code.

A version is a cause if it changes where all members of a group begin, and seldom otherwise. A nightly torch is what is
measured: a development version that follows another one is no cause, and neither is whatever changes with every few
revisions. A machine that kept its version, and moved all the same, shows that the version is not the cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from torchstone.history.change_records import ChangeEnd, SeriesChange

_VERSIONS: dict[str, Callable[[ChangeEnd], str]] = {
    "driver": lambda end: end.driver,
    "torch": lambda end: end.torch,
    "image": lambda end: end.image,
}
MOST_OFTEN = 0.1
"""A version that changes at more than this share of the revisions changes as a matter of routine."""
_ENOUGH = 5
"""Of fewer changes of a version nobody can say that they are routine."""
_MOST_WITHOUT = 0.2
_DEVELOPMENT = re.compile(r"\.dev\d|\+git|a0\b")


class EnvironmentChange(Struct, frozen=True):
    """What changed in the environment: ``driver``, ``torch`` or ``image``, and from what to what."""

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what} {self.before} -> {self.after}"


class RunEnvironment(Struct, frozen=True):
    """The software of one run, for how often it changes."""

    torch: str = ""
    driver: str = ""
    image: str = ""


def find_routine(runs: Iterable[RunEnvironment]) -> frozenset[str]:
    """Return what changes so often that it is no cause: of ``driver``, ``torch`` and ``image``. ``runs`` are those of a branch.

    Versions are counted, not how often they take turns: machines with different drivers may measure in turns.

    >>> sorted(find_routine(RunEnvironment(torch=f"2.13.{night}") for night in range(20)))
    ['torch']
    """
    known = list(runs)
    routine = set()
    for what in _VERSIONS:
        stated = [value for each in known if (value := getattr(each, what))]
        changed = len(set(stated)) - 1
        if changed >= _ENOUGH and changed > MOST_OFTEN * len(stated):
            routine.add(what)
    return frozenset(routine)


def find_environment_changes(
    changes: Sequence[SeriesChange], routine: frozenset[str] = frozenset()
) -> tuple[EnvironmentChange, ...]:
    """Return what changed in the environment where a group begins; usually nothing."""
    found = (_find(changes, what) for what in _VERSIONS if what not in routine)
    return tuple(each for each in found if each is not None)


def _find(changes: Sequence[SeriesChange], what: str) -> EnvironmentChange | None:
    version = _VERSIONS[what]
    seen: dict[EnvironmentChange, list[SeriesChange]] = {}
    for change in changes:
        before, after = version(change.last_old), version(change.first_new)
        if before and after and before != after and not _is_nightly(what, before, after):
            seen.setdefault(EnvironmentChange(what, before, after), []).append(change)
    if not seen:
        return None
    found, members = max(seen.items(), key=lambda item: len(item[1]))
    machines = {each.series.machine for each in members}
    if any(each.series.machine not in machines for each in changes):
        return None
    known = [each for each in changes if version(each.last_old) and version(each.first_new)]
    others = [each for each in known if each not in members]
    if len(others) > _MOST_WITHOUT * len(changes) or not all(_can_be_with(each, members) for each in others):
        return None
    return found


def _is_nightly(what: str, before: str, after: str) -> bool:
    return what == "torch" and bool(_DEVELOPMENT.search(before) and _DEVELOPMENT.search(after))


def _can_be_with(change: SeriesChange, members: Sequence[SeriesChange]) -> bool:
    """Return whether noise leaves a change the range in which others begin."""
    return any(
        change.earliest < each.first_new.position and each.last_old.position < change.latest
        for each in members
    )
