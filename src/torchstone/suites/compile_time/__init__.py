"""Count what the compiler costs: the benchmarks that PyTorch gates its own changes on, under the same names.

Sizes and exercised features are those of the originals, so recorded histories continue; the code is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.define.benchmarks import Benchmark, Suite
from torchstone.define.counted import Counted
from torchstone.suites.compile_time import (
    ahead_of_time as compile_time_aot,
)
from torchstone.suites.compile_time import (
    diffusion as compile_time_diffusion,
)
from torchstone.suites.compile_time import (
    dtensor as compile_time_dtensor,
)
from torchstone.suites.compile_time import (
    loops as compile_time_loops,
)
from torchstone.suites.compile_time import (
    modules as compile_time_modules,
)
from torchstone.suites.compile_time import (
    runtime as compile_time_runtime,
)
from torchstone.suites.compile_time import (
    symbolic as compile_time_symbolic,
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
    """Return new instances of all benchmarks, sorted by name."""
    return sorted((each for topic in TOPICS for each in topic.collect()), key=lambda each: each.name)


def _no_models() -> Sequence[Benchmark]:
    """Return no models: nothing here has a speed or accuracy to measure."""
    return ()


SUITE = Suite(
    "compile_time",
    "what the compiler costs, in instructions",
    _no_models,
    ("torch",),
    advice="pip install torch",
    counted=collect,
)
