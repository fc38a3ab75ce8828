"""What measuring with torchstone adds to a training iteration: its rounds against a bare torchrun loop of the same model.

    python benchmarks/scaling.py                       # mlp and transformer, alone and on two ranks: about 15 minutes
    python benchmarks/scaling.py --pairs 5 --model mlp # quicker, and less certain
    python benchmarks/scaling.py --device cuda --ranks 1 --model resnet50

Both sides train the same model with the same optimizer and the same settings of DDP, in processes that torchrun starts; one time the bare loop
(benchmarks/bare_loop.py) is first, one time torchstone, by chance. Every pair gives the ratio of the two medians; the table has their geometric mean with an
interval. Wanted: less than 1 % more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bare_loop import BUCKET_MB, WARM_UP
from run_suite import verdict

from torchstone.analyze.compare import Comparison, Side, compare_pairs
from torchstone.formats import read_file

BARE = Path(__file__).with_name("bare_loop.py")
WANTED = 0.01
MODELS = ("mlp", "transformer")


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
    good = True
    print("| model | round | a bare loop | torchstone | more | 95 % interval | |")
    print("|---|---|---|---|---|---|---|")
    for model in asked.model or MODELS:
        for strategy, ranks in (("none", 1), ("ddp", asked.ranks)):
            bare, ours = measure(model, strategy, ranks, asked.device, asked.iterations, asked.pairs)
            found = compare(bare, ours)
            holds = found.ratio - 1 < WANTED
            good &= holds
            times = [f"{1000 * statistics.median(side):.2f} ms" for side in (bare, ours)]
            more, low, high = (f"{100 * (each - 1):+.2f}" for each in (found.ratio, found.low, found.high))
            where = "alone" if strategy == "none" else f"DDP, {ranks} rank{'s' * (ranks > 1)}"
            print(
                f"| {model} | {where} | {' | '.join(times)} | {more} % | {low} to {high} % | {verdict(holds)} |"
            )
            sys.stdout.flush()
    print(f"(wanted: less than {100 * WANTED:g} % more) {'all as wanted' if good else 'not all as wanted'}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
