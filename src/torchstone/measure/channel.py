"""Messages between the parent and one worker: JSON lines on a socket of their own, so that nothing a model prints can spoil them."""

from __future__ import annotations

import json
import math
import socket
from typing import Any

Message = dict[str, Any]


class Channel:
    """One end of the line; a worker waits on its end, the parent only reads what is there."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._pending = b""

    def fileno(self) -> int:
        """The descriptor, for whoever waits for messages."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send one message whole."""
        self._socket.sendall(encode(message))

    def receive(self) -> Message | None:
        """Wait for the next message; None when the other end is closed."""
        while b"\n" not in self._pending:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return decode(line)

    def read_ready(self) -> tuple[list[Message], bool]:
        """All whole messages that have arrived, without waiting, and whether the other end is closed."""
        closed = False
        while True:
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
        *lines, self._pending = self._pending.split(b"\n")
        return [decode(line) for line in lines], closed

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def encode(message: Message) -> bytes:
    """One message as a line. What JSON has no word for becomes text, and a number that is not finite becomes null."""
    return json.dumps(_finite(message), default=str).encode() + b"\n"


def _finite(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def decode(line: bytes) -> Message:
    """A line as a message. What is none is handed on as garbage: a model may find the socket and write to it."""
    try:
        message = json.loads(line)
    except ValueError:
        return {"garbage": line[:200].decode(errors="replace")}
    return message if isinstance(message, dict) else {"garbage": str(message)[:200]}
