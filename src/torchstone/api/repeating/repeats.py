"""Measure cases of a run again, each time as a whole run, to find the spread of their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from torchstone.api.measuring.consent import Ask, trust_run
from torchstone.api.measuring.events import RunWatcher
from torchstone.core.environments import differences, unknowns
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Outcome, Reading, Run
from torchstone.measure.devices.case_limits import choose_limits
from torchstone.measure.measuring import Settings, check_artifacts, settings_of_run
from torchstone.measure.runner import (
    check_axes_stated,
    environment_of,
    find_edited_files,
    find_edits,
    survey_again,
)
from torchstone.measure.session import Session

FEWEST = 2
MOST_NAMED = 3


def check_repeats(repeats: int) -> None:
    """Raise an error if there are too few repeats to estimate a spread."""
    if repeats < FEWEST:
        raise UsageError(
            f"--repeat {repeats}: too few to estimate a spread",
            advice=f"measure at least {FEWEST} times; 5 repeats make margins several times narrower",
        )


def measure_again(
    reading: Reading, cases: Sequence[Case], repeats: int, watcher: RunWatcher, *, trust: bool, ask: Ask
) -> list[Reading]:
    """Measure cases as their run did, each time in a new session, as the next run will."""
    run = structs.replace(reading.run, plan=tuple(cases), outcomes=())
    settings = structs.replace(
        settings_of_run(run, reading.path), save_outputs="", save_artifacts="", profile=False
    )
    _refuse_changes(find_edited_files(run))  # cannot be overridden by --trust
    check_artifacts(settings, cases)
    trusts_artifacts = trust_run(settings, settings.sources, cases, trust=trust, ask=ask, say=watcher.say)
    _refuse_changes(find_edits(run))
    taken: list[Outcome] = []
    found = []
    for number in range(1, repeats + 1):
        planned = structs.replace(run, plan=tuple(cases) * repeats, outcomes=tuple(taken))
        with Session(settings.start, settings.cache, watcher.say) as session:
            session.trusts_artifacts = trusts_artifacts
            title = f"repeat {number} of {repeats}"
            outcomes = _measure(structs.replace(reading, run=run), settings, planned, title, session, watcher)
        taken += outcomes
        again = structs.replace(run, outcomes=tuple(outcomes))
        found.append(Reading(f"repeat {number} of {reading.path}", "run", again, (0,) * len(outcomes)))
    return found


def _measure(
    reading: Reading, settings: Settings, planned: Run, title: str, session: Session, watcher: RunWatcher
) -> list[Outcome]:
    """Measure one repeat: a whole run of these cases."""
    run = reading.run
    suites = sorted({case.suite for case in run.plan})
    outcomes = []
    with watcher.busy(f"{title}: loading torch and inspecting the machine"):
        devices = sorted({case.variant.device for case in run.plan})
        session.start_workers(list(settings.sources.values()), devices)
        found = survey_again(run, suites, session)
        check_axes_stated(run.plan, found, reading.path)
        _refuse_changes(differences(environment_of(found, run.settings), run.environment))
        session.cautions += unknowns(environment_of(found, run.settings), run.environment)
    for caution in session.cautions:
        watcher.say(f"caution: {caution}")
    supervisor = session.supervisor(settings, choose_limits(settings, run), watcher)
    with watcher.showing(planned):
        for outcome in supervisor.execute(run.plan):
            outcomes.append(outcome)
            watcher.finished(outcome)
    return outcomes


def _refuse_changes(changed: Sequence[str]) -> None:
    """Raise an error if environment or code have changed since the run: the spread would include that change."""
    if changed:
        more = len(changed) - MOST_NAMED
        named = "; ".join(changed[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
        raise UsageError(
            f"--repeat: changed since the run file was written: {named}",
            advice="measure again with 'torchstone run', and accept the new run file",
        )
