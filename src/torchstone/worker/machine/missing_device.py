"""Tell why torch sees no device of a kind: how torch was built, or a variable that hides devices."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

_DRIVER = "check the driver, and that this user may use the device"
_HIDING = {
    "cuda": ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    "xpu": ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
}
"""Environment variables by which a driver shows a process only some of its devices, or none."""


def explain_missing(kind: str) -> tuple[str, str]:
    """Return why torch sees no device of a kind, as far as that can be told, and what can be done about it."""
    return explain(kind, is_built(kind), os.environ)


def explain(kind: str, is_built: bool, variables: Mapping[str, str]) -> tuple[str, str]:
    """Return the same from whether this torch was built for the kind, and the environment's variables.

    >>> explain("cuda", True, {"CUDA_VISIBLE_DEVICES": ""})
    ('CUDA_VISIBLE_DEVICES hides all of them', 'unset CUDA_VISIBLE_DEVICES, or list devices in it')
    """
    if not is_built:
        why = f"torch {torch.__version__} was built without {kind}"
        return why, f"install a torch that was built for {kind}"
    for name in _HIDING.get(kind, ()):
        value = variables.get(name)
        if value is not None and value.strip() in {"", "-1"}:
            return f"{name} hides all of them", f"unset {name}, or list devices in it"
    shown = next((name for name in _HIDING.get(kind, ()) if name in variables), "")
    return "", f"{_DRIVER}; {shown} is set, and may name others" if shown else _DRIVER


def is_built(kind: str) -> bool:
    """Return whether this torch was built for a kind of device; True if it does not tell."""
    backend = getattr(torch.backends, kind, None)
    ask = getattr(backend, "is_built", None) or getattr(getattr(torch, kind, None), "_is_compiled", None)
    return bool(ask()) if ask is not None else True
