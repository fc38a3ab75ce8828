"""``torchstone compare``: did this get slower? Two sets of results, an effect and an interval a row, verdicts over all of them.

Nothing here needs click, so that the plain form of the command can do without importing it: see ``cli.plain``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from torchstone.cli.options.plain import Option
from torchstone.cli.options.quantities import parse_share
from torchstone.cli.options.shared import (
    COMPARE_ANYWAY,
    CONFIG,
    CROSS_ENVIRONMENT,
    KIND,
    ONLY,
    SET,
    patience,
    read_results,
)
from torchstone.cli.terminal.show import (
    REPORT_OPTIONS,
    parse_reports,
    refuse_overwriting,
    render,
    show,
)
from torchstone.core.config import POLICIES, load_settings
from torchstone.core.errors import UsageError
from torchstone.core.records import Reading
from torchstone.core.vocabulary import Verdict
from torchstone.gate.comparing import compare_files
from torchstone.gate.criteria import USUAL_ALPHA, CompareSettings
from torchstone.gate.policy import Policy, comparison_policy
from torchstone.gate.rules import RuleBook
from torchstone.gate.trials_of_sides import gather
from torchstone.gate.verdicts import Judgement, Overview, RoundTable
from torchstone.reporting.views.comparison_rows import SORTS, CompareReport
from torchstone.reporting.views.paired_rounds import (
    are_ddp,
    compare_by_name,
    compare_by_position,
    header_keys,
)

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
        "--alpha", "alpha", "SHARE", "How often a difference may be found where there is none. Default: 0.01."
    ),
    Option("--metric", "metrics", "NAME", "Compare only this metric (a name or pattern). Repeatable.", True),
    Option(
        "--better",
        "better",
        "METRIC=WAY",
        "Which way is better, lower or higher, for a metric that torchstone does not know. Repeatable.",
        True,
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
_REPEATED = {
    *("margins", "alpha", "metrics", "better", "block", "allow", "assignments", "kind"),
    *("compare_anyway", "cross_environment", "config"),
}


class Request(Struct, frozen=True):
    """What the user asked for: the files, and every option by its name."""

    arguments: tuple[str, ...]
    more_base: tuple[str, ...]
    more_new: tuple[str, ...]
    margins: tuple[str, ...]
    alpha: str | None
    metrics: tuple[str, ...]
    better: tuple[str, ...]
    only: tuple[str, ...]
    sort: str | None
    policy: str | None
    block: tuple[str, ...]
    allow: tuple[str, ...]
    assignments: tuple[str, ...]
    kind: str | None
    compare_anyway: bool
    cross_environment: bool
    style: str | None
    output: str | None
    reports: tuple[str, ...]
    config: str | None

    @property
    def base(self) -> tuple[str, ...]:
        """The files of the base."""
        return (*self.arguments[:1], *self.more_base)

    @property
    def new(self) -> tuple[str, ...]:
        """The files of the new side."""
        return (*self.arguments[1:2], *self.more_new)

    def repeat(self) -> tuple[str, ...]:
        """The options that a suggested command has to repeat, as they were given."""
        words: list[str] = []
        for option in OPTIONS:
            value = getattr(self, option.name) if option.name in _REPEATED else None
            if value is True:
                words.append(option.flag)
            for text in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
                words += [option.flag, text]
        return tuple(words)


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
    request = Request(arguments, **values)
    reports = parse_reports(request.reports)
    _require_two(request)
    outputs = [path for path in (request.output, *(path for _, path in reports)) if path]
    refuse_overwriting(outputs, (*request.base, *request.new))
    with patience("comparing"):
        compared = _compare(request)
    report = CompareReport(compared, request.base, request.new, request.repeat(), request.sort or SORTS[0])
    show(partial(render, report), request.style or "text", request.output, reports)
    return compared.exit_code


def _require_two(request: Request) -> None:
    """Two files, or enough options that name some."""
    if len(request.arguments) > 2:
        raise UsageError(
            f"{len(request.arguments)} files given: which are the base, which are new?",
            advice="name one of each, BASE NEW, and further ones with --base FILE and --new FILE",
        )
    if len(request.arguments) < 2:
        raise UsageError(
            "two files are needed: BASE and NEW",
            advice="for example: torchstone compare base.jsonl new.jsonl",
        )


def _compare(request: Request) -> Judgement:
    """Read all files, and compare."""
    base = read_results(request.base, request.kind, request.assignments)
    new = read_results(request.new, request.kind, request.assignments)
    settings = _settings(request)
    if settings.policy.is_upstream:
        _refuse_what_upstream_ignores(request)
        return _compare_as_upstream(base, new, settings)
    sides = gather(base, new, request.only)
    compared = compare_files(*sides, settings)
    if not are_ddp((*base, *new)):
        return compared
    from msgspec import structs  # noqa: PLC0415

    rounds = compare_by_name(*(side.readings for side in sides))
    return structs.replace(compared, rounds=RoundTable(header_keys((*base, *new)), rounds))


def _refuse_what_upstream_ignores(request: Request) -> None:
    """The original has one way to compare, and judges nothing: options that would change that are refused."""
    ignored = ("margins", "alpha", "metrics", "better", "only", "sort", "block", "allow")
    given = [option.flag for option in OPTIONS if option.name in ignored and getattr(request, option.name)]
    if given:
        raise UsageError(
            f"the policy upstream compares all rounds as the original does, without {' and '.join(given)}",
            advice="leave out either of them",
        )


def _compare_as_upstream(
    base: Sequence[Reading], new: Sequence[Reading], settings: CompareSettings
) -> Judgement:
    """What the original's comparison of two DDP reports prints; it judges nothing."""
    if not are_ddp((*base, *new)) or len(base) != 1 or len(new) != 1:
        raise UsageError(
            "the policy upstream compares two DDP reports, and nothing else",
            advice="leave out --policy; the original's gates are in 'torchstone check --policy upstream'",
        )
    rounds = RoundTable(header_keys((*base, *new)), compare_by_position(base[0], new[0]))
    return Judgement(settings.policy, [], [], overview=Overview(settings.alpha), rounds=rounds)


def _settings(request: Request) -> CompareSettings:
    """What is compared, and by what measure. Of the settings only the rules count: policies there are about baselines."""
    config = load_settings(request.config)
    plain = [text for text in request.margins if "=" not in text]
    if len(plain) > 1:
        raise UsageError(
            f"--margin {plain[1]}: there is already {plain[0]}", advice="name the metric: --margin speedup=5%"
        )
    named = (text.rpartition("=") for text in request.margins if "=" in text)
    return CompareSettings(
        _policy(request),
        RuleBook(config.rules),
        parse_share("--alpha", request.alpha) or USUAL_ALPHA,
        _parse_margin(plain[0]) if plain else None,
        tuple((metric, _parse_margin(share)) for metric, _, share in named),
        request.metrics,
        tuple(map(_parse_better, request.better)),
        request.compare_anyway,
        request.cross_environment,
    )


def _policy(request: Request) -> Policy:
    block, allow = ({Verdict(name) for name in names} for names in (request.block, request.allow))
    if both := block & allow:
        raise UsageError(f"block and allow both name {', '.join(sorted(both))}")
    return comparison_policy(request.policy or POLICIES[0], block, allow)


def _parse_margin(text: str) -> float:
    """``2%`` or ``0.02``; 0 where no change at all is wanted."""
    return 0.0 if text in {"0", "0%"} else parse_share("--margin", text) or 0.0


def _parse_better(text: str) -> tuple[str, str]:
    metric, _, way = text.rpartition("=")
    if not metric or way not in {"lower", "higher"}:
        raise UsageError(f"--better {text}: expected METRIC=lower or METRIC=higher")
    return metric, way
