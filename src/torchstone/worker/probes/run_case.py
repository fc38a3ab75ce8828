"""Run one case in the worker: parse the job, build the benchmark, call the probe."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from torchstone.core.caution_kinds import CautionKind
from torchstone.define.benchmarks import LABELS, Benchmark, Check, Work
from torchstone.define.counted import Counted
from torchstone.worker.probes.accuracy import AccuracyPlan, measure_accuracy
from torchstone.worker.probes.compile_cache import measure_scenario
from torchstone.worker.probes.compiler.compiling_apart import watch_compiler
from torchstone.worker.probes.compiler.torch_settings import read_torch_settings
from torchstone.worker.probes.counting.compiled_model import CompiledModel
from torchstone.worker.probes.instructions import measure_instructions
from torchstone.worker.probes.performance import measure_performance
from torchstone.worker.probes.reply import Exchange, PhaseClock, Result, Stopped
from torchstone.worker.probes.reported_metrics import MetricCollector
from torchstone.worker.probes.subject import Origin, Target, build, read_target
from torchstone.worker.probes.timing import StopRule
from torchstone.worker.probes.turns import look_at_code, pin, scatter_memory, take_turns
from torchstone.worker.protocol.jobs import CaseAxes, MeasureJob, MeasureOptions, PairPart

_NOT_KEPT = frozenset({"compile_cache", "instructions"})
"""The probes of benchmarks that run a model, but keep no metrics of its own."""


def run_case(
    benchmark: Benchmark | Counted,
    job: MeasureJob,
    clock: PhaseClock,
    result: Result,
    exchange: Exchange | None = None,
) -> None:
    """Build the benchmark, and run the job's probe; ``exchange`` is for taking turns with another worker."""
    if isinstance(benchmark, Counted):
        own = MetricCollector()
        with own.recording():
            measure_instructions(benchmark, job.counting, clock, result, own)
        return
    axes = job.axes
    target = read_target(axes)
    with clock.using_device():
        target.device.activate()
    check = _check(benchmark, axes)
    if job.probe == "accuracy" and check.skip:
        result.status, result.message = "pass_due_to_skip", check.skip
        return
    make = partial(_make, benchmark, target, axes, clock, result)
    own = MetricCollector(benchmark.metrics)
    if job.probe in _NOT_KEPT and benchmark.metrics is not None:
        result.caution(CautionKind.OWN_METRICS_NOT_KEPT, probe=job.probe)
    if job.probe == "compile_cache":
        if job.scenario is None:
            raise Stopped("fail_to_run", "the job names no scenario")
        measure_scenario(make, target, job.scenario, check, clock, result)
        return
    if job.probe == "instructions":
        model = CompiledModel(benchmark.name, make, target)
        measure_instructions(model, job.counting, clock, result)
        return
    pair = job.pair or PairPart()
    scattered = scatter_memory(pair.layout)
    if job.probe == "performance" and not pair.takes_turns:
        with own.recording():
            work = make()
            own.end_build()
            pin(pair.cores)
            rule, profile = _stop_rule(job.options), job.options.profile
            measure_performance(work, target, rule, clock, result, job.identity, own, profile=profile)
        _add_code(pair, result)
        return
    work = make()
    if pair.takes_turns and exchange is not None:
        take_turns(work, target, pair, clock, result, exchange)
        del scattered  # needed until now
        return
    pin(pair.cores)
    plan = _accuracy_plan(job.options)
    with clock.using_device():
        watch_compiler(clock)
        measure_accuracy(Origin(work, make), target, check, plan, clock, result, job.identity)
    _add_code(pair, result)


def _make(benchmark: Benchmark, target: Target, axes: CaseAxes, clock: PhaseClock, result: Result) -> Work:
    """Build the work, and record where and under which settings of torch it is measured."""
    with clock.using_device():
        work = build(benchmark, target, axes.batch_size, axes.size, axes.labels)
    labels = axes.labels and LABELS in benchmark.takes
    found = read_torch_settings(work, target, labels)
    result.details = replace(result.details, torch=found, device=target.device.place)
    return work


def _add_code(pair: PairPart, result: Result) -> None:
    """Add where the code came from, if the job asks for it."""
    if pair.tree:
        result.details = replace(result.details, code=look_at_code(pair.tree))


def _check(benchmark: Benchmark, axes: CaseAxes) -> Check:
    if benchmark.check is None:
        return Check()
    return benchmark.check(axes.mode, axes.dtype, axes.device.partition(":")[0])


def _stop_rule(options: MeasureOptions) -> StopRule:
    default = StopRule()
    return StopRule(
        options.repeat,
        default.precision if options.precision is None else options.precision,
        default.budget if options.budget is None else options.budget,
    )


def _accuracy_plan(options: MeasureOptions) -> AccuracyPlan:
    return AccuracyPlan(options.save_outputs, options.compare_outputs, options.batch_invariant)
