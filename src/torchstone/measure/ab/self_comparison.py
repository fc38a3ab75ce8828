"""How good the verdicts of 'torchstone ab' are here: comparisons of a side with itself, with nothing added and with real work added."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Generator, Sequence

from msgspec import Struct, structs

from torchstone.analyze.proportion import lower_limit, upper_limit
from torchstone.core.vocabulary import Verdict
from torchstone.measure.ab.contest import AbSettings, Contest
from torchstone.measure.ab.experiment import PairRunner, make_contests
from torchstone.measure.ab.sides import Side
from torchstone.measure.supervisor import Limits, Watcher

SLOWER, FASTER, SAME = Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.SAME


class Tried(Struct, frozen=True):
    """One comparison of a side with itself: how much work was added, and what came of it."""

    case: str
    slow_down: float
    verdict: str
    pairs: int
    seconds: float
    ratio: float | None
    low: float | None
    high: float | None
    reason: str = ""


class Score(Struct, frozen=True):
    """All comparisons with the same work added: how many were called what, and how long a verdict took."""

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
        """With nothing added: how often a change was seen all the same."""
        return self.slower + self.faster

    @property
    def most_false(self) -> float:
        """The share of false alarms that is not exceeded, with 95 % confidence."""
        return upper_limit(self.false_alarms, self.tries)

    @property
    def least_caught(self) -> float:
        """The share of slow-downs like this that are caught at least, with 95 % confidence."""
        return lower_limit(self.slower, self.tries)


def try_verdicts(
    sides: Sequence[Side],
    settings: AbSettings,
    shares: Sequence[float],
    repeat: int,
    limits: Limits,
    watcher: Watcher,
) -> Generator[Tried, None, None]:
    """Compare a side with itself, over and over: every case, with each of these shares of work added; ``settings.budget`` is that of one comparison."""
    chance = random.Random(settings.seed)  # noqa: S311  (orders, not secrets)
    for _ in range(repeat):
        for share in shares:
            of_share = structs.replace(settings, slow_down=share, seed=chance.getrandbits(31))
            contests, _ = make_contests(sides, of_share)
            runner = PairRunner(sides, of_share, limits, watcher)
            for contest in contests:
                yield _decide(contest, runner)


def _decide(contest: Contest, runner: PairRunner) -> Tried:
    """One comparison, from its first pair to its verdict, or to the end of its budget."""
    began = time.monotonic()
    while not contest.verdict:
        if time.monotonic() - began < runner.settings.budget or contest.is_in_doubt:
            runner.play(contest)
        else:
            contest.give_up()
    effect = contest.effect
    return Tried(
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


def score(tried: Sequence[Tried]) -> list[Score]:
    """What came of all comparisons, by the work that was added; what could not be measured at all is left out."""
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
