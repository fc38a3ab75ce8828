"""The huggingface suite: every model can be made small, run and trained."""

from __future__ import annotations

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
    names,
    run,
)

from torchstone.define.benchmarks import DTYPES
from torchstone.suites.huggingface.recipes import RECIPES, SMALL_LENGTH, TASKS

pytestmark = LIBRARY_WARNINGS

MODES = ("inference", "training")
HANDFUL = ("BertForMaskedLM", "GPT2ForSequenceClassification", "LayoutLMForMaskedLM", "T5Small")


def test_batch_sizes_are_the_ones_that_other_tables_have() -> None:
    sizes = {name: find("huggingface", name).batch_size for name in names("huggingface")}
    assert sizes["BertForMaskedLM"] == 32
    assert sizes["DistilBertForMaskedLM"] == sizes["MobileBertForMaskedLM"] == 256
    assert sizes["GPTJForCausalLM"] == 1
    assert {find("huggingface", name).accuracy_batch_size for name in names("huggingface")} == {1}


def test_recipes_are_well_formed() -> None:
    for name, recipe in RECIPES.items():
        assert recipe.task in TASKS, name
        assert set(recipe.dtypes) <= set(DTYPES), name
        assert recipe.length >= 128, name
        assert recipe.small["vocab_size"] == 1000, name


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", HANDFUL)
def test_a_model_is_the_same_every_time_bit_by_bit(name: str, mode: str) -> None:
    first = run(build("huggingface", name, mode), mode)
    assert_finite(first)
    assert_equal(first, run(build("huggingface", name, mode), mode))


def test_labels_are_given_in_training_only() -> None:
    assert set(build("huggingface", "BertForMaskedLM").kwargs) == {"input_ids"}
    assert set(build("huggingface", "BertForMaskedLM", "training").kwargs) == {"input_ids", "labels"}


def test_inputs_have_the_batch_size_that_was_asked_for_and_no_special_tokens() -> None:
    tokens = build("huggingface", "T5Small", batch_size=3).kwargs["decoder_input_ids"]
    assert tokens.shape == (3, SMALL_LENGTH)
    assert tokens.min() >= 8


def test_boxes_of_a_layout_have_no_negative_sizes() -> None:
    left, top, right, bottom = build("huggingface", "LayoutLMForMaskedLM").kwargs["bbox"].unbind(-1)
    assert bool((right >= left).all())
    assert bool((bottom >= top).all())


def test_dropout_is_nearly_off_but_not_zero() -> None:
    model = build("huggingface", "BertForMaskedLM", "training").model
    assert isinstance(model, torch.nn.Module)
    probabilities = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    assert probabilities == {1e-30}


def test_a_model_without_half_precision_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"GoogleFnet runs in float32 only, not in bfloat16"):
        build("huggingface", "GoogleFnet", dtype="bfloat16")


def test_a_class_that_this_version_of_the_library_lacks_is_named() -> None:
    build("huggingface", "BertForMaskedLM")
    from torchstone.suites.huggingface.models import find_class  # noqa: PLC0415  (imports transformers)

    with pytest.raises(NotImplementedError, match=r"transformers \S+ has no NoSuchModel"):
        find_class("NoSuchModel")


@pytest.mark.slow
@pytest.mark.parametrize("name", names("huggingface"))
def test_every_model_runs_and_trains(name: str) -> None:
    outputs = run(build("huggingface", name), "inference")
    assert_finite(outputs)
    gradients = run(build("huggingface", name, "training"), "training")
    assert_finite(gradients)
    assert len(gradients) > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", names("huggingface"))
def test_no_model_keeps_a_cache(name: str) -> None:
    with torch.no_grad():
        work = build("huggingface", name)
        given = dict(work.model(**work.kwargs))
    assert not given.keys() & {"past_key_values", "mems"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("BertForMaskedLM", "training"),
        ("GPT2ForSequenceClassification", "inference"),
        ("T5Small", "inference"),
    ],
)
def test_compiled_results_are_within_the_tolerance_of_exact_ones(name: str, mode: str) -> None:
    benchmark = find("huggingface", name)
    assert benchmark.check is not None
    work = build("huggingface", name, mode)
    torch.compiler.reset()
    tolerance = benchmark.check(mode, "float32", "cpu").tolerance
    assert_near(run(work, mode, "inductor"), run(in_float64(work), mode), tolerance)
