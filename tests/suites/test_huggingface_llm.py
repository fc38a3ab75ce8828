"""The huggingface_llm suite: reading a prompt, and adding one token to it."""

from __future__ import annotations

import copy

import pytest
import torch
from suite_steps import (
    LIBRARY_WARNINGS,
    assert_equal,
    assert_finite,
    assert_near,
    build,
    find,
    in_float64,
    module_of,
    names,
    run,
)

from torchstone.define.benchmarks import Work
from torchstone.suites.huggingface.llm import DECODE
from torchstone.suites.huggingface.llm_shapes import SHAPES

pytestmark = LIBRARY_WARNINGS

SUITE = "huggingface_llm"
WITHOUT_DOUBLE = "openai/gpt-oss-20b"
"""Its experts are multiplied by an operator that has no double precision."""


def read_with_one_more_token(name: str, token: torch.Tensor) -> torch.Tensor:
    """What the model says of a prompt and a token after it, all at once."""
    work = build(SUITE, name)
    key = "decoder_input_ids" if SHAPES[name].speech else "input_ids"
    inputs = {**work.kwargs, key: torch.cat([work.kwargs[key], token], dim=1)}
    with torch.no_grad():
        scores: torch.Tensor = work.model(**inputs).logits[:, -1:]
    return scores


def decode(work: Work) -> torch.Tensor:
    with torch.no_grad():
        scores: torch.Tensor = work.model(*work.args)
    return scores


def test_every_model_reads_and_decodes_in_inference_only() -> None:
    assert names(SUITE) == [name + task for name in sorted(SHAPES) for task in ("", DECODE)]
    assert {find(SUITE, name).modes for name in names(SUITE)} == {("inference",)}
    assert {find(SUITE, name).batch_size for name in names(SUITE)} == {1}


@pytest.mark.parametrize("name", SHAPES)
def test_decoding_gives_what_reading_the_longer_prompt_gives(name: str) -> None:
    work = build(SUITE, name + DECODE)
    longer = read_with_one_more_token(name, work.args[0])
    torch.testing.assert_close(decode(work), longer, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_decoding_can_be_called_again_with_the_same_result(name: str) -> None:
    work = build(SUITE, name + DECODE)
    first = decode(work)
    other = torch.where(work.args[0] == 100, 101, 100)
    assert not torch.equal(decode(Work(work.model, (other,))), first)
    assert torch.equal(decode(work), first)


def test_a_copy_of_a_model_has_a_cache_of_its_own_that_moves_with_it() -> None:
    work = build(SUITE, f"google/gemma-2-2b{DECODE}")
    before = decode(work)
    other = copy.deepcopy(module_of(work))
    for buffer in other.buffers():
        buffer.zero_()
    assert torch.equal(decode(work), before)
    assert decode(in_float64(work)).dtype == torch.float64


def test_weights_are_made_in_the_type_they_run_in() -> None:
    work = build(SUITE, f"openai/gpt-oss-20b{DECODE}", dtype="bfloat16")
    assert {weight.dtype for weight in module_of(work).parameters()} == {torch.bfloat16}
    assert torch.get_default_dtype() == torch.float32
    assert torch.isfinite(decode(work)).all()


def test_a_sliding_window_keeps_no_more_than_the_window() -> None:
    slots = module_of(build(SUITE, f"openai/gpt-oss-20b{DECODE}")).get_submodule("slots")
    assert [slot.get_buffer("keys").shape[2] for slot in slots.children()] == [16, 64]


@pytest.mark.slow
@pytest.mark.parametrize("name", names(SUITE))
def test_every_model_runs(name: str) -> None:
    first = run(build(SUITE, name), "inference")
    assert_finite(first)
    assert_equal(first, run(build(SUITE, name), "inference"))


@pytest.mark.slow
@pytest.mark.parametrize("name", names(SUITE))
def test_every_model_is_one_graph(name: str) -> None:
    counters = torch._dynamo.utils.counters
    torch.compiler.reset()
    counters.clear()
    work = build(SUITE, name)
    assert_near(run(work, "inference", "eager"), run(work, "inference"), 1e-5)
    assert (counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"google/gemma-3-4b-it{DECODE}", f"{WITHOUT_DOUBLE}{DECODE}"])
def test_compiled_results_are_within_the_tolerance_of_exact_ones(name: str) -> None:
    work = build(SUITE, name)
    torch.compiler.reset()
    exact = work if name.startswith(WITHOUT_DOUBLE) else in_float64(work)
    assert_near(run(work, "inference", "inductor"), run(exact, "inference"), 1e-3)
