"""``torchstone check``: judge results against baselines and rules, and say what is wrong.

Nothing here needs click, so that the plain form of the command can do without importing it: see ``cli.plain``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

from msgspec import Struct, structs

from torchstone.cli.options.plain import Option
from torchstone.cli.options.shared import (
    COMPARE_ANYWAY,
    CONFIG,
    CROSS_ENVIRONMENT,
    KIND,
    KINDS,
    ONLY,
    RULE,
    SET,
    UPSTREAM_VERSION,
    parse_day,
    patience,
    read_results,
)
from torchstone.cli.terminal.show import REPORT_OPTIONS, parse_reports, refuse_overwriting, render, show
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.config import POLICIES, QUARANTINE_NAME, Settings, load_settings, parse_rule
from torchstone.core.errors import UsageError
from torchstone.core.records import QuarantineEntry, Reading
from torchstone.core.upstream import find_version, platforms_of, tell_idle, without_removed
from torchstone.core.vocabulary import Verdict
from torchstone.formats import read_file
from torchstone.formats.merge import Results, merge, no_match, require_results
from torchstone.gate.baseline import Baseline, require_common_probe, select_pair
from torchstone.gate.judge import judge
from torchstone.gate.policy import Policy, make_policy
from torchstone.gate.rules import RuleBook
from torchstone.gate.verdicts import Conditions, Counts, Judgement
from torchstone.reporting.views.accepting import find_terms
from torchstone.reporting.views.check_rows import Context, Report, ScalingTable

_VERDICTS = tuple(verdict.value for verdict in Verdict)
_POLICY_HELP = "strict (the default), or upstream: decide as the original scripts do."
_BASELINE_KIND_HELP = "The kind of the baseline files, if it is not to be recognised."
_HISTORY_HELP = (
    "Past runs, in which to look for small moves that add up: a file, a folder of files, or a pattern in quotation marks. "
    "Repeatable."
)

OPTIONS = (
    Option("--baseline", "baselines", "FILE", "What is expected. Repeatable.", multiple=True),
    Option(
        "--actual", "actual", "FILE", "The same as naming RESULTS, as the original scripts call it.", True
    ),
    Option("--expected", "expected", "FILE", "The same as --baseline, as the original scripts call it."),
    Option("--policy", "policy", "NAME", _POLICY_HELP, choices=POLICIES),
    UPSTREAM_VERSION,
    RULE,
    Option("--metric", "metrics", "NAME", "Judge only this metric (a name or pattern). Repeatable.", True),
    ONLY,
    Option(
        "--block",
        "block",
        "VERDICT",
        "Let this verdict block too, such as improvement. Repeatable.",
        True,
        _VERDICTS,
    ),
    Option("--allow", "allow", "VERDICT", "Let this verdict pass, such as new. Repeatable.", True, _VERDICTS),
    Option(
        "--quarantine",
        "quarantines",
        "FILE",
        "Cases that may not block; by default quarantine.toml. Repeatable.",
        True,
    ),
    Option(
        "--platform",
        "platforms",
        "NAME",
        "The platform, for quarantine entries that name one. Repeatable.",
        True,
    ),
    SET,
    KIND,
    Option("--baseline-kind", "baseline_kind", "KIND", _BASELINE_KIND_HELP, choices=KINDS),
    COMPARE_ANYWAY,
    CROSS_ENVIRONMENT,
    Option("--history", "history", "PAST", _HISTORY_HELP, multiple=True),
    *REPORT_OPTIONS,
    Option(
        "--as-of",
        "as_of",
        "DATE",
        "Judge quarantine dates as of this day, such as 2026-12-31; by default today.",
    ),
    CONFIG,
)
# What a suggested command has to repeat: it judges, or accepts, by the same rules on the same axes.
_REPEATED_BY_CHECK = {
    *("policy", "upstream_version", "rules", "metrics", "block", "allow", "quarantines", "platforms"),
    *("assignments", "kind", "baseline_kind", "compare_anyway", "cross_environment", "as_of", "config"),
}
_REPEATED_BY_ACCEPT = {"rules", "assignments", "kind", "baseline_kind", "config"}


class Request(Struct, frozen=True):
    """What the user asked for: the files, and every option by its name."""

    arguments: tuple[str, ...]
    baselines: tuple[str, ...]
    actual: tuple[str, ...]
    expected: str | None
    policy: str | None
    upstream_version: str | None
    rules: tuple[str, ...]
    metrics: tuple[str, ...]
    only: tuple[str, ...]
    block: tuple[str, ...]
    allow: tuple[str, ...]
    quarantines: tuple[str, ...]
    platforms: tuple[str, ...]
    assignments: tuple[str, ...]
    kind: str | None
    baseline_kind: str | None
    compare_anyway: bool
    cross_environment: bool
    history: tuple[str, ...]
    style: str | None
    output: str | None
    reports: tuple[str, ...]
    as_of: str | None
    config: str | None

    @property
    def results(self) -> tuple[str, ...]:
        """The result files, however they were named."""
        return (*self.arguments, *self.actual)

    def repeat(self, names: set[str]) -> tuple[str, ...]:
        """The options of these names as they were given."""
        words: list[str] = []
        for option in OPTIONS:
            value = getattr(self, option.name) if option.name in names else None
            if value is True:
                words.append(option.flag)
            for text in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
                words += [option.flag, text]
        return tuple(words)


def check(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Judge RESULTS against a baseline, and say clearly what is wrong.

    RESULTS are files of any kind torchstone reads; several are merged. Every
    case that was planned, expected or measured gets a verdict. The exit code
    is 0 if nothing blocks, 1 if something does, 2 if the input is bad.

    \b
    Examples:
      torchstone check results.csv --baseline expected.csv
      torchstone check shard*.csv --baseline expected.csv --format markdown
      torchstone check perf.csv --rule speedup=floor:1.2
      torchstone check --actual a.csv --expected e.csv --policy upstream
    """
    request = Request(arguments, **values)
    settings = load_settings(request.config)
    reports = parse_reports(request.reports)
    baselines = (*request.baselines, *([request.expected] if request.expected else [])) or settings.baselines
    if not request.results:
        raise UsageError(
            "no results given", advice="for example: torchstone check results.csv --baseline expected.csv"
        )
    outputs = [path for path in (request.output, *(path for _, path in reports)) if path]
    told = (*(request.quarantines or settings.quarantines), *([request.config] if request.config else []))
    refuse_overwriting(outputs, (*request.results, *baselines, *request.history, *told))
    conditions = _conditions(
        request, settings, baselines, styles={request.style, *(style for style, _ in reports)}
    )
    with patience("judging"):
        report = _judge(request, baselines, conditions)
    show(partial(render, report), request.style or "text", request.output, reports)
    return report.judgement.exit_code


def _conditions(
    request: Request, settings: Settings, baselines: Sequence[str], styles: set[str | None]
) -> Conditions:
    """What the results are judged by."""
    rules = RuleBook((*settings.rules, *map(parse_rule, request.rules)))
    if not baselines and not rules.metrics_without_baseline():
        advice = "name a baseline (--baseline FILE), or a rule such as --rule speedup=floor:1.2"
        raise UsageError("nothing to judge by", advice=advice)
    policy = _policy(settings, request)
    entries, cautions = _quarantine(request.quarantines or settings.quarantines, policy)
    return Conditions(
        policy,
        rules,
        tuple(entries),
        frozenset(request.platforms) | (platforms_of(baselines) if policy.is_upstream else frozenset()),
        request.metrics,
        parse_day("--as-of", request.as_of) or date.today(),
        request.compare_anyway,
        request.cross_environment,
        keep_quiet=bool(styles & {"json", "junit"} or request.history),
        cautions=cautions,
    )


def _judge(request: Request, baselines: Sequence[str], conditions: Conditions) -> Report:
    """Read all files, and judge."""
    readings = read_results(request.results, request.kind, request.assignments)
    require_results(readings, request.kind)
    expected = [read_file(path, request.baseline_kind or "") for path in baselines]
    chosen, selected = select_pair(readings, expected, request.only)
    results = merge(chosen)
    if request.only and not any(reading.run.plan for reading in (*chosen, *selected)):
        raise no_match(request.only, (*readings, *expected))
    probes = {reading.path: frozenset(case.probe for case in reading.run.plan) for reading in expected}
    require_common_probe(readings, expected)
    context = Context(
        request.results,
        probes,
        find_terms(readings, expected, conditions.rules, request.metrics),
        request.repeat(_REPEATED_BY_CHECK),
        request.repeat(_REPEATED_BY_ACCEPT),
        _repeated_names((*results.readings, *selected)),
    )
    scaling = _scaling(results.readings, selected)
    # The original only ever prints the difference of two DDP reports.
    if conditions.policy.is_upstream and scaling:
        return Report(Judgement(conditions.policy, [], Counts(), [], [], [], []), context, scaling)
    dtypes = {case.variant.dtype for reading in readings for case in reading.run.plan}
    baseline = Baseline(selected, expected, dtypes)
    judgement = judge(results, baseline, conditions)
    if conditions.policy.is_upstream and judgement.counts.red:
        from torchstone.gate.near_misses import tell_not_deterministic  # noqa: PLC0415  (most checks are green)

        told = tell_not_deterministic(judgement.rows, conditions.policy.upstream_version)
        judgement = structs.replace(judgement, cautions=[*judgement.cautions, *told])
    if request.history:
        judgement = _look_back(judgement, results, request, baselines)
    return Report(judgement, context, scaling)


def _look_back(
    judgement: Judgement, results: Results, request: Request, baselines: Sequence[str]
) -> Judgement:
    """The judgement with cautions about what has drifted since the past runs that --history names."""
    from torchstone.cli.options.past_runs import read_past  # noqa: PLC0415  (most checks look at no history)
    from torchstone.gate.near_misses import tell_drifts  # noqa: PLC0415

    past = read_past(
        "--history", request.history, results.readings, baselines, request.kind, request.assignments
    )
    apart = {} if request.cross_environment else past.apart
    told = tell_drifts(judgement.rows, results, past.readings, apart)
    left_out = past.tell_apart("times and memory are ") if apart else []
    if not past.cases & {outcome.case for _, _, outcome in results}:
        left_out.append(make_caution(CautionKind.NO_COMMON_PAST))
    return structs.replace(judgement, cautions=[*judgement.cautions, *told, *past.cautions, *left_out])


def _repeated_names(readings: Sequence[Reading]) -> frozenset[str]:
    """The names that several cases of one file share: suggested commands use ids for them."""
    repeated: set[str] = set()
    for reading in readings:
        names = [case.benchmark for case in reading.run.plan]
        if len(set(names)) < len(names):
            repeated |= {name for name, times in Counter(names).items() if times > 1}
    return frozenset(repeated)


def _policy(settings: Settings, request: Request) -> Policy:
    """The policy: what the command line says comes before what the settings say."""
    block, allow = ({Verdict(name) for name in names} for names in (request.block, request.allow))
    if both := block & allow or set(settings.block) & set(settings.allow) - block - allow:
        raise UsageError(f"block and allow both name {', '.join(both)}")
    blocked, allowed = {*settings.block, *block} - allow, {*settings.allow, *allow} - block
    name = request.policy or settings.policy
    if name != "upstream":
        if request.upstream_version is not None:
            raise UsageError("--upstream-version requires --policy upstream", advice="add --policy upstream")
        return make_policy(name, blocked, allowed)
    version = find_version(request.upstream_version or settings.upstream_version)
    return make_policy(name, blocked, allowed, version.name)


def _quarantine(paths: Sequence[str], policy: Policy) -> tuple[list[QuarantineEntry], tuple[Caution, ...]]:
    """The entries of the named files, else those of quarantine.toml, and what is to be said about them.

    The policy upstream has the original's own list in place of quarantine.toml; files that are named count too, and may take entries out of that list.
    """
    default = [QUARANTINE_NAME] if os.path.exists(QUARANTINE_NAME) and not policy.is_upstream else []
    if not (chosen := paths or default) and not policy.is_upstream:
        return [], ()
    from torchstone.gate.quarantine import read_quarantine, read_removals  # noqa: PLC0415  (TOML takes its time to import)

    entries = [entry for path in chosen for entry in read_quarantine(path)]
    if not policy.is_upstream:
        return entries, ()
    removals = [removal for path in chosen for removal in read_removals(path)]
    shipped, idle = without_removed(find_version(policy.upstream_version), removals)
    told = (tell_idle(removal, policy.upstream_version) for removal in idle)
    return [*entries, *shipped], tuple(told)


def _scaling(readings: Sequence[Reading], expected: Sequence[Reading]) -> ScalingTable | None:
    """The side-by-side table of two DDP reports."""
    if [reading.kind for reading in (*readings, *expected)] != ["ddp", "ddp"]:
        return None
    from torchstone.analyze.scaling_curves import Round, compare_rounds  # noqa: PLC0415
    from torchstone.formats.torch.ddp import group_by_model, ranks_of  # noqa: PLC0415

    def rounds(reading: Reading) -> list[list[Round]]:
        return [
            [Round(model, size, len(ranks_of(o.case)), o.measurements[0].samples) for o in outcomes]
            for model, size, outcomes in group_by_model(reading.run)
        ]

    keys = sorted({key for reading in (*readings, *expected) for key in reading.run.settings.to_mapping()})
    return ScalingTable(keys, compare_rounds(rounds(expected[0]), rounds(readings[0])))
