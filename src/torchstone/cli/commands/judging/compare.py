"""``torchstone compare``: compare two sets of results; each row gets an effect, an interval and a verdict.

Does not import click, so that a plain command line runs without it: see ``cli.options.plain``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torchstone.api.judging.compare import CompareRequest, compare_results
from torchstone.api.sources import names_of
from torchstone.cli.options.plain import Option
from torchstone.cli.options.quantities import parse_share
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import (
    BLOCKING,
    CASES,
    COMPARE_ANYWAY,
    CONFIG,
    CROSS_ENVIRONMENT,
    INPUT,
    JUDGING,
    KIND,
    ONLY,
    SET,
    show_progress,
)
from torchstone.cli.terminal.show import (
    REPORT,
    plan_reports,
    refuse_overwriting,
    report_options,
    show,
)
from torchstone.core.config import POLICIES
from torchstone.core.errors import UsageError
from torchstone.reporting.dialects.styles import COMPARISON_STYLES, render_report
from torchstone.reporting.views.comparison_rows import SORTS

_VERDICTS = (
    "invalid",
    "missing",
    "regression",
    "inconclusive",
    "new",
    "improvement",
    "expected_failure",
    "same",
)
_MARGIN_HELP = (
    "Relative change to tolerate, as 2% or METRIC=5% (default: as the rules of the gate say). Repeatable."
)
_UPSTREAM_HELP = "strict (default); lenient: undecided and new rows do not block; or upstream: print the rounds of two DDP reports as PyTorch's own script does."

_OUTPUT_HELP = (
    "Write the report to this file, and print the text report; without --format, FILE.html is an HTML page."
)


def _parse_better(flag: str, texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    for text in texts:
        metric, _, way = text.rpartition("=")
        if not metric or way not in {"lower", "higher"}:
            raise UsageError(f"{flag} {text}: expected METRIC=lower or METRIC=higher")
    return tuple((text.rpartition("=")[0], text.rpartition("=")[2]) for text in texts)


OPTIONS = (
    Option(
        "--base",
        "more_base",
        "FILE",
        "Another base file, with more trials of its cases. Repeatable.",
        True,
        section=INPUT,
    ),
    Option("--new", "more_new", "FILE", "Another new file. Repeatable.", True, section=INPUT),
    Option("--margin", "margins", "SHARE", _MARGIN_HELP, True, section=JUDGING),
    Option(
        "--alpha",
        "alpha",
        "SHARE",
        "Accepted rate of false alarms (default: 0.01).",
        parse=parse_share,
        section=JUDGING,
    ),
    Option(
        "--metric", "metrics", "NAME", "Only this metric: a name or pattern. Repeatable.", True, section=CASES
    ),
    Option(
        "--better",
        "better",
        "METRIC=WAY",
        "Whether lower or higher is better, for a metric that torchstone does not know. Repeatable.",
        True,
        parse=_parse_better,
        section=JUDGING,
    ),
    ONLY,
    Option("--policy", "policy", "NAME", _UPSTREAM_HELP, choices=POLICIES, section=JUDGING),
    Option(
        "--block",
        "block",
        "VERDICT",
        "Make this verdict block, too, such as inconclusive. Repeatable.",
        True,
        _VERDICTS,
        section=BLOCKING,
    ),
    Option(
        "--allow",
        "allow",
        "VERDICT",
        "Let this verdict pass, such as missing. Repeatable.",
        True,
        _VERDICTS,
        section=BLOCKING,
    ),
    SET,
    KIND,
    COMPARE_ANYWAY,
    CROSS_ENVIRONMENT,
    *report_options(COMPARISON_STYLES, _OUTPUT_HELP),
    Option(
        "--sort",
        "sort",
        "BY",
        f"Order of the rows: {', '.join(SORTS[:-1])} or {SORTS[-1]} (default: verdict).",
        choices=SORTS,
        section=REPORT,
    ),
    CONFIG,
)


def compare(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Compare two sets of results, and decide whether NEW is slower.

    BASE and NEW are files in any format that torchstone reads; more files of
    a side add trials of its cases. Every metric of every case that both have
    gets an effect (the ratio new/base), a confidence interval and a verdict:
    regression, improvement, same, or inconclusive, with advice on how to
    decide it.

    \b
    Examples:
      torchstone compare base.jsonl new.jsonl
      torchstone compare a1.jsonl b1.jsonl --base a2.jsonl --new b2.jsonl
      torchstone compare base.jsonl new.jsonl --margin 2% --metric abs_latency
      torchstone compare old.csv new.csv --format markdown
      torchstone compare base.jsonl new.jsonl -o page.html

    \b
    Exit codes:
      0  nothing blocks
      1  a verdict blocks
      2  bad input or usage
    """
    shown = plan_reports(values, COMPARISON_STYLES)
    _require_two(arguments)
    margin, margins = _parse_margins(values["margins"])
    request = make_request(
        CompareRequest,
        OPTIONS,
        values,
        base=(*arguments[:1], *values["more_base"]),
        new=(*arguments[1:2], *values["more_new"]),
        margin=margin,
        margins=margins,
    )
    refuse_overwriting(shown.paths, (*names_of(request.base), *names_of(request.new)))
    with show_progress("comparing"):
        result = compare_results(request)
    show(partial(render_report, result.report), shown)
    return result.exit_code


def _require_two(arguments: tuple[str, ...]) -> None:
    """Raise an error unless there are two files."""
    if len(arguments) > 2:
        raise UsageError(
            f"{len(arguments)} files given, expected two: BASE and NEW",
            advice="add further files with --base FILE and --new FILE",
        )
    if len(arguments) < 2:
        raise UsageError(
            "expected two files: BASE and NEW",
            advice="for example: torchstone compare base.jsonl new.jsonl",
        )


def _parse_margins(texts: tuple[str, ...]) -> tuple[float | None, tuple[tuple[str, float], ...]]:
    """Parse margins: ``2%`` for all metrics, at most once, and ``METRIC=5%`` for single ones."""
    plain = [text for text in texts if "=" not in text]
    if len(plain) > 1:
        raise UsageError(
            f"--margin {plain[1]}: already set to {plain[0]}", advice="name the metric: --margin speedup=5%"
        )
    named = (text.rpartition("=") for text in texts if "=" in text)
    margins = tuple((metric, _parse_margin(share)) for metric, _, share in named)
    return _parse_margin(plain[0]) if plain else None, margins


def _parse_margin(text: str) -> float:
    """Parse ``2%`` or ``0.02``; 0 tolerates no change."""
    return 0.0 if text in {"0", "0%"} else parse_share("--margin", text) or 0.0
