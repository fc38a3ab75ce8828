"""Shorten names so that they stay distinct: the part that distinguishes a name is never cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_TAILS = (1 / 2, 3 / 4, 1, 1 / 4)
"""Shares of the width that the end of a name may take, in the order they are tried; with 1, only the end is left."""


def shorten_names(names: Iterable[str], width: int) -> dict[str, str]:
    """Return each name, cut in the middle if it is longer than ``width``. A name that would then equal another one stays whole.

    >>> shorten_names(["short", "a_very_long_name_one", "a_very_long_name_two"], 12)
    {'short': 'short', 'a_very_long_name_one': 'a_ver…me_one', 'a_very_long_name_two': 'a_ver…me_two'}
    """
    shown = {name: name for name in names}
    long = [name for name in shown if len(name) > width]
    for share in _TAILS:
        tried = {name: _cut(name, width, round(share * (width - 1))) for name in long}
        counts = Counter(tried.values())
        for name, text in tried.items():
            if counts[text] == 1 and text not in shown:
                shown[name] = text
        long = [name for name in long if shown[name] == name]
    return shown


def _cut(name: str, width: int, tail: int) -> str:
    head = width - 1 - tail
    return f"{name[:head]}…{name[len(name) - tail :]}"
