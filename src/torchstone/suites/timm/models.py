"""Build a timm model with random images.

Imports torch and timm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional

from torchstone.define.benchmarks import Work

FITTING_IMAGES = {"full": 8, "small": 64}
"""Number of images to fit batch norms to; more of small ones, because little of them is left in the last layers."""

SMALL_IMAGE = 64
SMALL_IMAGES = {
    # Its pooling leaves too little of smaller images.
    "adv_inception_v3": 128,
    "inception_v3": 128,
    # Multiples of their patch and window sizes.
    "swin_base_patch4_window7_224": 56,
    "vit_base_patch14_dinov2.lvd142m": 56,
}
CURRENT_NAMES = {"adv_inception_v3": "inception_v3.tf_adv_in1k"}
"""timm's current names of models, by the old names in common use."""

# Rates of dropout in training: so small that results can be compared, but not zero, so that its code still runs.
NEARLY_NO_DROPOUT = {
    "ghostnet_100": {"drop_rate": 1e-30},
    "swin_base_patch4_window7_224": {"drop_path_rate": 1e-30},
}
FIXED_IMAGE = ("beit", "deit", "swin", "visformer", "vit")
"""Models that need the image size at construction."""


def build(name: str, batch_size: int, size: str) -> Work:
    """Return a model with random images of its native size; ``small`` means smaller images."""
    current = CURRENT_NAMES.get(name, name)
    if not timm.is_model(current):
        raise NotImplementedError(f"timm {timm.__version__} has no {current}")
    side = SMALL_IMAGES.get(name, SMALL_IMAGE) if size == "small" else None
    image = {"img_size": side} if side and name.startswith(FIXED_IMAGE) else {}
    create: Callable[..., Any] = timm.create_model
    model = create(current, pretrained=False, **NEARLY_NO_DROPOUT.get(name, {}), **image)
    channels, height, width = model.pretrained_cfg["input_size"]
    shape = (channels, side or height, side or width)
    fit_batch_norms(model, torch.randn(FITTING_IMAGES[size], *shape))
    return Work(model, (torch.randn(batch_size, *shape),), loss=cross_entropy)


def fit_batch_norms(model: nn.Module, images: Tensor) -> None:
    """Initialise batch norms with the statistics of some images, as training would.

    With their default statistics and random weights, values grow or shrink from layer to layer: scores reach
    1e12 in one model and 1e-5 in another, where no tolerance is meaningful.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    if not norms:
        return
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        model.train()(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


def cross_entropy(scores: Tensor) -> Tensor:
    """Return the loss against a fixed class for every image."""
    classes = torch.arange(scores.shape[0], device=scores.device) % scores.shape[1]
    return functional.cross_entropy(scores.to(torch.promote_types(scores.dtype, torch.float32)), classes)
