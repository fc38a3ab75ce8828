"""Describe the rows of a check: text, numbers and commands, the same for every format."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from msgspec import Struct

from torchstone.analyze.evidence import MOST_MORE
from torchstone.core.records import Case, FilePlace, unit_of
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import join_words, quote_word, simple_command
from torchstone.core.text.units import count_of, format_change, format_number, format_value
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import Judgement, Row, State, severity
from torchstone.gate.rules import describe_rule, limits_of
from torchstone.reporting.views.accepting import AcceptAdvice, Acceptance, find_advice, trials_needed
from torchstone.reporting.views.names import Names
from torchstone.reporting.views.report_view import (
    RowText,
    change_text,
    describe_more,
    exit_text,
    expired_text,
    percent,
    undecided_text,
)


class Context(Struct, frozen=True):
    """The files of a judgement, as the user named them, for the commands that the report suggests.

    ``baselines`` has the probes of each baseline file. ``check_options`` and ``accept_options`` are repeated in
    the suggested commands. ``terms`` are the conditions for accepting. ``repeated`` has the cases of each name
    that several cases of a file share; suggested commands use ids for them.
    """

    results: tuple[str, ...]
    baselines: dict[str, frozenset[str]]
    terms: Acceptance
    check_options: tuple[str, ...] = ()
    accept_options: tuple[str, ...] = ()
    repeated: dict[str, tuple[Case, ...]] = {}


class Report(Struct, frozen=True, dict=True):
    """A judgement with the context needed to describe it."""

    judgement: Judgement
    context: Context

    @property
    def headline(self) -> str:
        """The outcome in one line, with its label where rows were judged."""
        if self.judgement.rounds and not self.judgement.counts.rows:
            return self.finding
        return f"{self.judgement.state}: {self.finding}"

    @property
    def finding(self) -> str:
        """The outcome in one line, without a label."""
        counts, judgement = self.judgement.counts, self.judgement
        policy = judgement.policy.title
        if judgement.rounds and not counts.rows:
            return (
                f"{count_of(len(judgement.rounds.rows), 'round')} compared; the {policy} judges none of them"
            )
        if judgement.state is State.UNDECIDED:
            return f"{undecided_text(judgement, counts.rows)}; {exit_text(judgement)}"
        if judgement.exit_code == 0:
            return f"{count_of(counts.judged, 'case')} judged, none red ({policy})"
        parts = []
        if counts.red:
            are = "is" if counts.red == 1 else "are"
            parts.append(f"{counts.red:,} of {count_of(counts.cases, 'case')} {are} red")
        if counts.undecided:
            parts.append(f"{counts.undecided:,} undecided")
        parts += filter(None, [expired_text(judgement)])
        return f"{', '.join(parts)}; {exit_text(judgement)}"

    @property
    def is_pass(self) -> bool:
        """Return whether nothing blocks, and everything was decided."""
        return self.judgement.state is State.PASS

    @property
    def summary(self) -> dict[str, int]:
        """Return the counts, in display order."""
        counts = self.judgement.counts
        return {
            "planned": counts.planned,
            "judged": counts.judged,
            "red": counts.red,
            "undecided": counts.undecided,
            "improved": counts.improved,
            "quarantined": counts.quarantined,
            "missing": counts.missing,
            "new": counts.new,
        }

    command: ClassVar[str] = "check"
    environment: ClassVar[str] = ""  # each difference is a caution of its own

    @property
    def red(self) -> list[Row]:
        """Return the rows that block, worst first."""
        return self.judgement.red

    @property
    def ordered(self) -> list[Row]:
        """Return all rows, in the order they were judged."""
        return self.judgement.rows

    def of_verdict(self, verdict: Verdict) -> list[Row]:
        """Return the rows with this verdict that do not block."""
        return [row for row in self.judgement.rows if row.verdict is verdict and not row.blocks]

    def sort(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Sort rows of one verdict, largest change first."""
        return sorted(rows, key=severity)

    def name_of(self, case: Case) -> str:
        """Return the name of a case, with the axes that distinguish it from others of its name."""
        return self._names.of(case) if case.benchmark in self.context.repeated else short_name(case)

    @cached_property
    def _names(self) -> Names:
        """Return the names of the cases that share theirs."""
        return Names(case for cases in self.context.repeated.values() for case in cases)

    def finding_of(self, row: Row) -> str:
        """Return the finding in one line."""
        return describe_finding(row)

    def row_text(self, row: Row) -> RowText:
        """Return the full text of a row."""
        return describe(row, self.context)

    def place_of(self, row: Row) -> FilePlace:
        """Return the baseline's line, which is in the repository; the result's if there is none."""
        return row.remarks.base_place or row.remarks.new_place


def describe(row: Row, context: Context) -> RowText:
    """Return the full text of a row."""
    advice, more = _accept_advice(row, context), row.more_new
    rule = describe_rule(row.rule, row.margin) + _describe_limits(row) if row.rule else "none"
    places = row.remarks.new_place or "no result", row.remarks.base_place
    return RowText(
        describe_finding(row),
        (("rule", rule), ("at", ", baseline ".join(str(place) for place in places if place))),
        _trials_command(row, more) or repro_command(row, context),
        _accept_command(row, context, advice),
        advice.instead if row.blocks and advice.options is None else "",
    )


def short_name(case: Case, *, axes: bool = False) -> str:
    """Return the case's name with its further axes, such as ranks; with ``axes``, with all its axes."""
    shown = case.variant.axes() if axes else dict(case.variant.further)
    further = ", ".join(f"{axis} {value}" for axis, value in shown.items())
    return f"{case.name} ({further})" if further else case.name


def describe_finding(row: Row) -> str:
    """Return the finding: ``accuracy: fail_to_run, expected pass``; for numbers with the change in percent."""
    unit = unit_of(row.metric, row.new, row.base)
    is_tested = row.comparison is not None and row.comparison.p_value is not None
    actual, expected = row.new_value, row.base_value if is_tested else row.expected_value
    text = f"{row.metric}: {'no result' if actual is None else format_value(actual, unit)}"
    if expected is not None:
        text += f", expected {format_value(expected, unit)}"
    if row.criteria is not None and row.comparison is not None and is_tested:
        text += f" ({change_text(row.comparison, percent(1 - row.criteria.alpha))})"
    elif isinstance(actual, int | float) and isinstance(expected, int | float):
        text += f" ({format_change(actual, expected)})"
    return "; ".join(part for part in (text, row.detail, describe_more(row.more_new, "")) if part)


def _describe_limits(row: Row) -> str:
    """Return the range that the rule allows, in numbers."""
    expected = row.expected_value
    if row.rule is None or not isinstance(expected, int | float):
        return ""
    limits = limits_of(row.rule, expected, row.margin)
    parts = []
    if limits.low is not None:
        parts.append(f">= {format_number(limits.low)}")
    if limits.high is not None:
        parts.append(f"<= {format_number(limits.high)}")
    return f" ({' and '.join(parts)})" if parts else ""


def _trials_command(row: Row, more: int | None) -> str:
    """Return the command that measures an undecided case in as many trials as would settle it; empty if that is not known."""
    if more is None or more > MOST_MORE or not row.remarks.measure:
        return ""
    return redact(f"{row.remarks.measure} --trials {trials_needed(row, more)}")


def repro_command(row: Row, context: Context) -> str:
    """Return the command that measures the case again, or if unknown, the one that judges it again."""
    if row.new is not None and (command := simple_command(row.new.repro)):
        return command
    if command := simple_command(row.remarks.repro.replace("{name}", quote_word(row.case.benchmark))):
        return command
    if row.remarks.measure:
        return redact(row.remarks.measure)
    baselines = [part for path in context.baselines for part in ("--baseline", path)]
    return _command(
        "check",
        *_results_of(row, context),
        *baselines,
        *context.check_options,
        "--only",
        _pattern(row, context),
    )


def _accept_advice(row: Row, context: Context) -> AcceptAdvice:
    return find_advice(row, context.terms, _baseline_of(row, context), row.remarks.new_place.path)


def _accept_command(row: Row, context: Context, advice: AcceptAdvice) -> str:
    """Return the command that accepts the result into the baseline; empty if there is nothing to accept."""
    baseline = _baseline_of(row, context)
    if advice.options is None or not baseline:
        return ""
    files = (*_results_of(row, context), "--baseline", baseline)
    return _command(
        "accept", *files, *context.accept_options, *advice.options, "--only", _pattern(row, context)
    )


def _baseline_of(row: Row, context: Context) -> str:
    """Return the baseline file that has the row, or that it would be added to."""
    if row.remarks.base_place:
        return row.remarks.base_place.path
    fitting = [path for path, probes in context.baselines.items() if probes & {"", row.case.probe}]
    return fitting[0] if fitting else ""


def _results_of(row: Row, context: Context) -> Sequence[str]:
    """Return the file of the row's result; all files if it has none."""
    from_one = row.new is not None and row.remarks.new_place
    return [row.remarks.new_place.path] if from_one else context.results


def _pattern(row: Row, context: Context) -> str:
    """Return a pattern that matches only this case: its name, or its id if others have the same name."""
    return row.case.id if row.case.benchmark in context.repeated else row.case.benchmark


def _command(name: str, *arguments: str) -> str:
    return join_words(map(redact, ("torchstone", name, *arguments)))
