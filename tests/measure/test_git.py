"""Git is asked without running what a repository brings along: hooks, monitors, filters and diff programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchstone.core.errors import UsageError
from torchstone.measure.ab.changed_files import find_changes
from torchstone.measure.ab.worktrees import check_out
from torchstone.measure.code.revision import read_revision
from torchstone.worker.scratch import Scratch, make_scratch

HOOKS = ("post-checkout", "post-index-change", "reference-transaction", "pre-commit", "post-merge")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Repository:
    """A repository that runs a program wherever git can be made to; each program leaves a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self.traces = folder / "traces"
        self.traces.mkdir()
        self.folder.mkdir()
        git(self.folder, "init", "-q", "-b", "main")
        for number in range(2):
            (self.folder / "model.py").write_text(f"version = {number}\n")
            git(self.folder, "add", ".")
            git(self.folder, "commit", "-q", "-m", f"version {number}")

    def trap(self, name: str) -> str:
        """A command that leaves a file, and then passes its input on."""
        return f"touch '{self.traces / name}'; cat"

    def arm(self) -> None:
        for name in HOOKS:
            hook = self.folder / ".git" / "hooks" / name
            hook.write_text(f"#!/bin/sh\ntouch '{self.traces / name}'\n")
            hook.chmod(0o755)
        monitor = self.folder.parent / "monitor"
        monitor.write_text(f"#!/bin/sh\ntouch '{self.traces}/fsmonitor'\n")
        monitor.chmod(0o755)
        git(self.folder, "config", "core.fsmonitor", str(monitor))
        git(self.folder, "config", "diff.external", self.trap("diff"))
        for driver in ("evil", "a=b", "dotted.name"):
            git(self.folder, "config", f"filter.{driver}.smudge", self.trap(f"smudge-{driver}"))
            git(self.folder, "config", f"filter.{driver}.clean", self.trap(f"clean-{driver}"))
            git(self.folder, "config", f"filter.{driver}.required", "true")
        attributes = self.folder / ".git" / "info" / "attributes"
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text("*.py filter=evil\n*.txt filter=a=b\n*.md filter=dotted.name\n")

    @property
    def ran(self) -> list[str]:
        return sorted(each.name for each in self.traces.iterdir())


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path)
    monkeypatch.chdir(made.folder)
    return made


def test_the_traps_work_where_nothing_is_done_about_them(repository: Repository) -> None:
    repository.arm()
    git(repository.folder, "worktree", "add", "--detach", "../plain", "HEAD~1")
    git(repository.folder, "status")
    assert {"post-checkout", "smudge-evil", "fsmonitor"} <= set(repository.ran)


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    made = make_scratch()
    yield made
    made.remove()


def test_no_program_of_a_repository_runs(repository: Repository, tmp_path: Path, scratch: Scratch) -> None:
    for name in ("a.txt", "b.md"):
        (repository.folder / name).write_text("text\n")
    git(repository.folder, "add", ".")
    git(repository.folder, "commit", "-q", "-m", "more files")
    repository.arm()
    (repository.folder / "model.py").write_text("version = 2\n")
    with check_out("HEAD", scratch) as tree:
        assert Path(tree.path, "model.py").read_text() == "version = 1\n"
        assert Path(tree.path, "a.txt").read_text() == "text\n"
        assert Path(tree.path, "b.md").read_text() == "text\n"
    assert read_revision(str(repository.folder)).dirty is True
    head = git(repository.folder, "-c", "core.fsmonitor=false", "rev-parse", "HEAD")
    assert find_changes(str(repository.folder), f"{head}~2", head).files == frozenset(
        {"a.txt", "b.md", "model.py"}
    )
    assert find_changes(str(repository.folder), head, "").files == frozenset({"model.py"})
    assert repository.ran == []


def test_a_filter_of_the_user_still_works(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scratch: Scratch
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text('[filter "lfs"]\n\tsmudge = sed s/version/fetched/\n\tclean = cat\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    repository.arm()
    git(repository.folder, "config", "filter.lfs.smudge", repository.trap("smudge-lfs"))
    (repository.folder / ".git" / "info" / "attributes").write_text("*.py filter=lfs\n")
    with check_out("main", scratch) as tree:
        assert Path(tree.path, "model.py").read_text() == "fetched = 1\n"
    assert repository.ran == []


def test_lfs_set_up_for_one_repository_still_works(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scratch: Scratch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "git-lfs"
    program.write_text('#!/bin/sh\n[ "$1" = smudge ] && exec sed s/version/fetched/\nexec cat\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    git(repository.folder, "config", "filter.lfs.smudge", "git-lfs smudge -- %f")
    git(repository.folder, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    (repository.folder / ".git" / "info" / "attributes").write_text("*.py filter=lfs\n")
    with check_out("main", scratch) as tree:
        assert Path(tree.path, "model.py").read_text() == "fetched = 1\n"


def test_settings_that_a_job_gives_to_git_in_variables_stay(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scratch: Scratch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.abbrev")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "7")
    repository.arm()
    with check_out("HEAD", scratch) as tree:
        assert os.path.exists(tree.path)
    assert repository.ran == []


def test_a_partial_clone_fetches_nothing(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scratch: Scratch
) -> None:
    git(repository.folder, "config", "uploadpack.allowFilter", "true")
    clone = ("clone", "-q", "--filter=blob:none", f"file://{repository.folder}", "partial")
    git(tmp_path, *clone)
    partial = tmp_path / "partial"
    git(partial, "config", "remote.origin.uploadpack", f"touch '{repository.traces}/fetch'; git-upload-pack")
    monkeypatch.chdir(partial)
    with check_out("HEAD", scratch) as tree:  # its files are there
        assert Path(tree.path, "model.py").read_text() == "version = 1\n"
    with pytest.raises(UsageError, match="could not fetch") as refused, check_out("HEAD~1", scratch):
        pass
    assert repository.ran == []
    command = refused.value.advice.partition("first: ")[2]
    subprocess.run(["sh", "-c", command], check=True)
    assert repository.ran == ["fetch"]
    with check_out("HEAD~1", scratch) as tree:
        assert Path(tree.path, "model.py").read_text() == "version = 0\n"


@pytest.mark.parametrize(("version", "has_scope"), [("2.25.1", False), ("2.30.2", True)])
def test_a_git_that_cannot_turn_filters_off_is_refused(
    version: str,
    has_scope: bool,
    repository: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scratch: Scratch,
) -> None:
    """An older git: it does not know --show-scope, or takes no settings from variables."""
    repository.arm()
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "git"
    scope = "" if has_scope else 'case "$*" in *--show-scope*) exit 129;; esac\n'
    program.write_text(
        f'#!/bin/sh\n[ "$1" = version ] && echo git version {version} && exit\n{scope}unset GIT_CONFIG_COUNT\nexec {shutil.which("git")} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(UsageError, match=r"git 2\.31 or newer is needed"), check_out("HEAD~1", scratch):
        pass
    revision = read_revision(str(repository.folder))
    assert revision.commit
    assert revision.dirty is None
    assert repository.ran == []


@pytest.mark.slow
def test_ab_of_two_revisions_runs_no_hook(repository: Repository) -> None:
    bench = "import torchstone\n\n@torchstone.benchmark(modes=['inference'])\ndef tiny():\n    import torch\n    return torch.nn.Linear(2, 2), (torch.ones(1, 2),)\n"
    (repository.folder / "bench_tiny.py").write_text(bench)
    git(repository.folder, "add", ".")
    git(repository.folder, "commit", "-q", "-m", "a benchmark")
    repository.arm()
    command = [sys.executable, "-m", "torchstone", "ab", "bench_tiny.py", "--a", "rev=HEAD", "--b", "rev=HEAD", "--margin", "50%", "--alpha", "20%", "--backend", "eager"]  # fmt: skip
    done = subprocess.run(
        command, cwd=repository.folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert repository.ran == []
