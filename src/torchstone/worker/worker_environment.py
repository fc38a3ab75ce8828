"""The environment of a worker process: variables, cache folders, a folder for temporary files.

A compilation is cold if its cache folder contains nothing of the model. But the first compilation on a machine
also probes the compiler and builds precompiled headers, which takes longer than most models and is the same for
all. These are kept in a template, from which every cold cache is copied.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from torchstone.core.errors import InputError
from torchstone.worker.machine.recorded_environment import read_compiler
from torchstone.worker.probes.compiler.own_artifacts import make_cache

OWN = (
    "KMP_DUPLICATE_LIB_OK",
    "CUDA_CACHE_PATH",
    "OPENBLAS_NUM_THREADS",
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "PYTORCH_KERNEL_CACHE_PATH",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    "TMPDIR",
    "TOKENIZERS_PARALLELISM",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCHINDUCTOR_COMPILE_THREADS",
    "TRITON_CACHE_DIR",
)
"""Variables that are set here, so they are no part of the user's environment."""

OF_THE_COMPILER = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "PATH", "TORCH")
"""Prefixes of variables that affect the results of the compiler's probes."""

DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""Without it, matrix products on CUDA may differ from call to call, even with torch's deterministic algorithms."""


@dataclass(frozen=True)
class World:
    """The interpreter to start processes with, and its environment.

    ``version`` and ``torch`` are the versions of its Python and its torch, ``variables`` are added to the
    inherited ones, and ``path`` replaces this process's module search path, if given.
    """

    python: str = sys.executable
    version: str = platform.python_version()
    torch: str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    path: tuple[str, ...] | None = None


HERE = World()
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def worker_variables(template: str, world: World = HERE) -> dict[str, str]:
    """Return the environment of a process that loads torch: one thread until a worker changes that, caches in the template."""
    inherited = {name: value for name, value in os.environ.items() if name not in OWN or name == "PYTHONPATH"}
    path = world.path
    if path is None:
        path = (os.path.dirname(PACKAGE), inherited.get("PYTHONPATH", ""))
    return (
        {"KINETO_LOG_LEVEL": "6"}  # torch's profiler would print messages
        | inherited
        | dict(world.variables)
        | {
            "PYTHONPATH": os.pathsep.join(part for part in path if part),
            "PYTHONHASHSEED": "0",  # gives sets, and so the compiler, the same order in every process
            "PYTHONUNBUFFERED": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
            "TMPDIR": _create(os.path.join(template, "tmp")),
            **cache_variables(os.path.join(template, "cache")),
        }
    )


def cache_variables(folder: str) -> dict[str, str]:
    """Return the variables that put all of the compiler's caches below one folder."""
    _create(folder)
    return {
        "TORCHINDUCTOR_CACHE_DIR": folder,
        "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
        "CUDA_CACHE_PATH": os.path.join(folder, "cuda"),
        "PYTORCH_KERNEL_CACHE_PATH": os.path.join(folder, "kernels"),
    }


def enter(variables: Mapping[str, str]) -> None:
    """Set these variables in this process, and use the new folder for temporary files."""
    os.environ.update(variables)
    tempfile.tempdir = None


def inherited_path() -> tuple[str, ...]:
    """Return the folders of PYTHONPATH."""
    return tuple(part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part)


def inherited_programs() -> str:
    """Return the search path for programs."""
    return os.environ.get("PATH", os.defpath)


def _cache_home() -> str:
    """Return the folder for files that outlive a run."""
    return os.environ.get("TORCHSTONE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "torchstone"
    )


def is_in_packages(path: str) -> bool:
    """Return whether a file is in a folder for installed packages."""
    return f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path


def warm_cache_folder(choices: str = "") -> str:
    """Return the folder where --cache warm keeps compiled code between runs; ``choices`` names the settings of torch, if any are chosen."""
    return os.path.abspath(os.path.join(".torchstone", f"cache-{choices}" if choices else "cache"))


def made_here_folder() -> str:
    """Return the folder that records which compile artifacts and warm caches this machine has made."""
    return os.path.abspath(os.path.join(_cache_home(), "made-here"))


def error_log() -> str:
    """Return the file with the full error of the last time that torch could not be loaded."""
    return os.path.abspath(os.path.join(_cache_home(), "torch-error.log"))


def template_folder(processor: str = "", world: World = HERE) -> str:
    """Return the folder of the compiler's probes and precompiled headers for this torch, compiler and processor."""
    base = _cache_home()
    known = (
        world.torch or _torch_version(),
        world.version,
        world.python,
        read_compiler() or "none",
        processor or _processor(),
        *("=".join(each) for each in world.variables if each[0].startswith(OF_THE_COMPILER)),
    )
    name = hashlib.sha256("\n".join(known).encode()).hexdigest()[:12]
    return _create(os.path.join(base, f"compiler-{name}"))


def make_case_folder(scratch: str, number: int, template: str, kept_cache: str | None) -> dict[str, str]:
    """Create the folder of one case; return its variables, with a cold cache copied from the template or the warm one."""
    own = _create(os.path.join(scratch, f"case-{number}"))
    if kept_cache:
        make_cache(kept_cache, made_here_folder())
    cache = kept_cache or _copy_template(template, os.path.join(own, "cache"))
    return {"TMPDIR": _create(os.path.join(own, "tmp")), **cache_variables(cache)}


class CaseFolders:
    """Folders of a case that starts several workers."""

    def __init__(self, scratch: str, number: int, template: str) -> None:
        self._own = os.path.join(scratch, f"case-{number}")
        self._template = template

    def make(self, name: str) -> str:
        """Create a folder within the case's own."""
        return _create(os.path.join(self._own, name))

    def cold(self, folder: str, name: str) -> ColdCache:
        """Create a cold cache below a folder."""
        return ColdCache(os.path.join(folder, name), self._template)


class ColdCache:
    """A cache that starts with only the template, and a folder for temporary files beside it."""

    def __init__(self, folder: str, template: str) -> None:
        self._temporary = _create(os.path.join(folder, "tmp"))
        self._cache = _copy_template(template, os.path.join(folder, "cache"))
        self._known = _measure_folder(self._cache)

    def variables(self) -> dict[str, str]:
        """Return the variables of a worker that uses it."""
        return {"TMPDIR": self._temporary, **cache_variables(self._cache)}

    def size(self) -> tuple[int, int]:
        """Return the number of files and bytes added to the template."""
        files, size = _measure_folder(self._cache)
        return max(0, files - self._known[0]), max(0, size - self._known[1])


def _copy_template(template: str, cache: str) -> str:
    try:
        shutil.copytree(os.path.join(template, "cache"), cache, copy_function=_copy, dirs_exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create a compiler cache: {_first_reason(error)}", path=cache) from None
    return cache


def _measure_folder(folder: str) -> tuple[int, int]:
    """Return the number of files in a folder, and their total size in bytes."""
    sizes = [
        os.path.getsize(path)
        for base, _, names in os.walk(folder)
        for name in names
        if os.path.isfile(path := os.path.join(base, name))
    ]
    return len(sizes), sum(sizes)


def _copy(source: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # another run that fills the template has just renamed it
        shutil.copy2(source, target)


def _first_reason(error: OSError) -> str:
    """Return why an operation failed; the first reason if copying a folder failed several times."""
    if isinstance(error, shutil.Error) and error.args and error.args[0]:
        return str(error.args[0][0][2])
    return error.strerror or str(error)


def remove_case_folder(scratch: str, number: int) -> None:
    """Remove the folder of a case."""
    shutil.rmtree(os.path.join(scratch, f"case-{number}"), ignore_errors=True)


def _create(folder: str) -> str:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        advice = "set TORCHSTONE_CACHE to use another folder for files that are kept between runs"
        raise InputError(f"cannot create the folder: {error.strerror}", path=folder, advice=advice) from None
    return folder


def _torch_version() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "none"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line for line in file if line.startswith(("model name", "flags", "Features"))]
    except OSError:
        return platform.processor()
    return "".join(lines[:2])
