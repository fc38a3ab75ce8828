"""Record which compile artifacts and warm caches this machine made; loading others may execute anything.

Each is recorded by the hash of its content in torchstone's own folder. Records are neither in a run file nor
beside the artifacts, where the author of those could forge them. Standard library only.
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
    """Record that these artifacts were made here; if that fails, they are treated like any others."""
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.close(os.open(_mark(folder, content), os.O_CREAT | os.O_WRONLY, 0o600))


def is_made_here(folder: str, content: bytes) -> bool:
    """Return whether these artifacts were made here, according to a folder only this user can write to."""
    return _is_private(folder) and os.path.isfile(_mark(folder, content))


def make_cache(path: str, folder: str) -> None:
    """Create a folder for a warm cache, and record that it was made here; an existing one stays as it is.

    The folder contains a random token, whose hash is recorded elsewhere: a cache unpacked in its place has
    another token.
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
    """Return whether a warm cache was created here, in this place, and only this user can write to it."""
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
