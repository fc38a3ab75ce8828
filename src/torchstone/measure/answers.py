"""Waiting for the one answer of a worker that is asked something instead of measuring."""

from __future__ import annotations

import time
from typing import Any

from torchstone.core.text.redaction import redact_values
from torchstone.measure.launcher import STACKS_WAIT, Launcher, Worker, describe_exit


def answer_of(worker: Worker, launcher: Launcher, timeout: float) -> dict[str, Any]:
    """Wait for the last message of a worker whose job is an answer, not a measurement."""
    deadline = time.monotonic() + timeout
    closed, path = False, ""
    try:
        while time.monotonic() < deadline:
            launcher.poll()  # before the reading: what it said before it ended is heard
            messages, closed = ([], True) if closed else worker.channel.read_ready()
            worker.read_log()
            for message in messages:
                path = str(message.get("looking_at", path))
                if "error" in message:
                    return {"error": redact_values(message["error"])}
                if {"survey", "primed"} & message.keys():
                    return message
            if worker.exit_code is not None:
                problem = f"the worker {describe_exit(worker.exit_code)}"
                return {"error": {"message": problem, "path": path, "log": worker.log_tail()}}
            time.sleep(0.005)
        worker.show_stacks()
        time.sleep(STACKS_WAIT)
        problem = f"the worker did not answer within {timeout:g} s"
        return {"error": {"message": problem, "path": path, "log": worker.log_tail()}}
    finally:
        worker.kill()
        worker.close()
