"""Probe ``compile_cache``: measure the first compiled calls of one scenario, and its cache look-ups."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.disk import LARGEST, fault_of_file
from torchstone.core.vocabulary import COMPILE_SECONDS
from torchstone.define.benchmarks import Check, Work
from torchstone.worker.failures import is_out_of_memory
from torchstone.worker.probes.compiler.cache_events import listening, read_look_ups
from torchstone.worker.probes.compiler.capture import read_capture, reset_capture
from torchstone.worker.probes.compiler.compile_phases import read_phases
from torchstone.worker.probes.compiler.compile_strain import noting_strain
from torchstone.worker.probes.compiler.own_artifacts import is_made_here, note_made
from torchstone.worker.probes.outputs.saved_outputs import load_outputs, on_cpu, save_outputs
from torchstone.worker.probes.outputs.similarity import OutputComparison, find_bitwise_difference
from torchstone.worker.probes.outputs.values import Outputs, take_apart
from torchstone.worker.probes.reply import PhaseClock, Result, Stopped, ending_as, tell
from torchstone.worker.probes.subject import (
    Target,
    find_trained,
    gradient_mode,
    make_call,
    seed_everything,
)
from torchstone.worker.probes.warm_up import WARM_UP_CALLS
from torchstone.worker.protocol.jobs import NO_COMPILER, Scenario


@dataclass(frozen=True)
class _FirstCall:
    """The first compiled call: the time of its result, by the monotonic clock, and the result."""

    at: float
    values: Outputs


def find_offers() -> dict[str, str]:
    """Return the optional scenarios, each with the reason why this torch lacks it; empty if it does not."""
    saves = hasattr(torch.compiler, "save_cache_artifacts") and hasattr(
        torch.compiler, "load_cache_artifacts"
    )
    no_saving = "" if saves else f"torch {torch.__version__} has no torch.compiler.save_cache_artifacts"
    precompiles = hasattr(torch._dynamo.config, "caching_precompile")
    no_precompile = (
        "" if precompiles else f"torch {torch.__version__} has no dynamo setting caching_precompile"
    )
    return {"portable": no_saving, "precompile": no_saving or no_precompile}


def measure_scenario(
    make: Callable[[], Work],
    target: Target,
    scenario: Scenario,
    check: Check,
    clock: PhaseClock,
    result: Result,
) -> None:
    """Measure one scenario, and add to ``result``; no other worker may time meanwhile."""
    if target.backend == NO_COMPILER:
        raise Stopped(
            "model_fail_to_load", "the backend 'none' compiles nothing, so there is nothing to cache"
        )
    result.details = replace(result.details, offers=find_offers())
    asked = time.monotonic()
    with clock.turn():
        launched = scenario.launched + time.monotonic() - asked  # waiting for other workers does not count
        work = make()
        with gradient_mode(target.mode):
            clock.enter("compile")
            with ending_as("fail_to_run", "OOM", is_out_of_memory):
                first = _call_compiled(work, target, scenario, result)
    result.add("first_result_seconds", first.at - launched)
    clock.enter("compare")
    if scenario.save:
        _save_artifacts(scenario.save, scenario.made_here, result)
    _settle_values(scenario, first.values, check)


def _call_compiled(work: Work, target: Target, scenario: Scenario, result: Result) -> _FirstCall:
    """Make the first compiled calls, and record what torch reports about them."""
    reset_capture()
    _forget_artifacts()
    if scenario.precompile:
        torch._dynamo.config.caching_precompile = True
    with listening() as events, noting_strain(result):
        if scenario.load:
            result.add("load_seconds", _load_artifacts(scenario.load, scenario.made_here))
        first = _first_calls(work, target)
    _add_seconds(result)
    result.details = replace(result.details, look_ups=read_look_ups(), events=tuple(events.seen))
    if events.more:
        result.caution(CautionKind.LOOK_UPS_NOT_LISTED, more=events.more)
    return first


def _add_seconds(result: Result) -> None:
    """Add compile times from torch's timers. A start that compiled nothing does not pass."""
    seconds = read_capture().seconds
    if not seconds > 0:
        raise Stopped(
            "fail_to_run",
            f"torch's timers recorded no compilation in {WARM_UP_CALLS} calls; is dynamo disabled (TORCHDYNAMO_DISABLE)?",
        )
    result.add(COMPILE_SECONDS, seconds)
    for phase, spent in read_phases().items():
        result.add(f"{phase}_seconds", spent)


def _first_calls(work: Work, target: Target) -> _FirstCall:
    """Make as many compiled calls as the performance probe's warm-up: a later one may compile again."""
    seed_everything()
    call = make_call(work, target, target.compile(work.model))
    value = call()
    target.device.synchronize()
    first = _FirstCall(time.monotonic(), _first_values(value, work, target))
    for _ in range(WARM_UP_CALLS - 1):
        call()
    target.device.synchronize()
    return first


def _first_values(value: Any, work: Work, target: Target) -> Outputs:  # noqa: ANN401  (whatever the model returns)
    """Return the results of the first call; in training, the gradients too."""
    values = on_cpu(dict(take_apart(value)))
    if target.mode == "training":
        for name, leaf in find_trained(work).items():
            if leaf.grad is not None:  # one at a time: a nearly full device has no room for two copies
                values |= on_cpu(dict(take_apart(leaf.grad, f"gradient of {name}")))
    return values


def _forget_artifacts() -> None:
    """Drop what the process recorded earlier: a forked worker has already compiled a tiny graph."""
    try:
        from torch.compiler._cache import CacheArtifactManager  # noqa: PLC0415  (older torch has none)
    except ImportError:
        return
    CacheArtifactManager.clear()


def _load_artifacts(path: str, made_here: str) -> float:
    """Load artifacts; where required, only bytes that were made here. Return the seconds without that check."""
    if fault := fault_of_file(path, LARGEST):
        raise Stopped("fail_to_run", f"the artifacts in {path} cannot be loaded: {fault}")
    try:
        began = time.perf_counter()
        with open(path, "rb") as file:
            content = file.read()
        seconds = time.perf_counter() - began
        if made_here and not is_made_here(made_here, content):
            raise PermissionError("not created on this machine; pass --trust to load them")
        began = time.perf_counter()
        info = torch.compiler.load_cache_artifacts(content)
        seconds += time.perf_counter() - began
    except Exception as error:
        raise Stopped(
            "fail_to_run", f"the artifacts in {path} cannot be loaded: {tell(error)}", error
        ) from error
    if info is None or info.empty():
        raise Stopped(
            "fail_to_run",
            f"the artifacts in {path} cannot be loaded: torch finds none in them (they may be damaged, or from another torch)",
        )
    return seconds


def _save_artifacts(path: str, made_here: str, result: Result) -> None:
    """Write torch's portable artifacts, and record their content and size."""
    saved = torch.compiler.save_cache_artifacts()
    if saved is None:
        result.details = replace(result.details, unsaved="torch has recorded nothing that could be saved")
        return
    content, info = saved
    written = f"{path}.{os.getpid()}.part"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(written, "wb") as file:
            file.write(content)
        os.replace(written, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(written)
        raise Stopped(
            "fail_to_run", f"the artifacts cannot be kept in {path}: {tell(error)}", error
        ) from error
    if made_here:
        note_made(made_here, content)
    counts = {kind: len(keys) for kind, keys in info.artifacts.items()}
    result.details = replace(result.details, artifacts={"bytes": len(content), **counts})


def _settle_values(scenario: Scenario, values: Outputs, check: Check) -> None:
    """Save the first result for later scenarios, or compare it with the saved one."""
    if scenario.keep and (problem := save_outputs(scenario.keep, values)):
        raise Stopped("fail_to_run", f"the first result cannot be kept: {problem}")
    if not scenario.expected:
        return
    expected, problem = load_outputs(scenario.expected)
    if problem:
        raise Stopped("fail_to_run", problem)
    difference = find_bitwise_difference(expected, values)
    if difference and OutputComparison(check, None).find_mismatch(expected, values):
        raise Stopped("fail_accuracy", f"the first result is not that of the cold start: {difference}")
