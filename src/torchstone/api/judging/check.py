"""``check``: judge results against baselines and rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import structs

from torchstone.api.judging.check_request import (
    CheckRequest,
    words_for_accept,
    words_for_check,
)
from torchstone.api.judging.judged_result import JudgedResult
from torchstone.api.judging.verdicts_and_quarantine import find_quarantine, parse_verdicts
from torchstone.api.requests import Sources, make_request
from torchstone.api.showing import show_rows
from torchstone.api.sources import Input, list_baselines, names_of, read_input, read_inputs, require_given
from torchstone.core.config import POLICIES, ConfigFile, load_config, parse_rule
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Reading
from torchstone.core.upstream import find_version, platforms_of
from torchstone.core.vocabulary import Verdict
from torchstone.formats.merge import merge, no_match, require_results
from torchstone.gate.baseline import Baseline, names_history, require_common_probe, select_pair
from torchstone.gate.blocking_policy import Policy, make_policy
from torchstone.gate.checking.against_baseline import check_against_baseline
from torchstone.gate.criteria import looks_of
from torchstone.gate.judgement import Conditions, Judgement
from torchstone.gate.rules import RuleBook
from torchstone.reporting.views.accepting import acceptance_for
from torchstone.reporting.views.check_rows import Context, Report, describe_finding, short_name

if TYPE_CHECKING:
    from typing import Unpack

    from torchstone.api.judging.check_options import CheckOptions


class CheckResult(JudgedResult, frozen=True):
    """Verdicts on results."""

    report: Report

    def to_dicts(self) -> list[dict[str, object]]:
        """Return one dictionary for each row: case, metric, verdict, whether it blocks, actual and expected value, their ratio and its interval."""
        return [
            {
                "case": row.case.id,
                "benchmark": row.case.benchmark,
                "metric": row.metric,
                "verdict": row.verdict.value,
                "blocks": row.blocks,
                "actual": row.new_value,
                "expected": row.expected_value,
                "ratio": row.ratio,
                "low": row.comparison.low if row.comparison else None,
                "high": row.comparison.high if row.comparison else None,
            }
            for row in self.rows
        ]

    def _repr_html_(self) -> str:
        others = (row for row in self.rows if not row.blocks and row.verdict is not Verdict.PASS)
        rows = [
            (row.verdict.value, short_name(row.case), describe_finding(row)) for row in (*self.red, *others)
        ]
        return show_rows(self.headline, ("verdict", "case", "finding"), rows, self.cautions)


def check(results: Sources, **options: Unpack[CheckOptions]) -> CheckResult:
    """Judge results against ``baselines`` and ``rules``, as ``torchstone check`` does.

    Results and baselines are files in any format that torchstone reads, or results of earlier calls.

        result = torchstone.check("results.csv", baselines="expected.csv")
        result.passed, result.red
    """
    return check_results(make_request(CheckRequest, {"results": results, **options}))


def files_of(request: CheckRequest) -> tuple[str, ...]:
    """Return all files that a check reads; a report must not overwrite them."""
    settings = load_config(request.config)
    settings_files = (
        *(request.quarantines or settings.quarantines),
        *([request.config] if request.config else []),
    )
    baselines = names_of(list_baselines(request.baselines or settings.baselines))
    return (*names_of(request.results), *baselines, *request.history, *settings_files)


def check_results(request: CheckRequest) -> CheckResult:
    """Judge as requested."""
    settings = load_config(request.config)
    require_given(request.results, "torchstone check results.csv --baseline expected.csv")
    request = structs.replace(request, baselines=list_baselines(request.baselines or settings.baselines))
    conditions = _conditions(request, settings)
    return CheckResult(_judge(request, conditions))


def _conditions(request: CheckRequest, settings: ConfigFile) -> Conditions:
    """Return the policy, rules, quarantine and date to judge by."""
    rules = RuleBook((*settings.rules, *map(parse_rule, request.rules)))
    if not request.baselines and not rules.metrics_without_baseline():
        advice = "add --baseline FILE, or a rule such as --rule speedup=floor:1.2"
        raise UsageError("no baseline and no rule given", advice=advice)
    policy = _policy(settings, request)
    entries, cautions = find_quarantine(request.quarantines or settings.quarantines, policy)
    named = platforms_of(names_of(request.baselines)) if policy.is_upstream else frozenset()
    return Conditions(
        policy,
        rules,
        tuple(entries),
        frozenset(request.platforms) | named,
        request.metrics,
        request.as_of or date.today(),
        request.compare_anyway,
        request.cross_environment,
        keep_quiet=request.keep_passing or bool(request.history),
        cautions=cautions,
    )


def _judge(request: CheckRequest, conditions: Conditions) -> Report:
    """Read all files, and judge them."""
    readings = read_inputs(request.results, request.kind, request.axes)
    require_results(readings, request.kind)
    expected = [read_baseline(each, readings, request) for each in request.baselines]
    chosen, selected = select_pair(readings, expected, request.only)
    results = merge(chosen)
    if request.only and not any(reading.run.plan for reading in (*chosen, *selected)):
        raise no_match(request.only, (*readings, *expected))
    require_common_probe(readings, expected)
    conditions = structs.replace(conditions, looks=looks_of(readings))
    context = Context(
        names_of(request.results),
        probes_of(expected),
        acceptance_for(readings, expected, conditions.rules, request.metrics),
        words_for_check(request),
        words_for_accept(request),
        find_repeated_names((*results.readings, *selected)),
    )
    is_ddp_pair = [reading.kind for reading in (*results.readings, *selected)] == ["ddp", "ddp"]
    if is_ddp_pair and conditions.policy.is_upstream:
        # The original script only prints the difference between two DDP reports.
        judgement = Judgement(conditions.policy, [], [])
    else:
        dtypes = {case.variant.dtype for reading in readings for case in reading.run.plan}
        judgement = check_against_baseline(results, Baseline(selected, expected, dtypes), conditions)
    is_red_upstream = conditions.policy.is_upstream and judgement.counts.red > 0
    needs_commands = judgement.counts.missing or judgement.counts.undecided
    if is_ddp_pair or is_red_upstream or request.history or needs_commands:
        from torchstone.api.judging.rare_findings import add_findings  # noqa: PLC0415  (start-up: most checks need none of them)

        judgement = add_findings(judgement, results, selected, request)
    return Report(judgement, context)


def read_baseline(given: Input, readings: Sequence[Reading], request: CheckRequest) -> Reading:
    """Read a baseline: a file, or ``history``, which is in a store."""
    if is_history(given):  # start-up: only this needs a store
        history = import_module("torchstone.api.keeping.history_baseline")
        asked = history.HistoryRequest(str(given), tuple(readings), request.store, request.config)
        found: Reading = history.read_history(asked)
        return found
    return read_input(given, request.baseline_kind)


def is_history(given: Input) -> bool:
    """Return whether a baseline names the history rather than a file."""
    return isinstance(given, str) and names_history(given)


def probes_of(readings: Sequence[Reading]) -> dict[str, frozenset[str]]:
    """Return the probes of each file."""
    return {reading.path: frozenset(case.probe for case in reading.run.plan) for reading in readings}


def find_repeated_names(readings: Sequence[Reading]) -> dict[str, tuple[Case, ...]]:
    """Return the names that several cases of a file share, with these cases."""
    repeated: dict[str, tuple[Case, ...]] = {}
    for reading in readings:
        plan = reading.run.plan
        counts = Counter(case.benchmark for case in plan)
        if len(counts) == len(plan):
            continue
        found: dict[str, list[Case]] = {}
        for case in plan:
            if counts[case.benchmark] > 1 and case.benchmark not in repeated:
                found.setdefault(case.benchmark, []).append(case)
        repeated |= {name: tuple(cases) for name, cases in found.items()}
    return repeated


def _policy(settings: ConfigFile, request: CheckRequest) -> Policy:
    """Return the policy; the request takes precedence over the configuration file."""
    block, allow = map(parse_verdicts, (request.block, request.allow))
    if both := block & allow or set(settings.block) & set(settings.allow) - block - allow:
        raise UsageError(f"block and allow both name {', '.join(both)}")
    blocked, allowed = {*settings.block, *block} - allow, {*settings.allow, *allow} - block
    name = request.policy or settings.policy
    if name not in POLICIES:
        raise UsageError(f"--policy {name}: expected {', '.join(POLICIES)}")
    if name != "upstream":
        if request.upstream_version is not None:
            raise UsageError("--upstream-version requires --policy upstream", advice="add --policy upstream")
        return make_policy(name, blocked, allowed)
    version = find_version(request.upstream_version or settings.upstream_version)
    return make_policy(name, blocked, allowed, version.name)
