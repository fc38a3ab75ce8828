"""Simulate checks of unchanged code on machines of known noise, to count the rows that are red nevertheless.

The judging is the real one: runs are made up, and ``check`` judges them. ``verdicts.py simulate`` prints the table, and a small one is a test.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from torchstone.api.judging.check import check_results
from torchstone.api.judging.check_request import CheckRequest
from torchstone.api.judging.decide import needs_more
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Measurement, Outcome, Reading, Run
from torchstone.core.run_settings import Settings
from torchstone.core.vocabulary import Verdict
from torchstone.gate.defaults import noise_of
from torchstone.gate.judgement import Judgement
from torchstone.measure.deciding import LOOKS, TRIALS_AT_LOOKS

CASES = 8
METRICS = ("speedup", "abs_latency", "compilation_latency")
WITHIN = 0.005  # noise of one sample within its process, as a share
SAMPLES = 5
SCALES = (0.5, 1.0, 2.0)
"""The noise between processes, as multiples of the documented default of each metric."""


@dataclass(frozen=True)
class Design:
    """How often each side is measured; ``decides`` measures the new side again until it is decided."""

    name: str
    base: int
    new: int
    decides: bool = False


DESIGNS = (
    Design("1 process against 1", 1, 1),
    Design("1 against a baseline of 5", 5, 1),
    Design("5 against 5", 5, 5),
    Design("--decide, a baseline of 1", 1, 1, decides=True),
    Design("--decide, a baseline of 5", 5, 1, decides=True),
    Design("--decide, a baseline of 10", 10, 1, decides=True),
)


@dataclass(frozen=True)
class Alarms:
    """Verdicts on rows of unchanged code: how many there were, and how many were wrong or open."""

    rows: int = 0
    red: int = 0
    green: int = 0
    undecided: int = 0
    runs: int = 0
    passed: int = 0

    def and_those_of(self, judgement: Judgement) -> Alarms:
        """Return the sum with one more run."""
        found = [row.verdict for row in judgement.rows]
        return Alarms(
            self.rows + len(found),
            self.red + found.count(Verdict.REGRESSION),
            self.green + found.count(Verdict.IMPROVEMENT),
            self.undecided + found.count(Verdict.INCONCLUSIVE),
            self.runs + 1,
            self.passed + (judgement.exit_code == 0),
        )

    @property
    def red_share(self) -> float:
        """The share of rows that are red."""
        return self.red / self.rows if self.rows else 0.0


class Machine:
    """Measures made-up cases: each process is off by noise of its own, and each sample of it by some more."""

    def __init__(self, chance: random.Random, scale: float, slower: float = 0.0) -> None:
        self._chance = chance
        self._scale = scale
        self._slower = slower
        self._trials: dict[str, dict[str, list[tuple[float, ...]]]] = {}

    def measure(self, names: Collection[str], trials: int) -> None:
        """Measure cases until they have this many trials."""
        for name in names:
            of_case = self._trials.setdefault(name, {metric: [] for metric in METRICS})
            for metric, found in of_case.items():
                while len(found) < trials:
                    found.append(tuple(self._process(name, metric)))

    def _process(self, name: str, metric: str) -> Iterator[float]:
        off = self._chance.gauss(0, self._scale * (noise_of(metric) or 0.0))
        if self._slower and name == "case 0":
            off += math.log1p(self._slower) * (-1 if metric == "speedup" else 1)
        for _ in range(SAMPLES if metric == "abs_latency" else 1):
            yield math.exp(off + self._chance.gauss(0, WITHIN))

    def reading(self, path: str, looks: int | None = None) -> Reading:
        """Return everything measured so far, as a run that was read from a file."""
        outcomes = tuple(
            Outcome(Case(name, "performance"), "pass", tuple(map(_measured, of_case, of_case.values())))
            for name, of_case in self._trials.items()
        )
        settings = Settings(sources={"": BenchmarkSource("suite")}, looks=looks)
        run = Run(path, tuple(outcome.case for outcome in outcomes), outcomes, settings=settings)
        return Reading(path, "run", run, range(2, 2 + len(outcomes)))


def _measured(metric: str, trials: list[tuple[float, ...]]) -> Measurement:
    samples = tuple(sample for trial in trials for sample in trial)
    details = MeasurementDetails(trials=tuple(map(len, trials)))
    if metric == "speedup" and len(trials) == 1:
        interval = samples[0] * math.exp(-1.96 * WITHIN), samples[0] * math.exp(1.96 * WITHIN)
        details = MeasurementDetails(interval=interval, confidence=0.95)
    return Measurement(metric, samples, details)


def check_once(
    design: Design, scale: float, chance: random.Random, slower: float = 0.0
) -> tuple[Judgement, int]:
    """Measure a baseline and a run, of which one case may be slower, and check the run; return the judgement and the trials measured."""
    names = [f"case {number}" for number in range(CASES)]
    base, new = Machine(chance, scale), Machine(chance, scale, slower)
    base.measure(names, design.base)
    new.measure(names, design.new)
    baseline, looks = base.reading("base.jsonl"), LOOKS if design.decides else None
    for trials in (*TRIALS_AT_LOOKS[1:], 0):
        reading = new.reading("new.jsonl", looks)
        judged = check_results(CheckRequest(results=(reading,), baselines=(baseline,))).judgement
        still_open = {row.case.benchmark for row in judged.rows if needs_more(row)}
        if not design.decides or not trials or not still_open:
            break
        new.measure(still_open, trials)
    return judged, sum(len(outcome.measurements[0].trials) for outcome in reading.run.outcomes)


def count_alarms(design: Design, scale: float, runs: int, seed: str = "") -> Alarms:
    """Check unchanged code many times."""
    chance = random.Random(f"{design.name} {scale} {seed}")  # noqa: S311
    found = Alarms()
    for _ in range(runs):
        found = found.and_those_of(check_once(design, scale, chance)[0])
    return found
