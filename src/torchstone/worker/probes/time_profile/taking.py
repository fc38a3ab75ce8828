"""Take the time profile of a case: after it has been timed, in a phase of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType

import torch

from torchstone.core.caution_kinds import CautionKind
from torchstone.define.benchmarks import Work as Benchmarked
from torchstone.worker.probes.reply import PhaseClock, Result, tell
from torchstone.worker.probes.subject import Target, find_captured_by_work, make_call
from torchstone.worker.probes.time_profile.folding import sum_up
from torchstone.worker.probes.time_profile.generated_code import (
    loaded_wrappers,
    naming_native_kernels,
    read_generated,
)
from torchstone.worker.probes.time_profile.graph_nodes import capture_nodes, kernel_origins
from torchstone.worker.probes.time_profile.origins import (
    LaunchOrigin,
    find_executed,
    find_origins,
    name_modules,
)
from torchstone.worker.probes.time_profile.recorded_call import Recording, record_call
from torchstone.worker.probes.time_profile.work_of_call import (
    WorkSpan,
    assign_origins,
    least_disturbed,
    list_work,
)
from torchstone.worker.protocol.jobs import NO_COMPILER
from torchstone.worker.protocol.time_profile_reply import SideTimeFound, TimeProfileFound

RECORDED_CALLS = 7
_WITH_CUDA_GRAPHS = frozenset({"reduce-overhead", "max-autotune"})
Call = Callable[[], object]


def take_time_profile(
    benchmarked: Benchmarked, target: Target, eager: Call, compiled: Call, clock: PhaseClock, result: Result
) -> None:
    """Add the profile of one call of each side to the result; a profile that cannot be taken is a caution, not a failure.

    Afterwards the compiled call is no longer compiled.
    """
    clock.enter("profile")
    try:
        with clock.turn():
            profile = _take(benchmarked, target, eager, compiled)
    except Exception as error:  # noqa: BLE001  (the times do not need the profile, and torch's profiler differs from version to version)
        result.caution(CautionKind.NO_TIME_PROFILE, why=tell(error))
        return
    for side, found in (("eager", profile.eager), ("compiled", profile.compiled)):
        if found and found.problem:
            result.caution(CautionKind.NO_TIME_PROFILE, why=f"{side}: {found.problem}")
    result.details = replace(result.details, time_profile=profile)


def _take(benchmarked: Benchmarked, target: Target, eager: Call, compiled: Call) -> TimeProfileFound:
    held = find_captured_by_work(benchmarked)
    modules = name_modules(held)
    eager_side = _profile_side(eager, target, modules)
    compiled_side = None
    if target.backend != NO_COMPILER:
        wrappers = loaded_wrappers()
        with naming_native_kernels(wrappers):
            recorded = _record_side(compiled, target)
        files = _files_of_call(wrappers, recorded.with_origins)
        generated = _origins_of_generated(benchmarked, target, files)
        compiled_side = _summarise(recorded, target, modules, generated)
    return TimeProfileFound(
        target.device.type,
        _device_name(target),
        torch.__version__,
        _model_dtype(held, target),
        eager_side,
        compiled_side,
        _allows_tf32(),
        _uses_cuda_graphs(target),
    )


@dataclass(frozen=True)
class _SideRecording:
    """One side: its work with times, the time of the call, and a call with the origins of everything."""

    work: list[WorkSpan]
    wall: int
    with_origins: Recording


def _profile_side(call: Call, target: Target, modules: Mapping[int, str]) -> SideTimeFound:
    return _summarise(_record_side(call, target), target, modules, {})


def _record_side(call: Call, target: Target) -> _SideRecording:
    """Record several calls for the times, and another one for the origins, which slow the host down."""
    device = target.device
    on_cpu = device.type == "cpu"
    taken = [record_call(call, device, host=on_cpu) for _ in range(RECORDED_CALLS)][1:]
    work = least_disturbed([list_work(each, on_cpu=on_cpu) for each in taken])
    wall = min(each.wall for each in taken)
    return _SideRecording(work, wall, record_call(call, device, host=True, stack=True))


def _summarise(
    recorded: _SideRecording,
    target: Target,
    modules: Mapping[int, str],
    generated: Mapping[str, Sequence[LaunchOrigin]],
) -> SideTimeFound:
    on_cpu = target.device.type == "cpu"
    work, origins = recorded.work, recorded.with_origins
    found = find_origins(origins.tree, modules)
    dtypes = {each.correlation: each.dtype for each in origins.host if each.dtype}
    found = {number: replace(each, dtype=dtypes.get(number, "")) for number, each in found.items()}
    where = assign_origins(work, list_work(origins, on_cpu=on_cpu), found, generated)
    side = sum_up(work, where, recorded.wall, on_cpu=on_cpu)
    if work:
        return side
    what = "operators" if on_cpu else "kernels"
    return replace(side, problem=f"torch's profiler returned no {what} of the call")


def _files_of_call(wrappers: Sequence[ModuleType], recorded: Recording) -> list[str]:
    """Return the files of generated code that the call executed, in order; all there are, if the profiler saw none (CUDA graphs replay their kernels)."""
    files = list(dict.fromkeys(file for each in wrappers if (file := each.__file__)))
    return find_executed(recorded.tree or (), files) or files


def _origins_of_generated(
    benchmarked: Benchmarked, target: Target, files: Sequence[str]
) -> dict[str, list[LaunchOrigin]]:
    """Return what is known of the kernels in generated code: their operators, and their lines if the model can be traced again."""
    calls = read_generated(files)
    if not calls:
        return {}
    nodes = {}
    with suppress(Exception):  # lines are welcome, and nothing depends on them
        nodes = capture_nodes(
            benchmarked.model, target, lambda model: make_call(benchmarked, target, model)()
        )
    return kernel_origins(calls, nodes)


def _device_name(target: Target) -> str:
    if target.device.type == "cpu":
        return ""
    module = torch.get_device_module(target.device.device)
    with suppress(AttributeError, RuntimeError):
        return str(module.get_device_name(target.device.device))
    return ""


def _model_dtype(held: Mapping[str, object], target: Target) -> str:
    """Return the dtype of most parameters; that of autocast for amp."""
    if target.dtype == "amp":
        return str(torch.get_autocast_dtype(target.device.type)).removeprefix("torch.")
    counts: Counter[str] = Counter()
    for each in held.values():
        for tensor in each.parameters() if isinstance(each, torch.nn.Module) else [each]:
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                counts[str(tensor.dtype).removeprefix("torch.")] += tensor.numel()
    return counts.most_common(1)[0][0] if counts else ""


def _allows_tf32() -> bool | None:
    """Return whether float32 products may use TF32; None if this torch does not say."""
    with suppress(AttributeError, RuntimeError):
        return torch.get_float32_matmul_precision() != "highest"
    return None


def _uses_cuda_graphs(target: Target) -> bool:
    if target.device.type != "cuda":
        return False
    return target.compile_mode in _WITH_CUDA_GRAPHS or bool((target.options or {}).get("triton.cudagraphs"))
