"""Remove worktrees that torchstone added to a repository, including those left by killed commands; no others are touched."""

from __future__ import annotations

import contextlib
import os
import shutil
import time

from torchstone.measure.code.git import ask_git
from torchstone.worker.process_tree import ignoring_interrupts
from torchstone.worker.scratch import is_ours, lock_abandoned, remove_entry, remove_scratch, worktree_of

GIT_TIMEOUT = 300.0
_LEFT_ALONE = 24 * 3600.0
"""Seconds before an entry with a missing folder is removed: the folder may be inside a container."""


def worktree_name(scratch: str, commit: str) -> str:
    """Return the folder of a worktree in a scratch folder. Git gives its entry in the repository the same name, which identifies it."""
    return os.path.join(os.path.realpath(scratch), f"{os.path.basename(scratch)}-{commit[:12]}")


def remove_worktree(root: str, path: str) -> None:
    """Remove a worktree, even one that git did not finish creating."""
    with ignoring_interrupts():
        if ask_git(["worktree", "remove", "--force", "--force", path], root, GIT_TIMEOUT).code == 0:
            return
        shutil.rmtree(path, ignore_errors=True)
        for entry in _entries(root):
            if os.path.basename(entry) == os.path.basename(path):
                remove_entry(entry)


def sweep_worktrees(folder: str) -> None:
    """Remove the worktrees of killed commands from the repository around a folder, if there is one."""
    for entry in _entries(folder):
        with contextlib.suppress(OSError):
            _sweep_entry(entry)


def _sweep_entry(entry: str) -> None:
    scratch = os.path.dirname(worktree_of(entry))
    if not scratch or not os.path.lexists(scratch):
        if time.time() - os.stat(entry).st_mtime > _LEFT_ALONE:
            remove_entry(entry)
    elif is_ours(os.path.basename(scratch)) and (lock := lock_abandoned(scratch)) is not None:
        remove_scratch(scratch)
        os.close(lock)


def _entries(folder: str) -> list[str]:
    """Return the entries of worktrees that torchstone created on this machine, in the repository around a folder."""
    answer = ask_git(["rev-parse", "--git-common-dir"], folder)
    base = os.path.join(os.path.abspath(folder), answer.out.strip(), "worktrees")
    if answer.code != 0 or not os.path.isdir(base):
        return []
    return [os.path.join(base, name) for name in os.listdir(base) if is_ours(name)]
