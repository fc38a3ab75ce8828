"""Define image models of timm, with random weights; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module

from torchstone.define.benchmarks import Benchmark, Check, Suite, Work
from torchstone.suites.model_preparation import prepare

BATCH_SIZES = {
    "adv_inception_v3": 128,
    "beit_base_patch16_224": 128,
    "convnextv2_nano.fcmae_ft_in22k_in1k": 128,
    "deit_base_distilled_patch16_224": 128,
    "deit_tiny_patch16_224.fb_in1k": 128,
    "dm_nfnet_f0": 128,
    "ghostnet_100": 512,
    "inception_v3": 128,
    "mobilenetv2_100": 128,
    "mobilenetv3_large_100": 512,
    "mobilevit_s": 128,
    "nfnet_l0": 128,
    "repvgg_a2": 128,
    "swin_base_patch4_window7_224": 128,
    "tf_efficientnet_b0": 128,
    "visformer_small": 128,
    "vit_base_patch14_dinov2.lvd142m": 128,
    "vit_base_patch16_siglip_256": 128,
}
DASHBOARD_BATCH_SIZES = {
    "beit_base_patch16_224": 64,
    "deit_base_distilled_patch16_224": 64,
    "mobilevit_s": 64,
    "swin_base_patch4_window7_224": 64,
}
"""Batch sizes of PyTorch's dashboard, where they are others."""
ACCURACY_BATCH_SIZE = 8
TRAINING_TOLERANCES = {
    "beit_base_patch16_224": 16e-2,
    "deit_base_distilled_patch16_224": 8e-2,
    "inception_v3": 4e-2,
    "mobilenetv3_large_100": 4e-2,
    "vit_base_patch16_siglip_256": 8e-2,
}


def collect() -> Sequence[Benchmark]:
    """Return the models, sorted by name."""
    return [
        Benchmark(
            name,
            partial(_build, name),
            batch_size,
            ACCURACY_BATCH_SIZE,
            check=partial(check, name),
            dashboard_batch_size=DASHBOARD_BATCH_SIZES.get(name, batch_size),
        )
        for name, batch_size in BATCH_SIZES.items()
    ]


def check(name: str, mode: str, dtype: str, device: str) -> Check:  # noqa: ARG001  (all checks share one signature)
    """Return the accuracy settings of a model: batch norm over few images makes training unstable."""
    if mode == "training":
        optimizer = "" if device.startswith("cpu") else "sgd"
        return Check(TRAINING_TOLERANCES.get(name, 1e-2), optimizer=optimizer)
    return Check(1e-3)


def small_batch_size(batch_size: int) -> int:
    """Return the batch size for ``size="small"``."""
    return min(batch_size, 2)


def _build(name: str, batch_size: int, size: str = "full") -> Work:
    """Build a model; torch and timm are imported only now."""
    work: Work = import_module("torchstone.suites.timm.models").build(name, batch_size, size)
    return work


SUITE = Suite(
    "timm",
    "image models of timm, with random weights",
    collect,
    ("torch", "timm"),
    prepare,
    "pip install timm",
)
