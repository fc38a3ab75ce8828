"""What the parts that are made for accelerators cost a case on a CPU: run by run_suite.py, in a fresh process.

    PYTHONPATH=src python benchmarks/cpu_only.py

Measures one small model as a worker does, with a clock around every call and every import of these parts; prints the seconds of both as JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import ParamSpec, TypeVar

from device_time import Alone

MODEL = "BertForMaskedLM"
MODULES = (
    "torchstone.worker.probes.device_time.device_results",
    "torchstone.worker.probes.device_time.watching",
    "torchstone.worker.probes.time_profile.taking",
    "torchstone.worker.probes.compiler.torch_settings",
)
CALLED = {
    "torchstone.worker.probes.performance": ("watch_device", "note_device_state", "take_device_times"),
    "torchstone.worker.probes.run_case": ("read_torch_settings",),
    "torchstone.worker.probes.compiler.torch_settings": ("apply_torch_settings",),
}
"""Functions for accelerators, by the module that calls them, or has them."""

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


class Spent:
    """Adds up the seconds of calls."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def timed(self, function: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
        """Return the function with a clock around it."""

        @wraps(function)
        def call(*given: _Given.args, **named: _Given.kwargs) -> _Found:
            began = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                self.seconds += time.perf_counter() - began
                self.calls += 1

        return call


def main() -> None:
    """Measure the model, and print the seconds of the case, and of what is for accelerators within it."""
    import torch  # noqa: PLC0415  (what it takes is no part of a case)

    from torchstone.core.text import units  # noqa: F401, PLC0415  (likewise: every run needs it)
    from torchstone.suites import load_suite  # noqa: PLC0415
    from torchstone.worker.probes import timing, warm_up  # noqa: F401, PLC0415  (likewise)
    from torchstone.worker.protocol.jobs import CaseAxes, MeasureJob, TorchSettings  # noqa: PLC0415
    from torchstone.worker.protocol.source_message import SourceMessage  # noqa: PLC0415

    torch.set_num_threads(1)
    suite = load_suite("huggingface")
    if suite.prepare:
        suite.prepare()
    benchmark = next(each for each in suite.collect() if each.name == MODEL)
    importing = Spent()
    began = time.perf_counter()
    for name in MODULES:
        importing.timed(import_module)(name)
    from torchstone.worker.probes.reply import PhaseClock, Result  # noqa: PLC0415
    from torchstone.worker.probes.run_case import run_case  # noqa: PLC0415

    calling = Spent()
    for name, functions in CALLED.items():
        module = import_module(name)
        for function in functions:
            setattr(module, function, calling.timed(getattr(module, function)))
    import_module("torchstone.worker.probes.compiler.torch_settings").apply_torch_settings(TorchSettings())
    axes = CaseAxes("cpu", "inductor", "inference", "float32", batch_size=2, size="small")
    result = Result()
    run_case(
        benchmark,
        MeasureJob(SourceMessage(), MODEL, "performance", axes),
        PhaseClock(Alone(), result),
        result,
    )
    seconds = time.perf_counter() - began
    print(
        json.dumps(
            {
                "seconds": seconds,
                "importing": importing.seconds,
                "calling": calling.seconds,
                "calls": calling.calls,
                "metrics": [each.metric for each in result.measurements],
            }
        )
    )


if __name__ == "__main__":
    main()
