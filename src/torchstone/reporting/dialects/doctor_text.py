"""Render the doctor's findings as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from torchstone.core.text.units import count_of
from torchstone.reporting.dialects.text_page import TextPage

_COLORS = {"problem": "red", "note": "yellow", "ok": "green"}
_OK = "ok"
_INDENT = " " * 9


class FindingView(Protocol):
    """A finding: its level, what was found, why it matters, and what to do about it."""

    @property
    def level(self) -> str:
        """Return problem, note or ok."""

    @property
    def what(self) -> str:
        """Return the finding."""

    @property
    def why(self) -> str:
        """Return why it matters."""

    @property
    def advice(self) -> str:
        """Return what to do about it."""


def render_findings(findings: Sequence[FindingView], page: TextPage) -> str:
    """Render the number of findings of each level, then the findings, worst first."""
    lines = [page.paint(_headline(findings), "bold")]
    for level in _COLORS:
        chosen = [finding for finding in findings if finding.level == level]
        if chosen and level == _OK:
            lines.append("")
        for finding in chosen:
            lines += _lines(finding, page)
    return page.finish(lines)


def _headline(findings: Sequence[FindingView]) -> str:
    found = {level: sum(finding.level == level for finding in findings) for level in _COLORS}
    parts = [count_of(found[level], level) for level in _COLORS if found[level] and level != _OK]
    return ", ".join([*parts, f"{found[_OK]} ok"])


def _lines(finding: FindingView, page: TextPage) -> Iterator[str]:
    level = finding.level
    if level != _OK:
        yield ""
    first, *more = page.wrap(finding.what, _INDENT, _INDENT)
    yield page.paint(f"{level:<8}", _COLORS[level]) + " " + first[len(_INDENT) :]
    yield from more
    yield from page.wrap(finding.why, f"{_INDENT}  why  ", f"{_INDENT}       ") if finding.why else ()
    yield from page.wrap(finding.advice, f"{_INDENT}  do   ", f"{_INDENT}       ") if finding.advice else ()
