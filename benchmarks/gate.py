"""How fast the gate is: ratios measured side by side in one run. `make bench` prints them.

1. `torchstone check` on an ordinary pair of files (100 rows), from process start to exit, against a Python that imports pandas and
   reads the same two files: what the scripts it replaces do before they judge anything.
2. 100,000 rows, against a lookup that scans the whole table for every row, as those scripts do. The scan is timed on a sample of the
   rows, for all of them would take minutes; each row costs the same.
3. 1,000,000 rows against 100,000: time must grow linearly, and memory stay under 1 GiB.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

import torchstone

TORCHSTONE = str(Path(sysconfig.get_path("scripts")) / "torchstone")
HEADER = (
    "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks,unique_graph_breaks,fallbacks_to_eager,"
    "autograd_captures,autograd_compiles,cudagraph_skips,compilation_latency\n"
)
GIB = 1 << 30
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Both sides run from compiled modules, as installed packages do."""


def write_pair(folder: Path, rows: int) -> tuple[Path, Path]:
    """A pair of files as CI has them; one row in a thousand is red."""
    actual, expected = folder / f"actual_{rows}.csv", folder / f"expected_{rows}.csv"
    with actual.open("w") as a, expected.open("w") as e:
        a.write(HEADER)
        e.write("name,accuracy,graph_breaks\n")
        for i in range(rows):
            name, status = f"model_{i:07d}ForCausalLM", "fail_to_run" if i % 1000 == 999 else "pass"
            a.write(
                f"cuda,{name},{1 + i % 128},{status},{i % 900},1,{i % 5},0,0,0,0,0,{10 + i % 5000 / 100:.6f}\n"
            )
            e.write(f"\n\n\n{name},pass,{i % 5}\n")
    return actual, expected


def time_command(command: Sequence[str]) -> float:
    """Seconds from start to exit of a command; it may say no, but not fail."""
    start = time.perf_counter()
    ran = subprocess.run(command, stdout=subprocess.DEVNULL, check=False, env=ENVIRONMENT)
    elapsed = time.perf_counter() - start
    if ran.returncode not in {0, 1}:
        raise SystemExit(f"{' '.join(command)} ended with exit code {ran.returncode}")
    return elapsed


def check(actual: Path, expected: Path) -> list[str]:
    """The command that judges a pair of files."""
    return [TORCHSTONE, "check", str(actual), "--baseline", str(expected)]


def measure_start(folder: Path, repeats: int) -> float:
    """How many times faster a whole gate is than importing pandas and reading the files; taking turns, medians."""
    actual, expected = write_pair(folder, 100)
    program = f"import pandas; pandas.read_csv({str(actual)!r}); pandas.read_csv({str(expected)!r})"
    ours, theirs = [], []
    time_command(check(actual, expected))  # compiles the modules, if that was not done yet
    for _ in range(repeats):
        ours.append(time_command(check(actual, expected)))
        theirs.append(time_command([sys.executable, "-c", program]))
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(f"100 rows, process start to exit: {1e3 * statistics.median(ours):.0f} ms")
    print(f"  importing pandas and reading both files: {1e3 * statistics.median(theirs):.0f} ms")
    print(f"  {ratio:.1f} times faster (wanted: 6)")
    return ratio


def measure_scan(folder: Path, sample: int) -> float:
    """How many times faster the gate is than looking every row up by a scan of the table."""
    actual, expected = write_pair(folder, 100_000)
    ours = min(time_command(check(actual, expected)) for _ in range(3))
    table, reference = pd.read_csv(actual), pd.read_csv(expected)
    names = table["name"].iloc[:: len(table) // sample]
    start = time.perf_counter()
    for name in names:
        for frame in (table, reference):
            frame.loc[frame["name"] == name]["accuracy"].item()
    scan = (time.perf_counter() - start) / len(names) * len(table)
    print(f"100,000 rows: {ours:.2f} s")
    print(f"  two lookups a row, each a scan of its table: {scan:.0f} s (from {len(names)} rows)")
    print(f"  {scan / ours:.0f} times faster (wanted: 200)")
    return scan / ours


def measure_growth(folder: Path) -> tuple[float, int]:
    """How much longer ten times the rows take, and the peak memory of the larger one in bytes."""
    small, large = write_pair(folder, 100_000), write_pair(folder, 1_000_000)
    times: dict[str, list[float]] = {"small": [], "large": []}
    for _ in range(3):
        times["small"].append(time_command(check(*small)))
        times["large"].append(time_command(check(*large)))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    growth = statistics.median(times["large"]) / statistics.median(times["small"])
    print(
        f"1,000,000 rows: {statistics.median(times['large']):.2f} s, {peak / GIB:.2f} GiB (wanted: under 1)"
    )
    print(f"  {growth:.1f} times the time of 100,000 rows (wanted: at most 12)")
    return growth, peak


def main() -> None:
    """Measure, print, and say whether every figure is as wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=20, help="runs of each command in the first figure")
    parser.add_argument("--sample", type=int, default=200, help="rows that the scan is timed on")
    options = parser.parse_args()
    package = Path(torchstone.__file__).parent
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(package)], check=True)  # as an install does
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = measure_start(folder, options.repeats)
        growth, peak = measure_growth(folder)
        scan = measure_scan(folder, options.sample)
    good = start >= 6 and scan >= 200 and growth <= 12 and peak < GIB
    print("all as wanted" if good else "NOT as wanted")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
