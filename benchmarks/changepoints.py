"""Score change-point detectors side by side on labelled series: torchstone's, Otava's, asv's and Perfherder's rule.

    pip install numpy apache-otava asv
    python benchmarks/changepoints.py DATA

DATA is a folder of NAME.json.gz files: {series: {"y": [values], "ann": {annotator: [first indices of new levels]}}}.
A detector that is not installed is left out. Tables: F1 with a margin of 5 points (van den Burg and Williams, "An
Evaluation of Change Point Detection Algorithms", arXiv 2003.06222); false points per 1,000 on noise; steps added to
the longest stable stretches of the series; seconds of processor time for all series of each set, one by one.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from torchstone.analyze.changepoints import find_changes, find_changes_in_many

Floats = NDArray[np.float64]
Detector = Callable[[list[float]], list[int]]

MARGIN = 5
POINTS, SERIES = 500, 40  # of noise
STABLE = 140  # fewer points between two marks are no stable stretch
BEFORE = 100  # points before an injected step
STEPS = ((2, 12), (3, 5), (3, 12))  # size in standard deviations of the noise, points after the step


@dataclass(frozen=True)
class Labelled:
    """A series, and the first indices of new levels that each annotator marked."""

    values: list[float]
    marks: list[set[int]]


@dataclass(frozen=True)
class Score:
    """Means over the series of a set, and processor time for all of them."""

    f1: float
    precision: float
    recall: float
    seconds: float


# ---- detectors


def detect_with_torchstone(values: list[float]) -> list[int]:
    """Our detector with its only setting."""
    return [change.index for change in find_changes(values)]


def make_otava(**options: float) -> Detector:
    """Otava's analysis; `options` are those of its function."""
    analysis = importlib.import_module("otava.analysis")

    def detect(values: list[float]) -> list[int]:
        return [int(change.index) for change in analysis.compute_change_points(values, **options)[0]]

    return detect


def make_asv() -> Detector:
    """The step detection of asv."""
    step_detect = importlib.import_module("asv.step_detect")

    def detect(values: list[float]) -> list[int]:
        return [int(step[0]) for step in step_detect.detect_steps(values)][1:]

    return detect


def detect_with_perfherder_rule(values: list[float]) -> list[int]:
    """Perfherder's rule: Welch's t of 12 to 24 points before and 12 after, above 7 and not below its neighbours'.

    The nearer a point, the more it weighs in its side's mean. Fewer than 12 points on either side have no changes.
    """
    least, most, threshold = 12, 24, 7.0
    series = np.asarray(values, dtype=np.float64)
    scores = np.zeros(len(series) + 1)
    for at in range(least, len(series) - least + 1):
        scores[at] = _compare_weighted(series[max(0, at - most) : at][::-1], series[at : at + least])
    is_peak = (scores[1:-1] > threshold) & (scores[1:-1] >= scores[:-2]) & (scores[1:-1] >= scores[2:])
    return [int(at) + 1 for at in np.flatnonzero(is_peak)]


def _compare_weighted(before: Floats, after: Floats) -> float:
    low, high = (float(np.average(side, weights=np.arange(len(side), 0, -1))) for side in (before, after))
    error = float(np.sqrt(before.var(ddof=1) / len(before) + after.var(ddof=1) / len(after)))
    if low == high:
        return 0.0
    return abs(high - low) / error if error > 0 else float("inf")


def find_detectors() -> dict[str, Detector]:
    """Return those that are installed, and say which are not."""
    detectors: dict[str, Detector] = {"torchstone": detect_with_torchstone}
    if importlib.util.find_spec("otava"):
        detectors["Otava, default"] = make_otava()
        detectors["Otava, strict"] = make_otava(max_pvalue=1e-6, min_magnitude=0.01)
    if importlib.util.find_spec("asv"):
        detectors["asv"] = make_asv()
    detectors["Perfherder's rule"] = detect_with_perfherder_rule
    for name in ("otava", "asv"):
        if not importlib.util.find_spec(name):
            print(f"{name} is not installed and left out", file=sys.stderr)
    return detectors


# ---- labelled series


def read_sets(folder: Path) -> dict[str, list[Labelled]]:
    """Read all sets of the folder."""
    sets = {}
    for path in sorted(folder.glob("*.json.gz")):
        series = json.loads(gzip.decompress(path.read_bytes())).values()
        sets[path.name.removesuffix(".json.gz")] = [
            Labelled([float(value) for value in each["y"]], [set(marks) for marks in each["ann"].values()])
            for each in series
        ]
    return sets


def count_matches(marks: Iterable[int], found: Iterable[int]) -> int:
    """Return how many marks have a change within the margin; a change matches one mark."""
    left, matches = set(found), 0
    for mark in sorted(marks):
        near = [(abs(mark - index), index) for index in left if abs(mark - index) <= MARGIN]
        if near:
            left.remove(min(near)[1])
            matches += 1
    return matches


def score_series(series: Labelled, found: Sequence[int]) -> tuple[float, float, float]:
    """Return F1, precision and recall; index 0 counts as a mark and as found, so that none of them is 0 / 0."""
    predicted = {0, *found}
    marks = [{0, *each} for each in series.marks]
    precision = count_matches(set().union(*marks), predicted) / len(predicted)
    recall = float(np.mean([count_matches(each, predicted) / len(each) for each in marks]))
    return 2 * precision * recall / (precision + recall), precision, recall


def score_set(detect: Detector, series: Sequence[Labelled]) -> Score:
    """Score a detector on all series of a set."""
    start = time.process_time()
    found = [detect(each.values) for each in series]
    seconds = time.process_time() - start
    scores = [score_series(each, indices) for each, indices in zip(series, found, strict=True)]
    f1, precision, recall = (float(np.mean(column)) for column in zip(*scores, strict=True))
    return Score(f1, precision, recall, seconds)


# ---- noise and injected steps


def make_noise(random: np.random.Generator, kind: str) -> Floats:
    """Return a series without changes."""
    if kind == "normal":
        return random.normal(100, 1, POINTS)
    if kind == "log-normal":
        return 100 * random.lognormal(0, 0.02, POINTS)
    if kind == "t, 3 degrees":
        return 100 + random.standard_t(3, POINTS)
    values = np.zeros(POINTS + 50)
    for at, shock in enumerate(random.normal(0, 1, POINTS + 49), start=1):
        values[at] = 0.5 * values[at - 1] + shock
    return 100 + values[50:]


def count_false_points(detect: Detector, kind: str, seed: int) -> float:
    """Return false points per 1,000."""
    random = np.random.default_rng(seed)
    found = sum(len(detect(make_noise(random, kind).tolist())) for _ in range(SERIES))
    return 1000 * found / (SERIES * POINTS)


def estimate_noise(values: Floats) -> float:
    """Return the standard deviation of the noise, from differences between neighbours."""
    moved = np.diff(values)
    return float(np.median(np.abs(moved - np.median(moved))) * 1.4826 / np.sqrt(2))


def find_stable_stretches(sets: dict[str, list[Labelled]]) -> list[Floats]:
    """Return 130 points from the longest stretch without marks of each benchmark series that has one."""
    stretches = []
    for series in (*sets.get("mozilla", []), *sets.get("sap", [])):
        bounds = sorted({0, len(series.values)}.union(*series.marks))
        length, start = max((stop - start, -start) for start, stop in pairwise(bounds))
        part = np.array(series.values[5 - start : 135 - start])
        if length >= STABLE and estimate_noise(part) > 0 and np.median(part) > 0:
            stretches.append(part)
    return stretches


def inject_steps(detect: Detector, stretches: Sequence[Floats]) -> list[float]:
    """Return the share of windows with a false change, and the shares of steps that were found."""
    shares = [float(np.mean([bool(detect(part[: BEFORE + 10].tolist())) for part in stretches]))]
    for size, points in STEPS:
        hits = 0
        for part in stretches:
            values = part[: BEFORE + points].copy()
            values[BEFORE:] += size * estimate_noise(part)
            hits += any(abs(index - BEFORE) <= MARGIN for index in detect(values.tolist()))
        shares.append(hits / len(stretches))
    return shares


# ---- tables


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table, line by line as rows come."""
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of labelled series")
    parser.add_argument("--only", nargs="+", help="detectors to score, as they are named in the table")
    parser.add_argument(
        "--tables", nargs="+", default=["f1", "noise", "steps"], choices=["f1", "noise", "steps"]
    )
    parser.add_argument("--seed", type=int, default=7, help="of the noise")
    args = parser.parse_args()
    sets = read_sets(args.data)
    if not sets:
        parser.error(f"no *.json.gz in {args.data}")
    detectors = {name: each for name, each in find_detectors().items() if not args.only or name in args.only}
    if "f1" in args.tables:
        head = ["detector", *(f"{name}: F1 (precision, recall), s" for name in sets)]
        print_table(head, (_f1_row(name, each, sets) for name, each in detectors.items()))
        if "torchstone" in detectors:
            _print_batch_time(sets)
    if "noise" in args.tables:
        kinds = ["normal", "log-normal", "t, 3 degrees", "AR(0.5)"]
        rows = (
            [name, *(f"{count_false_points(each, kind, args.seed):.2f}" for kind in kinds)]
            for name, each in detectors.items()
        )
        print_table(["false points per 1,000", *kinds], rows)
    if "steps" in args.tables:
        stretches = find_stable_stretches(sets)
        head = [
            f"{len(stretches)} stable stretches",
            "false windows",
            *(f"{s} sigma, {n} points" for s, n in STEPS),
        ]
        shares = ((name, inject_steps(each, stretches)) for name, each in detectors.items())
        print_table(head, ([name, *(f"{share:.3f}" for share in row)] for name, row in shares))


def _f1_row(name: str, detect: Detector, sets: dict[str, list[Labelled]]) -> list[str]:
    scores = [score_set(detect, series) for series in sets.values()]
    return [name, *(f"{s.f1:.3f} ({s.precision:.2f}, {s.recall:.2f}), {s.seconds:.2f}" for s in scores)]


def _print_batch_time(sets: dict[str, list[Labelled]]) -> None:
    print()
    for name, series in sets.items():
        start = time.process_time()
        find_changes_in_many([each.values for each in series])
        points = sum(len(each.values) for each in series)
        print(
            f"torchstone, all {len(series)} series of {name} at once ({points:,} points): "
            f"{time.process_time() - start:.2f} s of processor time"
        )


if __name__ == "__main__":
    main()
