"""A worker whose calls are recorded: takes a job and the names of functions, prints its status and the calls of these."""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import threading
from typing import Any

from call_walks import recorded
from torchstone.worker.channel import Channel
from torchstone.worker.protocol.jobs import GiveTurn, MakeCalls, encode_order
from torchstone.worker.worker import run_worker

TURNS = 2


class EndedError(Exception):
    """The worker wants to end its process."""


def answer(channel: Channel, job: dict[str, Any], said: list[dict[str, Any]], done: threading.Event) -> None:
    """Be the parent: send the job, and an order whenever the worker waits for one."""
    channel.send(job)
    taken = 0
    while (message := channel.receive()) is not None:
        said.append(message)
        if "want" in message:
            channel.send(encode_order(GiveTurn()))
        elif "result" in message:
            done.set()
        elif "each" in message or "took" in message:
            channel.send(encode_order(MakeCalls(1 if taken < TURNS else 0)))
            taken += 1


def end(code: int) -> None:
    """Raise instead of ending the process: the calls have to be told."""
    raise EndedError(code)


def main() -> None:
    """Be a worker, with everything imported before recording begins."""
    importlib.import_module("torchstone.worker.probes.run_case")
    importlib.import_module("torchstone.suites.smoke.networks")
    importlib.import_module("torch._dynamo")
    asked = json.load(sys.stdin)
    ours, theirs = socket.socketpair()
    said: list[dict[str, Any]] = []
    done = threading.Event()
    parent = threading.Thread(target=answer, args=(Channel(ours), asked["job"], said, done))
    parent.start()
    os._exit, leave = end, os._exit  # type: ignore[assignment]
    with recorded(set(asked["keys"])) as calls:
        try:
            run_worker(theirs.detach(), None)
        except EndedError:
            os._exit = leave
    done.wait(60)
    (result,) = [message["result"] for message in said if "result" in message]
    told = {"status": result["status"], "calls": [[call.key, sorted(call.callers)] for call in calls]}
    sys.stdout.write(f"{json.dumps(told)}\n")
    sys.stdout.flush()
    leave(0)


if __name__ == "__main__":
    main()
