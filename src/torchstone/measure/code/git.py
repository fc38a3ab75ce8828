"""Asking git, without running what a repository brings along: hooks, file-system monitors, filters of its own configuration, diff programs.

Nothing is fetched either: a partial clone would do so by a program that its own configuration names.
Filters that the user or the system has configured (Git LFS as ``git lfs install`` sets it up) still work, and so does Git LFS where it is
set up in the usual way for one repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from torchstone.worker.machine.external_programs import Answer, ask

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
_RUNS_NO_FILTER = {"rev-parse"}
_OLDEST = (2, 31)  # the first that takes settings from variables; --show-scope is from 2.26
_UNKNOWN_OPTION = 129
TOO_OLD = "git {}.{} or newer is needed: this one cannot turn off the filters that the repository's own configuration defines".format(
    *_OLDEST
)


def ask_git(
    arguments: Sequence[str], folder: str = "", timeout: float = 5.0, keep: Sequence[int] = ()
) -> Answer:
    """What git answers in a folder, by default the working folder. Never raises, and runs no program of the repository's.

    ``keep`` are the file descriptors that git inherits.
    """
    git = ["git", *(word for setting in _OFF for word in ("-c", setting)), "-C", folder or "."]
    if arguments[0] in _RUNS_NO_FILTER:
        return ask([*git, *arguments], timeout, keep=keep)
    told = ask([*git, "config", "--show-scope", "--null", "--get-regexp", r"^filter\."])
    settings = list(_without_filters(told.out))
    if told.code == _UNKNOWN_OPTION or (settings and _is_too_old()):
        return Answer(None, "", TOO_OLD)
    if told.code not in {0, 1}:  # 1: there are no filters
        return told
    return ask([*git, *arguments], timeout, git_config=settings, keep=keep)


def _is_too_old() -> bool:
    """Whether git takes no settings from variables."""
    version = re.search(r"(\d+)\.(\d+)", ask(["git", "version"]).out)
    return version is None or (int(version[1]), int(version[2])) < _OLDEST


def _without_filters(told: str) -> Iterator[tuple[str, str]]:
    """Settings that put filters of the repository's own configuration back to what the user or the system says, mostly nothing."""
    fields = told.split("\0")
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
