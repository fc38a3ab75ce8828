"""How fast `torchstone compare` is: two runs of 2,000 cases with 100 samples each, from process start to exit, reading included.

Each case has five trials of 20 samples of its latency, and the counts that a run has; one case in fifty is slower by a tenth. Medians of
several; on a machine that is busy with other work, the processor time says more. Wanted: under two seconds.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run

TORCHSTONE = str(Path(sysconfig.get_path("scripts")) / "torchstone")
CASES, TRIAL_COUNT, SAMPLES = 2000, 5, 20
WANTED = 2.0
_COUNTS = ("calls_captured", "unique_graphs", "graph_breaks", "fallbacks_to_eager", "recompiles")


def write_run(path: Path, cases: int, seed: int, slower: float) -> Path:
    """A run file as a suite of so many cases would leave behind; trials differ by 1 %, samples within one by 2 %."""
    chance = random.Random(seed)  # noqa: S311  (noise, not secrets)
    variant = Variant(device="cpu", backend="inductor", mode="inference", dtype="float32", batch_size=8)
    outcomes = []
    for number in range(cases):
        level = math.log(5 + number % 97) + (math.log(slower) if number % 50 == 0 else 0)
        trials = [level + chance.gauss(0, 0.01) for _ in range(TRIAL_COUNT)]
        samples = tuple(math.exp(trial + chance.gauss(0, 0.02)) for trial in trials for _ in range(SAMPLES))
        measurements = [
            Measurement("abs_latency", samples, MeasurementDetails(trials=(SAMPLES,) * TRIAL_COUNT))
        ]
        measurements += [Measurement(metric, (number % 7,)) for metric in _COUNTS]
        case = Case(f"model_{number:05d}", "performance", "smoke", variant)
        outcomes.append(Outcome(case, "pass", tuple(measurements)))
    run = Run(f"seed {seed}", tuple(outcome.case for outcome in outcomes), tuple(outcomes))
    path.write_text(encode_run(run))
    return path


def time_compare(base: Path, new: Path, style: str) -> tuple[float, float]:
    """Seconds from start to exit, and seconds of processor time; it may say no, but not fail."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ran = subprocess.run(
        [TORCHSTONE, "compare", str(base), str(new), "--format", style],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode not in {0, 1}:
        raise SystemExit(f"torchstone compare ended with exit code {ran.returncode}")
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Time it, and say whether it is as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    as_wanted = True
    with tempfile.TemporaryDirectory() as folder:
        base = write_run(Path(folder) / "base.jsonl", asked.cases, 1, 1.0)
        new = write_run(Path(folder) / "new.jsonl", asked.cases, 2, 1.1)
        size = (base.stat().st_size + new.stat().st_size) / 1e6
        print(f"two runs of {asked.cases:,} cases x {TRIAL_COUNT * SAMPLES} samples, {size:.1f} MB in all")
        for style in ("text", "json"):
            timed = [time_compare(base, new, style) for _ in range(asked.rounds)]
            wall, processor = (statistics.median(each) for each in zip(*timed, strict=True))
            as_wanted = as_wanted and wall < WANTED
            verdict = "as wanted" if wall < WANTED else "NOT as wanted"
            print(
                f"  {style}: {wall:.2f} s, of which {processor:.2f} s on the processor (wanted: under {WANTED:.0f} s): {verdict}"
            )
    return 0 if as_wanted else 1


if __name__ == "__main__":
    sys.exit(main())
