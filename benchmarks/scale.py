"""How every command grows with the number of cases: seconds, peak memory and bytes written, by command.

    python benchmarks/scale.py                                # 25,000, 50,000 and 100,000 cases
    python benchmarks/scale.py --cases 500000 --command check --command report
    python benchmarks/scale.py --cases 20000 --keep /tmp/big  # leave the files there

The files are two runs of the same plan: three suites, two devices, dtypes and modes, performance and accuracy; two cases in a hundred fail, one in fifty is
slower by a tenth, one in a thousand is missing. Each command is a process of its own, timed from start to exit. Wanted: twice the cases take at most 2.6 times as
long, `compare` of 100,000 cases under ten seconds, and a page of at most 20 MB.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from compare_speed import TORCHSTONE
from run_suite import verdict

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Revision, Variant
from torchstone.core.run_file import FORMAT, EndLine, OutcomeLine, RunLine, encode_line

SIZES = (25_000, 50_000, 100_000)
GROWTH = 2.6
"""How many times as long twice the cases may take: linear, with room for noise and for memory that is slower the more of it is used."""
COMPARE_SECONDS, COMPARE_CASES = 10.0, 100_000
PAGE_BYTES = 20_000_000
SUITES = ("huggingface", "timm", "torchbench")
AXES = tuple((mode, dtype) for mode in ("inference", "training") for dtype in ("float32", "bfloat16"))
TRACE = "Traceback (most recent call last):\n" + '  File "model.py", line 12, in forward\n' * 20
COMMANDS = {
    "check": ("check", "{new}", "--baseline", "{base}"),
    "check json": ("check", "{new}", "--baseline", "{base}", "--format", "json"),
    "check junit": ("check", "{new}", "--baseline", "{base}", "--format", "junit"),
    "check markdown": ("check", "{new}", "--baseline", "{base}", "--format", "markdown"),
    "check github": ("check", "{new}", "--baseline", "{base}", "--format", "github"),
    "check csv": ("check", "{csv}", "--baseline", "{expected}"),
    "compare": ("compare", "{base}", "{new}"),
    "compare json": ("compare", "{base}", "{new}", "--format", "json"),
    "compare junit": ("compare", "{base}", "{new}", "--format", "junit"),
    "compare markdown": ("compare", "{base}", "{new}", "--format", "markdown"),
    "compare github": ("compare", "{base}", "{new}", "--format", "github"),
    "report": ("report", "{new}", "-o", "{out}"),
    "report gated": ("report", "{new}", "--baseline", "{base}", "-o", "{out}"),
    "accept": ("accept", "{csv}", "--baseline", "{expected}", "--dry-run"),
    "export": ("export", "{new}", "--to", "v3", "--only", "*::performance", "--lossy", "-o", "{out}"),
    "import": ("import", "{csv}", "-o", "{out}"),
}


def cases_of(number: int) -> Iterator[Case]:
    """So many cases: a benchmark has one of each probe, mode and dtype before the next one begins."""
    for at in range(number):
        name, which = divmod(at, 2 * len(AXES))
        probe, axes = ("performance", "accuracy")[which % 2], AXES[which // 2]
        device = ("cpu", "cuda")[name % 2]
        variant = Variant(device=device, backend="inductor", mode=axes[0], dtype=axes[1], batch_size=8)
        yield Case(f"model_{name:06d}ForCausalLM", probe, SUITES[name % len(SUITES)], variant)


def outcome_of(case: Case, at: int, chance: random.Random, slower: float) -> Outcome:
    """What became of a case; one in fifty is slower by the factor, two in a hundred fail."""
    if at % 100 in {7, 8} and slower > 1:
        failure = Failure("compile", f"RuntimeError: shape {at} does not fit", TRACE, "compiling\n" * 20)
        return Outcome(case, "fail_to_run", failure=failure, repro=f"torchstone run {case.suite}")
    counts = tuple(Measurement(metric, (at % 7,)) for metric in ("graph_breaks", "unique_graphs"))
    if case.probe == "accuracy":
        return Outcome(case, "pass", counts)
    level = (5 + at % 97) * (slower if at // 2 % 50 == 0 else 1.0)
    latency = Measurement(
        "abs_latency",
        tuple(level * chance.gauss(1, 0.01) for _ in range(5)),
        MeasurementDetails(trials=(1,) * 5),
    )
    speedup = Measurement("speedup", (1 + at % 83 / 100,))
    return Outcome(case, "pass", (speedup, latency, *counts), repro=f"torchstone run {case.suite}")


def write_run(path: Path, number: int, seed: int, slower: float) -> None:
    """A run file of so many cases, written line by line; of the slower run one outcome in a thousand is left out."""
    chance = random.Random(seed)  # noqa: S311  (noise, not secrets)
    plan = tuple(cases_of(number))
    kept = [(at, case) for at, case in enumerate(plan) if slower == 1 or at % 1000 != 999]
    with path.open("w") as file:
        file.write(encode_line(RunLine(FORMAT, f"seed {seed}", plan, Revision(commit=f"{seed:040x}"))))
        for at, case in kept:
            file.write(encode_line(OutcomeLine(outcome_of(case, at, chance, slower))))
        file.write(encode_line(EndLine(len(kept))))


def write_tables(actual: Path, expected: Path, number: int) -> None:
    """A pair of CSV files as the original scripts write and read them; one row in a hundred is red."""
    with actual.open("w") as a, expected.open("w") as e:
        a.write("dev,name,batch_size,accuracy,graph_breaks\n")
        e.write("name,accuracy,graph_breaks\n")
        for at in range(number):
            status = "fail_to_run" if at % 100 == 99 else "pass"
            a.write(f"cuda,model_{at:07d},{1 + at % 128},{status},{at % 5}\n")
            e.write(f"model_{at:07d},pass,{at % 5}\n")


def write_files(folder: Path, number: int) -> dict[str, str]:
    """The files that the commands name."""
    paths = {name: folder / f"{name}_{number}.jsonl" for name in ("base", "new")}
    paths |= {name: folder / f"{name}_{number}.csv" for name in ("csv", "expected")}
    if not all(path.exists() for path in paths.values()):
        write_run(paths["base"], number, 1, 1.0)
        write_run(paths["new"], number, 2, 1.1)
        write_tables(paths["csv"], paths["expected"], number)
    return {name: str(path) for name, path in (paths | {"out": folder / "out.html"}).items()}


class Measured(NamedTuple):
    """What a command took: seconds from start to exit, seconds on the processor, peak memory in GB; and how many bytes it wrote."""

    seconds: float
    processor: float
    memory: float
    size: int


def measure(command: Sequence[str], output: Path, limit: float) -> Measured:
    """Run a command; it may say no, but not fail."""
    start, written = time.perf_counter(), output.with_suffix(".txt")
    output.unlink(missing_ok=True)
    with written.open("w") as file:
        process = subprocess.Popen([TORCHSTONE, *command], stdout=file, stderr=subprocess.PIPE)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.perf_counter() - start > limit:
                process.kill()
            time.sleep(0.01)
    elapsed, process.returncode = time.perf_counter() - start, os.waitstatus_to_exitcode(status)
    took = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6
    if process.returncode == -9:
        return Measured(float("inf"), *took, 0)
    if process.returncode not in {0, 1}:
        told = process.stderr.read().decode() if process.stderr else ""
        raise SystemExit(f"torchstone {' '.join(command)} ended with exit code {process.returncode}: {told}")
    size = output.stat().st_size if output.exists() else written.stat().st_size
    return Measured(elapsed, *took, size)


def try_command(name: str, folder: Path, sizes: Sequence[int], limit: float) -> bool:
    """A line for each size; gives whether all is as wanted."""
    found: dict[int, float] = {}
    good = True
    for number in sizes:
        files = write_files(folder, number)
        command = [word.format(**files) for word in COMMANDS[name]]
        took = measure(command, Path(files["out"]), limit)
        is_asked = name == "compare" and number <= COMPARE_CASES
        holds = took.seconds < (COMPARE_SECONDS if is_asked else limit)
        holds &= not name.startswith("report") or took.size <= PAGE_BYTES
        good &= holds
        found[number] = took.processor
        told = (
            f"{took.seconds:.1f} s | {took.processor:.1f} s | {took.memory:.2f} GB | {took.size / 1e6:.1f} MB"
        )
        print(f"| {name} | {number:,} | {told} | {verdict(holds)} |", flush=True)
    for (few, before), (many, after) in pairwise(found.items()):
        # What starting takes is in both: it only makes growth look smaller.
        if few >= SIZES[0] and after / before > GROWTH ** ((many / few - 1) or 1):
            print(f"| {name} | {few:,} to {many:,} | | {after / before:.1f} times | | | {verdict(False)} |")
            good = False
    return good


def main() -> None:
    """Measure what was asked for; the exit code says whether all is as wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, action="append", help=f"by default {SIZES}")
    parser.add_argument("--command", action="append", choices=COMMANDS, help="by default all")
    parser.add_argument("--limit", type=float, default=400.0, help="seconds after which a command is stopped")
    parser.add_argument("--keep", type=Path, help="a folder for the files; those that are there are used")
    asked = parser.parse_args()
    print("| command | cases | time | processor | peak memory | written | |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = asked.keep or Path(name)
        folder.mkdir(exist_ok=True)
        sizes = sorted(asked.cases or SIZES)
        tried = [try_command(each, folder, sizes, asked.limit) for each in asked.command or COMMANDS]
    good = all(tried)
    print("all as wanted" if good else "NOT as wanted")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
