"""The torchbench suite, with a package of the same layout as the real one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from suite_steps import assert_finite, build, find, names, run

from torchstone.suites import torchbench

MODEL = '''
import torch
from torch import nn


class Model:
    """As in the real package: takes these, and gives its network and example inputs."""

    DEFAULT_TRAIN_BSIZE = 6
    DEFAULT_EVAL_BSIZE = 5
    {more}

    def __init__(self, test, device, batch_size=None, extra_args=()):
        if test not in ("train", "eval"):
            raise ValueError(test)
        torch.manual_seed = lambda seed: None
        self.batch_size = batch_size or (self.DEFAULT_TRAIN_BSIZE if test == "train" else self.DEFAULT_EVAL_BSIZE)
        self.network = nn.Linear(4, 3).to(device)

    def get_module(self):
        inputs = torch.randn(self.batch_size, 4)
        return self.network, {inputs}
'''


def write_model(
    package: Path, name: str, more: str = "", inputs: str = "(inputs,)", folder: str = "models"
) -> None:
    path = package / folder / name / "__init__.py"
    path.parent.mkdir(parents=True)
    path.write_text(MODEL.replace("{more}", more).replace("{inputs}", inputs))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    package = tmp_path / "torchbenchmark"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "models" / "__init__.py").write_text("")
    write_model(package, "tiny")
    write_model(package, "named_inputs", inputs='{"input": inputs}')
    write_model(package, "own_batch", more="ALLOW_CUSTOMIZE_BSIZE = False", inputs="[inputs]")
    (package / "models" / "not_a_model").mkdir()
    write_model(package, "torchrec_dlrm", folder="canary_models")
    write_model(package, "not_ready", folder="canary_models")
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchbenchmark"]:
        del sys.modules[name]


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchbench, "find_spec", lambda _: None)


def test_installed_models_are_listed_and_nothing_is_imported(package: Path) -> None:
    assert names("torchbench") == ["named_inputs", "own_batch", "tiny", "torchrec_dlrm"]
    assert "torchbenchmark" not in sys.modules


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", ["tiny", "named_inputs", "own_batch", "torchrec_dlrm"])
def test_a_model_runs_and_trains(package: Path, name: str, mode: str) -> None:
    assert_finite(run(build("torchbench", name, mode), mode))


def test_a_model_is_given_its_batch_size_or_chooses_its_own(package: Path) -> None:
    assert build("torchbench", "tiny", batch_size=3).args[0].shape == (3, 4)
    assert build("torchbench", "tiny", batch_size=None).args[0].shape == (5, 4)
    assert build("torchbench", "tiny", "training", batch_size=None).args[0].shape == (6, 4)
    assert build("torchbench", "own_batch", batch_size=3).args[0].shape == (5, 4)


def test_seeding_is_as_it_was_after_a_model_replaced_it(package: Path) -> None:
    seed = torch.manual_seed
    build("torchbench", "tiny")
    assert torch.manual_seed is seed


def test_an_output_that_cannot_be_trained_on_says_so(package: Path) -> None:
    work = build("torchbench", "tiny", "training")
    assert work.loss is not None
    with pytest.raises(NotImplementedError, match="nothing in the model's output can be trained on"):
        work.loss([torch.ones(2), "text"])


def test_well_known_models_are_listed_where_the_package_is_not_installed(no_package: None) -> None:
    known = names("torchbench")
    assert {"BERT_pytorch", "resnet50", "nanogpt", "moco", "llama"} <= set(known)
    assert find("torchbench", "resnet50").batch_size == 128
    assert find("torchbench", "nanogpt").batch_size is None
    assert find("torchbench", "llama").modes == ("inference",)


def test_building_a_model_that_is_not_installed_says_how_to_get_it(no_package: None) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"resnet50 is not installed: clone \S+pytorch/benchmark"):
        build("torchbench", "resnet50")


@pytest.mark.parametrize("name", ["Background_Matting", "pytorch_unet"])
def test_models_whose_eager_results_differ_are_not_compared_in_training(name: str) -> None:
    assert "differ from run to run" in torchbench.check(name, "training", "float32", "cuda").uncompared
    assert not torchbench.check(name, "inference", "float32", "cuda").uncompared
    assert not torchbench.check("resnet50", "training", "float32", "cuda").uncompared


def test_masks_are_judged_by_how_much_of_them_is_the_same() -> None:
    check = torchbench.check("sam", "inference", "float32", "cuda")
    assert (check.overlap, check.runs) == (0.95, 5)


@pytest.mark.parametrize(
    ("name", "mode", "dtype", "device", "tolerance"),
    [
        ("resnet18", "inference", "float32", "cuda", 1e-4),
        ("resnet18", "training", "float32", "cpu", 1e-4),
        ("resnet18", "training", "float32", "cuda:0", 1e-3),
        ("resnet18", "inference", "amp", "cpu", 1e-3),
        ("vgg16", "inference", "float32", "cpu", 1e-3),
        ("drq", "inference", "float16", "cuda", 1e-2),
        ("yolov3", "training", "float32", "cpu", 8e-2),
    ],
)
def test_tolerances(name: str, mode: str, dtype: str, device: str, tolerance: float) -> None:
    assert torchbench.check(name, mode, dtype, device).tolerance == tolerance
