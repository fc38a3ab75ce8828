"""Run git without executing anything that a repository configures: hooks, file system monitors, filters, diff programs.

Nothing is fetched either, because a partial clone would use a program from its own configuration. Filters of the user's or
the system's configuration still work (such as Git LFS after ``git lfs install``), and so does Git LFS with its usual settings in one
repository.
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
_RUNS_NO_FILTER = {"rev-parse", "rev-list", "merge-base", "cat-file"}
_OLDEST = (2, 31)  # the first that reads settings from variables; --show-scope is from 2.26
_UNKNOWN_OPTION = 129
TOO_OLD = "git {}.{} or newer is needed, to turn off filters of the repository's own configuration".format(
    *_OLDEST
)


def ask_git(
    arguments: Sequence[str],
    folder: str = "",
    timeout: float = 5.0,
    keep: Sequence[int] = (),
    given: str = "",
) -> Answer:
    """Run git in a folder, by default the working folder. Never raises, and executes no program of the repository.

    ``keep`` are file descriptors that git inherits, ``given`` is what it reads from its standard input.
    """
    git = ["git", *(word for setting in _OFF for word in ("-c", setting)), "-C", folder or "."]
    if arguments[0] in _RUNS_NO_FILTER:
        return ask([*git, *arguments], timeout, given, keep=keep)
    answer = ask([*git, "config", "--show-scope", "--null", "--get-regexp", r"^filter\."])
    settings = list(_without_filters(answer.out))
    if answer.code == _UNKNOWN_OPTION or (settings and _is_too_old()):
        return Answer(None, "", TOO_OLD)
    if answer.code not in {0, 1}:  # 1: there are no filters
        return answer
    return ask([*git, *arguments], timeout, given, git_config=settings, keep=keep)


def _is_too_old() -> bool:
    """Return whether git cannot read settings from variables."""
    version = re.search(r"(\d+)\.(\d+)", ask(["git", "version"]).out)
    return version is None or (int(version[1]), int(version[2])) < _OLDEST


def _without_filters(answer: str) -> Iterator[tuple[str, str]]:
    """Yield settings that reset the repository's own filters to the user's or the system's values, usually none."""
    fields = answer.split("\0")
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
