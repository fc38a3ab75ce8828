"""The procedure of a compile_cache case: a worker for every scenario of every repeat, and what they add up to."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Generator, Sequence
from dataclasses import replace

from msgspec import Struct, structs

from torchstone.analyze.savings import CONFIDENCE, Saving, estimate_saving
from torchstone.core.cautions import Caution, merged
from torchstone.core.details.compile_cache_details import CacheDetails, CacheMiss, ScenarioResult
from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.errors import InputError
from torchstone.core.records import (
    BY_TIMERS,
    REDEFINED,
    Case,
    Failure,
    Measurement,
    Outcome,
)
from torchstone.core.vocabulary import (
    COLD,
    COMPILE_SECONDS,
    DEFAULT_SCENARIOS,
    HIT,
    KERNEL_CACHE,
    LOOK_UPS,
    PASSED,
    PORTABLE,
    PRECOMPILE,
    SKIPPED,
    WARM,
)
from torchstone.measure.case_end import WorkerEnd
from torchstone.measure.procedures.cache_misses import find_native_miss, find_reasons
from torchstone.worker.protocol.jobs import MeasureJob, Scenario
from torchstone.worker.protocol.replies import CacheLookUp, CaseDetails
from torchstone.worker.worker_environment import CaseFolders, ColdCache

PREPARATION = "precompile, made ready"
"""A worker that only makes what the precompile scenario loads."""


class Account(Struct, frozen=True):
    """The folder that records the artifacts made on this machine. Without one, or if all artifacts are trusted, none is checked."""

    folder: str = ""
    trusts_all: bool = False


NO_ACCOUNT = Account()


class CacheProcedure:
    """All scenarios of a case, ``repeats`` times, each repeat with folders of its own.

    If the cold start fails there is nothing to warm, and the case ends with it. If another scenario fails the rest is still measured, and the case ends as the
    first that failed.
    """

    def __init__(
        self,
        case: Case,
        job: MeasureJob,
        folders: CaseFolders,
        scenarios: Collection[str] = DEFAULT_SCENARIOS,
        repeats: int = 1,
        load_from: str = "",
        save_to: str = "",
        probing_seconds: float | None = None,
        account: Account = NO_ACCOUNT,
    ) -> None:
        self._case = case
        self._account = account
        self._job = job
        self._folders = folders
        self._scenarios = scenarios
        self._repeats = repeats
        self._load_from = load_from
        self._save_to = save_to
        self._ahead = self._all_jobs()
        self._about = COLD
        self._present = ""
        self._last: WorkerEnd | None = None
        self._began = time.monotonic()
        self._notes = _Notes(job.start, probing_seconds)

    def next_job(self) -> MeasureJob | None:
        """The next scenario's, if there is one. A folder that cannot be made ends the case."""
        try:
            last = self._last
            return next(self._ahead) if last is None else self._ahead.send(last)
        except StopIteration:
            return None
        except (InputError, OSError) as error:
            problem = str(error).partition("\n")[0]  # its advice is for a folder that the user has named
            self._notes.fail_scenario(self._about, "fail_to_run", Failure("load", problem))
            return None
        finally:
            self._last = None

    def step(self) -> str:
        """The present scenario."""
        return self._present

    def take(self, end: WorkerEnd) -> None:
        """Receive the end of the current worker, from which the next job follows."""
        self._last = end

    def outcome(self) -> Outcome:
        """Everything that was measured, with the savings, the reasons why a cache did not serve, and the first failure."""
        return self._notes.outcome(self._case, time.monotonic() - self._began)

    def _all_jobs(self) -> Generator[MeasureJob, WorkerEnd, None]:
        artifacts = ""
        for repeat in range(1, self._repeats + 1):
            self._about = COLD
            folder = self._folders.make(f"repeat-{repeat}")
            saved = os.path.join(folder, "first.pt")
            own = os.path.join(folder, "artifacts")
            saves = PORTABLE in self._scenarios and not self._load_from
            noted = self._account.folder if self._save_to else ""
            save = self._save_to or (own if saves else "")
            cold = self._folders.cold(folder, "cold")
            if not (
                yield from self._measure(
                    COLD, repeat, cold, Scenario(0.0, save=save, keep=saved, made_here=noted)
                )
            ):
                return
            if WARM in self._scenarios:
                yield from self._measure(WARM, repeat, cold, Scenario(0.0, expected=saved))
            if PORTABLE in self._scenarios and self._notes.offers(PORTABLE, self._load_from):
                load = self._load_from or self._save_to or own
                self._about = PORTABLE
                empty = self._folders.cold(folder, "portable")
                checked = self._account.folder if load != own and not self._account.trusts_all else ""
                loading = Scenario(0.0, load=load, expected=saved, made_here=checked)
                yield from self._measure(PORTABLE, repeat, empty, loading)
            if PRECOMPILE in self._scenarios and self._notes.offers(PRECOMPILE):
                self._about = PRECOMPILE
                artifacts = artifacts or (yield from self._prepare(repeat))
                if artifacts:
                    empty = self._folders.cold(folder, "precompile")
                    precompiled = Scenario(0.0, load=artifacts, expected=saved, precompile=True)
                    yield from self._measure(PRECOMPILE, repeat, empty, precompiled)
            shutil.rmtree(folder, ignore_errors=True)

    def _measure(
        self, name: str, repeat: int, cache: ColdCache, scenario: Scenario
    ) -> Generator[MeasureJob, WorkerEnd, bool]:
        """One scenario in a worker of its own; says whether it ended well."""
        end = yield self._job_for(name, repeat, cache, scenario)
        return self._notes.take(name, repeat, end, cache.size())

    def _prepare(self, repeat: int) -> Generator[MeasureJob, WorkerEnd, str]:
        """Compile once with what precompiling needs switched on; gives the file that it saved, which serves all repeats."""
        folder = self._folders.make("preparation")
        saved = os.path.join(folder, "artifacts")
        cache = self._folders.cold(folder, "cold")
        scenario = Scenario(0.0, save=saved, precompile=True)
        made = yield self._job_for(PREPARATION, repeat, cache, scenario)
        return saved if self._notes.take_preparation(made, saved) else ""

    def _job_for(self, name: str, repeat: int, cache: ColdCache, scenario: Scenario) -> MeasureJob:
        self._present = name if self._repeats == 1 else f"{name} {repeat}/{self._repeats}"
        launched = replace(scenario, launched=time.monotonic())
        return replace(self._job, environment=cache.variables(), scenario=launched)


class _Notes:
    """The replies of the workers of a case so far."""

    def __init__(self, start: str, probing_seconds: float | None = None) -> None:
        self._start = start
        self._samples: dict[str, list[float]] = {}
        self._status = PASSED
        self._failure: Failure | None = None
        self._scenarios: dict[str, ScenarioResult] = {}
        self._offers: dict[str, str] = {}
        self._unsaved: dict[str, str] = {}
        self._caches: dict[str, dict[str, dict[str, int]]] = {}
        self._cold_look_ups: Sequence[CacheLookUp] = ()
        self._misses: list[CacheMiss] = []
        self._probing_seconds = probing_seconds
        self._artifacts: dict[str, dict[str, int]] = {}
        self._log = ""
        self._cautions: list[Caution] = []
        self._phases: dict[str, float] = {}

    def take(self, scenario: str, repeat: int, end: WorkerEnd, size: tuple[int, int]) -> bool:
        """Add the results of a worker and the size of its cache; return whether it passed or was skipped."""
        outcome = end.outcome
        self._take_common(PORTABLE, end)
        if outcome.details and outcome.details.log:
            self._log = outcome.details.log
        for measurement in outcome.measurements:
            self._samples.setdefault(f"{scenario}_{measurement.metric}", []).extend(measurement.samples)
        for quantity, amount in zip(("cache_files", "cache_bytes"), size, strict=True):
            self._samples.setdefault(f"{scenario}_{quantity}", []).append(amount)
        self._take_look_ups(scenario, repeat, end.report)
        good = outcome.status in {PASSED, SKIPPED}
        if good:
            self._scenarios.setdefault(scenario, ScenarioResult(outcome.status))
        else:
            self.fail_scenario(scenario, outcome.status, outcome.failure or Failure())
        return good

    def take_preparation(self, end: WorkerEnd, saved: str) -> bool:
        """Add the worker that made the artifacts to load later; return whether there are any."""
        outcome = end.outcome
        self._take_common(PRECOMPILE, end)
        reason = ""
        if outcome.status != PASSED:
            failure = outcome.failure or Failure()
            reason = f"it cannot be compiled for it: {failure.message}"
        elif not os.path.exists(saved):
            reason = self._unsaved.get(PRECOMPILE, "nothing was saved")
        if reason:
            self._scenarios[PRECOMPILE] = ScenarioResult("not available", reason)
        return not reason

    def offers(self, scenario: str, load_from: str = "") -> bool:
        """Whether the installed torch has a scenario, and there is something to load; if not, that is noted."""
        reason = self._offers.get(scenario, "")
        if not reason and scenario == PORTABLE and not load_from:
            reason = self._unsaved.get(PORTABLE, "")
        if reason:
            self._scenarios[scenario] = ScenarioResult("not available", reason)
        return not reason

    def fail_scenario(self, scenario: str, status: str, failure: Failure) -> None:
        """Note that a scenario failed; the first failure is the case's."""
        self._scenarios[scenario] = ScenarioResult(status, failure.message)
        if self._failure is None:
            message = f"in the {scenario} scenario: {failure.message}"
            self._status, self._failure = status, structs.replace(failure, message=message)

    def _take_common(self, saves_for: str, end: WorkerEnd) -> None:
        report, details = end.report, end.outcome.details
        self._offers |= report.offers or {}
        for phase, seconds in ((details.phases if details else None) or {}).items():
            self._phases[phase] = round(self._phases.get(phase, 0.0) + seconds, 4)
        self._cautions += end.outcome.cautions
        if report.artifacts is not None:
            self._artifacts[saves_for] = report.artifacts
        if report.unsaved is not None:
            self._unsaved[saves_for] = report.unsaved

    def _take_look_ups(self, scenario: str, repeat: int, report: CaseDetails) -> None:
        """Count cache hits and misses, and find the reasons for misses."""
        look_ups = report.look_ups
        if look_ups is None:
            return
        counted = self._caches.setdefault(scenario, {})
        for cache, states in look_ups.items():
            total = counted.setdefault(cache, dict.fromkeys(states, 0))
            for state, count in states.items():
                total[state] = total.get(state, 0) + count
        of_graphs = [states for cache, states in look_ups.items() if cache != KERNEL_CACHE]
        totals = {state: sum(states.get(state, 0) for states in of_graphs) for state in LOOK_UPS}
        for state, count in totals.items():
            self._samples.setdefault(f"{scenario}_cache_{state}", []).append(count)
        if asked := sum(totals.values()):
            self._samples.setdefault(f"{scenario}_hit_rate", []).append(100 * totals[HIT] / asked)
        events = report.events or ()
        if scenario == COLD:
            self._cold_look_ups = events
            return
        self._misses += find_reasons(scenario, repeat, self._cold_look_ups, events)
        cold, now = (self._samples.get(f"{each}_native_seconds", [0.0])[-1] for each in (COLD, scenario))
        if miss := find_native_miss(scenario, repeat, events, cold, now):
            self._misses.append(miss)

    def outcome(self, case: Case, seconds: float) -> Outcome:
        """The one outcome."""
        measurements = [self._measurement(metric, samples) for metric, samples in self._samples.items()]
        measurements += self._savings()
        found = CacheDetails(
            self._scenarios, self._caches, self._probing_seconds, self._artifacts, tuple(self._misses)
        )
        details = OutcomeDetails(
            duration=round(seconds, 3), phases=self._phases, log=self._log, compile_cache=found
        )
        return Outcome(
            case,
            self._status,
            tuple(measurements),
            self._failure,
            cautions=merged(self._cautions),
            details=details,
        )

    def _measurement(self, metric: str, samples: Sequence[float]) -> Measurement:
        """The samples of a metric: each is of a process of its own, and so a trial."""
        details = MeasurementDetails(
            start=self._start if metric.endswith("_seconds") else "",
            definition=BY_TIMERS if metric in REDEFINED else "",
            trials=(1,) * len(samples) if len(samples) > 1 else (),
        )
        return Measurement(metric, tuple(samples), None if details == NO_DETAILS else details)

    def _savings(self) -> list[Measurement]:
        """Return the share of the cold compile time that each scenario saves, if all its repeats have been measured."""
        cold = self._samples.get(f"{COLD}_{COMPILE_SECONDS}", [])
        found = []
        for scenario in (WARM, PORTABLE, PRECOMPILE):
            other = self._samples.get(f"{scenario}_{COMPILE_SECONDS}", [])
            saving = estimate_saving(cold, other) if len(other) == len(cold) else None
            if saving is not None:
                found.append(Measurement(f"{scenario}_saved", (saving.percent,), _stated(saving, len(cold))))
        return found


def _stated(saving: Saving, repeats: int) -> MeasurementDetails:
    details = MeasurementDetails(repeats=repeats, definition=BY_TIMERS)
    if saving.low is None or saving.high is None:
        return details
    return structs.replace(
        details,
        interval=(saving.low, saving.high),
        confidence=CONFIDENCE,
        method="ratio of sums over repeats, linearised, Student's t",
    )
