"""Recognise the formats that are CSV by their header or first row."""

from __future__ import annotations

from itertools import takewhile

from torchstone.core.disk import BOM
from torchstone.core.errors import InputError
from torchstone.formats import table
from torchstone.formats.torch.expected_csv import DTYPES
from torchstone.formats.torch.speedup_targets import is_header

_SUMMARY = ["suite", "benchmark", "probe"]
"""Beginning of a table made by ``torchstone export --to csv``."""


def recognise_table(path: str, text: str) -> str:
    """Return the format of a CSV text; empty if it is not known."""
    if _has_commented_header(text):
        return "speedup-targets"
    rows = iter(table.Rows(path, text[:1_000_000]))
    line, first = next(rows, (0, []))
    cells = [cell.strip() for cell in first]
    if not cells:
        raise InputError(
            "nothing but blank lines and comments",
            path=path,
            line=1,
            advice="did the job that wrote it fail?",
        )
    if cells[:3] == _SUMMARY:
        raise InputError(
            "a table made by 'torchstone export --to csv', which torchstone does not read: it has no samples",
            path=path,
            line=line,
            advice="name the file that it was made from",
        )
    if "name" in cells and ("dev" in cells or "batch_size" in cells):
        return "accuracy" if "accuracy" in cells else "performance"
    if cells[:2] == ["name", "metric"]:
        return {3: "pr-time", 4: "pr-time-expected"}.get(len(cells), "")
    if "name" in cells:
        return "expected-by-dtype" if all(cell in DTYPES for cell in cells if cell != "name") else "expected"
    if len(cells) in {3, 4} and _looks_like_number(cells[2]):
        return {3: "pr-time", 4: "pr-time-expected"}[len(cells)]
    if len(cells) == 1:
        table.read_header(path, iter([(line, first)]))
    return ""


def _has_commented_header(text: str) -> bool:
    """Return whether the leading comments contain the header of a speedup-targets file."""
    lines = text[:100_000].removeprefix(BOM).splitlines()
    return any(
        is_header(line) for line in takewhile(lambda each: not each.strip() or each.startswith("#"), lines)
    )


def _looks_like_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
