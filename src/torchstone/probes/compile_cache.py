"""Probe ``compile_cache``: one scenario in one worker: what its first compiled calls cost, and what the caches had for them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from torchstone.define import Check, Work
from torchstone.disk import LARGEST, fault_of_file
from torchstone.probes.cache_events import listening, read_look_ups
from torchstone.probes.capture import reset_capture
from torchstone.probes.compile_phases import read_phases
from torchstone.probes.device import is_out_of_memory
from torchstone.probes.kept import keep_outputs, load_outputs, on_cpu
from torchstone.probes.performance import WARM_UP_CALLS
from torchstone.probes.reply import PhaseClock, Result, Stopped, ending_as, tell
from torchstone.probes.similarity import Comparison, find_bitwise_difference
from torchstone.probes.subject import (
    NO_COMPILER,
    Target,
    find_trained,
    gradient_mode,
    make_call,
    seed_everything,
)
from torchstone.probes.values import take_apart


@dataclass(frozen=True)
class Scenario:
    """What a worker is told of its scenario; a path is empty where there is nothing to read or to write.

    ``launched`` is when the parent asked for the worker, by the machine's monotonic clock. ``load`` and ``save`` are artifacts, ``expected`` and ``keep``
    first results.
    """

    launched: float
    load: str = ""
    save: str = ""
    expected: str = ""
    keep: str = ""
    precompile: bool = False


@dataclass
class _Calls:
    """The first calls of one side: what they took, when the first one had its result, and what that was."""

    seconds: float = 0.0
    first_at: float = 0.0
    values: dict[str, Any] = field(default_factory=dict)


def find_offers() -> dict[str, str]:
    """The scenarios that not every torch has, each with the reason why this one does not; empty where it does."""
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
    """Measure one scenario, adding to ``result``; alone from its first moment to its last, for all of it is timed."""
    if target.backend == NO_COMPILER:
        raise Stopped(
            "model_fail_to_load", "the backend 'none' compiles nothing, so there is nothing to cache"
        )
    result.extra["offers"] = find_offers()
    asked = time.monotonic()
    with clock.turn():
        launched = scenario.launched + time.monotonic() - asked  # waiting for others is no part of the start
        work = make()
        with gradient_mode(target.mode):
            clock.enter("compile")
            with ending_as("fail_to_run", "OOM", is_out_of_memory):
                compiled = _call_compiled(work, target, scenario, result)
            clock.enter("eager")
            with ending_as("eager_1st_run_fail", "eager_1st_run_OOM", is_out_of_memory):
                eager = _first_calls(work, target, lambda: work.model)
    result.add("compile_seconds", compiled.seconds - eager.seconds)
    result.add("first_result_seconds", compiled.first_at - launched)
    clock.enter("compare")
    if scenario.save:
        _save_artifacts(scenario.save, result)
    _settle_values(scenario, compiled.values, check)


def _call_compiled(work: Work, target: Target, scenario: Scenario, result: Result) -> _Calls:
    """The first compiled calls, with what torch says about them."""
    reset_capture()
    _forget_artifacts()
    if scenario.precompile:
        torch._dynamo.config.caching_precompile = True
    with listening() as events:
        if scenario.load:
            began = time.perf_counter()
            _load_artifacts(scenario.load)
            result.add("load_seconds", time.perf_counter() - began)
        compiled = _first_calls(work, target, lambda: target.compile(work.model), keep=True)
    for phase, seconds in read_phases().items():
        result.add(f"{phase}_seconds", seconds)
    result.extra["look_ups"] = read_look_ups()
    result.extra["events"] = events.seen
    if events.more:
        result.caution(f"{events.more} more look-ups in caches are not listed")
    return compiled


def _first_calls(
    work: Work, target: Target, get_model: Callable[[], Callable[..., Any]], *, keep: bool = False
) -> _Calls:
    """Getting the model, and as many calls as the performance probe warms up with. Keeping the first result is not timed."""
    calls = _Calls()
    seed_everything()
    target.device.synchronize()
    began = time.perf_counter()
    call = make_call(work, target, get_model())
    for number in range(WARM_UP_CALLS):
        value = call()
        target.device.synchronize()
        if number == 0:
            calls.first_at = time.monotonic()
            calls.seconds += time.perf_counter() - began
            if keep:
                calls.values = _first_values(value, work, target)
            began = time.perf_counter()
    calls.seconds += time.perf_counter() - began
    return calls


def _first_values(value: Any, work: Work, target: Target) -> dict[str, Any]:  # noqa: ANN401  (whatever the model returns)
    """What the first call returned, and in training the gradients too."""
    values = on_cpu(dict(take_apart(value)))
    if target.mode == "training":
        for name, leaf in find_trained(work).items():
            if (
                leaf.grad is not None
            ):  # one after the other: a device that is nearly full has no room for all of them twice
                values |= on_cpu(dict(take_apart(leaf.grad, f"gradient of {name}")))
    return values


def _forget_artifacts() -> None:
    """Drop what the process recorded before: a forked one has compiled a tiny graph, which is no part of this model."""
    try:
        from torch.compiler._cache import CacheArtifactManager  # noqa: PLC0415  (older torch has none)
    except ImportError:
        return
    CacheArtifactManager.clear()


def _load_artifacts(path: str) -> None:
    if fault := fault_of_file(path, LARGEST):
        raise Stopped("fail_to_run", f"the artifacts in {path} cannot be loaded: {fault}")
    try:
        with open(path, "rb") as file:
            info = torch.compiler.load_cache_artifacts(file.read())
    except Exception as error:
        raise Stopped(
            "fail_to_run", f"the artifacts in {path} cannot be loaded: {tell(error)}", error
        ) from error
    if info is None or info.empty():
        raise Stopped(
            "fail_to_run",
            f"the artifacts in {path} cannot be loaded: torch finds none in them (they may be damaged, or from another torch)",
        )


def _save_artifacts(path: str, result: Result) -> None:
    """Write torch's portable artifacts; what they hold, and how large they are, is noted."""
    saved = torch.compiler.save_cache_artifacts()
    if saved is None:
        result.extra["unsaved"] = "torch has recorded nothing that could be saved"
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
    result.extra["artifacts"] = {
        "bytes": len(content),
        **{kind: len(keys) for kind, keys in info.artifacts.items()},
    }


def _settle_values(scenario: Scenario, values: dict[str, Any], check: Check) -> None:
    """Keep the first result for the scenarios to come, or compare it with the one that was kept."""
    if scenario.keep and (problem := keep_outputs(scenario.keep, values)):
        raise Stopped("fail_to_run", f"the first result cannot be kept: {problem}")
    if not scenario.expected:
        return
    expected, problem = load_outputs(scenario.expected)
    if problem:
        raise Stopped("fail_to_run", problem)
    difference = find_bitwise_difference(expected, values)
    if difference and Comparison(check, None).find_mismatch(expected, values):
        raise Stopped("fail_accuracy", f"the first result is not that of the cold start: {difference}")
