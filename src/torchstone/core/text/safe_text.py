"""Escape untrusted text for terminals, CI logs, shells, JSON and spreadsheets.

Standard library only.

Characters that a terminal would interpret or a reader would not see are written as escapes: ``\x1b``,
``\u202e``. These are control characters (C0, DEL, C1), bidirectional marks, line and paragraph separators,
lone surrogates and invisible characters. Joiners and variation selectors are kept in emoji and in scripts
that need them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

# Scripts that join letters, and emoji: what may stand on either side of a joiner.
_JOINED = (
    "\u0590-\u061b\u061d-\u115e\u1161-\u17b3\u17b6-\u180a\u1810-\u1c7f\u1c90-\u1cff"
    "\u203c-\u205e\u2070-\u3163\u3165-\ud7ff\ue000-\ufdcf\ufdf0-\ufdff\ufe10-\ufefe\uff00-\uff9f\uffa1-\uffef"
    "\U00010000-\U000dffff"
)
_SELECTORS = "\ufe00-\ufe0f"
_KEPT = "|".join(
    (
        "\U0001f3f4[\U000e0020-\U000e007e]{1,32}\U000e007f",  # the flag of a region
        f"(?<=[{_JOINED}{_SELECTORS}])[\u200c\u200d](?=[{_JOINED}])",
        f"(?<=[0-9#*\xa9\xae{_JOINED}])[{_SELECTORS}]",
        "(?<=[\u1820-\u18af])[\u180b-\u180d\u180f]",
        "(?<=[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]",
    )
)
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    f"\ud800-\udfff\ufdd0-\ufdef{_SELECTORS}\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SPACES = "\t\n\xa0\u1680\u2000-\u200a\u202f\u205f"  # look like a space or a line end
_IN_LINES = f"({_KEPT})|[{_HIDDEN}]"
_IN_LINE = f"({_KEPT})|[{_HIDDEN}{_SPACES}]"
_IN_WORD = f"({_KEPT})|[{_HIDDEN}{_SPACES}'!\\[\\\\]"
_compiled = cache(
    re.compile
)  # these take longer to compile than a gate takes to judge, and most text needs none of them
_PRINTABLE_BUT_HIDDEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
)

_TERMINAL_CODE = r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
SGR = r"\x1b\[[0-9;]*m"
_AT_START = rf"(\n(?:[^\S\n]|{SGR})*:):"  # after a line end, which is quick to find
_MARKED = r"(##[\w.-]*)\["
_HARMLESS = bytes(range(0x20, 0x7F))
_FORMULA = r"(?=['\s]*[^'\s])'*\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]"
_NUMBER = r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?%?|inf|nan)\s*|-+"

_WORD = r"""(?:\w|[@%+=:,./-]|'[^']*'|"'"|\$'(?:\\x[0-9a-f]{2}|\\['\\]|[^'\\])*')+"""
_NO_OPTION = r"""(?!['"$]*(?:-|\\x2d))"""
_SIMPLE_COMMAND = (
    rf"torchstone repro {_NO_OPTION}{_WORD} {_NO_OPTION}{_WORD}"
    rf"|python benchmarks/[\w/]+\.py(?: (?!['$]*--trust){_WORD})*"
)


def escape_line(text: str) -> str:
    """Escape ``text`` for one line: control and invisible characters become visible.

    >>> escape_line("two\\nlines"), escape_line("\\x1b[2J")
    ('two\\\\nlines', '\\\\x1b[2J')
    """
    return _compiled(_IN_LINE).sub(_spell_out, text) if _has_hidden(text, " ") else text


def escape_lines(text: str) -> str:
    """Escape a text of several lines; line ends, tabs and spaces stay."""
    return _compiled(_IN_LINES).sub(_spell_out, text) if _has_hidden(text, " \n\t") else text


def _has_hidden(text: str, spaces: str) -> bool:
    """Return whether the text may need escaping; a quick test that rules out most text."""
    if text.isascii():
        return not text.isprintable() and bool(text.encode().translate(None, _HARMLESS + spaces.encode()))
    return any(
        not (character.isprintable() or character in spaces)
        or character in _PRINTABLE_BUT_HIDDEN
        or character >= "\U000e0000"
        for character in set(text)
    )


def is_plain(text: str) -> bool:
    """Return whether ``text`` can be shown on one line as it is."""
    return (text.isascii() and text.isprintable()) or escape_line(text) == text


def _spell_out(found: re.Match[str]) -> str:
    return found[0] if found[1] else found[0].encode("unicode_escape").decode("ascii")


def clean_log(text: str) -> str:
    r"""Remove terminal colors from a program's output, and normalise line ends to ``\n``."""
    text = re.sub(_TERMINAL_CODE, "", text) if "\x1b" in text else text
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def summarise_error(text: str, limit: int = 240) -> str:
    """Shorten an error of several lines to one line: if it is long, to its first sentence.

    >>> summarise_error("ValueError: \\nno such\\nlog. Valid are: " + "a, " * 99)
    'ValueError: no such log.'
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    sentence = re.split(r"(?<=[\w)'\"][.!?]) (?=[A-Z])", line, maxsplit=1)[0]
    return sentence if len(sentence) <= limit else f"{sentence[:limit].rstrip()} ..."


def escape_commands(text: str) -> str:
    r"""Escape commands of CI services: ``::`` at the start of a line, ``##[`` and ``##vso[``.

    The last character of such a mark is escaped, so that text written in two parts can still be fixed.

    >>> escape_commands("a::b\n  ::error::c ##[group]")
    'a::b\n  :\\x3aerror::c ##\\x5bgroup]'
    """
    if "##" in text:
        text = _compiled(_MARKED).sub(r"\1\\x5b", text)
    return _compiled(_AT_START).sub(r"\1\\x3a", f"\n{text}")[1:] if "::" in text else text


def escape_json(text: str) -> str:
    """Escape characters of a JSON document that a terminal or a CI service would interpret.

    The document's value stays the same.
    """
    if _has_hidden(text, " \n"):
        text = _compiled(_IN_LINES).sub(_unit_escapes, text)
    return _compiled(_MARKED).sub(r"\1\\u005b", text) if "##" in text else text


def _unit_escapes(found: re.Match[str]) -> str:
    """Return a character as JSON escapes, one per UTF-16 unit."""
    if found[1]:
        return found[0]
    code = ord(found[0])
    units = (code,) if code < 0x10000 else (0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF))
    return "".join(f"\\u{unit:04x}" for unit in units)


def quote_word(word: str) -> str:
    r"""Quote a word for a shell, in a form that is safe to show in a terminal or a CI log.

    Words with hidden characters are written as ``$'...'``, which bash, zsh and ksh understand.

    >>> quote_word("a b"), quote_word("x\x1by")
    ("'a b'", "$'x\\x1by'")
    """
    from shlex import quote  # noqa: PLC0415  (few commands need it)

    if is_plain(word) and escape_commands(word) == word:
        return quote(word)
    if is_plain(word) and "##" not in word:  # it starts with ::, which needs no quotes but for the log
        return f"'{word}'" if "'" not in word else quote(word)
    return "$'" + _compiled(_IN_WORD).sub(_ansi_c, word) + "'"


def _ansi_c(found: re.Match[str]) -> str:
    """Return a character as it is written inside ``$'...'``: its UTF-8 bytes, independent of the locale."""
    if found[1]:
        return found[0]
    if found[0] in "'\\":
        return f"\\{found[0]}"
    undecoded = "\udc80" <= found[0] <= "\udcff"
    data = found[0].encode("utf-8", "surrogateescape" if undecoded else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)


def join_words(words: Iterable[str]) -> str:
    """Join words into a command that can be pasted into a shell."""
    return " ".join(map(quote_word, words))


def simple_command(text: str) -> str:
    """Return a command suggested by a file if it is safe to suggest again; else an empty string.

    Safe are ``torchstone repro RUNFILE CASE`` without options, which asks before it executes foreign code,
    and benchmark scripts of a PyTorch checkout. The command must be quoted as by ``quote_word``: nothing in
    it for a shell to expand, chain or redirect.

    >>> simple_command("torchstone repro run.jsonl 'a[x]'"), simple_command("torchstone repro $(id)")
    ("torchstone repro run.jsonl 'a[x]'", '')
    """
    return text if is_plain(text) and re.fullmatch(_SIMPLE_COMMAND, text) else ""


def defuse_cell(cell: str) -> str:
    """Escape a table cell that a spreadsheet would take for a formula; numbers stay as they are.

    >>> defuse_cell("=1+1"), defuse_cell("-1.5"), defuse_cell("mlp")
    ("'=1+1", '-1.5', 'mlp')
    """
    return f"'{cell}" if re.match(_FORMULA, cell) and not re.fullmatch(_NUMBER, cell) else cell


def restore_cell(cell: str) -> str:
    """Undo ``defuse_cell``."""
    return cell[1:] if cell.startswith("'") and defuse_cell(cell[1:]) == cell else cell
