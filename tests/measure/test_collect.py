"""What the targets of a command line mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.errors import TorchstoneError
from torchstone.measure.targets import hash_file, resolve_targets


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
    assert source == BenchmarkSource("file", "bench_a", str(path), hash_file(str(path)))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["smok"], "no such suite, file or folder: 'smok'\n  did you mean 'smoke'?"),
        (["gone.py"], "gone.py: no such file"),
        (["./gone"], "./gone: no such file"),
        (["./notes.txt"], "./notes.txt: expected a Python file with benchmarks"),
        (["./smoke.py"], "/smoke.py: the name smoke is taken by a built-in suite\n  rename the file"),
        (["bench_a.py", "twin/bench_a.py"], "would both be the suite bench_a\n  rename one of the two files"),
        (["."], "would both be the suite bench_a"),
        (["empty"], "empty: no Python file (*.py) in this folder"),
        ([""], "no such suite, file or folder: ''"),
    ],
)
def test_targets_that_mean_nothing_or_two_things_are_refused(targets: list[str], message: str) -> None:
    with pytest.raises(TorchstoneError) as raised:
        resolve_targets(targets)
    assert message in str(raised.value)


BENCHMARK = "from benchmark_base import BenchmarkBase\n"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as PyTorch's checkout has it: the base beside the files that import it, and what is no benchmark."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "benchmarks/__init__.py": "",
        "benchmarks/add_numbers.py": BENCHMARK,
        "benchmarks/benchmark_base.py": "class BenchmarkBase: ...\n",
        "benchmarks/derived.py": "from add_numbers import BenchmarkBase\n",
        "benchmarks/own.py": "import torchstone\n",
        "benchmarks/report.py": "import csv\n",
        "benchmarks/unfinished.py": "def (\n",
        "benchmarks/below/further.py": BENCHMARK,
        "tools/__init__.py": "",
        "tools/report.py": "import csv\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def skipped(*targets: str) -> list[str]:
    return [each.line for each in resolve_targets(targets).skipped]


@pytest.mark.usefixtures("checkout")
def test_a_folder_without_bench_files_means_its_own_python_files_less_those_that_define_nothing() -> None:
    resolved = resolve_targets(["benchmarks/"])
    assert list(resolved.sources) == ["add_numbers", "derived", "own", "unfinished"]
    assert resolved.may_skip
    assert skipped("benchmarks/") == [
        "skipped benchmarks/__init__.py: it only makes the folder a package",
        "skipped benchmarks/benchmark_base.py: torchstone has its own, which the files beside it import",
        "skipped benchmarks/report.py: no benchmark is defined in it",
    ]


@pytest.mark.usefixtures("checkout")
def test_of_several_files_that_are_named_only_importing_tells_which_define_something(checkout: Path) -> None:
    files = sorted(str(path) for path in (checkout / "benchmarks").glob("*.py"))
    assert list(resolve_targets(files).sources) == ["add_numbers", "derived", "own", "report", "unfinished"]
    assert [line.partition(":")[0] for line in skipped(*files)] == [
        "skipped benchmarks/__init__.py",
        "skipped benchmarks/benchmark_base.py",
    ]


def test_two_folders_may_both_have_files_that_are_left_out(checkout: Path) -> None:
    (checkout / "tools" / "sums.py").write_text(BENCHMARK)
    assert list(resolve_targets(["benchmarks", "tools"]).sources)[-1] == "sums"
    assert len(skipped("benchmarks", "tools")) == 5


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("name", ["__init__", "benchmark_base", "report"])
def test_a_file_that_is_named_alone_is_never_left_out(name: str) -> None:
    resolved = resolve_targets([f"benchmarks/{name}.py"])
    assert list(resolved.sources) == [name]
    assert not resolved.may_skip


@pytest.mark.usefixtures("checkout")
def test_files_of_which_all_are_left_out_are_an_error_that_names_them() -> None:
    with pytest.raises(TorchstoneError) as raised:
        resolve_targets(["tools"])
    assert raised.value.exit_code == 2
    assert str(raised.value).startswith(
        "none of these files defines a benchmark\n  skipped tools/__init__.py: "
    )
    assert "skipped tools/report.py: " in str(raised.value)


def test_a_file_that_is_left_out_may_be_called_like_a_suite(checkout: Path) -> None:
    (checkout / "tools" / "sums.py").write_text(BENCHMARK)
    (checkout / "tools" / "torchbench.py").write_text("import csv\n")
    assert list(resolve_targets(["tools"]).sources) == ["sums"]


def test_where_files_are_called_bench_these_are_meant_and_those_for_the_original(checkout: Path) -> None:
    (checkout / "benchmarks" / "below" / "bench_it.py").write_text("")
    assert list(resolve_targets(["benchmarks"]).sources) == ["bench_it", "add_numbers"]
    assert skipped("benchmarks") == []
