"""Heights of commits in a real repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from torchstone.measure.code.ancestry import find_heights, has_history, resolve_commits


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository: A - B - D (merge of C, which left at A) - E."""

    def git(*arguments: str) -> None:
        who = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for name in "AB":
        git("commit", "-q", "--allow-empty", "-m", name)
        git("tag", name)
    git("checkout", "-q", "-b", "side", "A")
    git("commit", "-q", "--allow-empty", "-m", "C")
    git("tag", "C")
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "D", "side")
    git("tag", "D")
    git("commit", "-q", "--allow-empty", "-m", "E")
    git("tag", "E")
    return tmp_path


def test_an_ancestor_is_lower_than_its_descendants(repository: Path) -> None:
    named = resolve_commits(str(repository), ["A", "B", "C", "D", "E", "no-such", "f" * 40])
    assert sorted(named) == ["A", "B", "C", "D", "E"]
    heights = find_heights(str(repository), named.values(), {})
    assert [heights[named[name]] for name in "ABCDE"] == [1, 2, 2, 3, 4]


def test_known_heights_shorten_the_search_and_change_no_answer(repository: Path) -> None:
    named = resolve_commits(str(repository), list("ABCDE"))
    whole = find_heights(str(repository), named.values(), {})
    for known in ("A", "D", "BC", "C", "E"):
        given = {named[name]: whole[named[name]] for name in known} | {"f" * 40: 7}
        found = find_heights(str(repository), named.values(), given)
        assert found == whole


def test_a_folder_without_a_repository_has_no_history(tmp_path: Path) -> None:
    assert not has_history(str(tmp_path))
    assert resolve_commits(str(tmp_path), ["HEAD"]) == {}
