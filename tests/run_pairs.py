"""Random pairs of runs, as realistic as they are varied: what people measure, and what goes wrong while they do."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Failure, Measurement, Outcome, Reading, Run, Variant
from torchstone.core.run_settings import Pairing, Settings, environment_from
from torchstone.core.vocabulary import PASSED
from torchstone.formats import FORMATS
from torchstone.gate.blocking_policy import Policy
from torchstone.gate.trial_statuses import disagreement_caution
from torchstone.measure.ab.contest import METRICS, AbSettings, Contest
from torchstone.measure.ab.pair import PairResult

NAMES = ("linear", "conv", "attention", "mlp", "norm", "gather")
FACTORS = (1.0, 1.0, 1.0, 1.0, 1.02, 1.06, 1.2, 0.8, 2.0)
NOISES = (0.0, 0.003, 0.01, 0.03, 0.15)
TRIALS = (1, 1, 1, 2, 3, 5, 10)
SAMPLES = (1, 2, 7, 30, 200)
FAILURES = (
    "fail_to_run",
    "timeout",
    "eager_1st_run_fail",
    "pass_due_to_skip",
    "not_available",
    "infra_error",
)
BAD_INTERVALS = ((0.0, math.inf), (math.nan, 1.0), (2.0, 1.0), (-1.0, 1.0), (1.0, math.nan))
VARIANT = Variant(device="cpu", backend="inductor", mode="inference", dtype="float32", batch_size=8)

DEFINITIONS = {
    "tokens_per_second": ("higher", "1/s"),
    "wasted_share": ("lower", "%"),
    "parameters": ("equal", ""),
}
"""Metrics that benchmarks report themselves: which direction is better, and the unit."""
TABLES = ((True, False), (False, True), (True, True))
"""Which side is a table of another tool, if one is."""

RULES = (
    "",
    '[[rule]]\nmetric = "abs_latency"\nkind = "ratio_ceiling"\nratio = 1.05\n',
    '[[rule]]\nmetric = "speedup"\nkind = "margin"\nmargin = 0.02\n',
    '[[rule]]\nmetric = "graph_breaks"\ncase = "conv*"\nkind = "count"\nbetter = "lower"\ntolerance = 2\n',
    '[[rule]]\nmetric = "tokens_per_second"\nkind = "ratio_floor"\nratio = 0.9\n',
    '[[rule]]\nmetric = "eager_latency"\nkind = "ratio_ceiling"\nratio = 1.3\n',
    '[[rule]]\nmetric = "dynamo_peak_mem"\nkind = "ignore"\n',
)
"""The texts of some settings files."""


UNMEASURED = Settings()
"""Settings of a file of another tool."""


@dataclass(frozen=True)
class RunPair:
    """Two runs, and how they are to be judged."""

    base: Reading
    new: Reading
    rules: str = ""
    policy: str = "strict"


def make_reading(
    path: str, outcomes: Sequence[Outcome], settings: Settings = UNMEASURED, torch: str = ""
) -> Reading:
    """Outcomes as a run that was read from a file, measured with a version of torch."""
    plan = tuple(outcome.case for outcome in outcomes)
    environment = environment_from({"versions": {"torch": torch}} if torch else {})
    run = Run(path, plan, tuple(outcomes), settings=settings, environment=environment)
    return Reading(path, "run", run, range(2, 2 + len(outcomes)))


def measured_settings(*, looks: int | None = None, pairing: Pairing | None = None) -> Settings:
    """Settings of a run that torchstone measured."""
    return Settings(sources={"smoke": BenchmarkSource("suite")}, looks=looks, pairing=pairing)


def busy() -> Caution:
    """The caution of a worker that others took the processor from."""
    return make_caution(CautionKind.BUSY_MACHINE, rate=400.0, share=0.6)


def busy_while_compiling() -> Caution:
    """The caution of a worker that others took the processor from while it compiled."""
    return make_caution(CautionKind.BUSY_WHILE_COMPILING, share=0.4)


class PairMaker:
    """Makes pairs of runs from a source of chance."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._often = chance.random

    def pair(self) -> RunPair:
        """Two runs of the same benchmarks, of which some have changed."""
        chance = self._chance
        cases = [self._case(name) for name in chance.sample(NAMES, chance.randint(1, len(NAMES)))]
        trials = chance.choice(TRIALS), chance.choice(TRIALS)
        found: tuple[list[Outcome], list[Outcome]] = ([], [])
        for case in cases:
            for side, outcome in enumerate(self._outcomes(case, trials)):
                if not (self._is_rare() and len(cases) > 1):
                    found[side].append(outcome)
        for side, outcomes in enumerate(found):
            if not outcomes:
                outcomes.append(self._outcomes(cases[0], trials)[side])
        base = make_reading("base.jsonl", found[0], self._settings(is_new=False), self._torch())
        new = make_reading("new.jsonl", found[1], self._settings(is_new=True), self._torch())
        if chance.random() < 0.3:
            base, new = self._as_tables(base, new)
        return RunPair(base, new, chance.choice(RULES), chance.choice(("strict", "lenient")))

    def _as_tables(self, base: Reading, new: Reading) -> tuple[Reading, Reading]:
        """One side or both as tables of another tool, or of expected values, as far as tables can hold them."""
        chance = self._chance
        is_base_table, is_new_table = chance.choice(TABLES)
        probe = chance.choice(("performance", "performance", "accuracy"))
        kind = chance.choice((probe, "expected"))
        tables = (
            as_table(base, kind, probe) if is_base_table else base,
            as_table(new, probe, probe) if is_new_table else new,
        )
        return tables[0] or base, tables[1] or new

    def _torch(self) -> str:
        """Seldom another version."""
        return "2.11.0" if self._is_rare() else "2.13.0"

    def _settings(self, *, is_new: bool) -> Settings:
        if self._chance.random() < 0.3:
            return Settings()
        return measured_settings(looks=5 if is_new and self._chance.random() < 0.3 else None)

    def _is_rare(self) -> bool:
        return self._chance.random() < 0.06

    def _case(self, name: str) -> Case:
        probe = self._chance.choice(("performance", "performance", "performance", "accuracy", "instructions"))
        return Case(name, probe, "smoke", VARIANT)

    def _outcomes(self, case: Case, trials: tuple[int, int]) -> tuple[Outcome, Outcome]:
        """The outcomes of a case on both sides."""
        sides: tuple[list[Measurement], list[Measurement]] = ([], [])
        makers = {"performance": self._times, "accuracy": self._counts, "instructions": self._instructions}
        for before, after in makers[case.probe](trials):
            sides[0].append(self._as_baseline(before))
            sides[1].append(after)
        for side in sides:
            if len(side) > 1 and self._is_rare():
                side.pop(self._chance.randrange(len(side)))
        base, new = (self._ended(Outcome(case, PASSED, tuple(side))) for side in sides)
        if self._is_rare() and base.status != PASSED:
            new = structs.replace(new, status=base.status, measurements=base.measurements)
        return base, new

    def _ended(self, outcome: Outcome) -> Outcome:
        """An outcome that may have failed or been disturbed."""
        chance = self._chance
        if self._is_rare():
            status = chance.choice(FAILURES)
            unmeasured = status in {"pass_due_to_skip", "not_available"}
            kept = outcome.measurements if chance.random() < 0.3 and not unmeasured else ()
            return structs.replace(outcome, status=status, measurements=kept, failure=Failure("run", "why"))
        if chance.random() < 0.06:
            return self._with_disagreeing_trials(outcome)
        if chance.random() < 0.12:
            return structs.replace(outcome, cautions=(busy_while_compiling(),))
        if chance.random() < 0.12:
            marked = tuple(self._with_disturbed(each) for each in outcome.measurements)
            return structs.replace(outcome, measurements=marked, cautions=(busy(),))
        return outcome

    def _with_disagreeing_trials(self, outcome: Outcome) -> Outcome:
        """An outcome whose last trial failed, or of which ab saw some trials fail."""
        status = self._chance.choice(("fail_to_run", "fail_accuracy", "timeout"))
        if self._chance.random() < 0.5:
            caution = make_caution(CautionKind.TRIAL_FAILED, trials=self._chance.randint(2, 5), status=status)
            return structs.replace(outcome, status=status, cautions=(caution,), failure=Failure("run", "why"))
        statuses = Counter({PASSED: self._chance.randint(1, 4), status: self._chance.randint(1, 4)})
        return structs.replace(outcome, cautions=(disagreement_caution(statuses),))

    def _with_disturbed(self, measurement: Measurement) -> Measurement:
        """Say which of its trials were disturbed; nothing if nobody noted that."""
        count = len(measurement.trials)
        if count < 2 or self._chance.random() < 0.3:
            return measurement
        which = tuple(sorted(self._chance.sample(range(count), self._chance.randint(0, count))))
        details = structs.replace(measurement.details or MeasurementDetails(), disturbed=which)
        return structs.replace(measurement, details=details)

    def _as_baseline(self, measurement: Measurement) -> Measurement:
        """A measurement as a baseline may state it: with a margin that was learned, or as a number with its spread."""
        chance = self._chance
        kind = chance.random()
        details = measurement.details or MeasurementDetails()
        if kind < 0.1:
            details = structs.replace(details, margin=chance.choice((0.01, 0.05, 0.3)))
        elif kind < 0.25:
            spread, count = chance.choice((None, 0.0, 0.004, 0.02, 0.2)), chance.choice((1, 2, 5))
            details = structs.replace(
                details, spread=None if count == 1 else spread, spread_trials=count, trials=(), interval=None
            )
            if chance.random() < 0.3:
                details = structs.replace(details, margin=0.05)
            return Measurement(measurement.metric, (measurement.value,), details)
        else:
            return measurement
        return structs.replace(measurement, details=details)

    def _times(self, trials: tuple[int, int]) -> list[tuple[Measurement, Measurement]]:
        """What the performance probe measures, and a metric of the benchmark's own."""
        found = [self._scattered("speedup", 1.4, trials, 1), self._scattered("abs_latency", 2e-3, trials)]
        found.append(self._scattered("compilation_latency", 3.0, trials, 1))
        if self._often() < 0.5:
            found += [self._memory(trials), self._scattered("eager_latency", 3e-3, trials)]
        if self._often() < 0.5:
            found.append(self._scattered("compile_seconds", 2.5, trials, 1))
        if self._often() < 0.3:
            found.append(self._scattered("tokens_per_second", 900.0, trials))
        elif self._often() < 0.5:
            found += [self._reported(metric, trials) for metric in self._chance.sample([*DEFINITIONS], 2)]
        if self._often() < 0.5:
            found.append(self._counted("graph_breaks", self._chance.choice((0, 0, 2, 7)), trials))
        return found

    def _reported(self, metric: str, trials: tuple[int, int]) -> tuple[Measurement, Measurement]:
        """A metric that the benchmark reports itself; seldom has its definition changed."""
        better, unit = DEFINITIONS[metric]
        counts = metric == "parameters"
        sides = self._counted(metric, 3, trials) if counts else self._scattered(metric, 40.0, trials)
        changed = ("lower", "ms") if self._is_rare() else (better, unit)
        return _defined(sides[0], better, unit), _defined(sides[1], *changed)

    def _counts(self, trials: tuple[int, int]) -> list[tuple[Measurement, Measurement]]:
        """What the accuracy probe counts."""
        return [
            self._counted(metric, 3, trials) for metric in ("graph_breaks", "unique_graphs", "recompiles")
        ]

    def _instructions(self, trials: tuple[int, int]) -> list[tuple[Measurement, Measurement]]:
        return [
            self._counted("instruction_count", 4_000_000, trials),
            self._scattered("cpu_seconds", 0.8, trials, 1),
        ]

    def _scattered(
        self, metric: str, level: float, trials: tuple[int, int], samples: int | None = None
    ) -> tuple[Measurement, Measurement]:
        """A number with noise between processes and within them."""
        chance = self._chance
        noise, factor = chance.choice(NOISES), chance.choice(FACTORS)
        size = samples or chance.choice(SAMPLES)
        if self._is_rare():
            level = 0.0
        base = self._measured(metric, level, trials[0], size, noise)
        if self._is_rare():
            return base, base
        return base, self._measured(metric, level * factor, trials[1], size, noise)

    def _measured(self, metric: str, level: float, trials: int, size: int, noise: float) -> Measurement:
        chance = self._chance
        levels = [level * self._noise(noise) for _ in range(trials)]
        values = tuple(each * self._noise(noise / 2) for each in levels for _ in range(size))
        details = MeasurementDetails(trials=(size,) * trials if trials > 1 else ())
        if metric == "speedup" or self._is_rare():
            width = 1 + chance.choice((0.0, 0.002, 0.01, 0.4))
            interval = values[0] / width, values[0] * width
            if self._is_rare():
                interval = chance.choice(BAD_INTERVALS)
            details = structs.replace(details, interval=interval, confidence=0.95)
        return Measurement(metric, values, None if details == MeasurementDetails() else details)

    def _noise(self, spread: float) -> float:
        """A factor near 1."""
        return math.exp(spread * max(-4.0, min(4.0, self._chance.gauss(0, 1))))

    def _memory(self, trials: tuple[int, int]) -> tuple[Measurement, Measurement]:
        """Memory, which mostly repeats to the last byte."""
        factor = self._chance.choice(FACTORS)
        if self._chance.random() < 0.3:
            return self._scattered("dynamo_peak_mem", 1.5, trials, 1)
        return self._repeated("dynamo_peak_mem", 1.5, trials[0]), self._repeated(
            "dynamo_peak_mem", 1.5 * factor, trials[1]
        )

    def _repeated(self, metric: str, value: float, trials: int) -> Measurement:
        details = MeasurementDetails(trials=(1,) * trials) if trials > 1 else None
        return Measurement(metric, (value,) * trials, details)

    def _counted(self, metric: str, value: int, trials: tuple[int, int]) -> tuple[Measurement, Measurement]:
        """A count: the same in all trials, or not."""
        chance = self._chance
        change = chance.choice((0, 0, 0, 1, -1, value // 10))
        sides = []
        for count, level in zip(trials, (value, max(0, value + change)), strict=True):
            samples = [level] * count
            if self._is_rare():
                samples = [max(0, level + chance.choice((-1, 0, 1))) for _ in samples]
            details = MeasurementDetails(trials=(1,) * count) if count > 1 else None
            sides.append(Measurement(metric, tuple(samples), details))
        return sides[0], sides[1]


def _defined(measurement: Measurement, better: str, unit: str) -> Measurement:
    """A measurement with the definition of its metric."""
    details = measurement.details or MeasurementDetails()
    return structs.replace(
        measurement, details=structs.replace(details, better=better, unit=unit, reported="result")
    )


def _in_table(outcome: Outcome) -> Outcome:
    """An outcome with single numbers: those of its first trial."""
    numbers = tuple(structs.replace(each, samples=each.samples[:1]) for each in outcome.measurements)
    single = (
        structs.replace(
            each, details=structs.replace(each.details, trials=(), disturbed=None) if each.details else None
        )
        for each in numbers
    )
    return structs.replace(outcome, measurements=tuple(single))


def as_table(reading: Reading, kind: str, probe: str) -> Reading | None:
    """The cases of one probe as read from a table of this kind; None if it cannot hold them."""
    outcomes = tuple(_in_table(each) for each in reading.run.outcomes if each.case.probe == probe)
    if not outcomes:
        return None
    plan = tuple(each.case for each in outcomes)
    run = Run(reading.run.id, plan, outcomes)
    path = reading.path.replace(".jsonl", ".csv")
    try:
        return FORMATS[kind].read(path, FORMATS[kind].write(run))
    except InputError:  # such as expected values of cases that all failed: there are none
        return None


def pairing_of(side: str, settings: AbSettings) -> Settings:
    """What ab records in the file of a side."""
    pairing = Pairing(
        side,
        session=settings.session,
        metric=METRICS[settings.metric],
        margin=settings.margin,
        alpha=settings.alpha,
        better=settings.criteria.better,
    )
    return measured_settings(pairing=pairing)


def random_contests(chance: random.Random, settings: AbSettings, policy: Policy) -> list[Contest]:
    """Some cases that ab measured in pairs until they were decided, or the budget was spent."""
    contests = []
    for number, name in enumerate(chance.sample(NAMES, chance.randint(1, len(NAMES)))):
        case = Case(name, "performance", "smoke", VARIANT)
        contest = Contest(case, (case, case), number, settings, policy)
        noise, factor = chance.choice((0.002, 0.01, 0.05)), chance.choice((1.0, 1.0, 1.03, 0.9, 1.3))
        for _ in range(chance.choice((1, 2, 12, 40))):
            if contest.verdict is None:
                contest.take(_played(chance, case, noise, factor))
        while contest.is_in_doubt:  # as ab does: a pair that has just failed is repeated
            contest.take(_played(chance, case, noise, factor))
        if contest.verdict is None:
            contest.give_up()
        contests.append(contest)
    return contests


def _played(chance: random.Random, case: Case, noise: float, factor: float) -> PairResult:
    """One pair of processes that took turns."""
    size = chance.choice((1, 6))
    if chance.random() < 0.02:
        failed, passed = Outcome(case, "fail_to_run", failure=Failure("run", "why")), Outcome(case, PASSED)
        return PairResult(((), ()), chance.choice(((failed, passed), (passed, failed))))
    times = tuple(
        tuple(level * math.exp(chance.gauss(0, noise)) for _ in range(size))
        for level in (1e-3, factor * 1e-3)
    )
    cautions = (busy(),) if chance.random() < 0.1 else ()
    outcomes = (Outcome(case, PASSED), Outcome(case, PASSED, cautions=cautions))
    return PairResult((times[0], times[1]), outcomes)


def random_pair(seed: int | str) -> RunPair:
    """The pair of runs that a seed stands for."""
    return PairMaker(random.Random(seed)).pair()  # noqa: S311  (noise, not secrets)
