"""Define the models of pytorch/benchmark, if the package ``torchbenchmark`` is installed.

With random weights, nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from torchstone.define.benchmarks import MODES, Benchmark, Check, Suite, Work
from torchstone.suites.model_preparation import prepare

PACKAGE = "torchbenchmark"
ADVICE = "clone https://github.com/pytorch/benchmark, run `python install.py MODEL` there for the models you want, and put the folder on PYTHONPATH"

BATCH_SIZES = {
    "BERT_pytorch": 128,
    "Background_Matting": 16,
    "LearningToPaint": 1024,
    "alexnet": 1024,
    "dcgan": 1024,
    "densenet121": 64,
    "mnasnet1_0": 256,
    "mobilenet_v2": 128,
    "mobilenet_v3_large": 256,
    "nvidia_deeprecommender": 1024,
    "pytorch_unet": 8,
    "resnet18": 512,
    "resnet50": 128,
    "resnext50_32x4d": 128,
    "shufflenet_v2_x1_0": 512,
    "squeezenet1_1": 512,
    "vgg16": 128,
}
"""Batch sizes; other models choose their own."""

WELL_KNOWN = (*BATCH_SIZES, "llama", "moco", "nanogpt")
"""Models to list if the package is not installed."""

CANARIES = ("torchrec_dlrm",)
"""Models that the package marks as not ready, and that are run nevertheless."""

ACCURACY_BATCH_SIZE = 4
SMALLER_ACCURACY_BATCH_SIZES = {"pytorch_unet": 2}
OWN_BATCH_SIZE = {"demucs", "pyhpc_turbulent_kinetic_energy", "pytorch_struct", "vision_maskrcnn"}

INFERENCE_ONLY = {
    "cm3leon_generate",
    "doctr_det_predictor",
    "doctr_reco_predictor",
    "llama",
    "llama_v2_7b_16h",
    "maml",
    "moondream",
    "phi_1_5",
    "pyhpc_equation_of_state",
    "pyhpc_isoneutral_mixing",
    "pyhpc_turbulent_kinetic_energy",
    "sam_fast",
    "simple_gpt",
}

ON_ACCELERATORS = {
    "cm3leon_generate",
    "llama_v2_7b_16h",
    "moco",
    "modded_nanogpt",
    "sam_fast",
    "simple_gpt",
    "torchrec_dlrm",
}
"""Models that use libraries or kernels of accelerators: if they cannot be built on a CPU, that is why."""

LOOSE = {
    "alexnet",
    "attention_is_all_you_need_pytorch",
    "densenet121",
    "mobilenet_v3_large",
    "nvidia_deeprecommender",
    "vgg16",
}
LOOSE_IN_HALF = {"doctr_reco_predictor", "drq", "phlippe_resnet"}
LOOSEST = {"shufflenet_v2_x1_0", "soft_actor_critic", "squeezenet1_1", "tacotron2", "yolov3"}
OVERLAPS = {
    "detectron2_maskrcnn_r_101_fpn": 0.99,
    "detectron2_maskrcnn_r_50_c4": 0.99,
    "sam": 0.95,
    "sam_fast": 0.95,
    "vision_maskrcnn": 0.99,
}
"""Models whose results are masks, with the share of elements that must agree."""
RUNS = {"sam": 5, "sam_fast": 5}
NON_DETERMINISTIC = {"mobilenet_v3_large"}
EAGER_NOT_DETERMINISTIC = {"Background_Matting", "pytorch_unet"}
"""Models whose eager results in training differ from run to run."""


UNCOMPARED = "not compared: in training, its eager results differ from run to run"


def collect() -> Sequence[Benchmark]:
    """Return the installed models, sorted by name; the well-known ones if none are installed."""
    return [
        Benchmark(
            name,
            partial(_build, name),
            BATCH_SIZES.get(name),
            None if name in OWN_BATCH_SIZE else SMALLER_ACCURACY_BATCH_SIZES.get(name, ACCURACY_BATCH_SIZE),
            _modes(name),
            check=partial(check, name),
        )
        for name in sorted(_installed() or WELL_KNOWN)
    ]


def check(name: str, mode: str, dtype: str, device: str) -> Check:
    """Return the accuracy settings of a model."""
    training = mode == "training"
    return Check(
        _tolerance(name, training, dtype != "float32", device.startswith("cpu")),
        overlap=OVERLAPS.get(name),
        non_deterministic=name in NON_DETERMINISTIC,
        runs=RUNS.get(name, 1),
        optimizer="sgd" if training and not device.startswith("cpu") else "",
        uncompared=UNCOMPARED if training and name in EAGER_NOT_DETERMINISTIC else "",
    )


def _tolerance(name: str, training: bool, half: bool, cpu: bool) -> float:
    if name in LOOSEST and (training or half):
        return 8e-2
    if name in LOOSE_IN_HALF and half:
        return 1e-2
    if half or name in LOOSE or (training and not cpu):
        return 1e-3
    return 1e-4


def _modes(name: str) -> tuple[str, ...]:
    return ("inference",) if name in INFERENCE_ONLY or name.startswith("detectron2_") else MODES


def _installed() -> dict[str, str]:
    """Return the models of the package with their folders, without importing it."""
    spec = find_spec(PACKAGE)
    found: dict[str, str] = {}
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(place).glob("*models/*/__init__.py"):
            folder, name = path.parts[-3:-1]
            if folder == "models" or (folder == "canary_models" and name in CANARIES):
                found[name] = folder
    return found


def _build(name: str, batch_size: int | None = None, mode: str = "inference", device: str = "cpu") -> Work:
    """Build a model; torch and torchbenchmark are imported only now."""
    folder = _installed().get(name)
    if folder is None:
        raise ModuleNotFoundError(f"{name} is not installed: {ADVICE}", name=f"{PACKAGE}.models.{name}")
    build = import_module("torchstone.suites.torchbench.models").build
    work: Work = build(
        f"{PACKAGE}.{folder}.{name}", batch_size, mode, device, on_accelerator=name in ON_ACCELERATORS
    )
    return work


SUITE = Suite("torchbench", "models of pytorch/benchmark", collect, ("torch", PACKAGE), prepare, ADVICE)
