"""Apply quarantine entries to rows: which rows they cover, which entries have expired, which cases could be released."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from msgspec import structs

from torchstone.core.quarantine_entries import EntriesByCase, QuarantineEntry
from torchstone.core.records import Case, Outcome, Rule
from torchstone.core.vocabulary import ACCURACY, Verdict
from torchstone.gate.blocking_policy import Policy
from torchstone.gate.judgement import Release, Row

_PASSING = frozenset({Verdict.PASS, Verdict.SAME})


class Exemptions:
    """The quarantine entries of one judgement, and what they covered so far."""

    def __init__(
        self,
        policy: Policy,
        entries: Sequence[QuarantineEntry],
        today: date,
        platforms: frozenset[str] = frozenset(),
        devices: frozenset[str] = frozenset(),
    ) -> None:
        self._policy = policy
        self._platforms = platforms
        self._devices = devices
        upstream = policy.is_upstream
        expired = [] if upstream else [entry for entry in entries if entry.is_expired(today)]
        self._expired_and_used = dict.fromkeys(expired, False)
        self._expired_by_case = EntriesByCase(expired)
        self._active_by_case = EntriesByCase([e for e in entries if upstream or e.is_active(today)])
        self._releases: dict[tuple[str, Case], Release] = {}

    @property
    def expired(self) -> tuple[QuarantineEntry, ...]:
        """The expired entries that would cover some row."""
        return tuple(entry for entry, used in self._expired_and_used.items() if used)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The quarantined cases that passed."""
        return tuple(release for release in self._releases.values() if release.passed)

    def apply(
        self,
        verdict: Verdict,
        case: Case,
        metric: str,
        rule: Rule | None,
        detail: str,
        new: Outcome | None = None,
    ) -> tuple[QuarantineEntry | None, Verdict, str]:
        """Return the entry that covers a row, the resulting verdict, and the detail to show.

        An entry covers only a verdict that would block, never ``invalid``, and ``missing`` only if it says ``allow_missing``.
        """
        entry = self._find_entry(case, metric, needs_missing=verdict is Verdict.MISSING)
        if entry is None:
            return None, verdict, detail
        self._note_covered(entry, case, verdict, metric)
        if verdict is Verdict.MISSING and not entry.allow_missing:
            note = f"its quarantine ({entry.place}) does not say allow_missing"
            return entry, verdict, f"{detail}; {note}" if detail else note
        if verdict is Verdict.INVALID or not self._policy.blocks(verdict, rule, new):
            return entry, verdict, detail
        return entry, Verdict.QUARANTINED, detail or f"would be: {verdict}"

    def apply_to_row(self, row: Row) -> Row:
        """Return a judged row with quarantine and policy applied."""
        entry, verdict, detail = self.apply(row.verdict, row.case, row.metric, row.rule, row.detail, row.new)
        blocks = self._policy.blocks(verdict, row.rule, row.new)
        ruling = structs.replace(row.ruling, verdict=verdict, blocks=blocks, detail=detail)
        return structs.replace(row, ruling=ruling, remarks=structs.replace(row.remarks, quarantine=entry))

    def _find_entry(self, case: Case, metric: str, *, needs_missing: bool) -> QuarantineEntry | None:
        """Return the first entry that covers a row; for a missing case, preferably one that allows that."""
        platforms = self._platforms
        if (
            not case.variant.device
        ):  # a row that only the baseline has: any device of the results may be meant
            platforms |= self._devices
        for expired in self._expired_by_case.of(case):
            if not self._expired_and_used[expired] and expired.covers(case, metric, platforms):
                self._expired_and_used[expired] = True
        found = [entry for entry in self._active_by_case.of(case) if entry.covers(case, metric, platforms)]
        allowing = [entry for entry in found if entry.allow_missing] if needs_missing else []
        return next(iter(allowing or found), None)

    def _note_covered(self, entry: QuarantineEntry, case: Case, verdict: Verdict, metric: str) -> None:
        """Record a covered row. A case can be released if every row of it that the entry covers passes."""
        passed = verdict in _PASSING or (verdict is Verdict.IMPROVEMENT and metric == ACCURACY)
        before = self._releases.get((entry.place, case))
        passed = passed and (before is None or before.passed == 1)
        self._releases[entry.place, case] = Release(entry, case, int(passed), 1)
