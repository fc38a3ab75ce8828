"""Messages between the parent and one worker: JSON lines on a socket of their own, so that nothing a model prints can spoil them."""

from __future__ import annotations

import json
import math
import socket
from typing import Any

from torchstone.worker.protocol.codec import Message

__all__ = ["Channel", "Message", "as_json", "decode", "encode"]

_READS_AT_ONCE = 32
_LONGEST_MESSAGE = 32 << 20


class Channel:
    """One end of the line; a worker waits on its end, the parent only reads what is there."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._pending = bytearray()

    def fileno(self) -> int:
        """The descriptor, for whoever waits for messages."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send one message whole, on a line of its own whatever a model may have written before it."""
        self._socket.sendall(b"\n" + encode(message))

    def receive(self) -> Message | None:
        """Wait for the next message; None when the other end is closed."""
        while True:
            line, found, rest = self._pending.partition(b"\n")
            if found:
                self._pending = rest
                if line.strip():
                    return decode(bytes(line))
                continue
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._pending += data

    def read_ready(self) -> tuple[list[Message], bool]:
        """The whole messages that have arrived, without waiting, and whether the other end is closed.

        Whoever floods the line is read a part at a time, and what is too long to be a message is dropped.
        """
        closed, old = False, len(self._pending)
        for _ in range(_READS_AT_ONCE):
            try:
                data = self._socket.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except ConnectionError:
                closed = True
                break
            if not data:
                closed = True
                break
            self._pending += data
        if self._pending.find(b"\n", old) < 0:
            if len(self._pending) > _LONGEST_MESSAGE:
                self._pending.clear()
            return [], closed
        *lines, self._pending = self._pending.split(b"\n")
        return [decode(bytes(line)) for line in lines if line.strip()], closed

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def encode(message: Message) -> bytes:
    """One message as a line. What JSON has no word for becomes text, and a number that is not finite becomes null."""
    text = json.dumps(_finite(message), default=_told, ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"


def as_json(value: Any) -> Any:  # noqa: ANN401  (any value)
    """A value as the other end of a channel would decode it."""
    return json.loads(encode({"value": value}))["value"]


def _finite(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def _told(value: object) -> str:
    """Something as text; a model's object may fail even at this."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  (a model's __str__ may raise anything)
        return f"(a {type(value).__name__} that cannot be shown)"


def decode(line: bytes) -> Message:
    """A line as a message. What is none is handed on as garbage: a model may find the socket and write to it."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {"garbage": line[:200].decode(errors="replace")}
    return message if isinstance(message, dict) else {"garbage": str(message)[:200]}
