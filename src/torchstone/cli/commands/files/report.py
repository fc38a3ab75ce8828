"""``torchstone report``: results as one HTML page."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import date

from msgspec import Struct

from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.output_trial import STANDARD_OUTPUT
from torchstone.cli.options.plain import FILE_OR_STDOUT, Option
from torchstone.cli.options.quantities import parse_count
from torchstone.cli.options.shared import (
    COMPARE_ANYWAY,
    CONFIG,
    CROSS_ENVIRONMENT,
    KIND,
    KINDS,
    ONLY,
    SET,
    patience,
    read_results,
)
from torchstone.cli.terminal.output import require_stdout, write_data
from torchstone.cli.terminal.show import refuse_overwriting
from torchstone.core.config import QUARANTINE_NAME, Settings, load_settings
from torchstone.core.disk import try_file, write_text
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import QuarantineEntry, Reading
from torchstone.core.text.units import count_of
from torchstone.formats import read_file
from torchstone.formats.merge import Results, merge, no_match, require_results
from torchstone.gate.baseline import Baseline, require_common_probe, select_pair
from torchstone.gate.judge import judge
from torchstone.gate.policy import make_policy
from torchstone.gate.rules import RuleBook
from torchstone.gate.verdicts import Conditions
from torchstone.reporting.html.page import fit_page, render_page
from torchstone.reporting.views.accepting import find_terms
from torchstone.reporting.views.check_rows import Context, Report
from torchstone.reporting.views.page_view import MOST_ROWS, Page, make_page

DEFAULT_OUTPUT = "report.html"

OPTIONS = (
    Option(
        "--baseline", "baselines", "FILE", "What is expected, to show what the gate says. Repeatable.", True
    ),
    Option(
        "--output",
        "output",
        "FILE",
        f"Where to write; by default {DEFAULT_OUTPUT}, - for standard output.",
        short="-o",
        writes=FILE_OR_STDOUT,
    ),
    ONLY,
    Option(
        "--most-rows",
        "most_rows",
        "N",
        f"Maximum number of cases in the table (default {MOST_ROWS:,}), red and failed first. Totals and charts cover all cases.",
    ),
    SET,
    KIND,
    Option(
        "--baseline-kind",
        "baseline_kind",
        "KIND",
        "The kind of the baseline files, if it is not to be recognised.",
        choices=KINDS,
    ),
    COMPARE_ANYWAY,
    CROSS_ENVIRONMENT,
    CONFIG,
)


class Judging(Struct, frozen=True):
    """How the results are judged: the settings, what may be compared, and the options a suggested command repeats."""

    settings: Settings
    compare_anyway: bool
    cross_environment: bool
    repeated: tuple[str, ...]


def report_files(
    arguments: tuple[str, ...],
    *,
    baselines: tuple[str, ...],
    output: str | None,
    only: tuple[str, ...],
    most_rows: str | None,
    assignments: tuple[str, ...],
    kind: str | None,
    baseline_kind: str | None,
    compare_anyway: bool,
    cross_environment: bool,
    config: str | None,
) -> int:
    """Show results as one HTML page that needs nothing but a browser.

    RUNFILE is a run file, or results of any other kind torchstone reads;
    several are merged. With --baseline each case also has what the gate says
    about it, by the strict policy and the rules and quarantine that check uses.
    The exit code says nothing about the results: that is what check is for.

    \b
    Examples:
      torchstone report run.jsonl
      torchstone report run.jsonl --baseline last-week.jsonl -o report.html
      torchstone report shard*.csv --baseline expected.csv
    """
    path = _find_place(output, (*arguments, *baselines))
    repeated = _repeat(("--config", config), ("--kind", kind), ("--baseline-kind", baseline_kind))
    repeated += _repeat(*(("--set", assignment) for assignment in assignments))
    judging = Judging(load_settings(config), compare_anyway, cross_environment, repeated)
    most = parse_count("--most-rows", most_rows) or MOST_ROWS
    with patience("making the report"):
        readings = read_results(arguments, kind, assignments)
        require_results(readings, kind)
        expected = [read_file(baseline, baseline_kind or "") for baseline in baselines]
        chosen, selected = select_pair(readings, expected, only)
        results = merge(chosen)
        if not any(reading.run.plan for reading in (*chosen, *selected)):
            raise no_match(only, (*readings, *expected)) if only else UsageError("there are no cases")
        report = _judge(results, selected, expected, judging) if baselines else None
        page = make_page(
            results,
            report,
            selected,
            most_rows=most,
            command=_command(arguments, baselines, output, judging),
            selection=_repeat(*(("--only", pattern) for pattern in only)),
        )
        page, lines = fit_page(page)
        text = render_page(page, lines)
        if path:
            write_text(path, text)
    if not path:
        write_data(text)
    _tell(page, path)
    return 0


def _find_place(output: str | None, inputs: Sequence[str]) -> str:
    """The file to write, which is tried first; empty for standard output."""
    if output == STANDARD_OUTPUT:
        require_stdout()
        return ""
    path = output or DEFAULT_OUTPUT
    refuse_overwriting([path], inputs)
    try_file(path)
    return path


def _command(
    arguments: Sequence[str], baselines: Sequence[str], output: str | None, judging: Judging
) -> tuple[str, ...]:
    """The command that makes the same page, less the cases that it asked for."""
    named = _repeat(*(("--baseline", each) for each in baselines), ("--output", output))
    flags = (
        *(("--compare-anyway",) if judging.compare_anyway else ()),
        *(("--cross-environment",) if judging.cross_environment else ()),
    )
    return ("torchstone", "report", *arguments, *named, *flags, *judging.repeated)


def _tell(page: Page, path: str) -> None:
    """Say what the page says in short, and where it is; beside a page on standard output, say it on standard error."""
    for caution in page.cautions:
        sys.stderr.write(f"caution: {printable(caution, 2000)}\n")
    total, held = count_of(len(page.rows), "case"), len(page.shown)
    in_table = (
        f": its table holds {held:,} of them, --most-rows asks for more" if held < len(page.rows) else ""
    )
    place = printable(path) if path else "standard output"
    told = f"{page.headline}\nwrote {total} to {place}{in_table}"
    print(told, file=sys.stdout if path else sys.stderr)


def _repeat(*options: tuple[str, str | None]) -> tuple[str, ...]:
    """The options that were given, as a suggested command has to repeat them."""
    return tuple(word for flag, value in options if value for word in (flag, value))


def _judge(
    results: Results, selected: Sequence[Reading], expected: Sequence[Reading], judging: Judging
) -> Report:
    """What the gate says, by the strict policy."""
    require_common_probe(results.readings, expected)
    settings = judging.settings
    conditions = Conditions(
        make_policy("strict", settings.block, settings.allow),
        RuleBook(settings.rules),
        tuple(_quarantine(settings)),
        today=date.today(),
        compare_anyway=judging.compare_anyway,
        cross_environment=judging.cross_environment,
    )
    dtypes = {case.variant.dtype for reading in results.readings for case in reading.run.plan}
    probes = {reading.path: frozenset(case.probe for case in reading.run.plan) for reading in expected}
    context = Context(
        tuple(reading.path for reading in results.readings),
        probes,
        find_terms(results.readings, expected, conditions.rules),
        judging.repeated,
        judging.repeated,
        _repeated_names((*results.readings, *selected)),
    )
    return Report(judge(results, Baseline(selected, expected, dtypes), conditions), context)


def _repeated_names(readings: Sequence[Reading]) -> frozenset[str]:
    """The names that several cases share: suggested commands use ids for them."""
    repeated: set[str] = set()
    for reading in readings:
        names = Counter(case.benchmark for case in reading.run.plan)
        repeated |= {name for name, times in names.items() if times > 1}
    return frozenset(repeated)


def _quarantine(settings: Settings) -> list[QuarantineEntry]:
    """The entries of the files that the settings name; else those of quarantine.toml."""
    paths = settings.quarantines or ([QUARANTINE_NAME] if os.path.exists(QUARANTINE_NAME) else [])
    if not paths:
        return []
    from torchstone.gate.quarantine import read_quarantine  # noqa: PLC0415  (TOML takes its time to import)

    return [entry for path in paths for entry in read_quarantine(path)]


report_command = make_command("report", report_files, OPTIONS, "RUNFILE...", required=True)
