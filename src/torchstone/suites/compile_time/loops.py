"""Benchmark long straight graphs: many operations, calls, products, recompilations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torchstone.define.counted import Counted
from torchstone.suites.compile_time.base import Compiled

if TYPE_CHECKING:
    from torch import Tensor

OPERATIONS = 1000
PRODUCTS = 200
CALLS = 1000


class AddLoop(Compiled):
    """Compile a thousand steps on a vector: add another, add eight times another, take the sine."""

    category = "add_loop"
    description = "a loop that is unrolled into 1000 additions, scaled additions and sines"
    dynamic = False
    empty_cache = True

    def prepare_once(self) -> None:
        """Create two vectors."""
        import torch

        self.start = torch.ones(1000, device=self.device)
        self.step = torch.ones(1000, device=self.device)

    def run(self) -> None:
        """Compile the loop."""
        import torch

        torch.compile(add_loop, backend=self.backend, fullgraph=True, dynamic=self.dynamic)(
            self.start, self.step
        )


def add_loop(start: Tensor, step: Tensor) -> Tensor:
    """Run the loop, which the tracer unrolls."""
    value = start.clone()
    for number in range(OPERATIONS):
        turn = number % 3
        if turn == 0:
            value = value + step
        elif turn == 1:
            value = value + 8 * step
        else:
            value = value.sin()
    return value


class ProductLoop(Compiled):
    """Compile a chain of matrix products, each of which is tuned."""

    category = "mm_loop"
    description = "a chain of 201 small matrix products, with all kernels tried"
    device = "cuda"
    dynamic = False
    empty_cache = True
    inductor = {"max_autotune": True}  # noqa: RUF012  (never changed)

    def prepare_once(self) -> None:
        """Create two small matrices."""
        import torch

        self.left = torch.ones(10, 10, device=self.device)
        self.right = torch.ones(10, 10, device=self.device)

    def run(self) -> None:
        """Compile the chain."""
        import torch

        torch.compile(product_loop, backend=self.backend, fullgraph=True, dynamic=self.dynamic)(
            self.left, self.right
        )


def product_loop(left: Tensor, right: Tensor) -> Tensor:
    """Run the chain, which the tracer unrolls."""
    value = left.mm(right)
    for _ in range(PRODUCTS):
        value = value.mm(right)
    return value


class Inlining(Compiled):
    """Compile a thousand calls of a function that is ten calls deep."""

    category = "basic"
    description = "1000 calls through ten nested functions, all inlined"
    backend = "eager"
    dynamic = False
    precision = "high"

    def prepare_once(self) -> None:
        """Create a module that makes the calls."""
        import torch

        class Caller(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.calls = CALLS

            def forward(self, value: Tensor) -> Tensor:
                for _ in range(self.calls):
                    value = ninth(value)
                return value

        self.module = Caller()
        self.value = torch.ones(10, device=self.device)

    def run(self) -> None:
        """Compile the module."""
        import torch

        torch.compile(self.module, backend=self.backend, dynamic=self.dynamic)(self.value)


def innermost(value: Tensor) -> Tensor:
    """Add one: the only function that computes."""
    return value + 1


# Written out, because inlining is counted: every call must be to another function.
def first(value: Tensor) -> Tensor:  # noqa: D103  (see above)
    return innermost(value)


def second(value: Tensor) -> Tensor:  # noqa: D103  (see above)
    return first(value)


def third(value: Tensor) -> Tensor:  # noqa: D103  (see above)
    return second(value)


def fourth(value: Tensor) -> Tensor:  # noqa: D103  (see above)
    return third(value)


def fifth(value: Tensor) -> Tensor:  # noqa: D103  (see above)
    return fourth(value)


def sixth(value: Tensor) -> Tensor:  # noqa: D103  (see above)
    return fifth(value)


def seventh(value: Tensor) -> Tensor:  # noqa: D103  (see above)
    return sixth(value)


def eighth(value: Tensor) -> Tensor:  # noqa: D103  (see above)
    return seventh(value)


def ninth(value: Tensor) -> Tensor:  # noqa: D103  (see above)
    return eighth(value)


class FloatArguments(Compiled):
    """Call with different floats, which the compiler must learn to treat as dynamic."""

    category = "float_args"
    description = "recompilations for eight values of a float argument"
    empty_cache = True

    def run(self) -> None:
        """Call with eight floats."""
        import torch

        add: Callable[[Tensor, float], Tensor] = torch.compile(add_float, backend=self.backend)
        for number in range(8):
            add(torch.arange(3), number * 2.5)


def add_float(values: Tensor, number: float) -> Tensor:
    """Add a float: only its recompilations matter."""
    return values + number


def collect() -> Sequence[Counted]:
    """Return the benchmarks of this module."""
    return [
        AddLoop("add_loop_eager", backend="eager"),
        AddLoop("add_loop_eager_dynamic", backend="eager", dynamic=True),
        AddLoop("add_loop_inductor"),
        AddLoop("add_loop_inductor_gpu", device="cuda"),
        AddLoop("add_loop_inductor_dynamic_gpu", device="cuda", dynamic=True),
        ProductLoop("mm_loop_inductor_gpu"),
        ProductLoop("mm_loop_inductor_dynamic_gpu", dynamic=True),
        Inlining("basic_InlineMod_eager"),
        FloatArguments("float_args"),
    ]
