"""The scaling suite: every model trains, has gradients that are worth sending, and says what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from suite_steps import LIBRARY_WARNINGS, assert_equal, assert_finite, build, find, module_of, names, run

from torchstone.formats import read_file
from torchstone.suites.scaling import OF_TORCHVISION

pytestmark = LIBRARY_WARNINGS

PLAIN = ("convnet", "mlp", "transformer")


def test_the_models_are_the_four_of_the_original_and_three_small_ones() -> None:
    assert set(names("scaling")) == OF_TORCHVISION | set(PLAIN)
    assert {"resnet50", "resnet101", "resnext50_32x4d", "resnext101_32x8d"} == OF_TORCHVISION
    assert {find("scaling", name).batch_size for name in OF_TORCHVISION} == {32}


@pytest.mark.parametrize("name", names("scaling"))
def test_a_model_is_for_training_and_for_scaling(name: str) -> None:
    benchmark = find("scaling", name)
    assert (benchmark.modes, benchmark.probes) == (("training",), ("scaling",))
    assert {"batch_size", "size"} <= set(benchmark.takes)


@pytest.mark.parametrize("size", ["full", "small"])
@pytest.mark.parametrize("name", PLAIN)
def test_every_weight_of_a_small_model_is_trained_and_the_same_every_time(name: str, size: str) -> None:
    work = build("scaling", name, "training", size=size)
    gradients = run(work, "training")
    assert_finite(gradients)
    assert gradients.keys() - {"loss"} == {key for key, _ in module_of(work).named_parameters()}
    assert [key for key, value in gradients.items() if not value.any()] == []
    assert_equal(gradients, run(build("scaling", name, "training", size=size), "training"))


@pytest.mark.parametrize("name", PLAIN)
def test_the_gradients_of_a_small_model_are_worth_sending(name: str) -> None:
    full, small = (module_of(build("scaling", name, "training", size=size)) for size in ("full", "small"))
    count, fewer = (sum(each.numel() for each in model.parameters()) for model in (full, small))
    assert 0.5e6 < count < 5e6
    assert fewer < count / 1.5


@pytest.mark.parametrize("name", PLAIN)
def test_a_small_model_trains_in_mixed_precision(name: str) -> None:
    work = build("scaling", name, "training")
    with torch.autocast("cpu", torch.bfloat16):
        assert_finite(run(work, "training"))


def test_the_models_of_torchvision_get_images_of_their_size_and_as_many_as_asked_for() -> None:
    assert build("scaling", "resnet50", size="full", batch_size=3).args[0].shape == (3, 3, 224, 224)
    small = build("scaling", "resnet50", "training", batch_size=2)
    assert small.args[0].shape == (2, 3, 64, 64)
    assert_finite(run(small, "training"))


def test_targets_are_fixed_and_each_example_has_its_own() -> None:
    work = build("scaling", "resnet50", batch_size=4)
    assert work.loss is not None
    right, wrong = torch.eye(4, 1000) * 100, torch.eye(4, 1000).flip(0) * 100
    assert float(work.loss(right)) < 1e-6 < float(work.loss(wrong))


def test_without_torchvision_its_models_say_what_to_install_and_the_others_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(ImportError, match=r"resnet50 is a model of torchvision.*pip install torchvision"):
        find("scaling", "resnet50").make(batch_size=1, size="small")
    assert find("scaling", "mlp").make(batch_size=1, size="small").args[0].shape[0] == 1


def test_a_model_that_this_torchvision_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    build("scaling", "resnet50")
    monkeypatch.delattr(sys.modules["torchvision.models"], "resnet50")
    with pytest.raises(NotImplementedError, match=r"torchvision \S+ has no resnet50"):
        find("scaling", "resnet50").make(batch_size=1, size="small")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OF_TORCHVISION))
def test_every_weight_of_a_model_of_torchvision_is_trained(name: str) -> None:
    work = build("scaling", name, "training")
    gradients = run(work, "training")
    assert_finite(gradients)
    assert gradients.keys() - {"loss"} == {key for key, _ in module_of(work).named_parameters()}


@pytest.mark.slow
def test_a_round_of_a_model_that_is_not_installed_ends_with_a_status_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "torchvision.py").write_text("raise ModuleNotFoundError('hidden', name='torchvision')\n")
    options = ("--device", "cpu", "--size", "small", "--strategy", "none", "--repeat", "2")
    command = [sys.executable, "-m", "torchstone", "run", "scaling::resnet50", "scaling::mlp", *options]
    done = subprocess.run(
        [*command, "--output", "run.jsonl"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(hidden)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    outcomes = {each.case.benchmark: each for each in read_file(str(tmp_path / "run.jsonl")).run.outcomes}
    assert {name: each.status for name, each in outcomes.items()} == {
        "mlp": "pass",
        "resnet50": "model_fail_to_load",
    }
    failure = outcomes["resnet50"].failure
    assert failure is not None
    assert failure.message.startswith("rank 0 on ")
    assert "pip install torchvision" in failure.message
