r"""Build HTML and SVG elements; text becomes markup only here, and always escaped.

Names and messages may contain anything. Tags are escaped; control characters and bidirectional marks, which a
browser would hide or use to reorder text, are written as ``\u202e``.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape as escape_tags

from torchstone.core.text.safe_text import clean_log, escape_lines

_VOID = frozenset({"br", "circle", "input", "line", "link", "meta", "path", "rect"})


class Markup(str):
    """Text that is already markup, and is not escaped again."""

    __slots__ = ()


Child = str | Markup | None | Iterable["str | Markup | None"]
Attribute = str | int | float | bool | None

NOTHING = Markup("")


def escape(text: str) -> Markup:
    """Escape text."""
    return text if isinstance(text, Markup) else Markup(escape_tags(escape_lines(text), quote=False))


def _escape_attribute(text: str) -> str:
    return escape_tags(escape_lines(text))


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """Build an element. ``class_`` means class, ``_`` in a name ``-``; None and False omit an attribute.

    >>> element("a", "<b>", href="#x", data_n=1)
    '<a href="#x" data-n="1">&lt;b&gt;</a>'
    """
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        written = name.rstrip("_").replace("_", "-")
        parts.append(f" {written}" if value is True else f' {written}="{_escape_attribute(_text_of(value))}"')
    if tag in _VOID:
        return Markup("".join([*parts, "/>"]))
    return Markup("".join([*parts, ">", *map(_render, children), f"</{tag}>"]))


def join(*children: Child, separator: str = "") -> Markup:
    """Join pieces; None is skipped."""
    pieces = (piece for child in children if (piece := _render(child)))
    return Markup(escape(separator).join(pieces))


def _render(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, str):
        return escape(child)
    return "".join(escape(part) for part in child if part is not None)


def _text_of(value: str | float) -> str:
    """Format an attribute's value; numbers are rounded for pictures."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def long_text(text: str, limit: int) -> Markup:
    """Escape text of at most this many characters; the middle of a longer one is left out, with a note."""
    text = clean_log(text).strip("\n")
    if len(text) <= limit:
        return escape(text)
    head, tail = limit // 3, limit - limit // 3
    note = f"\n[... {len(text) - limit:,} characters left out here ...]\n"
    return join(text[:head], element("b", note, class_="cut"), text[-tail:])


def term_list(words: dict[str, str]) -> list[Markup]:
    """Return terms with their meanings, for a ``dl`` element."""
    return [element("div", element("dt", word), element("dd", meaning)) for word, meaning in words.items()]
