"""Read hyperfine's JSON: each command with its parameters is a case, each of its runs a trial."""

from __future__ import annotations

from torchstone.core.records import Failure, Measurement, Outcome, Reading, Revision
from torchstone.core.run_settings import NO_ENVIRONMENT
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import BYTES, FAILED, PASSED, SECONDS
from torchstone.formats.json_text import Fields
from torchstone.formats.tools.tool_results import Collection, Document, case_of, measured, name_of, text_of

KIND = "hyperfine"


def read(path: str, text: str) -> Reading:
    """Read the output of ``hyperfine --export-json``."""
    document = Document(path, text)
    collection = Collection(document, KIND)
    for line, entry in document.entries("results"):
        collection.add(line, entry, _read_command(entry))
    return collection.reading("results", Revision(), NO_ENVIRONMENT)


def _read_command(entry: Fields) -> Outcome:
    stated = entry.fields("parameters").value
    parameters = {
        text_of(entry, "parameters", name): text_of(entry, "parameters", value)
        for name, value in stated.items()
    }
    case = case_of(KIND, name_of(entry, "command"), parameters)
    measurements = [_each_a_trial(entry, "times", SECONDS)]
    if entry.items("memory_usage_byte"):
        measurements.append(_each_a_trial(entry, "memory_usage_byte", BYTES))
    failure = _failure(entry, len(measurements[0].samples))
    return Outcome(case, FAILED if failure else PASSED, tuple(measurements), failure)


def _each_a_trial(entry: Fields, field: str, metric: str) -> Measurement:
    samples = entry.numbers(field)
    return measured(entry, field, metric, samples, [1] * len(samples))


def _failure(entry: Fields, runs: int) -> Failure | None:
    """Return a failure if a run exited with an error or was killed (hyperfine then records no exit code)."""
    codes = entry.items("exit_codes")
    if codes and len(codes) != runs:
        raise entry.error(f"{count_of(runs, 'time')}, but {count_of(len(codes), 'exit code')}", "exit_codes")
    if not all(code is None or type(code) is int for code in codes):
        raise entry.error("expected whole numbers", "exit_codes")
    failed = [code for code in codes if code != 0]
    if not failed:
        return None
    how = ", ".join(sorted({"a signal" if code is None else f"exit code {code}" for code in failed})[:3])
    return Failure("run", f"{len(failed)} of {count_of(runs, 'run')} ended with {how}")
