"""Files written for PyTorch's pr_time_benchmarks: their main() tells what there is, and each benchmark becomes counted work."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from torchstone.define import benchmark_base
from torchstone.define.counted import Counted
from torchstone.worker.benchmark_sources import SourceError, find_measured, load_source
from torchstone.worker.pr_time_files import PrTimeBenchmark
from torchstone.worker.protocol.replies import CountedFound
from torchstone.worker.protocol.source_message import SourceMessage
from torchstone.worker.survey import _look_at

Load = Callable[..., dict[str, Any]]

HEAD = """
import sys
from benchmark_base import BenchmarkBase

class Sums(BenchmarkBase):
    def __init__(self, size):
        super().__init__(category="sums", device="cpu", backend="eager", mode="inference", dynamic=True)
        self.size, self.called = size, []
    def name(self):
        return f"sums_{self.size}"
    def description(self):
        return f"a sum of {self.size} numbers"
    def _prepare_once(self):
        self.called.append("once")
    def _prepare(self):
        self.called.append("prepare")
    def _work(self):
        self.called.append("work")
        sum(range(self.size))
"""
MAIN = """
def main():
    path = sys.argv[1]
    Sums(10).enable_instruction_count().collect_all().append_results(path)
    Sums(20).with_iterations(7).enable_compile_time_instruction_count().collect_all().append_results(path)

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., SourceMessage]]:
    """Writes a file, and gives it as a source; what loading it puts into this process is taken out again."""
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["pytest"])

    def write(text: str, name: str = "written_for_original") -> SourceMessage:
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        return SourceMessage("file", name, str(path))

    yield write
    for name in set(sys.modules) - set(before):
        if not name.startswith("torch"):
            del sys.modules[name]
    benchmark_base.take_recorded()


def names(source: SourceMessage) -> list[str]:
    return [each.name for each in load_source(source).counted()]


def refused(source: SourceMessage) -> SourceError:
    with pytest.raises(SourceError) as caught:
        load_source(source)
    assert caught.value.path == source.path
    return caught.value


def find(source: SourceMessage, name: str) -> Counted:
    found = find_measured(source, name, "instructions")
    assert isinstance(found, Counted)
    return found


def test_main_tells_what_there_is_and_measures_nothing(source: Callable[..., SourceMessage]) -> None:
    first, second = load_source(source(HEAD + MAIN)).counted()
    assert (first.name, first.counts, first.metric) == ("sums_10", "all", "instruction_count")
    assert (second.counts, second.metric) == ("compile", "compile_time_instruction_count")
    assert (first.category, first.description) == ("sums", "a sum of 10 numbers")
    assert (first.device, first.backend, first.mode, first.dynamic) == ("cpu", "eager", "inference", True)
    assert (first.iterations, second.iterations) == (None, 7)
    assert first.benchmark.called == second.benchmark.called == []
    assert sys.argv == ["pytest"]


def test_a_survey_tells_of_counted_work_beside_benchmarks(source: Callable[..., SourceMessage]) -> None:
    made = """
        import torchstone
        @torchstone.benchmark
        def model():
            return len, ("",)
        @torchstone.counted(counts="all")
        def counting():
            return lambda: sum(range(10))
        """
    file = source(textwrap.dedent(made) + HEAD + MAIN)
    seen = _look_at(file)
    assert [each.name for each in seen.benchmarks] == ["model"]
    assert [each.name for each in seen.counted] == ["counting", "sums_10", "sums_20"]
    assert seen.counted[2] == CountedFound("sums_20", "cpu", "eager", "inference", dynamic=True)
    work = find(file, "sums_20")
    assert (work.counts, work.metric, work.category) == ("compile", "compile_time_instruction_count", "sums")
    assert (work.description, work.in_children, work.iterations) == ("a sum of 20 numbers", False, 7)


def test_the_hooks_are_called_as_counted_work_is(source: Callable[..., SourceMessage]) -> None:
    work = find(source(HEAD + MAIN), "sums_10")
    assert isinstance(work, PrTimeBenchmark)
    work.prepare_once()
    for _ in range(2):
        work.prepare()
        work.work()
    work.finish()
    called: Any = vars(work.benchmark)["called"]
    assert called == ["once", "prepare", "work", "prepare", "work"]


def test_what_is_compiled_is_compiled_under_the_settings_of_recorded_histories(
    source: Callable[..., SourceMessage],
) -> None:
    config = pytest.importorskip("torch._dynamo.config")
    sees = """
        import torch._dynamo
        class Sees(Sums):
            def _work(self):
                self.called.append(torch._dynamo.config.enable_cpp_symbolic_shape_guards)
        Sees(1).enable_compile_time_instruction_count().collect_all()
        Sees(2).enable_instruction_count().collect_all()
        """
    seen = []
    with config.patch(enable_cpp_symbolic_shape_guards=True):
        for work in load_source(source(HEAD + textwrap.dedent(sees))).counted():
            work.work()
            work.finish()
            seen += work.benchmark.called
        assert config.enable_cpp_symbolic_shape_guards
    assert seen == [False, True]


def test_a_garbage_collector_that_the_work_turned_off_is_turned_on_again(
    source: Callable[..., SourceMessage],
) -> None:
    stops = "\nimport gc\nSums._prepare = lambda self: gc.disable()\n"
    work = find(source(HEAD + stops + MAIN), "sums_10")
    work.prepare_once()
    work.prepare()
    assert not gc.isenabled()
    work.finish()
    assert gc.isenabled()


def test_main_is_left_at_the_wanted_benchmark_with_all_that_it_has_set_up(
    source: Callable[..., SourceMessage],
) -> None:
    main = """
        state = []
        def main():
            state.append("begun")
            Sums(1).enable_instruction_count().collect_all()
            try:
                Sums(2).enable_instruction_count().collect_all()
            except Exception:
                state.append("an except of its own")
            state.append("ended")
        """
    made = source(HEAD + textwrap.dedent(main))
    assert names(made) == ["sums_1", "sums_2"]
    assert sys.modules[made.name].state == ["begun", "ended"]
    assert find(made, "sums_2").name == "sums_2"
    assert sys.modules[made.name].state == ["begun"]


def test_a_process_group_that_main_began_is_there_for_the_work_and_ended_after_it(
    source: Callable[..., SourceMessage],
) -> None:
    distributed = pytest.importorskip("torch.distributed")
    main = """
        import torch
        from torch.testing._internal.distributed.fake_pg import FakeStore
        class Ranks(Sums):
            def _prepare_once(self):
                self.called.append(torch.distributed.get_world_size())
        def main():
            torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
            for size in (1, 2):
                Ranks(size).enable_instruction_count().collect_all()
            torch.distributed.destroy_process_group()
        """
    made = source(HEAD + textwrap.dedent(main))
    assert names(made) == ["sums_1", "sums_2"]
    for name in ("sums_1", "sums_2"):
        work = find(made, name)
        assert isinstance(work, PrTimeBenchmark)
        work.prepare_once()
        called: Any = vars(work.benchmark)["called"]
        assert called == [4]
        work.finish()
        assert not distributed.is_initialized()


def test_a_file_without_main_has_a_block_that_python_would_run(
    source: Callable[..., SourceMessage],
) -> None:
    block = """
        if "__main__" == __name__:
            path = sys.argv[1]
            for size in (3, 4):
                Sums(size).enable_instruction_count().collect_all().append_results(path)
            sys.exit(0)
        """
    assert names(source(HEAD + textwrap.dedent(block))) == ["sums_3", "sums_4"]


def test_a_main_that_nothing_calls_is_called(source: Callable[..., SourceMessage]) -> None:
    assert names(source(HEAD + MAIN.partition("if __name__")[0])) == ["sums_10", "sums_20"]


def test_a_benchmark_without_a_count_is_not_measured(source: Callable[..., SourceMessage]) -> None:
    more = "\nSums(1).collect_all().print()\n"
    assert names(source(HEAD + more + MAIN)) == ["sums_10", "sums_20"]


def test_early_files_keep_attributes_where_there_are_methods_today(
    source: Callable[..., SourceMessage],
) -> None:
    early = """
        from benchmark_base import BenchmarkBase
        class Early(BenchmarkBase):
            _num_iterations = 3
            def __init__(self, backend):
                self.backend = backend
            def name(self):
                return f"early_{self.backend}"
            def _prepare(self): ...
            def _work(self): ...
        def main():
            Early("eager").enable_instruction_count().collect_all().append_results("x")
        """
    (work,) = load_source(source(early)).counted()
    assert (work.name, work.backend, work.device, work.iterations) == ("early_eager", "eager", "cpu", 3)


def test_another_benchmark_base_in_the_folder_or_on_the_path_is_not_used(
    source: Callable[..., SourceMessage], tmp_path: Path
) -> None:
    decoy = "raise RuntimeError('the original needs a library that is not here')\n"
    (tmp_path / "benchmark_base.py").write_text(decoy)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "benchmark_base.py").write_text(decoy)
    trick = f"import sys\nsys.path.insert(0, {str(elsewhere)!r})\n"
    assert names(source(trick + HEAD + MAIN)) == ["sums_10", "sums_20"]


SELF_MEASURED = """
class Imports(BenchmarkBase):
    def __init__(self, module):
        super().__init__(category="imports", device="cpu")
        self.module, self.measured = module, 0
    def name(self):
        return f"imports_{self.module}"
    def _prepare(self): ...
    def _work(self): ...
    def collect_all(self):
        self._prepare_once()
        self.measured += 1
        self.results = [(self.name(), "import_us", 90)]
        return self

def main():
    for module in ("json", "csv"):
        benchmark = Imports(module).with_iterations(5)
        benchmark.collect_all()
        benchmark.append_results(sys.argv[1])
"""


def test_a_benchmark_that_measures_itself_does_so_only_when_it_is_measured(
    source: Callable[..., SourceMessage],
) -> None:
    made = source(HEAD + SELF_MEASURED)
    first, second = load_source(made).counted()
    assert (first.name, second.name) == ("imports_json", "imports_csv")
    assert first.benchmark.measured == 0
    work: Any = find(made, "imports_json")
    assert (work.iterations, work.counts, work.in_children) == (1, "all", False)
    work.prepare_once()
    work.prepare()
    work.work()
    assert work.measured() == {"import_us": 90}
    assert work.benchmark.measured == 1
    work.finish()


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ("[]", "left nothing in self.results"),
        ("[('imports_json', 'import_us', 0)]", "import_us is 0: it has measured nothing"),
        ("[('imports_json', 'import_us', None)]", "import_us is nothing; expected a number"),
        ("[('imports_json', 'import_us', float('nan'))]", "expected a number"),
        ("[('imports_json', '', 1)]", "expected a name"),
        ("[('another', 'import_us', 1)]", "a row of another name, 'another'"),
        ("[('imports_json', 1)]", "expected (name, metric, value)"),
        ("[('imports_json', 'a', 1), ('imports_json', 'a', 2)]", "has a twice"),
        ("super().collect_all().results", "the inherited one, which it calls, does not measure"),
    ],
)
def test_what_a_benchmark_that_measures_itself_leaves_is_read_with_care(
    source: Callable[..., SourceMessage], results: str, said: str
) -> None:
    made = SELF_MEASURED.replace('[(self.name(), "import_us", 90)]', results)
    work = find(source(HEAD + made), "imports_json")
    with pytest.raises(Exception, match="imports_json") as caught:
        work.work()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("main", "said", "line"),
    [
        ("def main():\n    1 / 0\n", "running its main() raised ZeroDivisionError", 2),
        ("def main():\n    import no_such_library\n", "raised ModuleNotFoundError: No module named", 2),
        ("def main():\n    sys.exit('usage: it FILE')\n", "ended with sys.exit('usage: it FILE')", 2),
        ("def main():\n    sys.exit(3)\n", "ended with sys.exit(3)", 2),
        ("def main():\n    sys.exit()\n", "its main() measures nothing", None),
        ("def main():\n    Sums(1).collect_all()\n", "its main() measures nothing", None),
        ("", "it uses benchmark_base, but has no main()", None),
        (
            "def main():\n    Sums(1).enable_instruction_count().enable_compile_time_instruction_count().collect_all()\n",
            "exclude each other",
            2,
        ),
        (
            "def main():\n    for _ in range(2):\n        Sums(1).enable_instruction_count().collect_all()\n",
            "sums_1 is collected twice",
            3,
        ),
        ("def main():\n    Sums(1).with_iterations(0)\n", "with_iterations(0): expected a whole number", 2),
        (
            "Sums.name = BenchmarkBase.name\ndef main():\n    Sums(1).enable_instruction_count().collect_all()\n",
            "Sums has no name",
            None,
        ),
        ("def main():\n    BenchmarkBase('a', 'cpu')\n", "raised TypeError", 2),
    ],
)
def test_a_main_that_tells_nothing_useful_is_an_error_with_its_place(
    source: Callable[..., SourceMessage], main: str, said: str, line: int | None
) -> None:
    error = refused(source(HEAD + main))
    assert said in error.message
    assert error.line == (None if line is None else HEAD.count("\n") + line)


def test_a_name_that_a_decorator_gave_too_is_refused(source: Callable[..., SourceMessage]) -> None:
    same = "import torchstone\n@torchstone.counted(name='sums_10')\ndef f():\n    return list\n"
    assert "sums_10 is defined twice" in refused(source(same + HEAD + MAIN)).message


def test_a_file_with_nothing_in_it_says_both_ways_to_define_something(
    source: Callable[..., SourceMessage],
) -> None:
    message = refused(source("x = 1\n")).message
    assert "@torchstone.benchmark" in message
    assert "@torchstone.counted" in message


def test_a_name_that_is_no_longer_there_is_told(source: Callable[..., SourceMessage]) -> None:
    with pytest.raises(SourceError, match="no benchmark 'gone'"):
        find_measured(source(HEAD + MAIN), "gone", "instructions")


def test_listing_needs_no_torch() -> None:
    code = "import sys; from torchstone.define import benchmark_base; from torchstone.worker import pr_time_files; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
