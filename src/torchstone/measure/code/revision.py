"""Read the revision of the code under test from git."""

from __future__ import annotations

from torchstone.core.records import Revision
from torchstone.measure.code.git import ask_git


def read_revision(folder: str, label: str = "") -> Revision:
    """Return commit, branch and whether tracked files have changes; only the label without git or a repository.

    Untracked files do not count as changes. ``dirty`` is None if git status takes longer than a few seconds.
    """
    status = [
        "--no-optional-locks",
        "status",
        "--porcelain=v2",
        "--branch",
        "--untracked-files=no",
        "--ignore-submodules=dirty",
    ]
    answer = ask_git(status, folder)
    if answer.code == 0:
        return _parse(answer.out, label)
    commit = ask_git(["rev-parse", "--verify", "HEAD"], folder)
    return Revision(commit.out.strip() if commit.code == 0 else "", label=label)


def _parse(text: str, label: str) -> Revision:
    """Parse git status: lines that start with ``#`` describe the branch, all others are changes."""
    lines = text.splitlines()
    head = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# ") and " " in line[2:])
    commit, branch = head.get("branch.oid", ""), head.get("branch.head", "")
    return Revision(
        "" if commit == "(initial)" else commit,
        "" if branch == "(detached)" else branch,
        any(not line.startswith("#") for line in lines),
        label,
    )
