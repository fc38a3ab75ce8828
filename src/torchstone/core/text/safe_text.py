r"""Foreign text made safe for a terminal, a CI log, a shell command, a JSON document and a spreadsheet. Standard library only: workers use it too.

What a terminal would obey, or a reader would not see, is spelled out: ``\x1b``, ``\u202e``. That covers control characters (C0, DEL, C1),
marks that reorder text, line and paragraph separators, lone surrogates and invisible characters. Joiners and variation selectors stay
where they do their work: in emoji, and in scripts that are written with them.
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
_SPACES = "\t\n\xa0\u1680\u2000-\u200a\u202f\u205f"  # in a name they look like a space or the end of a line
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
_AT_START = re.compile(rf"(\n(?:[^\S\n]|{SGR})*:):")  # after a line end, which is quick to find
_MARKED = re.compile(r"(##[\w.-]*)\[")
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
    """``text`` on one line, with everything spelled out that a terminal would obey or a reader would not see.

    >>> escape_line("two\\nlines"), escape_line("\\x1b[2J")
    ('two\\\\nlines', '\\\\x1b[2J')
    """
    return _compiled(_IN_LINE).sub(_spell_out, text) if _has_hidden(text, " ") else text


def escape_lines(text: str) -> str:
    """The same for text of several lines: line ends, tabs and all kinds of spaces stay."""
    return _compiled(_IN_LINES).sub(_spell_out, text) if _has_hidden(text, " \n\t") else text


def _has_hidden(text: str, spaces: str) -> bool:
    """Whether anything in the text needs a closer look; most text is known to be harmless without one."""
    if text.isascii():
        return not text.isprintable() and bool(text.encode().translate(None, _HARMLESS + spaces.encode()))
    return any(
        not (character.isprintable() or character in spaces)
        or character in _PRINTABLE_BUT_HIDDEN
        or character >= "\U000e0000"
        for character in set(text)
    )


def is_plain(text: str) -> bool:
    """Whether ``text`` can be shown on one line as it is."""
    return (text.isascii() and text.isprintable()) or escape_line(text) == text


def _spell_out(found: re.Match[str]) -> str:
    return found[0] if found[1] else found[0].encode("unicode_escape").decode("ascii")


def clean_log(text: str) -> str:
    """What a program printed, without the codes that color a terminal, and with lines that only end in ``\\n``."""
    text = re.sub(_TERMINAL_CODE, "", text) if "\x1b" in text else text
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def summarise_error(text: str, limit: int = 240) -> str:
    """An error of several lines as one short line: of a long one the first sentence, which says what is wrong; what follows are details.

    >>> summarise_error("ValueError: \\nno such\\nlog. Valid are: " + "a, " * 99)
    'ValueError: no such log.'
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    sentence = re.split(r"(?<=[\w)'\"][.!?]) (?=[A-Z])", line, maxsplit=1)[0]
    return sentence if len(sentence) <= limit else f"{sentence[:limit].rstrip()} ..."


def escape_commands(text: str) -> str:
    r"""Text in which a CI service finds no command: no line starts with ``::``, and nothing reads ``##[`` or ``##vso[``.

    The last character of such a mark is spelled out, so that text which was written in two parts can still be mended.

    >>> escape_commands("a::b\n  ::error::c ##[group]")
    'a::b\n  :\\x3aerror::c ##\\x5bgroup]'
    """
    if "##" in text:
        text = _MARKED.sub(r"\1\\x5b", text)
    return _AT_START.sub(r"\1\\x3a", f"\n{text}")[1:] if "::" in text else text


def escape_json(text: str) -> str:
    """A JSON document that says the same, without characters that a terminal obeys or nobody sees, and without commands of a CI service."""
    if _has_hidden(text, " \n"):
        text = _compiled(_IN_LINES).sub(_unit_escapes, text)
    return _MARKED.sub(r"\1\\u005b", text) if "##" in text else text


def _unit_escapes(found: re.Match[str]) -> str:
    """A character as JSON's escapes: one for each unit of UTF-16."""
    if found[1]:
        return found[0]
    code = ord(found[0])
    units = (code,) if code < 0x10000 else (0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF))
    return "".join(f"\\u{unit:04x}" for unit in units)


def quote_word(word: str) -> str:
    r"""A word of a command, so that a shell reads exactly this word, and a terminal or a CI log shows it safely.

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
    """A character as it is written inside ``$'...'``: the bytes of its UTF-8, which mean the same in every locale."""
    if found[1]:
        return found[0]
    if found[0] in "'\\":
        return f"\\{found[0]}"
    undecoded = "\udc80" <= found[0] <= "\udcff"
    data = found[0].encode("utf-8", "surrogateescape" if undecoded else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)


def join_words(words: Iterable[str]) -> str:
    """A command of these words, to be pasted into a shell."""
    return " ".join(map(quote_word, words))


def simple_command(text: str) -> str:
    """A command that a file suggests, if it is one that may be suggested again; else nothing.

    That is ``torchstone repro RUNFILE CASE`` without options, which asks before it executes what is not the user's own, or a benchmark script
    of a PyTorch checkout. A shell must find nothing in it to expand, chain or redirect: it has to be quoted as ``quote_word`` does.

    >>> simple_command("torchstone repro run.jsonl 'a[x]'"), simple_command("torchstone repro $(id)")
    ("torchstone repro run.jsonl 'a[x]'", '')
    """
    return text if is_plain(text) and re.fullmatch(_SIMPLE_COMMAND, text) else ""


def defuse_cell(cell: str) -> str:
    """A cell of a table that no spreadsheet takes for a formula; numbers stay as they are.

    >>> defuse_cell("=1+1"), defuse_cell("-1.5"), defuse_cell("mlp")
    ("'=1+1", '-1.5', 'mlp')
    """
    return f"'{cell}" if re.match(_FORMULA, cell) and not re.fullmatch(_NUMBER, cell) else cell


def restore_cell(cell: str) -> str:
    """A cell as it was before ``defuse_cell``."""
    return cell[1:] if cell.startswith("'") and defuse_cell(cell[1:]) == cell else cell
