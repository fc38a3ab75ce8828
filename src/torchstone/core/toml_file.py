"""Read TOML files, with errors that name the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torchstone.core.disk import BOM, read_text
from torchstone.core.errors import InputError, printable
from torchstone.core.text.safe_text import is_plain

_POSITION = r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)\Z"  # of an error of tomllib


class TomlTable:
    """One table of a TOML file, with typed access to its keys; unknown keys are an error."""

    def __init__(
        self, path: str, line: int, values: Mapping[str, object], known: tuple[str, ...], text: str
    ) -> None:
        self.path = path
        self.line = line
        self.values = values
        self._text = text
        for key in values:
            if key not in known:
                raise self.error(f"unknown key; expected one of {', '.join(known)}", key)

    def error(self, problem: str, key: str = "", advice: str = "") -> InputError:
        """Return an error about this table, or a key of it."""
        column = printable(key) or None
        return InputError(problem, path=self.path, line=self._line_of(key), column=column, advice=advice)

    def _line_of(self, key: str) -> int:
        """Return the line of a key, or of the table if the key has none."""
        following = self._text.split("\n")[self.line :]
        for number, line in enumerate(following, self.line + 1):
            if line.lstrip().startswith("["):
                break
            if key and line.partition("=")[0].strip().strip("\"'") == key:
                return number
        return self.line

    def get(self, key: str, kind: type | tuple[type, ...], noun: str, default: Any = None) -> Any:  # noqa: ANN401  (the type is checked against 'kind')
        """Return a value of this type, or the default."""
        value = self.values.get(key, default)
        wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
        if value is not default and wrong:
            raise self.error(f"expected {noun}", key)
        return value

    def text(self, key: str, default: str = "") -> str:
        """Return a text."""
        value: str = self.get(key, str, "a text in quotes", default)
        if not is_plain(value):
            raise self.error("contains a control character", key, "expected text on one line")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the texts of a key that holds one text or a list."""
        value = self.values.get(key, [])
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise self.error("expected a text or a list of texts", key)
        return tuple(listed)


def read_toml(path: str) -> tuple[dict[str, Any], str]:
    """Read a TOML file; return its tables and its text."""
    text = read_text(path)
    return parse_toml(path, text), text


def parse_toml(path: str, text: str) -> dict[str, Any]:
    """Parse TOML."""
    import tomllib  # noqa: PLC0415  (start-up: it takes 3 ms, and most checks read no TOML)

    try:
        return tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError as error:
        found = re.match(_POSITION, str(error), re.DOTALL)
        if not found:
            raise InputError(str(error), path=path) from None
        line, column = found[2] or text.count("\n") + 1, found[3]
        problem = found[1][0].lower() + found[1][1:]
        raise InputError(
            problem, path=path, line=int(line), column=int(column) if column else None, advice="expected TOML"
        ) from None
    except RecursionError:
        raise InputError("nested too deeply", path=path, line=1) from None
    except ValueError:
        raise InputError(
            "a number with too many digits", path=path, line=1, advice="expected plain numbers"
        ) from None


def tables(
    path: str, document: Mapping[str, object], text: str, name: str, known: tuple[str, ...]
) -> list[TomlTable]:
    """Return the tables of an array ``[[name]]``, each with its line."""
    found = document.get(name, [])
    lines = header_lines(text, name)
    first = lines[0] if lines else 1
    if not isinstance(found, list) or not all(isinstance(values, dict) for values in found):
        raise InputError(f"expected tables [[{name}]]", path=path, line=first, column=name)
    if len(lines) != len(found):
        lines = [first] * len(found)
    return [TomlTable(path, line, values, known, text) for line, values in zip(lines, found, strict=True)]


def header_lines(text: str, name: str) -> list[int]:
    """Return the lines where tables ``[[name]]`` start."""
    pattern = re.compile(rf"{BOM}?\s*\[\[\s*\"?{re.escape(name)}\"?\s*\]\]")
    return [number for number, line in enumerate(text.split("\n"), 1) if pattern.match(line)]


def named_tables(
    path: str, document: Mapping[str, object], text: str, name: str, known: tuple[str, ...]
) -> dict[str, TomlTable]:
    """Return the tables ``[name.OWN]`` by their own names, each with its line."""
    found = document.get(name, {})
    pattern = re.compile(rf"{BOM}?\s*\[?\s*\"?{re.escape(name)}\"?\s*(?:[.\]=]|$)")
    lines = [number for number, line in enumerate(text.split("\n"), 1) if pattern.match(line)]
    first = lines[0] if lines else 1
    if not isinstance(found, dict):
        raise InputError(f"expected a table [{name}.NAME]", path=path, line=first, column=name)
    tables_found = {}
    for own, values in found.items():
        line = _header_line(text, name, own) or first
        if not isinstance(values, dict) or not is_plain(own) or not own:
            raise InputError(
                f"expected a table [{name}.NAME]",
                path=path,
                line=line if isinstance(values, dict) else _key_line(text, own) or line,
                column=printable(own) or name,
            )
        tables_found[own] = TomlTable(path, line, values, known, text)
    return tables_found


def _header_line(text: str, name: str, own: str) -> int:
    """Return the line of the header ``[name.own]``; 0 if it has none."""
    part = r"[\"']?{}[\"']?"
    pattern = re.compile(
        rf"{BOM}?\s*\[\s*{part.format(re.escape(name))}\s*\.\s*{part.format(re.escape(own))}\s*\]"
    )
    lines = text.split("\n")
    return next((number for number, line in enumerate(lines, 1) if pattern.match(line)), 0)


def _key_line(text: str, key: str) -> int:
    """Return the first line that sets a key; 0 if there is none."""
    lines = text.split("\n")
    return next(
        (
            number
            for number, line in enumerate(lines, 1)
            if line.partition("=")[0].strip().strip("\"'") == key and "=" in line
        ),
        0,
    )
