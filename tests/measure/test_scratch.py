"""Scratch folders of the dead are removed, those of the living and of others are not; the same for worktrees."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from live_processes import wait_until
from torchstone.measure.ab.worktrees import remove_worktree, sweep_worktrees, worktree_name
from torchstone.worker.scratch import OWNER, make_scratch, remove_scratch, sweep


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


OWNING = """
import os, sys
from torchstone.worker.scratch import make_scratch
made = make_scratch()
os.makedirs(os.path.join(made.path, "case-1", "tmp"))
print(made.path, flush=True)
if "fork" in sys.argv and os.fork():
    os._exit(0)
sys.stdin.read()
"""


def start_owner(temporary: Path, *arguments: str) -> tuple[subprocess.Popen[str], Path]:
    """A process that has a scratch folder, until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNING, *arguments],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


@pytest.fixture
def left_behind(temporary: Path) -> Path:
    """The folder of a process that was killed."""
    process, path = start_owner(temporary)
    with process:
        process.kill()
    assert path.is_dir()
    return path


def test_the_folder_of_a_killed_process_is_removed_by_the_next_start_and_that_of_a_living_one_is_not(
    temporary: Path, left_behind: Path
) -> None:
    process, alive = start_owner(temporary)
    ours = make_scratch()
    with process:
        sweep()
        assert sorted(map(str, temporary.iterdir())) == sorted([str(alive), ours.path])
        process.kill()
    ours.remove()
    sweep()
    assert not list(temporary.iterdir())
    assert not left_behind.exists()


def test_a_folder_lives_as_long_as_any_process_that_has_inherited_its_lock(temporary: Path) -> None:
    process, path = start_owner(temporary, "fork")

    def is_swept() -> bool:
        sweep()
        return not path.exists()

    with process:
        assert process.wait() == 0
        sweep()
        assert path.is_dir()
        process.communicate()  # until the last process is gone
    wait_until(is_swept, "its folder is still there")
    assert not path.exists()


def test_what_is_not_ours_is_left_alone(
    temporary: Path, left_behind: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / OWNER).write_text("")
    name = left_behind.name
    (temporary / f"{name[:-12]}000000000000").symlink_to(precious)
    (temporary / f"{name[:-12]}000000000001").mkdir()
    (temporary / f"{name[:-12]}000000000001" / "without-owner").write_text("precious")
    (temporary / f"{name}0").mkdir()
    (temporary / "torchstone-results").mkdir()
    (left_behind / "link").symlink_to(precious)
    (left_behind / "case-1" / "link").symlink_to(precious)
    with monkeypatch.context() as other:  # as root would see it
        other.setattr(os, "geteuid", lambda: os.getuid() + 1)
        sweep()
    with monkeypatch.context() as other:  # from another machine, with the same folder for temporary files
        other.setattr(socket, "gethostname", lambda: "elsewhere")
        sweep()
    assert left_behind.exists()
    before = {path.name for path in temporary.iterdir()} - {name}
    sweep()
    assert {path.name for path in temporary.iterdir()} == before
    assert os.listdir(precious) == [OWNER]


def test_a_folder_that_was_being_made_or_removed_when_its_owner_was_killed_is_removed(
    temporary: Path, left_behind: Path
) -> None:
    for number, names in enumerate([(), (OWNER,), (OWNER, "keeper.log")]):
        folder = temporary / f"{left_behind.name[:-12]}{number:012}"
        folder.mkdir()
        for name in names:
            (folder / name).write_text("")
    sweep()
    assert not list(temporary.iterdir())


def test_a_folder_that_is_swept_before_it_is_locked_is_made_anew(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts at the same time sees an empty folder, or one whose owner has not locked it yet."""
    mkdir, flock = os.mkdir, fcntl.flock
    swept: list[str] = []

    def mkdir_and_be_swept(path: str, mode: int) -> None:
        mkdir(path, mode)
        if not swept:
            swept.append(path)
            sweep()

    def be_swept_and_flock(handle: int, kind: int) -> None:
        if len(swept) == 1:
            swept.append("")
            sweep()
        flock(handle, kind)

    monkeypatch.setattr(os, "mkdir", mkdir_and_be_swept)
    monkeypatch.setattr(fcntl, "flock", be_swept_and_flock)
    made = make_scratch()
    assert len(swept) == 2
    assert os.listdir(temporary) == [os.path.basename(made.path)]
    sweep()
    assert os.path.isdir(made.path)
    made.remove()
    made.remove()
    assert not list(temporary.iterdir())


def test_what_says_whose_a_folder_is_goes_last(left_behind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # as if it could not be removed
        remove_scratch(str(left_behind))
    assert sorted(os.listdir(left_behind)) == ["case-1", OWNER]
    sweep()
    assert not left_behind.exists()


def git(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Path]:
    """A repository with a worktree of its owner's, of which the folder is not there at the moment."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    git(folder, *who, "commit", "--quiet", "--allow-empty", "-m", "one")
    git(folder, "worktree", "add", "--detach", str(tmp_path / "theirs"))
    (tmp_path / "theirs").rename(tmp_path / "unplugged")
    yield folder
    assert os.listdir(folder / ".git" / "worktrees") == ["theirs"]


def add_worktree(repository: Path, folder: Path) -> Path:
    path = Path(worktree_name(str(folder), git(repository, "rev-parse", "HEAD")))
    git(repository, "worktree", "add", "--detach", str(path))
    return path


def test_the_worktree_of_a_killed_command_goes_with_its_folder_and_no_other(
    repository: Path, left_behind: Path
) -> None:
    add_worktree(repository, left_behind)
    assert len(os.listdir(repository / ".git" / "worktrees")) == 2
    sweep()
    assert not left_behind.exists()


def test_a_worktree_in_another_temporary_folder_is_removed_by_the_next_command_in_its_repository(
    repository: Path, left_behind: Path, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_worktree(repository, left_behind)
    process, alive = start_owner(temporary)
    with process:
        add_worktree(repository, alive)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "another"))
        sweep()
        sweep_worktrees(str(repository))
        assert not left_behind.exists()
        assert len(git(repository, "worktree", "list").splitlines()) == 3
        process.send_signal(signal.SIGKILL)
    sweep_worktrees(str(repository))
    assert not alive.exists()


def test_what_is_left_of_a_worktree_whose_folder_is_gone_is_removed_after_a_day(
    repository: Path, left_behind: Path
) -> None:
    path = add_worktree(repository, left_behind)
    entry = repository / ".git" / "worktrees" / path.name
    left_behind.rename(left_behind.with_name("gone"))
    sweep_worktrees(str(repository))
    assert entry.is_dir()
    yesterday = time.time() - 25 * 3600
    os.utime(entry, (yesterday, yesterday))
    sweep_worktrees(str(repository))
    assert not entry.exists()


@pytest.mark.parametrize("lacks", ["", ".git", "gitdir"])
def test_a_worktree_that_git_was_killed_while_making_is_removed(
    repository: Path, left_behind: Path, lacks: str
) -> None:
    path = add_worktree(repository, left_behind)
    entry = repository / ".git" / "worktrees" / path.name
    (entry / "locked").write_text("initializing")
    for file in (path / ".git", entry / "gitdir"):
        if file.name == lacks:
            file.unlink()
    remove_worktree(str(repository), str(path))
    assert not path.exists()
    sweep()
