"""How well changes are grouped by cause: simulated causes, through the real store, detection and grouping.

    python benchmarks/grouping.py                  5 stores of 200 nights, about a minute
    python benchmarks/grouping.py --stores 20

A store has two machines and 60 cases on each, two metrics a case, noise of one to three per cent, outliers, failed cases and nights
without a run. A cause moves 1 to 40 cases by 4 to 40 per cent, on one machine or both, for the better or the worse; one in five has
another cause one night behind it, with members of its own. One machine shifts once.

Groups per cause: of causes with a change that was found, in how many groups their changes are. Causes per group: of groups with a
change that has a cause, how many causes theirs have. Both are 1 if the grouping is perfect. Changes without any cause are false ones
of the detector, and are counted apart.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from torchstone.core.records import Case, Measurement, Outcome, Reading, Revision, Run, Variant
from torchstone.core.run_settings import environment_from
from torchstone.history.causes.stored_groups import read_groups
from torchstone.history.change_records import Cause, SeriesChange
from torchstone.history.update import bring_up_to_date
from torchstone.store.database.opening import connect
from torchstone.store.ordering import History
from torchstone.store.record_runs import ToRecord, record_runs

MACHINES = ("EPYC", "Xeon")
METRICS = ("abs_latency", "compile_seconds")
NIGHTS = 200
AT_ONCE = 10
NEAR = 12  # nights: a change so far from a cause of its series is of that cause
BETWEEN = (6, 14)  # nights from one cause to the next
MOST = 1.2

Series = tuple[str, str, str]
"""Machine, id of the case, metric."""


@dataclass(frozen=True)
class SimulatedCause:
    """What begins at a night: by which factor it moves which series."""

    night: int
    factor: float
    series: frozenset[Series]
    is_machine: bool = False


@dataclass
class Score:
    """What became of the causes of one store."""

    causes: int
    found: int
    groups_per_cause: list[int]
    causes_per_group: list[int]
    false_changes: int
    changes: int
    machine_groups: int
    machine_right: int


def make_cases() -> list[Case]:
    """Return cases of three suites and two backends."""
    return [
        Case(
            f"{suite}{number}",
            "performance",
            suite,
            Variant("cpu", backend, "inference", "float32", batch_size=8),
        )
        for suite in ("huggingface", "timm", "torchbench")
        for backend in ("inductor", "aot_eager")
        for number in range(10)
    ]


def make_causes(cases: list[Case], chance: random.Random) -> list[SimulatedCause]:
    """Return causes in order, one in five with another one a night behind it; and the shift of a machine."""
    found: list[SimulatedCause] = []
    night = 40
    while night < NIGHTS - 15:
        first = _make_cause(cases, night, chance, frozenset())
        found.append(first)
        if chance.random() < 0.2:
            taken = frozenset(case for _, case, _ in first.series)
            found.append(_make_cause(cases, night + 1, chance, taken))
        night += chance.randint(*BETWEEN)
    shifted = _find_quiet_night([cause.night for cause in found], chance)
    machine = chance.choice(MACHINES)
    whole = frozenset((machine, case.id, metric) for case in cases for metric in METRICS)
    return [*found, SimulatedCause(shifted, chance.choice((1.06, 1.1, 0.92)), whole, is_machine=True)]


def _find_quiet_night(nights: list[int], chance: random.Random) -> int:
    """Return a night in the middle between two causes."""
    quiet = [(before + after) // 2 for before, after in pairwise(nights) if after - before >= BETWEEN[0]]
    return chance.choice(quiet[2:])


def _make_cause(
    cases: list[Case], night: int, chance: random.Random, taken: frozenset[str]
) -> SimulatedCause:
    """Return a cause that moves 1 to 40 cases: of one suite or backend, if that has enough."""
    free = [case for case in cases if case.id not in taken]
    size = min(len(free), round(math.exp(chance.uniform(0, math.log(40)))))
    axis = chance.choice(("suite", "backend", ""))
    of_axis = chance.choice(free)
    alike = [
        case
        for case in free
        if (axis == "suite" and case.suite == of_axis.suite)
        or (axis == "backend" and case.variant.backend == of_axis.variant.backend)
    ]
    members = chance.sample(alike if len(alike) >= size else free, size)
    machines = chance.choice((MACHINES, MACHINES, MACHINES[:1], MACHINES[1:]))
    metrics = chance.choice((METRICS, METRICS[:1], METRICS[1:]))
    factor = math.exp(chance.choice((1, 1, -1)) * chance.uniform(0.04, 0.35))
    series = frozenset(
        (machine, case.id, metric) for machine in machines for case in members for metric in metrics
    )
    return SimulatedCause(night, factor, series)


def make_runs(
    cases: list[Case], causes: list[SimulatedCause], chance: random.Random
) -> list[tuple[int, Run]]:
    """Return the runs of all nights, with the night."""
    noise = {
        (machine, case.id, metric): chance.uniform(0.01, 0.03)
        for machine in MACHINES
        for case in cases
        for metric in METRICS
    }
    level = dict.fromkeys(noise, 10.0)
    found = []
    for night in range(NIGHTS):
        for cause in causes:
            if cause.night == night:
                for series in cause.series:
                    level[series] *= cause.factor
        found += [
            (night, _make_run(night, machine, cases, level, noise, chance))
            for machine in MACHINES
            if chance.random() > 0.1  # a night without a run
        ]
    return found


def _make_run(
    night: int,
    machine: str,
    cases: list[Case],
    level: dict[Series, float],
    noise: dict[Series, float],
    chance: random.Random,
) -> Run:
    outcomes = []
    for case in cases:
        if chance.random() < 0.02:
            continue  # it did not run
        measured = []
        for metric in METRICS:
            series = (machine, case.id, metric)
            outlier = 1.3 if chance.random() < 0.01 else 1.0
            value = level[series] * outlier * math.exp(chance.gauss(0, noise[series]))
            measured.append(Measurement(metric, (value,)))
        outcomes.append(Outcome(case, "pass", tuple(measured)))
    return Run(
        f"2026{night:04}T000000-{machine}",
        tuple(each.case for each in outcomes),
        tuple(outcomes),
        Revision(f"{night + 1:040x}", "main", False),
        environment_from({"machine": {"cpu": {"model": machine}}, "versions": {"torch": "2.13.0"}}),
    )


def cause_of(change: SeriesChange, causes: list[SimulatedCause]) -> int | None:
    """Return the number of the cause of a change: the nearest of its series that goes the same way."""
    key = (change.series.machine, change.series.case.id, change.metric.name)
    night = int(change.first_new.commit, 16) - 1
    ratio = change.ratio or 1.0
    near = [
        (abs(cause.night - night), number)
        for number, cause in enumerate(causes)
        if key in cause.series and abs(cause.night - night) <= NEAR and (ratio > 1) == (cause.factor > 1)
    ]
    return min(near)[1] if near else None


def score_store(seed: int, folder: Path) -> Score:
    """Make a store, record its nights as they come, and score the groups at the end."""
    chance = random.Random(seed)  # noqa: S311  (a simulation)
    cases = make_cases()
    causes = make_causes(cases, chance)
    runs = make_runs(cases, causes, chance)
    heights = {f"{night + 1:040x}": night + 1 for night in range(NIGHTS)}
    with closing(connect(str(folder / f"{seed}.db"), creates=True)) as database:
        for first in range(0, NIGHTS, AT_ONCE):
            batch = [
                ToRecord(Reading("", "run", run, range(2, 2 + len(run.outcomes))), run.revision)
                for night, run in runs
                if first <= night < first + AT_ONCE
            ]
            record_runs(database, batch, History(heights, is_there=True), keeps_raw=False)
            bring_up_to_date(database)
        bring_up_to_date(database, thorough=True)
        groups = read_groups(database)
    owners = [[cause_of(change, causes) for change in group.changes] for group in groups]
    known = [{owner for owner in each if owner is not None} for each in owners]
    of_cause = Counter(owner for each in known for owner in each)
    machine = next(number for number, cause in enumerate(causes) if cause.is_machine)
    shifted = [
        Counter(owner).most_common(1)[0][0] == machine
        for group, owner in zip(groups, owners, strict=True)
        if group.cause is Cause.MACHINE
    ]
    return Score(
        len(causes),
        len(of_cause),
        list(of_cause.values()),
        [len(each) for each in known if each],
        sum(owner is None for each in owners for owner in each),
        sum(map(len, owners)),
        len(shifted),
        sum(shifted),
    )


def main() -> int:
    """Score some stores, and print the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stores", type=int, default=5, help="number of simulated stores (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first store (default: 1)")
    given = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        scores = [score_store(seed, Path(place)) for seed in range(given.seed, given.seed + given.stores)]
    per_cause = statistics.mean(count for score in scores for count in score.groups_per_cause)
    per_group = statistics.mean(count for score in scores for count in score.causes_per_group)
    rows = {
        "causes": sum(score.causes for score in scores),
        "of these with a change found": sum(score.found for score in scores),
        "changes": sum(score.changes for score in scores),
        "of these without any cause": sum(score.false_changes for score in scores),
        "groups per cause": f"{per_cause:.3f}   (at most {MOST})",
        "causes per group": f"{per_group:.3f}   (at most {MOST})",
        "machine shifts found": f"{sum(score.machine_right > 0 for score in scores)} of {len(scores)}",
        "other groups called machine shifts": sum(
            score.machine_groups - score.machine_right for score in scores
        ),
    }
    for what, value in rows.items():
        print(what.ljust(36), value)
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    return int(max(per_cause, per_group) > MOST)


if __name__ == "__main__":
    sys.exit(main())
