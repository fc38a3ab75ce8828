"""HTML and SVG elements that are safe by default: text becomes markup only here, and only escaped.

A name or message may contain anything. What a browser would take for a tag is escaped; what it would not show, or would let reorder
the text around it (control characters, marks for writing from right to left), is spelled out: ``\\u202e``.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape as escape_tags

from torchstone.core.text.safe_text import clean_log, escape_lines

_VOID = frozenset({"br", "circle", "input", "line", "link", "meta", "path", "rect"})


class Markup(str):
    """Text that is markup already, and is not escaped again."""

    __slots__ = ()


Child = str | Markup | None | Iterable["str | Markup | None"]
Attribute = str | int | float | bool | None

NOTHING = Markup("")


def escape(text: str) -> Markup:
    """Text as markup: it shows as it is, whatever is in it."""
    return text if isinstance(text, Markup) else Markup(escape_tags(escape_lines(text), quote=False))


def _escape_attribute(text: str) -> str:
    return escape_tags(escape_lines(text))


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """One element. ``class_`` stands for class, and ``_`` inside a name for ``-``; None and False leave an attribute out.

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
    """Several pieces, one after the other; those that are not there are left out."""
    pieces = (piece for child in children if (piece := _render(child)))
    return Markup(escape(separator).join(pieces))


def _render(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, str):
        return escape(child)
    return "".join(escape(part) for part in child if part is not None)


def _text_of(value: str | float) -> str:
    """An attribute's value; numbers as short as a picture needs them."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def long_text(text: str, limit: int) -> Markup:
    """Text of at most so many characters: where it is longer, its middle is left out, and that is said."""
    text = clean_log(text).strip("\n")
    if len(text) <= limit:
        return escape(text)
    head, tail = limit // 3, limit - limit // 3
    note = f"\n[... {len(text) - limit:,} characters left out here ...]\n"
    return join(text[:head], element("b", note, class_="cut"), text[-tail:])
