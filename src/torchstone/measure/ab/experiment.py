"""Compare A and B: measure pairs of workers, case by case, until every case is decided or the budget is spent."""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace

from msgspec import structs

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Outcome
from torchstone.core.vocabulary import Verdict
from torchstone.gate.blocking_policy import Policy
from torchstone.measure.ab.budget import Budget, Pace
from torchstone.measure.ab.contest import METRICS, AbSettings, Contest
from torchstone.measure.ab.pair import (
    CodeOrigin,
    PairCutOffError,
    PairResult,
    PairWorker,
    measure_pair,
    origin_of_report,
    with_pair,
)
from torchstone.measure.ab.sides import Side, changes_between, choose_cores
from torchstone.measure.executors.protocol import Launcher
from torchstone.measure.journal import Journal
from torchstone.measure.procedures.procedure import SingleProcedure
from torchstone.measure.supervisor import Supervisor, Watcher, WorkerLimits
from torchstone.worker.protocol.jobs import MeasureJob
from torchstone.worker.protocol.replies import PHASES

NANOSECONDS_A_MILLISECOND = 1e6
_AMPLE = 1.5  # times the least that a verdict takes, if no budget is given
_CONFIRMING = 10.0  # seconds to confirm a failure, and twice the time of the pairs so far


def make_contests(
    sides: Sequence[Side], settings: AbSettings, policy: Policy | None = None
) -> tuple[list[Contest], list[Caution]]:
    """Return the cases that both sides have, to be judged under a policy, and cautions for those that only one has."""
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
        Contest(case, (plans[0][case], plans[1][case]), number, settings, policy)
        for number, case in enumerate(both)
    ]
    return contests, cautions


def _common_case(case: Case, sides: Sequence[Side]) -> Case:
    """Return the case without the backend, if the sides differ in it."""
    if any(side.spec.backend for side in sides):
        return structs.replace(case, variant=structs.replace(case.variant, backend=""))
    return case


class PairRunner:
    """Measures pairs of workers of two sides."""

    def __init__(
        self, sides: Sequence[Side], settings: AbSettings, limits: WorkerLimits, watcher: Watcher
    ) -> None:
        self.sides = sides
        self.settings = settings
        self._limits = limits
        self._watcher = watcher
        self._changes = changes_between(sides)
        self._imported: set[str] | None = None
        self._chance = random.Random(settings.seed)  # noqa: S311  (orders, not secrets)
        self._measured: set[int] = set()  # the cases that the current zygotes have measured a pair of

    def measure(self, contest: Contest, until: float = math.inf) -> None:
        """Measure one pair of a case, or cut it off at ``until``, on the monotonic clock.

        All workers of a zygote share its memory layout, which may change short calls by 1 to 3 %, and more pairs would not average
        that out. If the sides cannot swap zygotes at random, every pair of a case gets new ones.
        """
        began = time.monotonic()
        self._watcher.started(contest.case)
        if contest.number in self._measured and need_separate_zygotes(self.sides):
            for wait in [side.session.renew() for side in self.sides]:
                wait()
            self._measured.clear()
        self._measured.add(contest.number)
        measure = self._compile_both if self.settings.metric == "compile" else self._time_both
        try:
            result = measure(contest, until)
        except PairCutOffError as cut:
            contest.cut_off(time.monotonic() - began, cut.phase)
            return
        for side, code in zip(self.sides, result.code, strict=True):
            if code.from_elsewhere:
                raise _not_in_tree(side, code.from_elsewhere)
            if code.is_known:
                self._imported = (self._imported or set()) | set(code.imported)
        contest.take(result, time.monotonic() - began)

    def estimate_pace(self, contest: Contest, cases: int, budget: Budget) -> Pace:
        """Estimate from the first pair of a case how long the verdicts of all cases take; a budget that was not given allows for that."""
        pair = contest.pair_seconds or 0.0
        if need_separate_zygotes(self.sides):  # which are restarted from the second pair on
            pair += min(side.loading_seconds for side in self.sides)
        fewest = self.settings.least_pairs
        total = budget.spent + pair * (fewest * cases - 1) + contest.compile_seconds * (cases - 1)
        budget.extend(_AMPLE * total)
        return Pace(
            contest.seconds,
            contest.compile_seconds,
            pair,
            fewest,
            cases,
            total,
            budget.seconds,
            budget.is_given,
        )

    def caution(self) -> Caution | None:
        """Return a caution if no file that differs between the sides was imported, as far as workers reported imports."""
        return self._changes.caution(self._imported) if self._imported is not None else None

    def _jobs(self, contest: Contest, *, fresh: bool) -> list[MeasureJob]:
        threads = int(self.sides[0].run.settings.threads or 1)
        cores = choose_cores(contest.planned[0].variant.device, threads)
        return [
            with_pair(side.job(case, contest.number, cores, fresh=fresh), layout=self._chance.getrandbits(31))
            for side, case in zip(self.sides, contest.planned, strict=True)
        ]

    def _launchers(self) -> list[Launcher]:
        """Return the launchers of both sides, swapped at random if they are interchangeable, because no two zygotes are alike."""
        launchers = [side.session.launcher for side in self.sides]
        is_same = self.sides[0].session.world == self.sides[1].session.world
        return launchers[::-1] if is_same and self._chance.random() < 0.5 else launchers

    def _time_both(self, contest: Contest, until: float) -> PairResult:
        """Time one worker of each side, taking turns."""

        def starter(launcher: Launcher, case: Case, job: MeasureJob) -> Callable[[], PairWorker]:
            return lambda: PairWorker(case, launcher, with_pair(job, takes_turns=True), self._limits)

        jobs = self._jobs(contest, fresh=self.settings.fresh)
        if self.settings.slow_down:  # otherwise calls are unchanged
            jobs = [
                with_pair(job, slow_down=share)
                for job, share in zip(jobs, (0.0, self.settings.slow_down), strict=True)
            ]
        starts = [starter(*each) for each in zip(self._launchers(), contest.planned, jobs, strict=True)]
        by_wall = self.settings.metric == "wall"
        result = measure_pair(starts, self._chance, contest.case, self._watcher, until, by_wall=by_wall)
        one, other = (tuple(time / NANOSECONDS_A_MILLISECOND for time in times) for times in result.times)
        return structs.replace(result, times=(one, other))

    def _compile_both(self, contest: Contest, until: float) -> PairResult:
        """Compile from scratch in one worker of each side, one after the other."""
        jobs, launchers = self._jobs(contest, fresh=True), self._launchers()
        outcomes: dict[int, Outcome] = {}
        codes: dict[int, CodeOrigin] = {}
        for number in (0, 1) if self._chance.random() < 0.5 else (1, 0):
            job = jobs[number]
            procedure = SingleProcedure(replace(job, options=replace(job.options, repeat=1)))
            supervisor = self._supervisor(launchers[number], procedure, until)
            with closing(supervisor.execute([contest.planned[number]])) as ended:
                (outcomes[number],) = ended
            codes[number] = origin_of_report(procedure.report())
        pair = (outcomes[0], outcomes[1])
        one, other = (_compile_times(each) for each in pair)
        return PairResult((one, other), pair, (codes[0], codes[1]))

    def _supervisor(self, launcher: Launcher, procedure: SingleProcedure, until: float) -> Supervisor:
        watcher = _WatcherUntil(self._watcher, until)
        return Supervisor(launcher, self._limits, lambda *_: procedure, lambda _: None, watcher)


class _WatcherUntil:
    """Passes everything on to a watcher, and cuts the pair off when its time is over."""

    def __init__(self, watcher: Watcher, until: float) -> None:
        self._watcher = watcher
        self._until = until
        self._phase: str = PHASES[0]
        self.started = watcher.started

    def entered(self, case: Case, phase: str) -> None:
        """Pass on that the case has entered this phase."""
        self._phase = phase
        self._watcher.entered(case, phase)

    def tick(self) -> None:
        """Pass on that time has passed; raise PairCutOffError if it was the last."""
        if time.monotonic() >= self._until:
            raise PairCutOffError(self._phase)
        self._watcher.tick()


def need_separate_zygotes(sides: Sequence[Side]) -> bool:
    """Return whether each side needs its own zygotes: it has another interpreter, other code or other variables."""
    forked = any(side.session.launcher.start == "fork" for side in sides)
    return forked and sides[0].session.world != sides[1].session.world


def _compile_times(outcome: Outcome) -> tuple[float, ...]:
    """Return the positive compile times in seconds; noise can make one negative, which no ratio can be made of."""
    found = [each.value for each in outcome.measurements if each.metric == METRICS["compile"]]
    return tuple(float(value) for value in found if value > 0 and math.isfinite(value))


def _not_in_tree(side: Side, from_elsewhere: Sequence[str]) -> UsageError:
    return UsageError(
        f"{side.name} should use the revision {side.spec.revision}, but imports {from_elsewhere[0]}"
        + (f" and {len(from_elsewhere) - 1} more from there" if len(from_elsewhere) > 1 else ""),
        advice="it may be installed in editable mode from elsewhere: make it importable from the repository's top folder or its src/",
    )


def decide(
    contests: Sequence[Contest],
    runner: PairRunner,
    journals: Sequence[Journal],
    repro: Callable[[Contest], str],
    budget: Budget,
) -> Generator[Contest, None, None]:
    """Measure pairs of all undecided cases in turn, and yield the case after every pair; decided cases are on disk first.

    When the budget is spent, the rest is inconclusive, and a pair that will not end in time is not started. Only a pair that has
    just failed is repeated, so that a crash is confirmed; that may take twice as long as its pairs so far, and ten seconds.
    """
    waiting = deque(contests)
    while waiting:
        contest = waiting.popleft()
        if contest.is_in_doubt:
            runner.measure(
                contest, max(budget.end_of_pairs, time.monotonic() + 2 * contest.seconds + _CONFIRMING)
            )
        elif (contest.pair_seconds or 0.0) < budget.left:
            runner.measure(contest, budget.end_of_pairs)
        else:
            contest.give_up()
        if contest.verdict:
            write(contest, journals, repro)
            for side in runner.sides:
                side.forget(contest.number)
        else:
            waiting.append(contest)
        yield contest
    for journal in journals:
        journal.finish()


def estimate_missing(contests: Sequence[Contest]) -> float | None:
    """Estimate how many seconds of further pairs would decide the cases that no time was left for; None if no pair shows that."""
    known = [each.pair_seconds for each in contests if each.pairs and each.pair_seconds is not None]
    missing = [
        each for each in contests if each.verdict is Verdict.INCONCLUSIVE and not each.is_decided_by_failure
    ]
    if not known or not missing:
        return None
    usual = sum(known) / len(known)
    needed = [(each.more_pairs(), each.pair_seconds or usual) for each in missing]
    seconds = sum(more * pair for more, pair in needed if more is not None)
    return seconds or None


def write(contest: Contest, journals: Sequence[Journal], repro: Callable[[Contest], str]) -> None:
    """Write the outcomes of both sides; a case that was never started has none."""
    if not contest.is_begun:
        return
    for side, journal in enumerate(journals):
        journal.append(contest.outcome(side, repro(contest)))
