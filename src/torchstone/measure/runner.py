"""From a request to outcomes: the survey, the plan, the journal, and one worker after another."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Collection, Generator
from contextlib import closing
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from msgspec import Struct, structs, to_builtins

from torchstone.errors import UsageError
from torchstone.fingerprint import differences, fingerprint
from torchstone.measure.collect import Targets, hash_file, libraries_of, read_listings
from torchstone.measure.counters import choose_counter, find_counters
from torchstone.measure.journal import Journal
from torchstone.measure.plan import Axes, Selection, plan_cases, shard_cases
from torchstone.measure.revision import read_revision
from torchstone.measure.session import Session
from torchstone.measure.settings import Settings
from torchstone.measure.supervisor import Limits, Watcher
from torchstone.model import Case, Outcome, Run
from torchstone.vocabulary import COUNTERS, Probe

RUNS = os.path.join(".torchstone", "runs")


class Request(Struct, frozen=True):
    """What a person asked to have measured. Axes that were left open have the defaults of the machine filled in."""

    targets: Targets
    axes: Axes
    selection: Selection
    settings: Settings
    shard: tuple[int, int] = (1, 1)
    durations: dict[Case, float] = {}
    label: str = ""


def prepare_run(request: Request, session: Session) -> Run:
    """Look at the machine and the sources, and plan: a run without outcomes yet."""
    settings = request.settings
    found = survey_for(request, session)
    session.preload(found["libraries"])
    axes = (
        request.axes
        if request.axes.devices
        else structs.replace(request.axes, devices=(next(iter(found["devices"])),))
    )
    selection = structs.replace(request.selection, targets=request.targets.names)
    axes = structs.replace(axes, asked_devices=request.axes.devices)
    cases = plan_cases(read_listings(found["sources"]), axes, selection)
    settings = with_counter(settings, cases, session.cautions)
    shard, shards = request.shard
    if shards > 1:
        cases = shard_cases(cases, shard, shards, request.durations)
    settings = structs.replace(settings, threads=settings.threads or found["environment"].get("threads"))
    environment = found["environment"]
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return Run(
        f"{now}-{secrets.token_hex(3)}",
        tuple(cases),
        (),
        read_revision(settings.folder or os.getcwd(), request.label),
        environment | {"fingerprint": fingerprint(environment)},
        to_builtins(settings),
        finished=False,
    )


def with_counter(settings: Settings, cases: Collection[Case], cautions: list[str]) -> Settings:
    """The settings with the counter that will count, if anything is to be counted: the one asked for, or the best there is."""
    if not any(case.probe == Probe.INSTRUCTIONS for case in cases):
        return settings
    problems = find_counters()
    if settings.counter and problems[settings.counter]:
        problem, _, advice = problems[settings.counter].partition("; ")
        raise UsageError(f"--counter {settings.counter}: {problem}", advice=advice)
    counter = settings.counter or choose_counter(problems)
    if not settings.counter and counter in {"python", "cpu_time"}:
        cautions.append(
            f"the {counter} counter is used ({COUNTERS[counter]}): 'torchstone doctor' says how to get a better one"
        )
    return structs.replace(settings, counter=counter)


def survey_for(request: Request, session: Session) -> dict[str, Any]:
    """What a worker sees of the sources and of the machine; an unknown device or backend is an error."""
    sources = list(request.targets.sources.values())
    found = session.survey(
        {
            "sources": sources,
            "imports": list(request.settings.imports),
            "folder": request.settings.folder or os.getcwd(),
            "devices": list(request.axes.devices),
            "libraries": libraries_of(sources),
            "threads": request.settings.threads,
            "compile": _told_to_compile(request),
        },
        request.settings.timeout,
    )
    for device, problem in found["devices"].items():
        if problem:
            raise UsageError(
                f"--device {device}: {problem}", advice=f"here there is: {', '.join(found['available'])}"
            )
    for backend in request.axes.backends:
        if backend not in found["backends"]:
            raise _unknown_backend(backend, found["backends"])
    for backend, problem in found.get("refused", {}).items():
        raise UsageError(
            f"torch.compile refuses this for the backend {backend}: {problem}",
            advice="see --compile-mode and --option",
        )
    return found


def _told_to_compile(request: Request) -> dict[str, Any]:
    """What ``torch.compile`` is told beyond a case's own axes, for trying whether it takes it; empty where that is nothing."""
    settings = request.settings
    if not settings.compile_mode and not settings.options:
        return {}
    return {
        "backends": list(request.axes.backends),
        "mode": settings.compile_mode,
        "options": settings.options or None,
    }


def _unknown_backend(backend: str, known: list[str]) -> UsageError:
    close = get_close_matches(backend, known, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return UsageError(
        f"--backend {backend}: torch.compile has no such backend here",
        advice=f"{hint}there are: {', '.join(known)}; --import MODULE can register another",
    )


def look_again(run: Run, suites: Collection[str], session: Session) -> dict[str, Any]:
    """What a worker sees today of what a run was made from: these of its suites, the devices, the environment."""
    settings = run.settings
    found = session.survey(
        {
            "sources": [settings["sources"][suite] for suite in suites if suite in settings["sources"]],
            "imports": settings.get("imports", []),
            "folder": settings.get("folder") or os.getcwd(),
            "devices": sorted({case.variant.device for case in run.plan if case.suite in suites}),
            "libraries": [name for name in run.environment.get("versions", {}) if name != "torch"],
            "threads": settings.get("threads"),
        }
    )
    session.preload(found["libraries"])
    return found


def check_same_world(run: Run, session: Session) -> None:
    """Refuse to finish a run elsewhere than it was begun: one run is one revision in one environment."""
    found = look_again(run, sorted({case.suite for case in run.plan}), session)
    changed = differences(found["environment"], run.environment) + find_edits(run, dirty_too=True)
    if changed:
        raise UsageError(
            f"the run was begun elsewhere: {'; '.join(changed)}", advice="start a new run, without --resume"
        )


def find_edits(run: Run, *, dirty_too: bool = False) -> list[str]:
    """How the code differs from the code that a run has measured; also by files that are not committed, if these count."""
    changed = []
    then, now = run.revision, read_revision(os.getcwd(), run.revision.label)
    if then.commit and now.commit != then.commit:
        changed.append(f"the revision is {now.commit[:12] or 'none'}, was {then.commit[:12]}")
    elif dirty_too and then.dirty is False and now.dirty:
        changed.append("files of the revision have been changed since")
    return changed + [
        f"{source['path']} has been edited since"
        for source in run.settings.get("sources", {}).values()
        if source.get("hash") not in (None, "", hash_file(source.get("path", "")))
    ]


def default_output(run: Run) -> str:
    """Where a run is kept if nobody says where."""
    return os.path.join(RUNS, f"{run.id}.jsonl")


def choose_limits(settings: Settings, run: Run) -> Limits:
    """As many workers at once as have cores of their own: more would disturb whichever is being timed.

    On an accelerator it is one, for compiling and warming up use the device too.
    """
    if settings.jobs:
        jobs = settings.jobs
    elif all(case.probe == Probe.INSTRUCTIONS for case in run.plan) and settings.counter != "cpu_time":
        jobs = _cores()  # one thread each, and a count is the same whatever runs beside it
    elif all(case.variant.device == "cpu" for case in run.plan):
        jobs = max(1, _cores() // max(1, settings.threads or 1))
    else:
        jobs = 1
    return Limits(settings.timeout, settings.memory_limit, jobs)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure(
    run: Run, settings: Settings, journal: Journal, session: Session, watcher: Watcher
) -> Generator[Outcome, None, None]:
    """Measure every case that has no outcome yet; each outcome is on disk before it is handed out."""
    done = {outcome.case for outcome in run.outcomes}
    pending = [case for case in run.plan if case not in done]
    supervisor = session.supervisor(settings, choose_limits(settings, run), watcher)
    with closing(supervisor.execute(pending)) as outcomes:  # ends all workers, however it is left
        for outcome in outcomes:
            named = structs.replace(outcome, repro=repro_command(journal.path, outcome.case))
            journal.append(named)
            yield named
        journal.finish()


def repro_command(path: str, case: Case) -> str:
    """The command that measures one case of a run again."""
    return f"torchstone repro {shlex.quote(path)} {shlex.quote(case.id)}"
