"""How often verdicts are wrong and how small a slow-down they catch: by simulation, and on this machine.

    python benchmarks/verdicts.py simulate        # six kinds of noise, 2,000 comparisons each: minutes
    python benchmarks/verdicts.py real            # the smoke suite on this machine: A/A, and 5 % and 2 % more work; hours on two cores

Prints the tables that docs/statistics.md shows; peers.py has pyperf and pytest-benchmark beside it, compare_speed.py the speed of 'compare'. The exit code says whether everything is
as wanted.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from run_suite import Silent, verdict
from simulated_checks import CASES as SIMULATED_CASES
from simulated_checks import DESIGNS, SCALES, count_alarms

from torchstone.analyze.evidence import Evidence
from torchstone.analyze.multiple_comparisons import adjust
from torchstone.analyze.ratio_interval import compare_trials
from torchstone.analyze.sequential import PairedTest
from torchstone.api.measuring.ab_request import SelftestRequest, prepare_pairs
from torchstone.gate.defaults import DEFAULTS
from torchstone.measure.ab.contest import AbSettings
from torchstone.measure.ab.pair import PairResult
from torchstone.measure.ab.self_comparison import compare_with_itself, score
from torchstone.measure.ab.side_spec import SideSpec
from torchstone.measure.ab.sides import open_sides
from torchstone.measure.supervisor import WorkerLimits

MARGIN, ALPHA = DEFAULTS.pair_margin, DEFAULTS.pair_alpha
COMPARISONS = 2_000
MOST_PAIRS = 40
ROUNDS = 60
MOST_FALSE, LEAST_POWER = 0.01, 0.95
TRIALS, CASES = 5, 50
SUITE, SECONDS_A_CASE, TIMEOUT = "smoke", 60.0, 600.0
SAME, SLOWED = 13, 5  # times each of the suite's eight cases
MOST_FALSE_ALARMS = 1
SLOW_DOWNS = {0.05: 0.95, 0.02: 0.80}
"""Real work that is added, as a share; and how much of it is to be caught."""

Noise = Callable[[random.Random], Iterator[float]]
"""For each process its own series of factors of one call's time."""


def judged(found: str, wanted: str, holds: bool) -> bool:
    """Print what was found beside what was wanted."""
    print(f"{found} (wanted: {wanted}): {verdict(holds)}")
    return holds


def normal(chance: random.Random) -> Iterator[float]:
    """A process is 1 % off, a call 3 %."""
    own = 1 + chance.gauss(0, 0.01)
    while True:
        yield own * max(0.1, 1 + chance.gauss(0, 0.03))


def log_normal(chance: random.Random) -> Iterator[float]:
    """Never faster than it can be, often a little slower, sometimes a lot."""
    own = math.exp(chance.gauss(0, 0.01))
    while True:
        yield own * (1 + 0.05 * math.exp(chance.gauss(0, 1)))


def heavy_tailed(chance: random.Random) -> Iterator[float]:
    """Now and then a process, or a call, that is far off (Student's t with two degrees of freedom)."""

    def student() -> float:
        return chance.gauss(0, 1) / math.sqrt(chance.expovariate(1) or 1e-9)

    own = math.exp(0.006 * student())
    while True:
        yield own * math.exp(max(-2.0, min(2.0, 0.02 * student())))


def bimodal(chance: random.Random) -> Iterator[float]:
    """Two kinds of processes, 2.5 % apart: memory that happens to lie well, or not."""
    own = chance.choice((1.0, 1.025))
    while True:
        yield own * math.exp(chance.gauss(0, 0.02))


def autocorrelated(chance: random.Random) -> Iterator[float]:
    """Within a process every call is much like the one before: a hundred samples say as much as three."""
    own, state = math.exp(chance.gauss(0, 0.01)), 0.0
    while True:
        state = 0.97 * state + chance.gauss(0, 0.006)
        yield own * math.exp(state)


class Drift:
    """The machine gets slower and faster over the minutes: both processes of a pair at once, and the next pair starts where this one ended."""

    def __init__(self) -> None:
        self._level = 0.0

    def __call__(self, chance: random.Random) -> Iterator[float]:
        """A process in it."""
        own = math.exp(chance.gauss(0, 0.01))
        while True:
            self._level += chance.gauss(0, 0.003) - 0.001 * self._level
            yield own * math.exp(self._level + chance.gauss(0, 0.02))


NOISES: dict[str, Callable[[], Noise]] = {
    "normal": lambda: normal,
    "log-normal": lambda: log_normal,
    "heavy-tailed": lambda: heavy_tailed,
    "bimodal": lambda: bimodal,
    "drifting": Drift,
    "autocorrelated": lambda: autocorrelated,
}


def play(noise: Noise, chance: random.Random, slower: float) -> float:
    """A pair as 'torchstone ab' measures it: two processes that take turns, in random order; its log ratio."""
    a, b = noise(chance), noise(chance)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for side in chance.sample((0, 1), 2):
            times[side].append(next(b) * (1 + slower) if side else next(a))
    return PairResult((tuple(times[0]), tuple(times[1])), ()).log_ratio  # type: ignore[arg-type]


def decide(noise: Noise, chance: random.Random, slower: float) -> tuple[str, int]:
    """What 'torchstone ab' says, which looks after every pair; and after how many."""
    test = PairedTest(MARGIN, ALPHA)
    while not test.decision() and test.pairs < MOST_PAIRS:
        test.add(play(noise, chance, slower))
    return test.decision() or "inconclusive", test.pairs


def compare_once(noise: Noise, chance: random.Random) -> tuple[int, int]:
    """A table of cases that have not changed, some trials a side one after the other: how many rows are called different, and whether any is."""
    p_values, ratios = [], []
    for _ in range(CASES):
        sides = []
        for _side in range(2):
            trials = [
                statistics.median(next(calls) for _ in range(20))
                for calls in (noise(chance) for _ in range(TRIALS))
            ]
            sides.append(Evidence(tuple(trials), 20 * TRIALS))
        found = compare_trials(*sides, alpha=DEFAULTS.alpha)
        p_values.append(1.0 if found.p_value is None else found.p_value)
        ratios.append(found)
    false = sum(
        p <= DEFAULTS.alpha and not (found.low > 1 / (1 + MARGIN) and found.high < 1 + MARGIN)
        for p, found in zip(adjust(p_values), ratios, strict=True)
    )
    return false, int(false > 0)


def simulate(comparisons: int) -> bool:
    """False alarms and power of 'ab' with a look after every pair, and false alarms of 'compare'."""
    print(
        f"ab, margin {MARGIN:.0%}, alpha {ALPHA:.2%}, a look after every pair, at most {MOST_PAIRS} pairs, {comparisons} comparisons each"
    )
    print(
        "| noise | A/A: false | same | inconclusive | pairs (median) | 4 % slower: caught | pairs | 2 % slower: caught |"
    )
    print("|---|---|---|---|---|---|---|---|")
    worst_false, worst_power = 0.0, 1.0
    for name, make in NOISES.items():
        chance = random.Random(f"{name} 1")  # noqa: S311
        noise = make()
        results = [decide(noise, chance, 0.0) for _ in range(comparisons)]
        kinds = Counter(kind for kind, _ in results)
        false = (kinds["slower"] + kinds["faster"]) / comparisons
        slowed = [decide(noise, chance, 2 * MARGIN) for _ in range(comparisons // 4)]
        power = sum(kind == "slower" for kind, _ in slowed) / len(slowed)
        little = [decide(noise, chance, MARGIN) for _ in range(comparisons // 4)]
        at_margin = sum(kind == "slower" for kind, _ in little) / len(little)
        print(
            f"| {name} | {false:.2%} | {kinds['same'] / comparisons:.1%} | {kinds['inconclusive'] / comparisons:.1%} "
            f"| {statistics.median(pairs for _, pairs in results):.0f} | {power:.1%} "
            f"| {statistics.median(pairs for _, pairs in slowed):.0f} | {at_margin:.1%} |"
        )
        worst_false, worst_power = max(worst_false, false), min(worst_power, power)
    holds = judged(f"false alarms: at most {worst_false:.2%}", "at most 1 %", worst_false <= MOST_FALSE)
    holds &= judged(
        f"4 % slower is caught: at least {worst_power:.1%}", "at least 95 %", worst_power >= LEAST_POWER
    )
    holds &= simulate_compare(comparisons // 40)
    return holds & simulate_checks(comparisons // 2)


def simulate_compare(tables: int) -> bool:
    """False alarms of 'compare' over whole tables."""
    print(
        f"\ncompare, alpha {DEFAULTS.alpha:.0%}, {TRIALS} trials a side, {tables} tables of {CASES} cases that have not changed"
    )
    print("| noise | rows called different | tables with any |")
    print("|---|---|---|")
    worst = 0.0
    for name, make in NOISES.items():
        if name == "drifting":
            continue  # trials one after the other are no match for drift: that is what 'ab' is for
        chance = random.Random(f"{name} 2")  # noqa: S311
        found = [compare_once(make(), chance) for _ in range(tables)]
        rows, some = (
            sum(false for false, _ in found) / (tables * CASES),
            sum(any_ for _, any_ in found) / tables,
        )
        print(f"| {name} | {rows:.3%} | {some:.1%} |")
        worst = max(worst, rows)
    return judged(f"rows called different: at most {worst:.3%}", "at most 1 %", worst <= MOST_FALSE)


def simulate_checks(runs: int) -> bool:
    """False alarms of 'check' and of 'run --decide', with the noise between processes below, at and above the documented default."""
    print(
        f"\ncheck, alpha {DEFAULTS.alpha:.0%}, {runs} runs of {SIMULATED_CASES} cases that have not changed"
    )
    print("| measured | noise, of the default | rows | red | improved | undecided | exit code 0 |")
    print("|---|---|---|---|---|---|---|")
    worst = 0.0
    for design in DESIGNS:
        for scale in SCALES:
            found = count_alarms(design, scale, runs)
            print(
                f"| {design.name} | {scale:g} | {found.rows:,} | {found.red_share:.2%} | {found.green / found.rows:.2%} "
                f"| {found.undecided / found.rows:.1%} | {found.passed / found.runs:.0%} |"
            )
            worst = max(worst, found.red_share if scale <= 1 else 0.0)
    told = f"red rows, where the noise is at most the default: at most {worst:.2%}"
    return judged(told, "at most 1 %", worst <= MOST_FALSE)


def real(same: int, slowed: int) -> bool:
    """The smoke suite against itself on this machine, as it is and with real work added to every call of one side."""
    request = prepare_pairs(SelftestRequest(targets=(SUITE,)), (SideSpec(), SideSpec()))
    terms = AbSettings(budget=SECONDS_A_CASE, seed=1)
    tried = []
    with ExitStack() as stack:
        sides = stack.enter_context(open_sides((SideSpec(), SideSpec()), request, print))
        for side in sides:
            side.load()
        for shares, repeat in ((list(SLOW_DOWNS), slowed), ([0.0], same)):
            for each in compare_with_itself(sides, terms, shares, repeat, WorkerLimits(TIMEOUT), Silent()):
                tried.append(each)
                print(f"  {len(tried)}: {each}", file=sys.stderr, flush=True)
    print(f"{SUITE}, margin {terms.margin:.0%}, alpha {terms.alpha:.2%}, at most {terms.budget:.0f} s a case")
    print(
        "| added | comparisons | regression | improvement | same | inconclusive | seconds (median) | pairs (median) |"
    )
    print("|---|---|---|---|---|---|---|---|")
    scores = score(tried)
    for result in scores:
        print(
            f"| {result.slow_down:.0%} | {result.tries} | {result.slower} | {result.faster} | {result.same} | {result.inconclusive} "
            f"| {result.median_seconds:.0f} | {result.median_pairs:.0f} |"
        )
    holds = True
    for result in scores:
        if wanted := SLOW_DOWNS.get(result.slow_down):
            caught = result.slower / result.tries
            holds &= judged(
                f"{result.slow_down:.0%} slower is caught: {caught:.1%}",
                f"at least {wanted:.0%}",
                caught >= wanted,
            )
        else:
            told = f"false alarms: {result.false_alarms} of {result.tries}"
            holds &= judged(told, f"at most {MOST_FALSE_ALARMS}", result.false_alarms <= MOST_FALSE_ALARMS)
    return holds


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("simulate", "real"))
    parser.add_argument("--comparisons", type=int, default=COMPARISONS, help="of simulate")
    parser.add_argument(
        "--same", type=int, default=SAME, help="of real: how often each case is compared with itself"
    )
    parser.add_argument("--slowed", type=int, default=SLOWED, help="of real: how often with each slow-down")
    given = parser.parse_args()
    began = time.monotonic()
    holds = simulate(given.comparisons) if given.part == "simulate" else real(given.same, given.slowed)
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(not holds)


if __name__ == "__main__":
    main()
