"""The JSON report of PyTorch's DDP benchmark <-> outcomes.

Each model has rounds; the first is without DDP, the others with it on a growing number of ranks. A round is one case.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import structs

from torchstone.errors import InputError
from torchstone.formats.json_text import Fields, read_records
from torchstone.model import Case, Measurement, Number, Outcome, Reading, Run, Variant, run_of
from torchstone.vocabulary import PASSED, Probe

METRIC = "iteration_time"
_NUMBER = re.compile(r"[0-9]{1,18}\Z")


def read(path: str, text: str) -> Reading:
    """Read one report."""
    records = list(read_records(path, text))
    if not records:
        raise InputError("a list without a report", path=path, line=1, advice="expected one JSON object")
    if len(records) > 1:
        raise InputError(
            "a second report follows the first",
            path=path,
            line=records[1][0],
            advice="expected one JSON object",
        )
    line, value = records[0]
    report = Fields(path, line, value)
    settings = {key: kept for key, kept in report.value.items() if key != "benchmark_results"}
    outcomes: list[Outcome] = []
    for number, entry in enumerate(report.items("benchmark_results")):
        outcomes += _read_model(Fields(path, line, entry, f"benchmark_results[{number}]"), path, line)
    if not outcomes:
        raise report.error("no results", "benchmark_results", "did the job that wrote it fail?")
    run = structs.replace(run_of(path, outcomes), settings=settings)
    return Reading(path, "ddp", run, (line,) * len(outcomes))


def _read_model(entry: Fields, path: str, line: int) -> list[Outcome]:
    model, size = entry.name("model"), entry.value.get("batch_size")
    if not model:
        raise entry.error("no model name", "model")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise entry.error("expected a batch size of 1 or more", "batch_size")
    return [
        _read_round(Fields(path, line, result, f"{model}.result[{number}]"), model, size, number)
        for number, result in enumerate(entry.items("result"))
    ]


def _read_round(entry: Fields, model: str, size: int, number: int) -> Outcome:
    ranks = entry.items("ranks")
    if not ranks or not all(type(rank) is int and _NUMBER.match(str(rank)) for rank in ranks):
        raise entry.error("expected a list of rank numbers", "ranks")
    samples = entry.numbers("measurements")
    if not samples or min(samples) <= 0:
        raise entry.error("expected seconds, each more than 0", "measurements")
    further = (("ranks", " ".join(map(str, ranks))), ("strategy", "ddp" if number else "none"))
    case = Case(model, Probe.SCALING.value, variant=Variant(batch_size=size, further=further))
    return Outcome(case, PASSED, (Measurement(METRIC, samples),))


def ranks_of(case: Case) -> list[int]:
    """The ranks of a round; none where they are not stated as numbers."""
    ranks = dict(case.variant.further).get("ranks", "").split()
    return [int(rank) for rank in ranks] if all(_NUMBER.match(rank) for rank in ranks) else []


def group_by_model(run: Run) -> list[tuple[str, int, list[Outcome]]]:
    """The rounds of each model and batch size, in the order of the report. A round without DDP starts a new group."""
    groups: list[tuple[str, int, list[Outcome]]] = []
    for outcome in run.outcomes:
        key = (outcome.case.benchmark, outcome.case.variant.batch_size or 0)
        first = dict(outcome.case.variant.further).get("strategy") == "none"
        if first or not groups or groups[-1][:2] != key:
            groups.append((*key, []))
        groups[-1][2].append(outcome)
    return groups


def write(run: Run) -> str:
    """The report as one JSON object, of what was measured of scaling."""
    measured = tuple(o for o in run.outcomes if o.case.probe == Probe.SCALING and _samples(o))
    results: list[dict[str, Any]] = []
    for model, size, rounds in group_by_model(structs.replace(run, outcomes=measured)):
        result = [{"ranks": ranks_of(o.case), "measurements": _samples(o)} for o in rounds]
        results.append({"model": model, "batch_size": size, "result": result})
    return json.dumps({**run.settings, "benchmark_results": results}, ensure_ascii=False) + "\n"


def _samples(outcome: Outcome) -> list[Number]:
    return [sample for m in outcome.measurements if m.metric == METRIC for sample in m.samples]
