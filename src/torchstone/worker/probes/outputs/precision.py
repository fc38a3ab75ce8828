"""Make arithmetic reproducible: deterministic algorithms, full float32 precision, equal random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

EXACT = "ieee"


@contextmanager
def reproducible() -> Iterator[None]:
    """Use deterministic algorithms, full float32 precision, and eager's random numbers in compiled code."""
    import torch._inductor.config as inductor  # noqa: PLC0415  (only this function needs the compiler loaded)

    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    random_before = inductor.fallback_random
    with _full_float32():
        torch.use_deterministic_algorithms(True, warn_only=True)
        inductor.fallback_random = True
        try:
            yield
        finally:
            inductor.fallback_random = random_before
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)


@contextmanager
def _full_float32() -> Iterator[None]:
    """Disable shortcuts in float32 such as TF32.

    torch has an old and a new interface for this, and raises an error if they are mixed.
    """
    backends: Any = torch.backends
    try:
        before = torch.get_float32_matmul_precision(), backends.cudnn.allow_tf32
    except RuntimeError:
        with _exact(backends):
            yield
        return
    torch.set_float32_matmul_precision("highest")
    backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        backends.cudnn.allow_tf32 = before[1]


@contextmanager
def _exact(backends: Any) -> Iterator[None]:  # noqa: ANN401  (torch.backends, whose settings have no types)
    places = (backends, backends.cudnn, backends.cudnn.conv, backends.cudnn.rnn, backends.cuda.matmul)
    before = [place.fp32_precision for place in places]
    for place in places:
        place.fp32_precision = EXACT
    try:
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.fp32_precision = value
