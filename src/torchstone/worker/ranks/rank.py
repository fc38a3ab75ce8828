"""One rank of a round, as torchrun starts it: trains its part, and leaves a report in the round's folder."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from torchstone.define.benchmarks import Benchmark
from torchstone.worker.failures import status_of, trace_of
from torchstone.worker.loading import load_measured
from torchstone.worker.probes.reply import Stopped, tell
from torchstone.worker.process_tree import die_with_parent
from torchstone.worker.ranks.progress import ProgressFile
from torchstone.worker.sources import SourceError

JOB = "job.json"
_LOST = re.compile(
    r"connection (closed|reset|refused)|broken pipe|read error|remote process exited|socket", re.IGNORECASE
)
_LATE = re.compile(r"timed? ?out", re.IGNORECASE)


def main() -> None:
    """Be the rank that torchrun's variables say, of the round in this folder."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # torch's profiler would print when it starts and stops
    die_with_parent()
    faulthandler.enable(all_threads=True)
    with contextlib.suppress(AttributeError, ValueError):  # shows where a rank hung that torchrun ends
        faulthandler.register(signal.SIGTERM, all_threads=True, chain=True)
    folder = sys.argv[1]
    with open(os.path.join(folder, JOB)) as file:
        job = json.load(file)
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    report: dict[str, Any] = {"rank": rank, "local_rank": local, "host": job["round"]["host"]}
    progress = ProgressFile(folder, rank)
    try:
        report |= _train(job, local, progress)
    except BaseException as error:  # noqa: BLE001  (a model can raise anything, and all of it is a result)
        report |= describe_failure(error, *progress.last)
    _write(os.path.join(folder, f"rank-{rank}.json"), report)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if report["status"] == "pass" else 1)  # threads of a group that has failed may never end


def _train(job: dict[str, Any], local: int, progress: ProgressFile) -> dict[str, Any]:
    progress.tell("load", 0)
    benchmark = load_measured(job)
    if not isinstance(benchmark, Benchmark):
        raise Stopped(
            "model_fail_to_load", "it is made to be counted, and has no model that could be trained"
        )
    from torchstone.worker.probes.run_case import read_target  # noqa: PLC0415  (imports torch)
    from torchstone.worker.probes.scaling import RoundPlan, train  # noqa: PLC0415  (after the rank has set up its process: it loads torch)
    from torchstone.worker.probes.subject import build  # noqa: PLC0415  (after the rank has set up its process: it loads torch)

    variant = job["variant"]
    kind, _, index = variant["device"].partition(":")
    own = kind if kind == "cpu" else f"{kind}:{int(index or 0) + local}"
    target = read_target({**variant, "device": own})
    target.device.activate()
    make = partial(build, benchmark, target, variant.get("batch_size"), variant.get("size") or "full")
    trained = train(make, target, RoundPlan(**job["round"]["plan"]), progress.tell)
    return {
        "status": "pass",
        "device": own,
        "samples": trained.samples,
        "peak": trained.peak,
        "own": trained.own,
        "communication": trained.communication,
        "cautions": list(trained.cautions),
    }


def describe_failure(error: BaseException, phase: str, iteration: int) -> dict[str, Any]:
    """What a rank says of its end. ``cause`` tells whether it failed itself, or waited for another, or lost it."""
    message, cause, told = tell(error), "own", error
    if isinstance(error, SourceError):
        status, message = "model_fail_to_load", str(error.told().get("message"))
    elif isinstance(error, Stopped):
        told = error.error or error
        status, message = error.status, error.message or tell(told)
    else:
        status = status_of(error, phase, "scaling")
    if status not in {"OOM", "model_fail_to_load", "not_available"} and _is_of_torch(told):
        if _LATE.search(message):
            status, cause = "timeout", "waited"
        elif _LOST.search(message):
            status, cause = "worker_died", "lost"
    return {
        "status": status,
        "cause": cause,
        "phase": phase,
        "iteration": iteration,
        "message": message,
        "traceback": trace_of(told),
    }


def _is_of_torch(error: BaseException) -> bool:
    """Whether collectives may have raised it: these raise plain ``RuntimeError`` and errors of ``torch.distributed``."""
    return type(error) in {RuntimeError, ConnectionError} or type(error).__module__.startswith("torch")


def _write(path: str, report: Mapping[str, Any]) -> None:
    """All of it, or nothing."""
    with open(f"{path}.part", "w") as file:
        json.dump(report, file)
    os.replace(f"{path}.part", path)


if __name__ == "__main__":
    main()
