"""``report``: make an HTML page of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.judging.check import find_repeated_names, probes_of
from torchstone.api.judging.missing_cases import add_commands
from torchstone.api.judging.verdicts_and_quarantine import find_quarantine
from torchstone.api.requests import Path, Sources, Texts, command_words, make_request, path_of
from torchstone.api.sources import (
    Axes,
    Input,
    list_baselines,
    names_of,
    read_input,
    read_inputs,
    require_given,
)
from torchstone.api.value_checks import check_count
from torchstone.core.cautions import Caution
from torchstone.core.config import ConfigFile, load_config
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError
from torchstone.core.records import Reading
from torchstone.core.text.units import count_of
from torchstone.formats.merge import Results, merge, no_match, require_results
from torchstone.gate.baseline import Baseline, require_common_probe, select_pair
from torchstone.gate.blocking_policy import make_policy
from torchstone.gate.checking.against_baseline import check_against_baseline
from torchstone.gate.judgement import Conditions
from torchstone.gate.rules import RuleBook
from torchstone.reporting.html.elements import element
from torchstone.reporting.html.page import fit_page, render_page
from torchstone.reporting.views.accepting import acceptance_for
from torchstone.reporting.views.check_rows import Context, Report
from torchstone.reporting.views.page_view import MOST_ROWS, Page, make_page

if TYPE_CHECKING:
    from typing import Unpack

PIXELS = 640  # height of the page in a notebook


class ReportRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Contents of the page. ``output`` is part of the command that makes the page again."""

    results: tuple[Input, ...]
    baselines: tuple[Input, ...] = ()
    only: tuple[str, ...] = ()
    most_rows: int = MOST_ROWS
    axes: Axes = ()
    kind: str = ""
    baseline_kind: str = ""
    compare_anyway: bool = False
    cross_environment: bool = False
    config: str | None = None
    output: str | None = None


class ReportOptions(TypedDict, total=False):
    """Options of ``report``, explained in docs/reports.md."""

    baselines: Sources
    only: Texts
    most_rows: int
    axes: Mapping[str, object]
    kind: str
    baseline_kind: str
    compare_anyway: bool
    cross_environment: bool
    config: Path


class ReportResult(Struct, frozen=True):
    """A self-contained HTML page."""

    page: Page
    html: str

    @property
    def headline(self) -> str:
        """The results in one line."""
        return self.page.headline

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Warnings about the input."""
        return self.page.cautions

    def write(self, path: Path) -> None:
        """Write the page."""
        write_text(path_of(path), self.html)

    def __str__(self) -> str:
        total, held = count_of(len(self.page.rows), "case"), len(self.page.shown)
        left_out = f", {held:,} of them in the table" if held < len(self.page.rows) else ""
        return f"{self.headline}\n{total}{left_out}"

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {PIXELS}px; border: 1px solid #ccc"
        return str(element("iframe", srcdoc=self.html, style=style, sandbox="allow-scripts"))


def report(results: Sources, **options: Unpack[ReportOptions]) -> ReportResult:
    """Make an HTML page of results, as ``torchstone report`` does.

    torchstone.report("run.jsonl", baselines="last-week.jsonl").write("report.html")
    """
    return make_report(make_request(ReportRequest, {"results": results, **options}))


def make_report(request: ReportRequest) -> ReportResult:
    """Make a page as requested."""
    check_count("--most-rows", request.most_rows)
    require_given(request.results, "torchstone report run.jsonl")
    settings = load_config(request.config)
    readings = read_inputs(request.results, request.kind, request.axes)
    require_results(readings, request.kind)
    expected = [read_input(each, request.baseline_kind) for each in list_baselines(request.baselines)]
    chosen, selected = select_pair(readings, expected, request.only)
    results = merge(chosen)
    if not any(reading.run.plan for reading in (*chosen, *selected)):
        only = request.only
        raise no_match(only, (*readings, *expected)) if only else UsageError("the files contain no cases")
    page = make_page(
        results,
        _judge(results, selected, expected, request, settings) if request.baselines else None,
        selected,
        most_rows=request.most_rows,
        command=_command(request),
        selection=command_words(("--only", request.only)),
    )
    page, lines = fit_page(page)
    return ReportResult(page, render_page(page, lines))


def _repeated(request: ReportRequest) -> tuple[str, ...]:
    """Return the options that a suggested command repeats."""
    return command_words(
        ("--config", request.config),
        ("--kind", request.kind),
        ("--baseline-kind", request.baseline_kind),
        ("--set", request.axes),
    )


def _command(request: ReportRequest) -> tuple[str, ...]:
    """Return the command that makes the same page, without the selection of cases."""
    named = command_words(
        ("--baseline", names_of(request.baselines)),
        ("--output", request.output),
        ("--compare-anyway", request.compare_anyway),
        ("--cross-environment", request.cross_environment),
    )
    return ("torchstone", "report", *names_of(request.results), *named, *_repeated(request))


def _judge(
    results: Results,
    selected: Sequence[Reading],
    expected: Sequence[Reading],
    request: ReportRequest,
    settings: ConfigFile,
) -> Report:
    """Judge the results by the policy of the settings file, as ``check`` does; PyTorch's own policy has no page, so that one is strict."""
    require_common_probe(results.readings, expected)
    name = "strict" if settings.policy == "upstream" else settings.policy
    policy = make_policy(name, settings.block, settings.allow)
    conditions = Conditions(
        policy,
        RuleBook(settings.rules),
        tuple(find_quarantine(settings.quarantines, policy)[0]),
        today=date.today(),
        compare_anyway=request.compare_anyway,
        cross_environment=request.cross_environment,
    )
    dtypes = {case.variant.dtype for reading in results.readings for case in reading.run.plan}
    repeated = _repeated(request)
    context = Context(
        tuple(reading.path for reading in results.readings),
        probes_of(expected),
        acceptance_for(results.readings, expected, conditions.rules),
        repeated,
        repeated,
        find_repeated_names((*results.readings, *selected)),
    )
    judgement = check_against_baseline(results, Baseline(selected, expected, dtypes), conditions)
    return Report(add_commands(judgement, results.readings, selected), context)
