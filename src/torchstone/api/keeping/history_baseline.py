"""``--baseline history``: the last level of each series in a store, in place of a file of expected values."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress

from msgspec import Struct, structs

from torchstone.core.config import find_store
from torchstone.core.details.measurement_details import NO_DETAILS
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Measurement, Outcome, Reading, Revision, Run
from torchstone.core.run_settings import Environment
from torchstone.gate.baseline import HISTORY
from torchstone.history.reference_levels import (
    Decisions,
    LevelSeries,
    find_references,
    find_status,
    read_decisions,
)
from torchstone.history.update import bring_up_to_date
from torchstone.measure.code.ancestry import find_merge_base, is_in_repository, list_ancestors
from torchstone.store.database.connection import Database
from torchstone.store.database.opening import connect
from torchstone.store.identity import renamed
from torchstone.store.reading_runs import find_runs, list_runs, read_environment, read_renames, read_run
from torchstone.store.recent import RecentPoints, RecentSeries, read_recent
from torchstone.store.stored import StoredRun, machine_of

MERGE_BASE = "merge-base"
RUNS = 100
"""How many runs a level is looked for in; older ones do not count."""
LEVEL = 20
"""How many points of a level count at most: its newest ones."""


class HistoryRequest(Struct, frozen=True):
    """Which part of the history is a baseline: of ``merge-base``, a branch, or one run; for which results, from which store."""

    name: str
    results: tuple[Reading, ...]
    store: str = ""
    config: str | None = None

    @property
    def part(self) -> str:
        """What follows ``history:``."""
        return self.name.partition(":")[2] or MERGE_BASE


def read_history(request: HistoryRequest) -> Reading:
    """Return the baseline: for each case of the results, and of the newest run like them, the level of its series and its last status."""
    with closing(connect(find_store(request.store, request.config))) as database:
        with suppress(InputError):  # a store that cannot be written can be read
            bring_up_to_date(database)
        with database.reading():
            stored = _renamed_cases(database, request.results)
            given = {new: old for old, new in stored.items()}
            return _with_names(_read(database, request, stored), given)


def _renamed_cases(database: Database, results: Sequence[Reading]) -> dict[Case, Case]:
    """Return those cases of the results whose benchmark has another name in the store, as the store names them."""
    renames = read_renames(database)
    planned = dict.fromkeys(case for reading in results for case in reading.run.plan)
    new = {case: renames.get((case.suite, case.benchmark)) for case in planned}
    stored = {case: renamed(case, name) for case, name in new.items() if name}
    return {case: there for case, there in stored.items() if there not in planned}


def _with_names(reading: Reading, names: Mapping[Case, Case]) -> Reading:
    """Return a baseline with some of its cases named as in the results."""
    run = reading.run
    plan = tuple(names.get(case, case) for case in run.plan)
    outcomes = tuple(structs.replace(each, case=names.get(each.case, each.case)) for each in run.outcomes)
    return structs.replace(reading, run=structs.replace(run, plan=plan, outcomes=outcomes))


def _read(database: Database, request: HistoryRequest, stored: Mapping[Case, Case]) -> Reading:
    """Return the baseline from an open store. ``stored`` are the cases that have another name there."""
    own = {reading.run.id for reading in request.results if reading.kind == "run"}
    runs = [run for run in list_runs(database) if run.name not in own]
    chosen, is_one = _choose(database, runs, request)
    if is_one:
        reading = read_run(database, chosen[0])
        environment = _machine_only(reading.run.environment)
        return structs.replace(
            reading,
            path=request.name,
            kind=HISTORY,
            run=structs.replace(reading.run, environment=environment),
        )
    counted = chosen[-RUNS:]
    recent = read_recent(database, counted)
    decisions = read_decisions(database, (run.id for run in counted))
    environment = _machine_only(read_environment(database, counted[-1]))
    outcomes = _levels(recent, decisions, _wanted(recent, request.results, stored), request)
    newest = counted[-1]
    run = Run(
        f"{request.name} up to {newest.revision[:12]}",
        tuple(outcome.case for outcome in outcomes),
        outcomes,
        Revision(newest.commit, newest.branch),
        environment,
    )
    return Reading(request.name, HISTORY, run, (0,) * len(outcomes))


def _choose(
    database: Database, runs: Sequence[StoredRun], request: HistoryRequest
) -> tuple[list[StoredRun], bool]:
    """Return the runs that count, in the order of revisions, and whether it is one run that was asked for."""
    part = request.part
    if part == MERGE_BASE:
        return _before_merge_base(runs, request), False
    if of_branch := [run for run in runs if run.branch == part]:
        return of_branch, False
    found = [run for run in find_runs(database, part) if run in runs]
    if not found:
        branches = sorted({run.branch for run in runs if run.branch})
        raise UsageError(
            f"--baseline {request.name}: {database.place} has no such branch or run",
            advice=f"its branches are {', '.join(branches) or 'not stated'}; 'torchstone store info --runs' lists its runs",
        )
    return found, len(found) == 1


def _before_merge_base(runs: Sequence[StoredRun], request: HistoryRequest) -> list[StoredRun]:
    """Return the runs of the commit where the branch of the results left the main branch, and of its ancestors."""
    folder = os.getcwd()
    commit = next(
        (reading.run.revision.commit for reading in request.results if reading.run.revision.commit), "HEAD"
    )
    base = find_merge_base(folder, commit)
    advice = "name a branch or a run instead: --baseline history:BRANCH"
    if not base:
        problem = f"this repository does not know where {commit[:12]} left its main branch"
        if not is_in_repository(folder):
            problem = (
                "the current folder is in no git repository, so nobody knows where the main branch was left"
            )
        raise UsageError(f"--baseline {request.name}: {problem}", advice=advice)
    ancestors = list_ancestors(folder, base)
    found = [run for run in runs if run.commit in ancestors]
    if not found:
        raise InputError(
            f"no run of {base[:12]} or an ancestor is in the store", path=request.name, advice=advice
        )
    return found


def _wanted(recent: RecentPoints, results: Sequence[Reading], stored: Mapping[Case, Case]) -> dict[Case, str]:
    """Return the cases that are expected, with their machines: those of the results, and of the newest run that has one of them."""
    wanted = {
        stored.get(case, case): machine_of(reading.run.environment, case)
        for reading in results
        for case in reading.run.plan
    }
    newest = max((place for (case, _), (_, place) in recent.statuses.items() if case in wanted), default=-1)
    machines = set(wanted.values())
    also = {
        case: machine
        for (case, machine), (_, place) in recent.statuses.items()
        if place == newest and machine in machines
    }
    return also | wanted


def _levels(
    recent: RecentPoints, decisions: Decisions, wanted: Mapping[Case, str], request: HistoryRequest
) -> tuple[Outcome, ...]:
    """Return the expected outcome of each case: its status, and the reference level of each of its series."""
    statuses = {
        case: find_status(status, decisions.statuses.get((recent.case_ids[case], machine), ()))
        for (case, machine), (status, _) in recent.statuses.items()
        if wanted.get(case) == machine
    }
    if not statuses:
        machines = ", ".join(sorted({machine or "(not stated)" for _, machine in recent.statuses}))
        raise InputError(
            "none of these cases was measured on this class of machines before",
            path=request.name,
            advice=f"the runs that were looked at are from: {machines or 'none'}",
        )
    chosen = [each for each in recent.series if wanted.get(each.case) == each.machine]
    levels = find_references(
        [LevelSeries(each.id, each.runs, each.values, each.is_counted) for each in chosen], decisions
    )
    measured: dict[Case, list[Measurement]] = {}
    for each, (start, stop) in zip(chosen, levels, strict=True):
        measured.setdefault(each.case, []).append(_level(each, start, stop))
    return tuple(Outcome(case, status, tuple(measured.get(case, ()))) for case, status in statuses.items())


def _level(series: RecentSeries, start: int, stop: int) -> Measurement:
    """Return a level as a measurement: each of its newest points is a trial. Of a count, the newest point is all."""
    values = series.values[start:stop][-1 if series.is_counted else -LEVEL :]
    details = (
        structs.replace(series.details, trials=(1,) * len(values)) if len(values) > 1 else series.details
    )
    return Measurement(series.metric, values, None if details == NO_DETAILS else details)


def _machine_only(environment: Environment) -> Environment:
    """Return the machine, threads and variables of an environment: other software is what the history measures."""
    return structs.replace(environment, versions={}, software={}, fingerprint="")
