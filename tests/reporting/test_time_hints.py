"""The hints that a person would give who sees where the time of a call went."""

from __future__ import annotations

from typing import Any

from time_samples import DECOMPOSED, FLASH, GEMM_16, GEMM_32, RECORDED, kernel, profile, side, timed_outcome
from torchstone.analyze.call_time.time_hints import CaseFacts, find_hints
from torchstone.core.details.capture_details import GraphBreak
from torchstone.core.details.time_profile import TimeProfile
from torchstone.formats import read_file
from torchstone.reporting.views.explaining.hint_text import describe_hint
from torchstone.reporting.views.explaining.time_view import facts_of


def hints(found: TimeProfile, facts: CaseFacts | None = None) -> list[str]:
    return [describe_hint(hint) for hint in find_hints(found, facts or CaseFacts())]


def test_float32_attention_of_a_recorded_bert_is_named_unprompted() -> None:
    outcome = read_file(str(RECORDED)).run.outcomes[0]
    assert outcome.details
    assert outcome.details.time_profile
    (text,) = hints(outcome.details.time_profile, facts_of(outcome))
    assert text == (
        "24 matrix products run in float32 although the model is bfloat16, 47% of the time: attention is "
        "decomposed (math) under torch.compile, eager uses a fused kernel; TF32 is off "
        "(torch.set_float32_matmul_precision('high') allows it)."
    )


def test_float32_products_that_eager_has_too_are_not_blamed_on_the_compiler() -> None:
    both = side(kernel(GEMM_16, 5.0, 10), kernel(GEMM_32, 5.0, 2))
    (text,) = hints(profile(both, both, tf32=None))
    assert text == (
        "2 matrix products run in float32 although the model is bfloat16, 50% of the time: they do in eager too."
    )


def test_a_float32_product_that_takes_no_time_is_not_worth_a_hint() -> None:
    assert hints(profile(side(kernel(GEMM_16, 9.9)), side(kernel(GEMM_16, 9.9), kernel(GEMM_32, 0.1)))) == []


def test_decomposed_attention_is_named_even_without_float32() -> None:
    eager = side(kernel(GEMM_16, 3.0, 4), kernel(FLASH, 1.0, 12))
    compiled = side(kernel(GEMM_16, 5.0, 28))
    (text,) = hints(profile(eager, compiled))
    assert text.startswith("Attention is decomposed (math) under torch.compile")
    assert "eager launches 12 (25% of its time)" in text


def test_fused_attention_on_both_sides_needs_no_hint() -> None:
    both = side(kernel(GEMM_16, 3.0, 4), kernel(FLASH, 1.0, 12))
    assert hints(profile(both, both)) == []


def test_tf32_is_offered_to_a_float32_model_only_if_it_is_off() -> None:
    eager = side(kernel(GEMM_32, 9.0, 10))
    stated: dict[str, Any] = {"model_dtype": "float32"}
    assert "TF32 is off" in hints(profile(eager, eager, **stated))[0]
    assert hints(profile(eager, eager, **stated, tf32=True)) == []
    assert hints(profile(eager, eager, **stated, device="cpu")) == []


def test_graph_breaks_recompiles_and_skipped_cuda_graphs_are_counted() -> None:
    breaks = [GraphBreak("logging", "model.py:378")]
    counts: dict[str, Any] = {
        "graph_breaks": 3,
        "unique_graphs": 4,
        "recompiles": 5,
        "fallbacks_to_eager": 1,
        "cudagraph_skips": 2,
    }
    outcome = timed_outcome(None, breaks=breaks, **counts)
    assert hints(profile(side(), side()), facts_of(outcome)) == [
        "3 graph breaks split the model into 4 graphs; the most frequent one is at model.py:378.",
        "torch.compile left 1 frame to eager as a whole.",
        "Recompiled 5 times.",
        "CUDA graphs were skipped 2 times: TORCH_LOGS=perf_hints says why.",
    ]


def test_a_device_that_waits_for_the_host_is_host_bound_and_cuda_graphs_are_offered_once() -> None:
    found = side(kernel(GEMM_16, 2.0, 100))
    facts = CaseFacts(walls=(2.1, 5.0))
    (text,) = hints(profile(found, found), facts)
    assert text == (
        "Host-bound: the device works 40% of a compiled call, which launches 100 kernels: CUDA graphs would help "
        "(--compile-mode reduce-overhead)."
    )
    (text,) = hints(profile(found, found, cuda_graphs=True), facts)
    assert "CUDA graphs" not in text


def test_a_slow_host_in_eager_makes_the_speedup_doubtful() -> None:
    found = side(kernel(GEMM_16, 2.0, 100))
    (text,) = hints(profile(found, found), CaseFacts(walls=(5.0, 2.1)))
    assert text.startswith("Eager is host-bound: the device works 40% of a call.")


def test_copies_between_host_and_device_are_named() -> None:
    found = side(kernel(GEMM_16, 2.0), kernel("Memcpy HtoD (Pageable -> Device)", 2.0, 5))
    assert hints(profile(found, found)) == ["5 copies between host and device: 50% of the device's time."]


def test_guards_and_wrappers_that_dominate_on_a_cpu_are_named() -> None:
    found = side(kernel("aten::addmm", 1.0), kernel("Torch-Compiled Region: 0/0", 1.0, 1))
    (text,) = hints(profile(found, found, device="cpu", model_dtype="float32"))
    assert text.startswith("Guards, wrappers and views around the work take 50% of a compiled call")


def test_profiles_without_kernels_give_no_hints() -> None:
    assert hints(profile(None, None)) == []
    assert hints(profile(side(), side()), CaseFacts(walls=(1.0, 1.0))) == []
    assert hints(profile(DECOMPOSED.eager, None)) == []
