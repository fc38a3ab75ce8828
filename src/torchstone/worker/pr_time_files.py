"""Turn the benchmarks of files written for PyTorch's ``pr_time_benchmarks`` into counted work, in the worker."""

from __future__ import annotations

import ast
import gc
import importlib.util
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torchstone.core.text.safe_text import is_plain
from torchstone.define import benchmark_base
from torchstone.define.benchmark_base import BenchmarkBase, Reached
from torchstone.define.benchmarks import DefinitionError, describe_value
from torchstone.define.counted import Counted
from torchstone.suites.compile_time.base import forget, settings


def provide_benchmark_base() -> None:
    """Let files import our ``benchmark_base``, even if a folder on the path has another."""
    benchmark_base.take_recorded()
    sys.modules[benchmark_base.NAME] = benchmark_base


def is_written_for(module: ModuleType) -> bool:
    """Return whether a file uses ``benchmark_base``."""
    return any(
        value is benchmark_base or (isinstance(value, type) and issubclass(value, BenchmarkBase))
        for value in vars(module).values()
    )


def list_counted(module: ModuleType, path: str, wanted: str = "") -> list[Counted]:
    """Return what a file would measure, by running its ``main()`` without measuring.

    If a name is ``wanted``, ``main()`` is stopped where it would measure that benchmark: everything it has set
    up stays, and it does not clean up.
    """
    start = _find_start(module, path)
    if start is not None:
        with _as_script(path), benchmark_base.stopping_at(wanted):
            try:
                start()
            except Reached:
                pass
            except SystemExit as leaving:
                if leaving.code not in {None, 0}:
                    problem = DefinitionError(f"its main() ended with sys.exit({leaving.code!r})")
                    raise problem.with_traceback(leaving.__traceback__) from None
    return [_adapt(benchmark) for benchmark in benchmark_base.take_recorded()]


def why_empty(module: ModuleType, path: str) -> str:
    """Return why the ``main()`` of a file has nothing to measure."""
    if _find_start(module, path) is None:
        return "it uses benchmark_base, but has no main() that says what to measure"
    return (
        "its main() measures nothing: expected a benchmark on which it calls "
        ".enable_compile_time_instruction_count().collect_all()"
    )


def _find_start(module: ModuleType, path: str) -> Callable[[], Any] | None:
    """Return what Python would execute if the file were run as a script; else its ``main()``."""
    with open(path, "rb") as file:
        tree = ast.parse(importlib.util.decode_source(file.read()), path)
    blocks = [node.body for node in tree.body if isinstance(node, ast.If) and _is_guard(node.test)]
    if blocks:
        script = ast.Module([statement for block in blocks for statement in block], [])
        code = compile(script, path, "exec", dont_inherit=True)
        return lambda: exec(code, vars(module))  # noqa: S102  (the user's own file, which was imported already)
    main = getattr(module, "main", None)
    return main if callable(main) else None


def _is_guard(test: ast.expr) -> bool:
    """Return whether an expression is ``__name__ == "__main__"``.

    >>> _is_guard(ast.parse("__name__ == '__main__'", mode="eval").body)
    True
    >>> _is_guard(ast.parse("__name__ != '__main__'", mode="eval").body)
    False
    """
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    return {ast.dump(test.left), ast.dump(test.comparators[0])} == _GUARD


_GUARD = {ast.dump(ast.parse(text, mode="eval").body) for text in ("__name__", "'__main__'")}


@contextmanager
def _as_script(path: str) -> Iterator[None]:
    """Set the command line that such files expect: themselves and a file for results, which is discarded."""
    before = sys.argv
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        sys.argv = [path, os.path.join(folder, "results.csv")]
        try:
            yield
        finally:
            sys.argv = before


def _adapt(benchmark: BenchmarkBase) -> Counted:
    return (
        SelfMeasuringBenchmark(benchmark)
        if benchmark_base.measures_itself(benchmark)
        else PrTimeBenchmark(benchmark)
    )


class PrTimeBenchmark(Counted):
    """A ``pr_time_benchmarks`` benchmark as counted work."""

    def __init__(self, benchmark: BenchmarkBase) -> None:
        kind = type(benchmark).__name__
        name = _ask(benchmark, "name")
        if not name:
            raise DefinitionError(f"{kind} has no name: its name() must return one")
        dynamic = _ask(benchmark, "is_dynamic")
        super().__init__(
            name,
            description=str(_ask(benchmark, "description") or ""),
            category=str(_ask(benchmark, "category") or ""),
            counts="compile" if benchmark._enable_compile_time_instruction_count else "all",
            device=_ask(benchmark, "device"),
            backend=str(_ask(benchmark, "backend") or ""),
            mode=str(_ask(benchmark, "mode") or ""),
            dynamic=None if dynamic is None else bool(dynamic),
            iterations=_iterations(benchmark),
        )
        self.benchmark = benchmark
        self._collects_garbage = True

    def prepare_once(self) -> None:
        """Call the benchmark's own method."""
        self._collects_garbage = gc.isenabled()
        self.benchmark._prepare_once()

    def prepare(self) -> None:
        """Call the benchmark's own method."""
        if self.counts == "all":
            self.benchmark._prepare()
            return
        with settings():
            self.benchmark._prepare()

    def work(self) -> None:
        """Call the benchmark's own method; compile with the settings that recorded histories were measured with."""
        if self.counts == "all":
            self.benchmark._work()
            return
        with settings():
            self.benchmark._work()

    def finish(self) -> None:
        """Clean up after the file, which expects the process to end."""
        if self._collects_garbage:
            gc.enable()
        if self.counts == "compile":
            forget()
        _end_process_group()


class SelfMeasuringBenchmark(PrTimeBenchmark):
    """A benchmark that measures itself: its ``collect_all()`` is the work, and provides the results."""

    def __init__(self, benchmark: BenchmarkBase) -> None:
        super().__init__(benchmark)
        self.counts = "all"
        self.iterations = 1  # it repeats its measurements itself
        self._found: dict[str, float] = {}

    def prepare_once(self) -> None:
        """Remember whether garbage is collected; ``collect_all()`` prepares."""
        self._collects_garbage = gc.isenabled()

    def prepare(self) -> None:
        """Do nothing: ``collect_all()`` prepares."""

    def work(self) -> None:
        """Measure."""
        self._found = {}
        for row in benchmark_base.collect(self.benchmark):
            metric, value = self._read(row)
            if metric in self._found:
                raise DefinitionError(f"{self.name}: self.results has {metric} twice")
            self._found[metric] = value
        if not self._found:
            raise DefinitionError(f"{self.name}: its collect_all() left nothing in self.results")

    def _read(self, row: object) -> tuple[str, float]:
        if not isinstance(row, tuple | list) or len(row) != 3:
            raise DefinitionError(
                f"{self.name}: self.results has {describe_value(row)}; expected (name, metric, value)"
            )
        name, metric, value = row
        if name != self.name:
            raise DefinitionError(f"{self.name}: self.results has a row of another name, {name!r}")
        if not isinstance(metric, str) or not metric or not is_plain(metric):
            raise DefinitionError(f"{self.name}: self.results has the metric {metric!r}; expected a name")
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise DefinitionError(f"{self.name}: {metric} is {describe_value(value)}; expected a number")
        if not value:
            raise DefinitionError(f"{self.name}: {metric} is 0: it has measured nothing")
        return metric, value

    def measured(self) -> dict[str, float]:
        """Return the measured values."""
        return dict(self._found)


def _ask(benchmark: BenchmarkBase, name: str) -> Any:  # noqa: ANN401  (whatever the file's author returns)
    """Return the result of a method; older files may have an attribute of this name instead."""
    found = getattr(benchmark, name)
    return found() if callable(found) else found


def _iterations(benchmark: BenchmarkBase) -> int | None:
    """Return the number of iterations that the file asks for; None if it does not say."""
    kinds = [kind for kind in type(benchmark).__mro__ if kind is not BenchmarkBase]
    is_stated = any("_num_iterations" in vars(each) for each in (benchmark, *kinds))
    return benchmark._num_iterations if is_stated else None


def _end_process_group() -> None:
    """Destroy the process group that ``main()`` created and, being stopped, did not destroy."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
