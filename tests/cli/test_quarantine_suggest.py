"""``torchstone quarantine suggest`` and ``torchstone.flaky``: from the statuses in a store to entries of a file."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

import torchstone
from comparison_files import case_of
from conftest import Command
from stored_runs import opened, recorded, run_of
from torchstone.core.records import Outcome
from torchstone.gate.quarantine_file import read_quarantine

STORE = ".torchstone/history.db"
TODAY = datetime.now(UTC).date()


def record_statuses(**by_case: str) -> None:
    """Record runs of cases whose statuses are given as letters: ``.`` passed, ``t`` timed out."""
    length = max(map(len, by_case.values()))
    with opened(STORE) as database:
        recorded(
            database,
            *(
                run_of(
                    n,
                    [
                        Outcome(case_of(name), "pass" if text[n] == "." else "timeout", ())
                        for name, text in by_case.items()
                    ],
                )
                for n in range(length)
            ),
        )


@pytest.fixture
def history(torchstone: Command) -> Command:
    flaky = "...t......t......t.......t..." + "." * 5
    record_statuses(flaky=flaky, good="." * len(flaky), broken="." * 20 + "t" * (len(flaky) - 20))
    return torchstone


def test_a_flaky_case_is_suggested_with_reason_and_expiry(history: Command) -> None:
    ran = history("quarantine", "suggest")
    assert ran.code == 0
    assert '[[quarantine]]\ncase = "flaky"\nreason = "flaky: 4 of 34 runs failed (timeout);' in ran.out
    assert f"expires = {TODAY + timedelta(days=30)}" in ran.out
    assert "broken" not in ran.out
    assert "nothing was changed" in ran.out
    assert not Path("quarantine.toml").exists()


def test_applied_suggestions_are_in_the_file_and_not_suggested_again(history: Command) -> None:
    assert history("quarantine", "suggest", "--apply", "--days", "7").code == 0
    (entry,) = read_quarantine("quarantine.toml")
    assert (entry.case, entry.metrics, entry.expires) == ("flaky", ("accuracy",), TODAY + timedelta(days=7))
    ran = history("quarantine", "suggest")
    assert "1 of 3 cases flaky, 1 quarantined already" in ran.out


def test_an_entry_whose_case_has_been_stable_is_released(torchstone: Command) -> None:
    record_statuses(net="..t..t..t.." + "." * 30, bad="..t..t..t..." + "." * 10 + "t" + "." * 18)
    Path("quarantine.toml").write_text(
        '# why\n[[quarantine]]\ncase = "net"\nreason = "timeouts"\n\n[[quarantine]]\ncase = "bad"\nreason = "x"\n'
        '\n[[quarantine]]\ncase = "gone"\nreason = "x"\n'
    )
    document = json.loads(torchstone("quarantine", "suggest", "--format", "json").out)
    (release,) = document["releases"]
    assert (release["case"], release["command"]) == ("net", "torchstone quarantine remove net")
    assert document["notes"] == ["The entry for gone in line 10 matches no case of the store."]
    assert torchstone("quarantine", "suggest", "--apply").code == 0
    assert [entry.case for entry in read_quarantine("quarantine.toml")] == ["bad", "gone"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--only", "flakky"), "did you mean 'flaky'?"),
        (("--since", "yesterday"), "expected a date"),
        (("--days", "0"), "expected a whole number from 1"),
        (("--file", "other.toml"), "there is no file other.toml"),
        (("--store", "nowhere.db"), "there is no store"),
    ],
)
def test_bad_input_is_a_clear_error(history: Command, options: tuple[str, ...], told: str) -> None:
    ran = history("quarantine", "suggest", *options)
    assert ran.code == 2
    assert told in ran.err


def test_the_same_from_python(history: Command) -> None:
    found = torchstone.flaky()
    assert (len(found), found.known) == (1, 3)
    (record,) = found.to_dicts()
    assert (record["passed"], record["runs"], record["flips_to_fail"], record["flips_to_pass"]) == (
        30,
        34,
        4,
        4,
    )
    assert all(len(line) <= 80 for line in str(found).splitlines())
    assert "<table>" in found._repr_html_()
    suggestions = torchstone.suggest_quarantine(today=date(2027, 1, 1), days=10)
    assert suggestions.entries[0].expires == date(2027, 1, 11)
    assert "<table>" in suggestions._repr_html_()
    with pytest.raises(torchstone.UsageError):
        torchstone.flaky(last=0)
