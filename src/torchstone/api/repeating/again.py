"""Open a session that measures cases of a run file again, with the settings of their run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torchstone.api.measuring.consent import Ask, trust_run
from torchstone.api.measuring.events import RunWatcher
from torchstone.core.environments import differences, unknowns
from torchstone.core.records import Case, Reading
from torchstone.core.run_settings import Settings
from torchstone.measure.measuring import check_artifacts
from torchstone.measure.runner import check_axes_stated, check_hosts, environment_of, survey_again
from torchstone.measure.session import Session
from torchstone.measure.survey_replies import check_devices


@contextmanager
def open_again(
    reading: Reading,
    cases: Sequence[Case],
    settings: Settings,
    watcher: RunWatcher,
    *,
    trust: bool,
    ask: Ask,
) -> Iterator[Session]:
    """Ask for consent, start workers, and say what has changed since the run. The cases are of one suite; nothing is written."""
    run, suites = reading.run, [cases[0].suite]
    devices = sorted({case.variant.device for case in cases})
    check_artifacts(settings, cases)
    trusts_artifacts = trust_run(settings, suites, cases, trust=trust, ask=ask, say=watcher.say)
    with Session(settings.start, settings.cache, watcher.say) as session:
        session.trusts_artifacts = trusts_artifacts
        with watcher.busy("loading torch and inspecting the machine"):
            session.start_workers([settings.sources[suite] for suite in suites], devices)
            found = survey_again(run, suites, session)
            check_devices(devices, found)
            check_axes_stated(cases, found, reading.path)
            check_hosts(run, cases, session)
        now = environment_of(found, run.settings)
        for difference in differences(now, run.environment):
            watcher.say(f"caution: changed since the run: {difference}")
        for unknown in unknowns(now, run.environment):
            watcher.say(f"caution: {unknown}")
        yield session
