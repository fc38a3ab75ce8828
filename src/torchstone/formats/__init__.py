"""Recognise, read and write the file formats of PyTorch's benchmarks and of other tools.

Each format has its own module, which is imported only when such a file turns up.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from msgspec import Struct

from torchstone.core.disk import BOM, read_text
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Reading, Run


class Format(Struct, frozen=True):
    """A file format: its reader, its writer (if there is one) and a description."""

    kind: str
    module: str
    reader: str
    writer: str
    meaning: str

    def read(self, path: str, text: str) -> Reading:
        """Read records from the text of a file."""
        return self._call(self.reader, path, text)  # type: ignore[no-any-return]

    def write(self, run: Run) -> str:
        """Write records as the text of a file."""
        if not self.writer:
            raise UsageError(
                f"cannot write {self.kind}: torchstone only reads this format",
                advice="'torchstone import FILE --output run.jsonl' converts it to a run file, which every command reads",
            )
        return self._call(self.writer, run)  # type: ignore[no-any-return]

    def _call(self, function: str, *arguments: object) -> Any:  # noqa: ANN401  (typed by the two callers)
        return getattr(import_module(self.module), function)(*arguments)


FORMATS: dict[str, Format] = {
    f.kind: f
    for f in (
        Format("run", "torchstone.core.run_file", "decode_run", "encode_run", "torchstone's own run file"),
        Format(
            "performance",
            "torchstone.formats.torch.results_csv",
            "read_performance",
            "write_performance",
            "performance CSV of PyTorch's runner",
        ),
        Format(
            "accuracy",
            "torchstone.formats.torch.results_csv",
            "read_accuracy",
            "write_accuracy",
            "accuracy CSV of PyTorch's runner",
        ),
        Format(
            "expected",
            "torchstone.formats.torch.expected_csv",
            "read_expected",
            "write_expected",
            "expected values: one row per model, one column per metric",
        ),
        Format(
            "expected-by-dtype",
            "torchstone.formats.torch.expected_csv",
            "read_by_dtype",
            "write_by_dtype",
            "expected statuses: one row per model, one column per dtype",
        ),
        Format(
            "pr-time",
            "torchstone.formats.torch.pr_time_csv",
            "read_results",
            "write_results",
            "instruction counts: name,metric,value",
        ),
        Format(
            "pr-time-expected",
            "torchstone.formats.torch.pr_time_csv",
            "read_expected",
            "write_expected",
            "expected instruction counts: name,metric,expected,margin",
        ),
        Format(
            "speedup-targets",
            "torchstone.formats.torch.speedup_targets",
            "read_targets",
            "",
            "speedup targets of PyTorch's CPU smoke test (read, and changed by accept)",
        ),
        Format("v3", "torchstone.formats.torch.v3", "read", "write", "benchmark-database v3 JSON"),
        Format(
            "cachebench",
            "torchstone.formats.torch.cachebench_json",
            "read",
            "write",
            "JSON of PyTorch's compile-cache benchmark",
        ),
        Format("ddp", "torchstone.formats.torch.ddp", "read", "write", "report of PyTorch's DDP benchmark"),
        Format(
            "pytest-benchmark",
            "torchstone.formats.tools.pytest_benchmark",
            "read",
            "",
            "JSON of pytest-benchmark (only read)",
        ),
        Format("pyperf", "torchstone.formats.tools.pyperf", "read", "", "JSON of pyperf (only read)"),
        Format("asv", "torchstone.formats.tools.asv", "read", "", "a result file of asv (only read)"),
        Format(
            "hyperfine", "torchstone.formats.tools.hyperfine", "read", "", "JSON of hyperfine (only read)"
        ),
    )
}

TABLES = ("performance", "accuracy", "expected", "expected-by-dtype", "pr-time", "pr-time-expected")
"""The formats that are CSV."""

WRITTEN = tuple(kind for kind, known in FORMATS.items() if known.writer)
"""The formats that torchstone can write, and read again."""

SUMMARY = "csv"
"""A plain table of results, which is written but not read."""

EXPORTED = (*WRITTEN, SUMMARY)
"""The formats that results can be exported to."""


def read_file(path: str, kind: str = "") -> Reading:
    """Read a file of any format; ``kind`` names the format, otherwise its content tells."""
    require_known(kind)
    text = read_text(path)
    return FORMATS[kind or recognise(path, text)].read(path, text)


def require_known(kind: str) -> None:
    """Raise an error for the name of a format that does not exist; an empty one means that the content tells."""
    if kind and kind not in FORMATS:
        raise UsageError(f"{kind}: no such format", advice=f"the formats are {', '.join(FORMATS)}")


def begins_run_file(text: str) -> bool:
    """Return whether a text begins as a run file does."""
    return '"kind":"run"' in text.partition("\n")[0].replace(" ", "")


def require_run_file(path: str, text: str, advice: str) -> None:
    """Raise an InputError if a text is anything but a run file; it names the format, if that is known."""
    if not text.strip() or begins_run_file(text):
        return  # an empty or damaged run file: its reader says what is wrong
    try:
        kind = recognise(path, text)
    except InputError:
        kind = ""
    instead = f": its format is {kind} ({FORMATS[kind].meaning})" if kind else ""
    raise InputError(f"this is not a run file{instead}", path=path, line=1, advice=advice)


def recognise(path: str, text: str) -> str:
    """Return the format of a file, judging by its content alone."""
    start = text.removeprefix(BOM).lstrip()
    if not start:
        raise InputError("the file is empty", path=path, line=1, advice="did the job that wrote it fail?")
    kind = _recognise_json(start) if start[0] in "{[" else _recognise_table(path, text)
    if not kind:
        line = text.count("\n", 0, len(text) - len(start)) + 1
        advice = (
            f"state its format with --kind, or --baseline-kind for a baseline: one of {', '.join(FORMATS)}"
        )
        raise InputError("unrecognised file format", path=path, line=line, advice=advice)
    return kind


# Fields that identify each tool's files, with the beginning of their values.
_FIELDS_OF_TOOLS = {
    "pytest-benchmark": {"machine_info": "", "benchmarks": r"\["},
    "pyperf": {"benchmarks": r"\[", "runs": r"\["},
    "asv": {"commit_hash": "", "results": r"\{"},
    "hyperfine": {"results": r"\[", "command": '"', "times": r"\["},
}


def _recognise_json(start: str) -> str:
    head = start[:100_000]
    if begins_run_file(head):
        return "run"
    if re.search(r'"benchmark_results"\s*:', head):
        return "ddp"
    if re.search(r'"name"\s*:\s*"TorchCache Benchmark"', head):
        return "cachebench"
    if tool := _recognise_tool(head):
        return tool
    if re.search(r'"metric"\s*:\s*\{', head):
        return "v3"
    return _recognise_tool(start) or ("v3" if '"metric"' in start or start.strip("[] \r\n\t") == "" else "")


def _recognise_tool(text: str) -> str:
    for kind, fields in _FIELDS_OF_TOOLS.items():
        if text[0] == "{" and all(_has_field(text, *field) for field in fields.items()):
            return kind
    return ""


def _has_field(text: str, name: str, value: str) -> bool:
    return f'"{name}"' in text and re.search(rf'"{name}"\s*:\s*{value}', text) is not None


def _recognise_table(path: str, text: str) -> str:
    # Loaded here to save start-up time: a JSON file needs nothing of CSV.
    recognise_table = import_module("torchstone.formats.table_kind").recognise_table
    kind: str = recognise_table(path, text)
    return kind
