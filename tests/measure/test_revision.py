from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from torchstone.core.records import Revision
from torchstone.measure.code.revision import read_revision


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    git(tmp_path, "init", "--quiet", "--initial-branch=work")
    (tmp_path / "a.py").write_text("one\n")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message=one")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout.strip()


def test_commit_and_branch_are_told(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert read_revision(str(repository), "nightly") == Revision(commit, "work", dirty=False, label="nightly")


def test_a_changed_file_is_dirty_and_an_unknown_one_is_not(repository: Path) -> None:
    (repository / "notes.txt").write_text("x")
    assert read_revision(str(repository)).dirty is False
    (repository / "a.py").write_text("two\n")
    assert read_revision(str(repository)).dirty is True


def test_a_folder_below_belongs_to_the_repository(repository: Path) -> None:
    (repository / "below").mkdir()
    assert read_revision(str(repository / "below")).branch == "work"


def test_a_detached_head_has_no_branch(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "--detach")
    found = read_revision(str(repository))
    assert found.commit
    assert found.branch == ""


def test_a_repository_without_a_commit_has_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=work")
    assert read_revision(str(tmp_path)) == Revision("", "work", dirty=False)


def test_without_git_or_a_repository_only_the_label_is_left(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_revision("/proc", "mine") == Revision(label="mine")
    assert read_revision(str(tmp_path / "nowhere")) == Revision()
    monkeypatch.setenv("PATH", "/nowhere")
    assert read_revision(str(repository)) == Revision()
