"""Send messages between the parent and one worker.

They are JSON lines on a separate socket, so that a model's output cannot mix with them.
"""

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
    """One end of a channel. A worker waits for messages; the parent only reads those that have arrived."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._pending = bytearray()

    def fileno(self) -> int:
        """Return the file descriptor, to wait for messages."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send one message on a line of its own, even if a model has written to the socket."""
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
        """Return the complete messages that have arrived, without waiting, and whether the other end is closed.

        A flood is read in parts, and anything too long to be a message is dropped.
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
        """Close this end."""
        self._socket.close()


def encode(message: Message) -> bytes:
    """Encode a message as a line. Values that JSON does not have become text; numbers that are not finite become null."""
    text = json.dumps(_finite(message), default=_as_text, ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"


def as_json(value: Any) -> Any:  # noqa: ANN401  (any value)
    """Return a value as the other end of a channel would decode it."""
    return json.loads(encode({"value": value}))["value"]


def _finite(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def _as_text(value: object) -> str:
    """Return a value as text, if it can be converted: a model's object may raise."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  (a model's __str__ may raise anything)
        return f"(a {type(value).__name__} that cannot be shown)"


def decode(line: bytes) -> Message:
    """Decode a line. Anything but a message is returned as garbage: a model may find the socket and write to it."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {"garbage": line[:200].decode(errors="replace")}
    return message if isinstance(message, dict) else {"garbage": str(message)[:200]}
