"""A folder as PyTorch's checkout has it, under the three commands that take it: the base beside its users, a package file, a helper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Command
from live_processes import read_run

LOOP = """\
import sys

from benchmark_base import BenchmarkBase
from sizes import SIZE


class Loop(BenchmarkBase):
    def __init__(self, size):
        super().__init__(category="loop", device="cpu")
        self.size = size

    def name(self):
        return f"{self.category()}_{self.size}"

    def _prepare(self):
        pass

    def _work(self):
        sum(abs(number) for number in range(self.size))


def main():
    Loop(SIZE).enable_instruction_count().collect_all().append_results(sys.argv[1])


if __name__ == "__main__":
    main()
"""
FILES = {
    "__init__.py": "",
    "benchmark_base.py": "import a_library_that_is_not_here\n",
    "loop.py": LOOP,
    "sizes.py": "SIZE = 100\n",
    "unused.py": "from benchmark_base import BenchmarkBase\nfrom loop import Loop\n",
}
SKIPPED = [
    "skipped benchmarks/__init__.py: it only makes the folder a package",
    "skipped benchmarks/benchmark_base.py: torchstone has its own, which the files beside it import",
]
UNUSED = (
    "skipped benchmarks/unused.py: no benchmark is defined in it: "
    "it uses benchmark_base, but has no main() that says what to measure"
)


@pytest.fixture
def benchmarks(tmp_path: Path) -> Path:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def told(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("skipped ")]


@pytest.mark.parametrize(
    "targets", [["benchmarks"], [f"benchmarks/{name}" for name in sorted(FILES)]], ids=["folder", "glob"]
)
@pytest.mark.usefixtures("benchmarks")
def test_pr_time_measures_a_folder_or_what_a_shell_finds_in_it_and_tells_which_it_leaves_out(
    targets: list[str], torchstone: Command, tmp_path: Path
) -> None:
    done = torchstone("pr-time", *targets, "--counter=python", "--repeat=1", "--output=results.csv")
    assert done.code == 0, done.err
    assert (tmp_path / "results.csv").read_text().startswith("loop_100,python_calls,")
    assert told(done.err) == [*SKIPPED, "skipped benchmarks/sizes.py: no benchmark is defined in it", UNUSED]


@pytest.mark.usefixtures("benchmarks")
def test_run_takes_the_folder_and_its_run_file_names_only_what_was_measured(
    torchstone: Command, tmp_path: Path
) -> None:
    asked = ("--probe=instructions", "--counter=python", "--repeat=1")
    done = torchstone("run", "benchmarks/", *asked, "-o", "run.jsonl")
    assert done.code == 0, done.err
    assert [line.partition(":")[0] for line in told(done.err)] == [
        f"skipped benchmarks/{name}" for name in sorted(FILES) if name != "loop.py"
    ]
    run = read_run(tmp_path / "run.jsonl").run
    assert [outcome.case.id for outcome in run.outcomes] == ["loop::loop_100[device=cpu]::instructions"]
    assert list(run.settings.sources) == ["loop"]


@pytest.mark.usefixtures("benchmarks")
def test_list_takes_the_folder_and_what_it_leaves_out_is_not_in_its_json(torchstone: Command) -> None:
    done = torchstone("list", "benchmarks", "--json")
    assert done.code == 0, done.err
    assert [row["name"] for row in json.loads(done.out)] == ["loop_100"]
    assert UNUSED in told(done.err)


def test_if_importing_shows_that_no_file_defines_anything_that_is_an_error(
    torchstone: Command, benchmarks: Path
) -> None:
    (benchmarks / "loop.py").unlink()
    (benchmarks / "unused.py").write_text("from benchmark_base import BenchmarkBase\n")
    done = torchstone("list", "benchmarks")
    assert done.code == 2
    assert "error: none of these files defines a benchmark" in done.err
    assert UNUSED in done.err


def test_beside_a_suite_files_that_define_nothing_are_only_left_out(
    torchstone: Command, benchmarks: Path
) -> None:
    (benchmarks / "loop.py").unlink()
    done = torchstone("list", "compile_time", "benchmarks/sizes.py", "benchmarks/__init__.py", "--json")
    assert done.code == 0, done.err
    assert {row["suite"] for row in json.loads(done.out)} == {"compile_time"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("benchmark_base", "torchstone has its own: name the benchmark files, or their folder"),
        ("sizes", "no benchmark is defined in it: decorate a function with @torchstone.benchmark"),
        ("unused", "no benchmark is defined in it: it uses benchmark_base, but has no main()"),
    ],
)
@pytest.mark.usefixtures("benchmarks")
def test_a_file_that_is_named_alone_and_defines_nothing_is_an_error(
    torchstone: Command, name: str, said: str
) -> None:
    done = torchstone("list", f"benchmarks/{name}.py")
    assert done.code == 2
    assert f"{name}.py: " in done.err
    assert said in done.err


class TestBrokenFile:
    """One file with a mistake in it is reported, and the others are measured."""

    ASKED = ("--counter=python", "--repeat=1")
    PROBLEM = "benchmarks/broken.py:2:25: syntax error: "

    @pytest.fixture
    def broken(self, benchmarks: Path) -> Path:
        (benchmarks / "broken.py").write_text(
            "from benchmark_base import BenchmarkBase\nclass Loop(BenchmarkBase;\n"
        )
        return benchmarks

    @pytest.mark.parametrize(
        "targets", [["benchmarks"], ["benchmarks/broken.py", "benchmarks/loop.py"]], ids=["folder", "glob"]
    )
    @pytest.mark.usefixtures("broken")
    def test_pr_time_has_the_rows_of_the_others(self, targets: list[str], torchstone: Command) -> None:
        done = torchstone("pr-time", *targets, *self.ASKED)
        assert done.code == 1
        assert done.out.startswith("loop_100,python_calls,")
        assert done.err.count(self.PROBLEM) == 2  # before measuring, and as the last thing that is said
        assert "1 file could not be imported:" in done.err

    @pytest.mark.usefixtures("broken")
    def test_so_does_run_and_its_run_file_remembers(self, torchstone: Command, tmp_path: Path) -> None:
        asked = ("--probe=instructions", *self.ASKED)
        done = torchstone("run", "benchmarks", *asked, "-o", "run.jsonl")
        assert (done.code, self.PROBLEM in done.err) == (1, True)
        run = read_run(tmp_path / "run.jsonl").run
        assert [outcome.status for outcome in run.outcomes] == ["pass"]
        resumed = torchstone("run", "--resume", "run.jsonl")
        assert (resumed.code, self.PROBLEM in resumed.err) == (1, True)

    @pytest.mark.usefixtures("broken")
    def test_list_names_the_others(self, torchstone: Command) -> None:
        done = torchstone("list", "benchmarks", "--json")
        assert (done.code, self.PROBLEM in done.err) == (1, True)
        assert [row["name"] for row in json.loads(done.out)] == ["loop_100"]

    def test_if_there_is_no_other_the_command_ends_with_the_error(
        self, torchstone: Command, broken: Path
    ) -> None:
        (broken / "loop.py").unlink()
        (broken / "unused.py").unlink()
        for command in (("pr-time", "benchmarks"), ("pr-time", "benchmarks/broken.py")):
            done = torchstone(*command, *self.ASKED)
            assert (done.code, f"error: {broken}" in done.err, self.PROBLEM in done.err) == (2, True, True)
