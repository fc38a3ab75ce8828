"""The commits between two revisions are listed; what prevents that is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from torchstone.measure.code.commit_list import list_commits
from torchstone.worker.machine.external_programs import ask

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Runs git in a new repository, and returns what it prints."""

    def run(*arguments: str) -> str:
        people = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
        answer = ask(["git", *people, "-C", str(tmp_path), *arguments])
        assert answer.code == 0, answer.err
        return answer.out.strip()

    run("init", "-q", "-b", "main")
    return run


def commit(git: Git, folder: Path, subject: str, *files: str) -> str:
    for name in files:
        (folder / name).write_text(f"{subject}\n")
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", subject)
    return git("rev-parse", "HEAD")


def test_commits_are_listed_newest_first_with_author_subject_and_files(git: Git, tmp_path: Path) -> None:
    first = commit(git, tmp_path, "begin", "a")
    second = commit(git, tmp_path, "make it faster", "a", "b", "c")
    third = commit(git, tmp_path, 'say "why" | <how>')
    found = list_commits(str(tmp_path), first, third[:10])
    assert [(each.name, each.author, each.subject, each.files) for each in found.commits] == [
        (third, "Ada", 'say "why" | <how>', None),
        (second, "Ada", "make it faster", 3),
    ]
    assert found.commits[0].date[:2] == "20"
    assert (found.total, found.problem, found.note) == (2, "", "")


def test_a_merge_says_how_many_files_it_brought(git: Git, tmp_path: Path) -> None:
    first = commit(git, tmp_path, "begin", "a")
    git("switch", "-q", "-c", "side")
    commit(git, tmp_path, "aside", "b", "c")
    git("switch", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "merge side", "side")
    found = list_commits(str(tmp_path), first, "main")
    assert {each.subject: each.files for each in found.commits} == {"merge side": 2, "aside": 2}


def test_of_many_commits_the_newest_are_listed_and_all_are_counted(git: Git, tmp_path: Path) -> None:
    first = commit(git, tmp_path, "begin", "a")
    last = [commit(git, tmp_path, f"step {number}", "a") for number in range(5)][-1]
    found = list_commits(str(tmp_path), first, last, most=2)
    assert [each.subject for each in found.commits] == ["step 4", "step 3"]
    assert found.total == 5


def test_no_repository_is_no_error(tmp_path: Path) -> None:
    found = list_commits(str(tmp_path), "a" * 40, "b" * 40)
    assert found.problem == f"{tmp_path} is in no git repository"
    assert "in no git repository" in list_commits(str(tmp_path / "missing"), "a" * 40, "b" * 40).problem


def test_an_unknown_revision_is_named(git: Git, tmp_path: Path) -> None:
    first = commit(git, tmp_path, "begin", "a")
    found = list_commits(str(tmp_path), first, "b" * 40)
    assert "does not know bbbbbbbbbbbb" in found.problem
    assert not found.commits


def test_labels_are_no_commits(git: Git, tmp_path: Path) -> None:
    first = commit(git, tmp_path, "begin", "a")
    assert list_commits(str(tmp_path), first, "").problem == "the revision is no commit"
    assert list_commits(str(tmp_path), "", "").problem == "the revisions are no commits"


def test_one_commit_has_no_commits_between(git: Git, tmp_path: Path) -> None:
    first = commit(git, tmp_path, "begin", "a")
    assert list_commits(str(tmp_path), first, first).problem == "both runs are of one commit"


def test_a_rewritten_history_is_said(git: Git, tmp_path: Path) -> None:
    base = commit(git, tmp_path, "begin", "a")
    lost = commit(git, tmp_path, "to be rewritten", "b")
    git("reset", "-q", "--hard", base)
    kept = commit(git, tmp_path, "rewritten", "b")
    found = list_commits(str(tmp_path), lost, kept)
    assert [each.subject for each in found.commits] == ["rewritten"]
    assert f"{lost[:12]} is no ancestor of {kept[:12]}" in found.note
    assert f"both come from {base[:12]}" in found.note
    assert "1 commit is only in the older revision" in found.note


def test_nothing_that_a_repository_configures_is_executed(git: Git, tmp_path: Path) -> None:
    first = commit(git, tmp_path, "begin", "a")
    last = commit(git, tmp_path, "change", "a")
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch '{tmp_path}/sprung'\n")
    os.chmod(trap, 0o700)
    for setting in ("diff.external", "core.fsmonitor", "gpg.program", "core.pager", "diff.x.textconv"):
        git("config", setting, str(trap))
    git("config", "log.showSignature", "true")
    (tmp_path / ".git" / "info" / "attributes").write_text("* diff=x\n")
    assert list_commits(str(tmp_path), first, last).total == 1
    assert not (tmp_path / "sprung").exists()
