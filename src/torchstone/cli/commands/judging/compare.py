"""``torchstone compare``: did this get slower? Two sets of results, an effect and an interval a row, verdicts over all of them.

Nothing here needs click, so that the plain form of the command can do without importing it: see ``cli.options.plain``.
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
    COMPARE_ANYWAY,
    CONFIG,
    CROSS_ENVIRONMENT,
    KIND,
    ONLY,
    SET,
    patience,
)
from torchstone.cli.terminal.show import REPORT_OPTIONS, Shown, parse_reports, refuse_overwriting, show
from torchstone.core.config import POLICIES
from torchstone.core.errors import UsageError
from torchstone.reporting.dialects.styles import render_report
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
    "How much of a change matters, as 2% or METRIC=5%; by default what the gate's rules say. Repeatable."
)
_UPSTREAM_HELP = (
    "strict (the default), or upstream: the rounds of two DDP reports as the original prints them."
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
        "One more file of the base: more trials of its cases. Repeatable.",
        True,
    ),
    Option("--new", "more_new", "FILE", "One more file of the new side. Repeatable.", True),
    Option("--margin", "margins", "SHARE", _MARGIN_HELP, True),
    Option(
        "--alpha",
        "alpha",
        "SHARE",
        "How often a difference may be found where there is none. Default: 0.01.",
        parse=parse_share,
    ),
    Option("--metric", "metrics", "NAME", "Compare only this metric (a name or pattern). Repeatable.", True),
    Option(
        "--better",
        "better",
        "METRIC=WAY",
        "Which way is better, lower or higher, for a metric that torchstone does not know. Repeatable.",
        True,
        parse=_parse_better,
    ),
    ONLY,
    Option(
        "--sort", "sort", "BY", f"Order of the rows: {', '.join(SORTS)}. Default: verdict.", choices=SORTS
    ),
    Option("--policy", "policy", "NAME", _UPSTREAM_HELP, choices=POLICIES),
    Option(
        "--block",
        "block",
        "VERDICT",
        "Let this verdict block too, such as inconclusive. Repeatable.",
        True,
        _VERDICTS,
    ),
    Option(
        "--allow", "allow", "VERDICT", "Let this verdict pass, such as missing. Repeatable.", True, _VERDICTS
    ),
    SET,
    KIND,
    COMPARE_ANYWAY,
    CROSS_ENVIRONMENT,
    *REPORT_OPTIONS,
    CONFIG,
)


def compare(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Say whether NEW got slower than BASE, and how certain that is.

    BASE and NEW are files of any kind torchstone reads; more files of a side
    add trials of its cases. Every case and metric that both have gets its
    effect (new/base), an interval and a verdict: regression, improvement,
    same, or inconclusive with what would settle it. The exit code is 0 if
    nothing blocks, 1 if something does, 2 if the input is bad.

    \b
    Examples:
      torchstone compare base.jsonl new.jsonl
      torchstone compare a1.jsonl b1.jsonl --base a2.jsonl --new b2.jsonl
      torchstone compare base.jsonl new.jsonl --margin 2% --metric abs_latency
      torchstone compare old.csv new.csv --format markdown
    """
    reports = parse_reports(values["reports"])
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
    shown = Shown(values["style"] or "text", values["output"], tuple(reports))
    refuse_overwriting(shown.paths, (*names_of(request.base), *names_of(request.new)))
    with patience("comparing"):
        result = compare_results(request)
    show(partial(render_report, result.report), shown)
    return result.exit_code


def _require_two(arguments: tuple[str, ...]) -> None:
    """Two files, or enough options that name some."""
    if len(arguments) > 2:
        raise UsageError(
            f"{len(arguments)} files given: which are the base, which are new?",
            advice="name one of each, BASE NEW, and further ones with --base FILE and --new FILE",
        )
    if len(arguments) < 2:
        raise UsageError(
            "two files are needed: BASE and NEW",
            advice="for example: torchstone compare base.jsonl new.jsonl",
        )


def _parse_margins(texts: tuple[str, ...]) -> tuple[float | None, tuple[tuple[str, float], ...]]:
    """``2%`` for all metrics, once at most; ``METRIC=5%`` for some."""
    plain = [text for text in texts if "=" not in text]
    if len(plain) > 1:
        raise UsageError(
            f"--margin {plain[1]}: there is already {plain[0]}", advice="name the metric: --margin speedup=5%"
        )
    named = (text.rpartition("=") for text in texts if "=" in text)
    margins = tuple((metric, _parse_margin(share)) for metric, _, share in named)
    return _parse_margin(plain[0]) if plain else None, margins


def _parse_margin(text: str) -> float:
    """``2%`` or ``0.02``; 0 where no change at all is wanted."""
    return 0.0 if text in {"0", "0%"} else parse_share("--margin", text) or 0.0
