"""What measuring with torchstone adds to a training iteration: the probe's loop against a bare one, of the same model, in the same torchrun job.

    python benchmarks/scaling.py                       # mlp and transformer, alone and on two ranks: about four minutes
    python benchmarks/scaling.py --model mlp --blocks 20
    python benchmarks/scaling.py --device cuda --ranks 1 --model resnet50

In every rank the two loops take turns, in the same random order everywhere: some iterations of a loop as a person would write it (benchmarks/bare_loop.py), some of the probe's, over and over, from the
first to the last, so that what is done between two iterations counts too. Both time their iterations. Two jobs would differ by more than 1 % for no reason at all. The table has the
median over all turns, and the geometric mean of the ratios with an interval. Wanted: less than 1 % more.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from run_suite import verdict

from torchstone.analyze.student_t import t_quantile

BARE = Path(__file__).with_name("bare_loop.py")
WANTED = 0.01
MODELS = ("mlp", "transformer")
ALPHA = 0.05


def run_job(
    model: str, strategy: str, ranks: int, device: str, blocks: int
) -> tuple[list[float], list[float]]:
    """Seconds of an iteration, turn by turn, in the first rank: of the bare loop, and of torchstone's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seconds.json"
        torchrun = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(ranks),
        ]
        command = [*torchrun, str(BARE), model, strategy, device, str(blocks), str(path)]
        variables = {**os.environ, "OMP_NUM_THREADS": "1"} if device == "cpu" else dict(os.environ)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        if done.returncode:
            sys.exit(
                f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stdout}\n{done.stderr}"
            )
        bare, ours = json.loads(path.read_text())
    return bare, ours


def compare(bare: Sequence[float], ours: Sequence[float]) -> tuple[float, float, float]:
    """How many times the bare loop's iteration torchstone's is, with an interval: from the ratios of neighbouring turns."""
    logs = [math.log(b / a) for a, b in zip(bare, ours, strict=True)]
    mean = statistics.fmean(logs)
    reach = t_quantile(ALPHA, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def print_row(model: str, where: str, bare: Sequence[float], ours: Sequence[float]) -> bool:
    """One line of the table; gives whether it is as wanted."""
    found = compare(bare, ours)
    holds = found[0] - 1 < WANTED
    times = " | ".join(f"{1000 * statistics.median(side):.3f} ms" for side in (bare, ours))
    more, low, high = (f"{100 * (each - 1):+.2f}" for each in found)
    told = verdict(holds) if (found[2] - 1 < WANTED) == holds else f"{verdict(holds)}, but uncertain"
    print(f"| {model} | {where} | {times} | {more} % | {low} to {high} % | {told} |", flush=True)
    return holds


def main() -> None:
    """Measure what was asked for; the exit code says whether all is as wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", help=f"one of the suite scaling; by default {MODELS}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ranks", type=int, default=2, help="of the rounds with DDP")
    parser.add_argument("--blocks", type=int, default=60, help="turns of each loop")
    asked = parser.parse_args()
    print("| model | round | a bare loop | torchstone | more | 95 % interval | |")
    print("|---|---|---|---|---|---|---|")
    good = True
    for model in asked.model or MODELS:
        for strategy, ranks in (("none", 1), ("ddp", asked.ranks)):
            where = "alone" if strategy == "none" else f"DDP, {ranks} rank{'s' * (ranks > 1)}"
            good &= print_row(model, where, *run_job(model, strategy, ranks, asked.device, asked.blocks))
    print("all as wanted" if good else "not all as wanted")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
