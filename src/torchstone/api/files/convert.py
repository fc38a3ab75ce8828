"""``convert``: convert results between formats, and report everything that is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.requests import Path, Sources, Texts, make_request, path_of
from torchstone.api.showing import show_html
from torchstone.api.sources import Axes, Input, read_inputs, require_given
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError
from torchstone.core.records import Run
from torchstone.core.text.units import count_of
from torchstone.formats import EXPORTED, SUMMARY, TABLES
from torchstone.formats.convert import convert as convert_run
from torchstone.formats.convert import merge_runs
from torchstone.formats.merge import is_selected, merge, no_match, select
from torchstone.reporting.views.result_table import ResultTable

if TYPE_CHECKING:
    from typing import Unpack

LINE_END = "\n"


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
    """The converted text, the data it could not hold, and cautions about the input.

    ``omitted`` names what describes the measurement and has no place in the format, such as logs and repro commands;
    ``cases`` is the number of cases in the text.
    """

    run: Run
    kind: str
    text: str
    losses: tuple[str, ...]
    cautions: tuple[Caution, ...]
    omitted: tuple[str, ...] = ()
    cases: int = 0

    @property
    def summary(self) -> str:
        """A summary of the written file: the number of cases, and of rows or records where there are more of these."""
        cases = count_of(self.cases, "case")
        if self.kind == SUMMARY:
            return f"{cases} ({count_of(self.text.count(LINE_END) - 1, 'row')})"
        return f"{cases} ({count_of(self.text.count(LINE_END), 'record')})" if self.kind == "v3" else cases

    def write(self, path: Path) -> None:
        """Write the file."""
        write_text(path_of(path), self.text)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        title = f"{count_of(self.cases, 'case')} as {self.kind}"
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
    if request.to not in EXPORTED:
        raise UsageError(f"--to {request.to}: expected one of {', '.join(EXPORTED)}")
    tables = (*TABLES, SUMMARY)
    if request.raw_cells and request.to not in tables:
        raise UsageError("--raw-cells applies only to CSV formats", advice=f"these are: {', '.join(tables)}")
    require_given(request.results, "torchstone export run.jsonl --to accuracy")
    given = read_inputs(request.results, request.kind, request.axes)
    chosen = [select(reading, lambda case: is_selected(case, request.only)) for reading in given]
    readings = list(merge(chosen).readings)
    run = merge_runs(readings, with_repro=request.to == "run")
    if not run.plan:
        raise no_match(request.only, given)
    converted = convert_run(run, request.to, raw_cells=request.raw_cells)
    cautions = tuple(caution for reading in readings for caution in reading.cautions)
    if converted.losses and not request.lossy:
        raise LossError(request.to, converted.losses, cautions)
    disturbed = sum(bool(outcome.cautions) for outcome in run.outcomes)
    if disturbed and (request.to == SUMMARY or "cautions" in converted.omitted):
        cautions += (make_caution(CautionKind.CAUTIONS_NOT_EXPORTED, format=request.to, cases=disturbed),)
    return ConvertResult(
        run, request.to, converted.text, converted.losses, cautions, converted.omitted, converted.cases
    )


_OF_METRICS = ("samples of ", "values of ", "the metric ")
_MOST_METRICS = 3


def list_losses(losses: Sequence[str]) -> str:
    """Join losses into one line; of many that differ only in their metric, the first stands for all."""
    groups: dict[str, list[str]] = {}
    for loss in losses:
        kind = next((start for start in _OF_METRICS if loss.startswith(start)), loss)
        groups.setdefault(kind, []).append(loss)
    return "; ".join(
        "; ".join(group)
        if len(group) <= _MOST_METRICS
        else f"{group[0]} and {count_of(len(group) - 1, 'other metric')}"
        for group in groups.values()
    )


class LossError(UsageError):
    """A format cannot hold all information in the files, and ``lossy`` is not set."""

    def __init__(self, kind: str, losses: tuple[str, ...], cautions: tuple[Caution, ...]) -> None:
        super().__init__(
            f"the format {kind} cannot hold: {list_losses(losses)}",
            advice="add --lossy to write it without them",
        )
        self.losses = losses
        self.cautions = cautions
