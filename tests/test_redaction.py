"""Credentials in URLs are masked, and nothing else is."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from torchstone.api.measuring.preparation import prepare_request
from torchstone.cli.options.run_options import OPTIONS, make_run_request
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Run
from torchstone.core.run_file import decode_run
from torchstone.core.run_settings import settings_from
from torchstone.core.text.redaction import redact, redact_values, was_redacted
from torchstone.measure.executors.worker_handle import LOG_KEPT, Worker
from torchstone.measure.journal import create_journal
from torchstone.measure.measuring import settings_of_run
from torchstone.worker.channel import Channel


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:pass@example.com/x", "https://***@example.com/x"),
        ("https://ghp_token@github.com/a/b.git", "https://***@github.com/a/b.git"),
        ("git+https://oauth2:tok@gitlab.com/a", "git+https://***@gitlab.com/a"),
        ("redis://:pass@cache:6379/0", "redis://***@cache:6379/0"),
        ("HTTPS://USER:PASS@EXAMPLE.COM", "HTTPS://***@EXAMPLE.COM"),
        ("https://user:p@ss@example.com/x", "https://***@example.com/x"),
        ("https://user:pa/s?s#@example.com", "https://***@example.com"),
        ("1https://user:pass@example.com", "1https://***@example.com"),
        ("a\nhttps://u:p@x b http://v:q@y c", "a\nhttps://***@x b http://***@y c"),
        ("https://x/a?token=t&n=1", "https://x/a?token=***&n=1"),
        ("https://x/a?n=1&access_token=t#end", "https://x/a?n=1&access_token=***#end"),
        ("https://x/a?sig=t%2B&sv=2", "https://x/a?sig=***&sv=2"),
        ("https://x/a?X-Amz-Signature=t&X-Amz-Date=2", "https://x/a?X-Amz-Signature=***&X-Amz-Date=2"),
        ("https://x/a?PASSWORD=t", "https://x/a?PASSWORD=***"),
        ("https://x/#access_token=t", "https://x/#access_token=***"),
        ("https://u:p@x/a?api_key=t", "https://***@x/a?api_key=***"),
    ],
)
def test_credentials_in_urls_are_masked(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown
    assert was_redacted(shown)


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com:8080/@scope/package@1.0",
        "https://medium.com/@someone",
        "write to me@example.com about http://example.com",
        "http://localhost:8000 x@y",
        "max_tokens=12 key=value",
        "torch.compile(fn, options={'a': 1})",
    ],
)
def test_everything_else_is_left_alone(text: str) -> None:
    assert redact(text) == text
    assert not was_redacted(text)


def test_every_text_of_a_value_is_redacted() -> None:
    url = "https://u:p@x"
    value = {url: [url, {"a": (url, 1, None)}]}
    shown = "https://***@x"
    assert redact_values(value) == {shown: [shown, {"a": (shown, 1, None)}]}


def test_a_long_text_takes_no_time_that_grows_with_its_square() -> None:
    for text in ("a" * 300_000, "a://" * 50_000, "a://b:" * 50_000, "?" * 300_000, "?token" * 50_000):
        assert redact(f"{text} :// @ =?&").startswith(text[:5])


def test_an_option_is_used_as_it_is_and_recorded_without_its_credentials(tmp_path: Path) -> None:
    unset = {each.name: () if each.multiple else None if each.metavar else False for each in OPTIONS}
    given = {**unset, "compile_options": ("url=https://u:geheim@x", "max_autotune=true")}
    request = prepare_request(make_run_request(("smoke",), given))
    assert request.settings.options["url"] == "https://u:geheim@x"
    assert dict(request.axes.further) == {"url": "https://***@x", "max_autotune": "true"}
    sources = {"smoke": {"kind": "suite", "name": "smoke"}}
    settings = {"sources": sources, "options": request.settings.options}
    path = str(tmp_path / "run.jsonl")
    create_journal(
        path, Run("x", (Case("mlp", "performance", "smoke"),), (), settings=settings_from(settings))
    ).close()
    text = Path(path).read_text()
    assert "geheim" not in text
    with pytest.raises(InputError, match="the value of the option url was not saved"):
        settings_of_run(decode_run(path, text).run, path)


def test_an_error_message_has_no_credentials_in_it() -> None:
    error = UsageError("no https://u:geheim@x", advice="try https://y?token=geheim")
    assert str(error) == "no https://***@x\n  try https://y?token=***"
    assert error.args == ("no https://***@x",)
    assert str(InputError("no", path="https://u:geheim@x")) == "https://***@x: no"


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_log_that_is_cut_within_a_url_shows_nothing_of_it(cut: int) -> None:
    url = b"https://user:geheim@example.com/x"
    read, write = os.pipe()
    ours, theirs = socket.socketpair()
    worker = Worker(0, Channel(ours), read)
    try:
        end = b" the end\n"
        os.write(
            write, b"x" * 2000 + b" " + url + end + b"." * (LOG_KEPT - len(url) - len(end) - 1 + cut) + b"\n"
        )
        os.close(write)
        text = worker.log_tail()
    finally:
        worker.close()
        theirs.close()
    assert "geheim" not in text
    assert "bytes before this are not kept" in text
