"""Count what compiling a model costs, from scratch at every iteration."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch._dynamo
from torch._inductor import utils as inductor

from torchstone.define.benchmarks import Work
from torchstone.define.counted import Counted
from torchstone.worker.probes.subject import Target, gradient_mode, make_call, seed_everything
from torchstone.worker.protocol.jobs import NO_COMPILER


class CompiledModel(Counted):
    """Compile a benchmark's model and call it once. A C++ compiler is a separate process and is not counted."""

    counts = "compile"

    def __init__(self, name: str, make: Callable[[], Work], target: Target) -> None:
        super().__init__(name, device=target.device.type, backend=target.backend, dynamic=target.dynamic)
        self._make = make
        self._target = target

    def missing(self) -> str:
        """Return why it cannot be counted: without a compiler there is nothing to count."""
        return "the backend 'none' compiles nothing" if self.backend == NO_COMPILER else ""

    def prepare_once(self) -> None:
        """Build the model."""
        self._work = self._make()

    def prepare(self) -> None:
        """Reset the compiler."""
        torch._dynamo.reset()
        seed_everything()

    def work(self) -> None:
        """Compile the model and call it, with an empty cache."""
        with gradient_mode(self._target.mode), fresh_cache():
            make_call(self._work, self._target, self._target.compile(self._work.model))()

    def finish(self) -> None:
        """Release the compiled code."""
        torch._dynamo.reset()


def fresh_cache() -> contextlib.AbstractContextManager[Any]:
    """Use an empty cache of generated code; older versions of torch have another name for it."""
    make: Any = getattr(inductor, "fresh_cache", None) or inductor.fresh_inductor_cache
    cache: contextlib.AbstractContextManager[Any] = make()
    return cache
