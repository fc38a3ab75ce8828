"""``torchstone import`` and ``torchstone export``: any format to any other, losing nothing silently."""

from __future__ import annotations

import sys

from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.output_trial import STANDARD_OUTPUT
from torchstone.cli.options.plain import FILE_OR_STDOUT, Option
from torchstone.cli.options.shared import KIND, ONLY, SET, patience, read_results
from torchstone.cli.terminal.output import require_stdout, write_data, write_exactly
from torchstone.cli.terminal.show import refuse_overwriting
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError, printable
from torchstone.core.text.units import count_of
from torchstone.formats import TABLES, WRITTEN
from torchstone.formats.convert import convert, merge_runs
from torchstone.formats.merge import is_selected, merge, no_match, select

RAW_CELLS = Option(
    "--raw-cells",
    "raw_cells",
    "",
    "Write CSV cells unchanged. By default, a cell that a spreadsheet would run as a formula, such as =1+1, gets a leading apostrophe.",
)
_OUTPUT = Option(
    "--output",
    "output",
    "FILE",
    "Where to write; by default to standard output.",
    short="-o",
    writes=FILE_OR_STDOUT,
)
IMPORT_OPTIONS = (_OUTPUT, ONLY, SET, KIND)
EXPORT_OPTIONS = (
    Option("--to", "to", "KIND", f"The format to write: {', '.join(WRITTEN)}.", choices=WRITTEN),
    _OUTPUT,
    Option("--lossy", "lossy", "", "Write even if the format cannot hold everything; what is lost is said."),
    RAW_CELLS,
    ONLY,
    SET,
    KIND,
)


def import_files(
    arguments: tuple[str, ...],
    *,
    output: str | None,
    only: tuple[str, ...],
    assignments: tuple[str, ...],
    kind: str | None,
) -> int:
    """Turn FILES of any format into a run file.

    Several files are merged, and the same case twice is an error.

    \b
    Examples:
      torchstone import results.csv --output results.jsonl
      torchstone import shard*.csv --set backend=inductor --output run.jsonl
    """
    return _convert(arguments, "run", output, only, assignments, kind, lossy=False)


def export_files(
    arguments: tuple[str, ...],
    *,
    to: str | None,
    output: str | None,
    lossy: bool,
    raw_cells: bool,
    only: tuple[str, ...],
    assignments: tuple[str, ...],
    kind: str | None,
) -> int:
    """Turn FILES of any format into another format.

    If the format cannot hold all that the files say, nothing is written
    unless --lossy is given.

    \b
    Examples:
      torchstone export run.jsonl --to accuracy --output accuracy.csv
      torchstone export results.csv --to v3 --output results.json
      torchstone export results.csv --to expected --lossy --output expected.csv
    """
    if not to:
        raise UsageError("which format?", advice=f"say --to and one of {', '.join(WRITTEN)}")
    if raw_cells and to not in TABLES:
        raise UsageError("--raw-cells applies only to CSV formats", advice=f"these are: {', '.join(TABLES)}")
    return _convert(arguments, to, output, only, assignments, kind, lossy=lossy, raw_cells=raw_cells)


def _convert(
    paths: tuple[str, ...],
    to: str,
    output: str | None,
    only: tuple[str, ...],
    assignments: tuple[str, ...],
    kind: str | None,
    *,
    lossy: bool,
    raw_cells: bool = False,
) -> int:
    output = None if output == STANDARD_OUTPUT else output
    refuse_overwriting([output] if output else [], paths)
    if not output:
        require_stdout()
    with patience("converting"):
        given = read_results(paths, kind, assignments)
        readings = [select(reading, lambda case: is_selected(case, only)) for reading in given]
        readings = list(merge(readings).readings)
        run = merge_runs(readings, with_repro=to == "run")
        if not run.plan:
            raise no_match(only, given)
        text, losses = convert(run, to, raw_cells=raw_cells)
    for caution in (caution for reading in readings for caution in reading.cautions):
        sys.stderr.write(f"caution: {printable(caution.text, 2000)}\n")
    if losses and not lossy:
        raise UsageError(
            f"the format {to} cannot hold: {'; '.join(losses)}", advice="add --lossy to write it without them"
        )
    if losses:
        sys.stderr.write(f"lost: {'; '.join(losses)}\n")
    if output:
        write_text(output, text)
        print(f"wrote {count_of(len(run.outcomes), 'case')} to {printable(output)}")
    else:
        (write_exactly if raw_cells else write_data)(text)
    return 0


import_command = make_command("import", import_files, IMPORT_OPTIONS, "FILES...", required=True)
export_command = make_command("export", export_files, EXPORT_OPTIONS, "FILES...", required=True)
