"""A quarantine file from Python: the same entries, the same errors and the same advice as the command."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

import torchstone
from conftest import Command, WriteFile

HEADER = "dev,name,batch_size,accuracy\n"
BAD = f"{HEADER}cuda,flaky1,8,fail_to_run\ncuda,good,8,pass\n"
GOOD = f"{HEADER}cuda,flaky1,8,pass\ncuda,good,8,pass\n"


@pytest.fixture
def quarantine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: WriteFile) -> torchstone.Quarantine:
    monkeypatch.chdir(tmp_path)
    write("bad.csv", BAD)
    write("good.csv", GOOD)
    write("expected.csv", "name,accuracy\nflaky1,pass\ngood,pass\n")
    return torchstone.Quarantine("q.toml")


def test_entries_are_added_listed_and_removed(quarantine: torchstone.Quarantine) -> None:
    added = quarantine.add("flaky*", "races", metrics="accuracy", expires=date(2199, 12, 31))
    assert quarantine.entries() == [added]
    assert (added.case, added.reason, added.metrics, added.since) == (
        "flaky*",
        "races",
        ("accuracy",),
        date.today(),
    )
    with pytest.raises(torchstone.UsageError, match="has an entry"):
        quarantine.add("flaky*", "races", metrics="accuracy")
    again = quarantine.add("flaky*", "still races", replace=True)
    assert (again.reason, again.metrics, again.expires) == ("still races", ("accuracy",), added.expires)
    assert quarantine.remove("flaky*") == [again]
    assert not quarantine.entries()
    with pytest.raises(torchstone.UsageError, match=r"q\.toml has no entry for flaky"):
        quarantine.remove("flaky*")


def test_it_stands_for_its_file_in_a_check(quarantine: torchstone.Quarantine) -> None:
    assert not torchstone.check("bad.csv", baselines="expected.csv").passed
    quarantine.add("flaky1", "races")
    for given in (quarantine, [quarantine], quarantine.path):
        assert torchstone.check("bad.csv", baselines="expected.csv", quarantines=given).passed


def test_a_review_says_what_the_command_says(quarantine: torchstone.Quarantine, torchstone: Command) -> None:
    quarantine.add("flaky1", "races")
    quarantine.add("gone", "races", since=date(2020, 1, 1), expires=date(2020, 2, 1))
    review = quarantine.check(["good.csv", "good.csv"], baselines="expected.csv")
    ran = torchstone(
        "quarantine", "check", "good.csv", "good.csv", "--baseline", "expected.csv", "--file", "q.toml"
    )
    assert (review.exit_code, review.passed, ran.code) == (1, False, 1)
    assert [(each["case"], each["state"], each["passed"]) for each in review.to_dicts()] == [
        ("flaky1", "release", 2),
        ("gone", "expired", 0),
    ]
    assert str(review).splitlines()[0] == ran.out.splitlines()[0]
    assert "torchstone quarantine remove flaky1 --file q.toml" in ran.out
    assert "<table>" in review._repr_html_()
    assert quarantine.check("bad.csv", as_of=date(2020, 1, 15)).passed


def test_entries_of_upstream_are_listed_too(quarantine: torchstone.Quarantine) -> None:
    Path("q.toml").write_text('[[not_flaky]]\ncase = "none_of_this_name"\nreason = "r"\n')
    assert not quarantine.entries()
    assert quarantine.entries(upstream_version="2.13")
    assert [caution.kind.value for caution in quarantine.check(upstream_version="2.13").cautions]


def test_without_the_usual_file_nothing_is_quarantined(quarantine: torchstone.Quarantine) -> None:
    assert torchstone.Quarantine().entries() == []
    with pytest.raises(torchstone.InputError, match="no such file"):
        quarantine.entries()


@pytest.mark.parametrize("value", [5, None, [], b"x", object(), "\x00"])
def test_wrong_arguments_are_usage_errors(quarantine: torchstone.Quarantine, value: Any) -> None:  # noqa: ANN401  (anything)
    for call in (
        torchstone.Quarantine,
        quarantine.entries,
        quarantine.remove,
        lambda case: quarantine.add(case, "reason"),
        lambda reason: quarantine.add("case", reason),
        lambda link: quarantine.add("case", "reason", link=[] if link is None else link),
    ):
        with pytest.raises(torchstone.UsageError):
            call(value)
    assert not Path("q.toml").exists()


def test_a_date_is_a_date(quarantine: torchstone.Quarantine) -> None:
    with pytest.raises(torchstone.UsageError, match="expires='tomorrow': expected a date"):
        quarantine.add("case", "reason", expires="tomorrow")  # type: ignore[arg-type]
    with pytest.raises(torchstone.UsageError, match="as_of=5: expected a date"):
        quarantine.check(as_of=5)  # type: ignore[arg-type]
