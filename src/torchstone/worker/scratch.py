"""Scratch folders for the temporary files of one command; a later command removes them if the owner was killed.

A folder belongs to the processes that hold the lock on a file in it: the parent, and the keeper, which inherits
the parent's lock. The kernel releases the lock when the last of them is gone, so a reused process id cannot be
mistaken for the owner. The folder's name identifies the machine that created it: in a TMPDIR that several
machines share, folders of the others are left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile

PREFIX = "torchstone-scratch"
OWNER = "torchstone-owner"
_TRIES = 100


class Scratch:
    """A scratch folder, and the lock that makes it ours."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self.lock = lock

    def remove(self) -> None:
        """Remove the folder, and release its lock; may be called again."""
        if self.lock >= 0:
            remove_scratch(self.path)
            os.close(self.lock)
            self.lock = -1


def machine_tag() -> str:
    """Return a tag that distinguishes this machine from others that may share its folder for temporary files."""
    return _tag(socket.gethostname())


@functools.cache
def _tag(host: str) -> str:
    known = _read("/etc/machine-id") or _read("/proc/sys/kernel/random/boot_id")
    return hashlib.sha256(f"{host}\n{known}".encode()).hexdigest()[:8]


def make_scratch() -> Scratch:
    """Create a scratch folder and lock it."""
    base = tempfile.gettempdir()
    for _ in range(_TRIES):
        path = os.path.join(base, f"{PREFIX}-{machine_tag()}-{secrets.token_hex(6)}")
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.mkdir(path, 0o700)
            lock = _lock(os.path.join(path, OWNER), os.O_CREAT | os.O_EXCL)
            if lock is not None:
                os.write(lock, f"{os.getpid()}\n".encode())
                return Scratch(path, lock)
    raise FileExistsError(f"cannot create a folder for temporary files in {base}")


def sweep() -> None:
    """Remove the scratch folders of this user and machine that belong to no living process."""
    base = tempfile.gettempdir()
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(base)
    for name in names:
        if is_ours(name):
            with contextlib.suppress(OSError):
                _sweep_one(os.path.join(base, name))


def is_ours(name: str) -> bool:
    """Return whether a name starts with that of a scratch folder created on this machine."""
    return re.match(rf"{PREFIX}-{machine_tag()}-[0-9a-f]{{12}}(?![0-9a-f])", name) is not None


def _sweep_one(path: str) -> None:
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    if not os.listdir(path):  # not locked yet: if its creator is alive, it creates another
        os.rmdir(path)
        return
    lock = lock_abandoned(path)
    if lock is not None:
        remove_scratch(path)
        os.close(lock)


def lock_abandoned(path: str) -> int | None:
    """Lock a folder whose owner is gone; None if the owner is alive, or this is not a scratch folder."""
    try:
        return _lock(os.path.join(path, OWNER), 0)
    except OSError:
        return None


def _lock(path: str, flags: int) -> int | None:
    """Lock a file, unless another process has; None if it is gone. Without support for locks, only a new file counts as locked."""
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_there = os.path.samestat(os.fstat(handle), os.lstat(path))
    except (BlockingIOError, FileNotFoundError):
        is_there = False
    except OSError:
        is_there = bool(flags)
    if is_there:
        return handle
    os.close(handle)
    return None


def remove_scratch(path: str) -> None:
    """Remove a scratch folder, its lock file last: the process that does this may be killed too."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                _remove_worktree_entry(entry.path)
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != OWNER:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
        if os.listdir(path) == [OWNER]:
            os.unlink(os.path.join(path, OWNER))
        os.rmdir(path)


def _remove_worktree_entry(worktree: str) -> None:
    """If a folder is a git worktree that we created, remove its entry from the repository, and nothing else."""
    head, _, place = _read(os.path.join(worktree, ".git")).partition(": ")
    entry = os.path.normpath(os.path.join(worktree, place))
    if head != "gitdir" or os.path.basename(os.path.dirname(entry)) != "worktrees":
        return
    if is_ours(os.path.basename(entry)) and os.path.realpath(worktree_of(entry)) == os.path.realpath(
        worktree
    ):
        remove_entry(entry)


def worktree_of(entry: str) -> str:
    """Return the worktree folder of a repository's entry; empty if the entry does not name it."""
    place = _read(os.path.join(entry, "gitdir"))
    return os.path.dirname(os.path.normpath(os.path.join(entry, place))) if place else ""


def remove_entry(entry: str) -> None:
    """Remove a repository's entry for one worktree, as git does."""
    shutil.rmtree(entry, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(entry))  # git removes it with the last entry


def _read(path: str) -> str:
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        return file.read(10_000).strip()
    return ""
