"""Filling the template: what the first compile on a machine pays once, for all models, is paid here, and how long it took is noted."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import time
from collections.abc import Callable, Iterator

_FILLED = "torchstone-filled"
"""A file in the template: it is there once the template is filled, and says how many seconds that took."""


def is_filled(template: str) -> bool:
    """Whether the compiler's probes and precompiled headers are in the template."""
    return os.path.exists(os.path.join(template, _FILLED))


def fill(template: str, work: Callable[[], object]) -> None:
    """Fill the template by ``work``, which compiles; if that does not raise, note how long it took.

    One process at a time does it, and begins with nothing: what one that was killed has left may be half a file.
    """
    with _alone_in(template):
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
def _alone_in(template: str) -> Iterator[None]:
    """While no other process fills the template, as far as the file system has locks."""
    handle = os.open(template, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _clear(template: str) -> None:
    """Remove what was compiled into a template, but not to the end."""
    for pattern in (f"{_FILLED}.*.part", "cache/*", "tmp/*"):
        for path in glob.glob(os.path.join(glob.escape(template), pattern)):
            with contextlib.suppress(OSError):
                os.unlink(path) if not os.path.isdir(path) else shutil.rmtree(path)


def read_probing_seconds(template: str) -> float | None:
    """How long filling the template took; None where it is not filled, or where nobody noted it."""
    with contextlib.suppress(OSError, ValueError), open(os.path.join(template, _FILLED)) as file:
        return float(file.read(100))
    return None


def compile_tiny_graph() -> None:
    """A graph with a matrix product, a reduction and a backward pass, so that all parts of the compiler have been used."""
    import torch  # noqa: PLC0415  (importing this module must not load torch)

    def tiny(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ weight).softmax(-1).sum()

    weight = torch.ones(8, 8, requires_grad=True)
    torch.autograd.backward(torch.compile(tiny, dynamic=False)(torch.ones(4, 8), weight))
    with torch.no_grad():
        torch.compile(tiny, dynamic=False)(torch.ones(4, 8), weight)
    torch._dynamo.reset()
