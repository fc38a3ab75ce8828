"""Where commits stand in the history of a git repository: their full names, and their heights.

The height of a commit is one more than the greatest height of its parents, so an ancestor is always lower than its descendants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torchstone.measure.code.git import ask_git

_WALK_WITHIN = 120.0  # seconds: a history of a million commits takes about ten
_MOST_KNOWN = 200
_FULL = 40


def resolve_commits(folder: str, names: Sequence[str]) -> dict[str, str]:
    """Return the full names of commits, tags and branches; those that the repository does not know are left out."""
    if not names:
        return {}
    asked = "".join(f"{name}^{{commit}}\n" for name in names)
    answer = ask_git(
        ["cat-file", "--batch-check=%(objectname) %(objecttype)"], folder, _WALK_WITHIN, given=asked
    )
    if answer.code != 0:
        return {}
    lines = answer.out.splitlines()
    if len(lines) != len(names):
        return {}
    return {
        name: line.split()[0]
        for name, line in zip(names, lines, strict=True)
        if line.endswith(" commit") and len(line.split()[0]) >= _FULL
    }


def has_history(folder: str) -> bool:
    """Return whether a folder is in a repository with its whole history; a shallow clone does not know how high a commit stands."""
    answer = ask_git(["rev-parse", "--is-shallow-repository"], folder)
    return answer.code == 0 and answer.out.strip() == "false"


def is_in_repository(folder: str) -> bool:
    """Return whether a folder is in a git repository."""
    return ask_git(["rev-parse", "--git-dir"], folder).code == 0


def find_heights(folder: str, commits: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return the heights of commits, given by their full names. ``known`` are heights of other commits, which shorten the search.

    The result also has the known commits that are in the repository.
    """
    newest = sorted(known, key=known.__getitem__)[-_MOST_KNOWN:]
    present = resolve_commits(folder, list(dict.fromkeys((*newest, *commits))))
    here = {each: known[each] for each in newest if each in present}
    wanted = [each for each in present if each not in here]
    if not wanted:
        return here
    found = _walk(folder, wanted, here) if here else {}
    if not all(each in found for each in wanted):
        found = _walk(folder, wanted, {})
    return here | {each: found[each] for each in wanted if each in found}


_MAIN = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Names of the main branch, the likeliest first."""


def find_merge_base(folder: str, commit: str) -> str:
    """Return the commit where a branch left the main branch: on the main branch, the commit itself; empty if it is not known."""
    known = resolve_commits(folder, [commit, *_MAIN])
    main = next((known[name] for name in _MAIN if name in known), "")
    if not main or commit not in known:
        return ""
    answer = ask_git(["merge-base", known[commit], main], folder, _WALK_WITHIN)
    return answer.out.strip() if answer.code == 0 else ""


def list_ancestors(folder: str, commit: str) -> set[str]:
    """Return a commit and all its ancestors."""
    answer = ask_git(["rev-list", commit], folder, _WALK_WITHIN)
    return set(answer.out.split()) if answer.code == 0 else set()


def _walk(folder: str, commits: Sequence[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return the heights of commits and their ancestors down to known commits; empty if these do not suffice."""
    asked = "".join(f"{each}\n" for each in (*commits, *(f"^{each}" for each in known)))
    command = ["rev-list", "--topo-order", "--reverse", "--parents", "--stdin"]
    answer = ask_git(command, folder, _WALK_WITHIN, given=asked)
    if answer.code != 0:
        return {}
    heights = dict(known)
    for line in answer.out.splitlines():
        commit, *parents = line.split()
        lower = [heights.get(parent) for parent in parents]
        if None in lower:  # a parent below a known commit: its own height is not known
            return {}
        heights[commit] = 1 + max((each for each in lower if each is not None), default=0)
    return heights
