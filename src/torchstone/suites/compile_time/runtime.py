"""Benchmark the overhead of the compiler at every call and at import."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torchstone.define.counted import Counted
from torchstone.suites.compile_time.base import forget, same_stack

if TYPE_CHECKING:
    from torch import Tensor

WARM_CALLS = 10
MANY_WARM_CALLS = 10_000
INPUTS = 13


class RuntimeOverhead(Counted):
    """Call compiled code that does almost nothing."""

    category = "runtime_overhead"
    counts = "all"
    backend = "inductor"
    device = "cuda"
    dynamic = False
    trained = False
    """Whether the input requires a gradient."""
    inferring = False
    """Whether the call is made in inference mode."""
    backward = False
    """Whether backward is counted instead of forward."""

    def prepare_once(self) -> None:
        """Compile, and run until all one-time work is done."""
        import torch

        forget()
        self.value = torch.ones(2, device=self.device, requires_grad=self.trained)
        self.call: Callable[[Tensor], Tensor] = torch.compile(
            add_one, backend=self.backend, fullgraph=True, dynamic=self.dynamic
        )
        with same_stack():
            for _ in range(WARM_CALLS):
                self.prepare()
                self.work()

    def prepare(self) -> None:
        """Run forward, if backward is counted."""
        if self.backward:
            self.result = self.call(self.value).sum()

    def work(self) -> None:
        """Run one call, or one backward."""
        if self.backward:
            self.result.backward()  # type: ignore[no-untyped-call]
        elif self.inferring:
            self._infer()
        else:
            self.call(self.value)

    def _infer(self) -> None:
        import torch

        with torch.inference_mode():
            self.call(self.value)

    def finish(self) -> None:
        """Release the compiled code."""
        forget()


def add_one(value: Tensor) -> Tensor:
    """Do almost nothing."""
    return value + 1


class DisableOverhead(Counted):
    """Call a function that is excluded from compilation."""

    category = "disable_overhead"
    description = "a call of a function that is disabled for the compiler"
    counts = "all"

    def prepare_once(self) -> None:
        """Wrap it, and call it until all one-time work is done."""
        import torch

        forget()
        disable: Any = torch._dynamo.disable
        self.call = disable(unchanged)
        self.value = torch.ones(1)
        for _ in range(WARM_CALLS):
            self.work()

    def work(self) -> None:
        """Call it once."""
        self.call(self.value)


def unchanged(value: Tensor) -> Tensor:
    """Return the input, so that only the wrapper is counted."""
    return value


class AutogradFunction(Counted):
    """Call a custom autograd function whose forward does nothing."""

    category = "autograd_function_apply"
    description = "a custom autograd function with 13 inputs, 2 outputs and nothing saved"
    counts = "all"
    device = "cuda"

    def prepare_once(self) -> None:
        """Create the function, and call it until all one-time work is done."""
        import torch

        outputs = tuple(torch.empty(0, device=self.device) for _ in range(2))
        self.call = autograd_function(outputs)
        self.inputs = [torch.empty(0, device=self.device, requires_grad=True) for _ in range(INPUTS)]
        for _ in range(MANY_WARM_CALLS):
            self.work()
        if self.device != "cpu":
            torch.accelerator.synchronize()

    def work(self) -> None:
        """Call it once."""
        self.call(*self.inputs)


def autograd_function(outputs: tuple[Tensor, ...]) -> Callable[..., Any]:
    """Return a function that returns existing tensors."""
    import torch

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401, ARG004  (torch's own signature)
            return outputs

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> None:  # noqa: ANN401  (torch's own signature)
            raise NotImplementedError

    apply: Callable[..., Any] = Nothing.apply
    return apply


class ImportTime(Counted):
    """Import a module in a separate process, which reports how long it took."""

    category = "import_time"
    counts = "all"
    in_children = True
    module = ""

    def missing(self) -> str:
        """Return why it is not available: the module may not be installed."""
        top = self.module.partition(".")[0]
        return "" if importlib.util.find_spec(top) else f"{top} is not installed"

    def prepare_once(self) -> None:
        """Clear the last measurement."""
        self.microseconds = 0.0

    def work(self) -> None:
        """Import the module."""
        command = [sys.executable, "-X", "importtime", "-c", f"import {self.module}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603  (our own interpreter, our own code)
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2]
            raise RuntimeError(f"import {self.module}: {last}")
        self.microseconds = cumulative_time(self.module, done.stderr)

    def measured(self) -> dict[str, float]:
        """Return the cumulative import time in microseconds of wall time."""
        return {"import_time_us": self.microseconds}


def cumulative_time(module: str, report: str) -> float:
    """Return the time of a module in the output of ``-X importtime``.

    >>> cumulative_time("re", "import time: self [us] | cumulative | imported package\\nimport time:       300 |       1200 | re")
    1200.0
    """
    for line in report.splitlines():
        columns = line.removeprefix("import time:").split("|")
        if len(columns) == 3 and columns[2].strip() == module:
            return float(columns[1])
    raise RuntimeError(f"python did not report the import time of {module}")


def collect() -> Sequence[Counted]:
    """Return the benchmarks of this module."""
    return [
        *_overheads(),
        DisableOverhead("disable_overhead"),
        AutogradFunction("autograd_function_apply_13_in_2_out_no_save"),
        *(
            ImportTime(
                f"import_time_{module.replace('.', '_')}", module=module, description=f"import of {module}"
            )
            for module in ("torch._dynamo", "torch._inductor", "triton")
        ),
    ]


def _overheads() -> list[Counted]:
    """Return every kind of call, with static and dynamic sizes; and one on a CPU without generated code."""
    call = "a call of a compiled addition"
    kinds: list[tuple[str, str, dict[str, bool]]] = [
        ("", call, {}),
        ("_inference_mode", f"{call} in inference mode", {"inferring": True}),
        ("_requires_grad", f"{call} that records a gradient", {"trained": True}),
        (
            "_requires_grad_backward",
            "backward of a compiled addition",
            {"trained": True, "backward": True},
        ),
    ]
    found: list[Counted] = [
        RuntimeOverhead(
            "runtime_overhead_eager_cpu",
            backend="eager",
            device="cpu",
            description=f"{call}, run by eager torch",
        )
    ]
    for kind, description, attributes in kinds:
        name = f"runtime_overhead_inductor{kind}"
        found.append(RuntimeOverhead(name, description=description, **attributes))
        unknown = f"{description}, for any size"
        found.append(RuntimeOverhead(f"{name}_dynamic", dynamic=True, description=unknown, **attributes))
    return found
