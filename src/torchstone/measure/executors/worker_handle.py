"""The parent's handle on one worker: its process, its channel, and the end of what it prints."""

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
"""Seconds that a worker has for writing its stacks into its log."""

_LOG_READ = 1 << 20


class Worker:
    """The parent's view of one worker: its process, its channel, and the end of what it prints."""

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
        """The replies that have come, validated, and whether the other end is closed. What is no reply at all is dropped."""
        messages, closed = self.channel.read_ready()
        found = (decode_reply(message) for message in messages)
        return [reply for reply in found if reply is not None], closed

    def send(self, order: Order) -> None:
        """Send an order; a worker that has died will be noticed."""
        with contextlib.suppress(ConnectionError):
            self.channel.send(encode_order(order))

    def read_log(self) -> None:
        """Take what it has printed, and keep the end of it."""
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
        """The last lines it printed, without the credentials of URLs: a word that was cut in two is left out, for it may be half of one."""
        for _ in range(64):  # whatever is still in the pipe, but never more: a child of it may print on
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
        """End it and everything in its process group. Once it is known to have ended, its number may be someone else's."""
        if self.killed_at is None:
            self.killed_at = time.monotonic()
        if self.exit_code is None:
            kill_group(self.pid)
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def show_stacks(self) -> None:
        """Have it write all its Python stacks into its log, which works even while it hangs in C code or is stopped."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGUSR2)
            os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Let go of its descriptors."""
        self.channel.close()
        os.close(self.log)
