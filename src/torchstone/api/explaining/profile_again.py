"""Measure one case of a run file again, to find out where its time goes."""

from __future__ import annotations

from msgspec import structs

from torchstone.api.measuring.consent import Ask
from torchstone.api.measuring.events import RunWatcher
from torchstone.api.repeating.again import open_again
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Outcome, Reading
from torchstone.core.vocabulary import PASSED
from torchstone.measure.measuring import settings_of_run
from torchstone.measure.supervisor import WorkerLimits

BUDGET = 2.0
"""Seconds of timing before the profile: hints compare the time of the device with that of whole calls."""


def measure_profile(reading: Reading, case: Case, watcher: RunWatcher, *, trust: bool, ask: Ask) -> Outcome:
    """Measure a case with its profile, with the settings of its run; nothing is written."""
    run, path = reading.run, reading.path
    settings = structs.replace(
        settings_of_run(run, path),
        save_outputs="",
        compare_outputs="",
        save_artifacts="",
        profile=True,
        trials=None,
        repeat=None,
        budget=BUDGET,
    )
    with open_again(reading, [case], settings, watcher, trust=trust, ask=ask) as session:
        limits = WorkerLimits(settings.timeout, settings.memory_limit)
        with watcher.showing(structs.replace(run, plan=(case,), outcomes=())):
            outcomes = list(session.supervisor(settings, limits, watcher).execute([case]))
    outcome = outcomes[0]
    if outcome.status != PASSED:
        why = f": {outcome.failure.message}" if outcome.failure and outcome.failure.message else ""
        raise UsageError(
            f"measuring {case.id} again ended with {outcome.status}{why}",
            advice=f"torchstone repro {path} '{case.id}' shows its output",
        )
    return outcome
