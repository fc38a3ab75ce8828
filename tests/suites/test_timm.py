"""The timm suite: every model can be made small, run and trained."""

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

pytestmark = LIBRARY_WARNINGS


def test_batch_sizes_are_the_ones_that_other_tables_have() -> None:
    sizes = {name: find("timm", name).batch_size for name in names("timm")}
    assert {name for name, size in sizes.items() if size != 128} == {"ghostnet_100", "mobilenetv3_large_100"}
    assert {find("timm", name).accuracy_batch_size for name in names("timm")} == {8}


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", ["deit_tiny_patch16_224.fb_in1k", "ghostnet_100", "mobilenetv2_100"])
def test_a_model_is_the_same_every_time_bit_by_bit(name: str, mode: str) -> None:
    first = run(build("timm", name, mode), mode)
    assert_finite(first)
    assert_equal(first, run(build("timm", name, mode), mode))


def test_full_size_is_the_image_that_the_model_is_meant_for() -> None:
    work = build("timm", "mobilevit_s", size="full", batch_size=1)
    assert work.args[0].shape == (1, 3, 256, 256)


@pytest.mark.parametrize("name", ["inception_v3", "tf_efficientnet_b0"])
def test_numbers_neither_grow_nor_shrink_from_layer_to_layer(name: str) -> None:
    assert 0.01 < float(run(build("timm", name), "inference")["output 0"].std()) < 10


def test_batch_norms_learn_as_they_were_made_to() -> None:
    model = build("timm", "mobilenetv2_100", "training").model
    assert isinstance(model, torch.nn.Module)
    assert {part.momentum for part in model.modules() if isinstance(part, torch.nn.BatchNorm2d)} == {0.1}


def test_a_model_that_this_version_of_the_library_lacks_is_named() -> None:
    build("timm", "mobilenetv2_100")
    from torchstone.suites.timm import models as timm_models  # noqa: PLC0415  (imports timm)

    with pytest.raises(NotImplementedError, match=r"timm \S+ has no no_such_model"):
        timm_models.build("no_such_model", 1, "full")


@pytest.mark.slow
@pytest.mark.parametrize("name", names("timm"))
def test_every_model_runs_and_trains(name: str) -> None:
    outputs = run(build("timm", name), "inference")
    assert_finite(outputs)
    assert outputs["output 0"].shape[0] == 2
    work = build("timm", name, "training")
    gradients = run(work, "training")
    assert_finite(gradients)
    assert isinstance(work.model, torch.nn.Module)
    assert len(gradients) == 1 + len(list(work.model.parameters()))


@pytest.mark.slow
def test_compiled_results_are_within_the_tolerance_of_exact_ones() -> None:
    name, mode = "mobilenetv2_100", "inference"
    benchmark = find("timm", name)
    assert benchmark.check is not None
    work = build("timm", name, mode)
    torch.compiler.reset()
    tolerance = benchmark.check(mode, "float32", "cpu").tolerance
    assert_near(run(work, mode, "inductor"), run(in_float64(work), mode), tolerance)
