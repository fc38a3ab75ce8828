"""Read and write the JSON report of PyTorch's DDP benchmark.

Each model has rounds: the first without DDP, the others with DDP on increasing numbers of ranks. A round is
one case. A report holds rounds of one bucket size, backend and so on; rounds that differ in more need several
reports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Measurement, Number, Outcome, Reading, Run, Variant, run_of
from torchstone.core.run_settings import NO_ENVIRONMENT, Environment, Settings
from torchstone.core.text.safe_text import escape_json, is_plain
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import PASSED, Probe
from torchstone.formats.json_text import Fields, read_records

METRIC = "iteration_time"
NONE, DDP = "none", "ddp"
"""The strategies that a report can hold."""
MOST_RANKS = 999_999
_LARGEST_BATCH = 999_999_999
_SHORTEST, _LONGEST = 1e-9, 1e9  # plausible seconds
_VERSIONS = (("torch", "pytorch_version"), ("cuda", "cuda_version"))

_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_COUNT = re.compile(r"[1-9][0-9]{0,5}\Z")
_OF_A_ROUND = frozenset({"batch_size", "rank_list", "ranks", "strategy"})
"""The axes that distinguish rounds of a report."""
_OF_DDP = ("collective", "bucket_mb")
"""The axes that a round without DDP lacks: it belongs to every report."""


def read(path: str, text: str) -> Reading:
    """Read one report."""
    records = list(read_records(path, text))
    if not records:
        raise InputError("the list is empty", path=path, line=1, advice="expected one JSON object")
    if len(records) > 1:
        raise InputError(
            "more than one report",
            path=path,
            line=records[1][0],
            advice="expected one JSON object",
        )
    line, value = records[0]
    report = Fields(path, line, value)
    settings = {key: kept for key, kept in report.value.items() if key != "benchmark_results"}
    outcomes: list[Outcome] = []
    backend, bucket_size = map(report.value.get, ("distributed_backend", "bucket_size"))
    link = MeasurementDetails(
        distributed_backend=backend if isinstance(backend, str | int | float) else None,
        bucket_size=bucket_size if isinstance(bucket_size, str | int | float) else None,
    )
    for number, entry in enumerate(report.items("benchmark_results")):
        outcomes += _read_model(Fields(path, line, entry, f"benchmark_results[{number}]"), path, line, link)
    if not outcomes:
        raise report.error("no results", "benchmark_results", "did the job that wrote it fail?")
    run = structs.replace(
        run_of(path, outcomes), settings=Settings(rest=settings), environment=_environment(report)
    )
    return Reading(path, "ddp", run, (line,) * len(outcomes))


def _environment(report: Fields) -> Environment:
    """Return the versions from the head of a report."""
    stated = {name: report.value.get(key) for name, key in _VERSIONS}
    versions = {name: text for name, text in stated.items() if isinstance(text, str) and is_plain(text)}
    return Environment(versions=versions) if any(versions.values()) else NO_ENVIRONMENT


def _read_model(entry: Fields, path: str, line: int, link: MeasurementDetails) -> list[Outcome]:
    model, size = entry.name("model"), entry.value.get("batch_size")
    if not model:
        raise entry.error("no model name", "model")
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= _LARGEST_BATCH:
        raise entry.error(f"expected a batch size from 1 to {_LARGEST_BATCH}", "batch_size")
    return [
        _read_round(
            Fields(path, line, result, f"{model}.result[{number}]"), model, size, link if number else None
        )
        for number, result in enumerate(entry.items("result"))
    ]


def _read_round(entry: Fields, model: str, size: int, link: MeasurementDetails | None) -> Outcome:
    ranks = entry.items("ranks")
    if not ranks or not all(type(rank) is int and _NUMBER.match(str(rank)) for rank in ranks):
        raise entry.error("expected a list of rank numbers", "ranks")
    if len(ranks) > MOST_RANKS:
        raise entry.error(f"more than {MOST_RANKS} ranks", "ranks")
    samples = entry.numbers("measurements")
    if not samples or min(samples) < _SHORTEST or max(samples) > _LONGEST:
        problem = f"expected seconds, each from {_SHORTEST:g} to {_LONGEST:g}"
        raise entry.error(problem, "measurements")
    listed = () if ranks == list(range(len(ranks))) else (("rank_list", " ".join(map(str, ranks))),)
    strategy = NONE if link is None else DDP
    further = (*listed, ("ranks", str(len(ranks))), ("strategy", strategy))
    case = Case(model, Probe.SCALING.value, variant=Variant(batch_size=size, further=further))
    return Outcome(case, PASSED, (Measurement(METRIC, samples, link if link != NO_DETAILS else None),))


def ranks_of(case: Case) -> list[int]:
    """Return the ranks of a round: 0, 1, 2 and so on unless listed; none if their number is unknown."""
    axes = dict(case.variant.further)
    listed = axes.get("rank_list", "").split()
    if listed and all(_NUMBER.match(rank) for rank in listed):
        return [int(rank) for rank in listed]
    return list(range(count_ranks(case)))


def count_ranks(case: Case) -> int:
    """Return the number of ranks of a round; 0 if unknown."""
    ranks = dict(case.variant.further).get("ranks", "")
    return int(ranks) if _COUNT.match(ranks) else 0


def strategy_of(case: Case) -> str:
    """Return the strategy of a round; empty if not stated."""
    return dict(case.variant.further).get("strategy", "")


def group_by_model(run: Run) -> list[tuple[str, int, list[Outcome]]]:
    """Group rounds by model and batch size, in report order. A round without DDP starts a group."""
    groups: list[tuple[str, int, list[Outcome]]] = []
    last: dict[tuple[str, str, int], list[Outcome]] = {}
    for outcome in run.outcomes:
        case = outcome.case
        size = case.variant.batch_size or 0
        key = (case.suite, case.benchmark, size)
        if strategy_of(case) == NONE or key not in last:
            last[key] = []
            groups.append((case.benchmark, size, last[key]))
        last[key].append(outcome)
    return groups


def write(run: Run) -> str:
    """Write a report of the scaling rounds. Raise an error if they need several reports; ``split`` separates them."""
    reports = split(run)
    if len(reports) > 1:
        raise _several([axes for axes, _ in reports])
    if not reports and any(_has_place(outcome) and _samples(outcome) for outcome in run.outcomes):
        raise UsageError(
            "no model has a result without DDP, which a DDP report has first of each",
            advice="add the rounds without it: --strategy none,ddp",
        )
    rounds = reports[0][1].outcomes if reports else ()
    groups = group_by_model(structs.replace(run, outcomes=rounds))
    _refuse_duplicates(groups)
    results: list[dict[str, object]] = []
    for model, size, outcomes in groups:
        result = [{"ranks": ranks_of(o.case), "measurements": _samples(o)} for o in outcomes]
        results.append({"model": model, "batch_size": size, "result": result})
    head = _header(run, rounds)
    return escape_json(json.dumps({**head, "benchmark_results": results}, ensure_ascii=False)) + "\n"


def split(run: Run) -> list[tuple[dict[str, str], Run]]:
    """Split a run into one run per report, each with the axes that distinguish it.

    In rounds that torchstone measured, the one without DDP comes first, and ranks increase. Rounds read from
    a report keep their order.
    """
    rounds = _in_order(run)
    reports: list[tuple[dict[str, str], Run]] = []
    for common in _distinct(_common_axes(outcome.case) for outcome in rounds):
        of_these = [outcome for outcome in rounds if _common_axes(outcome.case) == common]
        links = _distinct(_link(outcome.case) for outcome in of_these if strategy_of(outcome.case) != NONE)
        for link in links or [{}]:
            kept = tuple(o for o in of_these if strategy_of(o.case) == NONE or _link(o.case) == link)
            reports.append((common | link, structs.replace(run, outcomes=kept)))
    if not reports:
        return []
    shared = dict(set.intersection(*({*axes.items()} for axes, _ in reports)))
    return [({k: v for k, v in axes.items() if k not in shared}, report) for axes, report in reports]


def left_out(run: Run) -> list[str]:
    """Return the scaling rounds that fit in no report, each with the reason."""
    rounds = [outcome for outcome in run.outcomes if outcome.case.probe == Probe.SCALING]
    reasons = []
    if others := [outcome for outcome in rounds if not _has_place(outcome)]:
        ways = " and ".join(sorted({strategy_of(outcome.case) for outcome in others}))
        reasons.append(f"{count_of(len(others), 'round')} with {ways}: a DDP report cannot hold them")
    failed = [outcome for outcome in rounds if _has_place(outcome) and not _samples(outcome)]
    reasons += [f"{_describe_round(outcome.case)}: {outcome.status}" for outcome in failed]
    kept = {outcome.case for outcome in _in_order(run)}
    alone = [o for o in rounds if _has_place(o) and _samples(o) and o.case not in kept]
    why = "its model has no result without DDP, which has to be the first"
    return reasons + [f"{_describe_round(outcome.case)}: {why}" for outcome in alone]


def as_in_report(case: Case) -> Case | None:
    """Return the part of a case that a report states; None for a round that fits in no report."""
    if strategy_of(case) not in {NONE, DDP}:
        return None
    variant = case.variant
    further = tuple((axis, value) for axis, value in variant.further if axis in _OF_A_ROUND)
    return Case(case.benchmark, case.probe, variant=Variant(batch_size=variant.batch_size, further=further))


def _describe_round(case: Case) -> str:
    ranks = count_of(count_ranks(case), "rank")
    return f"{case.name} on {ranks}" + (" without DDP" if strategy_of(case) == NONE else "")


def _has_place(outcome: Outcome) -> bool:
    """Return whether a report can hold this round."""
    return outcome.case.probe == Probe.SCALING and strategy_of(outcome.case) in {NONE, DDP}


def _in_order(run: Run) -> list[Outcome]:
    """Return the measured rounds that a report can hold, in report order.

    A reader takes the first round of a model for the one without DDP, so a model without such a round is left
    out.
    """
    rounds = [outcome for outcome in run.outcomes if _has_place(outcome) and _samples(outcome)]
    groups = group_by_model(structs.replace(run, outcomes=tuple(rounds)))
    as_read = all(strategy_of(of_model[0].case) == NONE for *_, of_model in groups)
    if as_read and not any(o.case.suite or o.case.variant.device for o in rounds):
        return rounds
    begun = {_model(outcome.case) for outcome in rounds if strategy_of(outcome.case) == NONE}
    return sorted((outcome for outcome in rounds if _model(outcome.case) in begun), key=_original_order)


def _original_order(outcome: Outcome) -> tuple[bool, int]:
    """Sort key: without DDP first, then by number of ranks; models keep their order."""
    return strategy_of(outcome.case) != NONE, count_ranks(outcome.case)


def _model(case: Case) -> tuple[str, str, int | None, tuple[tuple[str, str], ...]]:
    return case.suite, case.benchmark, case.variant.batch_size, tuple(_common_axes(case).items())


def _common_axes(case: Case) -> dict[str, str]:
    """Return the axes that all rounds of a report share."""
    axes = case.variant.axes().items()
    return {axis: value for axis, value in axes if axis not in _OF_A_ROUND and axis not in _OF_DDP}


def _link(case: Case) -> dict[str, str]:
    """Return how the ranks of a round communicate."""
    axes = dict(case.variant.further)
    return {axis: axes[axis] for axis in _OF_DDP if axis in axes}


def _distinct(found: Iterator[dict[str, str]]) -> list[dict[str, str]]:
    """Remove duplicates, keeping the order."""
    return [dict(items) for items in dict.fromkeys(tuple(each.items()) for each in found)]


def _several(reports: list[dict[str, str]]) -> UsageError:
    """Return the error for rounds that need several reports: how they differ, and how to choose."""
    axis = next(axis for axes in reports for axis in axes)
    values = list(dict.fromkeys(axes[axis] for axes in reports if axis in axes))
    chosen = f"--only '*{axis}={values[-1]},*'"
    if axis in _OF_DDP:
        chosen += " --only '*strategy=none*'"
    return UsageError(
        f"a DDP report has one {axis}, and these results have {' and '.join(values)}",
        advice=f"choose the rounds of one: {chosen}",
    )


def _refuse_duplicates(groups: list[tuple[str, int, list[Outcome]]]) -> None:
    """Refuse models of two suites that a report could not distinguish."""
    suites: dict[tuple[str, int], str] = {}
    for model, size, outcomes in groups:
        suite = outcomes[0].case.suite
        if suites.setdefault((model, size), suite) != suite:
            raise UsageError(
                f"a DDP report does not name suites, and {model} is in {suites[model, size]} and in {suite}",
                advice=f"choose the rounds of one: --only '{suite}::*'",
            )


def _header(run: Run, rounds: tuple[Outcome, ...]) -> dict[str, object]:
    """Return the head of a report; unchanged if it was read from one."""
    environment = run.environment
    if run.settings.rest and environment == Environment(versions=environment.versions):
        return run.settings.to_mapping()
    head: dict[str, object] = {}
    if environment.is_stated:
        torch = _at(environment.software, "torch")
        head = {"pytorch_version": _at(torch, "version"), "cuda_version": _at(torch, "cuda")}
    links = [link for outcome in rounds if (link := _link(outcome.case))]
    if links or environment.is_stated:
        link = links[0] if links else {}
        head["distributed_backend"] = link.get("collective")
        head["bucket_size"] = _as_number(link.get("bucket_mb"))
    return head


def _at(facts: Any, *names: str) -> Any:  # noqa: ANN401  (JSON is anything)
    for name in names:
        facts = facts.get(name) if isinstance(facts, Mapping) else None
    return facts


def _as_number(text: str | None) -> Number | str | None:
    """Return megabytes as a number, an int if it is whole."""
    try:
        value = float(text or "")
    except ValueError:
        return text
    return int(value) if value.is_integer() else value


def _samples(outcome: Outcome) -> list[Number]:
    return [sample for m in outcome.measurements if m.metric == METRIC for sample in m.samples]
