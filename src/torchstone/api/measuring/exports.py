"""Write further files of a run: CSV files, database records and DDP reports as PyTorch has them."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable

from msgspec import structs

from torchstone.api.measuring.run_request import RunRequest
from torchstone.core.disk import make_folder, write_text
from torchstone.core.errors import printable
from torchstone.core.records import Outcome, Run
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Probe
from torchstone.formats import FORMATS, TABLES
from torchstone.formats.table import defuse
from torchstone.formats.torch import ddp
from torchstone.formats.torch.ci_name import file_stem
from torchstone.formats.torch.results_csv import write_exactly
from torchstone.measure.journal import is_replaceable, output_error


def write_run_files(run: Run, request: RunRequest, say: Callable[[str], None]) -> None:
    """Write the requested files other than the run file."""
    write_outputs(run, request.csv, request.v3, say, raw_cells=request.raw_cells)
    write_ddp(run, request.ddp_json, say)


def refuse_taken(output: str | None, *, force: bool | None = None) -> None:
    """Raise an error if the run file exists: results are overwritten only by ``force``, and only those of a run. None means that there is no such option."""
    if output and (os.path.exists(output) or output.endswith(os.sep)):
        if force and is_replaceable(output):
            return
        raise output_error(output, offers_force=force is not None)


def write_outputs(
    run: Run, csv: str | None, v3: str | None, say: Callable[[str], None], *, raw_cells: bool = False
) -> None:
    """Write CSV files and database records in PyTorch's formats, one file for each combination of axes."""
    for folder, kinds in ((csv, (Probe.ACCURACY.value, Probe.PERFORMANCE.value)), (v3, ("v3",))):
        if folder:
            make_folder(folder)
            for name, kind, outcomes in _files(run, kinds):
                path = os.path.join(folder, name)
                text = _render(kind, structs.replace(run, outcomes=tuple(outcomes)))
                write_text(path, text if raw_cells or kind not in TABLES else defuse(text))
                say(f"wrote {count_of(len(outcomes), 'case')} to {printable(path)}")


def write_ddp(run: Run, path: str | None, say: Callable[[str], None]) -> None:
    """Write scaling results as reports of PyTorch's DDP benchmark, and list the rounds that do not fit.

    A report has one bucket size, one backend and one value of every other axis. If a run has several, each gets its own file, named after them.
    """
    if not path:
        return
    reports = ddp.split(run)
    for axes, report in reports:
        place = _beside(path, axes)
        write_text(place, ddp.write(report))
        say(f"wrote {count_of(len(report.outcomes), 'round')} to {place}")
    if not reports:
        say(f"{path} was not written: no model has a result without DDP, with which a DDP report begins")
    for rounds in ddp.left_out(run):
        say(f"not in {path}: {rounds}")


def _beside(path: str, axes: dict[str, str]) -> str:
    """Return the name of one of several reports: ``ddp.json`` becomes ``ddp_bucket_mb_25.json``."""
    stem, ending = os.path.splitext(path)
    words = re.sub(r"[^\w.-]+", "_", "_".join(word for axis in axes.items() for word in axis))
    return f"{stem}_{words}{ending}" if words else path


def _render(kind: str, run: Run) -> str:
    return FORMATS[kind].write(run) if kind == "v3" else write_exactly(run, Probe(kind))


def _files(run: Run, kinds: tuple[str, ...]) -> list[tuple[str, str, list[Outcome]]]:
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in run.outcomes:
        for kind in kinds:
            if kind in {"v3", outcome.case.probe}:
                ending = "json" if kind == "v3" else "csv"
                groups[(f"{file_stem(outcome.case)}.{ending}", kind)].append(outcome)
    return [(name, kind, outcomes) for (name, kind), outcomes in groups.items()]
