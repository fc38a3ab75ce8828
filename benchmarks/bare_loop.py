"""A training loop as a person would write it, for torchrun: what benchmarks/scaling.py holds torchstone's own against.

    torchrun --standalone --nproc-per-node 2 benchmarks/bare_loop.py mlp ddp cpu 100 seconds-{rank}.json

Every rank times each of its iterations and writes the seconds. Only the model comes from torchstone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from torchstone.suites import load_suite

WARM_UP = 5
BUCKET_MB = 25


def main() -> None:
    """Train, and write what it took."""
    name, strategy, kind, iterations, output = sys.argv[1:]
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    device = torch.device(kind) if kind == "cpu" else torch.device(kind, local)
    wait = (lambda: None) if kind == "cpu" else getattr(torch, kind).synchronize
    if kind == "cpu":
        torch.set_num_threads(1)
    else:
        getattr(torch, kind).set_device(device)
    torch.manual_seed(1337)
    work = make(name)
    model: Any = work.model
    model.to(device).train()
    images = [each.to(device) for each in work.args]
    if strategy == "ddp":
        dist.init_process_group(
            "gloo" if kind == "cpu" else "nccl", device_id=None if kind == "cpu" else device
        )
        model = torch.nn.parallel.DistributedDataParallel(
            model, device_ids=None if kind == "cpu" else [local], bucket_cap_mb=BUCKET_MB
        )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    seconds = []
    for number in range(WARM_UP + int(iterations)):
        if number == WARM_UP and strategy == "ddp":
            dist.barrier()
        wait()
        began = time.perf_counter()
        optimizer.zero_grad()
        work.loss(model(*images)).backward()
        optimizer.step()
        wait()
        seconds.append(time.perf_counter() - began)
    Path(output.format(rank=rank)).write_text(json.dumps(seconds[WARM_UP:]))
    if strategy == "ddp":
        dist.destroy_process_group()


def make(name: str) -> Any:  # noqa: ANN401  (torchstone's record of a model and its inputs)
    """The model and its inputs."""
    suite = load_suite("scaling")
    if suite.prepare:
        suite.prepare()
    benchmark = next(each for each in suite.collect() if each.name == name)
    return benchmark.make(batch_size=benchmark.batch_size)


if __name__ == "__main__":
    main()
