"""Survey what a plan needs to know, in a worker.

That is what the sources define, which devices and backends exist, and the environment.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Callable

from torchstone.core.text.safe_text import is_plain
from torchstone.define.benchmarks import Benchmark
from torchstone.define.counted import Counted
from torchstone.worker import benchmark_sources
from torchstone.worker.benchmark_sources import EmptySourceError, SourceError, import_modules, load_source
from torchstone.worker.protocol.jobs import SurveyJob
from torchstone.worker.protocol.replies import (
    BenchmarkFound,
    CountedFound,
    ErrorReply,
    LookingAt,
    SourceFound,
    SurveyReply,
)
from torchstone.worker.protocol.source_message import SourceMessage
from torchstone.worker.torch_code import survey_torch
from torchstone.worker.worker_environment import PACKAGE, is_in_packages


def survey(job: SurveyJob, tell: Callable[[LookingAt], None]) -> SurveyReply:
    """Find out what a plan needs to know and only a process with torch can see.

    ``tell`` is called with each file before it is imported: if importing it kills this process, the parent
    knows which file it was.
    """
    at_start = set(sys.modules)
    import_modules(job.imports, job.folder)
    if job.torch:
        _load_torch()  # before a source does: a failed import of torch cannot be repeated in one process
    before = set(sys.modules)
    found = []
    for source in job.sources:
        tell(LookingAt(source.path))
        found.append(_look_at(source))
    tell(LookingAt(""))
    reply = SurveyReply(
        tuple(found),
        tuple(_own_files([name for name in sys.modules if name not in at_start])),
        tuple(_third_party([name for name in sys.modules if name not in before])),
    )
    return survey_torch(job, reply, benchmark_sources.default_threads) if job.torch else reply


class TorchLoadingError(Exception):
    """Raised if torch cannot be loaded; the message says why."""


def _load_torch() -> None:
    try:
        import torch  # noqa: F401, PLC0415  (only tests whether torch can be imported)
    except Exception as error:
        raise TorchLoadingError(f"{type(error).__name__}: {error}") from error


def describe(benchmark: Benchmark) -> BenchmarkFound:
    """Return what the parent needs to know of a benchmark to plan it."""
    return BenchmarkFound(
        benchmark.name,
        benchmark.batch_size,
        benchmark.accuracy_batch_size,
        tuple(benchmark.modes),
        tuple(benchmark.takes),
        tuple(benchmark.probes),
        name_of(benchmark.metrics),
        benchmark.dashboard_batch_size,
    )


def name_of(function: object) -> str:
    """Return the name of a ``metrics=`` function; empty without one."""
    name = getattr(function, "__name__", type(function).__name__)
    return "" if function is None else name if isinstance(name, str) and is_plain(name) else "function"


def describe_counted(counted: Counted) -> CountedFound:
    """Return what the parent needs to know of counted work to plan it."""
    return CountedFound(
        counted.name,
        str(counted.device),
        str(counted.backend or ""),
        str(counted.mode or ""),
        counted.dynamic if isinstance(counted.dynamic, bool) else None,
        bool(counted.measures_itself),
    )


def _look_at(source: SourceMessage) -> SourceFound:
    """Load a source, and return what it defines, or why it cannot be used."""
    try:
        suite = load_source(source)
        benchmarks = tuple(describe(benchmark) for benchmark in suite.collect())
        counted = tuple(describe_counted(each) for each in suite.counted())
    except EmptySourceError as error:
        return SourceFound(source, error=error.reply(), empty=error.why)
    except SourceError as error:
        return SourceFound(source, error=error.reply())
    except Exception as error:  # noqa: BLE001  (another package's code: reported, not raised)
        return SourceFound(source, error=ErrorReply(f"{type(error).__name__}: {error}"))
    return SourceFound(source, benchmarks, counted, tuple(suite.libraries))


def _own_files(modules: list[str]) -> list[str]:
    """Return the files of the modules that belong neither to Python nor to an installed package."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed = [os.path.join(folder, "") for folder in (*folders, PACKAGE)]
    files = {str(getattr(sys.modules[name], "__dict__", {}).get("__file__") or "") for name in modules}
    return sorted(
        path
        for path in files
        if os.path.isfile(path) and not path.startswith(tuple(installed)) and not is_in_packages(path)
    )


def _third_party(modules: list[str]) -> list[str]:
    """Return the modules that belong to installed packages: worth importing once, before workers are forked."""
    tops = {name.partition(".")[0] for name in modules} - {"torch", "torchstone"}
    installed = {name for name in tops if _is_installed_package(name)}
    return [name for name in modules if name.partition(".")[0] in installed]


def _is_installed_package(name: str) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    origin = (spec.origin or "") if spec else ""
    return is_in_packages(origin)
