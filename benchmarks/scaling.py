"""What measuring with torchstone adds to a training iteration: its rounds against a bare torchrun loop of the same model.

    python benchmarks/scaling.py                       # mlp and transformer, alone and on two ranks: about 15 minutes
    python benchmarks/scaling.py --pairs 5 --model mlp # quicker, and less certain
    python benchmarks/scaling.py --pairs 0             # only what the loop itself costs: a few seconds
    python benchmarks/scaling.py --device cuda --ranks 1 --model resnet50

Jobs: both sides train the same model with the same optimizer and the same settings of DDP, in processes that torchrun starts; one time the bare loop
(benchmarks/bare_loop.py) is first, one time torchstone, by chance. Every pair gives the ratio of the two medians; the table has their geometric mean with an
interval. Wanted: less than 1 % more.

The loop: a model that does next to nothing, some iterations of the probe and of a bare loop in turns, many times in one process, from the first iteration to the last, so that
what is done between two of them counts too; the shortest of each. Processes differ by more than 1 % on most machines: this says what is left to find.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bare_loop import BUCKET_MB, WARM_UP
from run_suite import verdict

from torchstone.analyze.compare import Comparison, Side, compare_pairs
from torchstone.define import Work
from torchstone.formats import read_file
from torchstone.measure.progress import ProgressFile

BARE = Path(__file__).with_name("bare_loop.py")
WANTED = 0.01
MODELS = ("mlp", "transformer")
LOOPS, LOOP_LENGTH = 200, 100
SHORTEST = 0.005
"""Seconds of the shortest iteration that anybody trains on several ranks: the loop's own cost is told as a share of it."""


def measure_loop() -> float:
    """Seconds that the probe's loop adds to an iteration, timed or not; on a CPU, in one thread."""
    import torch  # noqa: PLC0415  (only for this)

    torch.set_num_threads(1)
    bare, ours = [], []
    with tempfile.TemporaryDirectory() as folder:
        progress = ProgressFile(folder, 0)
        for _ in range(LOOPS):
            bare.append(loop_bare())
            ours.append(loop_as_the_probe(progress))
    return min(ours) - min(bare)


def make_nothing() -> Work:
    """A model with one parameter, and one input."""
    import torch  # noqa: PLC0415

    return Work(torch.nn.Linear(1, 1, bias=False), (torch.ones(1, 1),), loss=torch.Tensor.sum)


def loop_as_the_probe(progress: ProgressFile) -> float:
    """Seconds of an iteration of the probe, from the first to the last."""
    from torchstone.probes.device import Device  # noqa: PLC0415  (these import torch)
    from torchstone.probes.scaling import RoundPlan, train  # noqa: PLC0415
    from torchstone.probes.subject import Target  # noqa: PLC0415

    times: list[float] = []

    def tell(phase: str, iteration: int) -> None:
        if phase == "run" and iteration == 0:
            times[:] = [time.perf_counter()]
        progress.tell(phase, iteration)
        if iteration == LOOP_LENGTH:
            times.append(time.perf_counter())

    plan = RoundPlan("none", 1, warm_up=WARM_UP, iterations=LOOP_LENGTH)
    train(make_nothing, Target(Device("cpu"), "training", "float32", "none"), plan, tell)
    return (times[1] - times[0]) / LOOP_LENGTH


def loop_bare() -> float:
    """The same in a bare loop, which times its iterations too."""
    import torch  # noqa: PLC0415

    work = make_nothing()
    model: Any = work.model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    seconds = []
    for number in range(WARM_UP + LOOP_LENGTH):
        if number == WARM_UP:
            first = time.perf_counter()
        began = time.perf_counter()
        optimizer.zero_grad()
        model(*work.args).sum().backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
    return (time.perf_counter() - first) / LOOP_LENGTH


def run_bare(model: str, strategy: str, ranks: int, device: str, iterations: int, folder: Path) -> float:
    """The median seconds of an iteration in the bare loop, over all ranks."""
    files = str(folder / "seconds-{rank}.json")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    _call([*torchrun, str(BARE), model, strategy, device, str(iterations), files])
    found: list[float] = []
    for rank in range(ranks):
        found += json.loads(Path(files.format(rank=rank)).read_text())
    return statistics.median(found)


def run_torchstone(
    model: str, strategy: str, ranks: int, device: str, iterations: int, folder: Path
) -> float:
    """The same, as torchstone measures it."""
    output = folder / "run.jsonl"
    output.unlink(missing_ok=True)
    command = [sys.executable, "-m", "torchstone", "run", f"scaling::{model}", "--probe", "scaling"]
    command += ["--device", device, "--strategy", strategy, "--repeat", str(iterations)]
    command += ["--warm-up", str(WARM_UP), "--output", str(output)]
    command += ["--threads", "1"] if device == "cpu" else []
    if strategy == "ddp":
        command += ["--ranks", str(ranks), "--bucket-mb", str(BUCKET_MB)]
    _call(command)
    (outcome,) = read_file(str(output)).run.outcomes
    value = outcome.value("iteration_time")
    if not isinstance(value, float):
        sys.exit(f"{outcome.case.id}: {outcome.status}: {outcome.failure}")
    return value


def _call(command: Sequence[str]) -> None:
    variables = {**os.environ, "OMP_NUM_THREADS": "1"} if "cpu" in command else dict(os.environ)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stdout}\n{done.stderr}")


def measure(
    model: str, strategy: str, ranks: int, device: str, iterations: int, pairs: int
) -> tuple[list[float], list[float]]:
    """The medians of both sides, pair by pair: the bare loop's, and torchstone's."""
    medians: dict[str, list[float]] = {"bare": [], "torchstone": []}
    chance = random.Random(0)  # noqa: S311  (an order, not a secret)
    sides = {"bare": run_bare, "torchstone": run_torchstone}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(pairs):
            for side in chance.sample(sorted(sides), 2):
                value = sides[side](model, strategy, ranks, device, iterations, Path(folder))
                medians[side].append(value)
            ratio = medians["torchstone"][-1] / medians["bare"][-1]
            told = f"{model} {strategy} {ranks}: pair {number + 1} of {pairs}, {100 * (ratio - 1):+.2f} %"
            print(f"  {told}", file=sys.stderr)
    return medians["bare"], medians["torchstone"]


def compare(bare: Sequence[float], ours: Sequence[float]) -> Comparison:
    """How many times the bare loop's iteration torchstone's is, from pairs."""
    sides = Side(tuple(bare), len(bare)), Side(tuple(ours), len(ours))
    trials = [[value] for value in bare], [[value] for value in ours]
    return compare_pairs(*sides, trials, margin=WANTED, alpha=0.05)


def main() -> None:
    """Measure what was asked for; the exit code says whether all is as wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", help=f"one of the suite scaling; by default {MODELS}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ranks", type=int, default=2, help="of the rounds with DDP")
    parser.add_argument("--iterations", type=int, default=100, help="timed in each process")
    parser.add_argument("--pairs", type=int, default=12)
    asked = parser.parse_args()
    added = measure_loop()
    good = added < WANTED * SHORTEST
    print(f"the loop itself adds {1e6 * added:.1f} microseconds to an iteration")
    print(
        f"  {100 * added / SHORTEST:.2f} % of one of {1000 * SHORTEST:g} ms (wanted: less than {100 * WANTED:g} %): {verdict(good)}"
    )
    if asked.pairs:
        print("| model | round | a bare loop | torchstone | more | 95 % interval | |")
        print("|---|---|---|---|---|---|---|")
        for model in asked.model or MODELS:
            for strategy, ranks in (("none", 1), ("ddp", asked.ranks)):
                bare, ours = measure(model, strategy, ranks, asked.device, asked.iterations, asked.pairs)
                where = "alone" if strategy == "none" else f"DDP, {ranks} rank{'s' * (ranks > 1)}"
                good &= print_row(model, where, bare, ours)
    print("all as wanted" if good else "not all as wanted")
    sys.exit(0 if good else 1)


def print_row(model: str, where: str, bare: Sequence[float], ours: Sequence[float]) -> bool:
    """One line of the table; gives whether it is as wanted."""
    found = compare(bare, ours)
    holds = found.ratio - 1 < WANTED
    times = " | ".join(f"{1000 * statistics.median(side):.2f} ms" for side in (bare, ours))
    more, low, high = (f"{100 * (each - 1):+.2f}" for each in (found.ratio, found.low, found.high))
    told = verdict(holds) if (found.high - 1 < WANTED) == holds else f"{verdict(holds)}, but uncertain"
    between = f"{low} to {high} %" if found.high < math.inf else "unknown"
    print(f"| {model} | {where} | {times} | {more} % | {between} | {told} |", flush=True)
    return holds


if __name__ == "__main__":
    main()
