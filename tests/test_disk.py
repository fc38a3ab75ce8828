"""Files are written whole or not at all, and whoever is killed meanwhile leaves nothing beside them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torchstone.core import disk
from torchstone.core.disk import create_whole, write_text

KILLED = """
import os, sys
from torchstone.core import disk
fsync = os.fsync
os.fsync = lambda handle: fsync(handle) or os.kill(os.getpid(), 9)  # when all is on disk, and nothing has its name yet
path = sys.argv[2]
disk.write_text(path, "new") if sys.argv[1] == "write" else disk.create_whole(path, b"new")
"""


@pytest.mark.parametrize("how", ["write", "create"])
def test_whoever_is_killed_while_writing_leaves_nothing(how: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if how == "write":
        path.write_text("old")
    ran = subprocess.run([sys.executable, "-c", KILLED, how, str(path)], check=False)
    assert ran.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == (["file"] if how == "write" else [])
    assert how != "write" or path.read_text() == "old"


@pytest.mark.parametrize("has_unnamed", [True, False])
def test_a_file_is_replaced_with_its_permissions_or_created_for_the_first_time(
    has_unnamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_unnamed:
        monkeypatch.setattr(disk, "_open_unnamed", lambda _: None)
    path = tmp_path / "file"
    write_text(str(path), "new")
    path.chmod(0o640)
    write_text(str(path), "newer")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("newer", 0o640)
    with pytest.raises(FileExistsError):
        create_whole(str(path), b"other")
    modes: list[int] = []
    handle = create_whole(
        str(tmp_path / "second"), b"text", lambda handle: modes.append(os.fstat(handle).st_size)
    )
    assert os.pread(handle, 100, 0) == b"text"
    assert modes == [0]  # before anything was written
    os.close(handle)
    assert sorted(os.listdir(tmp_path)) == ["file", "second"]
