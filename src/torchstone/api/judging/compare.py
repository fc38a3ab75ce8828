"""``compare``: decide whether one set of results is slower than another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct, structs

from torchstone.api.judging.judged_result import JudgedResult
from torchstone.api.judging.verdicts_and_quarantine import parse_verdicts
from torchstone.api.requests import Path, Sources, Texts, command_words, make_request, path_of
from torchstone.api.showing import show_rows
from torchstone.api.sources import Axes, Input, names_of, read_inputs, require_given
from torchstone.api.value_checks import check_share
from torchstone.core.config import POLICIES, load_config
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError
from torchstone.core.records import Reading
from torchstone.gate.blocking_policy import Policy, comparison_policy
from torchstone.gate.comparing.compare_files import compare_files
from torchstone.gate.comparing.side_files import make_sides
from torchstone.gate.criteria import CompareSettings, looks_of
from torchstone.gate.judgement import Judgement, Overview, RoundTable, Row
from torchstone.gate.rules import RuleBook
from torchstone.reporting.views.comparison_rows import SORTS, CompareReport, describe_finding
from torchstone.reporting.views.paired_rounds import (
    are_ddp,
    compare_by_name,
    compare_by_position,
    header_keys,
)

if TYPE_CHECKING:
    from typing import Unpack


class CompareRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files to compare, and the comparison criteria. ``margin`` applies to all metrics, ``margins`` by name or pattern."""

    base: tuple[Input, ...]
    new: tuple[Input, ...]
    margin: float | None = None
    margins: tuple[tuple[str, float], ...] = ()
    alpha: float | None = None
    metrics: tuple[str, ...] = ()
    better: tuple[tuple[str, str], ...] = ()
    only: tuple[str, ...] = ()
    sort: str = SORTS[0]
    policy: str = POLICIES[0]
    block: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    axes: Axes = ()
    kind: str = ""
    compare_anyway: bool = False
    cross_environment: bool = False
    config: str | None = None


class CompareOptions(TypedDict, total=False):
    """Options of ``compare``, explained in docs/compare.md."""

    margin: float
    margins: Mapping[str, float]
    alpha: float
    metrics: Texts
    better: Mapping[str, str]
    only: Texts
    sort: str
    policy: str
    block: Texts
    allow: Texts
    axes: Mapping[str, object]
    kind: str
    compare_anyway: bool
    cross_environment: bool
    config: Path


class CompareResult(JudgedResult, frozen=True):
    """A comparison of two sides: effect, interval and verdict for each metric of each case."""

    report: CompareReport

    @property
    def html(self) -> str:
        """The comparison as a self-contained HTML page."""
        return self.render("html")

    def write(self, path: Path) -> None:
        """Write the HTML page."""
        write_text(path_of(path), self.html)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return one dictionary for each row: case, metric, verdict, both values, the ratio new/base and its interval."""
        return [record_of(row) for row in self.rows]

    def _repr_html_(self) -> str:
        names, level = self.report.names, self.report.confidence
        rows = [
            (row.verdict.value, names.of(row.case), row.metric, describe_finding(row, level))
            for row in self.rows
        ]
        header = ("verdict", "case", "metric", "finding")
        return show_rows(self.headline, header, rows, self.cautions)


def record_of(row: Row) -> dict[str, object]:
    """Return a row as a dictionary: case, metric, verdict, both values, the ratio new/base and its interval."""
    comparison = row.comparison
    return {
        "case": row.case.id,
        "benchmark": row.case.benchmark,
        "metric": row.metric,
        "verdict": row.verdict.value,
        "blocks": row.blocks,
        "base": row.base_value,
        "new": row.new_value,
        "ratio": row.ratio,
        "low": comparison.low if comparison else None,
        "high": comparison.high if comparison else None,
    }


def compare(base: Sources, new: Sources, **options: Unpack[CompareOptions]) -> CompareResult:
    """Compare two sets of results, as ``torchstone compare`` does: decide whether ``new`` is slower than ``base``.

    Each side is a file in any format that torchstone reads, the result of an earlier call, or several of these, with more trials.

        print(torchstone.compare("main.jsonl", "mine.jsonl", margin=0.02))
    """
    return compare_results(make_request(CompareRequest, {"base": base, "new": new, **options}))


def compare_results(request: CompareRequest) -> CompareResult:
    """Compare as requested."""
    _check(request)
    for side in (request.base, request.new):
        require_given(side, "torchstone compare main.jsonl mine.jsonl")
    base = read_inputs(request.base, request.kind, request.axes)
    new = read_inputs(request.new, request.kind, request.axes)
    settings = structs.replace(_settings(request), looks=looks_of(new))
    if settings.policy.is_upstream:
        _refuse_what_upstream_ignores(request)
        compared = _compare_as_upstream(base, new, settings)
    else:
        compared = _compare(base, new, request.only, settings)
    repeated = command_words(*_repeated(request))
    return CompareResult(
        CompareReport(compared, names_of(request.base), names_of(request.new), repeated, request.sort)
    )


def _check(request: CompareRequest) -> None:
    """Raise an error for invalid values."""
    if request.policy not in POLICIES:
        raise UsageError(f"--policy {request.policy}: expected {', '.join(POLICIES)}")
    if request.sort not in SORTS:
        raise UsageError(f"--sort {request.sort}: expected {', '.join(SORTS)}")
    check_share("--alpha", request.alpha)
    for margin in (request.margin, *(share for _, share in request.margins)):
        check_share("--margin", margin, may_be_zero=True)
    for metric, way in request.better:
        if not metric or way not in {"lower", "higher"}:
            raise UsageError(f"--better {metric}={way}: expected METRIC=lower or METRIC=higher")


def _compare(
    base: Sequence[Reading], new: Sequence[Reading], only: tuple[str, ...], settings: CompareSettings
) -> Judgement:
    sides = make_sides(base, new, only)
    compared = compare_files(*sides, settings)
    if not are_ddp((*base, *new)):
        return compared
    rounds = compare_by_name(*(side.readings for side in sides))
    return structs.replace(compared, rounds=RoundTable(header_keys((*base, *new)), rounds))


def _criteria(request: CompareRequest) -> Iterator[tuple[str, object]]:
    """Yield the comparison criteria as options of the command."""
    yield "--margin", request.margin
    yield "--margin", request.margins
    yield "--alpha", request.alpha
    yield "--metric", request.metrics
    yield "--better", request.better
    yield "--block", request.block
    yield "--allow", request.allow


def _repeated(request: CompareRequest) -> Iterator[tuple[str, object]]:
    """Yield the options that a suggested command repeats."""
    yield from _criteria(request)
    yield "--set", request.axes
    yield "--kind", request.kind
    yield "--compare-anyway", request.compare_anyway
    yield "--cross-environment", request.cross_environment
    yield "--config", request.config


def _refuse_what_upstream_ignores(request: CompareRequest) -> None:
    """Raise an error for options that PyTorch's own script has no equivalent of."""
    sort = request.sort if request.sort != SORTS[0] else ""
    words = command_words(*_criteria(request), ("--only", request.only), ("--sort", sort))
    if given := dict.fromkeys(word for word in words if word.startswith("--")):
        raise UsageError(
            f"{' and '.join(given)} cannot be used with --policy upstream",
            advice=f"leave out --policy, or {' and '.join(given)}",
        )


def _compare_as_upstream(
    base: Sequence[Reading], new: Sequence[Reading], settings: CompareSettings
) -> Judgement:
    """Compare two DDP reports as PyTorch's own script does, without judging them."""
    if not are_ddp((*base, *new)) or len(base) != 1 or len(new) != 1:
        raise UsageError(
            "--policy upstream can compare only two DDP reports",
            advice="leave out --policy, or use 'torchstone check --policy upstream'",
        )
    rounds = RoundTable(header_keys((*base, *new)), compare_by_position(base[0], new[0]))
    return Judgement(settings.policy, [], [], overview=Overview(settings.level), rounds=rounds)


def _settings(request: CompareRequest) -> CompareSettings:
    """Return the criteria. Of the configuration file, only the rules apply: its policies are for baselines."""
    return CompareSettings(
        _policy(request),
        RuleBook(load_config(request.config).rules),
        request.alpha,
        request.margin,
        request.margins,
        request.metrics,
        request.better,
        request.compare_anyway,
        request.cross_environment,
    )


def _policy(request: CompareRequest) -> Policy:
    block, allow = map(parse_verdicts, (request.block, request.allow))
    if both := block & allow:
        raise UsageError(f"block and allow both name {', '.join(sorted(both))}")
    return comparison_policy(request.policy, block, allow)
