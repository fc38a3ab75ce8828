"""Reports of ranks: each rank of a round leaves one in the round's folder, and each host sends those of its ranks."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from torchstone.core.vocabulary import is_known_status
from torchstone.worker.protocol.caution_message import CautionMessage
from torchstone.worker.protocol.codec import AtLeast, AtMost, Count, MalformedError, from_json, to_json

IterationSeconds = Annotated[float, AtLeast(1e-9), AtMost(1e9)]
"""Seconds of an iteration: rates and ratios of such numbers are finite and not zero."""


@dataclass(frozen=True)
class RankReport:
    """Result of one rank. Times are in seconds, ``peak`` in bytes, ``communication`` a share of each profiled iteration.

    ``cause`` says whether the rank failed by itself (``own``), waited for another one (``waited``) or lost it (``lost``).
    """

    rank: Count
    status: str
    local_rank: Count = 0
    host: str = ""
    device: str = ""
    samples: tuple[IterationSeconds, ...] = ()
    peak: Count | None = None
    own: tuple[Annotated[float, AtLeast(0), AtMost(1e9)], ...] = ()
    communication: tuple[Annotated[float, AtLeast(0), AtMost(1)], ...] = ()
    cautions: tuple[CautionMessage, ...] = ()
    cause: Literal["", "own", "waited", "lost"] = ""
    phase: str = ""
    iteration: Count = 0
    message: str = ""
    traceback: str = ""

    def __post_init__(self) -> None:
        if not is_known_status(self.status):
            raise MalformedError(f"status: unknown status: {self.status[:60]!r}")
        if self.status == "pass" and not self.samples:
            raise MalformedError("samples: expected at least one, because the rank passed")


def report_path(folder: str, rank: int) -> str:
    """Return the path of a rank's report."""
    return os.path.join(folder, f"rank-{rank}.json")


def write_report(folder: str, report: RankReport) -> None:
    """Write a report atomically."""
    path = report_path(folder, report.rank)
    with open(f"{path}.part", "w") as file:
        json.dump(to_json(report), file)
    os.replace(f"{path}.part", path)


def decode_report(value: Any, rank: int) -> RankReport:  # noqa: ANN401  (any JSON value)
    """Decode the report of this rank; raise a MalformedError if it does not fit."""
    report = from_json(RankReport, value, f"the report of rank {rank}")
    if report.rank != rank:
        raise MalformedError(f"the report of rank {rank}: it states rank {report.rank}")
    return report
