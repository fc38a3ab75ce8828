"""``flaky`` and ``suggest_quarantine``: cases that fail at random, from the statuses in a store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, TypedDict

import msgspec
from msgspec import Struct

from torchstone.api.keeping.series import check_points
from torchstone.api.requests import Path, Texts, make_request
from torchstone.api.showing import show_html, show_text
from torchstone.api.value_checks import MOST_DAYS, check_count
from torchstone.core.config import QUARANTINE_NAME, find_store
from torchstone.core.disk import read_text
from torchstone.core.errors import UsageError
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.records import Case
from torchstone.core.text.safe_text import escape_json, quote_word
from torchstone.core.text.units import count_of, format_share
from torchstone.core.vocabulary import ACCURACY
from torchstone.gate.quarantine_file import (
    Fields,
    add_entry,
    read_quarantine,
    remove_entries,
    render_entry,
    write_quarantine,
)
from torchstone.history.flaky_cases import (
    POINTS,
    FlakyBenchmark,
    Reliability,
    find_flaky,
    group_by_benchmark,
    measure_reliability,
)
from torchstone.reporting.views.names import Names
from torchstone.reporting.views.result_table import ResultTable, show_most
from torchstone.store.database.opening import connect
from torchstone.store.queries import SeriesQuery, find_series
from torchstone.store.stored import Series

if TYPE_CHECKING:
    from typing import Unpack

DAYS = 30
"""Days for which a suggested entry is in force."""


class FlakyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which cases of a store, by name, id or pattern, on which branch; and their points ``since`` a day, at most the ``last`` ones."""

    cases: tuple[str, ...] = ()
    branch: str = ""
    since: str = ""
    last: int = POINTS
    store: str = ""
    config: str | None = None


class SuggestRequest(FlakyRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, the quarantine ``file``, and for how many ``days`` an entry is in force from ``today`` on."""

    file: str = QUARANTINE_NAME
    days: int = DAYS
    today: date | None = None


class FlakyOptions(TypedDict, total=False):
    """Options of ``flaky``, explained in docs/quarantine.md."""

    branch: str
    since: str
    last: int
    store: str
    config: str | None


class SuggestOptions(FlakyOptions, total=False):
    """Options of ``suggest_quarantine``, explained in docs/quarantine.md."""

    file: Path
    days: int
    today: date | None


class FlakyResult(Struct, frozen=True):
    """The flaky cases of a store, the least reliable first. ``known`` is the number of cases whose statuses were looked at."""

    store: str
    cases: tuple[Reliability, ...]
    known: int

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Reliability]:
        return iter(self.cases)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return a dictionary for each flaky case."""
        return [_rate_record(rate) for rate in self.cases]

    def __str__(self) -> str:
        return show_text(self._table())

    def _repr_html_(self) -> str:
        return show_html(self._table())

    def _table(self) -> ResultTable:
        names = Names([rate.case for rate in self.cases])
        rows = [
            (
                names.of(rate.case),
                f"{rate.passed} of {rate.runs}",
                f"{format_share(rate.low)} to {format_share(rate.high)}",
                f"{rate.to_fail} / {rate.to_pass}",
                ", ".join(status for status, _ in rate.statuses),
                rate.last_failure.revision[:12] if rate.last_failure else "",
            )
            for rate in self.cases
        ]
        shown, notes = show_most(rows)
        title = f"{self.store}: {len(rows)} of {count_of(self.known, 'case')} flaky"
        header = ("case", "passed", "95% interval", "to fail / pass", "fails with", "last failure")
        return ResultTable(title, header, shown, notes)


class SuggestedEntry(Struct, frozen=True):
    """An entry for the quarantine file, and the pass rates it is suggested for."""

    case: str
    reason: str
    since: date
    expires: date
    rates: tuple[Reliability, ...]

    @property
    def fields(self) -> Fields:
        """The keys of the entry. It covers the status only: a flaky case that gets slower must still block."""
        return {
            "case": self.case,
            "reason": self.reason,
            "since": self.since,
            "expires": self.expires,
            "metric": (ACCURACY,),
        }

    @property
    def text(self) -> str:
        """The entry as it stands in a quarantine file."""
        return render_entry(self.fields)


class SuggestedRelease(Struct, frozen=True):
    """An entry of the quarantine file whose cases have been stable, and the command that removes it."""

    entry: QuarantineEntry
    reason: str
    command: str


class QuarantineSuggestions(Struct, frozen=True):
    """What to add to a quarantine file, and what to remove. ``write()`` does both."""

    store: str
    path: str
    entries: tuple[SuggestedEntry, ...]
    releases: tuple[SuggestedRelease, ...]
    covered: int
    known: int
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """What was found, in one line."""
        covered = f", {self.covered} quarantined already" if self.covered else ""
        flaky = sum(len(each.rates) for each in self.entries) + self.covered
        return (
            f"{self.store}: {flaky} of {count_of(self.known, 'case')} flaky{covered};"
            f" {count_of(len(self.releases), 'entry')} could be released"
        )

    def write(self) -> None:
        """Add the entries to the file, and remove those that can be released."""
        old = read_text(self.path) if os.path.exists(self.path) else ""
        text = old
        for release in self.releases:
            gone = release.entry
            text, _ = remove_entries(
                self.path,
                text,
                gone.case,
                lambda each, gone=gone: (each.metrics, each.platform) == (gone.metrics, gone.platform),  # type: ignore[misc]
            )
        for each in self.entries:
            text = add_entry(self.path, text, each.fields)
        if text != old:
            write_quarantine(self.path, old, text)

    def to_json(self) -> str:
        """Return the suggestions as JSON."""
        document = {
            "store": self.store,
            "file": self.path,
            "entries": [
                {
                    "case": each.case,
                    "reason": each.reason,
                    "since": each.since,
                    "expires": each.expires,
                    "metric": ACCURACY,
                    "pass_rates": [_rate_record(rate) for rate in each.rates],
                }
                for each in self.entries
            ],
            "releases": [
                {"case": each.entry.case, "reason": each.reason, "command": each.command}
                for each in self.releases
            ],
            "covered": self.covered,
            "cases": self.known,
            "notes": self.notes,
        }
        return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"

    def __str__(self) -> str:
        lines = [self.summary]
        if self.entries:
            lines += ["", f"To add to {self.path}:"]
            lines += [f"\n{each.text.rstrip()}" for each in self.entries]
        if self.releases:
            lines += ["", f"To remove from {self.path}:"]
            lines += [f"\n  {each.entry.case}: {each.reason}\n    {each.command}" for each in self.releases]
        lines += [f"\n{note}" for note in self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [("add", each.case, each.reason) for each in self.entries]
        rows += [("remove", each.entry.case, each.reason) for each in self.releases]
        return show_html(ResultTable(self.summary, ("", "case", "reason"), rows, self.notes))


def flaky(cases: Texts = (), **options: Unpack[FlakyOptions]) -> FlakyResult:
    """Return the cases that fail at random, from the statuses in a store: pass rate with interval, and flips both ways.

    torchstone.flaky("resnet*", branch="main")
    """
    return find_all_flaky(make_request(FlakyRequest, {"cases": cases, **options}))


def find_all_flaky(request: FlakyRequest) -> FlakyResult:
    """Find flaky cases as requested."""
    place, series = _read_statuses(request)
    return FlakyResult(place, tuple(find_flaky(series, request.last)), len(_cases_of(series)))


def suggest_quarantine(cases: Texts = (), **options: Unpack[SuggestOptions]) -> QuarantineSuggestions:
    """Suggest entries of a quarantine file for flaky cases, and releases of entries whose cases have been stable.

    torchstone.suggest_quarantine(branch="main").write()
    """
    return suggest(make_request(SuggestRequest, {"cases": cases, **options}))


def suggest(request: SuggestRequest) -> QuarantineSuggestions:
    """Suggest as requested; nothing is written."""
    check_count("days", request.days, most=MOST_DAYS)
    today = request.today or datetime.now(UTC).date()
    entries = read_quarantine(request.file) if os.path.exists(request.file) else []
    if not entries and request.file != QUARANTINE_NAME and not os.path.exists(request.file):
        raise UsageError(f"there is no file {request.file}", advice="create it, or leave --file out")
    place, series = _read_statuses(request)
    found = find_flaky(series, request.last)
    active = [entry for entry in entries if entry.is_active(today)]
    left = [rate for rate in found if not any(_covers(entry, rate.case) for entry in active)]
    spreads = group_by_benchmark(left, _cases_of(series))
    last_day = today + timedelta(days=request.days)
    rates = [rate for rate in (measure_reliability(each, request.last) for each in series) if rate]
    notes = tuple(
        f"The entry for {entry.case} in line {entry.line} matches no case of the store."
        for entry in active
        if _is_of_status(entry) and not any(_covers(entry, rate.case) for rate in rates)
    )
    return QuarantineSuggestions(
        place,
        request.file,
        tuple(SuggestedEntry(each.pattern, _why(each), today, last_day, each.rates) for each in spreads),
        tuple(_find_releases(active, rates)),
        len(found) - len(left),
        len(_cases_of(series)),
        notes if not request.cases else (),
    )


def _read_statuses(request: FlakyRequest) -> tuple[str, list[Series]]:
    check_points(request.since, request.last)
    query = SeriesQuery(request.cases, (ACCURACY,), (), request.branch, request.since, None)
    with closing(connect(find_store(request.store, request.config))) as connection, connection.reading():
        return connection.place, list(find_series(connection, query))


def _cases_of(series: Sequence[Series]) -> dict[Case, None]:
    return dict.fromkeys(each.key.case for each in series)


def _is_of_status(entry: QuarantineEntry) -> bool:
    return not entry.metrics or ACCURACY in entry.metrics


def _covers(entry: QuarantineEntry, case: Case) -> bool:
    """Return whether an entry covers the status of a case, on some platform."""
    return entry.covers(case, ACCURACY, frozenset({entry.platform}))


def _why(spread: FlakyBenchmark) -> str:
    """Return the reason of an entry: how often its least reliable case fails, and how."""
    rate = spread.rates[0]
    failed = rate.runs - rate.passed
    how = " and ".join(status for status, _ in rate.statuses[:2])
    last = f", last at {rate.last_failure.revision[:12]}" if rate.last_failure else ""
    others = f"; {count_of(len(spread.rates), 'case')} of it flaky" if len(spread.rates) > 1 else ""
    return (
        f"flaky: {failed} of {rate.runs} runs failed ({how}); 95% interval of the pass rate"
        f" {format_share(rate.low)} to {format_share(rate.high)}{last}{others}"
    )


def _find_releases(
    active: Sequence[QuarantineEntry], rates: Sequence[Reliability]
) -> Iterator[SuggestedRelease]:
    """Yield the entries whose cases have all passed for long enough. One about other metrics is left to 'quarantine check'."""
    for entry in active:
        covered = [rate for rate in rates if _covers(entry, rate.case)]
        if (
            entry.metrics not in {(), (ACCURACY,)}
            or not covered
            or not all(rate.is_stable for rate in covered)
        ):
            continue
        least = min(covered, key=lambda rate: rate.streak - rate.needed_streak)
        reason = f"the last {least.streak} runs passed; {least.needed_streak} in a row show that it is stable"
        of_file = "" if entry.path == QUARANTINE_NAME else f" --file {quote_word(entry.path)}"
        yield SuggestedRelease(
            entry, reason, f"torchstone quarantine remove {quote_word(entry.case)}{of_file}"
        )


def _rate_record(rate: Reliability) -> dict[str, object]:
    return {
        "case": rate.case.id,
        "machine": rate.machine,
        "runs": rate.runs,
        "passed": rate.passed,
        "rate": rate.rate,
        "low": rate.low,
        "high": rate.high,
        "flips_to_fail": rate.to_fail,
        "flips_to_pass": rate.to_pass,
        "passed_in_a_row": rate.streak,
        "statuses": dict(rate.statuses),
        "last_failure": rate.last_failure.revision if rate.last_failure else None,
    }
