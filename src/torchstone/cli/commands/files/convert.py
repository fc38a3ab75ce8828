"""``torchstone import`` and ``torchstone export``: convert between formats, and report everything that is lost."""

from __future__ import annotations

import sys
from typing import Any

from torchstone.api.files.convert import ConvertRequest, LossError, convert_results, list_losses
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.output_checks import STANDARD_OUTPUT
from torchstone.cli.options.plain import FILE_OR_STDOUT, Option
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import KIND, ONLY, SET, show_progress
from torchstone.cli.terminal.output import require_stdout, write_data, write_exactly
from torchstone.cli.terminal.show import refuse_overwriting
from torchstone.core.cautions import Caution
from torchstone.core.errors import UsageError, printable
from torchstone.formats import EXPORTED

RAW_CELLS = Option(
    "--raw-cells",
    "raw_cells",
    "",
    "Write CSV cells unchanged. By default, a cell that a spreadsheet would run as a formula, such as =1+1, gets a leading apostrophe.",
    section="Output",
)
_OUTPUT = Option(
    "--output",
    "output",
    "FILE",
    "Output file (default: standard output).",
    short="-o",
    writes=FILE_OR_STDOUT,
    section="Output",
)
IMPORT_OPTIONS = (_OUTPUT, ONLY, SET, KIND)
EXPORT_OPTIONS = (
    Option(
        "--to",
        "to",
        "KIND",
        f"Format to write: {', '.join(EXPORTED[:-1])} or {EXPORTED[-1]}.",
        choices=EXPORTED,
        section="Output",
    ),
    _OUTPUT,
    Option(
        "--lossy",
        "lossy",
        "",
        "Write even if the format cannot hold everything, and report what is lost.",
        section="Output",
    ),
    RAW_CELLS,
    ONLY,
    SET,
    KIND,
)


def import_files(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Convert FILES of any format to a run file.

    Several files are merged; a case must not occur twice.

    \b
    Examples:
      torchstone import results.csv --output results.jsonl
      torchstone import shard*.csv --set backend=inductor --output run.jsonl
    """
    return _convert(make_request(ConvertRequest, IMPORT_OPTIONS, values, results=arguments), values["output"])


def export_files(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Convert FILES of any format to another format.

    If the format cannot hold all data in the files, nothing is written
    unless --lossy is given. csv is a table for spreadsheets and data frames:
    one row per case and metric, with interval, unit and number of trials.

    \b
    Examples:
      torchstone export run.jsonl --to accuracy --lossy --output accuracy.csv
      torchstone export run.jsonl --to csv --output results.csv
      torchstone export run.jsonl --to v3 --output results.json
      torchstone export results.csv --to expected --lossy --output expected.csv
    """
    if not values["to"]:
        raise UsageError("no output format given", advice=f"add --to and one of {', '.join(EXPORTED)}")
    return _convert(make_request(ConvertRequest, EXPORT_OPTIONS, values, results=arguments), values["output"])


def _convert(request: ConvertRequest, output: str | None) -> int:
    output = None if output == STANDARD_OUTPUT else output
    refuse_overwriting([output] if output else [], [str(each) for each in request.results])
    if not output:
        require_stdout()
    try:
        with show_progress("converting"):
            result = convert_results(request)
    except LossError as error:
        _print_cautions(error.cautions)
        raise
    _print_cautions(result.cautions)
    if result.losses:
        sys.stderr.write(f"lost: {list_losses(result.losses)}\n")
    if output:
        result.write(output)
        print(f"wrote {result.summary} to {printable(output)}")
    else:
        (write_exactly if request.raw_cells else write_data)(result.text)
    return 0


def _print_cautions(cautions: tuple[Caution, ...]) -> None:
    for caution in cautions:
        sys.stderr.write(f"caution: {printable(caution.text, 2000)}\n")


import_command = make_command("import", import_files, IMPORT_OPTIONS, "FILES...", required=True)
export_command = make_command("export", export_files, EXPORT_OPTIONS, "FILES...", required=True)
