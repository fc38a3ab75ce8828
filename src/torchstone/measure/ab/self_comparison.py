"""Test the verdicts of 'torchstone ab' on this machine: compare a side with itself, without and with added work."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Generator, Sequence

from msgspec import Struct, structs

from torchstone.analyze.proportion import lower_limit, upper_limit
from torchstone.core.errors import printable
from torchstone.core.text.units import count_of, format_share
from torchstone.core.vocabulary import Verdict
from torchstone.measure.ab.contest import AbSettings, Contest
from torchstone.measure.ab.experiment import PairRunner, make_contests
from torchstone.measure.ab.sides import Side
from torchstone.measure.supervisor import Watcher, WorkerLimits

SLOWER, FASTER, SAME = Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.SAME


class SelfComparison(Struct, frozen=True):
    """One comparison of a side with itself: how much work was added, and the verdict."""

    case: str
    slow_down: float
    verdict: str
    pairs: int
    seconds: float
    ratio: float | None
    low: float | None
    high: float | None
    reason: str = ""

    def __str__(self) -> str:
        """Describe it in one line: ``mlp  5% slower: regression  +5.1% [+3.2%, +7.4%]  9 pairs, 31 s``."""
        what = f"{format_share(self.slow_down)} slower" if self.slow_down else "as it is"
        found = ""
        if self.ratio is not None and self.low is not None and self.high is not None and self.high < 100:
            found = f"{self.ratio - 1:+.1%} [{self.low - 1:+.1%}, {self.high - 1:+.1%}]  "
        name = printable(self.case.partition("[")[0])
        spent = f"{count_of(self.pairs, 'pair')}, {self.seconds:.0f} s {self.reason}"
        return f"{name}  {what}: {self.verdict}  {found}{spent}".rstrip()


class Score(Struct, frozen=True):
    """All comparisons with the same added work: counts of verdicts, and the median time to a verdict."""

    slow_down: float
    tries: int
    slower: int
    faster: int
    same: int
    inconclusive: int
    median_seconds: float
    median_pairs: float
    median_ratio: float

    @property
    def false_alarms(self) -> int:
        """Return how often a change was reported; false alarms if nothing was added."""
        return self.slower + self.faster

    @property
    def most_false(self) -> float:
        """Return the upper 95 % confidence limit of the false alarm rate."""
        return upper_limit(self.false_alarms, self.tries)

    @property
    def least_caught(self) -> float:
        """Return the lower 95 % confidence limit of the share of detected slow-downs."""
        return lower_limit(self.slower, self.tries)


def compare_with_itself(
    sides: Sequence[Side],
    settings: AbSettings,
    shares: Sequence[float],
    repeat: int,
    limits: WorkerLimits,
    watcher: Watcher,
) -> Generator[SelfComparison, None, None]:
    """Compare a side with itself repeatedly: every case, with each of these shares of added work.

    ``settings.budget`` is that of one comparison.
    """
    chance = random.Random(settings.seed)  # noqa: S311  (orders, not secrets)
    for _ in range(repeat):
        for share in shares:
            of_share = structs.replace(settings, slow_down=share, seed=chance.getrandbits(31))
            contests, _ = make_contests(sides, of_share)
            runner = PairRunner(sides, of_share, limits, watcher)
            for contest in contests:
                yield _decide(contest, runner)


def _decide(contest: Contest, runner: PairRunner) -> SelfComparison:
    """Measure pairs of one comparison until its verdict, or the end of its budget."""
    began = time.monotonic()
    while not contest.verdict:
        if time.monotonic() - began < runner.settings.budget or contest.is_in_doubt:
            runner.measure(contest)
        else:
            contest.give_up()
    effect = contest.effect
    return SelfComparison(
        contest.case.id,
        runner.settings.slow_down,
        contest.verdict.value,
        contest.pairs,
        time.monotonic() - began,
        effect.ratio if effect else None,
        effect.low if effect else None,
        effect.high if effect else None,
        contest.reason,
    )


def score(tried: Sequence[SelfComparison]) -> list[Score]:
    """Return the scores by added work; comparisons without a measured pair are left out."""
    scores = []
    for share in dict.fromkeys(each.slow_down for each in tried):
        own = [each for each in tried if each.slow_down == share and each.pairs]
        if not own:
            continue
        counts = {verdict: sum(each.verdict == verdict for each in own) for verdict in (SLOWER, FASTER, SAME)}
        scores.append(
            Score(
                share,
                len(own),
                counts[SLOWER],
                counts[FASTER],
                counts[SAME],
                len(own) - sum(counts.values()),
                statistics.median(each.seconds for each in own),
                statistics.median(each.pairs for each in own),
                statistics.median(each.ratio for each in own if each.ratio is not None),
            )
        )
    return scores
