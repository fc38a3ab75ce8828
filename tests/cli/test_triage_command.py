"""``torchstone triage``: decisions about groups in a store, by people and by the data."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from msgspec import structs

import torchstone
from changed_stores import STORE, make_store, nights, step, usual_store
from conftest import Command
from stored_runs import opened
from torchstone.core.records import Revision
from torchstone.core.run_file import encode_run
from torchstone.history.change_records import TriageState


@pytest.fixture
def history(torchstone: Command) -> Command:
    usual_store()
    return torchstone


def group_of(command: Command, name: str) -> str:
    """The number of the first group in which this benchmark got worse."""
    document = json.loads(command("changes", "--format", "json").out)
    worse = (
        each for each in document["changes"] if each["direction"] == "regression" and each["name"] == name
    )
    return str(min(each["group"] for each in worse))


def events() -> list[tuple[int, str, str]]:
    with opened(STORE) as database:
        return database.query("SELECT group_id, state, reason FROM triage_events ORDER BY id")


def test_a_group_is_listed_shown_and_decided_about(history: Command) -> None:
    number = group_of(history, "net")
    assert f"{number}  " in history("triage", "list").out
    shown = history("triage", "show", number).out
    assert "state: new" in shown
    assert "2 changes of 2 cases, worst first" in shown
    assert f"torchstone triage set {number} acknowledged" in shown
    assert max(len(line) for line in shown.splitlines() if "torchstone" not in line) <= 80
    ran = history(
        "triage", "set", number, "acknowledged", "--owner", "ada", "--link", "https://example.com/7"
    )
    assert (ran.code, f"group {number} is acknowledged, owner ada" in ran.out) == (0, True)
    ran = history("triage", "set", number, "expected", "--reason", "more precise")
    assert "the level after the change is the reference now" in ran.out
    shown = history("triage", "show", number).out
    assert "state: expected, looked after by ada: more precise" in shown
    assert "owner ada, https://example.com/7" in shown
    assert "open it again" in shown
    listed = history("triage", "list")
    assert "1 closed group not shown" in listed.out
    assert "expected: " in history("triage", "list", "--all").out


def test_nothing_is_ever_removed_from_the_log(history: Command) -> None:
    number = group_of(history, "net")
    for state in ("acknowledged", "noise", "new", "wontfix"):
        assert history("triage", "set", number, state, "--reason", f"now {state}").code == 0
    mine = [(state, reason) for group, state, reason in events() if str(group) == number]
    assert mine == [(each, f"now {each}") for each in ("acknowledged", "noise", "new", "wontfix")]
    page = json.loads(history("triage", "show", number, "--format", "json").out)
    assert [each["state"] for each in page["group"]["events"]] == ["acknowledged", "noise", "new", "wontfix"]


def test_lists_are_narrowed_by_state_and_owner(history: Command) -> None:
    net, bad = group_of(history, "net"), group_of(history, "bad")
    history("triage", "set", net, "investigating", "--owner", "ada")

    def listed(*options: str) -> list[str]:
        return [
            str(each["id"])
            for each in json.loads(history("triage", "list", "--format", "json", *options).out)["groups"]
        ]

    assert sorted(listed()) == sorted([net, bad])
    assert listed("--state", "investigating") == [net]
    assert listed("--owner", "ada") == [net]
    assert listed("--state", "new") == [bad]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("set", "99", "new"), "no such group"),
        (("set", "one", "new"), "expected the number of a group"),
        (("show", "99"), "no such group"),
        (("set", "1", "acknowleged"), "did you mean 'acknowledged'"),
        (("set", "1", "expected"), "needs a reason"),
        (("set", "1", "fixed"), "not fixed yet"),
        (("set", "1", "duplicate"), "--of GROUP"),
        (("set", "1", "duplicate", "--of", "77"), "77"),
        (("set", "1", "new"), "new already"),
        (("list", "--state", "open"), "no such state"),
        (("list", "--store", "nowhere.db"), "there is no store"),
    ],
)
def test_bad_input_is_a_clear_error_and_changes_nothing(
    history: Command, arguments: tuple[str, ...], told: str
) -> None:
    history("changes")
    ran = history("triage", *arguments)
    assert ran.code == 2
    assert told in ran.err
    assert events() == []


def test_what_is_wrong_with_the_present_state_is_told_with_the_way_out(history: Command) -> None:
    number = group_of(history, "net")
    history("triage", "set", number, "noise")
    ran = history("triage", "set", number, "wontfix")
    assert (ran.code, f"torchstone triage set {number} new" in ran.err) == (2, True)


def test_a_level_that_came_back_closes_its_group(torchstone: Command) -> None:
    levels = {"net": step(20, 1.3, back=40, count=49), "mlp": step(99, count=49)}
    runs = list(nights(levels))
    make_store(*runs[:48])
    number = group_of(torchstone, "net")
    assert "state: new" in torchstone("triage", "show", number).out
    make_store(*nights({"net": [1.0] * 12, "mlp": [1.0] * 12}, first=49))
    shown = torchstone("triage", "show", number).out
    assert "state: fixed: the level is back since" in shown
    assert "by torchstone" in shown
    assert torchstone("changes", "--gate").code == 0


def test_a_person_may_say_fixed_once_the_newest_points_are_back(torchstone: Command) -> None:
    make_store(*nights({"net": step(20, 1.3, back=38, count=41)}))
    number = group_of(torchstone, "net")
    ran = torchstone("triage", "set", number, "fixed", "--reason", "reverted")
    assert (ran.code, "is fixed" in ran.out) == (0, True)


def test_a_case_that_fails_again_after_its_fix_opens_the_group(torchstone: Command) -> None:
    make_store(*nights({}, {"net": "." * 15 + "t" * 6 + "." * 14}))
    number = group_of(torchstone, "net")
    assert "state: fixed" in torchstone("triage", "show", number).out
    make_store(*nights({}, {"net": "t" * 6}, first=36))
    shown = torchstone("triage", "show", number).out
    assert "state: new: relapse at" in shown
    document = json.loads(torchstone("triage", "list", "--format", "json").out)
    assert [str(each["id"]) for each in document["groups"]] == [number]


def test_two_people_at_once_lose_no_update(history: Command) -> None:
    history("changes")
    told: list[str] = []

    def decide(author: str) -> None:
        for n in range(8):
            found = torchstone.Triage(STORE).set(1, "acknowledged", reason=f"{author} {n}", author=author)
            told.append(found.reason)

    people = [threading.Thread(target=decide, args=(name,)) for name in ("ada", "bob", "eve")]
    for each in people:
        each.start()
    for each in people:
        each.join()
    kept = [reason for _, _, reason in events()]
    assert sorted(kept) == sorted(f"{name} {n}" for name in ("ada", "bob", "eve") for n in range(8))
    assert len(told) == 24


def test_who_decides_on_an_old_page_is_told(history: Command) -> None:
    history("changes")
    triage = torchstone.Triage(STORE)
    triage.set(1, "acknowledged", author="ada", seen=0)
    with pytest.raises(torchstone.UsageError, match="changed meanwhile: it is acknowledged, by ada"):
        triage.set(1, "noise", author="bob", seen=0)
    assert [state for _, state, _ in events()] == ["acknowledged"]


def test_the_same_from_python(history: Command) -> None:
    history("changes")
    triage = torchstone.Triage()
    listed = triage.list()
    assert (len(listed), {each.state for each in listed}) == (2, {"new"})
    assert str(listed) + "\n" == history("triage", "list").out
    shown = triage.show(1)
    assert shown.group.id == 1
    assert str(shown) + "\n" == history("triage", "show", "1").out
    for each in (listed, shown):
        with pytest.raises(torchstone.UsageError, match="did you mean 'markdown'"):
            each.render("markdwn")
        assert "<table>" in each._repr_html_()
    decided = triage.set(1, TriageState.EXPECTED, reason="known", owner="ada")
    assert (decided.state, decided.owner, decided.is_open) == ("expected", "ada", False)
    assert [each.state for each in triage.list("expected")] == ["expected"]


def test_the_page_of_a_group_is_the_body_of_an_issue(history: Command) -> None:
    number = group_of(history, "net")
    out = history("triage", "show", number, "--format", "markdown").out
    assert out.startswith(f"## Performance change {number}: ")
    assert "| `net` | abs\\_latency |" in out
    assert f"`torchstone triage set {number} acknowledged --owner NAME`" in out


def test_expected_makes_the_new_level_the_baseline(torchstone: Command, tmp_path: Path) -> None:
    runs = list(nights({"net": step(36, count=41)}))
    make_store(*runs[:40])
    (tmp_path / "new.jsonl").write_text(
        encode_run(structs.replace(runs[40], revision=Revision("f" * 40, "mine")))
    )
    judge = ("check", "new.jsonl", "--baseline", "history:main")
    number = group_of(torchstone, "net")
    assert torchstone(*judge).code == 1
    assert torchstone("triage", "set", number, "expected", "--reason", "more precise").code == 0
    ran = torchstone(*judge)
    assert (ran.code, ran.err) == (0, "")
