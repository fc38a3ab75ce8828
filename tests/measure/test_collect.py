"""What the targets of a command line mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchstone.errors import TorchstoneError
from torchstone.measure.collect import hash_file, resolve_targets


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in (
        "bench_a.py",
        "below/bench_b.py",
        "below/helper.py",
        ".hidden/bench_c.py",
        "venv/lib/bench_d.py",
        "__pycache__/bench_e.py",
        "twin/bench_a.py",
        "smoke.py",
        "notes.txt",
        "empty/bench.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("targets", "suites", "names"),
    [
        (["smoke"], ["smoke"], ()),
        (["bench_a.py"], ["bench_a"], ()),
        (["below"], ["bench_b"], ()),
        (["below/helper.py"], ["helper"], ()),
        (["smoke", "bench_a.py", "bench_a.py"], ["smoke", "bench_a"], ()),
        (["bench_a.py::m(width=4)"], ["bench_a"], ("bench_a::m(width=4)",)),
        (["below::m", "smoke"], ["bench_b", "smoke"], ("bench_b::m", "smoke::*")),
    ],
)
def test_targets_are_suites_files_and_folders(
    targets: list[str], suites: list[str], names: tuple[str, ...]
) -> None:
    resolved = resolve_targets(targets)
    assert list(resolved.sources) == suites
    assert resolved.names == names


def test_a_folder_is_searched_but_not_what_is_hidden_or_installed_there(folder: Path) -> None:
    (folder / "twin" / "bench_a.py").unlink()
    assert list(resolve_targets(["."]).sources) == ["bench_a", "bench_b"]


def test_a_files_path_is_absolute_so_that_it_is_found_from_anywhere(folder: Path) -> None:
    source = resolve_targets(["bench_a.py"]).sources["bench_a"]
    path = folder / "bench_a.py"
    assert source == {"kind": "file", "name": "bench_a", "path": str(path), "hash": hash_file(str(path))}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["smok"], "there is no suite, file or folder 'smok'\n  did you mean 'smoke'?"),
        (["gone.py"], "gone.py: no such file"),
        (["./gone"], "./gone: no such file"),
        (["./notes.txt"], "./notes.txt: expected a Python file with benchmarks in it"),
        (["./smoke.py"], "./smoke.py would be a second suite smoke"),
        (["bench_a.py", "twin/bench_a.py"], "would both be the suite bench_a\n  rename one of the two files"),
        (["."], "would both be the suite bench_a"),
        (["empty"], "empty: there is no bench_*.py in this folder"),
        ([""], "there is no suite, file or folder ''"),
    ],
)
def test_targets_that_mean_nothing_or_two_things_are_refused(targets: list[str], message: str) -> None:
    with pytest.raises(TorchstoneError) as raised:
        resolve_targets(targets)
    assert message in str(raised.value)
