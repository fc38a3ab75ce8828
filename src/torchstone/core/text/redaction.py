"""Hide credentials in text: in URLs, and in environment variables that are not known to be harmless.

Standard library only, because workers use it. It is applied where text enters a record or an error message,
so files, reports and terminals never see the original.
"""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "(hidden)"
"""Recorded in place of a hidden value; two hidden values may differ."""

MASK = "***"

_OLD_HIDDEN = "(set)"  # what earlier versions recorded
_DEEPEST = 100
# Patterns are text, because most texts need none of them: re compiles a pattern on first use, and keeps it.
_HALF_A_WORD = rb"\S{0,4096}(?=\s)"

# The user part of a URL: up to the last @ before the path; or, behind "user:", up to the last @ at all, for passwords are not always escaped.
_USER_INFO = r"""(?ix)
        (?<=[a-z0-9])(:\\?/\\?/)                         # behind a scheme; JSON may have escaped the slashes
        (?: [^\s/?\#@:"<>]{0,500} : (?!\d+(?:[/?\#]|$))   # a user and a password (a port is none)
            [^\s"<>]{0,2000} @
          | [^\s/?\#"<>]{1,2000} @ )                      # a user or a token alone"""
_HIDDEN_PARAMETER = r"""(?ix)
        ([?&;\#](?:amp;)?
         (?: [\w.%-]{0,60}(?:token|secret|passw(?:or)?d|passphrase|pwd|signature|credential|api[-_]?key|access[-_]?key)[\w.%-]{0,60}
           | auth | authorization | sig | key | jwt | pass )
         =)[^\s&;\#"'<>]+"""


def redact(text: str) -> str:
    """Mask the credentials of all URLs in a text.

    >>> redact("pip install --index-url https://me:geheim@example.com/simple")
    'pip install --index-url https://***@example.com/simple'
    >>> redact("GET https://example.com/a?user=me&access_token=abc&x=1")
    'GET https://example.com/a?user=me&access_token=***&x=1'
    """
    if "@" in text and ("://" in text or ":\\/" in text):
        text = re.sub(_USER_INFO, rf"\1{MASK}@", text)
    if "=" in text and ("?" in text or "&" in text or "#" in text):
        text = re.sub(_HIDDEN_PARAMETER, rf"\1{MASK}", text)
    return text


def redact_values(value: Any, depth: int = 0) -> Any:  # noqa: ANN401  (whatever JSON can hold)
    """Redact every text in a value, including the keys of objects."""
    if isinstance(value, str):
        return redact(value)
    if depth > _DEEPEST:
        return value  # deeper values cannot be written to a file anyway
    if isinstance(value, dict):
        return {
            redact(key) if isinstance(key, str) else key: redact_values(each, depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(redact_values(each, depth + 1) for each in value)
    return value


def without_half_a_word(tail: bytes) -> bytes:
    """Drop a partial first word: half of a URL would not be recognised as one."""
    half = re.match(_HALF_A_WORD, tail)
    return tail[half.end() :] if half else tail


def is_hidden(value: object) -> bool:
    """Return whether this is the placeholder of a hidden value."""
    return value in (HIDDEN, _OLD_HIDDEN)


def was_redacted(value: object) -> bool:
    """Return whether something in the text was masked."""
    return isinstance(value, str) and (f"://{MASK}@" in value or f"={MASK}" in value)
