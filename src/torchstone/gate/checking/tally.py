"""Collect the rows of a check: apply quarantine and policy, count cases, and gather cautions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, structs

from torchstone.analyze.evidence import Comparison
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import UsageError
from torchstone.core.records import NOWHERE, Case, Outcome, Reading, Rule, Run
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import ACCURACY, Probe, Verdict, is_known_status
from torchstone.formats.merge import Results
from torchstone.gate.apply_quarantine import Exemptions
from torchstone.gate.baseline import Baseline, ExpectedRow
from torchstone.gate.defaults import DEFAULTS
from torchstone.gate.judge import judge_together
from torchstone.gate.judgement import (
    QUIET,
    Conditions,
    Counts,
    Judgement,
    Remarks,
    Row,
    Ruling,
    is_without_evidence,
)

_QUIET_RULINGS = {verdict: Ruling(verdict) for verdict in QUIET}
_NO_READING = Reading("", "", Run("", (), ()), ())


class _PendingCase(Struct, frozen=True):
    """A case with rows that are not judged yet, and its position among the rows that are."""

    position: int
    rows: tuple[Row, ...]
    is_planned: bool


class Tally:
    """The rows, counts and cautions of a check so far."""

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
        self._quiet_rulings = {
            verdict: Ruling(verdict, blocks=True) if verdict in conditions.policy.block else ruling
            for verdict, ruling in _QUIET_RULINGS.items()
            if not conditions.quarantine
        }
        self._counts = Counts()
        self._rows: list[Row] = []
        self._pending: list[_PendingCase] = []
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
        covered_as: str = "",
        comparison: Comparison | None = None,
    ) -> Row:
        """Make a row, with quarantine and policy applied.

        ``covered_as`` is the metric that quarantine entries have to name, if not the row's own: an entry for one number does not cover a crash.
        """
        if not detail and (ruling := self._quiet_rulings.get(verdict)):
            return Row(ruling, case, metric, new, base, rule, comparison=comparison)
        covered = covered_as or metric
        entry, verdict, detail = self._exemptions.apply(verdict, case, covered, rule, detail, new)
        ruling = Ruling(verdict, self._conditions.policy.blocks(verdict, rule, new), detail)
        return Row(ruling, case, metric, new, base, rule, Remarks(quarantine=entry), comparison)

    def locate(
        self, row: Row, reading: Reading | None, index: int | None, expected: ExpectedRow | None
    ) -> Row:
        """Return the row with its places in both files and its repro command."""
        place = (reading or _NO_READING).place(index, row.metric)
        source = reading or self._only_reading
        fits = row.case.probe in {"", source.kind} and (reading or _has_axes_of(row.case, source))
        base_place = expected.place_of(row.metric) if expected else NOWHERE
        remarks = Remarks(place, base_place, row.remarks.quarantine, source.repro if fits else "")
        return structs.replace(row, remarks=remarks)

    def note_unavailable(self, outcome: Outcome) -> None:
        """Record a case that cannot be measured here and that no baseline expects; it gets a caution, but no row."""
        why = outcome.failure.message if outcome.failure else ""
        self._unavailable.setdefault(why, []).append(outcome.case.name)

    def add(self, rows: Sequence[Row], *, planned: bool = False) -> None:
        """Count and keep the rows of one case. ``planned`` says that a plan names the case."""
        if not rows:
            return
        are_quiet = True
        for row in rows:
            if row.is_draft:
                self._pending.append(_PendingCase(len(self._rows), tuple(rows), planned))
                return
            are_quiet = are_quiet and row.is_quiet
        counts = self._counts
        if are_quiet:
            if self._conditions.keep_quiet:
                self._rows += rows
            counts.add(len(rows), planned=True, judged=True)
            counts.points += self._count_points(rows)
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
        counts.points += self._count_points(rows)
        is_red = any(row.blocks and row.verdict is not Verdict.INCONCLUSIVE for row in rows)
        counts.red += is_red
        counts.undecided += not is_red and any(row.is_undecided for row in rows)
        counts.improved += Verdict.IMPROVEMENT in verdicts
        counts.quarantined += Verdict.QUARANTINED in verdicts
        counts.missing += Verdict.MISSING in verdicts
        counts.new += Verdict.NEW in verdicts

    def finish(self, results: Results, baseline: Baseline, cautions: Sequence[Caution] = ()) -> Judgement:
        """Return the judgement, with the further cautions of the caller. Raise UsageError if nothing was judged."""
        self._refuse_unused_rules(results)
        self._judge_pending()
        if not self._rows and not self._counts.judged:
            raise UsageError(
                "nothing was judged: no baseline or rule applies to these results",
                advice="check --baseline, --metric, --only and the rules in torchstone.toml",
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

    def _count_points(self, rows: Sequence[Row]) -> int:
        """Return the number of rows judged without evidence; upstream's own scripts know of none."""
        return 0 if self._upstream else sum(map(is_without_evidence, rows))

    def _judge_pending(self) -> None:
        """Judge all drafts together, and put their cases where they belong among those that were judged at once."""
        pending, self._pending = self._pending, []
        drafts = [row for case in pending for row in case.rows if row.is_draft]
        judged = iter(
            judge_together(drafts, self._conditions.policy, DEFAULTS.alpha / self._conditions.looks)
        )
        before, self._rows = self._rows, []
        start = 0
        for case in pending:
            self._rows += before[start : case.position]
            start = case.position
            rows = [self._finish(next(judged)) if row.is_draft else row for row in case.rows]
            self.add(rows, planned=case.is_planned)
        self._rows += before[start:]

    def _finish(self, row: Row) -> Row:
        """Return a judged row with quarantine and policy applied. Within the margin of a baseline means ``pass``."""
        if row.decided_by:
            return row
        if row.verdict is Verdict.SAME:
            row = structs.replace(row, ruling=structs.replace(row.ruling, verdict=Verdict.PASS))
        return self._exemptions.apply_to_row(row)

    def _refuse_unused_rules(self, results: Results) -> None:
        """Raise UsageError if a rule of the command line applies to nothing: it is probably a typo."""
        for rule in self._conditions.rules.unused():
            metrics = dict.fromkeys(metric for _, _, outcome in results for metric in _metrics_in(outcome))
            scope = "" if rule.case == "*" else f" of {rule.case}"
            advice = f"the results have: {', '.join(metrics)}"
            raise UsageError(f"the rule for '{rule.metric}'{scope} applies to nothing", advice=advice)

    def _cautions(self, results: Results, baseline: Baseline) -> list[Caution]:
        """Return the cautions of the files, and those about rules, statuses, dtypes and missing rows."""
        cautions = [c for reading in (*results.readings, *baseline.readings) for c in reading.cautions]
        unruled = Counter(
            row.metric for row in self._rows if row.verdict is Verdict.INCONCLUSIVE and row.rule is None
        )
        for metric, times in unruled.items():
            if self._conditions.rules.is_unknown(metric):
                cautions.append(make_caution(CautionKind.NO_RULE, metric=metric, rows=times))
        statuses = {row.new.status for row in self._rows if row.new and row.new.status}
        unknown = sorted(status for status in statuses if not is_known_status(status))
        cautions += [make_caution(CautionKind.UNKNOWN_STATUS, status=status) for status in unknown]
        if unmeasured := baseline.unmeasured_dtypes():
            cautions.append(make_caution(CautionKind.DTYPES_NOT_MEASURED, dtypes=", ".join(unmeasured)))
        for why, names in self._unavailable.items():
            cases = names[0] if len(names) == 1 else f"{names[0]} and {count_of(len(names) - 1, 'other')}"
            cases += f": {why}" if why else ""
            cautions.append(make_caution(CautionKind.NOT_AVAILABLE_HERE, cases=cases))
        if self._ignored:
            cautions.append(make_caution(CautionKind.MISSING_ROWS_IGNORED, rows=len(self._ignored)))
        return cautions


def _has_axes_of(case: Case, reading: Reading) -> bool:
    """Return whether a file's repro command would measure a case that the file lacks: its results have the axes that the case states."""
    measured = reading.run.outcomes[0].case.variant.axes() if reading.run.outcomes else {}
    return all(
        measured.get(axis) == value for axis, value in case.variant.axes().items() if axis != "batch_size"
    )


def _metrics_in(outcome: Outcome) -> list[str]:
    status = [ACCURACY] if outcome.case.probe == Probe.ACCURACY else []
    return status + [measurement.metric for measurement in outcome.measurements]
