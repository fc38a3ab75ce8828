"""``torchstone changes``: what changed in a store, as text, JSON and Markdown, and as a gate."""

from __future__ import annotations

import json
import re
import sqlite3

import pytest

import torchstone
from changed_stores import STORE, make_store, nights, step, usual_store
from conftest import Command
from stored_runs import new_database


@pytest.fixture
def history(torchstone: Command) -> Command:
    usual_store()
    return torchstone


def test_every_change_is_in_the_json_and_series_without_one_are_not(history: Command) -> None:
    ran = history("changes", "--format", "json")
    assert ran.code == 0
    document = json.loads(ran.out)
    found = {
        (each["case"].split("::")[1].split("[")[0], each["metric"]): each for each in document["changes"]
    }
    assert set(found) == {("net", "abs_latency"), ("mlp", "abs_latency"), ("bad", "accuracy")}
    slower = found["net", "abs_latency"]
    assert slower["effect"] == pytest.approx(1.2, abs=0.02)
    assert (slower["last_old"], slower["first_new"]) == (f"{25:040x}", f"{26:040x}")
    assert (slower["state"], slower["direction"]) == ("new", "regression")
    assert slower["certainty"] > 0.8
    failing = found["bad", "accuracy"]
    assert (failing["before"], failing["after"], failing["effect"]) == ("pass", "timeout", None)
    assert slower["group"] == found["mlp", "abs_latency"]["group"] != failing["group"]
    assert document["open_regressions"] == 2


def test_text_has_80_columns_and_open_regressions_first(history: Command) -> None:
    out = history("changes").out
    assert max(map(len, out.splitlines())) <= 80
    assert out.startswith(".torchstone/history.db: 2 open regressions; 3 changes in ")
    assert re.search(
        r"net +abs_latency +\+(19|20)\.\d% +1 -> 1\.2 ms|net +abs_latency +\+(19|20)\.\d% +[\d.]+ -> [\d.]+ ms",
        out,
    )
    assert "pass -> timeout" in out


def test_markdown_has_a_table_of_groups_and_their_members(history: Command) -> None:
    out = history("changes", "--format", "markdown").out
    assert "### Open regressions" in out
    assert "<details><summary>Group " in out
    assert "| `net` | abs\\_latency | +" in out


def test_the_gate_is_red_while_a_regression_is_open(history: Command) -> None:
    assert history("changes").code == 0
    ran = history("changes", "--gate")
    assert (ran.code, ran.err) == (1, "gate: 2 confirmed regressions are open: exit code 1\n")
    for group in json.loads(history("changes", "--format", "json").out)["groups"]:
        assert history("triage", "set", str(group["id"]), "expected", "--reason", "known").code == 0
    assert history("changes", "--gate").code == 0
    assert "0 open regressions" in history("changes").out


def test_changes_are_chosen_by_name_and_by_age(history: Command) -> None:
    def cases(*options: str) -> set[str]:
        return {
            each["name"]
            for each in json.loads(history("changes", "--format", "json", *options).out)["changes"]
        }

    assert cases("-k", "^N") == {"net"}
    assert cases("-k", "nobody") == set()
    assert cases("--since", f"{30:040x}") == {"bad"}
    assert cases("--since", "2026-11-01") == {"net", "mlp", "bad"}
    assert cases("--since", "2026-12-01") == set()
    assert cases("--branch", "other") == set()


def test_what_is_recorded_later_is_found_and_what_was_found_stays(history: Command) -> None:
    before = {each.id: each for each in torchstone.changes()}
    make_store(*nights({"same": step(0, 1.4, count=12)}, first=41))
    after = {each.id: each for each in torchstone.changes()}
    assert before.keys() < after.keys()
    assert {after[new].name for new in after.keys() - before.keys()} == {"same"}


def test_a_store_without_changes_says_so(torchstone: Command) -> None:
    make_store(*nights({"net": step(99)}))
    ran = torchstone("changes", "--gate")
    assert (ran.code, ran.out.startswith(".torchstone/history.db: no changes in 2 series up to ")) == (
        0,
        True,
    )
    assert json.loads(torchstone("changes", "--format", "json").out)["changes"] == []
    assert ": no matching changes in 2 series" in torchstone("changes", "-k", "other").out


def test_an_empty_store_says_so(torchstone: Command) -> None:
    make_store()
    ran = torchstone("changes")
    assert ran.code == 0
    assert "The store has no runs yet" in ran.out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--store", "nowhere.db"), "there is no store"),
        (("-k", "("), "not a regular expression"),
        (("--since", "last week"), "neither a date such as 2026-12-31 nor a revision"),
        (("--format", "yaml"), "yaml"),
    ],
)
def test_bad_input_is_a_clear_error(history: Command, options: tuple[str, ...], told: str) -> None:
    ran = history("changes", *options)
    assert ran.code == 2
    assert told in ran.err


def test_a_store_of_a_newer_version_is_refused(history: Command) -> None:
    with sqlite3.connect(STORE) as database:
        database.execute("INSERT INTO migrations SELECT 99, name, applied_at FROM migrations LIMIT 1")
    ran = history("changes")
    assert ran.code == 2
    assert "newer" in ran.err


def test_a_store_that_may_only_be_read_shows_what_was_found_before(
    torchstone: Command, postgres: str
) -> None:
    url = new_database(postgres)
    usual_store(url)
    assert len(torchstone("changes", "--store", url, "--format", "json").out) > 100
    assert torchstone("triage", "set", "1", "investigating", "--store", url).code == 0
    assert "sent 2" in torchstone("triage", "notify", "--file", "told.jsonl", "--store", url).out
    make_store(*nights({"net": step(0, 1.4)}, first=41), store=url)
    read_only = f"{url}&options=-c%20default_transaction_read_only%3Don"
    ran = torchstone("changes", "--store", read_only)
    assert ran.code == 0
    assert "2 open regressions; 3 changes" in " ".join(ran.out.split())
    assert "The store is read-only" in ran.out
    assert torchstone("triage", "list", "--store", read_only).code == 0
    ran = torchstone("triage", "set", "1", "acknowledged", "--store", read_only)
    assert (ran.code, "read-only" in ran.err) == (2, True)


def test_the_same_from_python(history: Command) -> None:
    found = torchstone.changes()
    assert (len(found), len(found.groups), found.passed, found.exit_code) == (3, 2, False, 1)
    assert found.to_dicts()[0]["case"]
    assert str(found) + "\n" == history("changes").out
    assert "<table>" in found._repr_html_()
    assert json.loads(found.render("json"))["changes"]
    with pytest.raises(torchstone.UsageError, match="did you mean 'json'"):
        found.render("jsn")
