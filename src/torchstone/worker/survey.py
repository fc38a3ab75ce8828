"""The survey, in a worker: what the sources define, whether devices and backends exist, and the environment."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import replace

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.define.benchmarks import Benchmark
from torchstone.define.counted import Counted
from torchstone.worker import sources
from torchstone.worker.channel import as_json
from torchstone.worker.machine.recorded_environment import probe_environment
from torchstone.worker.protocol.codec import from_json
from torchstone.worker.protocol.jobs import CompileTrial, SurveyJob
from torchstone.worker.protocol.replies import (
    BenchmarkFound,
    CollectivesFound,
    CountedFound,
    EnvironmentFound,
    ErrorReply,
    LookingAt,
    SourceFound,
    SurveyReply,
)
from torchstone.worker.sources import EmptySourceError, SourceError, import_modules, load_source
from torchstone.worker.worker_environment import OWN, PACKAGE, is_in_packages


def survey(job: SurveyJob, tell: Callable[[LookingAt], None]) -> SurveyReply:
    """Look at everything a plan needs to know and only a process with torch can see.

    ``tell`` is given each file before it is imported: should that be the end of this process, the parent knows which it was.
    """
    at_first = set(sys.modules)
    import_modules(job.imports, job.folder)
    if job.torch:
        _load_torch()  # before any source does so, and fails: torch cannot be tried twice in one process
    before = set(sys.modules)
    found = []
    for source in job.sources:
        tell(LookingAt(source.path))
        found.append(_look_at(source))
    tell(LookingAt(""))
    reply = SurveyReply(
        tuple(found),
        tuple(_own_files([name for name in sys.modules if name not in at_first])),
        tuple(_third_party([name for name in sys.modules if name not in before])),
    )
    return _ask_torch(job, reply) if job.torch else reply


def _ask_torch(job: SurveyJob, reply: SurveyReply) -> SurveyReply:
    """The reply with what only torch knows: devices, backends, collectives, and the environment."""
    from torchstone.worker.probes.device import find_problem, list_devices  # noqa: PLC0415  (imports torch)

    if threads := job.threads or sources.default_threads:
        import torch  # noqa: PLC0415  (a missing or broken torch is reported, not raised)

        torch.set_num_threads(threads)
    names = job.devices or tuple(list_devices()[-1:])
    devices = {name: find_problem(name) for name in names}
    backends = list_backends()
    usable = [name for name, problem in devices.items() if not problem]
    # An accelerator first, in whatever order devices were named: what there is of them belongs to the environment.
    accelerators = [name for name in usable if name.partition(":")[0] != "cpu"]
    device = next(iter((*accelerators, *usable)), "cpu")
    return replace(
        reply,
        devices=devices,
        available=tuple(list_devices()),
        backends=tuple(backends),
        collectives=_find_collectives(names[0]) if job.scaling and not devices[names[0]] else None,
        refused=_try_compile(job.compile, backends) if job.compile else {},
        environment=describe_environment(job.libraries, device),
    )


def describe_environment(libraries: Sequence[str], device: str) -> EnvironmentFound:
    """The environment of this process."""
    facts = probe_environment(libraries, device, own=OWN)
    return from_json(EnvironmentFound, as_json(facts), "environment")


def _find_collectives(device: str) -> CollectivesFound:
    from torchstone.worker.ranks.collectives import find_collectives  # noqa: PLC0415  (only a survey that asks for it loads it)

    return find_collectives(device)


class TorchLoadingError(Exception):
    """Why torch cannot be loaded."""


def _load_torch() -> None:
    try:
        import torch  # noqa: F401, PLC0415  (only tests whether torch can be imported)
    except Exception as error:
        raise TorchLoadingError(f"{type(error).__name__}: {error}") from error


def list_backends() -> list[str]:
    """All names that ``torch.compile`` takes as a backend here, and ours for none."""
    import torch._dynamo  # noqa: PLC0415  (loads torch)

    from torchstone.worker.probes.subject import NO_COMPILER  # noqa: PLC0415  (loads torch)

    return [*torch._dynamo.list_backends(exclude_tags=()), NO_COMPILER]


def _try_compile(trial: CompileTrial, known: list[str]) -> dict[str, str]:
    """By backend, why ``torch.compile`` does not take a mode or an option: it says so before it compiles anything."""
    import torch  # noqa: PLC0415  (a missing or broken torch is reported, not raised)

    refused = {}
    for backend in trial.backends:
        if backend in known and backend != "none":
            try:
                torch.compile(_identity, backend=backend, mode=trial.mode, options=trial.options)
            except Exception as error:  # noqa: BLE001  (whatever torch raises for it is the reason)
                refused[backend] = str(error).partition("\n")[0][:300]
    return refused


def _identity(value: object) -> object:
    return value


def describe(benchmark: Benchmark) -> BenchmarkFound:
    """What the parent needs to know of a benchmark to plan it."""
    return BenchmarkFound(
        benchmark.name,
        benchmark.batch_size,
        benchmark.accuracy_batch_size,
        tuple(benchmark.modes),
        tuple(benchmark.takes),
        tuple(benchmark.probes),
    )


def describe_counted(counted: Counted) -> CountedFound:
    """What the parent needs to know of counted work to plan it."""
    return CountedFound(
        counted.name,
        str(counted.device),
        str(counted.backend or ""),
        str(counted.mode or ""),
        counted.dynamic if isinstance(counted.dynamic, bool) else None,
        bool(counted.measures_itself),
    )


def _look_at(source: BenchmarkSource) -> SourceFound:
    try:
        suite = load_source(source)
        benchmarks = tuple(describe(benchmark) for benchmark in suite.collect())
        counted = tuple(describe_counted(each) for each in suite.counted())
    except EmptySourceError as error:
        return SourceFound(source, error=error.reply(), empty=error.why)
    except SourceError as error:
        return SourceFound(source, error=error.reply())
    except Exception as error:  # noqa: BLE001  (another package's code: told, not raised)
        return SourceFound(source, error=ErrorReply(f"{type(error).__name__}: {error}"))
    return SourceFound(source, benchmarks, counted, tuple(suite.libraries))


def _own_files(modules: list[str]) -> list[str]:
    """The files of those modules that belong neither to Python nor to an installed package."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed = [os.path.join(folder, "") for folder in (*folders, PACKAGE)]
    files = {str(getattr(sys.modules[name], "__dict__", {}).get("__file__") or "") for name in modules}
    return sorted(
        path
        for path in files
        if os.path.isfile(path) and not path.startswith(tuple(installed)) and not is_in_packages(path)
    )


def _third_party(modules: list[str]) -> list[str]:
    """Those of newly imported modules that belong to installed packages: worth importing once, before workers are forked."""
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
