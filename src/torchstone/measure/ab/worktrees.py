"""Check out revisions as worktrees, and remove these again, including those left by killed commands.

No other worktrees are touched.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time
from collections.abc import Iterator

from msgspec import Struct

from torchstone.core.errors import UsageError
from torchstone.measure.code.git import ask_git
from torchstone.measure.executors.protocol import OutOfTimeError
from torchstone.worker.process_tree import ignoring_interrupts
from torchstone.worker.scratch import (
    Scratch,
    is_ours,
    lock_abandoned,
    remove_entry,
    remove_scratch,
    worktree_of,
)

GIT_TIMEOUT = 300.0
_LEFT_ALONE = 24 * 3600.0
"""Seconds before an entry with a missing folder is removed: the folder may be inside a container."""


class Worktree(Struct, frozen=True):
    """A git worktree: its path, its repository, and its commit."""

    path: str
    root: str
    commit: str

    def place(self, path: str) -> str:
        """Return the corresponding path in this worktree, if the path is in the repository; else the path itself."""
        real = os.path.realpath(path)
        if real != self.root and not real.startswith(self.root + os.sep):
            return path
        return os.path.normpath(os.path.join(self.path, os.path.relpath(real, self.root)))


def find_commit(revision: str) -> tuple[str, str]:
    """Return the repository around the working folder, and the commit of a revision."""
    root = ask_git(["rev-parse", "--show-toplevel"]).out.strip()
    if not root:
        raise UsageError(f"rev={revision}: this folder is not in a git repository")
    root = os.path.realpath(root)
    commit = ask_git(["rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"], root).out.strip()
    if not commit:
        raise UsageError(
            f"rev={revision}: {root} has no such revision", advice="list the revisions: 'git log'"
        )
    return root, commit


def worktree_name(scratch: str, commit: str) -> str:
    """Return the folder of a worktree in a scratch folder. Git gives its entry in the repository the same name, which identifies it."""
    return os.path.join(os.path.realpath(scratch), f"{os.path.basename(scratch)}-{commit[:12]}")


@contextlib.contextmanager
def check_out(revision: str, scratch: Scratch, deadline: float = math.inf) -> Iterator[Worktree]:
    """Check out a revision of the repository around the working folder as a worktree; remove it afterwards.

    Raise OutOfTimeError if that takes longer than ``deadline``, on the monotonic clock.
    """
    root, commit = find_commit(revision)
    path = worktree_name(scratch.path, commit)
    try:
        # git inherits the lock: if this process is killed, git still writes there.
        timeout = max(0.0, min(GIT_TIMEOUT, deadline - time.monotonic()))
        made = ask_git(["worktree", "add", "--detach", path, commit], root, timeout, keep=(scratch.lock,))
        if made.code != 0:
            if time.monotonic() >= deadline:
                raise OutOfTimeError(f"rev={revision}: checking it out takes too long")
            is_partial = "promisor remote" in made.err
            advice = (
                f"files are missing in this partial clone; fetch them first: git archive {commit} >/dev/null"
            )
            problem = f"rev={revision}: git cannot check it out: {made.err.strip()}"
            raise UsageError(problem, advice=advice if is_partial else "")
        yield Worktree(path, root, commit)
    finally:
        remove_worktree(root, path)


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
