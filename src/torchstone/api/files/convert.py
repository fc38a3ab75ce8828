"""``convert``: convert results between formats, and report everything that is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.requests import Path, Sources, Texts, make_request
from torchstone.api.showing import show_html
from torchstone.api.sources import Axes, Input, read_inputs
from torchstone.core.cautions import Caution
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError
from torchstone.core.records import Run
from torchstone.core.text.units import count_of
from torchstone.formats import TABLES, WRITTEN
from torchstone.formats.convert import convert as convert_run
from torchstone.formats.convert import merge_runs
from torchstone.formats.merge import is_selected, merge, no_match, select
from torchstone.reporting.views.result_table import ResultTable

if TYPE_CHECKING:
    from typing import Unpack


class ConvertRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files to convert, and the target format. ``lossy`` permits a format that cannot hold everything."""

    results: tuple[Input, ...]
    to: str = "run"
    lossy: bool = False
    raw_cells: bool = False
    only: tuple[str, ...] = ()
    axes: Axes = ()
    kind: str = ""


class ConvertOptions(TypedDict, total=False):
    """Options of ``convert``, explained in docs/formats.md."""

    to: str
    lossy: bool
    raw_cells: bool
    only: Texts
    axes: Mapping[str, object]
    kind: str


class ConvertResult(Struct, frozen=True):
    """The converted text, the information it could not hold, and cautions about the input."""

    run: Run
    kind: str
    text: str
    losses: tuple[str, ...]
    cautions: tuple[Caution, ...]

    def write(self, path: Path) -> None:
        """Write the file."""
        write_text(str(path), self.text)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        title = f"{count_of(len(self.run.outcomes), 'case')} as {self.kind}"
        lines = [(line,) for line in self.text.splitlines()[:20]]
        notes = (*(f"lost: {each}" for each in self.losses), *map(str, self.cautions))
        return show_html(ResultTable(title, ("first lines",), lines, notes))


def convert(results: Sources, **options: Unpack[ConvertOptions]) -> ConvertResult:
    """Convert files of any format to another one, as ``torchstone import`` and ``torchstone export`` do.

        torchstone.convert("run.jsonl", to="accuracy", lossy=True).write("accuracy.csv")

    Several files are merged. A format that cannot hold everything is an error unless ``lossy`` is set; ``losses`` lists what was lost.
    """
    return convert_results(make_request(ConvertRequest, {"results": results, **options}))


def convert_results(request: ConvertRequest) -> ConvertResult:
    """Convert as requested."""
    if request.to not in WRITTEN:
        raise UsageError(f"--to {request.to}: expected one of {', '.join(WRITTEN)}")
    if request.raw_cells and request.to not in TABLES:
        raise UsageError("--raw-cells applies only to CSV formats", advice=f"these are: {', '.join(TABLES)}")
    given = read_inputs(request.results, request.kind, request.axes)
    chosen = [select(reading, lambda case: is_selected(case, request.only)) for reading in given]
    readings = list(merge(chosen).readings)
    run = merge_runs(readings, with_repro=request.to == "run")
    if not run.plan:
        raise no_match(request.only, given)
    text, losses = convert_run(run, request.to, raw_cells=request.raw_cells)
    cautions = tuple(caution for reading in readings for caution in reading.cautions)
    if losses and not request.lossy:
        raise LossError(request.to, losses, cautions)
    return ConvertResult(run, request.to, text, tuple(losses), cautions)


class LossError(UsageError):
    """A format cannot hold all information in the files, and ``lossy`` is not set."""

    def __init__(self, kind: str, losses: list[str], cautions: tuple[Caution, ...]) -> None:
        super().__init__(
            f"the format {kind} cannot hold: {'; '.join(losses)}",
            advice="add --lossy to write it without them",
        )
        self.losses = tuple(losses)
        self.cautions = cautions
