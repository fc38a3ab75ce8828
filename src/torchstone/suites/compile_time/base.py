"""Share code between benchmarks of the compiler: start from scratch, and leave torch as it was."""

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
    """Work that compiles from scratch: the compiler is reset before every iteration."""

    counts = "compile"
    backend = "inductor"
    dynamo: Mapping[str, Any] = NOTHING
    """Settings of the tracer, for the work only."""
    inductor: Mapping[str, Any] = NOTHING
    """Settings of the code generator, for the work only."""
    empty_cache = False
    """Whether the code generator starts with an empty cache on disk at every iteration."""
    precision = ""
    """Precision of float32 matrix products, for the work only."""

    def prepare(self) -> None:
        """Reset the compiler."""
        forget()

    def work(self) -> None:
        """Compile and run once, with this benchmark's settings."""
        with settings(self.dynamo, self.inductor, self.precision), cache(self.empty_cache):
            self.run()

    def run(self) -> None:
        """Run the code to compile."""
        raise NotImplementedError

    def finish(self) -> None:
        """Release the compiled code."""
        forget()


def forget() -> None:
    """Reset the compiler."""
    import torch._dynamo

    torch._dynamo.reset()


@contextmanager
def settings(
    dynamo: Mapping[str, Any] = NOTHING, inductor: Mapping[str, Any] = NOTHING, precision: str = ""
) -> Iterator[None]:
    """Apply compiler settings temporarily. Shape guards stay in Python, as in the recorded histories."""
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
    """Restore the recursion limit afterwards, whatever the compiler sets; optionally raise it meanwhile."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + more)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def cache(empty: bool) -> Iterator[None]:
    """Use an empty cache of generated code temporarily, if asked for."""
    if not empty:
        yield
        return
    from torch._inductor.utils import fresh_cache

    with fresh_cache():
        yield


def seeded() -> Generator:
    """Return a seeded generator that leaves torch's own untouched."""
    import torch

    return torch.Generator().manual_seed(0)
