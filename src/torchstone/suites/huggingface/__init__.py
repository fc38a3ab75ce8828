"""Define language models of transformers, from configurations with random weights; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module

from torchstone.define.benchmarks import Benchmark, Check, Suite, Work
from torchstone.suites.huggingface.recipes import DIVISORS, RECIPES
from torchstone.suites.model_preparation import prepare

LOOSE_INFERENCE = {"GPT2ForSequenceClassification"}
LOOSE_TRAINING = {"BertForMaskedLM", "MT5ForConditionalGeneration"}
_HALF = {"float16": 4e-3, "bfloat16": 5e-3, "amp": 5e-3}


def collect() -> Sequence[Benchmark]:
    """Return the models, sorted by name."""
    return [
        Benchmark(
            name,
            partial(_build, name),
            recipe.batch_size,
            1,
            check=partial(check, name),
            dashboard_batch_size=max(1, recipe.batch_size // DIVISORS.get(name, 1)),
        )
        for name, recipe in RECIPES.items()
    ]


def check(name: str, mode: str, dtype: str, device: str) -> Check:
    """Return the accuracy settings of a model."""
    if mode == "training":
        tolerance = 2e-2 if name in LOOSE_TRAINING else 1e-2
        return Check(tolerance, optimizer="" if device.startswith("cpu") else "sgd")
    tolerance = _HALF.get(dtype, 1e-3)
    if name in LOOSE_INFERENCE:
        tolerance = max(tolerance, 5e-3 if device.startswith("cpu") else 4e-3)
    return Check(tolerance)


def small_batch_size(batch_size: int) -> int:
    """Return the batch size for ``size="small"``."""
    return min(batch_size, 2)


def _build(
    name: str,
    batch_size: int,
    mode: str = "inference",
    dtype: str = "float32",
    device: str = "cpu",
    size: str = "full",
    *,
    labels: bool = False,
) -> Work:
    """Build a model; torch and transformers are imported only now."""
    build = import_module("torchstone.suites.huggingface.models").build
    work: Work = build(
        name, RECIPES[name], batch_size, dtype, device, size, labels=labels or mode == "training"
    )
    return work


SUITE = Suite(
    "huggingface",
    "language models of transformers, with random weights",
    collect,
    ("torch", "transformers", "transformers.modeling_utils"),
    prepare,
    "pip install transformers",
)
