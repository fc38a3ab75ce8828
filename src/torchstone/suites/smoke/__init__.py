"""Define small networks in plain torch: all of them run in minutes, and need nothing but torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module

from torchstone.define.benchmarks import Benchmark, Check, Suite, Work

BATCH_SIZES = {
    "attention": 4,
    "convnet": 4,
    "dynamic": 4,
    "embedding": 128,
    "experts": 4,
    "graph_break": 128,
    "lstm": 8,
    "mlp": 64,
}


def collect() -> Sequence[Benchmark]:
    """Return the networks, sorted by name."""
    return [Benchmark(name, partial(_build, name), size, check=check) for name, size in BATCH_SIZES.items()]


def check(mode: str, dtype: str, device: str) -> Check:  # noqa: ARG001  (all checks share one signature)
    """Return tight accuracy settings: the networks are shallow, so compiled results stay close."""
    tolerance = 1e-3 if mode == "training" or dtype != "float32" else 1e-4
    return Check(tolerance, optimizer="sgd" if mode == "training" else "")


def _build(name: str, batch_size: int) -> Work:
    """Build a network; torch is imported only now."""
    work: Work = import_module("torchstone.suites.smoke.networks").build(name, batch_size)
    return work


SUITE = Suite("smoke", "small networks in plain torch", collect, ("torch",), advice="pip install torch")
