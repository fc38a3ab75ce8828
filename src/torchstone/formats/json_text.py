"""Parse JSON with line numbers: one value, a list, a list of lists, or one value per line.

Stricter than the standard: no NaN unless a format is known to write it, no duplicate keys, no lone
surrogates.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Generator, Iterator
from math import isfinite
from typing import Any

from torchstone.core.disk import BOM
from torchstone.core.errors import InputError, printable
from torchstone.core.run_settings import JsonObject
from torchstone.core.text.safe_text import is_plain

MOST_NESTED = 100
_SPACE = re.compile(r"[ \t\r\n]*")
_HALF_PAIR_WRITTEN = re.compile(r"\\u[dD][89a-fA-F]")
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class _RefusedError(ValueError):
    """Valid JSON that is rejected nevertheless."""


def _refuse_constant(name: str) -> None:
    raise _RefusedError(f"{name} is not a valid JSON number")


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise _RefusedError(f"duplicate key '{printable(twice, 40)}'")
    return record


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise _RefusedError(f"{printable(text, 40)} is too large for a number")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_float=_finite, parse_constant=_refuse_constant
)
_DECODER_OF_ANYTHING = json.JSONDecoder()  # the fastest way, for text that was decoded before
_DECODER_OF_NAN = json.JSONDecoder(object_pairs_hook=_unique_keys)


def read_records(path: str, text: str) -> Iterator[tuple[int, Any]]:
    """Yield the records of a text with their lines: consecutive values, with lists flattened by up to two levels."""
    text = text.removeprefix(BOM)
    start = _skip_space(text, 0)
    if start == len(text):
        raise InputError("the file is empty", path=path, line=1, advice="expected JSON")
    line = 1 + text.count("\n", 0, start)
    while start < len(text):
        if text[start] == "[":
            end = yield from _read_list(path, text, start, line)
        else:
            value, end = _read_value(path, text, start, line)
            yield line, value
        following = _skip_space(text, end)
        if text[start] == "[" and following < len(text) and text[following] not in "[{":
            raise _broken(path, text, following, "unexpected text after the end of the list")
        line += text.count("\n", start, following)
        start = following


def read_object(path: str, text: str) -> tuple[int, JsonObject]:
    """Parse the text as one object, and return its line. NaN and Infinity are allowed; the reader checks them."""
    text = text.removeprefix(BOM)
    start = _skip_space(text, 0)
    if start == len(text):
        raise InputError("the file is empty", path=path, line=1, advice="expected JSON")
    line = 1 + text.count("\n", 0, start)
    value, end = _read_value(path, text, start, line, _DECODER_OF_NAN)
    if (rest := _skip_space(text, end)) < len(text):
        raise _broken(path, text, rest, "unexpected text after the end of the object")
    return line, Fields(path, line, value).value


def lines_of_list(text: str, field: str) -> list[int]:
    """Return the line of each element of a list field. Call ``read_object`` first."""
    text = text.removeprefix(BOM)
    position = _skip_space(text, _skip_space(text, 0) + 1)
    while text[position] != "}":
        key, end = _DECODER_OF_ANYTHING.raw_decode(text, position)
        position = _skip_space(text, _skip_space(text, end) + 1)
        if key == field:
            break
        position = _skip_past(text, position)
    if text[position] != "[":
        return []
    position, lines = _skip_space(text, position + 1), []
    line = 1 + text.count("\n", 0, position)
    while text[position] != "]":
        lines.append(line)
        following = _skip_past(text, position)
        line += text.count("\n", position, following)
        position = following
    return lines


def _skip_past(text: str, start: int) -> int:
    """Return the position of the next element, or of the end, after the value that starts here."""
    _, end = _DECODER_OF_ANYTHING.raw_decode(text, start)
    end = _skip_space(text, end)
    return _skip_space(text, end + 1) if text[end] == "," else end


def _read_list(path: str, text: str, start: int, line: int) -> Generator[tuple[int, Any], None, int]:
    """Yield the elements of the list that starts here, with nested lists flattened; return its end."""
    position, depth = start, 0
    is_value_due, may_end = True, False
    while True:
        character = text[position : position + 1]
        end = position + 1
        if character == "[" and is_value_due:
            depth += 1
            may_end = True
            if depth > MOST_NESTED:
                raise _too_deep(path, line)
        elif character == "]" and may_end:
            depth -= 1
            is_value_due = False
            if not depth:
                return end
        elif is_value_due:
            value, end = _read_value(path, text, position, line)
            yield line, value
            is_value_due, may_end = False, True
        elif character == ",":
            is_value_due, may_end = True, False
        else:
            raise _broken(path, text, position, "expected ',' or ']'")
        following = _skip_space(text, end)
        line += text.count("\n", position, following)
        position = following


def _read_value(
    path: str, text: str, start: int, line: int, decoder: json.JSONDecoder = _DECODER
) -> tuple[Any, int]:
    try:
        value, end = decoder.raw_decode(text, start)
        if _HALF_PAIR_WRITTEN.search(text, start, end) and _HALF_PAIR.search(
            json.dumps(value, ensure_ascii=False)
        ):
            raise _RefusedError("a lone surrogate, which is not a character")
        if (
            text.count("[", start, end) + text.count("{", start, end) > MOST_NESTED
            and _depth(value) > MOST_NESTED
        ):
            raise RecursionError
    except json.JSONDecodeError as error:
        raise _broken(path, text, error.pos, error.msg.lower()) from None
    except RecursionError:
        raise _too_deep(path, line) from None
    except ValueError as error:  # also: a whole number with thousands of digits
        problem = str(error) if isinstance(error, _RefusedError) else "number too large"
        raise InputError(problem, path=path, line=line, advice="expected plain JSON") from None
    return value, end


def _too_deep(path: str, line: int) -> InputError:
    return InputError("lists and objects nested too deeply", path=path, line=line)


def _depth(value: object) -> int:
    """Return the nesting depth, to refuse values that would exhaust the stack when written."""
    depth, layer = 0, [value]
    while layer := [item for item in layer if isinstance(item, dict | list)]:
        depth += 1
        layer = [inner for item in layer for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def _skip_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


def _broken(path: str, text: str, position: int, problem: str) -> InputError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    ended = position >= len(text.rstrip()) or problem.startswith("unterminated")
    advice = "was the file cut off?" if ended else "expected JSON"
    return InputError(f"broken JSON: {problem}", path=path, line=line, column=column, advice=advice)


class Fields:
    """Typed access to one JSON object; errors name the file, the line and the field."""

    def __init__(self, path: str, line: int, value: Any, name: str = "") -> None:  # noqa: ANN401  (JSON is anything)
        self._path = path
        self._line = line
        self._name = name
        if not isinstance(value, dict):
            raise self.error(f"expected an object, found {_noun(value)}")
        self.value: JsonObject = value

    def error(self, problem: str, field: str = "", advice: str = "") -> InputError:
        """Return an error about this object or one of its fields."""
        column = ".".join(part for part in (self._name, field) if part)
        return InputError(problem, path=self._path, line=self._line, column=column or None, advice=advice)

    def text(self, field: str) -> str:
        """Return a string; empty if the field is absent or null."""
        value = self.value.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(f"expected a text, found {_noun(value)}", field)
        return value

    def name(self, field: str) -> str:
        """Return a string that can be shown on one line."""
        value = self.text(field)
        if not is_plain(value):
            raise self.error(f"{printable(value, 60)} contains a control character", field)
        return value

    def fields(self, field: str) -> Fields:
        """Return an object; an empty one if the field is absent or null."""
        value = self.value.get(field)
        name = f"{self._name}.{field}" if self._name else field
        return Fields(self._path, self._line, {} if value is None else value, name)

    def element(self, field: str, number: int) -> Fields:
        """Return an object that is an element of a list."""
        name = f"{self._name}.{field}" if self._name else field
        return Fields(self._path, self._line, self.items(field)[number], f"{name}[{number}]")

    def items(self, field: str) -> list[Any]:
        """Return a list; an empty one if the field is absent or null."""
        value = self.value.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(f"expected a list, found {_noun(value)}", field)
        return value

    def numbers(self, field: str) -> tuple[int | float, ...]:
        """Return a list of finite numbers."""
        values = self.items(field)
        for value in values:
            if not is_number(value):
                raise self.error(f"expected finite numbers, found {_noun(value)}", field)
        return tuple(values)


def is_number(value: object) -> bool:
    """Return whether a JSON value is a usable number: not a boolean, and small enough for sums not to overflow."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -1e300 <= value <= 1e300


def _noun(value: object) -> str:
    if value is None:
        return "null"
    nouns = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return nouns.get(type(value), "something else")
