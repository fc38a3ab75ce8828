"""Parse values of command line options: durations, sizes, shares, lists, shards."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torchstone.core.errors import UsageError
from torchstone.core.text.suggestions import did_you_mean

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "ms": 0.001}
_BYTES = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_MOST = 1e15
_AMOUNT = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z%]*)\s*\Z")


def parse_seconds(option: str, text: str | None) -> float | None:
    """Parse a duration such as ``90``, ``90s``, ``10m`` or ``1.5h``."""
    if text is None:
        return None
    found = _AMOUNT.match(text)
    if not found or found[2].lower() not in _SECONDS or not 0 < float(found[1]) < _MOST:
        raise UsageError(f"{option} {text}: expected a duration such as 90, 90s, 10m or 1h")
    return float(found[1]) * _SECONDS[found[2].lower()]


def parse_bytes(option: str, text: str | None) -> int | None:
    """Parse a size such as ``8GB``, ``500MB`` or ``2GiB``."""
    if text is None:
        return None
    found = _AMOUNT.match(text)
    unit = found[2].lower().removesuffix("b") if found else "?"
    if not found or unit not in _BYTES or not 0 < float(found[1]) < _MOST:
        raise UsageError(f"{option} {text}: expected a size such as 8GB, 500MB or 2GiB")
    return int(float(found[1]) * _BYTES[unit])


def parse_count(option: str, text: str | None) -> int | None:
    """Parse a positive integer."""
    if text is None:
        return None
    if not _is_count(text):
        raise UsageError(f"{option} {text}: expected a whole number from 1")
    return int(text)


def parse_port(option: str, text: str | None) -> int | None:
    """Parse the number of a port; 0 stands for any that is free."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536):
        raise UsageError(f"{option} {text}: expected a number from 0 to 65535")
    return int(text)


def parse_number_from_zero(option: str, text: str | None) -> int | None:
    """Parse a whole number that may be 0."""
    if text is None:
        return None
    if text != "0" and not _is_count(text):
        raise UsageError(f"{option} {text}: expected a whole number from 0")
    return int(text)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16 and int(text) >= 1


def parse_share(option: str, text: str | None) -> float | None:
    """Parse a share such as ``1%`` or ``0.01``."""
    if text is None:
        return None
    found = _AMOUNT.match(text)
    if (
        not found
        or found[2] not in {"", "%"}
        or not 0 < (share := float(found[1]) / (100 if found[2] else 1)) < 1
    ):
        raise UsageError(f"{option} {text}: expected a share such as 1% or 0.01")
    return share


def parse_shard(text: str | None) -> tuple[int, int]:
    """Parse a shard such as ``2/4``, the second of four."""
    if text is None:
        return 1, 1
    index, _, count = text.partition("/")
    if not (_is_count(index) and _is_count(count) and int(index) <= int(count)):
        raise UsageError(f"--shard {text}: expected I/N with I from 1 to N, such as 2/4")
    return int(index), int(count)


def split_list(option: str, texts: Sequence[str], known: Sequence[str] = ()) -> tuple[str, ...]:
    """Split values that are repeated or separated by commas, drop duplicates, and raise an error for one that is not ``known``."""
    values = tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",") if part.strip()))
    for value in values:
        if known and value not in known:
            raise unknown_word(option, value, known)
    return values


def unknown_word(option: str, value: str, known: Sequence[str]) -> UsageError:
    """Return the error for a value that an option does not accept."""
    advice = did_you_mean(value, known).strip()
    return UsageError(f"{option} {value}: expected {', '.join(known)}", advice=advice)
