"""Is B slower than A? Pairs of workers, case after case, for as long as it takes to be certain, or as the budget lasts."""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing

from msgspec import Struct, structs

from torchstone.analyze.sequential import ALPHA, MARGIN, Effect, PairedTest, fewest_pairs
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution, merged
from torchstone.core.errors import UsageError
from torchstone.core.records import PAIRS, TRIALS, Case, Measurement, Outcome, estimate
from torchstone.core.vocabulary import COMPILE_SECONDS, NOT_AVAILABLE, PASSED
from torchstone.measure.ab.pair import Played, Player, code_of, play_pair
from torchstone.measure.ab.sides import Side, changes_between, choose_cores
from torchstone.measure.journal import Journal
from torchstone.measure.launcher import Launcher
from torchstone.measure.procedures.procedure import SingleCourse
from torchstone.measure.supervisor import Limits, Supervisor, Watcher

METRICS = {"latency": "abs_latency", "compile": COMPILE_SECONDS}
VERDICTS = {"same": "same", "slower": "regression", "faster": "improvement"}
NANOSECONDS_A_MILLISECOND = 1e6
_OFTEN = 2  # failures more than the other side's: one may be the machine's


class Terms(Struct, frozen=True):
    """How two sides are compared: what counts as a change, how sure one wants to be, how long it may take.

    ``fresh`` has every worker compile from nothing. ``slow_down`` is the share by which real work makes B's calls longer, to see whether it is noticed.
    """

    metric: str = "latency"
    margin: float = MARGIN
    alpha: float = ALPHA
    budget: float = 60.0
    fewest_pairs: int = 3
    seed: int = 0
    session: str = ""
    fresh: bool = False
    slow_down: float = 0.0


class Contest:
    """One case: its pairs so far, and what they say. ``planned`` is the case as each side knows it."""

    def __init__(self, case: Case, planned: tuple[Case, Case], number: int, terms: Terms) -> None:
        self.case = case
        self.planned = planned
        self.number = number
        self.seconds = 0.0
        self.reason = ""
        self.verdict = ""
        self._terms = terms
        self._test = PairedTest(terms.margin, terms.alpha)
        self._trials: tuple[list[tuple[float, ...]], list[tuple[float, ...]]] = ([], [])
        self._last: tuple[Outcome, Outcome] | None = None
        self._failed: tuple[bool, bool] | None = None
        self._failures = 0  # in a row
        self._failed_pairs = [0, 0]  # in all, by side
        self._tried = 0
        self._cautions: tuple[list[Caution], list[Caution]] = ([], [])

    @property
    def pairs(self) -> int:
        """How many pairs have been measured."""
        return self._test.pairs

    @property
    def effect(self) -> Effect | None:
        """How many times A's cost B's is, with its interval; None before the first pair."""
        return self._test.effect() if self.pairs else None

    def take(self, played: Played) -> None:
        """Take a pair, and look whether it decides."""
        self._last = played.outcomes
        for side, outcome in enumerate(played.outcomes):
            self._cautions[side].extend(outcome.cautions)
        failed = tuple(outcome.status != PASSED for outcome in played.outcomes)
        self._tried += 1
        self._failed_pairs = [count + each for count, each in zip(self._failed_pairs, failed, strict=True)]
        if any(failed) or not all(played.times):
            self._take_failure((failed[0], failed[1]), played)
            return
        self._failed, self._failures = None, 0
        for trials, times in zip(self._trials, played.times, strict=True):
            trials.append(times)
        self._test.add(played.log_ratio)
        decision = self._test.decision()
        if decision and self.pairs >= self._terms.fewest_pairs:
            self.verdict = VERDICTS[decision]
            self._weigh_failures()

    def _weigh_failures(self) -> None:
        """A side that failed now and then is told, and a B that does so more often than A is no better for being as fast."""
        a, b = self._failed_pairs
        if not a and not b:
            return
        named = [
            f"{name} failed in {count} of {self._tried} pairs"
            for name, count in (("A", a), ("B", b))
            if count
        ]
        self.reason = "; ".join(named)
        if b >= a + _OFTEN:
            self.verdict = "regression"

    def _take_failure(self, failed: tuple[bool, bool], played: Played) -> None:
        """A failure decides once it has come twice in a row: the first may be the machine's. One that took all its time is not tried again."""
        is_final = failed == self._failed or any(
            each.status in {"timeout", NOT_AVAILABLE} for each in played.outcomes
        )
        self._failed = failed
        self._failures += 1
        if not is_final:
            return
        self.reason = _say_failures(played.outcomes) or "no time could be taken"
        self.verdict = {(False, True): "regression", (True, False): "improvement"}.get(failed, "inconclusive")

    @property
    def is_in_doubt(self) -> bool:
        """Whether the last pair failed for the first time: it has to be tried again before that counts."""
        return self._failures == 1 and not self.verdict

    @property
    def is_begun(self) -> bool:
        """Whether anything was tried at all."""
        return self._last is not None

    def give_up(self) -> None:
        """The budget is spent."""
        self.verdict = "inconclusive"
        more = self._test.more_pairs() if self.pairs else None
        more = None if more is None else max(more, self._terms.fewest_pairs - self.pairs)
        failures = _say_failures(self._last) if self._last else ""
        if failures:
            self.reason = f"{failures}; the pair before failed otherwise"
        elif not self.pairs:
            self.reason = "the budget was spent before a pair was measured"
        elif self.pairs == 1:
            self.reason = "the budget was spent after one pair, and one pair says nothing"
        elif self.pairs < (fewest := fewest_pairs(self._terms.alpha)):
            self.reason = f"the budget was spent after {self.pairs} pairs, and it takes {fewest} or more to decide: give it more with --budget"
        elif more is None:
            self.reason = "too noisy to say how many pairs it would take"
        else:
            self.reason = f"about {more} more {'pair' if more == 1 else 'pairs'} would settle it"

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """The cautions of the workers of both sides."""
        return merged((*self._cautions[0], *self._cautions[1]))

    def cost(self, side: int) -> float | None:
        """What a call, or compiling, costs one side: the middle one of its trials; None before the first pair."""
        middles = sorted(estimate(METRICS[self._terms.metric], trial) for trial in self._trials[side])
        return middles[len(middles) // 2] if middles else None

    @property
    def could_measure(self) -> bool:
        """Whether at least one side could be measured."""
        return self.pairs > 0 or self.verdict in {"regression", "improvement"} or self._last is None

    def outcome(self, side: int, repro: str) -> Outcome:
        """What one side has measured, over all its trials, if anything was begun."""
        last = self._last[side] if self._last else None
        measured = self._measurements(self._trials[side])
        if self.verdict and last and last.status != PASSED:
            told = {name: value for name, value in (last.extra or {}).items() if name != "code"}
            return structs.replace(last, case=self.case, repro=repro, measurements=measured, extra=told)
        extra = {"duration": round(self.seconds, 3)}
        return Outcome(
            self.case, PASSED, measured, repro=repro, extra=extra, cautions=merged(self._cautions[side])
        )

    def _measurements(self, trials: Sequence[tuple[float, ...]]) -> tuple[Measurement, ...]:
        """All samples of a side, with what makes trials and pairs of them again."""
        if not trials:
            return ()
        samples = tuple(time for trial in trials for time in trial)
        stated = {TRIALS: [len(trial) for trial in trials], PAIRS: self._terms.session}
        return (Measurement(METRICS[self._terms.metric], samples, stated),)


def _say_failures(outcomes: tuple[Outcome, Outcome]) -> str:
    """Which sides of a pair failed, and why; empty where both passed."""
    named = zip("AB", outcomes, strict=True)
    return "; ".join(f"{name} failed: {_why(each)}" for name, each in named if each.status != PASSED)


def _why(outcome: Outcome) -> str:
    said = outcome.failure.message.strip().partition("\n")[0] if outcome.failure else ""
    return f"{outcome.status}: {said}" if said else outcome.status


def make_contests(sides: Sequence[Side], terms: Terms) -> tuple[list[Contest], list[Caution]]:
    """The cases that both sides have, and in words those that only one has."""
    plans = [{_common_case(case, sides): case for case in side.run.plan} for side in sides]
    both = [case for case in plans[0] if case in plans[1]]
    cautions = []
    for plan, other, side in ((plans[0], plans[1], sides[0]), (plans[1], plans[0], sides[1])):
        cautions += [
            make_caution(CautionKind.ONLY_ON_ONE_SIDE, side=side.name, case=case.id)
            for case in plan
            if case not in other
        ]
    if not both:
        raise UsageError(
            "A and B have no case in common", advice="; ".join(caution.text for caution in cautions[:4])
        )
    contests = [
        Contest(case, (plans[0][case], plans[1][case]), number, terms) for number, case in enumerate(both)
    ]
    return contests, cautions


def _common_case(case: Case, sides: Sequence[Side]) -> Case:
    """The case as both sides share it: the backend is left open where it is what they differ in."""
    if any(side.spec.backend for side in sides):
        return structs.replace(case, variant=structs.replace(case.variant, backend=""))
    return case


class Match:
    """Two sides, ready to measure pairs."""

    def __init__(self, sides: Sequence[Side], terms: Terms, limits: Limits, watcher: Watcher) -> None:
        self.sides = sides
        self.terms = terms
        self._limits = limits
        self._watcher = watcher
        self._changes = changes_between(sides)
        self._imported: set[str] | None = None
        self._chance = random.Random(terms.seed)  # noqa: S311  (orders, not secrets)
        self._played: set[int] = set()  # the cases that these zygotes have had a pair of

    def play(self, contest: Contest) -> None:
        """Measure one pair of a case.

        All workers of a zygote have its layout of memory, which may be worth a percent or three to a short call, and more pairs would only confirm that. Where chance cannot decide
        which zygote serves which side, a case has new ones for every pair.
        """
        began = time.monotonic()
        self._watcher.started(contest.case)
        if contest.number in self._played and are_forked_apart(self.sides):
            for wait in [side.session.renew() for side in self.sides]:
                wait()
            self._played.clear()
        self._played.add(contest.number)
        played = self._compile_both(contest) if self.terms.metric == "compile" else self._time_both(contest)
        contest.seconds += time.monotonic() - began
        for side, code in zip(self.sides, played.code, strict=True):
            if code.strays:
                raise _not_in_tree(side, code.strays)
            if code.is_known:
                self._imported = (self._imported or set()) | set(code.imported)
        contest.take(played)

    def caution(self) -> str:
        """What to say if workers have imported nothing of what differs between the sides; empty otherwise, and as long as none has said what it imported."""
        return self._changes.caution(self._imported) if self._imported is not None else ""

    def _jobs(self, contest: Contest, *, fresh: bool) -> list[dict[str, object]]:
        threads = self.sides[0].run.settings.threads or 1
        cores = choose_cores(contest.planned[0].variant.device, threads)
        return [
            side.job(case, contest.number, cores, fresh=fresh) | {"layout": self._chance.getrandbits(31)}
            for side, case in zip(self.sides, contest.planned, strict=True)
        ]

    def _launchers(self) -> list[Launcher]:
        """What starts the workers of either side: where both would do for either, chance decides, for no two zygotes are quite alike."""
        launchers = [side.session.launcher for side in self.sides]
        is_same = self.sides[0].session.world == self.sides[1].session.world
        return launchers[::-1] if is_same and self._chance.random() < 0.5 else launchers

    def _time_both(self, contest: Contest) -> Played:
        """A worker of each side, taking turns."""

        def starter(launcher: Launcher, case: Case, job: Mapping[str, object]) -> Callable[[], Player]:
            return lambda: Player(case, launcher, {**job, "turns": True}, self._limits)

        jobs = self._jobs(contest, fresh=self.terms.fresh)
        if self.terms.slow_down:  # else calls are as they are
            jobs[0]["slow_down"], jobs[1]["slow_down"] = 0.0, self.terms.slow_down
        starts = [starter(*each) for each in zip(self._launchers(), contest.planned, jobs, strict=True)]
        played = play_pair(starts, self._chance, contest.case, self._watcher)
        one, other = (tuple(time / NANOSECONDS_A_MILLISECOND for time in times) for times in played.times)
        return structs.replace(played, times=(one, other))

    def _compile_both(self, contest: Contest) -> Played:
        """A worker of each side that compiles from nothing, one after the other."""
        jobs, launchers = self._jobs(contest, fresh=True), self._launchers()
        outcomes: dict[int, Outcome] = {}
        for number in (0, 1) if self._chance.random() < 0.5 else (1, 0):
            supervisor = self._supervisor(launchers[number], jobs[number])
            with closing(supervisor.execute([contest.planned[number]])) as ended:
                (outcomes[number],) = ended
        pair = (outcomes[0], outcomes[1])
        codes = [code_of((each.extra or {}).get("code") or {}) for each in pair]
        one, other = (_compile_times(each) for each in pair)
        return Played((one, other), pair, (codes[0], codes[1]))

    def _supervisor(self, launcher: Launcher, job: Mapping[str, object]) -> Supervisor:
        quick = {**job, "settings": {**job["settings"], "repeat": 1}}  # type: ignore[dict-item]
        return Supervisor(
            launcher, self._limits, lambda *_: SingleCourse(quick), lambda _: None, self._watcher
        )


def are_forked_apart(sides: Sequence[Side]) -> bool:
    """Whether each side needs zygotes of its own: it has another interpreter, other code or other variables."""
    forked = any(side.session.launcher.start == "fork" for side in sides)
    return forked and sides[0].session.world != sides[1].session.world


def _compile_times(outcome: Outcome) -> tuple[float, ...]:
    """The seconds of compiling; none where there were none, or where noise has made them negative: no ratio can be made of these."""
    found = [each.value for each in outcome.measurements if each.metric == METRICS["compile"]]
    return tuple(float(value) for value in found if value > 0 and math.isfinite(value))


def _not_in_tree(side: Side, strays: Sequence[str]) -> UsageError:
    return UsageError(
        f"{side.name} should be the revision {side.spec.revision}, but imports {strays[0]}"
        + (f" and {len(strays) - 1} more from there" if len(strays) > 1 else ""),
        advice="is it installed in editable mode from elsewhere? make it importable from the repository's own folder or from src/ in it",
    )


def decide(
    contests: Sequence[Contest], match: Match, journals: Sequence[Journal], repro: Callable[[Contest], str]
) -> Generator[Contest, None, None]:
    """Measure pairs of all cases that are undecided, in turns, and hand out the case after every pair; what is decided is on disk before that.

    When the budget is spent, the rest is inconclusive. Only what has just failed is tried once more: a crash is not to be taken for lack of time.
    """
    deadline = time.monotonic() + match.terms.budget
    waiting = deque(contests)
    while waiting:
        contest = waiting.popleft()
        if time.monotonic() < deadline or contest.is_in_doubt:
            match.play(contest)
        else:
            contest.give_up()
        if contest.verdict:
            write(contest, journals, repro)
            for side in match.sides:
                side.forget(contest.number)
        else:
            waiting.append(contest)
        yield contest
    for journal in journals:
        journal.finish()


def write(contest: Contest, journals: Sequence[Journal], repro: Callable[[Contest], str]) -> None:
    """Keep what both sides have measured of a case; one that was never begun has no outcome."""
    if not contest.is_begun:
        return
    for side, journal in enumerate(journals):
        journal.append(contest.outcome(side, repro(contest)))
