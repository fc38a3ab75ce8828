"""``run``, ``stream`` and ``plan``: measure benchmarks in isolated workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from msgspec import structs

from torchstone.api.judging.check import CheckResult
from torchstone.api.judging.decide import Judging, decide_run, judge_run, match_plan, plan_judging
from torchstone.api.measuring.consent import Ask, refuse, trust_artifacts, trust_run
from torchstone.api.measuring.events import EventWatcher, OnEvent, RunWatcher
from torchstone.api.measuring.exports import refuse_taken, write_run_files
from torchstone.api.measuring.preparation import prepare_request, with_limits
from torchstone.api.measuring.run_request import RunOptions, RunRequest
from torchstone.api.measuring.run_rules import check_deciding, refuse_changes_of_resumed, refuse_unused
from torchstone.api.requests import Texts, make_request
from torchstone.api.results import RunResult
from torchstone.core.errors import UsageError
from torchstone.core.records import Outcome, Reading, Run
from torchstone.core.run_settings import Settings
from torchstone.core.vocabulary import NOT_AVAILABLE, PASSED, SKIPPED
from torchstone.measure.hosts.host_job import MultiHostJob
from torchstone.measure.journal import Journal, create_journal, reopen_journal
from torchstone.measure.measuring import check_artifacts, settings_of_run
from torchstone.measure.previous_file import set_aside
from torchstone.measure.rescue import Loss
from torchstone.measure.runner import (
    PlanRequest,
    check_same_environment,
    default_output,
    find_edited_files,
    measure,
    prepare_run,
    refuse_to_finish,
)
from torchstone.measure.session import Session

if TYPE_CHECKING:
    from typing import Unpack

FILE_LOST = 3
_LOADING = "loading torch and inspecting the machine"

CheckPlan = Callable[[Run], None]
"""Checks a plan before anything is measured; raises an error to refuse it."""


class MeasuredRun(RunResult, frozen=True):
    """A run that was measured here. If its run file was lost meanwhile, ``loss`` describes that, and ``path`` is the replacement.

    ``broken`` lists files that could not be imported, with the reason. ``check`` has the verdicts if the run has a baseline.
    """

    loss: Loss | None = None
    broken: tuple[str, ...] = ()
    check: CheckResult | None = None

    @property
    def passed(self) -> bool:
        """Whether every case passed that can be measured here."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0 if every case passed, 1 if a case did not or a file is broken, 3 if the run file was lost.

        With a baseline, the verdicts decide instead of the statuses.
        """
        if self.loss:
            return FILE_LOST
        return (
            self.check.exit_code or int(bool(self.broken))
            if self.check
            else exit_code_of(self.outcomes, self.broken)
        )


def exit_code_of(outcomes: Sequence[Outcome], broken: Sequence[str] = ()) -> int:
    """Return 1 if a case failed, none can be measured here, or a file is broken; else 0."""
    bad = any(outcome.status not in {PASSED, SKIPPED, NOT_AVAILABLE} for outcome in outcomes)
    bad |= bool(outcomes) and all(outcome.status == NOT_AVAILABLE for outcome in outcomes)
    return int(bad or bool(broken))


class Execution:
    """A run that is ready to measure. Iterate over it for its outcomes; each is on disk when it is yielded.

    ``outcomes`` includes those that a resumed run already had.
    """

    def __init__(
        self,
        run: Run,
        settings: Settings,
        journal: Journal,
        session: Session | None,
        watcher: RunWatcher,
        judging: Judging | None = None,
    ) -> None:
        self.run = run
        self._judging = judging
        self.journal = journal
        self.outcomes = list(run.outcomes)
        self._settings = settings
        self._session = session
        self._watcher = watcher

    @property
    def was_finished(self) -> bool:
        """Whether the run was already complete."""
        return self._session is None

    def __iter__(self) -> Generator[Outcome, None, None]:
        if self._session is None:
            return
        started = time.monotonic()
        with (
            closing(self.journal),
            self._watcher.showing(self.run),
            closing(
                measure(self.run, self._settings, self.journal, self._session, self._watcher)
            ) as measured,
        ):
            for outcome in measured:
                self.outcomes.append(outcome)
                self._watcher.finished(outcome)
                yield outcome
            if self._settings.looks:
                self._decide(self._session, started)

    def _decide(self, session: Session, started: float) -> None:
        """Measure undecided cases again, if the run is to decide, and end the run file."""
        judging = self._judging
        if judging is not None and judging.within is not None:
            measured = structs.replace(self.run, outcomes=tuple(self.outcomes))
            deadline = started + judging.within
            self.outcomes = list(
                decide_run(judging, measured, self._settings, self.journal, session, self._watcher, deadline)
            )
        self.journal.finish()

    def measure_all(self) -> MeasuredRun:
        """Measure all remaining cases, and return the whole run."""
        with closing(iter(self)) as outcomes:
            for _ in outcomes:
                pass
        return self.result()

    def result(self) -> MeasuredRun:
        """Return the whole run, once everything is measured."""
        done = structs.replace(self.run, outcomes=tuple(self.outcomes), finished=True)
        reading = Reading(self.journal.path, "run", done, range(2, 2 + len(done.outcomes)))
        check = judge_run(self._judging, self.journal.path, done, done.outcomes) if self._judging else None
        return MeasuredRun(reading, self.journal.loss, self._settings.broken, check)


def run(
    targets: Texts = (), *, on_event: OnEvent | None = None, **options: Unpack[RunOptions]
) -> MeasuredRun:
    """Measure suites, files and folders of benchmarks, as ``torchstone run`` does, and wait for the result.

        run = torchstone.run("bench_mine.py", probes=["performance"], on_event=print)

    Every case runs in its own process, and its outcome is in the run file before the next one starts. ``on_event`` is called with each event.
    """
    return measure_run(_request(targets, options), EventWatcher(on_event))


def measure_run(
    request: RunRequest, watcher: RunWatcher, check_plan: CheckPlan = lambda _: None
) -> MeasuredRun:
    """Measure as requested, and write all requested files."""
    with open_run(request, watcher, check_plan=check_plan) as execution:
        result = execution.measure_all()
    write_run_files(result.run, request, watcher.say)
    return result


def stream(
    targets: Texts = (), *, on_event: OnEvent | None = None, **options: Unpack[RunOptions]
) -> Generator[Outcome, None, None]:
    """Measure as ``run`` does, and yield each outcome when it is ready. Leaving the loop ends the run, which can be resumed.

    for outcome in torchstone.stream("smoke", output="run.jsonl"):
        print(outcome.case.id, outcome.status)
    """
    request = _request(targets, options)
    watcher = EventWatcher(on_event)
    with open_run(request, watcher) as execution:
        with closing(iter(execution)) as outcomes:
            yield from outcomes
        result = execution.result()
    write_run_files(result.run, request, watcher.say)


def plan(targets: Texts = (), *, on_event: OnEvent | None = None, **options: Unpack[RunOptions]) -> Run:
    """Plan what ``run`` would measure: return a run with its plan and no outcomes. Nothing is measured or written.

    [case.id for case in torchstone.plan("smoke", modes=["inference", "training"]).plan]
    """
    return plan_run(_request(targets, options), EventWatcher(on_event))


def _request(targets: Texts, options: RunOptions) -> RunRequest:
    return make_request(RunRequest, {"targets": targets, **options})


def require_targets(request: RunRequest) -> None:
    """Raise an error if a request has no targets."""
    if not request.targets and not request.resume:
        raise UsageError(
            "no targets given", advice="name a suite or a file; 'torchstone list' shows the suites"
        )


def plan_run(request: RunRequest, watcher: RunWatcher, job: MultiHostJob | None = None) -> Run:
    """Plan a run."""
    require_targets(request)
    if request.resume:
        raise UsageError("--dry-run cannot be used with --resume")
    refuse_taken(request.output, force=request.force)
    prepared = prepare_request(request)
    with Session("spawn", prepared.settings.cache, watcher.say) as session:
        planned = _survey(request, prepared, session, watcher, job)
        check_artifacts(settings_of_run(planned, ""), planned.plan)
        _say_cautions(session, watcher)
        return planned


@contextmanager
def open_run(
    request: RunRequest,
    watcher: RunWatcher,
    *,
    ask: Ask = refuse,
    check_plan: CheckPlan = lambda _: None,
    job: MultiHostJob | None = None,
) -> Iterator[Execution]:
    """Open a new or a resumed run: make its plan, create its file, and start its workers."""
    require_targets(request)
    opened = (
        _resume(request, watcher, ask, job)
        if request.resume
        else _begin(request, watcher, ask, check_plan, job)
    )
    with opened as execution, closing(execution.journal):
        yield execution


@contextmanager
def _begin(
    request: RunRequest, watcher: RunWatcher, ask: Ask, check_plan: CheckPlan, job: MultiHostJob | None
) -> Iterator[Execution]:
    refuse_taken(request.output, force=request.force)
    prepared = prepare_request(request)
    judging = plan_judging(request)
    with Session(prepared.settings.start, prepared.settings.cache, watcher.say) as session:
        planned = _survey(request, prepared, session, watcher, job)
        settings = settings_of_run(planned, "")
        check_artifacts(settings, planned.plan)
        check_plan(planned)
        if judging:
            judging = match_plan(judging, planned)
        session.trusts_artifacts = trust_artifacts(
            settings, planned.plan, trust=request.trust, ask=ask, say=watcher.say
        )
        _say_cautions(session, watcher)
        journal = _create_file(request, planned, watcher)
        yield Execution(planned, settings, journal, session, watcher, judging)


def _create_file(request: RunRequest, planned: Run, watcher: RunWatcher) -> Journal:
    """Create the run file. With ``force``, the file that is there is set aside until the new one is complete."""
    previous = set_aside(request.output) if request.force else None
    try:
        journal = create_journal(request.output or default_output(planned), planned, "", watcher.say)
    except BaseException:
        if previous:
            previous.put_back()
        raise
    journal.previous = previous
    return journal


def _survey(
    request: RunRequest,
    prepared: PlanRequest,
    session: Session,
    watcher: RunWatcher,
    job: MultiHostJob | None,
) -> Run:
    """Inspect the machine and the sources, and plan the run."""
    _use_hosts(session, job)
    with watcher.busy(_LOADING):
        session.start_workers(list(prepared.targets.sources.values()), prepared.axes.devices)
        planned = prepare_run(prepared, session, keeps_going=True)
    if not request.shard:  # a shard may lack a probe that others have
        refuse_unused(request, {case.probe for case in planned.plan})
    return planned


@contextmanager
def _resume(
    request: RunRequest, watcher: RunWatcher, ask: Ask, job: MultiHostJob | None
) -> Iterator[Execution]:
    """Finish a run with its own settings, on the same machine and code. Only the limits may be changed."""
    refuse_changes_of_resumed(request)
    check_deciding(request)
    judging = plan_judging(request)
    journal, reading = reopen_journal(request.resume, watcher.say)
    begun = reading.run
    judging = match_plan(judging, begun) if judging else None
    with closing(journal):
        settings = with_limits(settings_of_run(begun, reading.path), request)
        if request.decide and not settings.looks:
            raise UsageError(
                f"{reading.path} was not begun with --decide", advice="leave it out, or begin a new run"
            )
        if begun.finished:
            watcher.say(f"{reading.path}: nothing is left to measure")
            yield Execution(begun, settings, journal, None, watcher, judging)
            return
        done = {outcome.case for outcome in begun.outcomes}
        left = [case for case in begun.plan if case not in done]
        refuse_to_finish(find_edited_files(begun))  # cannot be overridden by --trust
        check_artifacts(settings, left)
        trusts = trust_run(settings, settings.sources, left, trust=request.trust, ask=ask, say=watcher.say)
        with Session(settings.start, settings.cache, watcher.say) as session:
            session.trusts_artifacts = trusts
            _use_hosts(session, job)
            with watcher.busy(_LOADING):
                devices = sorted({case.variant.device for case in begun.plan})
                session.start_workers(list(settings.sources.values()), devices)
                check_same_environment(begun, session, journal.path)
            _say_cautions(session, watcher)
            yield Execution(begun, settings, journal, session, watcher, judging)


def _use_hosts(session: Session, job: MultiHostJob | None) -> None:
    """Run scaling rounds on all hosts of a job, if there is one."""
    if job is not None:
        session.host_group = job.host_group()


def _say_cautions(session: Session, watcher: RunWatcher) -> None:
    for caution in session.cautions:
        watcher.say(f"caution: {caution}")
