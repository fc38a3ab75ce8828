"""``check``: judge results against baselines and rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import Struct, structs

from torchstone.api.judging.blocking import find_quarantine, parse_verdicts
from torchstone.api.requests import Path, Sources, Texts, command_words, make_request
from torchstone.api.showing import show_html
from torchstone.api.sources import Axes, Input, names_of, read_input, read_inputs
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.config import POLICIES, Settings, load_settings, parse_rule
from torchstone.core.errors import UsageError
from torchstone.core.records import Reading
from torchstone.core.upstream import find_version, platforms_of
from torchstone.core.vocabulary import Verdict
from torchstone.formats.merge import Results, merge, no_match, require_results
from torchstone.gate.baseline import Baseline, require_common_probe, select_pair
from torchstone.gate.checking.against_baseline import check_against_baseline
from torchstone.gate.policy import Policy, make_policy
from torchstone.gate.rules import RuleBook
from torchstone.gate.verdicts import Conditions, Judgement, RoundTable, Row
from torchstone.reporting.dialects.styles import render_report
from torchstone.reporting.views.accepting import find_terms
from torchstone.reporting.views.check_rows import Context, Report, describe_finding, short_name
from torchstone.reporting.views.result_table import ResultTable, show_most

if TYPE_CHECKING:
    from typing import Unpack


class CheckRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to judge, and by what. ``keep_passing`` keeps rows that pass; otherwise they are only counted."""

    results: tuple[Input, ...] = ()
    baselines: tuple[Input, ...] = ()
    policy: str = ""
    upstream_version: str | None = None
    rules: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    quarantines: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    axes: Axes = ()
    kind: str = ""
    baseline_kind: str = ""
    compare_anyway: bool = False
    cross_environment: bool = False
    history: tuple[str, ...] = ()
    as_of: date | None = None
    config: str | None = None
    keep_passing: bool = True


class CheckOptions(TypedDict, total=False):
    """What ``check`` takes besides the results; docs/gate.md explains each."""

    baselines: Sources
    policy: str
    upstream_version: str
    rules: Texts
    metrics: Texts
    only: Texts
    block: Texts
    allow: Texts
    quarantines: Texts
    platforms: Texts
    axes: Mapping[str, object]
    kind: str
    baseline_kind: str
    compare_anyway: bool
    cross_environment: bool
    history: Texts
    as_of: date
    config: Path


class CheckResult(Struct, frozen=True):
    """What the gate says about results."""

    report: Report

    @property
    def judgement(self) -> Judgement:
        """Everything the gate found out."""
        return self.report.judgement

    @property
    def rows(self) -> list[Row]:
        """A verdict for each metric of each case."""
        return self.judgement.rows

    @property
    def red(self) -> list[Row]:
        """The rows that block, worst first."""
        return self.judgement.red

    @property
    def passed(self) -> bool:
        """Whether nothing blocks."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """What the command would end with: 0 where nothing blocks, 1 otherwise."""
        return self.judgement.exit_code

    @property
    def headline(self) -> str:
        """The result in one line."""
        return self.report.headline

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Warnings about the input."""
        return tuple(self.judgement.cautions)

    def render(self, style: str = "text") -> str:
        """The report as text, Markdown, JUnit, JSON or GitHub annotations."""
        return render_report(self.report, style)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary for each row: case, metric, verdict, whether it blocks, actual and expected value."""
        return [
            {
                "case": row.case.id,
                "benchmark": row.case.benchmark,
                "metric": row.metric,
                "verdict": row.verdict.value,
                "blocks": row.blocks,
                "actual": row.new_value,
                "expected": row.expected_value,
            }
            for row in self.rows
        ]

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        others = (row for row in self.rows if not row.blocks and row.verdict is not Verdict.PASS)
        rows = [
            (row.verdict.value, short_name(row.case), describe_finding(row)) for row in (*self.red, *others)
        ]
        shown, notes = show_most(rows)
        return show_html(
            ResultTable(
                self.headline, ("verdict", "case", "finding"), shown, (*notes, *map(str, self.cautions))
            )
        )


def check(results: Sources, **options: Unpack[CheckOptions]) -> CheckResult:
    """Judge results against ``baselines`` and ``rules``, as ``torchstone check`` does.

    Results and baselines are files of any kind torchstone reads, or results of earlier calls.

        result = torchstone.check("results.csv", baselines="expected.csv")
        result.passed, result.red
    """
    return check_results(make_request(CheckRequest, {"results": results, **options}))


def files_of(request: CheckRequest) -> tuple[str, ...]:
    """All files that judging would read: a report must not be written over one of them."""
    settings = load_settings(request.config)
    told = (*(request.quarantines or settings.quarantines), *([request.config] if request.config else []))
    baselines = names_of(request.baselines) or settings.baselines
    return (*names_of(request.results), *baselines, *request.history, *told)


def check_results(request: CheckRequest) -> CheckResult:
    """Judge as a request says."""
    settings = load_settings(request.config)
    if not request.results:
        raise UsageError(
            "no results given", advice="for example: torchstone check results.csv --baseline expected.csv"
        )
    if not request.baselines:
        request = structs.replace(request, baselines=settings.baselines)
    conditions = _conditions(request, settings)
    return CheckResult(_judge(request, conditions))


def _conditions(request: CheckRequest, settings: Settings) -> Conditions:
    """The policy, rules, quarantine and day to judge by."""
    rules = RuleBook((*settings.rules, *map(parse_rule, request.rules)))
    if not request.baselines and not rules.metrics_without_baseline():
        advice = "name a baseline (--baseline FILE), or a rule such as --rule speedup=floor:1.2"
        raise UsageError("nothing to judge by", advice=advice)
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
    """Read all files, and judge."""
    readings = read_inputs(request.results, request.kind, request.axes)
    require_results(readings, request.kind)
    expected = [read_input(each, request.baseline_kind) for each in request.baselines]
    chosen, selected = select_pair(readings, expected, request.only)
    results = merge(chosen)
    if request.only and not any(reading.run.plan for reading in (*chosen, *selected)):
        raise no_match(request.only, (*readings, *expected))
    require_common_probe(readings, expected)
    context = Context(
        names_of(request.results),
        probes_of(expected),
        find_terms(readings, expected, conditions.rules, request.metrics),
        _repeated_by_check(request),
        _repeated_by_accept(request),
        repeated_names((*results.readings, *selected)),
    )
    rounds = _rounds_of(results.readings, selected)
    # The original only ever prints the difference of two DDP reports.
    if conditions.policy.is_upstream and rounds:
        return Report(Judgement(conditions.policy, [], [], rounds=rounds), context)
    dtypes = {case.variant.dtype for reading in readings for case in reading.run.plan}
    judgement = check_against_baseline(results, Baseline(selected, expected, dtypes), conditions)
    if conditions.policy.is_upstream and judgement.counts.red:
        from torchstone.gate.checking.upstream_cautions import nondeterminism_cautions  # noqa: PLC0415  (start-up: most checks are green)

        told = nondeterminism_cautions(judgement.rows, conditions.policy.upstream_version)
        judgement = structs.replace(judgement, cautions=[*judgement.cautions, *told])
    if request.history:
        judgement = _look_back(judgement, results, request)
    return Report(structs.replace(judgement, rounds=rounds), context)


def _look_back(judgement: Judgement, results: Results, request: CheckRequest) -> Judgement:
    """The judgement with cautions about what has drifted since the runs in ``history``."""
    from torchstone.api.judging.past_runs import read_past  # noqa: PLC0415  (start-up: most checks look at no history)
    from torchstone.gate.checking.drift_cautions import drift_cautions  # noqa: PLC0415  (start-up: most checks look at no history)

    past = read_past(
        "--history",
        request.history,
        results.readings,
        names_of(request.baselines),
        request.kind,
        request.axes,
    )
    apart = {} if request.cross_environment else past.apart
    told = drift_cautions(judgement.rows, results, past.readings, apart)
    left_out = past.tell_apart("times and memory are ") if apart else []
    if not past.cases & {outcome.case for _, _, outcome in results}:
        left_out.append(make_caution(CautionKind.NO_COMMON_PAST))
    return structs.replace(judgement, cautions=[*judgement.cautions, *told, *past.cautions, *left_out])


def probes_of(readings: Sequence[Reading]) -> dict[str, frozenset[str]]:
    """The probes that each file has cases of."""
    return {reading.path: frozenset(case.probe for case in reading.run.plan) for reading in readings}


def repeated_names(readings: Sequence[Reading]) -> frozenset[str]:
    """The names that several cases of one file share: suggested commands use ids for them."""
    repeated: set[str] = set()
    for reading in readings:
        names = [case.benchmark for case in reading.run.plan]
        if len(set(names)) < len(names):
            repeated |= {name for name, times in Counter(names).items() if times > 1}
    return frozenset(repeated)


def _repeated_by_check(request: CheckRequest) -> tuple[str, ...]:
    """The options that a suggested ``check`` has to repeat, so that it judges by the same rules on the same axes."""
    return command_words(*_in_order(request))


def _repeated_by_accept(request: CheckRequest) -> tuple[str, ...]:
    flags = {"--rule", "--set", "--kind", "--baseline-kind", "--config"}
    return command_words(*((flag, value) for flag, value in _in_order(request) if flag in flags))


def _in_order(request: CheckRequest) -> Iterator[tuple[str, object]]:
    yield "--policy", request.policy
    yield "--upstream-version", request.upstream_version
    yield "--rule", request.rules
    yield "--metric", request.metrics
    yield "--block", request.block
    yield "--allow", request.allow
    yield "--quarantine", request.quarantines
    yield "--platform", request.platforms
    yield "--set", request.axes
    yield "--kind", request.kind
    yield "--baseline-kind", request.baseline_kind
    yield "--compare-anyway", request.compare_anyway
    yield "--cross-environment", request.cross_environment
    yield "--as-of", request.as_of
    yield "--config", request.config


def _policy(settings: Settings, request: CheckRequest) -> Policy:
    """The policy: a request comes before the configuration file."""
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


def _rounds_of(readings: Sequence[Reading], expected: Sequence[Reading]) -> RoundTable | None:
    """The side-by-side table of two DDP reports."""
    if [reading.kind for reading in (*readings, *expected)] != ["ddp", "ddp"]:
        return None
    from torchstone.analyze.scaling_curves import Round, compare_rounds  # noqa: PLC0415  (start-up: few files are DDP reports)
    from torchstone.formats.torch.ddp import group_by_model, ranks_of  # noqa: PLC0415  (start-up: few files are DDP reports)

    def rounds(reading: Reading) -> list[list[Round]]:
        return [
            [Round(model, size, len(ranks_of(o.case)), o.measurements[0].samples) for o in outcomes]
            for model, size, outcomes in group_by_model(reading.run)
        ]

    keys = sorted({key for reading in (*readings, *expected) for key in reading.run.settings.to_mapping()})
    return RoundTable(keys, compare_rounds(rounds(expected[0]), rounds(readings[0])))
