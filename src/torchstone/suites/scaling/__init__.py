"""Define models to train on several ranks: four of torchvision, and three small ones in plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module

from torchstone.define.benchmarks import Benchmark, Check, Suite, Work
from torchstone.suites.model_preparation import prepare

BATCH_SIZES = {
    "convnet": 4,
    "mlp": 32,
    "resnet101": 32,
    "resnet50": 32,
    "resnext101_32x8d": 32,
    "resnext50_32x4d": 32,
    "transformer": 8,
}
"""Examples per rank."""

OF_TORCHVISION = frozenset(name for name in BATCH_SIZES if name.startswith("res"))


def collect() -> Sequence[Benchmark]:
    """Return the models, sorted by name; for training, and by default for the probe ``scaling``."""
    return [
        Benchmark(
            name,
            partial(_build, name),
            batch_size,
            modes=("training",),
            check=partial(check, name),
            probes=("scaling",),
        )
        for name, batch_size in BATCH_SIZES.items()
    ]


def check(name: str, mode: str, dtype: str, device: str) -> Check:  # noqa: ARG001  (all checks share one signature)
    """Return the accuracy settings: batch norm over few images makes deep models unstable."""
    return Check(4e-2 if name in OF_TORCHVISION else 1e-3 if dtype == "float32" else 1e-2)


def _build(name: str, batch_size: int, size: str = "full") -> Work:
    """Build a model; torch and torchvision are imported only now."""
    work: Work = import_module("torchstone.suites.scaling.models").build(name, batch_size, size)
    return work


SUITE = Suite(
    "scaling",
    "models to train on several ranks: four of torchvision, three in plain torch",
    collect,
    ("torch",),
    prepare,
    "pip install torchvision",
)
