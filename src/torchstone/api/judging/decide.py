"""Judge a run against baselines, and measure what is red or undecided again, until it is decided or the time is spent."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from torchstone.api.judging.check import CheckResult, check_results, is_history, read_baseline
from torchstone.api.judging.check_request import CheckRequest
from torchstone.api.measuring.events import RunWatcher
from torchstone.api.measuring.run_request import RunRequest
from torchstone.api.sources import list_baselines, names_of, read_input
from torchstone.core.config import load_config
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Outcome, Reading, Run
from torchstone.core.run_settings import Settings
from torchstone.core.text.units import clock_text, count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.baseline import Baseline
from torchstone.gate.disturbance import is_all_disturbed
from torchstone.gate.judgement import Row
from torchstone.measure.deciding import TRIALS_AT_LOOKS, Deciding
from torchstone.measure.journal import Journal
from torchstone.measure.session import Session

USUAL_SECONDS = 600.0
"""Maximum duration of a run with ``decide``, from its first case on."""


class Judging(Struct, frozen=True):
    """Settings for judging a run: the request that ``check`` would get, and the seconds that measuring may take; None without ``decide``."""

    request: CheckRequest
    within: float | None = None


def plan_judging(request: RunRequest) -> Judging | None:
    """Return how a run is to be judged; None if it has no baseline. Every file is read, so that a bad one is refused before anything is measured."""
    if not request.baselines and not request.decide:
        return None
    baselines = list_baselines(request.baselines or load_config(None).baselines)
    if not baselines:
        raise UsageError(
            "--decide requires a baseline", advice="add --baseline FILE, or set one in torchstone.toml"
        )
    read = tuple(each if is_history(each) else read_input(each) for each in baselines)
    within = (request.decide_within or USUAL_SECONDS) if request.decide else None
    return Judging(CheckRequest(baselines=read, policy=request.policy, store=request.store), within)


def match_plan(judging: Judging, planned: Run) -> Judging:
    """Return how a run of this plan is to be judged: the history is read for its cases. Raise an error if no planned case has a row in any baseline."""
    results = (Reading("", "run", planned, ()),)
    baselines = [read_baseline(each, results, judging.request) for each in judging.request.baselines]
    rows = Baseline(baselines)
    if not any(rows.find(case) for case in planned.plan):
        names = ", ".join(names_of(judging.request.baselines))
        there = next((case.id for reading in baselines for case in reading.run.plan), "no row")
        count = len(planned.plan)
        none = (
            f"no row is for any of the {count:,} planned cases"
            if count > 1
            else "no row is for the planned case"
        )
        raise UsageError(
            f"{names}: {none}",
            advice=f"is it the right baseline? It has {there}, the plan has {planned.plan[0].id}",
        )
    return structs.replace(judging, request=structs.replace(judging.request, baselines=tuple(baselines)))


def judge_run(judging: Judging, path: str, run: Run, outcomes: Sequence[Outcome]) -> CheckResult:
    """Judge the results of a run."""
    done = structs.replace(run, outcomes=tuple(outcomes), finished=True)
    reading = Reading(path, "run", done, range(2, 2 + len(done.outcomes)))
    return check_results(structs.replace(judging.request, results=(reading,)))


def needs_more(row: Row) -> bool:
    """Return whether more trials can decide a row: it is undecided for lack of them, was disturbed, or is red in few processes."""
    if row.new is None or row.comparison is None:
        return False
    if row.verdict is Verdict.INCONCLUSIVE:
        if not row.is_comparable:
            return False
        was_disturbed = is_all_disturbed(row.new, row.metric) and not is_all_disturbed(row.base, row.metric)
        return row.ruling.levels is not None or was_disturbed
    is_tested = row.comparison.p_value is not None
    return (
        row.verdict is Verdict.REGRESSION
        and is_tested
        and len(row.comparison.new.values) < TRIALS_AT_LOOKS[1]
    )


def decide_run(
    judging: Judging,
    run: Run,
    settings: Settings,
    journal: Journal,
    session: Session,
    watcher: RunWatcher,
    deadline: float,
) -> tuple[Outcome, ...]:
    """Measure undecided cases of a run again until a time of ``time.monotonic``; return all outcomes."""
    deciding = Deciding(run, settings, journal, session, watcher)

    def find_open(outcomes: Sequence[Outcome]) -> set[Case]:
        result = judge_run(judging, journal.path, run, outcomes)
        return {row.case for row in result.rows if needs_more(row)}

    for each in deciding.rounds(find_open, deadline):
        watcher.say(
            f"deciding: {count_of(len(each.cases), 'case')} red or undecided; up to {count_of(each.trials, 'more trial')} "
            f"each, about {clock_text(each.seconds)} ({clock_text(max(0.0, each.left))} left)"
        )
    return tuple(deciding.outcomes[outcome.case] for outcome in run.outcomes)
