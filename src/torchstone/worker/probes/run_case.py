"""Run one case in the worker: parse the job, build the benchmark, call the probe."""

from __future__ import annotations

from functools import partial
from typing import Any

from torchstone.define.benchmarks import Benchmark, Check
from torchstone.define.counted import Counted
from torchstone.worker.probes.accuracy import AccuracyPlan, measure_accuracy
from torchstone.worker.probes.compile_cache import Scenario, measure_scenario
from torchstone.worker.probes.counting.compiled_model import CompiledModel
from torchstone.worker.probes.device import Device
from torchstone.worker.probes.instructions import CountPlan, measure_instructions
from torchstone.worker.probes.performance import measure_performance
from torchstone.worker.probes.reply import PhaseClock, Result, settings_of
from torchstone.worker.probes.subject import Origin, Target, build
from torchstone.worker.probes.timing import StopRule
from torchstone.worker.probes.turns import Exchange, look_at_code, pin, scatter_memory, take_turns


def run_case(
    benchmark: Benchmark | Counted,
    job: dict[str, Any],
    clock: PhaseClock,
    result: Result,
    exchange: Exchange | None = None,
) -> None:
    """Build the benchmark, and run the job's probe; ``exchange`` is for taking turns with another worker."""
    if isinstance(benchmark, Counted):
        measure_instructions(benchmark, CountPlan(**job["counting"]), clock, result)
        return
    variant = job["variant"]
    target = read_target(variant)
    target.device.activate()
    check = _check(benchmark, variant)
    if job["probe"] == "accuracy" and check.skip:
        result.status, result.message = "pass_due_to_skip", check.skip
        return
    make = partial(build, benchmark, target, variant.get("batch_size"), variant.get("size") or "full")
    if job["probe"] == "compile_cache":
        measure_scenario(make, target, Scenario(**job["scenario"]), check, clock, result)
        return
    if job["probe"] == "instructions":
        model = CompiledModel(benchmark.name, make, target)
        measure_instructions(model, CountPlan(**job["counting"]), clock, result)
        return
    scattered = scatter_memory(job.get("layout"))
    work = make()
    identity = job.get("identity", {})
    if job.get("turns") and exchange is not None:
        take_turns(work, target, job, clock, result, exchange)
        del scattered  # which had to be there until now
        return
    pin(job.get("cores"))
    if job["probe"] == "accuracy":
        measure_accuracy(Origin(work, make), target, check, _accuracy_plan(job), clock, result, identity)
    else:
        measure_performance(work, target, _stop_rule(job), clock, result, identity)
    if job.get("tree"):
        result.extra["code"] = look_at_code(job)


def read_target(variant: dict[str, Any]) -> Target:
    """Parse the axes of a case."""
    return Target(
        Device(variant["device"]),
        variant["mode"],
        variant["dtype"],
        variant["backend"],
        variant.get("dynamic"),
        variant.get("compile_mode"),
        bool(variant.get("fullgraph")),
        variant.get("options"),
    )


def _check(benchmark: Benchmark, variant: dict[str, Any]) -> Check:
    if benchmark.check is None:
        return Check()
    return benchmark.check(variant["mode"], variant["dtype"], variant["device"].partition(":")[0])


def _stop_rule(job: dict[str, Any]) -> StopRule:
    default = StopRule()
    return StopRule(
        settings_of(job, "repeat", None),
        settings_of(job, "precision", default.precision),
        settings_of(job, "budget", default.budget),
    )


def _accuracy_plan(job: dict[str, Any]) -> AccuracyPlan:
    return AccuracyPlan(
        settings_of(job, "save_outputs", ""),
        settings_of(job, "compare_outputs", ""),
        bool(settings_of(job, "batch_invariant", False)),
    )
