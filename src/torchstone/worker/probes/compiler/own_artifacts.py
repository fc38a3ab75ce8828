"""Compile artifacts and warm caches that this machine made: a mark for each in torchstone's own folder, by the hash of its content. Loading others may execute anything.

Standard library only. The marks lie neither in a run file nor beside the artifacts, where whoever made those could have put them, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat

_OWN_MARK = "torchstone-made-here"
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def note_made(folder: str, content: bytes) -> None:
    """Remember that these artifacts were made here; where that cannot be written down, they are like any others."""
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.close(os.open(_mark(folder, content), os.O_CREAT | os.O_WRONLY, 0o600))


def is_made_here(folder: str, content: bytes) -> bool:
    """Whether these artifacts were made here, according to a folder that nobody else can write to."""
    return _is_private(folder) and os.path.isfile(_mark(folder, content))


def make_cache(path: str, folder: str) -> None:
    """Create a folder for a warm cache, and remember that it was made here; one that exists stays what it is.

    The folder holds a random token, of which only the hash is kept elsewhere: a cache that was unpacked in its place has another.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        os.mkdir(path, mode=0o700)
    except FileExistsError:
        return
    token = secrets.token_bytes(32)
    with contextlib.suppress(OSError), open(os.path.join(path, _OWN_MARK), "xb") as file:
        file.write(token)
        note_made(folder, _identity(path, token))


def is_cache_made_here(path: str, folder: str) -> bool:
    """Whether a warm cache was created here, in this place, and nobody else can write to it."""
    token = os.path.join(path, _OWN_MARK)
    if not _is_private(path) or not os.path.isfile(token):
        return False
    with open(token, "rb") as file:
        return is_made_here(folder, _identity(path, file.read(64)))


def _identity(path: str, token: bytes) -> bytes:
    return token + os.fsencode(os.path.realpath(path))


def _is_private(folder: str) -> bool:
    try:
        owner = os.stat(folder)
    except OSError:
        return False
    return owner.st_uid == os.getuid() and not owner.st_mode & _OTHERS_MAY_WRITE


def _mark(folder: str, content: bytes) -> str:
    return os.path.join(folder, hashlib.sha256(content).hexdigest())
