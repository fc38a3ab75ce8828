"""Read the speedup targets of PyTorch's CPU smoke test: ``name[,backend],data_type,shape,wrapper,target``.

The header is a comment (``#name,...``), and so are disabled rows; columns are identified by position, and the
last one is the target. The smoke test tolerates a speedup 1 % below the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import InputError, UsageError, printable
from torchstone.core.records import Case, Measurement, Outcome, Reading, Variant, run_of
from torchstone.core.vocabulary import Probe
from torchstone.formats import table
from torchstone.formats.torch.ci_name import BACKEND_OPTION, SHAPES, read_targets_name

KIND = "speedup-targets"
MARGIN = 0.01
WRAPPER = "wrapper"
"""The axis for the language of the wrapper code; ``default`` is Python."""
_COLUMNS = ("name", "backend", "data_type", "shape", WRAPPER, "target")
_LAYOUTS = {len(columns): columns for columns in (_COLUMNS, ("name", *_COLUMNS[2:]))}


def is_header(line: str) -> bool:
    """Return whether a line is the header of such a file.

    >>> is_header("#name,backend,data_type,shape,wrapper,perf_speedup_target_c7i\\n"), is_header("# name it")
    (True, False)
    """
    names = [cell.strip() for cell in line.lstrip("# \t").split(",")]
    return line.startswith("#") and tuple(names[:-1]) in {columns[:-1] for columns in _LAYOUTS.values()}


def read_targets(path: str, text: str) -> Reading:
    """Read one row per model and configuration, with its expected speedup."""
    lines: list[int] = []
    outcomes: list[Outcome] = []
    name = read_targets_name(path)
    for line, cells in table.Rows(path, text):
        if cells[0].lstrip().startswith("#"):  # the smoke test also treats indented lines as comments
            continue
        row = _Row(path, line, cells)
        case = Case(row.name("name"), Probe.PERFORMANCE.value, name.suite, row.variant(name.device))
        outcomes.append(
            Outcome(case, "", (Measurement("speedup", (row.target(),), MeasurementDetails(margin=MARGIN)),))
        )
        lines.append(line)
    table.require_rows(path, outcomes)
    return Reading(path, KIND, run_of(path, outcomes), lines)


def as_in_row(case: Case) -> Case:
    """Return the part of a case that a row states; static shapes and the default wrapper unless stated otherwise."""
    stated = case.variant
    wrapper = dict(stated.further).get(WRAPPER, "default")
    variant = Variant(
        stated.device, stated.backend, "", stated.dtype, bool(stated.dynamic), further=((WRAPPER, wrapper),)
    )
    return Case(case.benchmark, case.probe, case.suite, variant)


def cells_of(outcome: Outcome, count: int) -> list[str]:
    """Return the cells of an outcome's row without the target, for rows with this many cells."""
    case = as_in_row(outcome.case)
    variant = case.variant
    cells = {
        "name": case.benchmark,
        "backend": variant.backend
        if variant.backend.startswith("export")
        else BACKEND_OPTION + variant.backend,
        "data_type": variant.dtype,
        "shape": next(shape for shape, dynamic in SHAPES.items() if dynamic == variant.dynamic),
        WRAPPER: dict(variant.further)[WRAPPER],
    }
    columns = _LAYOUTS[count][:-1]
    unknown = [axis for axis in ("backend", "dtype") if not getattr(variant, axis)]
    if unknown and not (unknown == ["backend"] and "backend" not in columns):
        advice = f"state it with --set {unknown[-1]}=..."
        raise UsageError(f"{case.name}: the results do not state the {unknown[-1]}", advice=advice)
    if outcome.value("speedup") is None:
        raise UsageError(f"{case.name}: the result has no speedup", advice="leave it out, with --only")
    return [cells[column] for column in columns]


class _Row:
    """The cells of one row by column name; old files have one column less."""

    def __init__(self, path: str, line: int, cells: Sequence[str]) -> None:
        columns = _LAYOUTS.get(len(cells))
        if columns is None:
            raise table.reject_row_length(path, line, cells, _COLUMNS)
        self._path, self._line = path, line
        self._cells = dict(zip(columns, cells, strict=True))

    def name(self, column: str) -> str:
        """Return a cell that is a name."""
        return table.read_name(self._path, self._line, column, self._cells[column])

    def variant(self, device: str) -> Variant:
        """Return the axes of the row.

        The backend is a runner option: ``backend=inductor`` or ``export-aot-inductor``.
        """
        shape = self.name("shape")
        if shape not in SHAPES:
            advice = f"expected {' or '.join(SHAPES)}"
            raise InputError(
                f"'{printable(shape, 40)}' is not a known kind of shape",
                path=self._path,
                line=self._line,
                column="shape",
                advice=advice,
            )
        backend = self.name("backend").removeprefix(BACKEND_OPTION) if "backend" in self._cells else ""
        further = ((WRAPPER, self.name(WRAPPER)),)
        return Variant(device, backend, "", self.name("data_type"), SHAPES[shape], further=further)

    def target(self) -> float:
        """Return the expected speedup."""
        number = table.read_positive(self._path, self._line, "target", self._cells["target"])
        if number == 0:
            advice = "a margin relative to 0 means nothing: begin the row with # to switch it off"
            raise InputError(
                "a target of 0", path=self._path, line=self._line, column="target", advice=advice
            )
        return number
