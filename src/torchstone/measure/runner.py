"""Turn a request into outcomes: survey, plan, journal, and the workers of each case."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime

from msgspec import Struct, structs

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.details.outcome_checks import MetricDefinitions
from torchstone.core.environments import differences, fingerprint, unknowns
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Outcome, Run
from torchstone.core.run_settings import Environment, describe_choices, environment_from
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import quote_word
from torchstone.core.text.suggestions import did_you_mean
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import COUNTERS, Probe
from torchstone.define.benchmarks import LABELS
from torchstone.measure.case_end import refuse_redefinition
from torchstone.measure.code.revision import read_revision
from torchstone.measure.code.trust import record_imported
from torchstone.measure.devices.case_limits import choose_limits
from torchstone.measure.devices.placement import check_alike
from torchstone.measure.executors.protocol import CannotMeasureError
from torchstone.measure.journal import Journal
from torchstone.measure.measuring import (
    Settings,
    find_setting_cautions,
    measures_itself,
    provenance_of,
)
from torchstone.measure.plan import Axes, Listing, Selection, plan_cases, shard_cases
from torchstone.measure.procedures.rank_reports import ranks_in, with_efficiency
from torchstone.measure.procedures.rounds import RankCapacity, Sweep, hosts_for, plan_sweep
from torchstone.measure.session import Session, TargetsSurvey
from torchstone.measure.supervisor import Watcher
from torchstone.measure.survey_replies import check_devices
from torchstone.measure.targets import Targets, hash_file, libraries_of, read_listings, same_hash
from torchstone.measure.worker_messages import source_messages
from torchstone.worker.probes.counting.available import choose_counter, find_counters
from torchstone.worker.protocol.codec import to_json
from torchstone.worker.protocol.jobs import CompileTrial, SurveyJob
from torchstone.worker.protocol.replies import CollectivesFound, SurveyReply

RUNS = os.path.join(".torchstone", "runs")


class PlanRequest(Struct, frozen=True):
    """What to measure. Unspecified axes get the defaults of the machine."""

    targets: Targets
    axes: Axes
    selection: Selection
    settings: Settings
    shard: tuple[int, int] = (1, 1)
    durations: dict[Case, float] = {}
    label: str = ""


def prepare_run(request: PlanRequest, session: Session, *, keeps_going: bool = False) -> Run:
    """Survey the machine and the sources, and return the planned run without outcomes.

    With ``keeps_going``, files that cannot be imported are recorded in the run instead of ending it.
    """
    surveyed = survey_for(request, session, keeps_going=keeps_going)
    found = surveyed.survey
    settings = structs.replace(request.settings, broken=surveyed.broken)
    session.preload(found.libraries)
    axes = (
        request.axes
        if request.axes.devices
        else structs.replace(request.axes, devices=(next(iter(found.devices or {"cpu": ""})),))
    )
    selection = structs.replace(request.selection, targets=request.targets.names)
    axes = structs.replace(axes, asked_devices=request.axes.devices)
    listings = read_listings(found.sources)
    settings = structs.replace(settings, sources=_used_sources(settings.sources, listings))
    if trains_ranks(request.axes, listings):
        settings, axes = plan_rounds(settings, axes, found.collectives or CollectivesFound(), session)
    cases = plan_cases(listings, axes, selection, session.cautions)
    settings = with_counter(settings, cases, session.cautions)
    planned = {f"{case.suite}::{case.benchmark}" for case in cases}
    own = (f"{each.suite}::{each.name}" for each in listings if each.measures_itself)
    settings = structs.replace(settings, self_measured=tuple(name for name in own if name in planned))
    shard, shards = request.shard
    if shards > 1:
        cases = shard_cases(cases, shard, shards, request.durations)
        settings = structs.replace(settings, shard=f"{shard}/{shards}")
        if not cases:
            session.cautions.append(make_caution(CautionKind.EMPTY_SHARD, shard=shard, shards=shards))
    environment = environment_of(found, settings)
    check_alike(settings, environment)
    inference = {(case.suite, case.benchmark) for case in cases if case.variant.mode == "inference"}
    unlabelled = [
        f"{each.suite}::{each.name}"
        for each in listings
        if (each.suite, each.name) in inference and each.counted is None and LABELS not in each.takes
    ]
    session.cautions += find_setting_cautions(settings, cases, unlabelled)
    settings = structs.replace(
        settings,
        threads=settings.threads or environment.threads,
        imported=record_imported(found.files, settings),
    )
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return Run(
        f"{now}-{secrets.token_hex(3)}",
        tuple(cases),
        (),
        read_revision(settings.folder or os.getcwd(), redact(request.label)),
        structs.replace(environment, fingerprint=fingerprint(environment)),
        settings,
        finished=False,
    )


def _used_sources(
    sources: Mapping[str, BenchmarkSource], listings: Collection[Listing]
) -> dict[str, BenchmarkSource]:
    """Return the sources that define a benchmark; a run file names no others, because each is surveyed again on reuse."""
    suites = {listing.suite for listing in listings}
    return {suite: source for suite, source in sources.items() if suite in suites}


def trains_ranks(axes: Axes, listings: Collection[Listing]) -> bool:
    """Return whether the scaling probe is used: requested, or the default of a benchmark."""
    if axes.probes:
        return Probe.SCALING in axes.probes
    return any(Probe.SCALING in listing.probes for listing in listings)


def plan_rounds(
    settings: Settings, axes: Axes, found: CollectivesFound, session: Session
) -> tuple[Settings, Axes]:
    """Plan the rounds that fit on the hosts of the job; return completed settings and axes."""
    device = axes.devices[0].partition(":")[0]
    if not found.available:
        raise UsageError("this torch has no torch.distributed, which training on several ranks needs")
    collective = settings.collective or found.default
    if collective not in found.available:
        raise UsageError(
            f"--collective-backend {collective}: this torch has no such backend",
            advice=f"available: {', '.join(found.available)}",
        )
    if len(axes.devices) > 1:
        raise UsageError(
            "scaling is measured on one kind of device at a time", advice="name one with --device"
        )
    capacity = session.host_group.capacity
    unit = "core" if device == "cpu" else f"{device} device"
    if capacity.unit and device != "cpu" and capacity.ranks > found.rooms:
        raise UsageError(
            f"the job has {count_of(capacity.ranks, 'rank')} on each host, but this host has {count_of(found.rooms, unit)}",
            advice=f"torchrun --nproc-per-node {found.rooms}",
        )
    if not capacity.unit:
        capacity = RankCapacity(1, found.rooms, unit)
        most = max(settings.ranks, default=1)
        if device == "cpu" and most > capacity.ranks:
            session.cautions.append(
                make_caution(CautionKind.RANKS_SHARE_CORES, ranks=most, cores=capacity.ranks)
            )
            capacity = RankCapacity(1, most, unit)
        session.host_group.capacity = capacity
    sweep = Sweep(settings.ranks, settings.strategies, settings.buckets, collective)
    threads = settings.threads or (1 if device == "cpu" else None)
    return (
        structs.replace(
            settings, collective=collective, rank_threads=threads, layout=(capacity.hosts, capacity.ranks)
        ),
        structs.replace(axes, rounds=plan_sweep(sweep, capacity)),
    )


def with_counter(settings: Settings, cases: Collection[Case], cautions: list[Caution]) -> Settings:
    """Set the counter, if anything is counted: the requested one, or the best available."""
    if not any(case.probe == Probe.INSTRUCTIONS for case in cases):
        return settings
    problems = find_counters()
    if settings.counter and (problem := problems[settings.counter]):
        raise UsageError(f"--counter {settings.counter}: {problem.reason}", advice=problem.advice)
    counter = settings.counter or choose_counter(problems)
    if not settings.counter and counter in {"python", "cpu_time"}:
        cautions.append(make_caution(CautionKind.WEAK_COUNTER, counter=counter, what=COUNTERS[counter]))
    return structs.replace(settings, counter=counter)


def survey_for(request: PlanRequest, session: Session, *, keeps_going: bool = False) -> TargetsSurvey:
    """Survey the sources and the machine; raise UsageError for an unknown device or backend."""
    sources = list(request.targets.sources.values())
    surveyed = session.survey_targets(
        request.targets,
        SurveyJob(
            imports=tuple(request.settings.imports),
            folder=request.settings.folder or os.getcwd(),
            devices=tuple(request.axes.devices),
            libraries=tuple(libraries_of(sources)),
            threads=request.settings.threads,
            scaling=True,
            compile=_compile_trial(request),
        ),
        request.settings.timeout,
        keeps_going=keeps_going,
    )
    found = surveyed.survey
    check_devices(found.devices or (), found, "--device ")
    for backend in request.axes.backends:
        if backend not in found.backends:
            raise _unknown_backend(backend, found.backends)
    for backend, problem in (found.refused or {}).items():
        raise UsageError(
            f"torch.compile rejects these options for the backend {backend}: {problem}",
            advice="see --compile-mode and --option",
        )
    return surveyed


def _compile_trial(request: PlanRequest) -> CompileTrial | None:
    """Return the options of ``torch.compile`` to try in the survey; None if there are none."""
    settings = request.settings
    if not settings.compile_mode and not settings.options:
        return None
    return CompileTrial(tuple(request.axes.backends), settings.compile_mode, settings.options or None)


def environment_of(found: SurveyReply, settings: Settings) -> Environment:
    """Return the environment of a survey as a run file records it, with the settings of torch that the run chose."""
    if found.environment is None:
        raise CannotMeasureError("the worker's survey lacks the environment")
    environment = environment_from(to_json(found.environment))
    return structs.replace(environment, chosen=describe_choices(settings, environment.device or "cpu"))


def _unknown_backend(backend: str, known: Sequence[str]) -> UsageError:
    return UsageError(
        f"--backend {backend}: torch.compile has no such backend here",
        advice=f"{did_you_mean(backend, known)}available: {', '.join(known)}; --import MODULE can register another",
    )


def survey_again(run: Run, suites: Collection[str], session: Session) -> SurveyReply:
    """Survey the sources of these suites of a run, its devices and the environment again."""
    settings = run.settings
    found = session.survey(
        SurveyJob(
            sources=source_messages(settings.sources[suite] for suite in suites if suite in settings.sources),
            imports=tuple(settings.imports),
            folder=settings.folder or os.getcwd(),
            devices=tuple(_devices_of(run, suites)),
            libraries=tuple(name for name in run.environment.versions if name != "torch"),
            threads=settings.threads,
        )
    )
    session.preload(found.libraries)
    return found


def _devices_of(run: Run, suites: Collection[str]) -> list[str]:
    """Return the devices of a run's cases, and the device of its environment."""
    devices = {case.variant.device for case in run.plan if case.suite in suites}
    return sorted(devices | {run.environment.device or "cpu"})


def check_same_environment(run: Run, session: Session, path: str) -> None:
    """Raise UsageError if a run was started with other code or in another environment."""
    found = survey_again(run, sorted({case.suite for case in run.plan}), session)
    check_axes_stated(run.plan, found, path)
    changed = differences(environment_of(found, run.settings), run.environment) + find_edits(
        run, dirty_too=True
    )
    session.cautions += unknowns(environment_of(found, run.settings), run.environment)
    check_hosts(run, run.plan, session)
    refuse_to_finish(changed)


def check_axes_stated(cases: Collection[Case], found: SurveyReply, path: str) -> None:
    """Raise InputError if a case lacks an axis that its benchmark needs."""
    listings = {(each.suite, each.name): each for each in read_listings(found.sources)}
    for case in cases:
        listing = listings.get((case.suite, case.benchmark))
        if listing is None or listing.counted is not None:
            continue  # the worker reports a missing benchmark; counted work has its own axes
        needed = ["device", "backend", "mode", *(["batch_size"] if listing.batch_size else [])]
        if missing := [axis for axis in needed if not getattr(case.variant, axis)]:
            raise InputError(
                f"{case.id}: the plan lacks {' and '.join(missing)}, which {case.benchmark} needs",
                path=path,
                line=1,
                column="plan",
                advice="the file was edited or damaged: measure again with a new 'torchstone run'",
            )


def refuse_to_finish(changed: Sequence[str]) -> None:
    """Raise UsageError if anything has changed since a run was started."""
    if changed:
        raise UsageError(
            f"the run was started with other code or in another environment: {'; '.join(changed)}",
            advice="start a new run, without --resume",
        )


def check_hosts(run: Run, cases: Collection[Case], session: Session) -> None:
    """Raise UsageError if a round was planned for other hosts or ranks: it would not be the same round."""
    if run.settings.layout is None:
        return
    hosts, ranks = run.settings.layout
    planned, host_group = RankCapacity(hosts, ranks, "rank"), session.host_group
    for count in {ranks_in(case) for case in cases if case.probe == Probe.SCALING}:
        needed, _ = there = hosts_for(count, planned)
        if there != hosts_for(count, host_group.capacity) or needed > len(host_group.names):
            raise UsageError(
                f"rounds of {count_of(count, 'rank')} were planned for {count_of(needed, 'host')} with {count_of(ranks, 'rank')} each, which are not available here",
                advice=f"torchrun --nnodes {hosts} --nproc-per-node {ranks} -m torchstone ...",
            )


def find_edits(run: Run, *, dirty_too: bool = False) -> list[str]:
    """Return how the code differs from the code that a run measured; with ``dirty_too``, also by uncommitted changes."""
    changed = []
    folder = run.settings.folder
    then = run.revision
    now = read_revision(folder if os.path.isdir(folder) else os.getcwd(), then.label)
    if then.commit and now.commit != then.commit:
        changed.append(f"the revision is {now.commit[:12] or 'none'}, was {then.commit[:12]}")
    elif dirty_too and then.dirty is False and now.dirty:
        changed.append("there are uncommitted changes")
    return changed + find_edited_files(run)


def find_edited_files(run: Run) -> list[str]:
    """Return the benchmark files and imported user modules that have changed; nothing is executed."""
    sources = run.settings.sources.values()
    recorded = {each.path: each.hash for each in sources if each.is_file}
    recorded |= run.settings.imported
    return [
        f"{path} has changed since the run"
        for path, known in recorded.items()
        if known and not same_hash(known, hash_file(path))
    ]


def default_output(run: Run) -> str:
    """Return the default path of a run file."""
    return os.path.join(RUNS, f"{run.id}.jsonl")


def measure(
    run: Run, settings: Settings, journal: Journal, session: Session, watcher: Watcher
) -> Generator[Outcome, None, None]:
    """Measure every case without an outcome; each is on disk before it is yielded. With ``looks``, the file stays open."""
    outcomes_so_far = list(run.outcomes)
    done = {outcome.case for outcome in run.outcomes}
    pending = [case for case in run.plan if case not in done]
    limits = choose_limits(settings, run)
    timed = [case for case in pending if measures_itself(settings, case)]
    counted = [case for case in pending if case not in timed]

    def execute() -> Generator[Outcome, None, None]:
        """Run work that times itself last, one case at a time."""
        yield from session.supervisor(settings, limits, watcher).execute(counted)
        yield from session.supervisor(settings, structs.replace(limits, jobs=1), watcher).execute(timed)

    definitions = MetricDefinitions(run.outcomes)
    with closing(execute()) as outcomes:  # kills all workers, however the block is left
        for outcome in outcomes:
            journal.secure()  # before the repro command names the file
            named = structs.replace(
                refuse_redefinition(outcome, definitions),
                repro=repro_command(journal.path, outcome.case),
                provenance=provenance_of(run, outcome.case),
            )
            if outcome.case.probe == Probe.SCALING:
                named = with_efficiency(named, outcomes_so_far, run.plan)
            outcomes_so_far.append(named)
            journal.append(named)
            yield named
        if not settings.looks:
            journal.finish()


def repro_command(path: str, case: Case) -> str:
    """Return the command that measures one case of a run again."""
    return f"torchstone repro {quote_word(path)} {quote_word(case.id)}"
