"""How the history behaves as it grows: loading, one series, two runs compared, recording with changes, bytes on disk.

    python benchmarks/history.py                                        100,000 points, about a minute
    python benchmarks/history.py --series 2000 --revisions 5000         10 million points
    python benchmarks/history.py --series 2000 --revisions 500 --metrics 1    every case of the new runs has a history
    python benchmarks/history.py --store postgresql://USER@HOST/DATABASE

Every number is measured in one run on one machine; those of the small store beside those of the large one show how the
history grows. CPU time is that of the command alone, whatever else the machine does. The files are written, loaded and removed in batches.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torchstone
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Measurement, Outcome, Revision, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import environment_from

METRICS = ("abs_latency", "compile_seconds", "eager_latency", "dynamo_peak_mem")
FILES_AT_ONCE = 1000
LOOKS = 100
NEW_RUNS = 5
MOST = {
    "one series, p95": 0.05,
    "two runs compared": 1.0,
    "a run of 2,000 cases recorded, changes updated": 2.0,
}
"""The most seconds that each may take, at 10 million points."""
_VARIANT = Variant("cpu", "inductor", "inference", "float32", batch_size=8)
_ENVIRONMENT = {"machine": {"cpu": {"model": "a processor"}}, "versions": {"torch": "2.13.0"}}


def make_run(
    revision: int, cases: int, chance: random.Random, metrics: Sequence[str] = METRICS, trials: int = 1
) -> Run:
    """Return a run whose numbers vary by a per cent around a level that steps now and then."""
    outcomes = []
    for number in range(cases):
        level = (1 + number % 7) * (1.03 if (revision // 250 + number) % 5 == 0 else 1.0)
        measured = tuple(
            Measurement(
                metric,
                tuple(level * math.exp(chance.gauss(0, 0.01)) for _ in range(trials)),
                MeasurementDetails(trials=(1,) * trials) if trials > 1 else None,
            )
            for metric in metrics
        )
        outcomes.append(Outcome(Case(f"net{number}", "performance", "smoke", _VARIANT), "pass", measured))
    return Run(
        f"20260101T000000-{revision:06x}",
        tuple(outcome.case for outcome in outcomes),
        tuple(outcomes),
        Revision(f"{revision:040x}", "main", False),
        environment_from(_ENVIRONMENT),
    )


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds that some work takes."""
    start = clock()
    work()
    return clock() - start


def load(
    store: torchstone.HistoryStore, cases: int, revisions: int, folder: Path, metrics: Sequence[str]
) -> float:
    """Write run files and load them, batch by batch; return the seconds of loading alone."""
    chance = random.Random(1)  # noqa: S311  (noise, not secrets)
    took = 0.0
    for first in range(0, revisions, FILES_AT_ONCE):
        numbers = range(first, min(first + FILES_AT_ONCE, revisions))
        paths = [folder / f"run{number:06}.jsonl" for number in numbers]
        for number, path in zip(numbers, paths, strict=True):
            path.write_text(encode_run(make_run(number, cases, chance, metrics)))
        took += seconds_of(partial(store.load, paths, summaries_only=True, repository=str(folder)))
        for path in paths:
            path.unlink()
        print(f"  {numbers.stop:,} of {revisions:,} runs loaded after {took:.0f} s", file=sys.stderr)
    return took


def measure(
    store: torchstone.HistoryStore, cases: int, folder: Path, metrics: Sequence[str]
) -> dict[str, float]:
    """Return the seconds of each use of a store."""
    chance = random.Random(2)  # noqa: S311  (choices, not secrets)
    looks = sorted(
        seconds_of(lambda: store.series(f"net{chance.randrange(cases)}", metrics=chance.choice(metrics)))
        for _ in range(LOOKS)
    )
    runs = store.runs()
    pairs = [chance.sample(range(max(0, len(runs) - 500), len(runs)), 2) for _ in range(5)]

    def compare(a: int, b: int) -> None:
        torchstone.compare(store.read(runs[a].id), store.read(runs[b].id))

    compared = statistics.median(seconds_of(partial(compare, *pair)) for pair in pairs)
    recorded, busy = [], []
    for number in range(NEW_RUNS):
        path = folder / f"new{number}.jsonl"
        path.write_text(encode_run(make_run(10**6 + number, 2000, chance, METRICS[:1], trials=5)))
        began = time.process_time()
        recorded.append(seconds_of(partial(store.record, path, repository=str(folder))))
        busy.append(time.process_time() - began)
    on_processor = sorted(
        seconds_of(
            lambda: store.series(f"net{chance.randrange(cases)}", metrics=METRICS[0]), time.process_time
        )
        for _ in range(LOOKS)
    )
    return {
        "one series, median": statistics.median(looks),
        "one series, p95": looks[int(0.95 * LOOKS)],
        "one series, p95 of CPU time": on_processor[int(0.95 * LOOKS)],
        "two runs compared": compared,
        "a run of 2,000 cases recorded, changes updated": statistics.median(recorded),
        "the same, CPU time": statistics.median(busy),
    }


def main() -> int:
    """Measure a small store and the requested one, and print both side by side."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=200, help="number of series (default: 200)")
    parser.add_argument("--revisions", type=int, default=500, help="number of revisions (default: 500)")
    parser.add_argument("--store", default="", help="URL of a PostgreSQL database (default: an SQLite file)")
    parser.add_argument("--metrics", type=int, default=len(METRICS), help="metrics of each case (default: 4)")
    given = parser.parse_args()
    metrics = METRICS[: given.metrics]
    sizes = {"small": (40, 50), "large": (given.series, given.revisions)}
    if given.store:
        del sizes["small"]  # one database holds one store
    columns: dict[str, dict[str, str]] = {}
    for name, (series, revisions) in sizes.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            os.chdir(folder)
            store = torchstone.HistoryStore(given.store or str(folder / "history.db"))
            cases = series // len(metrics)
            loading = load(store, cases, revisions, folder, metrics)
            info = store.info()
            points = info.counts["points"]
            found = measure(store, cases, folder, metrics)
            verified = seconds_of(store.verify)
            columns[name] = {
                "points": f"{points:,}",
                "loaded in": f"{loading:.1f} s",
                "points a second": f"{points / loading:,.0f}",
                "on disk": f"{info.size / 1e6:,.1f} MB",
                "bytes a point": f"{info.size / points:.1f}",
                **{what: f"{1000 * seconds:.1f} ms" for what, seconds in found.items()},
                "changes found": f"{store.info().counts['changes']:,}",
                "verified in": f"{verified:.2f} s",
            }
            os.chdir("/")
    print("".ljust(48), *(name.rjust(14) for name in columns))
    for what in columns["large"]:
        limit = f"   (at most {1000 * MOST[what]:g} ms at 10 million points)" if what in MOST else ""
        print(what.ljust(48), *(column[what].rjust(14) for column in columns.values()), limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
