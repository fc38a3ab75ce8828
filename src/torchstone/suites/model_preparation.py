"""Prepare a process for importing model libraries: no network, and an importable torchvision."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Variables that the libraries read when imported."""

_KEPT: list[Any] = []
"""Keeps the library object alive, which its operators need."""


def prepare() -> None:
    """Make the model libraries safe to import. Calling it again has no effect."""
    os.environ.update(OFFLINE)
    fix_torchvision()


def fix_torchvision() -> None:
    """Make torchvision importable if its wheel was built for CUDA and torch was not.

    Such a wheel cannot load its compiled part, and then fails to describe operators that this part would
    define: declaring them is enough. Image models work; calling one of the operators (for object detection)
    still fails.
    """
    if "torchvision" in sys.modules or not (find_spec("torch") and find_spec("torchvision")):
        return
    torch = import_module("torch")
    if torch.version.cuda is not None:
        return
    try:
        import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _name_operators(torch)
        import_module("torchvision")


def _name_operators(torch: Any) -> None:  # noqa: ANN401  (the module itself, imported above)
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEPT.append(library)
