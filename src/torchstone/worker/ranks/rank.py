"""Run one rank of a round, as started by torchrun: train, and leave a report in the round's folder."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import signal
import sys
from dataclasses import replace
from typing import Literal

from torchstone.define.benchmarks import Benchmark
from torchstone.worker.benchmark_sources import SourceError
from torchstone.worker.failures import status_of, trace_of
from torchstone.worker.loading import load_measured
from torchstone.worker.probes.reply import Stopped, tell
from torchstone.worker.process_tree import die_with_parent
from torchstone.worker.protocol.jobs import MeasureJob, decode_job
from torchstone.worker.protocol.rank_report import RankReport, write_report
from torchstone.worker.ranks.progress import ProgressFile
from torchstone.worker.torch_code import train_rank

JOB = "job.json"
_LOST = re.compile(
    r"connection (closed|reset|refused)|broken pipe|read error|remote process exited|socket", re.IGNORECASE
)
_LATE = re.compile(r"timed? ?out", re.IGNORECASE)


def main() -> None:
    """Run the rank given by torchrun's variables, of the round in the folder on the command line."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # torch's profiler would print messages
    die_with_parent()
    faulthandler.enable(all_threads=True)
    with contextlib.suppress(
        AttributeError, ValueError
    ):  # shows where a rank hung when torchrun terminates it
        faulthandler.register(signal.SIGTERM, all_threads=True, chain=True)
    folder = sys.argv[1]
    with open(os.path.join(folder, JOB)) as file:
        job = decode_job(json.load(file))
    if not isinstance(job, MeasureJob) or job.round is None:
        raise TypeError("the job is not a round")
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    progress = ProgressFile(folder, rank)
    try:
        report = _train(job, rank, local, progress)
    except BaseException as error:  # noqa: BLE001  (a model can raise anything, and all of it is a result)
        report = describe_failure(error, rank, *progress.last)
    report = replace(report, local_rank=local, host=job.round.host)
    write_report(folder, report)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if report.status == "pass" else 1)  # threads of a failed process group may never end


def _train(job: MeasureJob, rank: int, local: int, progress: ProgressFile) -> RankReport:
    progress.tell("load", 0)
    benchmark = load_measured(job)
    if not isinstance(benchmark, Benchmark):
        raise Stopped("model_fail_to_load", "it is counted work, and has no model to train")
    if job.round is None:
        raise TypeError("the job is not a round")
    axes = job.axes
    kind, _, index = axes.device.partition(":")
    own = kind if kind == "cpu" else f"{kind}:{int(index or 0) + local}"
    return train_rank(benchmark, replace(axes, device=own), job.round.plan, rank, progress.tell)


def describe_failure(error: BaseException, rank: int, phase: str, iteration: int) -> RankReport:
    """Return the report of a failed rank; ``cause`` says whether it failed itself, waited for another rank, or lost it."""
    message, behind = tell(error), error
    cause: Literal["own", "waited", "lost"] = "own"
    if isinstance(error, SourceError):
        status, message = "model_fail_to_load", error.message
    elif isinstance(error, Stopped):
        behind = error.error or error
        status, message = error.status, error.message or tell(behind)
    else:
        status = status_of(error, phase, "scaling")
    if status not in {"OOM", "model_fail_to_load", "not_available"} and _is_of_torch(behind):
        if _LATE.search(message):
            status, cause = "timeout", "waited"
        elif _LOST.search(message):
            status, cause = "worker_died", "lost"
    return RankReport(
        rank,
        status,
        cause=cause,
        phase=phase,
        iteration=iteration,
        message=message,
        traceback=trace_of(behind),
    )


def _is_of_torch(error: BaseException) -> bool:
    """Return whether collectives may have raised it: they raise plain ``RuntimeError`` and errors of ``torch.distributed``."""
    return type(error) in {RuntimeError, ConnectionError} or type(error).__module__.startswith("torch")


if __name__ == "__main__":
    main()
