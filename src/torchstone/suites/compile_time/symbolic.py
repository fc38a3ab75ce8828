"""Benchmark symbolic shapes: the cost of reasoning about sizes unknown at compile time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torchstone.define.counted import COUNTS, Counted
from torchstone.suites.compile_time.base import Compiled, forget, seeded

if TYPE_CHECKING:
    from torch import Tensor

CAPTURED = {"capture_scalar_outputs": True}
SUMMED = 200
SPLITS = 20
ITEMS = 100


class SymbolicSum(Compiled):
    """Sum many numbers read from a tensor."""

    category = "symint_sum"
    description = "the sum of 200 unknown integers, by sum()"
    dynamo = CAPTURED
    by_loop = False
    """Whether to add one by one instead of with sum()."""

    def prepare_once(self) -> None:
        """Create the numbers."""
        import torch

        self.numbers = torch.randint(10, (SUMMED,), generator=seeded())

    def run(self) -> None:
        """Compile."""
        import torch

        def at_once(numbers: Tensor) -> Tensor:
            return torch.tensor(sum(numbers.tolist()))

        def one_by_one(numbers: Tensor) -> Tensor:
            total = 0
            for number in numbers.tolist():
                total += number
            return torch.tensor(total)

        torch.compile(one_by_one if self.by_loop else at_once, fullgraph=True)(self.numbers)


class FloorDivision(Compiled):
    """Export the half of a sum of many unknown numbers."""

    category = "sum_floordiv"
    description = "export of the sum of 100 unknown integers, halved (pytorch issue 134133)"
    counts = "all"
    metric = COUNTS["compile"]  # export only compiles, whichever tracer it uses
    backend = "export"

    def prepare_once(self) -> None:
        """Create the module and its numbers."""
        import torch

        class Half(torch.nn.Module):
            def forward(self, numbers: list[Tensor]) -> float:
                return sum(each.item() for each in numbers) // 2

        self.module = Half()
        self.numbers = [torch.tensor(number + 2) for number in range(ITEMS)]

    def run(self) -> None:
        """Export it."""
        import torch

        torch.export.export(self.module, (self.numbers,), strict=True)


class UpdateHint(Compiled):
    """Split a tensor into parts of unknown sizes, each with an upper bound."""

    category = "update_hint"
    description = "a split into 20 parts of unknown sizes with known bounds (pytorch pull request 129893)"
    dynamo = CAPTURED

    def prepare_once(self) -> None:
        """Create the tensor and the sizes."""
        import torch

        self.sizes = torch.randint(10, (SPLITS,), generator=seeded())
        self.values = torch.ones(int(self.sizes.sum()))

    def run(self) -> None:
        """Compile."""
        import torch

        library: Any = torch

        def split_bounded(values: Any, sizes: Tensor) -> Any:  # noqa: ANN401  (torch does not say what its methods take)
            known = sizes.tolist()
            for size in known:
                library._check(size >= 0)
                library._check(size <= SPLITS)
            return values.split(known)

        torch.compile(split_bounded, fullgraph=True)(self.values, self.sizes)


class SplitAndJoin(Counted):
    """Export a function that splits tensors into parts of unknown sizes, flips each, and joins them."""

    category = "unbind_split_flip_cat"
    description = "export of 40 splits into 128 parts of unknown sizes, flipped and joined"
    counts = "all"
    backend = "export"
    rounds = 40
    parts = 128

    def prepare_once(self) -> None:
        """Create the module and its inputs."""
        import torch

        source = seeded()
        self.sizes = [torch.randint(1, 10, (self.parts,), generator=source) for _ in range(self.rounds)]
        self.values = [torch.arange(int(each.sum())) for each in self.sizes]
        parts = self.parts

        class Join(torch.nn.Module):
            def forward(self, sizes: list[Tensor], values: list[Tensor]) -> list[Tensor]:
                return [split_and_join(*each, parts) for each in zip(sizes, values, strict=True)]

        self.module = Join()

    def missing(self) -> str:
        """Return why it is not available: only newer versions of torch have these settings."""
        import torch
        from torch.fx.experimental import _config as shapes

        if not hasattr(shapes, "AggressiveGuardFreeMode"):
            return f"torch {torch.__version__} has no AggressiveGuardFreeMode"
        return ""

    def prepare(self) -> None:
        """Reset the compiler."""
        forget()

    def work(self) -> None:
        """Export it, with as little reasoning about sizes as possible."""
        import torch

        with least_reasoning():
            torch.export.export(self.module, (self.sizes, self.values))

    def finish(self) -> None:
        """Reset the compiler."""
        forget()


@contextmanager
def least_reasoning() -> Iterator[None]:
    """Capture unknown numbers, without deriving ranges, and without provenance in graphs."""
    import torch._dynamo
    import torch.fx.config as plain  # a plain module, which config.patch cannot handle
    from torch.fx.experimental import _config

    shapes: Any = _config
    least = shapes.AggressiveGuardFreeMode.SKIP_RANGE_ANALYSIS
    before = plain.do_not_emit_stack_traces
    with (
        torch._dynamo.config.patch(CAPTURED),
        shapes.patch(aggressive_guard_free_semantics=least),
    ):
        plain.do_not_emit_stack_traces = True
        try:
            yield
        finally:
            plain.do_not_emit_stack_traces = before


def split_and_join(sizes: Any, values: Any, parts: int) -> Tensor:  # noqa: ANN401  (torch does not say what its methods take)
    """Split, flip every part, and join; the sum of the sizes is one more expression to reason about."""
    import torch

    library: Any = torch
    known = []
    each_size = sizes.to(torch.int64).unbind()
    for place in range(parts):
        size = each_size[place].item()
        library._check(size >= 0)
        known.append(size)
    total = known[0]
    for size in known[1:]:
        total = total + size
    pieces = values.split(known)
    return torch.cat([pieces[place].flip([0]) for place in range(parts)])


def collect() -> Sequence[Counted]:
    """Return the benchmarks of this module."""
    return [
        SymbolicSum("symint_sum"),
        SymbolicSum(
            "symint_sum_loop", by_loop=True, description="the sum of 200 unknown integers, one by one"
        ),
        FloorDivision("sum_floordiv_regression"),
        UpdateHint("update_hint_regression"),
        SplitAndJoin("unbind_split_flip_cat_iter40_batch128"),
    ]
