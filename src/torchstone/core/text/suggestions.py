"""Suggest the known words closest to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable


def find_similar(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the known words with the most similar spelling, best first; none if no word is close."""
    from difflib import get_close_matches  # noqa: PLC0415  (only for error messages)

    return get_close_matches(word, list(known), n=most)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "did you mean ...?" to put before other advice; empty if no known word is close.

    >>> did_you_mean("performence", ["performance", "accuracy"])
    "did you mean 'performance'? "
    >>> did_you_mean("speed", ["performance", "accuracy"])
    ''
    """
    return ask_whether_meant(*find_similar(word, known))


def ask_whether_meant(word: str = "") -> str:
    """Return the question; empty if there is no word."""
    return f"did you mean '{word}'? " if word else ""
