"""Scratch folders: for one command's temporary files, and removed by a later command if its owner was killed.

A folder belongs to whoever holds the lock on a file in it: the parent, and the keeper, which gets the parent's lock along with its other descriptors. The kernel
releases a lock when the last process that has it is gone, so no process number can be mistaken for another one's. The folder's name says which machine made it:
folders of others, in a TMPDIR that several machines share, are left alone.
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
    """A folder of ours, and the lock that says so."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self.lock = lock

    def remove(self) -> None:
        """Remove the folder, and let go of its lock; doing so again changes nothing."""
        if self.lock >= 0:
            remove_scratch(self.path)
            os.close(self.lock)
            self.lock = -1


def machine_tag() -> str:
    """What tells this machine from others that may use the same folder for temporary files."""
    return _tag(socket.gethostname())


@functools.cache
def _tag(host: str) -> str:
    known = _read("/etc/machine-id") or _read("/proc/sys/kernel/random/boot_id")
    return hashlib.sha256(f"{host}\n{known}".encode()).hexdigest()[:8]


def make_scratch() -> Scratch:
    """A new folder that is ours."""
    base = tempfile.gettempdir()
    for _ in range(_TRIES):
        path = os.path.join(base, f"{PREFIX}-{machine_tag()}-{secrets.token_hex(6)}")
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.mkdir(path, 0o700)
            lock = _take(os.path.join(path, OWNER), os.O_CREAT | os.O_EXCL)
            if lock is not None:
                os.write(lock, f"{os.getpid()}\n".encode())
                return Scratch(path, lock)
    raise FileExistsError(f"no folder for temporary files can be made in {base}")


def sweep() -> None:
    """Remove the scratch folders of this user, made on this machine, that belong to no living process."""
    base = tempfile.gettempdir()
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(base)
    for name in names:
        if is_ours(name):
            with contextlib.suppress(OSError):
                _sweep_one(os.path.join(base, name))


def is_ours(name: str) -> bool:
    """Whether a folder's name, or one that begins with it, was given by ``make_scratch`` on this machine."""
    return re.match(rf"{PREFIX}-{machine_tag()}-[0-9a-f]{{12}}(?![0-9a-f])", name) is not None


def _sweep_one(path: str) -> None:
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    if not os.listdir(path):  # whoever made it had no time to lock it; if it is alive, it makes another
        os.rmdir(path)
        return
    lock = take_dead(path)
    if lock is not None:
        remove_scratch(path)
        os.close(lock)


def take_dead(path: str) -> int | None:
    """The lock of a folder whose owner is gone; None if it is alive, or if this is no scratch folder."""
    try:
        return _take(os.path.join(path, OWNER), 0)
    except OSError:
        return None


def _take(path: str, flags: int) -> int | None:
    """The lock on a file, if nobody else has it and the file is still there; where files cannot be locked, only a new one is taken."""
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
    """Remove a scratch folder: what says whose it is goes last, for whoever does this may be killed, too."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                _leave_repository(entry.path)
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != OWNER:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
        if os.listdir(path) == [OWNER]:
            os.unlink(os.path.join(path, OWNER))
        os.rmdir(path)


def _leave_repository(worktree: str) -> None:
    """If a folder is a git worktree that we made, remove what its repository keeps about it: nothing but its own entry."""
    head, _, place = _read(os.path.join(worktree, ".git")).partition(": ")
    entry = os.path.normpath(os.path.join(worktree, place))
    if head != "gitdir" or os.path.basename(os.path.dirname(entry)) != "worktrees":
        return
    if is_ours(os.path.basename(entry)) and os.path.realpath(worktree_of(entry)) == os.path.realpath(
        worktree
    ):
        remove_entry(entry)


def worktree_of(entry: str) -> str:
    """The folder of the worktree that a repository has this entry for; empty if it does not say."""
    place = _read(os.path.join(entry, "gitdir"))
    return os.path.dirname(os.path.normpath(os.path.join(entry, place))) if place else ""


def remove_entry(entry: str) -> None:
    """Remove what a repository keeps about one worktree, as git does."""
    shutil.rmtree(entry, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(entry))  # git removes it with the last entry


def _read(path: str) -> str:
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        return file.read(10_000).strip()
    return ""
