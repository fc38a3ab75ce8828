"""Asking git, without running what a repository brings along: hooks, file-system monitors, filters of its own configuration, diff programs.

Filters that the user or the system has configured (Git LFS as ``git lfs install`` sets it up) still work, and so does Git LFS where it is
set up in the usual way for one repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from torchstone.measure.asking import Answer, ask

_OFF = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "submodule.recurse=false",
)
_LFS = {
    "filter.lfs.clean": {"git-lfs clean -- %f"},
    "filter.lfs.smudge": {"git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"},
    "filter.lfs.process": {"git-lfs filter-process", "git-lfs filter-process --skip"},
    "filter.lfs.required": {"true"},
}
_OF_THE_REPOSITORY = {"local", "worktree"}


def ask_git(
    arguments: Sequence[str], folder: str = "", timeout: float = 5.0, keep: Sequence[int] = ()
) -> Answer:
    """What git answers in a folder, by default the working folder. Never raises, and runs no program of the repository's.

    ``keep`` are the file descriptors that git inherits.
    """
    git = ["git", *(word for setting in _OFF for word in ("-c", setting)), "-C", folder or "."]
    return ask([*git, *arguments], timeout, git_config=list(_without_filters(git)), keep=keep)


def _without_filters(git: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Settings that put filters of the repository's own configuration back to what the user or the system says, mostly nothing."""
    told = ask([*git, "config", "--show-scope", "--null", "--get-regexp", r"^filter\."])
    fields = told.out.split("\0")
    elsewhere: dict[str, str] = {}
    own: dict[str, None] = {}
    for scope, setting in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        if scope not in _OF_THE_REPOSITORY:
            elsewhere[key] = value
        elif value not in _LFS.get(key, ()):
            own[key] = None
    for key in own:
        yield key, elsewhere.get(key, "false" if key.endswith(".required") else "")
