"""Which files differ between two sides' code: between commits of a real repository, and the files as they lie there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from torchstone.measure.ab.changed_files import Changes, find_changes


def git(folder: Path, *arguments: str) -> str:
    """Runs git in a folder, as somebody."""
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    ran = subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def commits(tmp_path: Path) -> tuple[str, str]:
    """Two commits that differ in one file, below a folder with a name that has to be quoted."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "kept.py").write_text("same")
    (tmp_path / "größer folder").mkdir()
    made = []
    for text in ("one", "two"):
        (tmp_path / "größer folder" / "code.py").write_text(text)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "-m", text)
        made.append(git(tmp_path, "rev-parse", "HEAD"))
    return made[0], made[1]


def test_the_files_in_which_two_commits_differ_are_found(tmp_path: Path, commits: tuple[str, str]) -> None:
    changes = find_changes(str(tmp_path), *commits)
    assert changes == Changes(frozenset({"größer folder/code.py"}))
    assert changes.caution(["kept.py", "größer folder/code.py"]) is None
    assert str(changes.caution(["kept.py"])).startswith(
        "the one file in which A and B differ was not imported (größer folder/code.py)"
    )


@pytest.mark.parametrize("turned", [False, True])
def test_modules_as_they_lie_there_may_be_new(tmp_path: Path, commits: tuple[str, str], turned: bool) -> None:
    (tmp_path / "kept.py").write_text("edited")
    for name in ("new.py", "a-run-of-mine.jsonl"):
        (tmp_path / name).write_text("new")
    sides = ("", commits[1]) if turned else (commits[1], "")
    changes = find_changes(str(tmp_path), *sides)
    assert changes == Changes(frozenset({"kept.py", "new.py"}))
    assert str(changes.caution([])).startswith(
        "none of the 2 files in which A and B differ was imported (kept.py, new.py)"
    )


def test_a_file_of_benchmarks_is_imported_in_any_case_and_says_nothing_about_others() -> None:
    changes = Changes(frozenset({"bench_it.py", "code.py"}), frozenset({"bench_it.py", "bench_other.py"}))
    assert "(code.py)" in str(changes.caution(["bench_it.py"]))
    assert changes.caution(["code.py"]) is None
    assert Changes(frozenset({"bench_it.py"}), frozenset({"bench_it.py"})).caution(["bench_it.py"]) is None


def test_nothing_is_said_where_nothing_is_known(tmp_path: Path, commits: tuple[str, str]) -> None:
    assert find_changes(str(tmp_path), commits[0], commits[0]).caution([]) is None
    assert find_changes(str(tmp_path), commits[0], "0" * 40).caution([]) is None
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "nothing")
    empty = git(tmp_path, "rev-parse", "HEAD")
    told = "no file differs between A and B"
    assert str(find_changes(str(tmp_path), commits[1], empty).caution(["kept.py"])) == told
    assert find_changes(str(tmp_path), commits[1], empty, are_all=False).caution(["kept.py"]) is None
