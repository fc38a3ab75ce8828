"""Find flaky cases in stored statuses: how often a case passes, how often it flips, and since when it has been stable."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from torchstone.analyze.proportion import lower_limit, upper_limit
from torchstone.core.records import Case
from torchstone.core.vocabulary import PASSED, SKIPPED
from torchstone.store.stored import Series, SeriesPoint

POINTS = 100
"""How many of the newest points of a case count: what was before is another code."""
_EACH_SIDE = 0.975  # two one-sided limits make an interval of 95 %
_LONGEST = 5
"""Failures in a row that may still be chance; more of them are a regression."""
_LEAST_SPELLS = 2
_LEAST_STABLE = 20
_DOUBT = 0.05
_PASSING = frozenset({PASSED, SKIPPED})


class Reliability(Struct, frozen=True):
    """How often a case passed, with the limits of a 95 % interval, and how often its status flipped.

    ``streak`` is the number of runs in a row, up to the newest one, in which it passed. ``spells`` are times that it failed, up to five runs in a row,
    and passed again.
    """

    case: Case
    machine: str
    runs: int
    passed: int
    low: float
    high: float
    to_fail: int
    to_pass: int
    spells: int
    streak: int
    statuses: tuple[tuple[str, int], ...] = ()
    last_failure: SeriesPoint | None = None
    newest: SeriesPoint | None = None

    @property
    def rate(self) -> float:
        """The share of runs that passed."""
        return self.passed / self.runs

    @property
    def is_stable(self) -> bool:
        """Whether it has passed so often in a row that it would have failed meanwhile if it still failed as often as before."""
        return self.streak >= self.needed_streak

    @property
    def needed_streak(self) -> int:
        """How many runs must pass in a row until a case counts as stable: chance would do it once in twenty times."""
        before, failed = self.runs - self.streak, self.runs - self.passed
        if not failed:
            return _LEAST_STABLE
        share = min(failed / before, 0.95)
        return max(_LEAST_STABLE, math.ceil(math.log(_DOUBT) / math.log1p(-share)))

    @property
    def is_flaky(self) -> bool:
        """Whether failures came and went at least twice, and it is not stable since. A regression and its fix are one time."""
        return self.spells >= _LEAST_SPELLS and not self.is_stable


def measure_reliability(series: Series, most: int = POINTS) -> Reliability | None:
    """Return the pass rate of a series of statuses over its newest points; None if none of them has a status."""
    points = [point for point in series.points if isinstance(point.value, str)][-most:]
    if not points:
        return None
    passes = [point.value in _PASSING for point in points]
    spells = [(passed, len(list(same))) for passed, same in groupby(passes)]
    passed = sum(passes)
    failures = [point for point, good in zip(points, passes, strict=True) if not good]
    return Reliability(
        case=series.key.case,
        machine=series.key.machine,
        runs=len(points),
        passed=passed,
        low=lower_limit(passed, len(points), _EACH_SIDE),
        high=upper_limit(passed, len(points), _EACH_SIDE),
        to_fail=sum(not good for good, _ in spells[1:]),
        to_pass=sum(good for good, _ in spells[1:]),
        spells=sum(not good and length <= _LONGEST for good, length in spells[:-1]),
        streak=spells[-1][1] if spells[-1][0] else 0,
        statuses=tuple(Counter(str(point.value) for point in failures).most_common()),
        last_failure=failures[-1] if failures else None,
        newest=points[-1],
    )


def find_flaky(series: Iterable[Series], most: int = POINTS) -> list[Reliability]:
    """Return the flaky ones of these series of statuses, the least reliable first. One that fails for long now is no flake."""
    rates = (measure_reliability(each, most) for each in series)
    found = [rate for rate in rates if rate is not None and rate.is_flaky and not _is_broken(rate)]
    return sorted(found, key=lambda rate: (rate.rate, rate.case.id, rate.machine))


def _is_broken(rate: Reliability) -> bool:
    """Return whether most of the runs fail: that is no chance."""
    return rate.high < 0.5


class FlakyBenchmark(Struct, frozen=True):
    """The flaky cases of a benchmark on all machines, and whether every stored case of the benchmark is among them."""

    benchmark: str
    rates: tuple[Reliability, ...]
    is_whole: bool

    @property
    def pattern(self) -> str:
        """The name or id that covers the flaky cases, and no other."""
        return self.benchmark if self.is_whole else self.rates[0].case.id


def group_by_benchmark(flaky: Sequence[Reliability], known: Iterable[Case]) -> Iterator[FlakyBenchmark]:
    """Yield flaky cases by what covers them: a benchmark if all its cases are flaky, else each case."""
    cases: dict[str, set[Case]] = {}
    for case in known:
        cases.setdefault(case.benchmark, set()).add(case)
    by_case: dict[Case, list[Reliability]] = {}
    for rate in flaky:
        by_case.setdefault(rate.case, []).append(rate)
    whole = {name for name, every in cases.items() if every <= by_case.keys() and not set(name) & set("*?[")}
    done = set()
    for case, rates in by_case.items():
        if case.benchmark not in whole:
            yield FlakyBenchmark(case.benchmark, tuple(rates), is_whole=False)
        elif case.benchmark not in done:
            done.add(case.benchmark)
            every = (each for one in cases[case.benchmark] for each in by_case[one])
            yield FlakyBenchmark(
                case.benchmark,
                tuple(sorted(every, key=lambda rate: (rate.rate, rate.case.id))),
                is_whole=True,
            )
