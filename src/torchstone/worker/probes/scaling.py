"""Probe ``scaling``, in one rank: time each training iteration, and profile its communication."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import DeviceType  # type: ignore[attr-defined]

from torchstone.core.caution_kinds import CautionKind
from torchstone.define.benchmarks import Benchmark, Work
from torchstone.worker.failures import is_out_of_memory
from torchstone.worker.machine.strain import StrainWatch
from torchstone.worker.probes.device import Device
from torchstone.worker.probes.device_time.busy_time import Span, union
from torchstone.worker.probes.reply import Stopped, ending_as, tell
from torchstone.worker.probes.subject import Target, build, default_loss, find_trained, read_target
from torchstone.worker.protocol.caution_message import CautionMessage, caution_message
from torchstone.worker.protocol.jobs import NO_COMPILER, CaseAxes, RoundPlan
from torchstone.worker.protocol.rank_report import RankReport
from torchstone.worker.ranks.progress import TellProgress

PROFILED = 10
"""Profiled iterations, after the timed ones: profiling slows them down."""

FEWEST, MOST, TIMED = 20, 500, 3.0
"""Default number of timed iterations: as many as fit into these seconds, within these limits."""

_LEARNING_RATE = 1e-4
_MOMENTUM = 0.9
_ITERATION = "torchstone iteration"
_ON_A_DEVICE = re.compile(r"ccl", re.IGNORECASE)
_ON_THE_HOST = re.compile(r"(gloo|mpi|ucc|nccl|xccl):", re.IGNORECASE)


@dataclass
class Trained:
    """Results of one rank: seconds per iteration, peak memory, own work and communication."""

    samples: list[float]
    peak: int | None = None
    own: list[float] = field(default_factory=list)
    communication: list[float] = field(default_factory=list)
    cautions: tuple[CautionMessage, ...] = ()


def train_rank(
    benchmark: Benchmark, axes: CaseAxes, plan: RoundPlan, rank: int, tell_progress: TellProgress
) -> RankReport:
    """Build the benchmark on the rank's device, train it, and return the report."""
    target = read_target(axes)
    target.device.activate()
    make = partial(build, benchmark, target, axes.batch_size, axes.size)
    trained = train(make, target, plan, tell_progress)
    return RankReport(
        rank,
        "pass",
        device=axes.device,
        samples=tuple(trained.samples),
        peak=trained.peak,
        own=tuple(trained.own),
        communication=tuple(trained.communication),
        cautions=tuple(trained.cautions),
    )


def train(make: Callable[[], Work], target: Target, plan: RoundPlan, tell_progress: TellProgress) -> Trained:
    """Train as planned, in this rank; all ranks of a round do the same at the same time."""
    tell_progress("load", 0)
    work = make()
    with group_of(plan, target.device):
        with ending_as("fail_to_run", "OOM", is_out_of_memory):
            cautions, wrapped = _distribute(work, target, plan)
            step = make_step(work, wrapped, target)
        tell_progress("compile" if target.backend != NO_COMPILER else "run", 0)
        with ending_as("fail_to_run", "OOM", is_out_of_memory):
            seconds = _warm_up(step, target.device, plan)
            tell_progress("run", 0)
            count = plan.iterations or _agree_on_count(seconds, target.device, plan)
            trained = time_iterations(step, target.device, plan, count, tell_progress)
            trained.cautions += cautions
            if plan.ranks > 1:
                _profile(step, target.device, trained)
    return trained


@contextlib.contextmanager
def group_of(plan: RoundPlan, device: Device) -> Iterator[None]:
    """Join the process group of the round, from torchrun's variables; a single rank joins none."""
    if plan.strategy == "none":
        yield
        return
    index = device.device if device.type != "cpu" else None
    dist.init_process_group(plan.collective, timeout=timedelta(seconds=plan.timeout), device_id=index)
    yield
    dist.destroy_process_group()  # not after an error: it would wait for ranks that may be gone


def _distribute(
    work: Work, target: Target, plan: RoundPlan
) -> tuple[tuple[CautionMessage, ...], Callable[..., Any]]:
    """Wrap the model for the strategy, and compile it if asked; return cautions and the model."""
    cautions: tuple[CautionMessage, ...] = ()
    model = work.model
    if not find_trained(work):
        raise Stopped(
            "model_fail_to_load", "it has no parameter that requires a gradient, so there is nothing to train"
        )
    if plan.strategy != "none" and not isinstance(model, torch.nn.Module):
        raise Stopped(
            "model_fail_to_load",
            f"the strategy {plan.strategy} needs a torch.nn.Module, and this is a {type(model).__name__}",
        )
    if plan.strategy == "ddp":
        unused = _find_unused(work, target)
        if unused:
            cautions = (caution_message(CautionKind.UNUSED_PARAMETERS, parameters=unused),)
        model = torch.nn.parallel.DistributedDataParallel(
            model,
            device_ids=None if target.device.type == "cpu" else [target.device.device.index],
            bucket_cap_mb=plan.bucket_mb,
            find_unused_parameters=bool(unused),
        )
    elif plan.strategy == "fsdp":
        _shard(model, target.device)  # type: ignore[arg-type]
    return cautions, target.compile(model)


def _find_unused(work: Work, target: Target) -> int:
    """Return how many parameters get no gradient in one step: DDP must know, or it waits for them."""
    _step_once(work, work.model, target)
    trained = find_trained(work).values()
    unused = sum(each.grad is None for each in trained if isinstance(each, torch.nn.Parameter))
    for each in trained:
        each.grad = None
    return unused


def _shard(model: torch.nn.Module, device: Device) -> None:
    """Shard parameters over all ranks: by layer if the model has repeated layers, the rest as one."""
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415  (only here)

    try:
        from torch.distributed.fsdp import fully_shard  # noqa: PLC0415  (torch 2.6 and later)
    except ImportError as error:
        raise Stopped("not_available", f"torch {torch.__version__} has no fully_shard", error) from error
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for layer in find_layers(model):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def find_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the repeated layers of a model: in lists and in uniform sequences; the outermost if nested."""
    found: list[torch.nn.Module] = []
    within: set[torch.nn.Module] = set()
    for part in model.modules():
        layers = [each for each in part.children() if any(True for _ in each.parameters())]
        is_sequence = isinstance(part, torch.nn.Sequential) and len({type(each) for each in part}) == 1 < len(
            part
        )
        if (isinstance(part, torch.nn.ModuleList) or is_sequence) and part not in within:
            found += layers
            within.update(inner for layer in layers for inner in layer.modules())
    return found


def make_step(work: Work, model: Callable[..., Any], target: Target) -> Callable[[], None]:
    """Return one iteration: forward, loss, backward, and a step of the optimizer."""
    trained = list(find_trained(work).values())
    optimizer = torch.optim.SGD(trained, lr=_LEARNING_RATE, momentum=_MOMENTUM)

    def step() -> None:
        optimizer.zero_grad()
        _step_once(work, model, target)
        optimizer.step()

    return step


def _step_once(work: Work, model: Callable[..., Any], target: Target) -> None:
    loss = work.loss or default_loss
    with target.autocast():
        value = loss(model(*work.args, **work.kwargs))
    value.backward()


def _warm_up(step: Callable[[], None], device: Device, plan: RoundPlan) -> float:
    """Run iterations that are not kept; return the seconds of the last."""
    began = ended = time.perf_counter()
    for _ in range(plan.warm_up):
        began = time.perf_counter()
        step()
        device.synchronize()
        ended = time.perf_counter()
    return ended - began


def _agree_on_count(seconds: float, device: Device, plan: RoundPlan) -> int:
    """Choose the number of timed iterations: the same in all ranks, for a few seconds."""
    slowest = torch.tensor([seconds], device=device.device)
    if plan.strategy != "none":
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return max(FEWEST, min(MOST, int(TIMED / max(1e-6, float(slowest)))))


def time_iterations(
    step: Callable[[], None], device: Device, plan: RoundPlan, count: int, tell_progress: TellProgress
) -> Trained:
    """Time each iteration until the device has finished; all ranks begin together."""
    has_peak = device.reset_peak()
    wait, clock = device.synchronize, time.perf_counter
    if plan.strategy != "none":
        dist.barrier()
    samples = []
    wait()
    watch = StrainWatch()
    for number in range(count):
        began = clock()
        step()
        wait()
        samples.append(clock() - began)
        tell_progress("run", number + 1)
    strain = watch.read()
    cautions: tuple[CautionMessage, ...] = ()
    if plan.ranks == 1 and strain.is_disturbed:  # several ranks may keep each other waiting
        numbers = {"rate": strain.rate, "share": strain.share, "threads": torch.get_num_threads()}
        cautions = (caution_message(CautionKind.BUSY_MACHINE, **numbers),)
    return Trained(samples, device.peak_bytes() if has_peak else None, cautions=cautions)


def _profile(step: Callable[[], None], device: Device, trained: Trained) -> None:
    """Measure the share of communication with torch's profiler, if it shows collectives."""
    from torch.profiler import ProfilerActivity, profile, record_function  # noqa: PLC0415  (slow to import, and only now needed)

    activities = [ProfilerActivity.CPU]
    if device.type != "cpu" and hasattr(ProfilerActivity, device.type.upper()):
        activities.append(getattr(ProfilerActivity, device.type.upper()))
    dist.barrier()
    with profile(activities=activities) as profiler:
        for _ in range(PROFILED):
            with record_function(_ITERATION):
                step()
                device.synchronize()
    try:
        windows, spans = read_profile(profiler.events(), device)
    except Exception as error:  # noqa: BLE001  (its events differ from torch to torch; the times above do not need them)
        trained.cautions += (caution_message(CautionKind.NO_COMMUNICATION_PROFILE, why=tell(error)),)
        return
    if spans and len(windows) == PROFILED:
        for start, end in windows:
            busy = union([(max(start, a), min(end, b)) for a, b in spans if a < end and b > start])
            trained.own.append(max(0.0, end - start - busy) / 1e6)
            trained.communication.append(min(1.0, busy / (end - start)))


def read_profile(events: Any, device: Device) -> tuple[list[Span], list[Span]]:  # noqa: ANN401  (torch's own list)
    """Return the time spans of iterations and of collectives: kernels on an accelerator, else host threads."""
    windows, spans = [], []
    is_known = _ON_A_DEVICE.search if device.type != "cpu" else _ON_THE_HOST.match
    for event in events:
        on_host = event.device_type == DeviceType.CPU
        span = (event.time_range.start, event.time_range.end)
        if on_host and event.name == _ITERATION:
            windows.append(span)
        elif on_host == (device.type == "cpu") and is_known(event.name):
            spans.append(span)
    return sorted(windows), spans
