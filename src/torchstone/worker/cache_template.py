"""Fill the cache template with what the first compilation on a machine has to do once, and record how long that took."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import time
from collections.abc import Callable, Iterator

_FILLED = "torchstone-filled"
"""A file in the template that exists once it is filled, and contains the seconds that took."""


def is_filled(template: str) -> bool:
    """Return whether the template contains the compiler's probes and precompiled headers."""
    return os.path.exists(os.path.join(template, _FILLED))


def fill(template: str, work: Callable[[], object]) -> None:
    """Fill the template by calling ``work``, which compiles; if it does not raise, record how long it took.

    Only one process does this at a time. It first removes the remains of a process that was killed, because
    files may be incomplete.
    """
    with _locked(template):
        if is_filled(template):
            return
        _clear(template)
        began = time.monotonic()
        work()
        written = os.path.join(template, f"{_FILLED}.{os.getpid()}.part")
        with open(written, "w") as file:
            file.write(f"{time.monotonic() - began:.3f}\n")
        os.replace(written, os.path.join(template, _FILLED))


@contextlib.contextmanager
def _locked(template: str) -> Iterator[None]:
    """Hold the lock on the template, if the file system supports locks."""
    handle = os.open(template, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _clear(template: str) -> None:
    """Remove the remains of an incomplete fill."""
    for pattern in (f"{_FILLED}.*.part", "cache/*", "tmp/*"):
        for path in glob.glob(os.path.join(glob.escape(template), pattern)):
            with contextlib.suppress(OSError):
                os.unlink(path) if not os.path.isdir(path) else shutil.rmtree(path)


def read_probing_seconds(template: str) -> float | None:
    """Return the seconds that filling the template took; None if it is not filled, or the time is unknown."""
    with contextlib.suppress(OSError, ValueError), open(os.path.join(template, _FILLED)) as file:
        return float(file.read(100))
    return None


def compile_tiny_graph() -> None:
    """Compile a graph with a matrix product, a reduction and a backward pass, which uses all parts of the compiler."""
    import torch  # noqa: PLC0415  (importing this module must not load torch)

    def tiny(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ weight).softmax(-1).sum()

    weight = torch.ones(8, 8, requires_grad=True)
    torch.autograd.backward(torch.compile(tiny, dynamic=False)(torch.ones(4, 8), weight))
    with torch.no_grad():
        torch.compile(tiny, dynamic=False)(torch.ones(4, 8), weight)
    torch._dynamo.reset()
