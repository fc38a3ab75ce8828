"""The parent's handle of one worker: its process, its channel, and the end of its log."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from torchstone.core.text.redaction import redact, without_half_a_word
from torchstone.worker.channel import Channel
from torchstone.worker.process_tree import kill_group
from torchstone.worker.protocol.jobs import Order, encode_order
from torchstone.worker.protocol.replies import Reply, decode_reply

LOG_KEPT = 16 * 1024
STACKS_WAIT = 0.5
"""Seconds to wait for a worker to write its stacks to its log."""

_LOG_READ = 1 << 20


class Worker:
    """One worker as the parent sees it: its process, its channel, and the end of its log."""

    def __init__(self, pid: int, channel: Channel, log: int) -> None:
        self.pid = pid
        self.channel = channel
        self.log = log
        self.log_ended = False
        self.exit_code: int | None = None
        self.killed_at: float | None = None
        self._tail = bytearray()
        self._printed = 0
        os.set_blocking(log, False)

    def read_replies(self) -> tuple[list[Reply], bool]:
        """Return the replies received, validated, and whether the channel is closed. Messages that are not replies are dropped."""
        messages, closed = self.channel.read_ready()
        found = (decode_reply(message) for message in messages)
        return [reply for reply in found if reply is not None], closed

    def send(self, order: Order) -> None:
        """Send an order; a worker that has died is detected elsewhere."""
        with contextlib.suppress(ConnectionError):
            self.channel.send(encode_order(order))

    def read_log(self) -> None:
        """Read its output, and keep the end of it."""
        try:
            data = os.read(self.log, _LOG_READ)
        except BlockingIOError:
            return
        self.log_ended = not data
        self._printed += len(data)
        self._tail += data
        if len(self._tail) > 2 * LOG_KEPT:
            del self._tail[:-LOG_KEPT]

    def log_tail(self) -> str:
        """Return its last output, without credentials of URLs; a word that was cut is dropped, because it may be half a URL."""
        for _ in range(64):  # what is still in the pipe, but not endlessly: a child may keep printing
            before = self._printed
            self.read_log()
            if self._printed == before:
                break
        tail = bytes(self._tail[-LOG_KEPT:])
        cut = self._printed - len(tail)
        if cut:
            tail = without_half_a_word(tail)
            cut = self._printed - len(tail)
        text = redact(tail.decode(errors="replace"))
        return f"... {cut} bytes before this are not kept\n{text}" if cut else text

    def kill(self) -> None:
        """Kill it and its process group. After it has exited, only the group: its process id may have been reused."""
        if self.killed_at is None:
            self.killed_at = time.monotonic()
        if self.exit_code is None:
            kill_group(self.pid)
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def show_stacks(self) -> None:
        """Make it write all Python stacks to its log, which works even if it hangs in C code or is stopped."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGUSR2)
            os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Close its descriptors."""
        self.channel.close()
        os.close(self.log)
