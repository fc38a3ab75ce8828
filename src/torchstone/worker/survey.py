"""The survey, in a worker: what the sources define, whether devices and backends exist, and the environment."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

from torchstone.define.benchmarks import Benchmark
from torchstone.define.counted import describe_counted
from torchstone.worker import sources
from torchstone.worker.machine.recorded_environment import probe_environment
from torchstone.worker.sources import EmptySourceError, Source, SourceError, import_modules, load_source
from torchstone.worker.worker_environment import OWN, PACKAGE, is_in_packages


def survey(job: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Look at everything a plan needs to know and only a process with torch can see.

    ``tell`` is given each file before it is imported: should that be the end of this process, the parent knows which it was.
    """
    at_first = set(sys.modules)
    import_modules(job.get("imports", []), job.get("folder", "."))
    if job.get("torch", True):
        _load_torch()  # before any source does so, and fails: torch cannot be tried twice in one process
    before = set(sys.modules)
    answer: dict[str, Any] = {"sources": []}
    for source in job.get("sources", []):
        tell({"looking_at": source.get("path", "")})
        answer["sources"].append(_look_at(source))
    tell({"looking_at": ""})
    answer["files"] = _own_files([name for name in sys.modules if name not in at_first])
    answer["libraries"] = _third_party([name for name in sys.modules if name not in before])
    if job.get("torch", True):
        from torchstone.worker.probes.device import find_problem, list_devices  # noqa: PLC0415  (imports torch)

        if threads := job.get("threads") or sources.default_threads:
            import torch  # noqa: PLC0415  (a missing or broken torch is reported, not raised)

            torch.set_num_threads(threads)
        devices = job.get("devices") or list_devices()[-1:]
        answer["devices"] = {name: find_problem(name) for name in devices}
        answer["available"] = list_devices()
        answer["backends"] = list_backends()
        if job.get("scaling") and not answer["devices"][devices[0]]:
            from torchstone.worker.ranks.collectives import find_collectives  # noqa: PLC0415  (only a survey that asks for it loads it)

            answer["collectives"] = find_collectives(devices[0])
        answer["refused"] = _try_compile(job.get("compile") or {}, answer["backends"])
        usable = [name for name, problem in answer["devices"].items() if not problem]
        # An accelerator first, in whatever order devices were named: what there is of them belongs to the environment.
        accelerators = [name for name in usable if name.partition(":")[0] != "cpu"]
        device = next(iter((*accelerators, *usable)), "cpu")
        answer["environment"] = probe_environment(job.get("libraries", []), device, own=OWN)
    return answer


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


def _try_compile(told: dict[str, Any], known: list[str]) -> dict[str, str]:
    """By backend, why ``torch.compile`` does not take a mode or an option: it says so before it compiles anything."""
    import torch  # noqa: PLC0415  (a missing or broken torch is reported, not raised)

    refused = {}
    for backend in told.get("backends", []):
        if backend in known and backend != "none":
            try:
                torch.compile(_identity, backend=backend, mode=told["mode"], options=told["options"])
            except Exception as error:  # noqa: BLE001  (whatever torch raises for it is the reason)
                refused[backend] = str(error).partition("\n")[0][:300]
    return refused


def _identity(value: object) -> object:
    return value


def describe(benchmark: Benchmark) -> dict[str, Any]:
    """What the parent needs to know of a benchmark to plan it."""
    return {
        "name": benchmark.name,
        "batch_size": benchmark.batch_size,
        "accuracy_batch_size": benchmark.accuracy_batch_size,
        "modes": list(benchmark.modes),
        "takes": list(benchmark.takes),
        "probes": list(benchmark.probes),
    }


def _look_at(source: Source) -> dict[str, Any]:
    try:
        suite = load_source(source)
        benchmarks = [describe(benchmark) for benchmark in suite.collect()]
        counted = [describe_counted(each) for each in suite.counted()]
    except EmptySourceError as error:
        return {"source": source, "error": error.told(), "empty": error.why}
    except SourceError as error:
        return {"source": source, "error": error.told()}
    except Exception as error:  # noqa: BLE001  (another package's code: told, not raised)
        return {"source": source, "error": {"message": f"{type(error).__name__}: {error}"}}
    return {
        "source": source,
        "benchmarks": benchmarks,
        "counted": counted,
        "libraries": list(suite.libraries),
    }


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
