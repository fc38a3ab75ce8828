"""Read and edit quarantine files: cases that must not block, with reasons, owners and dates.

An entry covers the cases, metrics and platform that it names. It covers wrong results, and missing ones only if it says ``allow_missing``.
An expired entry covers nothing, and blocks itself. A table ``[[not_flaky]]`` removes a model from the flaky list of the policy ``upstream``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date

from torchstone.core.disk import replace_text
from torchstone.core.errors import InputError, UsageError
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.toml_file import TomlTable, header_lines, parse_toml, read_toml, tables
from torchstone.core.upstream import Removal

NOT_FLAKY = "not_flaky"
_REMOVAL_KEYS = ("case", "reason", "metric", "platform")
_KEYS = ("case", "reason", "link", "owner", "since", "expires", "metric", "platform", "allow_missing")


Fields = dict[str, "str | date | bool | tuple[str, ...]"]


def read_quarantine(path: str) -> list[QuarantineEntry]:
    """Return the entries of a quarantine file."""
    document, text = read_toml(path)
    _removals(path, document, text)
    return _entries(path, document, text)


def read_removals(path: str) -> list[Removal]:
    """Return what a quarantine file removes from the flaky list of the policy upstream."""
    document, text = read_toml(path)
    return _removals(path, document, text)


def _removals(path: str, document: Mapping[str, object], text: str) -> list[Removal]:
    return [_removal(each) for each in tables(path, document, text, NOT_FLAKY, _REMOVAL_KEYS)]


def _removal(entry: TomlTable) -> Removal:
    for needed in ("case", "reason"):
        if not entry.text(needed).strip():
            raise entry.error(f"an entry needs a {needed}", needed, "say which models are not flaky, and why")
    case, reason = entry.text("case"), entry.text("reason")
    return Removal(case, reason, entry.path, entry.line, entry.texts("metric"), entry.text("platform"))


def _entries(path: str, document: Mapping[str, object], text: str) -> list[QuarantineEntry]:
    if unknown := [name for name in document if name not in {"quarantine", NOT_FLAKY}]:
        problem = f"expected tables [[quarantine]] and [[{NOT_FLAKY}]], and nothing else"
        raise InputError(problem, path=path, line=1, column=unknown[0])
    return [_entry(each) for each in tables(path, document, text, "quarantine", _KEYS)]


def _entry(entry: TomlTable) -> QuarantineEntry:
    for needed in ("case", "reason"):
        if not entry.text(needed).strip():
            raise entry.error(
                f"an entry needs a {needed}", needed, "say which cases, and why they may not block"
            )
    since, expires = (_day(entry, key) for key in ("since", "expires"))
    if since and expires and expires < since:
        raise entry.error("expires before it begins", "expires")
    return QuarantineEntry(
        entry.text("case"),
        entry.text("reason"),
        entry.path,
        entry.line,
        entry.text("link"),
        entry.text("owner"),
        since,
        expires,
        entry.texts("metric"),
        entry.text("platform"),
        entry.get("allow_missing", bool, "true or false", default=False),
    )


def _day(entry: TomlTable, key: str) -> date | None:
    value: object = entry.values.get(key)
    if value is None or type(value) is date:
        return value
    raise entry.error("expected a date such as 2026-12-31, without quotes or a time", key)


def render_entry(fields: Fields) -> str:
    """Return an entry as TOML text."""
    lines = ["[[quarantine]]"]
    for key in _KEYS:
        value = fields.get(key, "")
        if value not in ("", None, False, ()):
            lines.append(f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: str | date | bool | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return _toml(value[0]) if len(value) == 1 else f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        return value.isoformat()
    escaped = re.sub(r'[\\"]', lambda found: "\\" + found[0], value)
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\u{ord(found[0]):04x}", escaped) + '"'


def add_entry(path: str, text: str, fields: Fields) -> str:
    """Return the text of a quarantine file with one more entry at its end, and no other change."""
    before = _entries(path, parse_toml(path, text), text)
    if any((entry.case, entry.metrics, entry.platform) == _key(fields) for entry in before):
        raise UsageError(
            f"{path} has an entry for {fields['case']} already",
            advice="replace it with --replace, or edit the file by hand",
        )
    separator = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    added = text + separator + render_entry(fields)
    after = _entries(path, parse_toml(path, added), added)
    if [entry.case for entry in after] != [*(entry.case for entry in before), fields["case"]]:
        raise InputError(
            "cannot be added to without changing what it says", path=path, advice="edit it by hand"
        )
    return added


def _key(fields: Fields) -> tuple[object, object, object]:
    return fields["case"], fields.get("metric", ()), fields.get("platform", "")


def remove_entries(
    path: str, text: str, pattern: str, is_meant: Callable[[QuarantineEntry], bool] = lambda _: True
) -> tuple[str, list[QuarantineEntry]]:
    """Remove the entries with exactly this pattern that ``is_meant`` accepts; return the text and the removed entries.

    Comments directly above an entry are removed with it.
    """
    before = _entries(path, parse_toml(path, text), text)
    gone = [entry for entry in before if entry.case == pattern and is_meant(entry)]
    lines = text.split("\n")
    headers = sorted(line for name in ("quarantine", NOT_FLAKY) for line in header_lines(text, name))
    starts = [*(header - 1 for header in headers), len(lines)]
    for entry in reversed(gone):
        header = entry.line - 1
        following = next(start for start in starts if start > header)
        del lines[_with_comments(lines, header) : _end_of_entry(lines, header, following)]
    left = "\n".join(lines)
    after = _entries(path, parse_toml(path, left), left)
    if [_identity(e) for e in after] != [_identity(e) for e in before if e not in gone]:
        raise InputError(
            "cannot be edited without changing what it says", path=path, advice="edit it by hand"
        )
    return left, gone


def _with_comments(lines: list[str], start: int) -> int:
    """Return the first line of an entry, including the comment lines directly above it."""
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return start


def _end_of_entry(lines: list[str], header: int, following: int) -> int:
    """Return the line after an entry: after its last key and the blank lines that follow."""
    end = (
        max(n for n in range(header, following) if lines[n].strip() and not lines[n].lstrip().startswith("#"))
        + 1
    )
    while end < following and not lines[end].strip() and end < len(lines) - 1:
        end += 1
    return end


def _identity(entry: QuarantineEntry) -> tuple[object, ...]:
    return tuple(getattr(entry, "metrics" if key == "metric" else key) for key in _KEYS)


def write_quarantine(path: str, old: str, new: str) -> None:
    """Replace the file that was read as ``old``, after checking that the new text can be read."""
    _entries(path, parse_toml(path, new), new)
    replace_text(path, old, new)
