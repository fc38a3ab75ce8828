"""Quarantine entries: cases and metrics that are known to fail, and for how long."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from msgspec import Struct

from torchstone.core.records import Case, matches, matches_metric


class QuarantineEntry(Struct, frozen=True):
    """One quarantine entry, and the file and line it was read from."""

    case: str
    reason: str
    path: str
    line: int
    link: str = ""
    owner: str = ""
    since: date | None = None
    expires: date | None = None
    metrics: tuple[str, ...] = ()
    platform: str = ""
    allow_missing: bool = False

    @property
    def place(self) -> str:
        """Return the entry's place as ``file:line``; for a list that ships with torchstone, its name."""
        return f"{self.path}:{self.line}" if self.line else self.path

    def is_expired(self, today: date) -> bool:
        """Return whether the entry's last day has passed."""
        return self.expires is not None and self.expires < today

    def is_active(self, today: date) -> bool:
        """Return whether the entry is in force on this day."""
        return not self.is_expired(today) and (self.since is None or self.since <= today)

    def covers(self, case: Case, metric: str, platforms: frozenset[str]) -> bool:
        """Return whether the entry applies to this case and metric on one of these platforms."""
        if self.metrics and not any(matches_metric(pattern, metric) for pattern in self.metrics):
            return False
        if self.platform and self.platform not in platforms | {case.variant.device}:
            return False
        return matches(self.case, case)


_SPECIAL = r"[*?\[]"


class EntriesByCase:
    """Quarantine entries indexed by the literal start of their patterns, so that a row is not matched against every entry."""

    def __init__(self, entries: Sequence[QuarantineEntry]) -> None:
        self._by_start: dict[str, list[tuple[int, QuarantineEntry]]] = {}
        for number, entry in enumerate(entries):
            start = re.split(_SPECIAL, entry.case, maxsplit=1)[0]
            self._by_start.setdefault(start, []).append((number, entry))
        self._lengths = sorted({len(start) for start in self._by_start})

    def of(self, case: Case) -> list[QuarantineEntry]:
        """Return the entries whose patterns may match this case, in their order."""
        if not self._lengths:
            return []
        found: dict[int, QuarantineEntry] = {}
        for text in (case.benchmark, case.id):
            for length in self._lengths:
                if length > len(text):
                    break
                found.update(self._by_start.get(text[:length], ()))
        return [found[number] for number in sorted(found)]
