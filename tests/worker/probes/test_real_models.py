"""Both probes on models that people use, with the compiler that people use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_steps import TORCH_WARNINGS, Ended, measure
from torch import Tensor, nn
from torch._inductor import metrics

from torchstone.suites import load_suite

pytestmark = [
    *TORCH_WARNINGS,
    pytest.mark.filterwarnings("ignore:Online softmax is disabled on the fly:UserWarning"),
    pytest.mark.filterwarnings(
        "ignore:Torchinductor does not support code generation for complex:UserWarning"
    ),
]


def smoke(name: str) -> Callable[..., Any]:
    """A network of the smoke suite, small."""
    (found,) = (each for each in load_suite("smoke").collect() if each.name == name)
    return lambda: found.make(batch_size=4)


def bert() -> tuple[nn.Module, tuple[()], dict[str, Any]]:
    """A small BERT that returns its own loss, in one of transformers' objects."""
    suite = load_suite("huggingface")
    assert suite.prepare is not None
    suite.prepare()
    transformers = pytest.importorskip("transformers")
    configuration = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    tokens = torch.randint(0, 50, (2, 8))
    return transformers.BertForMaskedLM(configuration), (), {"input_ids": tokens, "labels": tokens}


def gpt2() -> tuple[nn.Module, tuple[()], dict[str, Any]]:
    """A small GPT-2 that returns its keys and values, in an object of another of transformers' classes."""
    bert()
    transformers = pytest.importorskip("transformers")
    configuration = transformers.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    tokens = torch.randint(0, 50, (2, 8))
    return transformers.GPT2LMHeadModel(configuration), (), {"input_ids": tokens, "use_cache": True}


class Spectrum(nn.Module):
    """Filters in the frequency domain: complex parameters, complex and real outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 16)
        self.filter = nn.Parameter(torch.randn(16, dtype=torch.complex64))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        spectrum = torch.fft.fft(self.mix(x)) * self.filter
        return {"spectrum": spectrum, "signal": torch.fft.ifft(spectrum).real}


def spectrum() -> tuple[nn.Module, tuple[Tensor]]:
    return Spectrum(), (torch.randn(4, 16),)


def passed(ended: Ended) -> None:
    assert (ended.status, ended.message, ended.error) == ("pass", "", None)
    assert ended.told["reference"] == "float64"


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("build", [bert, gpt2, spectrum])
def test_model_with_outputs_of_its_own_kind_is_judged(build: Callable[..., Any], mode: str) -> None:
    passed(measure(build, mode=mode))
    assert measure(build, mode=mode, backend="wrong_by_one").status == "fail_accuracy"


TRAINED: dict[str, Callable[..., Any]] = {
    "bert": bert,
    "spectrum": spectrum,
    "attention": smoke("attention"),
    "dynamic": smoke("dynamic"),
    "graph_break": smoke("graph_break"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("dtype", ["float32", "amp"])
def test_inductor_trains_it_as_eager_does(name: str, dtype: str) -> None:
    ended = measure(TRAINED[name], mode="training", backend="inductor", dtype=dtype)
    passed(ended)
    assert 0 < ended.value("compile_seconds") <= ended.details["phases"]["compile"]


@pytest.mark.slow
def test_inductor_makes_one_kernel_of_a_chain_of_small_operations_and_that_is_what_is_timed() -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(20):
            x = torch.sin(x) * 1.01 + 0.1
        return x

    metrics.reset()
    ended = measure(
        lambda: (chain, (torch.randn(300_000),)), "performance", backend="inductor", settings={"repeat": 40}
    )
    assert ended.status == "pass"
    assert metrics.generated_kernel_count == 1
    assert len(ended.samples("eager_latency")) == len(ended.samples("abs_latency")) == 40
    low, high = ended.extra_of("speedup")["interval"]
    assert 0 < low <= ended.value("speedup") <= high
