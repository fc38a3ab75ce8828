"""Compile artifacts that this machine made: a mark for each in torchstone's own folder, by the hash of its content. Loading others may execute anything.

Standard library only. The marks lie neither in a run file nor beside the artifacts, where whoever made those could have put them, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def note_made(folder: str, content: bytes) -> None:
    """Remember that these artifacts were made here; where that cannot be written down, they are like any others."""
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.close(os.open(_mark(folder, content), os.O_CREAT | os.O_WRONLY, 0o600))


def is_made_here(folder: str, content: bytes) -> bool:
    """Whether these artifacts were made here, according to a folder that nobody else can write to."""
    try:
        owner = os.stat(folder)
    except OSError:
        return False
    if owner.st_uid != os.getuid() or owner.st_mode & _OTHERS_MAY_WRITE:
        return False
    return os.path.isfile(_mark(folder, content))


def _mark(folder: str, content: bytes) -> str:
    return os.path.join(folder, hashlib.sha256(content).hexdigest())
