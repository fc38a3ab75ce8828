"""Benchmark nested modules: tracing them, and checking their guards at every call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torchstone.define.counted import Counted
from torchstone.suites.compile_time.base import Compiled, forget, same_stack, settings

if TYPE_CHECKING:
    from torch import Tensor, nn

LINEARS = 20
NESTED_DEPTH, NESTED_WIDTH = 3, 4
DEPTH = 40
LAYERS, WIDTH = 20, 64


class Modules(Compiled):
    """Compile a module for one input."""

    backend = "eager"
    precision = "high"

    def prepare_once(self) -> None:
        """Create the module and its input."""
        import torch

        self.module = self.build().to(self.device)
        self.value = torch.ones(10, device=self.device)

    def build(self) -> nn.Module:
        """Build the module."""
        raise NotImplementedError

    def run(self) -> None:
        """Compile it."""
        import torch

        torch.compile(self.module, backend=self.backend, dynamic=self.dynamic)(self.value)


class ListOfLinears(Modules):
    """Compile linear layers in a list that is iterated and indexed."""

    category = "basic_modules"
    description = "a list of 20 linear layers, each used with another one of the list"
    dynamic = False
    empty_cache = True

    def build(self) -> nn.Module:
        """Build the list."""
        import torch

        class Linears(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = torch.nn.ModuleList(torch.nn.Linear(10, 10) for _ in range(LINEARS))

            def forward(self, value: Tensor) -> Tensor:
                for place, layer in enumerate(self.layers):
                    value = self.layers[place // 2](value) + layer(value)
                return value

        return Linears()


class Nested(Modules):
    """Compile a tree of modules."""

    category = "basic"
    description = "a tree of modules, three levels below the root, four branches at each"
    dynamic = False

    def build(self) -> nn.Module:
        """Build the tree."""
        import torch

        class Node(torch.nn.Module):
            def __init__(self, depth: int) -> None:
                super().__init__()
                self.before, self.after = torch.nn.ReLU(), torch.nn.ReLU()
                branches = (Node(depth - 1) if depth else torch.nn.ReLU() for _ in range(NESTED_WIDTH))
                self.branches = torch.nn.Sequential(*branches)
                self.offset = 2

            def forward(self, value: Tensor) -> Tensor:
                value = self.before(value)
                value = value + self.branches(value)
                result: Tensor = value + self.after(value) + self.offset
                return result

        return Node(NESTED_DEPTH)


class DeepNested(Modules):
    """Compile a chain of nested modules, whose weights have long names."""

    category = "deep_nested_module"
    description = "linear layers in modules that hold each other, 40 deep"
    precision = ""

    def build(self) -> nn.Module:
        """Build the chain."""
        import torch

        class Chain(torch.nn.Module):
            def __init__(self, depth: int) -> None:
                super().__init__()
                self.depth = depth
                if depth:
                    self.child = Chain(depth - 1)
                self.linear = torch.nn.Linear(10, 10)

            def forward(self, value: Tensor) -> Tensor:
                if self.depth:
                    value = self.child(value)
                result: Tensor = self.linear(value)
                return result

        return Chain(DEPTH)

    def run(self) -> None:
        """Compile a function that calls it with a single row."""
        import torch

        module = self.module

        def call(value: Tensor) -> Tensor:
            result: Tensor = module(value)
            return result

        # Tracing needs nearly the whole recursion limit, and what is left of it depends on the caller.
        with same_stack(more=1000):
            torch.compile(call, backend=self.backend)(self.value.unsqueeze(0))


class GuardEvaluation(Counted):
    """Check the guards of a stack of equal modules, without running compiled code."""

    category = "nn_module_guard_eval"
    description = "evaluation of the guards of a stack of 20 modules that share an object"
    backend = "eager"
    dynamic = False

    def prepare_once(self) -> None:
        """Compile, and get the guards."""
        import torch
        from torch._dynamo.eval_frame import _debug_get_cache_entry_list

        forget()
        module = stack_of_modules()
        # A view: the relation between its sizes and its base's is guarded too.
        value = torch.ones(2 * WIDTH, WIDTH)[:WIDTH]
        with settings():
            torch.compile(module, backend=self.backend, fullgraph=True, dynamic=self.dynamic)(value)
        code = type(module).forward.__code__
        self.guards: Any = _debug_get_cache_entry_list(code)[0].guard_manager
        self.variables = {"self": module, "value": value}
        if not self.guards.check(self.variables):
            raise RuntimeError("the guards reject the input they were made for")

    def work(self) -> None:
        """Check the guards."""
        self.guards.check(self.variables)

    def finish(self) -> None:
        """Release the compiled code."""
        del self.guards
        forget()


def stack_of_modules() -> nn.Module:
    """Build layers that differ in a number and share an object, whose identity is guarded."""
    import torch

    class Common:
        active = True

    class Layer(torch.nn.Module):
        offset: Tensor

        def __init__(self, place: int, common: Common) -> None:
            super().__init__()
            self.small = 1e-6
            self.factor = 0.5 + place / 1000
            self.register_buffer("offset", torch.ones(WIDTH))
            self.common = common

        def forward(self, value: Tensor) -> Tensor:
            if self.common.active:  # reading it makes it guarded
                value = value + self.small
            return value * self.factor + self.offset

    class Stack(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            common = Common()
            common.active = True
            self.layers = torch.nn.ModuleList(Layer(place, common) for place in range(LAYERS))

        def forward(self, value: Tensor) -> Tensor:
            for layer in self.layers:
                value = layer(value)
            return value

    return Stack()


def collect() -> Sequence[Counted]:
    """Return the benchmarks of this module."""
    padded = {"force_shape_pad": True}
    linears = "basic_modules_ListOfLinears"
    return [
        ListOfLinears(f"{linears}_eager"),
        ListOfLinears(f"{linears}_inductor", backend="inductor"),
        ListOfLinears(f"{linears}_inductor_gpu", backend="inductor", device="cuda"),
        ListOfLinears(
            f"{linears}_inductor_gpu_force_shape_pad", backend="inductor", device="cuda", inductor=padded
        ),
        Nested("basic_NestedModule_eager"),
        DeepNested("deep_nested_module_cpu"),
        GuardEvaluation("nn_module_guard_eval"),
        GuardEvaluation("nn_module_guard_eval_dynamic", dynamic=True),
    ]
