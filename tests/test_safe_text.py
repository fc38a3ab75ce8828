"""Foreign text as it is shown, quoted, and put into tables."""

from __future__ import annotations

import json
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile_files import EMOJI, HOSTILE, NAMES, forbidden
from torchstone.core.errors import InputError
from torchstone.core.text.safe_text import (
    defuse_cell,
    escape_commands,
    escape_json,
    escape_line,
    escape_lines,
    is_plain,
    join_words,
    quote_word,
    restore_cell,
)

SPOOFS = {
    "a joiner between Latin letters": ("a\u200db", "a\\u200db"),
    "a joiner at the end": ("\U0001f469\u200d", "\U0001f469\\u200d"),
    "a selector on a letter": ("a\ufe0f", "a\\ufe0f"),
    "two selectors": ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f\\ufe0f"),
    "text in tags": ("\U000e0041", "\\U000e0041"),
    "half a pair": ("\ud800x\udcff", "\\ud800x\\udcff"),
    "blank letters": ("\u3164\u115f", "\\u3164\\u115f"),
    "a space that is none": ("a\xa0b\u2003c", "a\\xa0b\\u2003c"),
}


@pytest.mark.parametrize("text", EMOJI)
def test_emoji_and_scripts_that_join_letters_stay(text: str) -> None:
    within = f"a {text} b"
    assert escape_line(within) == escape_lines(within) == escape_json(within) == within
    assert is_plain(text)


@pytest.mark.parametrize(("text", "shown"), SPOOFS.values(), ids=SPOOFS)
def test_what_hides_is_spelled_out(text: str, shown: str) -> None:
    assert escape_line(text) == shown
    assert not is_plain(text)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_safe_on_one_line_and_on_several(text: str) -> None:
    assert forbidden(escape_line(text), commands=False) == []
    assert "\n" not in escape_line(text)
    assert forbidden(escape_commands(escape_lines(text))) == []
    assert escape_lines(text).count("\n") == text.count("\n")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_an_error_is_safe_whatever_it_is_about(text: str) -> None:
    error = InputError(text, path=text, line=1, column=text, advice=text)
    assert forbidden(str(error), commands=False) == []
    assert str(error).count("\n") == 1


@given(st.text())
def test_any_text_is_safe(text: str) -> None:
    shown = escape_commands(escape_lines(text))
    assert escape_lines(shown) == shown == escape_commands(shown)
    assert escape_line(escape_line(text)) == escape_line(text)
    assert is_plain(escape_line(text))


@given(
    st.recursive(st.text(), lambda texts: st.lists(texts) | st.dictionaries(st.text(), texts), max_leaves=5)
)
def test_json_says_the_same(value: object) -> None:
    for indent in (None, 1):
        text = escape_json(json.dumps(value, ensure_ascii=False, indent=indent))
        assert json.loads(text) == value
        assert escape_commands(escape_lines(text)) == text


def spoken(command: str, locale: str) -> bytes:
    """What a real shell makes of a command's words."""
    script = f"printf '%s\\0' {command}\n".encode()
    done = subprocess.run(["bash"], input=script, capture_output=True, check=True, env={"LC_ALL": locale})
    return done.stdout


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_shell_reads_every_word_as_it_is(locale: str) -> None:
    words = [*NAMES, *EMOJI, "\udc80", "a b", "$'x'", "\\", "'", "!!", "~", "*", "", "1\x011", "\x1bc", "é"]
    words += [text.replace("\x00", "") for text in HOSTILE.values()]
    command = join_words(words)
    assert escape_commands(command) == command
    assert is_plain(command)
    expected = b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
    assert spoken(command, locale) == expected


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00")), max_size=50))
def test_a_shell_reads_any_words_as_they_are(words: list[str]) -> None:
    command = join_words(["", *words])
    assert is_plain(command)
    assert spoken(command, "C.UTF-8") == b"".join(f"{word}\0".encode() for word in ["", *words])


def test_usual_words_are_quoted_as_usual() -> None:
    assert join_words(["torchstone", "check", "a b.csv"]) == "torchstone check 'a b.csv'"
    assert quote_word("::a") == "'::a'"


@given(
    st.text()
    | st.sampled_from(["=", "'=", "''+a", " @", "\t-x", "-", "-1.5", "+3e4", "-1e-5", "1", ".5", "-5%"])
)
def test_a_defused_cell_is_read_as_it_was(cell: str) -> None:
    assert restore_cell(defuse_cell(cell)) == cell


@pytest.mark.parametrize(
    "cell", ["-1.5", "+3e4", "-1e-05", "+1", "-.5", "0", "", "mlp", "a=b", "-", "--", "-inf"]
)
def test_numbers_and_names_are_no_formulas(cell: str) -> None:
    assert defuse_cell(cell) == cell


@pytest.mark.parametrize(
    "cell", ["=1", "+a", "-a", "@a", "\t=1", "\r=1", "  =1", "-1+1", "+cmd|' /C calc'!A0", "'=1"]
)
def test_formulas_are_defused(cell: str) -> None:
    assert defuse_cell(cell) == f"'{cell}"
