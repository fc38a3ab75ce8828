"""Whatever a file holds, reading it gives sound records or one clear error, and does so soon."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sample_files import CANONICAL, MEMORY, QUARANTINE, SETTINGS, TOOLS, assert_sound, read_as
from torchstone.core.config import read_config
from torchstone.core.disk import write_text
from torchstone.core.errors import InputError
from torchstone.core.text.safe_text import is_plain
from torchstone.core.toml_file import parse_toml
from torchstone.formats import FORMATS, WRITTEN, read_file, recognise
from torchstone.formats.edit import TableText
from torchstone.formats.merge import merge
from torchstone.gate.quarantine_file import read_quarantine

T = TypeVar("T")
KINDS = list(FORMATS)
JSON_KINDS = ("run", "v3", "cachebench", "ddp", *TOOLS)
fuzzing = settings(
    max_examples=2 * settings().max_examples,
    deadline=timedelta(seconds=10),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# fmt: off
NASTY_CELLS = [
    "NaN", "inf", "-inf", "-1", "1e999", "", " ", "0", "0.0", "-0", "1.5", "9" * 30, "9" * 5000, "1_000", "\u0663", "0x10",
    '"', '""', '"a"b', ",", ";", "\n", "\r", "\r\n", "\t", "\x00", "\x1b[2J", "\ufeff", "\u2028", "\x85", "🔥", "#", "# x",
    "name", "metric", "accuracy", "speedup", "pass", "x" * 200, "x" * 100_001, "é", "'", "\\", "[", "{", "null",
]
NASTY_TOKENS = [
    "null", "true", "[]", "{}", '""', "0", "-1", "1.5", "1e999", "-1e999", "NaN", "Infinity", "9" * 30, "9" * 5000,
    r'"\ud800"', r'"\udc00x"', r'"\u0000"', r'"a\nb"', r'"\u001b[2J"', r'"\u2028"', '"🔥"', '"a\nb"', '"pass"', '"run"',
    "[[1]]", '{"a":{"b":[1]}}', "[" * 50 + "]" * 50, "[" * 300 + "]" * 300, "[" * 5000, "1" + "0" * 308, "01", "+1", "'a'",
    "", "[1]", "[0]", "[-1.5]", '["x"]', '"32"', "2026-01-01", '{"benchmark_values":["x"]}', '{"margin":"x"}',
]
NASTY_TOML = [
    '""', '"a\\nb"', '"\\u0000"', "0", "-1", "1.5", "nan", "inf", "-inf", "true", "[]", "[1]", '["a", 1]', "{}", "{a = 1}",
    "2026-13-01", "2026-01-01", "00:00:00", "0001-01-01", "9999-12-31", '"improvement"', '"strict"', '"🔥"', '"""a\nb"""',
    "[" * 5000, "9" * 30, '"', "'", "#", "", '["pass"]', '"count"',
]
# fmt: on
JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[\[\]{}:,]')
TOML_VALUE = re.compile(r"(?<= = ).*")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=60) | st.lists(
    st.sampled_from(
        [
            *NASTY_CELLS,
            *NASTY_TOKENS,
            "dev,name,batch_size,speedup\n",
            "name,accuracy\n",
            "a,b,1\n",
            '{"metric"',
        ]
    )
    | st.text(max_size=5),
    max_size=12,
).map("".join)


def _replace_token(draw: st.DrawFn, text: str, pattern: re.Pattern[str], nasty: list[str]) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    token = found[draw(st.integers(0, len(found) - 1))]
    return text[: token.start()] + draw(st.sampled_from(nasty)) + text[token.end() :]


def _change_lines(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    number = draw(st.integers(0, len(lines) - 1))
    match draw(st.sampled_from(["double", "delete", "blank", "comment", "move", "end"])):
        case "double":
            lines.insert(number, lines[number])
        case "delete":
            del lines[number]
        case "blank":
            lines.insert(number, draw(st.sampled_from(["\n", " \n", "\r\n", "\r", "\x0c\n"])))
        case "comment":
            lines.insert(number, '# a comment, with "quotes\n')
        case "move":
            lines.append(lines.pop(number))
        case _:
            lines[number] = lines[number].rstrip("\n") + draw(
                st.sampled_from(["\r\n", "", "\r", ",\n", "\n\n"])
            )
    return "".join(lines)


def _change_characters(draw: st.DrawFn, text: str) -> str:
    start = draw(st.integers(0, len(text)))
    length = draw(st.sampled_from([0, 0, 1, 1, 2, 20]))
    return text[:start] + draw(st.sampled_from(NASTY_CELLS) | st.text(max_size=3)) + text[start + length :]


@st.composite
def mutations(draw: st.DrawFn, text: str, tokens: re.Pattern[str], nasty: list[str]) -> str:
    """A valid file that something happened to."""
    for _ in range(draw(st.integers(1, 4))):
        match draw(st.sampled_from(["token", "token", "lines", "characters", "cut"])):
            case "token":
                text = _replace_token(draw, text, tokens, nasty)
            case "lines":
                text = _change_lines(draw, text)
            case "characters":
                text = _change_characters(draw, text)
            case _:
                text = text[: draw(st.integers(0, len(text)))]
    return text


CELL = re.compile(r"[^,\n]+|(?<=,)(?=[,\n])")


def mutated(kind: str) -> st.SearchStrategy[str]:
    if kind in JSON_KINDS:
        return mutations(CANONICAL[kind], JSON_TOKEN, NASTY_TOKENS)
    texts = [CANONICAL[kind], *([MEMORY] if kind == "expected" else [])]
    return st.sampled_from(texts).flatmap(lambda text: mutations(text, CELL, NASTY_CELLS))


def assert_explained(error: InputError, path: str, text: str) -> None:
    """The error names the file and the line, in a message that a terminal can show."""
    assert error.path == path
    assert isinstance(error.line, int)
    assert 1 <= error.line <= text.count("\n") + text.count("\r") + 1
    assert error.message
    assert is_plain(error.message)
    assert is_plain(error.advice)
    assert len(str(error)) < 2000


def assert_read_or_refused(read: Callable[[], T], path: str, text: str) -> T | None:
    try:
        return read()
    except InputError as error:
        assert_explained(error, path, text)
        return None


def check_reader(kind: str, text: str) -> None:
    reading = assert_read_or_refused(lambda: FORMATS[kind].read("file", text), "file", text)
    if reading is None:
        return
    assert reading.kind == kind
    assert_sound(reading)
    assert all(line <= text.count("\n") + text.count("\r") + 1 for line in reading.lines)
    if kind not in JSON_KINDS:
        assert TableText("file", text).apply() == text


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", KINDS)
def test_any_text_is_read_or_refused(kind: str) -> None:
    @fuzzing
    @given(TEXTS)
    @example("[]")
    @example("[" * 100_000)
    @example('{"metric": {"name": "accuracy", "extra_info": {"benchmark_values": [""]}}}')
    def check(text: str) -> None:
        check_reader(kind, text)

    check()


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_something_happened_to_is_read_or_refused(kind: str) -> None:
    @fuzzing
    @given(mutated(kind))
    def check(text: str) -> None:
        check_reader(kind, text)

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_off_anywhere_is_read_or_refused(kind: str) -> None:
    for end in range(len(CANONICAL[kind])):
        check_reader(kind, CANONICAL[kind][:end])


@fuzzing
@given(TEXTS | st.sampled_from(KINDS).flatmap(mutated))
def test_any_text_is_recognised_or_refused(text: str) -> None:
    kind = assert_read_or_refused(lambda: recognise("file", text), "file", text)
    assert kind is None or kind in FORMATS


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "file"


@fuzzing
@given(
    data=st.binary(max_size=40)
    | st.sampled_from(KINDS).flatmap(mutated).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.sampled_from(KINDS).map(lambda kind: CANONICAL[kind].encode("utf-16"))
    | st.builds(
        lambda kind, rest: CANONICAL[kind].encode() + rest, st.sampled_from(KINDS), st.binary(max_size=9)
    )
)
def test_any_bytes_on_disk_are_read_or_refused(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    text = data.decode("utf-8", "replace")
    reading = assert_read_or_refused(lambda: read_file(str(file)), str(file), text)
    if reading is not None:
        assert_sound(reading)


TOML_READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "quarantine": (QUARANTINE, read_quarantine),
    "settings": (SETTINGS, read_config),
}


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", TOML_READERS)
def test_a_toml_file_that_something_happened_to_is_read_or_refused(name: str, file: Path) -> None:
    valid, read = TOML_READERS[name]

    @fuzzing
    @given(mutations(valid, TOML_VALUE, NASTY_TOML) | TEXTS)
    def check(text: str) -> None:
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        assert_read_or_refused(lambda: read(str(file)), str(file), text)
        assert_read_or_refused(lambda: parse_toml("file", text), "file", text)

    check()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("settings", "a = 1" + "0" * 5000),
        (
            "quarantine",
            "[[quarantine]]\ncase = 'a'\nreason = 'b'\nsince = 2026-01-01T00:00:00\nexpires = 2026-01-02\n",
        ),
        ("settings", f"[[rule]]\nmetric = 'a'\nkind = 'floor'\nlow = {'9' * 400}\n"),
        ("settings", '[[rule]]\nmetric = "a"\nkind = "a\\nb"\n'),
    ],
    ids=["many digits", "a time", "a large number", "two lines"],
)
def test_toml_that_broke_a_reader_is_refused(name: str, text: str, file: Path) -> None:
    file.write_text(text)
    assert_read_or_refused(lambda: TOML_READERS[name][1](str(file)), str(file), text)


@fuzzing
@given(text=st.sampled_from([kind for kind in KINDS if kind != "run"]).flatmap(mutated))
def test_what_was_read_can_be_written_and_read_again(file: Path, text: str) -> None:
    """Also through a run file, which must be able to hold whatever any reader gives."""
    try:
        kind = recognise("file", text)
        reading = read_as(kind, text)
        merge([reading])
    except InputError:
        return
    assert read_as("run", FORMATS["run"].write(reading.run)).run == reading.run
    if kind not in WRITTEN:
        return
    if not any(outcome.status or outcome.measurements for outcome in reading.run.outcomes):
        return  # a file that expects nothing at all is read, but never written
    write_text(str(file), FORMATS[kind].write(reading.run))
    again = read_file(str(file), kind)
    assert [o.case.benchmark for o in again.run.outcomes] == [o.case.benchmark for o in reading.run.outcomes]
    assert [o.status for o in again.run.outcomes] == [o.status for o in reading.run.outcomes]
