"""Read asv result files: each combination of a benchmark's parameters is a case with one trial.

The file contains only the values of parameters, so the axes are named ``param1``, ``param2`` and so on. The
benchmark's name implies the metric, as in asv itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from math import isnan, prod
from typing import Any

from msgspec import structs

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import printable
from torchstone.core.records import Case, Failure, Measurement, Outcome, Reading, Revision
from torchstone.core.run_settings import Environment
from torchstone.core.text.safe_text import is_plain
from torchstone.core.vocabulary import BYTES, FAILED, NOT_AVAILABLE, PASSED, SECONDS, TRACKED
from torchstone.formats.json_text import Fields, is_number
from torchstone.formats.tools.tool_results import Collection, Document, case_of, environment_of, measured

KIND = "asv"
VERSIONS = (1, 2)
MOST_COMBINATIONS = 1_000_000
_HOW_TO_SAVE = "'asv run --record-samples' saves them"
_METRICS = (
    (re.compile(r"(time|timeraw)_|(Time|Timeraw)[A-Z_]"), SECONDS),
    (re.compile(r"(mem|peakmem)_|(Mem|PeakMem)[A-Z_]"), BYTES),
    (re.compile(r"track_|Track[A-Z_]"), TRACKED),
)
_QUOTED = re.compile(r"^(['\"])([^'\"\\]+)\1$")
_FAILED = Failure("run", "the benchmark failed; asv's file does not say why")
_NO_NUMBER = Failure("run", "asv recorded no number: the benchmark was skipped or did not return one")


def read(path: str, text: str) -> Reading:
    """Read one result file of asv: one commit on one machine, in one environment."""
    document = Document(path, text)
    top = document.top
    version = top.value.get("version")
    if type(version) is not int or version not in VERSIONS:
        problem = f"version {printable(str(version), 40)} of asv's result files, expected 1 or 2"
        raise top.error(problem, "version", "a newer torchstone may be needed")
    collection = Collection(document, KIND)
    for name, row in _rows(document, version):
        for case, value, samples in _combinations(name, row):
            outcome = _outcome(row, case, value, samples)
            is_summed_up = samples is None and any(m.metric == SECONDS for m in outcome.measurements)
            collection.add(document.line, row, outcome, is_summed_up=is_summed_up)
    revision = Revision(top.name("commit_hash"))
    return collection.reading("results", revision, _environment(top), _HOW_TO_SAVE)


def _rows(document: Document, version: int) -> Iterator[tuple[str, Fields]]:
    """Yield each benchmark's name and fields.

    Version 2 has a list of values per benchmark, version 1 an object or a number.
    """
    top = document.top
    columns = top.items("result_columns") if version == 2 else []
    if version == 2 and ("result" not in columns or not all(isinstance(column, str) for column in columns)):
        raise top.error("expected a list of names, 'result' among them", "result_columns")
    versions = top.fields("benchmark_version").value
    for name, found in top.fields("results").value.items():
        place = f"results.{printable(name)}"
        if not name or not is_plain(name):
            raise top.error("unusable benchmark name", place)
        if version == 1:
            row = found if isinstance(found, dict) else {"result": found}
            row = {"version": versions.get(name)} | row
        elif isinstance(found, list) and len(found) <= len(columns):
            row = dict(zip(columns, found, strict=False))  # trailing nulls are omitted
        else:
            raise top.error("expected a list, not longer than result_columns", place)
        yield name, Fields(document.path, document.line, row, place)


def _combinations(name: str, row: Fields) -> Iterator[tuple[Case, object, list[Any] | None]]:
    """Yield the case of each parameter combination, its value, and its samples if they were saved."""
    values = [_texts(row, choices) for choices in row.items("params")]
    size = prod(map(len, values))
    if size > MOST_COMBINATIONS:
        raise row.error("more combinations of parameters than can be", "params")
    results = _one_each(row, "result", size)
    samples = _one_each(row, "samples", size)
    for number, chosen in enumerate(product(*values)):
        parameters = {f"param{place}": value for place, value in enumerate(chosen, 1)}
        of_case = samples[number]
        if of_case is not None and not isinstance(of_case, list):
            raise row.error("expected a list of samples for each combination of parameters", "samples")
        yield case_of(KIND, name, parameters), results[number], of_case or None


def _texts(row: Fields, choices: object) -> list[str]:
    """Return the values of one parameter as asv shows them: strings without quotes, unless that makes two alike."""
    if not isinstance(choices, list) or not all(isinstance(c, str) and is_plain(c) for c in choices):
        raise row.error("expected a list of texts for each parameter", "params")
    bare = [_QUOTED.sub(r"\2", choice) for choice in choices]
    return bare if len(set(bare)) == len(set(choices)) else choices


def _one_each(row: Fields, field: str, size: int) -> list[Any]:
    """Return a list with one element per combination; null stands for all nulls, a single value for a list of one."""
    found = row.value.get(field)
    if found is None:
        return [None] * size
    flat = field == "samples" and isinstance(found, list) and any(map(is_number, found))
    items = found if isinstance(found, list) and not flat else [found]
    if len(items) != size:
        raise row.error(f"expected {size}, one for each combination of parameters, found {len(items)}", field)
    return items


def _outcome(row: Fields, case: Case, value: object, samples: list[Any] | None) -> Outcome:
    if value is None:
        return Outcome(case, FAILED, failure=_FAILED)
    if isinstance(value, float) and isnan(value):
        return Outcome(case, NOT_AVAILABLE, failure=_NO_NUMBER)
    if not is_number(value):
        raise row.error("expected a finite number, null or NaN", "result")
    metric = _metric_of(case.benchmark, row, samples)
    found = measured(row, "samples" if samples else "result", metric, samples or [value])
    version = row.value.get("version")
    if isinstance(version, str) and is_plain(version):
        found = Measurement(found.metric, found.samples, MeasurementDetails(benchmark_version=version))
    return Outcome(case, PASSED, (found,))


def _metric_of(name: str, row: Fields, samples: list[Any] | None) -> str:
    """Return the metric of a benchmark by its name; with a custom name, only times have statistics."""
    last = name.rpartition(".")[2]
    for pattern, metric in _METRICS:
        if pattern.match(last):
            return metric
    timed = samples or any(row.value.get(field) for field in ("stats", "stats_repeat", "stats_q_25"))
    return SECONDS if timed else TRACKED


def _environment(top: Fields) -> Environment:
    """Return machine, Python and libraries. A Python given as a path has no version."""
    machine, python = top.fields("params").value, top.name("python")
    cores = str(machine.get("num_cpu"))
    known = environment_of(
        host=machine.get("machine"),
        system=machine.get("os"),
        architecture=machine.get("arch"),
        cpu=machine.get("cpu"),
        cores=int(cores) if cores.isascii() and cores.isdigit() and len(cores) < 9 else None,
        python=python if re.match(r"(pypy)?\d+(\.\d+)*$", python) else None,
    )
    stated = {"versions": top.fields("requirements").value, "variables": top.fields("env_vars").value}
    for name, facts in stated.items():
        texts = {key: value for key, value in facts.items() if isinstance(value, str) and value}
        is_stated = texts or (
            name == "variables" and "env_vars" in top.value
        )  # none set, which is a fact too
        if is_stated and all(map(is_plain, (*texts, *texts.values()))):
            known = structs.replace(known, **{name: texts})
    return known
