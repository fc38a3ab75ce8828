"""What the compiler costs, in instructions: the benchmarks that PyTorch gates its own changes on, under the names they have there.

A history that was recorded under these names goes on: sizes and what is exercised are the same, the code is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.counting import Counted
from torchstone.define import Benchmark, Suite
from torchstone.suites import (
    compile_time_aot,
    compile_time_diffusion,
    compile_time_dtensor,
    compile_time_loops,
    compile_time_modules,
    compile_time_runtime,
    compile_time_symbolic,
)

TOPICS = (
    compile_time_aot,
    compile_time_diffusion,
    compile_time_dtensor,
    compile_time_loops,
    compile_time_modules,
    compile_time_runtime,
    compile_time_symbolic,
)


def collect() -> Sequence[Counted]:
    """All of them, new, in the order of their names."""
    return sorted((each for topic in TOPICS for each in topic.collect()), key=lambda each: each.name)


def _no_models() -> Sequence[Benchmark]:
    """Nothing here is a model whose speed or accuracy could be measured."""
    return ()


SUITE = Suite(
    "compile_time",
    "what the compiler costs, in instructions",
    _no_models,
    ("torch",),
    advice="pip install torch",
    counted=collect,
)
