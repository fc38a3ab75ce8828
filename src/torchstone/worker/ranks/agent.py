"""The worker of a round: torch's elastic launcher (torchrun), which starts and monitors the ranks of this host."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torchstone.worker.probes.reply import PhaseClock, Result
from torchstone.worker.protocol.jobs import MeasureJob, RoundPart, encode_job
from torchstone.worker.ranks.progress import FIRST, read_progress
from torchstone.worker.ranks.rank import JOB

_WATCHING = 0.2


def run_round(job: MeasureJob, part: RoundPart, clock: PhaseClock, result: Result) -> None:
    """Start this host's ranks of a round, and wait for them; their measurements are in their reports."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: PLC0415  (importing this module must not load torch)
    from torch.distributed.launcher.api import elastic_launch  # noqa: PLC0415  (importing this module must not load torch)

    folder = part.files
    with open(os.path.join(folder, JOB), "w") as file:
        json.dump(encode_job(job), file)
    logging.getLogger("torch.distributed.elastic").setLevel(logging.ERROR)  # the reports say more
    with clock.turn(), _following(folder, part.first, clock):
        try:
            elastic_launch(_config(part), sys.executable)("-P", "-m", "torchstone.worker.ranks.rank", folder)
        except ChildFailedError as error:
            result.status = "fail_to_run"
            exits = {str(rank): each.exitcode for rank, each in error.failures.items()}
            result.details = replace(result.details, exits=exits)
        except Exception as error:  # noqa: BLE001  (the rendezvous failed: the message says why)
            result.status = "worker_died"
            result.details = replace(result.details, unmet=f"{type(error).__name__}: {error}"[:2000])


def _config(part: RoundPart) -> Any:  # noqa: ANN401  (torch's LaunchConfig)
    """Return torchrun's configuration: the ranks of this host, no restarts, and the rendezvous of the hosts."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs  # noqa: PLC0415  (importing this module must not load torch)
    from torch.distributed.launcher.api import LaunchConfig  # noqa: PLC0415  (importing this module must not load torch)

    alone = part.hosts == 1
    own: dict[str, int] = {"timeout": max(1, round(part.plan.timeout))}
    return LaunchConfig(
        min_nodes=part.hosts,
        max_nodes=part.hosts,
        nproc_per_node=part.local_ranks,
        run_id=part.id,
        rdzv_backend="c10d" if alone else "static",
        rdzv_endpoint="127.0.0.1:0" if alone else part.endpoint,
        rdzv_configs=own if alone else {**own, "rank": part.index},
        max_restarts=0,
        monitor_interval=0.1,
        local_addr="127.0.0.1" if alone else part.address,
        logs_specs=DefaultLogsSpecs(log_dir=part.files),
    )


@contextlib.contextmanager
def _following(folder: str, rank: int, clock: PhaseClock) -> Iterator[None]:
    """Report the phase of this host's first rank to the parent within this context."""
    over = threading.Event()

    def follow() -> None:
        phase = clock.phase
        while not over.wait(_WATCHING):
            now = read_progress(folder, rank).phase
            if now not in {phase, FIRST}:
                phase = now
                clock.enter(phase)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
