"""Compare where the time of two calls went: by family of work, by kernel, and by the module and line that launched it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec import Struct

from torchstone.analyze.call_time.kernel_families import WITH_DTYPE, KernelFamily
from torchstone.core.details.time_profile import KernelTime, SideTime

REST = "(rest)"
IDLE = "idle"
CHANGED = 0.05  # a kernel whose time differs by less is the same
_GENERATED_NUMBER = re.compile(r"(?<=\w)_\d+$")
_KNOWN = frozenset(map(str, KernelFamily))
_Key = TypeVar("_Key")


class TimePair(Struct, frozen=True):
    """Milliseconds of a call on both sides, and launches."""

    base: float
    new: float
    base_count: int
    new_count: int

    @property
    def change(self) -> float:
        """Return the difference, new minus base."""
        return self.new - self.base

    @property
    def size(self) -> float:
        """Return the larger of the two."""
        return max(self.base, self.new)


class FamilyTime(TimePair, frozen=True):
    """The time of a family of work; matrix products, convolutions and attention by dtype."""

    family: str
    dtype: str

    @property
    def label(self) -> str:
        """Return the family with its dtype."""
        return f"{self.family} {self.dtype}".rstrip()


class KernelChange(TimePair, frozen=True):
    """The time of one kernel, wherever it is launched. ``places`` are the modules or lines that launch it, the costliest first."""

    name: str
    family: str
    dtype: str
    operator: str
    places: tuple[str, ...]

    @property
    def state(self) -> str:
        """Return whether the kernel is new, gone, slower or faster; empty if it is the same."""
        if not self.base_count:
            return "new"
        if not self.new_count:
            return "gone"
        if abs(self.change) <= CHANGED * self.base:
            return ""
        return "slower" if self.change > 0 else "faster"


class PlaceTime(TimePair, frozen=True):
    """The time of everything launched by one line of one module."""

    module: str
    place: str
    source: str


class TimeComparison(Struct, frozen=True):
    """Two calls side by side. ``families``, ``kernels`` and ``places`` have the largest change first."""

    wall: TimePair
    busy: TimePair
    families: tuple[FamilyTime, ...]
    kernels: tuple[KernelChange, ...]
    places: tuple[PlaceTime, ...]

    @property
    def idle(self) -> TimePair:
        """Return the time in which nothing ran."""
        before, after = (
            max(0.0, wall - busy)
            for wall, busy in ((self.wall.base, self.busy.base), (self.wall.new, self.busy.new))
        )
        return TimePair(before, after, 0, 0)


def compare_times(base: SideTime, new: SideTime) -> TimeComparison:
    """Compare two calls; comparing one with itself shows where its time went."""
    return TimeComparison(
        TimePair(base.wall, new.wall, 1, 1),
        TimePair(base.busy, new.busy, base.launches, new.launches),
        tuple(_families(base, new)),
        tuple(_kernels(base, new)),
        tuple(_places(base, new)),
    )


def family_of_row(row: KernelTime) -> str:
    """Return the family that a run file states; one that this version does not know is ``other``."""
    return row.family if row.family in _KNOWN else KernelFamily.OTHER.value


def identity_of(name: str) -> str:
    """Return what makes a kernel the same in two compilations: inductor numbers its kernels.

    >>> identity_of("triton_poi_fused_gelu_3"), identity_of("ampere_sgemm_32x128_tn")
    ('triton_poi_fused_gelu', 'ampere_sgemm_32x128_tn')
    """
    return _GENERATED_NUMBER.sub("", name) if name.startswith(("triton_", "cpp_")) else name


class _Sums(Struct):
    """The rows of both sides that belong together."""

    base: float = 0.0
    new: float = 0.0
    base_count: int = 0
    new_count: int = 0
    rows: list[KernelTime] = []

    def add(self, row: KernelTime, *, is_base: bool) -> None:
        self.rows.append(row)
        if is_base:
            self.base += row.milliseconds
            self.base_count += row.count
        else:
            self.new += row.milliseconds
            self.new_count += row.count

    @property
    def numbers(self) -> tuple[float, float, int, int]:
        return self.base, self.new, self.base_count, self.new_count


def _group(
    base: Iterable[KernelTime], new: Iterable[KernelTime], key_of: Callable[[KernelTime], _Key | None]
) -> list[tuple[_Key, _Sums]]:
    """Add up rows with the same key; the largest change comes first, then the largest time. Rows with the key None are left out."""
    found: dict[_Key, _Sums] = {}
    for rows, is_base in ((base, True), (new, False)):
        for row in rows:
            key = key_of(row)
            if key is not None:
                found.setdefault(key, _Sums(rows=[])).add(row, is_base=is_base)
    return sorted(
        found.items(),
        key=lambda item: (-abs(item[1].new - item[1].base), -max(item[1].base, item[1].new), str(item[0])),
    )


def _families(base: SideTime, new: SideTime) -> Iterable[FamilyTime]:
    def key_of(row: KernelTime) -> tuple[str, str]:
        family = family_of_row(row)
        return family, row.dtype if family in WITH_DTYPE else ""

    for (family, dtype), sums in _group(base.kernels, new.kernels, key_of):
        yield FamilyTime(*sums.numbers, family, dtype)


def _kernels(base: SideTime, new: SideTime) -> Iterable[KernelChange]:
    def key_of(row: KernelTime) -> tuple[str, str] | None:
        return None if row.name == REST else (identity_of(row.name), family_of_row(row))

    for (_, family), sums in _group(base.kernels, new.kernels, key_of):
        costliest = sorted(sums.rows, key=lambda row: -row.milliseconds)
        name = (
            costliest[0].name if len({row.name for row in sums.rows}) == 1 else identity_of(costliest[0].name)
        )
        places = dict.fromkeys(row.module or row.place for row in costliest if row.module or row.place)
        yield KernelChange(
            *sums.numbers, name, family, costliest[0].dtype, costliest[0].operator, tuple(places)
        )


def _places(base: SideTime, new: SideTime) -> Iterable[PlaceTime]:
    def key_of(row: KernelTime) -> tuple[str, str] | None:
        return (row.module, row.place) if row.module or row.place else None

    for (module, place), sums in _group(base.kernels, new.kernels, key_of):
        yield PlaceTime(
            *sums.numbers, module, place, next((row.source for row in sums.rows if row.source), "")
        )
