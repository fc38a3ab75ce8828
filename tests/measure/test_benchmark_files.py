"""Where the benchmark files of two sides come from: their own, those of the other side, or those of the working tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.errors import InputError
from torchstone.measure.ab.benchmark_files import Borrowed, SideFolder, find_in_revisions, give_files
from torchstone.measure.ab.side_spec import SideSpec
from torchstone.measure.ab.worktrees import Worktree

Given = list[tuple[dict[str, BenchmarkSource], list[Borrowed]]]


def git(folder: Path, *arguments: str) -> None:
    """Runs git in a folder, as somebody."""
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True)


class Places:
    """A repository and two worktrees of it, in each of which the file may or may not be."""

    def __init__(self, folder: Path) -> None:
        self.root, self.a, self.b = (folder / name for name in ("root", "a", "b"))
        self.scratch = folder / "scratch"
        for each in (self.root, self.a, self.b):
            each.mkdir()

    def write(self, *places: Path, name: str = "benches/bench_it.py") -> None:
        for place in places:
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# of {place.name}\n")

    def give(self, bench_from: str = "", *, b_is_worktree: bool = False) -> Given:
        path = str(self.root / "benches" / "bench_it.py")
        trees = [Worktree(str(each), str(self.root), "c") for each in (self.a, self.b)]
        sides = [
            SideFolder("A", SideSpec(revision="main"), trees[0], str(self.scratch)),
            SideFolder(
                "B",
                SideSpec(revision="" if b_is_worktree else "HEAD"),
                None if b_is_worktree else trees[1],
                str(self.scratch),
            ),
        ]
        return give_files({"bench_it": BenchmarkSource("file", "bench_it", path)}, sides, bench_from)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def texts(given: Given) -> list[str]:
    """What is in the file of each side."""
    return [Path(sources["bench_it"].path).read_text().split()[-1] for sources, _ in given]


def origins(given: Given) -> list[list[str]]:
    return [[each.origin for each in borrowed] for _, borrowed in given]


def test_each_side_uses_its_own_file_if_both_have_one(places: Places) -> None:
    places.write(places.root, places.a, places.b)
    given = places.give()
    assert texts(given) == ["a", "b"]
    assert origins(given) == [[], []]


@pytest.mark.parametrize("here", [True, False])
def test_a_side_that_lacks_a_file_takes_that_of_the_other(places: Places, *, here: bool) -> None:
    places.write(places.b, *([places.root] if here else []))
    given = places.give()
    assert texts(given) == ["b", "b"]
    assert given[0][1] == [Borrowed("benches/bench_it.py", "B (rev=HEAD)")]
    assert given[1][1] == []
    assert given[0][0]["bench_it"].path == str(places.a / "benches" / "bench_it.py")
    assert given[0][0]["bench_it"].hash == given[1][0]["bench_it"].hash != ""


def test_a_file_that_no_revision_has_is_taken_from_the_working_tree(places: Places) -> None:
    places.write(places.root)
    given = places.give()
    assert texts(given) == ["root", "root"]
    assert origins(given) == [["the working tree"], ["the working tree"]]


def test_a_revision_takes_the_file_of_the_working_tree_it_is_compared_with(places: Places) -> None:
    places.write(places.root)
    given = places.give(b_is_worktree=True)
    assert texts(given) == ["root", "root"]
    assert origins(given) == [["the working tree"], []]


def test_a_file_that_the_working_tree_lacks_is_not_written_there(places: Places) -> None:
    places.write(places.a)
    given = places.give(b_is_worktree=True)
    assert texts(given) == ["a", "a"]
    assert origins(given) == [[], ["A (rev=main)"]]
    assert list(places.root.rglob("*")) == []
    assert given[1][0]["bench_it"].path.startswith(str(places.scratch))


@pytest.mark.parametrize(
    ("bench_from", "text", "told"),
    [
        ("a", "a", [[], ["A (rev=main)"]]),
        ("b", "b", [["B (rev=HEAD)"], []]),
        ("worktree", "root", [["the working tree"], ["the working tree"]]),
    ],
)
def test_both_sides_use_the_file_that_is_asked_for(
    places: Places, bench_from: str, text: str, told: list[list[str]]
) -> None:
    places.write(places.root, places.a, places.b)
    given = places.give(bench_from)
    assert texts(given) == [text, text]
    assert origins(given) == told
    assert (places.root / "benches" / "bench_it.py").read_text() == "# of root\n"


def test_a_place_without_the_file_is_refused_with_the_places_that_have_it(places: Places) -> None:
    places.write(places.root, places.b)
    with pytest.raises(InputError) as raised:
        places.give("a")
    assert "--bench-from a: this file is not there" in str(raised.value)
    assert "it is in: b, worktree" in str(raised.value)


def test_a_file_that_nobody_has_is_refused(places: Places) -> None:
    with pytest.raises(InputError, match=r"neither A \(rev=main\) nor B \(rev=HEAD\) has this file"):
        places.give()


def test_a_file_outside_the_repository_is_the_same_for_both_sides(places: Places, tmp_path: Path) -> None:
    outside = BenchmarkSource("file", "bench_it", str(tmp_path / "bench_it.py"), "abc")
    tree = Worktree(str(places.a), str(places.root), "c")
    sides = [SideFolder(name, SideSpec(revision="main"), tree, "") for name in "AB"]
    assert give_files({"bench_it": outside}, sides, "a") == [({"bench_it": outside}, [])] * 2


def test_nothing_is_written_through_a_link_that_leaves_the_worktree(places: Places, tmp_path: Path) -> None:
    places.write(places.root)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.symlink(elsewhere, places.a / "benches")
    with pytest.raises(InputError, match="its folder is a link that leaves the repository"):
        places.give()
    assert list(elsewhere.iterdir()) == []


def test_a_link_in_a_worktree_is_replaced_and_not_followed(places: Places, tmp_path: Path) -> None:
    places.write(places.root, places.b)
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    (places.a / "benches").mkdir()
    os.symlink(precious, places.a / "benches" / "bench_it.py")
    assert texts(places.give("worktree")) == ["root", "root"]
    assert precious.read_text() == "keep me"


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A repository, which is the working folder; the function commits a file and removes it again."""
    git(tmp_path, "init", "--quiet")
    monkeypatch.chdir(tmp_path)

    def add(name: str) -> None:
        (tmp_path / name).write_text("")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "-m", name)
        (tmp_path / name).unlink()

    return add


def test_files_are_found_in_the_revisions_of_the_sides(commit: Callable[[str], None]) -> None:
    commit("bench_old.py")
    specs = (SideSpec(revision="HEAD"), SideSpec())
    assert find_in_revisions(["bench_old.py::steps", "smoke"], specs) == {"bench_old.py"}
    assert find_in_revisions(["bench_old.py"], (SideSpec(), SideSpec())) == frozenset()
    with pytest.raises(InputError, match="no such file, neither in the working tree nor in HEAD"):
        find_in_revisions(["bench_none.py"], specs)
