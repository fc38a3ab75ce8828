"""Time profiles as `torchstone run --profile` keeps them: made up, and one that was recorded on an H200."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchstone.analyze.call_time.kernel_families import classify
from torchstone.core.details.capture_details import CaptureDetails, GraphBreak
from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.details.time_profile import KernelTime, SideTime, TimeProfile
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant

RECORDED = Path(__file__).parent.parent / "benchmarks" / "results" / "h200-time-profile.jsonl"
"""BertForMaskedLM in bfloat16 under torch 2.11, eager and compiled."""

GEMM_32 = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8"
GEMM_16 = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"
FLASH = "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>"


def kernel(name: str, milliseconds: float, count: int = 1, **further: Any) -> KernelTime:  # noqa: ANN401
    """A kernel; its family is the one that its name has, unless it is given."""
    kind = classify(name)
    stated = {"family": kind.family.value, "dtype": kind.dtype} | further
    return KernelTime(name=name, count=count, milliseconds=milliseconds, **stated)


def side(*kernels: KernelTime, wall: float | None = None, **further: Any) -> SideTime:  # noqa: ANN401
    """A call that launches these, one after another on one stream."""
    busy = sum(each.milliseconds for each in kernels)
    timeline, at = [], 0
    for index, each in enumerate(kernels):
        duration = round(1e6 * each.milliseconds / max(each.count, 1))
        for _ in range(each.count):
            timeline.append((index, 7, at, duration))
            at += duration
    values: dict[str, Any] = {
        "launches": sum(each.count for each in kernels),
        "timeline": tuple(timeline),
    } | further
    return SideTime(wall=busy if wall is None else wall, busy=busy, kernels=kernels, **values)


def profile(eager: SideTime | None, compiled: SideTime | None, **further: Any) -> TimeProfile:  # noqa: ANN401
    stated: dict[str, Any] = {
        "device": "cuda",
        "device_name": "NVIDIA H200",
        "torch": "2.11.0",
        "model_dtype": "bfloat16",
        "tf32": False,
    } | further
    return TimeProfile(eager=eager, compiled=compiled, **stated)


DECOMPOSED = profile(
    side(kernel(GEMM_16, 6.0, 36), kernel(FLASH, 0.8, 12, operator="aten::_flash_attention_forward")),
    side(
        kernel(GEMM_16, 5.0, 36),
        kernel(
            GEMM_32, 8.0, 12, operator="aten::bmm", module="encoder.layer.*.attention", place="model.py:12"
        ),
        kernel("triton_per_fused__softmax_3", 2.0, 12),
    ),
)


def timed_case(name: str = "mlp", probe: str = "performance", **axes: Any) -> Case:  # noqa: ANN401
    stated = {"device": "cuda", "backend": "inductor", "mode": "inference", "dtype": "bfloat16"} | axes
    return Case(name, probe, "smoke", Variant(**stated))


def timed_outcome(
    found: TimeProfile | None,
    case: Case | None = None,
    status: str = "pass",
    breaks: Sequence[GraphBreak] = (),
    **metrics: float,
) -> Outcome:
    return Outcome(
        case or timed_case(),
        status,
        tuple(Measurement(name, (float(value),)) for name, value in metrics.items()),
        capture=CaptureDetails(tuple(breaks)) if breaks else None,
        details=OutcomeDetails(time_profile=found),
    )


def timed_run(*outcomes: Outcome) -> Run:
    return Run("r", tuple(each.case for each in outcomes), outcomes)
