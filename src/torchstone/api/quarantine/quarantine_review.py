"""Review quarantine entries: which have expired, which match nothing, which could be released."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from enum import StrEnum

from msgspec import Struct

from torchstone.api.showing import show_html, show_text
from torchstone.api.sources import Axes, Input, list_baselines, read_input, read_inputs
from torchstone.core.cautions import Caution
from torchstone.core.config import QUARANTINE_NAME, load_config
from torchstone.core.errors import printable
from torchstone.core.quarantine_entries import EntriesByCase, QuarantineEntry
from torchstone.core.records import Reading, Rule, ScopedRule
from torchstone.core.text.safe_text import quote_word
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import ACCURACY, Verdict
from torchstone.formats.merge import merge
from torchstone.gate.baseline import Baseline
from torchstone.gate.blocking_policy import make_policy
from torchstone.gate.checking.against_baseline import check_against_baseline
from torchstone.gate.judgement import Conditions, Row
from torchstone.gate.rules import RuleBook
from torchstone.reporting.views.result_table import ResultTable


class CheckEntriesRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Repeats of a run to judge the entries by, and their baselines; without one, every status must be pass."""

    results: tuple[Input, ...] = ()
    baselines: tuple[Input, ...] = ()
    platforms: tuple[str, ...] = ()
    axes: Axes = ()
    as_of: date | None = None
    upstream_version: str = ""


class EntryState(StrEnum):
    """What is to be done with an entry."""

    EXPIRED = "expired"
    UNUSED = "unused"
    ACTIVE = "active"
    RELEASE = "release"


class ReviewedEntry(Struct, frozen=True):
    """An entry, how many of the results that it covers passed, and what to do."""

    entry: QuarantineEntry
    state: EntryState
    passed: int
    results: int
    advice: str


class QuarantineReview(Struct, frozen=True):
    """The entries of a quarantine file, each with what to do."""

    name: str
    entries: tuple[ReviewedEntry, ...]
    files: int
    cautions: tuple[Caution, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 1 if an entry has expired, else 0."""
        return int(any(each.state is EntryState.EXPIRED for each in self.entries))

    @property
    def passed(self) -> bool:
        """Whether no entry has expired."""
        return self.exit_code == 0

    @property
    def table(self) -> ResultTable:
        """The entries as a table."""
        rows = [
            (
                each.state.value,
                each.entry.case,
                f"{each.passed} of {each.results}" if self.files else "",
                each.advice,
            )
            for each in self.entries
        ]
        entries = count_of(len(rows), "entry") if rows else "no entries"
        return ResultTable(f"{printable(self.name)}: {entries}", ("", "case", "passed", "what to do"), rows)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return a dictionary for each entry: case, state, passed and covered results, advice."""
        return [
            {
                "case": each.entry.case,
                "state": each.state.value,
                "passed": each.passed,
                "results": each.results,
                "advice": each.advice,
            }
            for each in self.entries
        ]

    def __str__(self) -> str:
        return show_text(self.table)

    def _repr_html_(self) -> str:
        return show_html(self.table)


def review_entries(
    name: str, entries: Sequence[QuarantineEntry], cautions: Sequence[Caution], request: CheckEntriesRequest
) -> QuarantineReview:
    """Review entries by the results of a request."""
    today = request.as_of or date.today()
    expected = [read_input(each) for each in list_baselines(request.baselines)]
    judged = [_judge(reading, expected) for reading in read_inputs(request.results, "", request.axes)]
    covered = [_covered(entries, rows, frozenset(request.platforms)) for rows in judged]
    reviewed = (
        _review(entry, [by_entry[n] for by_entry in covered], today) for n, entry in enumerate(entries)
    )
    return QuarantineReview(name, tuple(reviewed), len(judged), tuple(cautions))


def _judge(reading: Reading, expected: Sequence[Reading]) -> list[Row]:
    """Judge one file as the gate does; without a baseline, each status must be pass."""
    further = load_config(None).rules
    rules = further if expected else (*further, ScopedRule(Rule("must_pass"), ACCURACY))
    conditions = Conditions(make_policy("strict", (), ()), RuleBook(rules))
    return check_against_baseline(merge([reading]), Baseline(expected), conditions).rows


def _covered(
    entries: Sequence[QuarantineEntry], rows: Sequence[Row], platforms: frozenset[str]
) -> list[list[Row]]:
    """Return the rows of one file that each entry covers."""
    index, places = EntriesByCase(entries), {entry: n for n, entry in enumerate(entries)}
    found: list[list[Row]] = [[] for _ in entries]
    for row in rows:
        for entry in index.of(row.case):
            if entry.covers(row.case, row.metric, platforms):
                found[places[entry]].append(row)
    return found


def _review(entry: QuarantineEntry, by_file: Sequence[Sequence[Row]], today: date) -> ReviewedEntry:
    """Return an entry's state, how often it passed, and what to do, from the rows it covers in each file."""
    seen = [{row.case: True for row in rows} for rows in by_file]
    for rows, cases in zip(by_file, seen, strict=True):
        cases.update({row.case: False for row in rows if not _is_good(row)})
    passed, total = sum(sum(cases.values()) for cases in seen), sum(map(len, seen))
    known = {case for cases in seen for case in cases}
    absent = sum(not known <= cases.keys() for cases in seen)
    state, advice = EntryState.ACTIVE, "keep"
    if entry.is_expired(today):
        state = EntryState.EXPIRED
        advice = f"ended {entry.expires}: fix the case, or add --replace with a new date"
    elif by_file and not total:
        state, advice = EntryState.UNUSED, "matches no judged case"
    elif total and passed == total and absent:
        of_what = "no row" if len(known) == 1 else "a case without a row"
        advice = f"{of_what} in {count_of(absent, 'file')}: shard or crash?"
    elif total and passed == total:
        state, advice = EntryState.RELEASE, _how_to_release(entry)
    return ReviewedEntry(entry, state, passed, total, advice)


def _how_to_release(entry: QuarantineEntry) -> str:
    if not entry.line:
        return "passed here: to remove it from the flaky list, add a [[not_flaky]] table"
    of_file = "" if entry.path == QUARANTINE_NAME else f" --file {quote_word(entry.path)}"
    return f"could be released: torchstone quarantine remove {quote_word(entry.case)}{of_file}"


def _is_good(row: Row) -> bool:
    """Return whether a row is no reason to keep an entry: it passes, or its number has improved."""
    return row.verdict in {Verdict.PASS, Verdict.IMPROVEMENT}
