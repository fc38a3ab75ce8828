"""Pages whose commands a reader types in order: their files, their commands, and what these print, but for its numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

GAP = "..."
"""A line of a page that stands for any number of lines."""
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_MASKS = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"[+-]?\d[\d,.:]*(?<![,.:])(e[+-]\d+)?"), "#"),
    (re.compile(r"# (ns|us|ms|s|min|h|KB|MB|GB)\b"), "#"),
    (re.compile(r" \(# to #\)"), ""),  # an interval that is narrower than the digits is not shown
    (re.compile(r"[-─━]{3,}"), "---"),
    (re.compile(r"\s+"), " "),
)
_NEEDS_TIMES = re.compile(
    r"^PASS|^FAIL: # regression \(margin|regression #% \[#%, #%\]|regression \w+ \w+ #% \[#%, #%\]"
)
_UNDECIDED = re.compile("UNDECIDED|inconclusive")


@dataclass(frozen=True)
class PageFile:
    """A file that the reader writes: a block of Python whose first line is a comment with the name."""

    name: str
    text: str


@dataclass(frozen=True)
class PageCommand:
    """A command that the reader types, and what the page says it prints."""

    line: str
    shown: tuple[str, ...]


def read_steps(page: str) -> list[PageFile | PageCommand]:
    """Read the files and the commands of a page, in order."""
    steps: list[PageFile | PageCommand] = []
    for kind, text in _BLOCK.findall(page):
        if kind == "python":
            name = re.match(r"# (\w+\.py)", text)
            assert name, f"no file name in the first line: {text}"
            steps.append(PageFile(name[1], text))
            continue
        for part in text.split("$ ")[1:] if text.startswith("$ ") else []:
            line, _, shown = part.replace("\\\n", "").partition("\n")
            steps.append(PageCommand(re.sub(r"\s+", " ", line), tuple(shown.splitlines())))
    return steps


def mask(line: str) -> str:
    """Return a line without what differs from run to run: numbers, their units, narrow intervals, widths of columns.

    >>> mask("speedup   1.215x (1.19 to 1.24)  compile 980 ms"), mask("-13.8% in 1:02")
    ('speedup #x compile #', '#% in #')
    """
    for pattern, instead in _MASKS:
        line = pattern.sub(instead, line)
    return line.strip()


def first_not_printed(shown: tuple[str, ...], printed: str) -> str:
    """Return the first line of a page that was not printed where the page says so; empty if there is none.

    A line follows the one before it, unless the page has a gap between them. Cases may end in any order. On a busy machine times cannot be decided:
    where the page has ``PASS``, or a verdict of ``ab``, an undecided one may have been printed, and then reasons follow that the page does not have.
    """
    lines = [mask(line) for line in printed.splitlines()]
    place, may_skip = 0, False
    for wanted in shown:
        if wanted.strip() == GAP:
            may_skip = True
            continue
        if _NEEDS_TIMES.search(mask(wanted)) and any(map(_UNDECIDED.match, lines[place:])):
            return ""
        if mask(wanted).startswith("[#/#]") and mask(wanted) in lines:
            continue
        if mask(wanted) not in (lines[place:] if may_skip else lines[place : place + 1]):
            return wanted
        place, may_skip = lines.index(mask(wanted), place) + 1, False
    return ""
