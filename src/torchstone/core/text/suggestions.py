"""Suggestions for misspelt words: the known words that one may have been meant for."""

from __future__ import annotations

from collections.abc import Iterable


def find_similar(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known words that are spelt most like this one, best first; none if no word is close."""
    from difflib import get_close_matches  # noqa: PLC0415  (only for error messages)

    return get_close_matches(word, list(known), n=most)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The question whether a known word was meant, to be put before other advice; empty if no word is close.

    >>> did_you_mean("performence", ["performance", "accuracy"])
    "did you mean 'performance'? "
    >>> did_you_mean("speed", ["performance", "accuracy"])
    ''
    """
    return ask_whether_meant(*find_similar(word, known))


def ask_whether_meant(word: str = "") -> str:
    """The question whether this was meant; empty where there is nothing to ask about."""
    return f"did you mean '{word}'? " if word else ""
