"""Apply the chosen settings of torch to this process, and read those that a case was measured under."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchstone.define.benchmarks import Work
from torchstone.worker.probes.subject import Target
from torchstone.worker.protocol.case_findings import TorchSettingsFound
from torchstone.worker.protocol.jobs import TorchSettings

_RECORDING_MODES = frozenset({"reduce-overhead", "max-autotune"})
"""Modes of ``torch.compile`` in which inductor records CUDA graphs."""

_KERNELS = ("flash", "mem_efficient", "cudnn", "math")
"""Implementations of scaled dot product attention that torch chooses from."""


def apply_torch_settings(settings: TorchSettings) -> None:
    """Apply what was chosen, before anything is built: code that is compiled later depends on it."""
    cuda: Any = torch.backends.cuda
    if settings.tf32 is not None:
        cuda.matmul.allow_tf32 = settings.tf32
    if settings.half_reductions is not None:
        cuda.allow_fp16_bf16_reduction_math_sdp(settings.half_reductions)
    if settings.cuda_graphs is not None:
        import torch._inductor.config as inductor  # noqa: PLC0415  (only here)

        inductor.triton.cudagraphs = settings.cuda_graphs


def read_torch_settings(work: Work, target: Target, labels: bool) -> TorchSettingsFound:
    """Return the settings in force; None for those that do not exist on the device."""
    cuda: Any = torch.backends.cuda
    attention = describe_attention(work.model)
    given = labels if target.mode == "inference" else None
    if target.device.type != "cuda":
        return TorchSettingsFound(labels=given, attention=attention)
    return TorchSettingsFound(
        _attempt(_allows_tf32),
        _attempt(cuda.fp16_bf16_reduction_math_sdp_allowed),
        _attempt(lambda: _records_graphs(target)),
        given,
        attention,
    )


def describe_attention(model: object) -> str:
    """Return the attention implementation that a model states, and the kernels that torch may choose for it; empty if it states none.

    Models of transformers state theirs in their configuration.
    """
    stated = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if not isinstance(stated, str) or stated != "sdpa":
        return stated if isinstance(stated, str) else ""
    backends: Any = torch.backends.cuda
    allowed = [name for name in _KERNELS if _attempt(getattr(backends, f"{name}_sdp_enabled", lambda: False))]
    return f"sdpa ({', '.join(allowed)})"


def _attempt(read: Callable[[], bool]) -> bool | None:
    """Return a setting; None if this torch does not have it, or cannot say."""
    try:
        return bool(read())
    except (AttributeError, RuntimeError):
        return None


def _allows_tf32() -> bool:
    """Return whether float32 matrix products may use TF32. torch has an old and a new interface for this, which must not be mixed."""
    matmul: Any = torch.backends.cuda.matmul
    try:
        return bool(matmul.allow_tf32)
    except RuntimeError:
        return bool(matmul.fp32_precision == "tf32")


def _records_graphs(target: Target) -> bool:
    """Return whether the compiled side uses CUDA graphs."""
    if target.backend == "cudagraphs":
        return True
    if target.backend != "inductor":
        return False
    import torch._inductor.config as inductor  # noqa: PLC0415  (only here)

    stated = (target.options or {}).get("triton.cudagraphs")
    if stated is not None:
        return bool(stated)
    return target.compile_mode in _RECORDING_MODES or bool(inductor.triton.cudagraphs)
