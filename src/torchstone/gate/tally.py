"""Keeping count while rows are judged: cases of each sort, quarantine entries met, and what is worth a caution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date

from msgspec import structs

from torchstone.analyze.evidence import Comparison
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import UsageError, printable
from torchstone.core.quarantine_entries import EntriesByCase, QuarantineEntry
from torchstone.core.records import NOWHERE, Case, Measurement, Outcome, Reading, Rule, Run
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import ACCURACY, Probe, Verdict, is_known_status
from torchstone.formats.merge import Results
from torchstone.gate.baseline import Baseline, ExpectedRow
from torchstone.gate.policy import Policy
from torchstone.gate.verdicts import QUIET, Conditions, Counts, Judgement, Release, Remarks, Row, Ruling

_CALM = {verdict: Ruling(verdict) for verdict in QUIET}
_PASSING = frozenset({Verdict.PASS, Verdict.SAME})
_NO_READING = Reading("", "", Run("", (), ()), ())


class Exemptions:
    """Quarantine entries at work: which rows they cover, which of them have expired, and which cases could be released."""

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
        self._expired = dict.fromkeys(expired, False)
        self._expired_of = EntriesByCase(expired)
        self._active = EntriesByCase([e for e in entries if upstream or e.is_active(today)])
        self._releases: dict[tuple[str, Case], Release] = {}

    @property
    def expired(self) -> tuple[QuarantineEntry, ...]:
        """The entries that cover some row, and have expired."""
        return tuple(entry for entry, met in self._expired.items() if met)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The cases that are in quarantine, and passed."""
        return tuple(release for release in self._releases.values() if release.passed)

    def apply(
        self, verdict: Verdict, case: Case, metric: str, rule: Rule | None, detail: str
    ) -> tuple[QuarantineEntry | None, Verdict, str]:
        """The entry that covers a row, the verdict it then has, and the detail to show.

        Only what would block is covered, never a result that contradicts itself, and a missing one only if the entry allows that.
        """
        entry = self._covering(case, metric, needs_missing=verdict is Verdict.MISSING)
        if entry is None:
            return None, verdict, detail
        self._note_covered(entry, case, verdict, metric)
        if verdict is Verdict.MISSING and not entry.allow_missing:
            said = f"its quarantine ({entry.place}) does not say allow_missing"
            return entry, verdict, f"{detail}; {said}" if detail else said
        if verdict is Verdict.INVALID or not self._policy.blocks(verdict, rule):
            return entry, verdict, detail
        return entry, Verdict.QUARANTINED, detail or f"would be: {verdict}"

    def _covering(self, case: Case, metric: str, *, needs_missing: bool) -> QuarantineEntry | None:
        """The first entry that covers a row; for a missing case, preferably one that allows it."""
        platforms = self._platforms
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
        passed = verdict in _PASSING or (verdict is Verdict.IMPROVEMENT and metric == ACCURACY)
        before = self._releases.get((entry.place, case))
        passed = passed and (before is None or before.passed == 1)
        self._releases[entry.place, case] = Release(entry, case, int(passed), 1)


class Tally:
    """The rows so far, and everything that is counted on the way."""

    def __init__(self, conditions: Conditions, results: Results) -> None:
        self._conditions = conditions
        self._upstream = conditions.policy.is_upstream
        readings = results.readings
        self._only_reading = readings[0] if len(readings) == 1 else _NO_READING
        devices: frozenset[str] = frozenset()
        if conditions.quarantine:
            devices = frozenset(outcome.case.variant.device for _, _, outcome in results)
        self._exemptions = Exemptions(
            conditions.policy, conditions.quarantine, conditions.today, conditions.platforms, devices
        )
        self._counts = Counts()
        self._rows: list[Row] = []
        self._ignored: list[Row] = []
        self._unavailable: dict[str, list[str]] = {}

    def make_row(
        self,
        verdict: Verdict,
        case: Case,
        metric: str,
        new: Outcome | None,
        base: Outcome | None,
        rule: Rule | None = None,
        detail: str = "",
        *,
        of: str = "",
        comparison: Comparison | None = None,
    ) -> Row:
        """A row, with quarantine and policy applied. ``of`` is what it is about, if that is more than its metric: an entry about one number covers no crash."""
        conditions = self._conditions
        if not conditions.quarantine and verdict in QUIET and not detail:
            ruling = _CALM[verdict]
            if verdict in conditions.policy.block:
                ruling = Ruling(verdict, blocks=True)
            return Row(ruling, case, metric, new, base, rule, comparison=comparison)
        entry, verdict, detail = self._exemptions.apply(verdict, case, of or metric, rule, detail)
        ruling = Ruling(verdict, conditions.policy.blocks(verdict, rule), detail)
        return Row(ruling, case, metric, new, base, rule, Remarks(quarantine=entry), comparison)

    def place(
        self, row: Row, reading: Reading | None, index: int | None, expected: ExpectedRow | None
    ) -> Row:
        """The same row, with the places that a person will look for."""
        place = (reading or _NO_READING).place(index, row.metric)
        source = reading or self._only_reading
        fits = row.case.probe in {"", source.kind} and (reading or _is_measured_alike(row.case, source))
        base_place = expected.place_of(row.metric) if expected else NOWHERE
        remarks = Remarks(place, base_place, row.remarks.quarantine, source.repro if fits else "")
        return structs.replace(row, remarks=remarks)

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
            len(rows), planned=planned or not unexpected, judged=any(row.new is not None for row in rows)
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
            [*self._cautions(results, baseline), *cautions, *self._conditions.cautions],
            self._counts,
            self._exemptions.expired,
            self._exemptions.releases,
            tuple(self._ignored),
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
        strange = {row.new.status for row in self._rows if row.new and row.new.status}
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


def _is_measured_alike(case: Case, reading: Reading) -> bool:
    """Whether a file's own command measures a case that it lacks: it does, if what the case states is what the file is of."""
    measured = reading.run.outcomes[0].case.variant.axes() if reading.run.outcomes else {}
    return all(
        measured.get(axis) == value for axis, value in case.variant.axes().items() if axis != "batch_size"
    )


def _metrics_in(outcome: Outcome) -> list[str]:
    status = [ACCURACY] if outcome.case.probe == Probe.ACCURACY else []
    return status + [measurement.metric for measurement in outcome.measurements]


def told_by(outcome: Outcome) -> str:
    """The reason that a failure gives, after a colon."""
    return f": {outcome.failure.message}" if outcome.failure and outcome.failure.message else ""


def counted_instead(outcome: Outcome) -> str:
    """Which counter a result is from, where that may be why it lacks what another one counts."""
    counters = {measurement.counter for measurement in outcome.measurements} - {""}
    return f": it was counted by the {printable(min(counters), 40)} counter" if counters else ""


def measurement_of(outcome: Outcome | None, metric: str) -> Measurement | None:
    """The measurement of a metric, where an outcome has one."""
    if outcome is not None:
        for measurement in outcome.measurements:
            if measurement.metric == metric:
                return measurement
    return None
