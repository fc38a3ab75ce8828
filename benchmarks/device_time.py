"""Device times of models in fresh processes, quiet and with every core kept busy: how much they vary, and whether their intervals hold.

    python benchmarks/device_time.py --processes 4 --busy 4 GPT2ForSequenceClassification BertForMaskedLM T5Small
    python benchmarks/device_time.py --record events.json

The first prints a table and writes what was measured as JSON lines (--output); it needs an accelerator and transformers. The second
records what torch's profiler reports of small models with streams, copies, CUDA graphs and waits, as the tests read it.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("GPT2ForSequenceClassification", "BertForMaskedLM", "T5Small")
LIMIT = 0.015  # of the spread, max / min - 1


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--processes", type=int, default=4, help="fresh processes on a quiet machine")
    parser.add_argument("--busy", type=int, default=4, help="further ones with every core kept busy")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--size", default="full", help="full or small")
    parser.add_argument("--compile-mode")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of timing by the wall clock")
    parser.add_argument("--output", type=Path, help="JSON lines, one for each process and model")
    parser.add_argument("--record", type=Path, help="record events of the profiler instead")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    if options.record:
        from device_events import record_events  # noqa: PLC0415  (it imports torch)

        options.record.write_text(json.dumps(record_events(options.device), separators=(",", ":")))
        print(f"{options.record}: {options.record.stat().st_size:,} bytes")
    elif options.one:
        measure_models(options)
    else:
        measure_in_processes(options)


def measure_in_processes(options: argparse.Namespace) -> None:
    """Start the processes one after another, and print what they found."""
    found: list[dict[str, Any]] = []
    rounds = [("quiet", options.processes), ("busy", options.busy)]
    for condition, count in rounds:
        with busy_cores(os.cpu_count() or 1 if condition == "busy" else 0):
            for number in range(count):
                began = time.monotonic()
                lines = run_one(options)
                found += [{"condition": condition, "process": number, **line} for line in lines]
                print(f"# {condition} {number + 1}: {time.monotonic() - began:.0f} s", flush=True)
                if options.output:
                    options.output.write_text("".join(json.dumps(each) + "\n" for each in found))
    for model in options.models:
        show([each for each in found if each["model"] == model], model)


def run_one(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what one fresh process measured of each model."""
    command = [sys.executable, __file__, "--one", *options.models, "--device", options.device]
    command += ["--dtype", options.dtype, "--budget", str(options.budget), "--size", options.size]
    command += ["--compile-mode", options.compile_mode] if options.compile_mode else []
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode or not lines:
        sys.exit(f"a process failed ({ran.returncode}):\n{ran.stdout[-1000:]}\n{ran.stderr[-4000:]}")
    return [json.loads(line) for line in lines]


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep this many cores busy."""
    loops = [multiprocessing.Process(target=_loop, daemon=True) for _ in range(count)]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.terminate()


def _loop() -> None:
    while True:
        math.factorial(500)


def measure_models(options: argparse.Namespace) -> None:
    """Measure each model as a worker does, and print a JSON line with its metrics, intervals and cautions."""
    import torch  # noqa: PLC0415  (the parent does without)

    from torchstone.suites import load_suite  # noqa: PLC0415  (the path is set first)
    from torchstone.worker.probes.reply import PhaseClock, Result  # noqa: PLC0415
    from torchstone.worker.probes.run_case import run_case  # noqa: PLC0415
    from torchstone.worker.protocol.jobs import CaseAxes, MeasureJob, MeasureOptions  # noqa: PLC0415
    from torchstone.worker.protocol.source_message import SourceMessage  # noqa: PLC0415

    suite = load_suite("huggingface")
    if suite.prepare:
        suite.prepare()
    known = {each.name: each for each in suite.collect()}
    for name in options.models:
        torch.compiler.reset()
        result = Result()
        axes = CaseAxes(
            options.device,
            "inductor",
            "inference",
            options.dtype,
            batch_size=known[name].batch_size,
            size=options.size,
            compile_mode=options.compile_mode,
        )
        job = MeasureJob(
            SourceMessage(), name, "performance", axes, options=MeasureOptions(budget=options.budget)
        )
        began = time.monotonic()
        run_case(known[name], job, PhaseClock(Alone(), result), result)
        print(json.dumps(describe(name, result) | {"seconds": time.monotonic() - began}), flush=True)


class Alone:
    """The connection to a parent that is not there."""

    def enter(self, phase: str) -> None:
        """Do nothing: nobody listens."""

    def wait_for_turn(self) -> None:
        """Do nothing: nobody else is timing."""

    def end_turn(self) -> None:
        """Do nothing: nobody waits."""

    def wait_for_device(self) -> None:
        """Do nothing: nobody else is timing."""

    def release_device(self) -> None:
        """Do nothing: nobody waits."""


def describe(name: str, result: Any) -> dict[str, Any]:  # noqa: ANN401  (imported late)
    """Return what was measured, by metric: the median, and the interval if there is one."""
    return {
        "model": name,
        "values": {each.metric: statistics.median(each.samples) for each in result.measurements},
        "intervals": {
            each.metric: each.extra.interval
            for each in result.measurements
            if each.extra and each.extra.interval
        },
        "phases": result.details.phases,
        "left_out": result.details.left_out,
        "cautions": [[each.kind, each.numbers, each.names] for each in result.cautions],
    }


def show(found: list[dict[str, Any]], model: str) -> None:
    """Print the numbers of each process, how far they spread, and how many intervals hold the mean."""
    print(f"\n{model}")
    names = (
        *("speedup", "device_speedup", "abs_latency", "device_latency", "eager_latency"),
        *("eager_device_latency", "host_latency", "eager_host_latency", "device_share"),
    )
    print(f"{'':10}", *(f"{name:>20}" for name in names))
    for each in found:
        print(
            f"{each['condition']:6}{each['process']:4}",
            *(f"{each['values'].get(n, math.nan):20.4g}" for n in names),
        )
    for name in names:
        values = [each["values"][name] for each in found if name in each["values"]]
        if not values:
            continue
        mean = math.exp(statistics.fmean(map(math.log, values)))
        stated = [each["intervals"][name] for each in found if name in each["intervals"]]
        held = (
            f"; {sum(low <= mean <= high for low, high in stated)} of {len(stated)} intervals hold it"
            if stated
            else ""
        )
        print(f"  {name}: mean {mean:.4g}, spread {max(values) / min(values) - 1:.2%}{held}")
    speedups = [each["values"].get("device_speedup", math.nan) for each in found]
    spread = max(speedups) / min(speedups) - 1
    print(f"  device_speedup spread at most {LIMIT:.1%}: {'yes' if spread <= LIMIT else 'NO'}")
    for caution in sorted(
        {
            json.dumps(c[0]) + " " + str(c[2].get("why", c[2].get("side", "")))
            for e in found
            for c in e["cautions"]
        }
    ):
        print(f"  caution: {caution}")


if __name__ == "__main__":
    main()
