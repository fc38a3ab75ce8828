"""The line between parent and worker: whole messages, whatever else is written to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from torchstone.worker.channel import Channel, Message, decode, encode


@pytest.fixture
def line() -> Iterator[tuple[Channel, Channel, socket.socket]]:
    """Both ends, and the far end as a model would find it."""
    ours, theirs = socket.socketpair()
    near, far = Channel(ours), Channel(theirs)
    yield near, far, theirs
    near.close()
    far.close()


def test_messages_arrive_whole_and_in_order(line: tuple[Channel, Channel, socket.socket]) -> None:
    near, far, _ = line
    messages: list[Message] = [{"phase": "load"}, {"text": "zwei\nZeilen, ü, \0"}, {"samples": [1.5] * 1000}]
    for message in messages:
        far.send(message)
    assert near.read_ready() == (messages, False)
    assert near.read_ready() == ([], False)
    near.send({"turn": True})
    assert far.receive() == {"turn": True}


def test_garbage_before_a_message_does_not_spoil_it(line: tuple[Channel, Channel, socket.socket]) -> None:
    near, far, model = line
    model.sendall(b"garbage without an end")
    far.send({"result": 1})
    model.sendall(b'[1, 2]\n"text"\n' + b"[" * 100_000 + b"\n\xff\xfe\n{")
    messages, _ = near.read_ready()
    assert [message for message in messages if "garbage" not in message] == [{"result": 1}]
    assert all(len(str(message["garbage"])) <= 200 for message in messages if "garbage" in message)


def test_a_worker_passes_over_blank_lines_and_sees_the_end(
    line: tuple[Channel, Channel, socket.socket],
) -> None:
    near, far, model = line
    model.sendall(b"\n\n  \n")
    far.send({"job": "survey"})
    assert near.receive() == {"job": "survey"}
    model.shutdown(socket.SHUT_RDWR)
    assert near.receive() is None
    assert near.read_ready() == ([], True)


def test_a_flood_is_read_a_part_at_a_time_and_not_kept(line: tuple[Channel, Channel, socket.socket]) -> None:
    near, far, model = line
    rest = 200 << 20

    def flood() -> None:
        nonlocal rest
        while rest:
            rest -= model.send(b"x" * min(rest, 1 << 20))
        far.send({"result": 1})

    thread = threading.Thread(target=flood)
    thread.start()
    messages: list[Message] = []
    while not messages:
        messages, closed = near.read_ready()
        assert not closed
    thread.join()
    assert {"result": 1} in [*messages, *near.read_ready()[0]]


def test_what_json_cannot_say_is_said_in_words() -> None:
    class Mute:
        def __str__(self) -> str:
            raise ValueError

    message: dict[Any, Any] = {
        "nan": float("nan"),
        1: (2, {"inf": float("-inf")}),
        "surrogate": "\udcff",
        "mute": Mute(),
    }
    assert decode(encode(message)) == {
        "nan": None,
        "1": [2, {"inf": None}],
        "surrogate": "?",
        "mute": "(a Mute that cannot be shown)",
    }
