"""``ab``: decide whether B is slower than A on this machine."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from torchstone.api.measuring.ab_request import (
    AbOptions,
    AbRequest,
    command_of,
    make_ab_policy,
    make_exemptions,
    make_settings,
    prepare_pairs,
)
from torchstone.api.measuring.ab_result import ORDER, AbResult, BudgetUse, CaseOfBoth
from torchstone.api.measuring.events import AbWatcher, EventWatcher, OnEvent
from torchstone.api.measuring.exports import refuse_taken
from torchstone.api.requests import Texts, make_request
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution, merge_cautions, merged
from torchstone.core.environments import differences, unknowns
from torchstone.core.errors import UsageError
from torchstone.core.records import FilePlace, axis_text
from torchstone.core.run_settings import Pairing
from torchstone.core.text.units import clock_text
from torchstone.gate.apply_quarantine import Exemptions
from torchstone.gate.blocking_policy import Policy
from torchstone.gate.judgement import Judgement
from torchstone.measure.ab.benchmark_files import check_bench_from
from torchstone.measure.ab.budget import Budget
from torchstone.measure.ab.contest import METRICS, AbSettings, Contest
from torchstone.measure.ab.experiment import (
    PairRunner,
    decide,
    estimate_missing,
    make_contests,
    need_separate_zygotes,
    write,
)
from torchstone.measure.ab.judging import find_unmatched, judge_contests
from torchstone.measure.ab.side_spec import parse_side_spec
from torchstone.measure.ab.sides import Side, Step, open_sides, sides_to_spawn
from torchstone.measure.executors.protocol import CannotMeasureError, OutOfTimeError
from torchstone.measure.journal import Journal, create_journal
from torchstone.measure.runner import RUNS
from torchstone.measure.supervisor import WorkerLimits
from torchstone.reporting.dialects.case_label import Labels
from torchstone.reporting.views.comparison_rows import CompareReport
from torchstone.worker.process_tree import ignoring_interrupts, terminated_as_interrupted

if TYPE_CHECKING:
    from typing import Unpack

SECONDS_A_CASE = 60.0
SECONDS_OF_RENEWING = 60.0  # for all cases together: new zygotes before every round of pairs

Sides = Texts | Mapping[str, object]
"""Settings of one side: strings such as ``rev=HEAD~1``, or a mapping such as ``{"rev": "HEAD~1"}``."""


class AbExecution:
    """Two sides that are ready to measure."""

    def __init__(
        self,
        request: AbRequest,
        runner: PairRunner,
        contests: Sequence[Contest],
        journals: Sequence[Journal],
        gate: tuple[Policy, Exemptions],
        watcher: AbWatcher,
        budget: Budget,
    ) -> None:
        self.journals = journals
        self.contests = contests
        self._request = request
        self._runner = runner
        self._gate = gate
        self._watcher = watcher
        self._budget = budget
        self._labels = Labels([contest.case for contest in contests])

    @property
    def undecided(self) -> list[str]:
        """The names of the cases without a verdict."""
        return [self._labels.name_of(each.case) for each in self.contests if not each.verdict]

    def measure_all(self) -> AbResult:
        """Measure pairs until every case is decided or the budget is spent, and judge them.

        If interrupted, everything measured so far is in the run files.
        """
        steps = decide(self.contests, self._runner, self.journals, self._repro, self._budget)
        is_pace_known = False
        try:
            with (
                self._watcher.comparing(self.contests, self._runner.settings, self._budget),
                closing(steps) as decided,
            ):
                for contest in decided:
                    self._watcher.measured(contest)
                    if not is_pace_known and contest.pairs:
                        is_pace_known = True
                        self._say_pace(contest)
        except (KeyboardInterrupt, CannotMeasureError):
            self._save()
            raise
        except UsageError:  # a side is not what it should be, so the measurements are invalid
            for journal in self.journals:
                journal.discard()
            raise
        return self._conclude()

    def _say_pace(self, contest: Contest) -> None:
        """Say after the first pair how long a verdict takes, and whether the budget suffices."""
        pace = self._runner.estimate_pace(contest, len(self.contests), self._budget)
        for text in filter(None, (pace.text, pace.advice)):
            self._watcher.say(text)

    def _repro(self, contest: Contest) -> str:
        """Return the command that measures a case again."""
        return command_of(structs.replace(self._request, only=(_pattern(contest),)))

    def _save(self) -> None:
        """Write the measurements of undecided cases."""
        with ignoring_interrupts():
            for contest in self.contests:
                if not contest.verdict and contest.pairs:
                    write(contest, self.journals, self._repro)
            for journal in self.journals:
                journal.secure()

    def _conclude(self) -> AbResult:
        a, b = self._runner.sides
        paths = self.journals[0].path, self.journals[1].path
        judgement = self._judge(paths)
        differ = differences(b.run.environment, a.run.environment)
        return AbResult(
            CompareReport(judgement, paths[:1], paths[1:], command="ab"),
            tuple(self._cases(judgement)),
            self._runner.settings,
            (a.title, b.title),
            self._budget.spent,
            (
                *(f"B differs from A: {each}" for each in differ),
                *map(str, unknowns(b.run.environment, a.run.environment)),
            ),
            tuple(journal.loss for journal in self.journals if journal.loss),
            BudgetUse(self._budget.seconds, self._budget.preparation, estimate_missing(self.contests)),
            tuple(_describe_borrowed(self._runner.sides)),
        )

    def _judge(self, paths: tuple[str, str]) -> Judgement:
        """Judge all measurements by policy and quarantine."""
        a, b = self._runner.sides
        return judge_contests(
            self.contests,
            find_unmatched(self._runner.sides, self.contests),
            self._runner.settings,
            *self._gate,
            self._repro,
            (FilePlace(paths[0]), FilePlace(paths[1])),
            differences(b.run.environment, a.run.environment),
            self._cautions(),
        )

    def _cases(self, judgement: Judgement) -> list[CaseOfBoth]:
        """Return the cases of both sides, regressions first and unchanged ones last."""
        rows = {row.case: row for row in judgement.rows}
        cases = [
            CaseOfBoth(
                self._labels.name_of(each.case),
                rows[each.case],
                each.pairs,
                each.effect,
                (each.cost(0), each.cost(1)),
                self._repro(each),
                each.could_measure,
                self._runner.settings.least_pairs,
            )
            for each in self.contests
        ]
        return sorted(cases, key=lambda case: ORDER.index(case.verdict))

    def _cautions(self) -> list[Caution]:
        """Return the cautions of workers, each once with its cases; add one if the code that differs was never imported."""
        given = [
            (caution, self._labels.name_of(each.case)) for each in self.contests for caution in each.cautions
        ]
        found = [
            structs.replace(caution, cases=tuple(dict.fromkeys(given[place][1] for place in places)))
            for caution, places in merge_cautions(caution for caution, _ in given)
        ]
        own = self._runner.caution()
        return [*found, own] if own else found


def ab(
    targets: Texts,
    *,
    a: Sides = (),
    b: Sides = (),
    on_event: OnEvent | None = None,
    **options: Unpack[AbOptions],
) -> AbResult:
    """Decide whether B is slower than A on this machine, as ``torchstone ab`` does.

        result = torchstone.ab("bench_mine.py", a="rev=main", b={"env:TORCHINDUCTOR_CPP_WRAPPER": 1})
        result.passed, result.headline

    An unspecified side uses the working tree. Workers of both sides take turns, pair after pair, until each case is decided or the
    budget is spent. ``on_event`` is called with each event.
    """
    given = {"targets": targets, "a": _side_texts(a), "b": _side_texts(b), **options}
    with open_ab(make_request(AbRequest, given), EventWatcher(on_event)) as execution:
        return execution.measure_all()


def _side_texts(side: Sides) -> Texts:
    if not isinstance(side, Mapping):
        return side
    return tuple(f"{key}={axis_text(value)}" for key, value in side.items())


@contextmanager
def open_ab(request: AbRequest, watcher: AbWatcher) -> Iterator[AbExecution]:
    """Load both sides, plan the cases, and create the two run files."""
    budget = Budget(request.budget)
    specs = (parse_side_spec("--a", request.a), parse_side_spec("--b", request.b))
    refuse_taken(request.output_a)
    refuse_taken(request.output_b)
    check_bench_from(request.bench_from, specs)
    prepared = prepare_pairs(request, specs, request.metric)
    settings = make_settings(request, request.metric, fresh=request.recompile)
    policy = make_ab_policy(request)
    gate = policy, make_exemptions(request, policy)
    request = structs.replace(request, a=specs[0].texts, b=specs[1].texts, seed=settings.seed)
    with ExitStack() as stack:
        stack.enter_context(terminated_as_interrupted())
        step = partial(_prepare, watcher, budget)
        sides = stack.enter_context(
            open_sides(specs, prepared, watcher.say, step, budget.deadline, request.bench_from)
        )
        _load(sides, step)
        contests, cautions = make_contests(sides, settings, policy)
        _fill_caches(sides, contests, step)
        budget.begin_measuring(_usual_seconds(sides, len(contests)))
        _say_first(sides, settings, cautions, watcher, budget)
        of_run = sides[0].run.settings
        limits = WorkerLimits(of_run.timeout, of_run.memory_limit)
        runner = PairRunner(sides, settings, limits, watcher)
        journals = _open_journals(stack, request, runner, contests, watcher)
        yield AbExecution(request, runner, contests, journals, gate, watcher, budget)


@contextmanager
def _prepare(watcher: AbWatcher, budget: Budget, what: str) -> Iterator[None]:
    """Enclose a step of the preparation: show it, and end with an error if it exceeds the budget."""
    if not budget.left:
        raise budget.out_of_time(f"before {what}")
    with watcher.busy(what):
        try:
            yield
        except OutOfTimeError:
            raise budget.out_of_time(f"while {what}") from None


def _load(sides: Sequence[Side], step: Step) -> None:
    for side in sides:
        side.load(step)
    for side in sides_to_spawn(sides):
        side.session.switch_to_spawn()
        side.load(step, "because workers of the other side cannot be forked")


def _fill_caches(sides: Sequence[Side], contests: Sequence[Contest], step: Step) -> None:
    """Fill the compile caches that all workers start from, unless zygotes have: otherwise the first pair would take longer."""
    for number, side in enumerate(sides):
        case = next(
            (each.planned[number] for each in contests if side.session.needs_priming(each.planned[number])),
            None,
        )
        if case is not None:
            with step(f"compiling once for {side.name}, for the first time here"):
                side.session.prime(case)


def _usual_seconds(sides: Sequence[Side], cases: int) -> float:
    """Return how long pairs are measured if no budget is given."""
    renewing = SECONDS_OF_RENEWING if need_separate_zygotes(sides) else 0.0
    return SECONDS_A_CASE * cases + renewing


def _describe_borrowed(sides: Sequence[Side]) -> Iterator[str]:
    """Say which benchmark files are not a side's own."""
    for side in sides:
        for each in side.borrowed:
            yield f"{side.name} ({side.title}) uses {each.path} from {each.origin}"


def _say_first(
    sides: Sequence[Side],
    settings: AbSettings,
    cautions: Sequence[Caution],
    watcher: AbWatcher,
    budget: Budget,
) -> None:
    """Report seed, budget, differences and cautions before the first pair."""
    a, b = sides
    spent = f"; preparing took {clock_text(budget.preparation)}"
    watcher.say(f"seed {settings.seed}, at most {clock_text(budget.seconds)} in all{spent}")
    for text in _describe_borrowed(sides):
        watcher.say(text)
    for difference in differences(b.run.environment, a.run.environment):
        watcher.say(f"B differs from A: {difference}")
    own = [caution for side in sides for caution in side.session.cautions]
    own += unknowns(b.run.environment, a.run.environment)
    if _are_the_same(a, b):
        own.append(make_caution(CautionKind.SIDES_ARE_EQUAL))
    for caution in merged((*cautions, *own)):
        watcher.say(f"caution: {caution.text}")


def _are_the_same(a: Side, b: Side) -> bool:
    """Return whether two sides are identical, except for the name of the commit."""
    if a.tree and b.tree and a.tree.commit == b.tree.commit:
        return structs.replace(a.spec, revision="", texts=()) == structs.replace(
            b.spec, revision="", texts=()
        )
    return a.spec == b.spec


def _open_journals(
    stack: ExitStack,
    request: AbRequest,
    runner: PairRunner,
    contests: Sequence[Contest],
    watcher: AbWatcher,
) -> list[Journal]:
    """Create the two run files, with their headers; if one fails, remove the other."""
    settings, command = runner.settings, command_of(request)
    plan = tuple(contest.case for contest in contests)
    journals: list[Journal] = []
    for side, output in zip(runner.sides, (request.output_a, request.output_b), strict=True):
        pairing = Pairing(
            side.name,
            side.spec.texts,
            settings.session,
            settings.seed,
            METRICS[settings.metric],
            settings.margin,
            settings.alpha,
            settings.criteria.better,
            command,
            {each.path: each.origin for each in side.borrowed},
        )
        of_run = structs.replace(side.run.settings, pairing=pairing)
        name = f"{settings.session}-{side.name.lower()}"
        run = structs.replace(side.run, id=name, plan=plan, settings=of_run)
        try:
            journal = create_journal(
                output or os.path.join(RUNS, f"{run.id}.jsonl"), run, command, watcher.say
            )
        except BaseException:
            for each in journals:
                each.discard()
            raise
        journals.append(stack.enter_context(closing(journal)))
    return journals


def _pattern(contest: Contest) -> str:
    """Return the value of ``--only`` that selects a case: its id, with any backend if the sides differ in it."""
    a, b = contest.planned
    if a.id == b.id:
        return a.id
    return glob.escape(a.id).replace(f"backend={a.variant.backend}", "backend=*")
