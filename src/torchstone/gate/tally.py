"""Keeping count while rows are judged: cases of each sort, quarantine entries met, and what is worth a caution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, EntriesByCase, Outcome, QuarantineEntry, Rule
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import ACCURACY, Probe, Verdict, is_known_status
from torchstone.formats.merge import Results
from torchstone.gate.baseline import Baseline
from torchstone.gate.verdicts import QUIET, Conditions, Counts, Judgement, Release, Row


class Tally:
    """The rows so far, and all that is counted on the way. ``devices`` are those that some result was measured on."""

    def __init__(self, conditions: Conditions, devices: frozenset[str]) -> None:
        self._conditions = conditions
        self._upstream = conditions.policy.is_upstream
        self._devices = devices
        entries, today = conditions.quarantine, conditions.today
        expired = [] if self._upstream else [entry for entry in entries if entry.is_expired(today)]
        self._expired = dict.fromkeys(expired, False)
        self._expired_of = EntriesByCase(expired)
        self._active = EntriesByCase([e for e in entries if self._upstream or e.is_active(today)])
        self._counts = Counts()
        self._rows: list[Row] = []
        self._ignored: list[Row] = []
        self._releases: dict[tuple[str, Case], Release] = {}
        self._unavailable: dict[str, list[str]] = {}

    def apply_quarantine(
        self, verdict: Verdict, case: Case, metric: str, rule: Rule | None, detail: str
    ) -> tuple[QuarantineEntry | None, Verdict, str]:
        """The entry that covers a row, the verdict it has then, and what is to be said about it.

        Only what would block is covered, never a result that contradicts itself, and one that is not there only if the entry says so.
        """
        entry = self._covering(case, metric, needs_missing=verdict is Verdict.MISSING)
        if entry is None:
            return None, verdict, detail
        self._note_covered(entry, case, verdict, metric)
        if verdict is Verdict.MISSING and not entry.allow_missing:
            said = f"its quarantine ({entry.place}) does not say allow_missing"
            return entry, verdict, f"{detail}; {said}" if detail else said
        if verdict is Verdict.INVALID or not self._conditions.policy.blocks(verdict, rule):
            return entry, verdict, detail
        return entry, Verdict.QUARANTINED, detail or f"would be: {verdict}"

    def _covering(self, case: Case, metric: str, *, needs_missing: bool) -> QuarantineEntry | None:
        """The first entry that covers a row; of a case that is missing, rather one that allows it."""
        platforms = self._conditions.platforms
        if not case.variant.device:  # a row that only the baseline has: it may be of any device measured here
            platforms |= self._devices
        for expired in self._expired_of.of(case):
            if not self._expired[expired] and expired.covers(case, metric, platforms):
                self._expired[expired] = True
        found = [entry for entry in self._active.of(case) if entry.covers(case, metric, platforms)]
        allowing = [entry for entry in found if entry.allow_missing] if needs_missing else []
        return next(iter(allowing or found), None)

    def _note_covered(self, entry: QuarantineEntry, case: Case, verdict: Verdict, metric: str) -> None:
        """A case could be released if every row of it that the entry covers is as it should be."""
        passed = verdict is Verdict.PASS or (verdict is Verdict.IMPROVEMENT and metric == ACCURACY)
        before = self._releases.get((entry.place, case))
        passed = passed and (before is None or before.passed == 1)
        self._releases[entry.place, case] = Release(entry, case, int(passed), 1)

    def note_unavailable(self, outcome: Outcome) -> None:
        """Remember a case that cannot be measured here, and of which nothing is expected: worth a caution, and no more."""
        why = outcome.failure.message if outcome.failure else ""
        self._unavailable.setdefault(why, []).append(outcome.case.name)

    def take(self, rows: Sequence[Row], *, planned: bool = False) -> None:
        """Count the rows of one case, and keep them. ``planned`` says that a plan names the case."""
        if not rows:
            return
        counts = self._counts
        if all(row.verdict in QUIET and not row.blocks for row in rows):
            if self._conditions.keep_quiet:
                self._rows += rows
            counts.add(len(rows), planned=True, judged=True)
            return
        verdicts = {row.verdict for row in rows}
        if self._upstream and verdicts == {Verdict.MISSING} and not any(row.blocks for row in rows):
            self._ignored += rows
            return
        self._rows += rows
        unexpected = verdicts == {Verdict.NEW}
        counts.add(
            len(rows), planned=planned or not unexpected, judged=any(row.actual is not None for row in rows)
        )
        counts.red += any(row.blocks for row in rows)
        counts.improved += Verdict.IMPROVEMENT in verdicts
        counts.quarantined += Verdict.QUARANTINED in verdicts
        counts.missing += Verdict.MISSING in verdicts
        counts.new += Verdict.NEW in verdicts

    def finish(self, results: Results, baseline: Baseline, cautions: Sequence[Caution] = ()) -> Judgement:
        """The whole judgement. ``cautions`` are further ones, that only the judging knows of."""
        self._refuse_rules_without_use(results)
        if not self._rows and not self._counts.judged:
            raise UsageError(
                "nothing was judged: neither a baseline nor a rule speaks of these results",
                advice="look at --baseline, --metric, --only and the rules in torchstone.toml",
            )
        return Judgement(
            self._conditions.policy,
            self._rows,
            self._counts,
            [entry for entry, met in self._expired.items() if met],
            [release for release in self._releases.values() if release.passed],
            [*self._cautions(results, baseline), *cautions, *self._conditions.cautions],
            self._ignored,
        )

    def _refuse_rules_without_use(self, results: Results) -> None:
        """A rule on the command line that applies to nothing is a typing mistake."""
        for rule in self._conditions.rules.unused():
            there = dict.fromkeys(metric for _, _, outcome in results for metric in _metrics_in(outcome))
            scope = "" if rule.case == "*" else f" of {rule.case}"
            advice = f"the results have: {', '.join(there)}"
            raise UsageError(f"the rule for '{rule.metric}'{scope} applies to nothing", advice=advice)

    def _cautions(self, results: Results, baseline: Baseline) -> list[Caution]:
        """What is worth reading besides the rows."""
        cautions = [c for reading in (*results.readings, *baseline.readings) for c in reading.cautions]
        unruled = Counter(
            row.metric for row in self._rows if row.verdict is Verdict.INCONCLUSIVE and row.rule is None
        )
        for metric, times in unruled.items():
            if self._conditions.rules.is_unknown(metric):
                cautions.append(make_caution(CautionKind.NO_RULE, metric=metric, rows=times))
        strange = {row.actual.status for row in self._rows if row.actual and row.actual.status}
        unknown = sorted(status for status in strange if not is_known_status(status))
        cautions += [make_caution(CautionKind.UNKNOWN_STATUS, status=status) for status in unknown]
        if unseen := baseline.unmeasured_dtypes():
            cautions.append(make_caution(CautionKind.DTYPES_NOT_MEASURED, dtypes=", ".join(unseen)))
        for why, names in self._unavailable.items():
            named = names[0] if len(names) == 1 else f"{names[0]} and {count_of(len(names) - 1, 'other')}"
            told = f": {why}" if why else ""
            cautions.append(make_caution(CautionKind.NOT_AVAILABLE_HERE, cases=f"{named}{told}"))
        if self._ignored:
            cautions.append(make_caution(CautionKind.MISSING_ROWS_IGNORED, rows=len(self._ignored)))
        return cautions


def _metrics_in(outcome: Outcome) -> list[str]:
    status = [ACCURACY] if outcome.case.probe == Probe.ACCURACY else []
    return status + [measurement.metric for measurement in outcome.measurements]
