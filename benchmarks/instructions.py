"""How far instruction counts can be trusted, and what they cost: spread, false alarms, a regression that is really there, and the time it takes.

    python benchmarks/instructions.py                 # everything: more than an hour on two cores
    python benchmarks/instructions.py spread          # 8 benchmarks in 5 separate simulations, with the other core idle, then busy
    python benchmarks/instructions.py regression      # 20 times the same code, and once with 1 % more work in the compiler
    python benchmarks/instructions.py together        # 8 benchmarks in one simulation, against each in its own

Prints the tables that docs/instructions.md shows. The exit code says whether everything is as wanted. Counts are those of the simulated counter.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from run_suite import Silent, sources, verdict

from torchstone.core.records import Case, Outcome
from torchstone.measure.measuring import Settings
from torchstone.measure.plan import Axes, Selection, plan_cases
from torchstone.measure.session import Session
from torchstone.measure.supervisor import WorkerLimits
from torchstone.measure.targets import list_built_in

BENCHMARKS = (
    "aotdispatcher_inference_nosubclass_cpu",
    "aotdispatcher_partitioner_cpu2",
    "basic_modules_ListOfLinears_eager",
    "deep_nested_module_cpu",
    "float_args",
    "sum_floordiv_regression",
    "symint_sum",
    "update_hint_regression",
)
REGRESSED = "basic_modules_ListOfLinears_eager"
PROCESSES, SAME = 5, 20
MOST_SPREAD, MARGIN, INJECTED = 0.001, 0.003, 0.01
TIMEOUT = 1800.0
WALKS = "TORCHSTONE_INJECTED_WALKS"


def judged(found: str, wanted: str, holds: bool) -> bool:
    """Print what was found beside what was wanted."""
    print(f"{found} (wanted: {wanted}): {verdict(holds)}")
    return holds


def cases_of(names: Sequence[str]) -> list[Case]:
    """The cases of these benchmarks."""
    listings = [each for each in list_built_in("compile_time") if each.name in names]
    return plan_cases(listings, Axes((), ("cpu",)), Selection())


@contextlib.contextmanager
def simulation(imports: Sequence[str] = ()) -> Iterator[Callable[[Sequence[Case]], dict[str, Outcome]]]:
    """A simulation of its own: torch is loaded under valgrind, and every case is forked from there."""
    folder = os.path.dirname(os.path.abspath(__file__))
    settings = Settings(
        sources("compile_time"), folder=folder, imports=tuple(imports), threads=1, counter="simulated"
    )
    with Session("auto", "cold", lambda _: None) as session:
        session.start_workers(list(settings.sources.values()), ["cpu"])

        def count(cases: Sequence[Case]) -> dict[str, Outcome]:
            limits = WorkerLimits(TIMEOUT, None, os.cpu_count() or 1)  # as 'torchstone run' has it by default
            supervisor = session.supervisor(settings, limits, Silent())
            return {outcome.case.benchmark: outcome for outcome in supervisor.execute(list(cases))}

        yield count


def value_of(outcome: Outcome) -> float:
    """What was counted; a case that failed ends everything."""
    if outcome.status != "pass":
        sys.exit(f"{outcome.case.benchmark}: {outcome.status}: {outcome.failure and outcome.failure.message}")
    return float(outcome.measurements[0].value)


@contextlib.contextmanager
def busy_core(*, wanted: bool) -> Iterator[None]:
    """A process that does nothing but work, beside."""
    if not wanted:
        yield
        return
    beside = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        beside.kill()
        beside.wait()


def spread_of(counts: Sequence[float]) -> float:
    """How far apart the largest and the smallest are, as a share of the smallest."""
    return (max(counts) - min(counts)) / min(counts)


def measure_spread(processes: int, names: Sequence[str]) -> bool:
    """Each benchmark in so many separate simulations, with the other core idle and with it busy."""
    found: dict[bool, dict[str, list[float]]] = {}
    for busy in (False, True):
        counts: dict[str, list[float]] = {name: [] for name in names}
        for number in range(processes):
            began = time.monotonic()
            with busy_core(wanted=busy), simulation() as count:
                for name, outcome in count(cases_of(names)).items():
                    counts[name].append(value_of(outcome))
            took = time.monotonic() - began
            print(f"  {number + 1} of {processes}, {took:.0f} s: {counts}", file=sys.stderr, flush=True)
        found[busy] = counts
    print(f"| benchmark | instructions | spread of {processes}, other core idle | other core busy |")
    print("|---|---|---|---|")
    for name in names:
        idle, loaded = (found[busy][name] for busy in (False, True))
        print(f"| {name} | {min(idle):,.0f} | {spread_of(idle):.3%} | {spread_of(loaded):.3%} |")
    worst = max(spread_of(counts) for of_load in found.values() for counts in of_load.values())
    return judged(f"largest spread {worst:.3%}", "at most 0.1 %", worst <= MOST_SPREAD)


def measure_regression(times: int) -> bool:
    """The same code so many times, and once with more work in the compiler; each in a simulation of its own."""
    (case,) = cases_of([REGRESSED])

    def once(walks: int = 0) -> float:
        os.environ[WALKS] = str(walks)
        with simulation(["injected_pass"]) as count:
            return value_of(count([case])[case.benchmark])

    counts = []
    for number in range(times + 1):
        counts.append(once())
        print(f"  {number} of {times}: {counts[-1] / counts[0] - 1:+.4%}", file=sys.stderr)
    base, same = counts[0], counts[1:]
    alarms = sum(abs(count / base - 1) > MARGIN for count in same)
    largest = max(abs(count / base - 1) for count in same)
    walks = max(1, round(INJECTED * base / ((once(200) - base) / 200)))
    change = once(walks) / base - 1
    print(f"{REGRESSED}, margin {MARGIN:.1%}:")
    quiet = judged(
        f"{times} times the same code: {alarms} alarms, largest difference {largest:.3%}",
        "no alarm",
        alarms == 0,
    )
    caught = judged(
        f"a pass that walks the graph {walks} times: {change:+.2%}",
        "caught",
        change > MARGIN and abs(change - INJECTED) < INJECTED / 2,
    )
    return quiet and caught


def measure_together(names: Sequence[str]) -> bool:
    """All benchmarks in one simulation, against each in its own."""

    def seconds(groups: Sequence[Sequence[str]]) -> tuple[float, Mapping[str, float]]:
        began = time.monotonic()
        counts: dict[str, float] = {}
        for group in groups:
            with simulation() as count:
                counts |= {name: value_of(outcome) for name, outcome in count(cases_of(group)).items()}
        return time.monotonic() - began, counts

    together, in_one = seconds([names])
    apart, in_own = seconds([[name] for name in names])
    print(f"{len(names)} benchmarks: {together:.0f} s in one simulation, {apart:.0f} s each in its own")
    largest = max(abs(in_one[name] / in_own[name] - 1) for name in names)
    share = together / apart
    cheap = judged(f"{share:.0%} of the time", "at most 50 %", share <= 0.5)
    return (
        judged(f"counts differ by at most {largest:.3%}", "at most 0.1 %", largest <= MOST_SPREAD) and cheap
    )


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="spread, regression, together; by default all")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="of spread")
    parser.add_argument("--times", type=int, default=SAME, help="of regression")
    parser.add_argument("--only", action="append", help="only this benchmark; repeatable")
    given = parser.parse_args()
    names = tuple(given.only or BENCHMARKS)
    parts = {
        "spread": lambda: measure_spread(given.processes, names),
        "regression": lambda: measure_regression(given.times),
        "together": lambda: measure_together(names),
    }
    wanted = given.parts or list(parts)
    if unknown := set(wanted) - set(parts):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    held = [parts[part]() for part in wanted]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
