"""What benchmarks of the compiler have in common: it starts from nothing, and leaves torch as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torchstone.define.counted import Counted

if TYPE_CHECKING:
    from torch import Generator

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Compiled(Counted):
    """Work in which the compiler has to do everything again: before every iteration it forgets what it knows."""

    counts = "compile"
    backend = "inductor"
    dynamo: Mapping[str, Any] = NOTHING
    """Settings of the tracer, for the work only."""
    inductor: Mapping[str, Any] = NOTHING
    """Settings of the code generator, for the work only."""
    empty_cache = False
    """Whether the code generator starts with an empty cache on disk; otherwise every iteration but the first may find something there."""
    precision = ""
    """Of float32 matrix products, for the work only."""

    def prepare(self) -> None:
        """Forget what has been compiled."""
        forget()

    def work(self) -> None:
        """Compile and run once, under this benchmark's settings."""
        with settings(self.dynamo, self.inductor, self.precision), cache(self.empty_cache):
            self.run()

    def run(self) -> None:
        """What the compiler is made to compile."""
        raise NotImplementedError

    def finish(self) -> None:
        """Let go of the compiled code."""
        forget()


def forget() -> None:
    """Make the compiler forget what it has compiled."""
    import torch._dynamo

    torch._dynamo.reset()


@contextmanager
def settings(
    dynamo: Mapping[str, Any] = NOTHING, inductor: Mapping[str, Any] = NOTHING, precision: str = ""
) -> Iterator[None]:
    """Settings of the compiler for a while. Guards on shapes stay in Python, which is what the recorded histories counted."""
    import torch._dynamo

    with ExitStack() as stack:
        stack.enter_context(same_stack())
        chosen = {"enable_cpp_symbolic_shape_guards": False, **dynamo}
        stack.enter_context(torch._dynamo.config.patch(chosen))
        if inductor:
            import torch._inductor.config

            stack.enter_context(torch._inductor.config.patch(dict(inductor)))
        if precision:
            stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            torch.set_float32_matmul_precision(precision)
        yield


@contextmanager
def same_stack(more: int = 0) -> Iterator[None]:
    """As many nested calls allowed afterwards as before, whatever the compiler allows itself meanwhile; or some more meanwhile."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + more)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def cache(empty: bool) -> Iterator[None]:
    """An empty cache of generated code for a while, if wanted."""
    if not empty:
        yield
        return
    from torch._inductor.utils import fresh_cache

    with fresh_cache():
        yield


def seeded() -> Generator:
    """Random numbers that are the same every time, and leave torch's own where they are."""
    import torch

    return torch.Generator().manual_seed(0)
