"""Define large language models with published shapes and random weights; nothing is downloaded.

Each has two benchmarks: ``NAME`` reads a prompt, ``NAME:decode`` decodes one token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module

from torchstone.define.benchmarks import Benchmark, Check, Suite, Work
from torchstone.suites.huggingface.llm_shapes import SHAPES
from torchstone.suites.model_preparation import prepare

DECODE = ":decode"


def collect() -> Sequence[Benchmark]:
    """Return the models, sorted by name, each for prefill and decoding."""
    return list(_benchmarks())


def _benchmarks() -> Iterator[Benchmark]:
    for name in SHAPES:
        for task in ("", DECODE):
            build = partial(_build, name, bool(task))
            yield Benchmark(f"{name}{task}", build, 1, modes=("inference",), check=partial(check, name))


def check(name: str, mode: str, dtype: str, device: str) -> Check:  # noqa: ARG001  (all checks share one signature)
    """Return the accuracy settings; if half precision routes tokens to experts, only directions are compared."""
    half = dtype != "float32"
    return Check(5e-3 if half else 1e-3, cosine=half and "gpt-oss" in name)


def _build(
    name: str,
    decode: bool,
    batch_size: int = 1,
    dtype: str = "float32",
    device: str = "cpu",
    size: str = "full",
) -> Work:
    """Build a model; torch and transformers are imported only now."""
    build = import_module("torchstone.suites.huggingface.decoding").build
    work: Work = build(SHAPES[name], decode, batch_size, dtype, device, size)
    return work


SUITE = Suite(
    "huggingface_llm",
    "large language models of transformers, with random weights: reading a prompt, and decoding",
    collect,
    ("torch", "transformers", "transformers.modeling_utils"),
    prepare,
    "pip install transformers",
)
