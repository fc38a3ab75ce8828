"""How much `torchstone run` costs and how well its numbers repeat: ratios, each measured side by side in one run.

    python benchmarks/run_suite.py                 # all five, about half an hour on two cores
    python benchmarks/run_suite.py ready overhead  # some of them

The same cases in fresh interpreters, one after the other, are what a folder of scripts does; both sides use the same probe, the same settings
and the same compiler template, so the difference is the harness.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.records import Case, Outcome
from torchstone.measure.measuring import Settings
from torchstone.measure.plan import Axes, Listing, Selection, plan_cases
from torchstone.measure.session import Session
from torchstone.measure.supervisor import WorkerLimits
from torchstone.measure.targets import list_built_in
from torchstone.worker.protocol.jobs import SurveyJob
from torchstone.worker.worker_environment import warm_cache_folder

MODELS = (
    "AlbertForMaskedLM",
    "BertForMaskedLM",
    "DistilBertForMaskedLM",
    "DistillGPT2",
    "ElectraForCausalLM",
    "OPTForCausalLM",
    "RobertaForCausalLM",
    "T5Small",
)
READY_RATIO, COLD_SHARE, WARM_SHARE = 1 / 5, 0.50, 0.25
OVERHEAD_MICROSECONDS = 2.0
ACCELERATOR_SHARE = 0.02
SPREAD, COVERED, REPEATS = 0.01, 9, 10
EAGER_COVERED, EAGER_REPEATS = 27, 30
BUDGET = (
    20.0  # seconds of timing a case: four times the default, for shared cores wander more slowly than that
)


class Silent:
    """Watches nothing."""

    def started(self, case: Case) -> None:
        """A case has begun."""

    def entered(self, case: Case, phase: str) -> None:
        """A case is in another phase."""

    def tick(self) -> None:
        """Some time has passed."""


def sources(suite: str) -> dict[str, BenchmarkSource]:
    """One of our suites, as a session knows it."""
    return {suite: BenchmarkSource("suite", suite)}


def run_cases(
    cases: Sequence[Case], settings: Settings, *, start: str, jobs: int
) -> tuple[list[Outcome], float]:
    """Measure cases from nothing: the seconds are those of everything, starting included."""
    began = time.monotonic()
    with Session(start, settings.cache, print) as session:
        session.start_workers(list(settings.sources.values()), ["cpu"])
        supervisor = session.supervisor(settings, WorkerLimits(600, None, jobs), Silent())
        outcomes = list(supervisor.execute(cases))
    seconds = time.monotonic() - began
    if bad := [outcome for outcome in outcomes if outcome.status != "pass"]:
        sys.exit(f"{bad[0].case.id}: {bad[0].status}: {bad[0].failure}")
    return outcomes, seconds


def verdict(holds: bool) -> str:
    """As wanted or not."""
    return "as wanted" if holds else "NOT AS WANTED"


def measure_ready() -> bool:
    """From asking for a worker to its first word, against an interpreter that imports what it needs."""
    with Session("fork", "cold", print) as session:
        session.start_workers(list(sources("huggingface").values()), ["cpu"])
        forked = [time_worker(session) for _ in range(10)]
    command = [sys.executable, "-c", "import torch, transformers"]
    fresh = [time_call(lambda: subprocess.run(command, check=True)) for _ in range(5)]
    ratio = statistics.median(forked) / statistics.median(fresh)
    print(f"a ready worker: {1000 * statistics.median(forked):.0f} ms")
    print(f"  a fresh interpreter with torch and transformers: {1000 * statistics.median(fresh):.0f} ms")
    print(f"  1/{1 / ratio:.0f} of it (wanted: at most 1/5): {verdict(ratio <= READY_RATIO)}")
    return ratio <= READY_RATIO


def time_worker(session: Session) -> float:
    """Seconds until a new worker has its job and says so."""
    began = time.perf_counter()
    worker = session.launcher.launch(SurveyJob(torch=False))
    worker.channel.receive()
    seconds = time.perf_counter() - began
    worker.kill()
    worker.close()
    return seconds


def time_call(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure_suite() -> bool:
    """Eight small models, inference and training: forked two at a time, against fresh processes one after the other."""
    listings = [each for each in list_built_in("huggingface") if each.name in MODELS]
    axes = Axes(("performance",), ("cpu",), modes=("inference", "training"), size="small")
    cases = plan_cases(listings, axes, Selection())
    good = True
    for cache, wanted in (("cold", COLD_SHARE), ("warm", WARM_SHARE)):
        settings = Settings(sources("huggingface"), cache=cache, threads=1, size="small", repeat=30)
        if cache == "warm":
            shutil.rmtree(warm_cache_folder(), ignore_errors=True)
            run_cases(cases, settings, start="spawn", jobs=2)  # fills the cache for both sides
        _, fresh = run_cases(cases, settings, start="spawn", jobs=1)
        _, ours = run_cases(cases, settings, start="fork", jobs=2)
        print(f"{len(cases)} cases, {cache} caches: {ours:.0f} s")
        print(f"  each in a fresh process, one after the other: {fresh:.0f} s")
        print(
            f"  {100 * ours / fresh:.0f} % of it (wanted: at most {100 * wanted:.0f} %): {verdict(ours <= wanted * fresh)}"
        )
        good &= ours <= wanted * fresh
    return good


def measure_overhead() -> bool:
    """What a call within a block costs beyond itself: a model that does nothing, called as the probe calls it."""
    script = (
        "import time\n"
        "from torchstone.define.benchmarks import Work\n"
        "from torchstone.worker.probes.device import Device\n"
        "from torchstone.worker.probes.subject import Target, make_call\n"
        "from torchstone.worker.probes.timing import time_block\n"
        "def nothing(x):\n    return x\n"
        "target = Target(Device('cpu'), 'inference', 'float32', 'none')\n"
        "call = make_call(Work(nothing, (1,)), target, nothing)\n"
        "print(min(time_block(call, 10000, target.device.synchronize) for _ in range(20)))\n"
    )
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    microseconds = float(told.stdout) / 1000
    print(f"a call of a model that does nothing, within a block: {microseconds:.3f} microseconds")
    print(f"  (wanted: under {OVERHEAD_MICROSECONDS:g}): {verdict(microseconds < OVERHEAD_MICROSECONDS)}")
    return microseconds < OVERHEAD_MICROSECONDS


def measure_accelerator_parts() -> bool:
    """What is made for accelerators (device times, the state of the device, settings of torch, profiles) costs a case on a CPU."""
    command = [sys.executable, str(Path(__file__).with_name("cpu_only.py"))]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(told.stdout.splitlines()[-1])
    share = (found["importing"] + found["calling"]) / found["seconds"]
    print(
        f"what is made for accelerators, in a case on a CPU that takes {found['seconds']:.1f} s: "
        f"{1000 * found['calling']:.2f} ms, and {1000 * found['importing']:.0f} ms to import it, once a run"
    )
    print(f"  {share:.2%} (wanted: at most {ACCELERATOR_SHARE:.0%}): {verdict(share <= ACCELERATOR_SHARE)}")
    return bool(share <= ACCELERATOR_SHARE)


def measure_repeatability() -> bool:
    """One case again and again, timed for up to 20 s each: the spread of its speedup, and how often its intervals are right."""
    listing = next(each for each in list_built_in("huggingface") if each.name == "BertForMaskedLM")
    compiled = speedups(listing, "inductor", REPEATS)
    values = [value for value, _ in compiled]
    mean = statistics.mean(values)
    spread = statistics.stdev(values) / mean
    covered = sum(low <= mean <= high for _, (low, high) in compiled)
    print(
        f"BertForMaskedLM (small) {REPEATS} times, --budget {BUDGET:g}s: speedup {mean:.3f}, standard deviation {100 * spread:.2f} %"
    )
    print(f"  (wanted: under {100 * SPREAD:g} %): {verdict(spread < SPREAD)}")
    print(
        f"  intervals that hold the mean: {covered} (wanted: at least {COVERED}): {verdict(covered >= COVERED)}"
    )
    same = speedups(listing, "none", EAGER_REPEATS)
    right = sum(low <= 1 <= high for _, (low, high) in same)
    print(
        f"eager against eager, {EAGER_REPEATS} times: {right} intervals hold 1.0 (wanted: at least {EAGER_COVERED}): {verdict(right >= EAGER_COVERED)}"
    )
    return spread < SPREAD and covered >= COVERED and right >= EAGER_COVERED


def speedups(listing: Listing, backend: str, times: int) -> list[tuple[float, tuple[float, float]]]:
    """The speedup and its interval, each time in a process of its own."""
    axes = Axes(("performance",), ("cpu",), (backend,), size="small")
    (case,) = plan_cases([listing], axes, Selection())
    settings = Settings(sources("huggingface"), cache="warm", threads=1, size="small", budget=BUDGET)
    outcomes, _ = run_cases([case] * times, settings, start="fork", jobs=1)
    found = []
    for outcome in outcomes:
        measurement = next(each for each in outcome.measurements if each.metric == "speedup")
        interval = measurement.details.interval if measurement.details else None
        if interval is None:
            raise SystemExit("the speedup has no interval")
        found.append((float(measurement.value), interval))
    return found


PARTS: dict[str, Callable[[], bool]] = {
    "ready": measure_ready,
    "overhead": measure_overhead,
    "accelerators": measure_accelerator_parts,
    "repeatability": measure_repeatability,
    "suite": measure_suite,
}


def main() -> None:
    """Measure the parts that were asked for; the exit code says whether all are as wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all by default"
    )
    asked = parser.parse_args().parts or list(PARTS)
    if unknown := [part for part in asked if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]}: choose from {', '.join(PARTS)}")
    held = [PARTS[part]() for part in asked]
    print("all as wanted" if all(held) else "not all as wanted")
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
