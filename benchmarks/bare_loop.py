"""A training loop as a person would write it, and the scaling probe's, in turns: the program that benchmarks/scaling.py has torchrun start.

    torchrun --standalone --nproc-per-node 2 benchmarks/bare_loop.py mlp ddp cpu 60 seconds.json

The first rank writes the seconds of an iteration, turn by turn, of both loops.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from torchstone.define.benchmarks import Work
from torchstone.suites import load_suite
from torchstone.worker.probes.device import Device
from torchstone.worker.probes.scaling import make_step, time_iterations
from torchstone.worker.probes.subject import Target
from torchstone.worker.protocol.jobs import RoundPlan
from torchstone.worker.ranks.progress import ProgressFile

BUCKET_MB, ITERATIONS = 25, 20


def main() -> None:
    """Have both loops take turns, and write what they took."""
    name, strategy, kind, blocks, output = sys.argv[1:]
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    device = Device(kind if kind == "cpu" else f"{kind}:{local}")
    device.activate()
    if kind == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(1337)
    work = make(name)
    model: Any = work.model
    model.to(device.device).train()
    work = replace(work, args=tuple(each.to(device.device) for each in work.args))
    if strategy == "ddp":
        dist.init_process_group(
            "gloo" if kind == "cpu" else "nccl", device_id=None if kind == "cpu" else device.device
        )
        ids = None if kind == "cpu" else [local]
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, bucket_cap_mb=BUCKET_MB)
    with tempfile.TemporaryDirectory() as folder:
        loops = make_bare(work, model, device), make_probe(work, model, device, ProgressFile(folder, rank))
        seconds = take_turns(loops, int(blocks))
    if rank == 0:
        Path(output).write_text(json.dumps(seconds))
    if strategy == "ddp":
        dist.destroy_process_group()


Loop = Callable[[], float]
"""Some iterations; gives the seconds of one, from the end of the first to the end of the last."""


def take_turns(loops: tuple[Loop, Loop], blocks: int) -> tuple[list[float], list[float]]:
    """Each loop so many times, in an order that is the same in all ranks."""
    chance = random.Random(1)  # noqa: S311  (an order, not a secret)
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(blocks + 1):
        for side in chance.sample((0, 1), 2):
            took = loops[side]()
            if number:  # the first turn of each is to warm up
                seconds[side].append(took)
    return seconds


def make_bare(work: Work, model: Any, device: Device) -> Loop:  # noqa: ANN401  (a module, perhaps wrapped)
    """The loop that a person would write, who wants to know what each iteration took."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    wait = device.synchronize
    loss: Any = work.loss

    def loop() -> float:
        seconds, ends = [], []
        wait()
        for _ in range(ITERATIONS):
            began = time.perf_counter()
            optimizer.zero_grad()
            loss(model(*work.args)).backward()
            optimizer.step()
            wait()
            ends.append(time.perf_counter())
            seconds.append(ends[-1] - began)
        return (ends[-1] - ends[0]) / (ITERATIONS - 1)

    return loop


def make_probe(work: Work, model: Any, device: Device, progress: ProgressFile) -> Loop:  # noqa: ANN401
    """The loop of torchstone's probe, with what it tells meanwhile."""
    step = make_step(work, model, Target(device, "training", "float32", "none"))
    plan = RoundPlan("none", 1)

    def loop() -> float:
        ends = []

        def tell(phase: str, iteration: int) -> None:
            progress.tell(phase, iteration)
            ends.append(time.perf_counter())

        time_iterations(step, device, plan, ITERATIONS, tell)
        return (ends[-1] - ends[0]) / (ITERATIONS - 1)

    return loop


def make(name: str) -> Work:
    """The model and its inputs."""
    suite = load_suite("scaling")
    if suite.prepare:
        suite.prepare()
    benchmark = next(each for each in suite.collect() if each.name == name)
    return benchmark.make(batch_size=benchmark.batch_size)


if __name__ == "__main__":
    main()
