"""What a worker's process finds around it: environment variables, cache folders, a folder for temporary files.

A compile is cold when its cache folder holds nothing of the model. But the first compile on a machine also probes the compiler and builds
precompiled headers, which cost more than most models and are the same for all: these are kept in a template, from which every cold cache starts.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata

OWN = (
    "KMP_DUPLICATE_LIB_OK",
    "OPENBLAS_NUM_THREADS",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    "TMPDIR",
    "TOKENIZERS_PARALLELISM",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCHINDUCTOR_COMPILE_THREADS",
    "TRITON_CACHE_DIR",
)
"""Variables that are set here, and so say nothing about the user's environment."""


def worker_variables(template: str) -> dict[str, str]:
    """The environment for a process that loads torch: single-threaded until a worker says otherwise, caches in the template."""
    package_parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    inherited = {name: value for name, value in os.environ.items() if name not in OWN or name == "PYTHONPATH"}
    path = inherited.get("PYTHONPATH", "")
    return inherited | {
        "PYTHONPATH": os.pathsep.join(part for part in (package_parent, path) if part),
        "PYTHONUNBUFFERED": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "TMPDIR": _made(os.path.join(template, "tmp")),
        **cache_variables(os.path.join(template, "cache")),
    }


def cache_variables(folder: str) -> dict[str, str]:
    """The variables that put all of the compiler's caches below one folder."""
    _made(folder)
    return {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")}


def enter(variables: Mapping[str, str]) -> None:
    """Take on these variables in a worker that has already started; temporary files follow."""
    os.environ.update(variables)
    tempfile.tempdir = None


def template_folder() -> str:
    """Where the compiler's probes and precompiled headers for this torch, compiler and processor are kept between runs."""
    base = os.environ.get("TORCHSTONE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "torchstone"
    )
    known = (_torch_version(), platform.python_version(), sys.executable, _compiler(), _processor())
    name = hashlib.sha256("\n".join(known).encode()).hexdigest()[:12]
    return _made(os.path.join(base, f"compiler-{name}"))


def make_scratch() -> str:
    """An empty folder for one run's caches and temporary files; the run removes it."""
    return tempfile.mkdtemp(prefix="torchstone-")


def make_case_folder(scratch: str, number: int, template: str, kept_cache: str | None) -> dict[str, str]:
    """The variables for one case: its own temporary files, and a cold cache made from the template, or the kept one."""
    own = _made(os.path.join(scratch, f"case-{number}"))
    if kept_cache is None:
        cache = os.path.join(own, "cache")
        shutil.copytree(os.path.join(template, "cache"), cache, dirs_exist_ok=True)
    else:
        cache = kept_cache
    return {"TMPDIR": _made(os.path.join(own, "tmp")), **cache_variables(cache)}


def drop_case_folder(scratch: str, number: int) -> None:
    """Remove what one case left behind."""
    shutil.rmtree(os.path.join(scratch, f"case-{number}"), ignore_errors=True)


def _made(folder: str) -> str:
    os.makedirs(folder, exist_ok=True)
    return folder


def _torch_version() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "none"


def _compiler() -> str:
    command = os.environ.get("CXX", "g++")
    try:
        told = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return f"no {command}"
    return told.stdout.partition("\n")[0]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line for line in file if line.startswith(("model name", "flags", "Features"))]
    except OSError:
        return platform.processor()
    return "".join(lines[:2])
