"""Read the environment of a run: machine, accelerators, software, variables, threads.

Standard library and torch only (torch inside functions): it runs inside a worker, where nothing else may be
installed. An unknown fact is None or left out; no fact makes a run fail. ``torchstone.core.environments``
defines which facts decide whether times may be compared.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from importlib import metadata
from typing import Any

from torchstone.core.environment_variables import KNOWN, shown_value
from torchstone.worker.machine.accelerators import read_accelerators
from torchstone.worker.machine.external_programs import first_line
from torchstone.worker.machine.hardware import read_machine
from torchstone.worker.protocol.codec import to_json
from torchstone.worker.protocol.replies import EnvironmentFound

_ALWAYS = ("numpy", "triton")
_DISTRIBUTIONS = {"triton": ("triton", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu")}
_PREFIXES = (
    *("TORCH", "PYTORCH", "TRITON", "ATEN_", "XLA", "CUDA", "CUBLAS", "HIP", "ROCR_", "HSA_", "NCCL"),
    *("OMP_", "MKL", "KMP", "GOMP", "OPENBLAS", "DNNL", "ONEDNN", "MALLOC_"),
)
_OWN_PREFIXES = (
    "TORCHSTONE",
    "TORCHELASTIC_",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
)  # set by torchstone and by torchrun


def probe_environment(libraries: Sequence[str], device: str, own: Collection[str] = ()) -> EnvironmentFound:
    """Return all facts of this process's environment.

    ``libraries`` are the modules whose versions matter besides torch. ``device`` is the device to measure on;
    accelerators are queried, and their driver started, only if it is one. ``own`` names variables that
    torchstone itself has set.
    """
    return EnvironmentFound(
        machine=_attempt(lambda: to_json(read_machine()), {}),
        device=device,
        accelerators=tuple(map(to_json, read_accelerators(device))),
        software={
            "python": {
                "version": platform.python_version(),
                "implementation": platform.python_implementation(),
            },
            "torch": _attempt(_read_torch, {}),
            "compiler": _attempt(read_compiler, None),
            "libc": _attempt(lambda: " ".join(platform.libc_ver()).strip() or None, None),
        },
        versions=read_versions(("torch", *libraries)),
        variables=read_variables(own),
        threads=_attempt(_count_threads, None),
    )


def _attempt(function: Callable[[], Any], otherwise: Any) -> Any:  # noqa: ANN401  (facts are anything)
    try:
        return function()
    except Exception:  # noqa: BLE001  (a fact that cannot be read must not fail a run)
        return otherwise


def _read_torch() -> dict[str, str | bool | None]:
    """Return torch's version, its source and what it was built for."""
    import torch  # noqa: PLC0415  (importing this module must not load torch)

    return {
        "version": str(torch.__version__),
        "git": torch.version.git_version,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "debug": bool(torch.version.debug),
        "cpu_capability": _attempt(torch.backends.cpu.get_cpu_capability, None),
    }


def _count_threads() -> int:
    import torch  # noqa: PLC0415  (importing this module must not load torch)

    return torch.get_num_threads()


def compiler_command() -> list[str]:
    """Return the command of the C++ compiler that inductor would call: ``$CXX``, or the system's own."""
    default = "clang++" if sys.platform == "darwin" else "g++"
    try:
        return shlex.split(os.environ.get("CXX", "")) or [default]
    except ValueError:
        return [default]


def read_compiler() -> str | None:
    """Return the C++ compiler's description of itself; None if there is no compiler."""
    return first_line([*compiler_command(), "--version"]) or None


def read_versions(libraries: Sequence[str]) -> dict[str, str]:
    """Return the versions of these modules, and of numpy and triton, if installed."""
    found = {name: _version(name) for name in dict.fromkeys((*libraries, *_ALWAYS))}
    return {name: version for name, version in found.items() if version}


def _version(name: str) -> str | None:
    """Return a module's version: the one it states if it is imported, else that of its distribution."""
    stated = getattr(sys.modules.get(name), "__version__", None)
    if stated:
        return str(stated)
    for distribution in _DISTRIBUTIONS.get(name, (name,)):
        try:
            return metadata.version(distribution)
        except (metadata.PackageNotFoundError, ValueError):
            continue
    return None


def read_variables(own: Collection[str] = ()) -> dict[str, str]:
    """Return the environment variables that may change a measurement; values are hidden unless known to be settings."""
    return {
        name: shown_value(name, value)
        for name, value in sorted(os.environ.items())
        if (name in KNOWN or name.startswith(_PREFIXES))
        and not name.startswith(_OWN_PREFIXES)
        and name not in own
    }
