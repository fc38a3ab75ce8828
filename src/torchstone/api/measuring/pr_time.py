"""``pr_time``: run PyTorch's ``pr_time_benchmarks``, and write the same files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.measuring.events import EventWatcher, OnEvent
from torchstone.api.measuring.run import MeasuredRun, measure_run
from torchstone.api.measuring.run_request import RunRequest
from torchstone.api.requests import Path, Texts, make_request, path_of
from torchstone.core.disk import read_text, replace_text, try_file, write_text
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, Outcome, Run
from torchstone.core.vocabulary import PASSED, Probe
from torchstone.formats.table import defuse
from torchstone.formats.torch import pr_time_csv

if TYPE_CHECKING:
    from typing import Unpack

_SEPARATORS = re.compile(r"[%/\\:\x00-\x1f\x7f]")


class PrTimeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files or suites to count, and how. ``output`` is the run file."""

    targets: tuple[str, ...]
    counter: str = ""
    repeat: int | None = None
    filters: tuple[str, ...] = ()
    timeout: float | None = None
    jobs: int | None = None
    output: str = ""


class PrTimeOptions(TypedDict, total=False):
    """Options of ``pr_time``, explained in docs/instructions.md."""

    counter: str
    repeat: int
    filters: Texts
    timeout: float
    jobs: int
    output: Path


class PrTimeResult(MeasuredRun, frozen=True):
    """A run of files written for PyTorch's pr_time_benchmarks."""

    @property
    def counted(self) -> list[Outcome]:
        """The outcomes with a row, in the order of the plan."""
        return [outcome for outcome in self._in_order() if _has_row(outcome)]

    @property
    def missing(self) -> list[Outcome]:
        """The outcomes without a row."""
        return [outcome for outcome in self._in_order() if not _has_row(outcome)]

    def _in_order(self) -> list[Outcome]:
        places = {case: place for place, case in enumerate(self.plan)}
        return sorted(self.outcomes, key=lambda outcome: places[outcome.case])

    def rows(self, *, raw_cells: bool = False) -> str:
        """Return ``name,metric,value`` lines. Unless ``raw_cells`` is set, cells that a spreadsheet would run as a formula are defused."""
        return rows_of(self.counted, raw_cells=raw_cells)

    def write(self, path: Path, *, raw_cells: bool = False) -> None:
        """Append the rows to a CSV file, and write a JSON file for each benchmark next to it."""
        write_rows(self.counted, path_of(path), raw_cells=raw_cells)


def _has_row(outcome: Outcome) -> bool:
    return outcome.status == PASSED and bool(outcome.measurements)


def pr_time(
    targets: Texts, *, on_event: OnEvent | None = None, **options: Unpack[PrTimeOptions]
) -> PrTimeResult:
    """Count the instructions of files written for PyTorch's pr_time_benchmarks, as ``torchstone pr-time`` does.

    torchstone.pr_time("benchmarks/", counter="python").write("results.csv")
    """
    request = make_request(PrTimeRequest, {"targets": targets, **options})
    measured = measure_run(run_request_of(request), EventWatcher(on_event), refuse_namesakes)
    return PrTimeResult(measured.reading, measured.loss, measured.broken)


def run_request_of(request: PrTimeRequest) -> RunRequest:
    """Return the request of the run that counts."""
    return RunRequest(
        targets=request.targets,
        probes=(Probe.INSTRUCTIONS.value,),
        counter=request.counter,
        repeat=request.repeat,
        filters=request.filters,
        timeout=request.timeout,
        jobs=request.jobs,
        output=request.output,
    )


def refuse_namesakes(run: Run) -> None:
    """Raise an error if two benchmarks have the same name: rows have nothing else to identify them."""
    suites: dict[str, str] = {}
    for case in run.plan:
        name, suite = case.benchmark, case.suite
        if name in suites:
            raise UsageError(
                f"{printable(name)} is both in {suites[name]} and in {suite}, so their rows would be ambiguous",
                advice="measure one of the two",
            )
        suites[name] = suite


def check_plan(run: Run, output: str | None) -> None:
    """Raise an error for names that rows or files cannot have, before anything is measured."""
    refuse_namesakes(run)
    if output and (os.path.isfile(output) or not os.path.exists(output)):
        for case in run.plan:
            try_file(_records_file(output, case))


def _records_file(output: str, case: Case) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(output)), file_name(case.benchmark))


def rows_of(outcomes: Sequence[Outcome], *, raw_cells: bool) -> str:
    """Return the CSV rows of outcomes."""
    rows = "".join(map(pr_time_csv.write_rows, outcomes))
    return rows if raw_cells else defuse(rows)


def write_rows(outcomes: Sequence[Outcome], output: str, *, raw_cells: bool) -> None:
    """Append rows to a file, and write a JSON file for each benchmark next to it, unless it is a pipe or a device."""
    if output.endswith(".json"):
        raise UsageError(
            f"--output {output}: the rows are CSV, not JSON", advice="name a file such as results.csv"
        )
    if not outcomes:
        return
    _append(output, rows_of(outcomes, raw_cells=raw_cells))
    if os.path.isfile(output):
        for outcome in outcomes:
            write_text(_records_file(output, outcome.case), pr_time_csv.write_records(outcome))


def _append(path: str, rows: str) -> None:
    """Append rows to a file, starting on a new line; write to a pipe or a device directly."""
    if os.path.exists(path) and not os.path.isfile(path):
        write_text(path, rows)
        return
    before = read_text(path) if os.path.exists(path) else ""
    end = "" if not before or before.endswith("\n") else "\n"
    replace_text(path, before, f"{before}{end}{rows}")


def file_name(benchmark: str) -> str:
    """Return the name of a benchmark's JSON file, with path separators escaped.

    >>> file_name("add_loop_eager"), file_name("../a/b")
    ('add_loop_eager.json', '..%2Fa%2Fb.json')
    """
    return _SEPARATORS.sub(lambda found: f"%{ord(found[0]):02X}", benchmark) + ".json"
