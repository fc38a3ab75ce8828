"""List the commits between two revisions: what may have caused a change between them."""

from __future__ import annotations

import re

from msgspec import Struct

from torchstone.measure.code.ancestry import is_in_repository, resolve_commits
from torchstone.measure.code.git import ask_git

MOST_LISTED = 200
_WITHIN = 60.0  # seconds
_FORMAT = "--format=%x1e%H%x1f%an%x1f%cI%x1f%s"
_QUIETLY = ("--no-color", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-mailmap")
_FILES = re.compile(r"(\d+) files? changed")
_SHORT = 12


class Commit(Struct, frozen=True):
    """One commit. ``date`` is when it was committed, ``files`` the number of files that it touches; None if git cannot tell."""

    name: str
    author: str
    date: str
    subject: str
    files: int | None = None


class CommitList(Struct, frozen=True):
    """The commits after one revision, up to another, newest first. ``problem`` says why there are none, ``note`` what is odd about them.

    ``total`` is the number of all, which may be more than are listed.
    """

    commits: tuple[Commit, ...] = ()
    total: int = 0
    problem: str = ""
    note: str = ""


def list_commits(repository: str, after: str, until: str, most: int = MOST_LISTED) -> CommitList:
    """Return the commits that ``until`` has and ``after`` has not. A missing repository or an unknown revision is no error: the result says so."""
    where = repository or "the current folder"
    if not is_in_repository(repository):
        return CommitList(problem=f"{where} is in no git repository")
    if not after or not until:
        return CommitList(
            problem="the revision is no commit" if after or until else "the revisions are no commits"
        )
    known = resolve_commits(repository, [after, until])
    if unknown := [each for each in (after, until) if each not in known]:
        names = " and ".join(each[:_SHORT] for each in unknown)
        return CommitList(problem=f"the repository of {where} does not know {names}; git fetch may help")
    if known[after] == known[until]:
        return CommitList(problem="both runs are of one commit")
    return _list(repository, known[after], known[until], most)


def _list(repository: str, after: str, until: str, most: int) -> CommitList:
    between = f"{after}..{until}"
    counted = ask_git(["rev-list", "--count", between], repository, _WITHIN)
    if counted.code != 0:
        return CommitList(
            problem=f"git cannot list {after[:_SHORT]}..{until[:_SHORT]}: {counted.err.strip()}"
        )
    command = ["log", *_QUIETLY, _FORMAT, f"--max-count={most}", "--topo-order"]
    answer = ask_git(
        [*command, "--shortstat", "--diff-merges=first-parent", between, "--"], repository, _WITHIN
    )
    if answer.code != 0:  # a partial clone has no files to compare
        answer = ask_git([*command, between, "--"], repository, _WITHIN)
    if answer.code != 0:
        return CommitList(problem=f"git log failed: {answer.err.strip() or 'no reason given'}")
    commits = tuple(_parse(block) for block in answer.out.split("\x1e")[1:])
    return CommitList(commits, int(counted.out), note=_say_if_rewritten(repository, after, until))


def _parse(block: str) -> Commit:
    line, _, rest = block.partition("\n")
    name, author, date, subject = line.split("\x1f", 3)
    files = _FILES.search(rest)
    return Commit(name, author, date, subject, int(files[1]) if files else None)


def _say_if_rewritten(repository: str, after: str, until: str) -> str:
    """Return what to know if the older revision is no ancestor of the newer one."""
    lost = ask_git(["rev-list", "--count", f"{until}..{after}"], repository, _WITHIN)
    if lost.code != 0 or not lost.out.strip().isdecimal() or int(lost.out) == 0:
        return ""
    shared = ask_git(["merge-base", after, until], repository, _WITHIN)
    came_from = (
        "they share no history" if shared.code != 0 else f"both come from {shared.out.strip()[:_SHORT]}"
    )
    commits = "commit is" if int(lost.out) == 1 else "commits are"
    return (
        f"{after[:_SHORT]} is no ancestor of {until[:_SHORT]}: the history was rewritten, or these are two branches"
        f" ({came_from}); {int(lost.out):,} {commits} only in the older revision"
    )
