"""``torchstone triage notify``: each group is told once, what failed is told next time, and no secret is kept or shown."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import torchstone
from changed_stores import STORE, make_store, nights, step, usual_store
from conftest import Command
from stored_runs import opened, rows_of
from webhook_service import SECRET, service


@pytest.fixture(autouse=True)
def no_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCHSTONE_WEBHOOK", "TORCHSTONE_SLACK_WEBHOOK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def history(torchstone: Command) -> Command:
    usual_store()
    return torchstone


def everything_stored() -> str:
    with opened(STORE) as database:
        return repr(rows_of(database))


def test_a_webhook_gets_each_group_once(history: Command) -> None:
    with service(200) as server:
        ran = history("triage", "notify", "--webhook", server.url)
        assert (ran.code, ran.out) == (0, "sent 2 messages\n")
        assert history("triage", "notify", "--webhook", server.url).out == "nothing new to tell\n"
        bodies = [body for _, _, body in server.posted]
    assert len(bodies) == 2
    (slower,) = [each["group"] for each in bodies if len(each["group"]["changes"]) == 2]
    assert {each["name"] for each in slower["changes"]} == {"net", "mlp"}
    assert slower["state"] == "new"
    assert SECRET not in everything_stored()
    assert "127.0.0.1" not in everything_stored()


def test_each_kind_of_target_is_told_for_itself(history: Command) -> None:
    with service(200) as server:
        assert "sent 2" in history("triage", "notify", "--webhook", server.url).out
        assert "sent 2" in history("triage", "notify", "--slack", server.url).out
        assert "sent 4" in history("triage", "notify", "--github", "body.md", "--file", "told.jsonl").out
        *_, (_, _, message) = server.posted
    assert message["text"].startswith("Regression ")
    assert all(block["text"]["type"] == "mrkdwn" for block in message["blocks"])
    assert Path("body.md").read_text().count("## Performance change ") == 2
    lines = Path("told.jsonl").read_text().splitlines()
    assert {json.loads(line)["group"]["state"] for line in lines} == {"new"}


@pytest.mark.parametrize("code", [301, 404, 500])
def test_what_failed_is_told_next_time_and_the_secret_stays_one(history: Command, code: int) -> None:
    with service(200, code, 200) as server:
        ran = history("triage", "notify", "--slack", server.url)
        assert ran.code == 1
        assert "sent 1 message, 1 failed" in ran.out
        assert f"the service answered {code}" in ran.err
        assert "secret" not in ran.out + ran.err
        assert "127.0.0.1" not in ran.out + ran.err
        ran = history("triage", "notify", "--slack", server.url)
        assert (ran.code, ran.out) == (0, "sent 1 message\n")
        titles = [body["text"] for _, _, body in server.posted]
    assert len(titles) == 3
    assert titles[1] == titles[2] != titles[0]


def test_two_at_once_tell_each_group_once(history: Command) -> None:
    history("changes")
    with service(200, delay=0.05) as server:
        told: list[int] = []

        def tell() -> None:
            told.append(len(torchstone.notify(webhook=server.url, store=STORE)))

        both = [threading.Thread(target=tell) for _ in range(3)]
        for each in both:
            each.start()
        for each in both:
            each.join()
        numbers = [body["group"]["id"] for _, _, body in server.posted]
    assert sum(told) == 2
    assert sorted(numbers) == sorted(set(numbers))


def test_after_a_failure_nothing_else_is_tried_on_that_target(history: Command) -> None:
    with service(503) as server:
        assert history("triage", "notify", "--webhook", server.url).code == 1
        assert len(server.posted) == 1


def test_a_dry_run_prints_and_neither_sends_nor_remembers(history: Command) -> None:
    ran = history("triage", "notify", "--dry-run")
    assert ran.code == 0
    assert "pass -&gt; timeout" in ran.out
    assert "github:" in ran.out
    assert "would send 2 messages" in ran.out
    with service(200) as server:
        ran = history("triage", "notify", "--dry-run", "--slack", server.url)
        assert (ran.code, server.posted) == (0, [])
        assert SECRET not in ran.out + ran.err
        assert "sent 2" in history("triage", "notify", "--slack", server.url).out
    assert not Path("body.md").exists()


@pytest.mark.parametrize("how", ["environment", "file"])
def test_a_url_can_be_kept_out_of_the_command_line(
    history: Command, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(200) as server:
        if how == "environment":
            monkeypatch.setenv("TORCHSTONE_SLACK_WEBHOOK", server.url)
        else:
            Path("torchstone.toml").write_text(f'[notify]\nwebhook = "{server.url}"\n')
        assert history("triage", "notify").out == "sent 2 messages\n"
        assert len(server.posted) == 2


def test_what_is_old_need_not_be_told(history: Command) -> None:
    assert (
        history("triage", "notify", "--file", "told.jsonl", "--since", f"{30:040x}").out == "sent 1 message\n"
    )
    assert [
        json.loads(line)["group"]["changes"][0]["name"]
        for line in Path("told.jsonl").read_text().splitlines()
    ] == ["bad"]
    assert (
        history("triage", "notify", "--file", "told.jsonl", "--since", "2027-01-01").out
        == "nothing new to tell\n"
    )


def test_a_closed_group_is_not_told(history: Command) -> None:
    history("changes")
    for number in ("1", "2"):
        history("triage", "set", number, "noise")
    assert history("triage", "notify", "--file", "told.jsonl").out == "nothing new to tell\n"
    assert not Path("told.jsonl").exists()


def test_a_group_that_is_open_again_is_told_again(history: Command) -> None:
    history("triage", "notify", "--file", "told.jsonl")
    history("triage", "set", "1", "noise")
    with opened(STORE) as database, database.writing():  # as if it had been told and closed days ago
        database.execute("UPDATE notifications SET at = '2026-01-01T00:00:00Z'")
        database.execute("UPDATE triage_events SET at = '2026-01-02T00:00:00Z'")
    history("triage", "set", "1", "new")
    assert history("triage", "notify", "--file", "told.jsonl").out == "sent 1 message\n"


def test_a_delivery_that_was_killed_is_tried_again_after_a_while(history: Command) -> None:
    history("changes")
    with opened(STORE) as database, database.writing():
        rows = [
            (1, 1, "file", "sending", "2026-01-01T00:00:00Z"),
            (2, 2, "file", "sending", "2999-01-01T00:00:00Z"),
        ]
        database.insert("notifications", ("id", "group_id", "channel", "state", "at"), rows)
    assert history("triage", "notify", "--file", "told.jsonl").out == "sent 1 message\n"


def test_what_is_provisional_waits(torchstone: Command) -> None:
    make_store(*nights({"net": step(37, 1.025)}))
    found = json.loads(torchstone("changes", "--format", "json").out)["changes"]
    assert [each["is_provisional"] for each in found] == [True]
    assert torchstone("changes", "--gate").code == 0
    ran = torchstone("triage", "notify", "--file", "told.jsonl")
    assert ran.out == "nothing new to tell; 1 group provisional, not told yet\n"
    text = torchstone("changes").out
    assert "provisional" in text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "nobody to tell"),
        (("--webhook", "hooks.example.com/secret"), "invalid URL for webhook"),
        (("--slack", "ftp://example.com/secret"), "invalid URL for slack"),
        (("--file", "x", "--since", "last week"), "neither a date"),
        (("--file", "-"), "cannot write to standard output"),
        (("--github", "missing/folder/body.md"), "missing/folder"),
        (("--file", "x", "--store", "nowhere.db"), "there is no store"),
    ],
)
def test_bad_input_is_a_clear_error(history: Command, options: tuple[str, ...], told: str) -> None:
    ran = history("triage", "notify", *options)
    assert ran.code == 2
    assert told in ran.err
    assert "/secret" not in ran.err


def test_names_of_cases_are_no_markup_in_a_chat(torchstone: Command) -> None:
    make_store(*nights({"<!channel> *x*": step(20)}))
    with service(200) as server:
        assert torchstone("triage", "notify", "--slack", server.url).code == 0
        assert "<!channel>" not in json.dumps(server.posted[0][2])
        assert "&lt;!channel&gt;" in json.dumps(server.posted[0][2])


def test_the_same_from_python(history: Command) -> None:
    found = torchstone.notify(file="told.jsonl", dry_run=True)
    assert (len(found), found.exit_code, {each.channel for each in found}) == (2, 0, {"file"})
    assert json.loads(found.deliveries[0].message)["group"]["id"]
    assert str(found).endswith("would send 2 messages")
    assert "<table>" in found._repr_html_()
    with pytest.raises(torchstone.UsageError):
        torchstone.notify(slak="x")  # type: ignore[call-arg]
