"""``torchstone run``: measure benchmarks in isolated workers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from msgspec import Struct, structs

from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.consent import trust_artifacts, trust_run
from torchstone.cli.options.quantities import parse_seconds
from torchstone.cli.options.run_options import OPTIONS, given_limits, make_request, may_scale, refuse_unused
from torchstone.cli.terminal.run_display import Display, make_display
from torchstone.cli.terminal.run_outputs import print_plan, refuse_taken, write_ddp, write_outputs
from torchstone.cli.terminal.run_summary import print_cache_reasons
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.records import Outcome, Run
from torchstone.core.text.safe_text import join_words
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import NOT_AVAILABLE, PASSED, SKIPPED
from torchstone.measure.hosts.host_group import Place, wait_for_leader
from torchstone.measure.hosts.host_job import Job, follow, join, own_place
from torchstone.measure.journal import Journal, create_journal, reopen_journal
from torchstone.measure.measuring import Settings, check_artifacts, settings_of_run
from torchstone.measure.runner import (
    Request,
    check_same_world,
    default_output,
    find_edited_files,
    measure,
    prepare_run,
    refuse_to_finish,
)
from torchstone.measure.session import Session
from torchstone.measure.supervisor import Limits
from torchstone.measure.targets import resolve_targets

INTERRUPTED = 130
FILE_LOST = 3


class Finished(Struct, frozen=True):
    """How a run ended: the exit code, and the run file, which may be another one than was asked for; empty if there is none."""

    code: int
    path: str = ""


def run_benchmarks(targets: tuple[str, ...], **given: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Measure SUITES, FILES and folders under torch.compile, against eager.

    TARGETS are suites (see 'torchstone list'), files bench_*.py with functions
    that @torchstone.benchmark decorates, files written for PyTorch's
    pr_time_benchmarks, or folders of these; TARGET::NAME is one benchmark. Every case runs in a process of its own, and its result is
    on disk before the next one starts.

    \b
    Examples:
      torchstone run bench_mine.py
      torchstone run smoke --mode inference,training -o run.jsonl
      torchstone run huggingface --size small -k Bert --device cpu
      torchstone run --resume run.jsonl

    Exit codes: 0 every case passed, 1 some did not, or one of several files
    could not be imported, 2 bad input or usage,
    3 nothing can be measured here, or the run file was removed, replaced or
    changed meanwhile: then everything is in a new file beside it.
    """
    return run_to_file(targets, given).code


def run_to_file(
    targets: tuple[str, ...], given: dict[str, Any], check_plan: Callable[[Run], None] = lambda _: None
) -> Finished:
    """Measure as 'torchstone run' does; the result names the run file. ``check_plan`` may refuse the plan before anything is measured."""
    if not targets and not given["resume"]:
        raise UsageError(
            "what is to be measured?", advice="name a suite or a file; 'torchstone list' shows the suites"
        )
    place = own_place() if may_scale(given) else None
    if place is None:
        return _run(targets, given, None, check_plan)
    if place.local_rank:
        return Finished(wait_for_leader(place))
    return _run_in_job(place, targets, given, check_plan)


def _run_in_job(
    place: Place, targets: tuple[str, ...], given: dict[str, Any], check_plan: Callable[[Run], None]
) -> Finished:
    """Lead this host's part of a job: on the first host that is the run itself."""
    timeout = parse_seconds("--collective-timeout", given["collective_timeout"])
    with join(place, timeout, resolve_targets(targets).sources) as job:
        path = ""
        try:
            finished = (
                _run(targets, given, job, check_plan) if place.index == 0 else Finished(_follow(job, given))
            )
            job.code, path = finished.code, finished.path
        except TorchstoneError as error:  # told here: once the other processes know, torchrun ends this one
            sys.stderr.write(f"error: {error}\n")
            job.code = error.exit_code
        sys.stdout.flush()
        sys.stderr.flush()
        if job.has_lost_hosts():  # after a success torchrun would wait for these, for minutes
            job.code = job.code or 1
        return Finished(job.code, path)


def _follow(job: Job, given: dict[str, Any]) -> int:
    """Take part in the run on another host."""
    display = make_display()
    display.say(f"{job.names[job.place.index]}: takes part in the run on {job.names[0]}")
    settings = Settings(**given_limits(given))
    with Session("auto", "cold", display.say) as session:
        session.start_workers([])
        follow(job, session, Limits(settings.timeout, settings.memory_limit), display)
    return 0


def _run(
    targets: tuple[str, ...], given: dict[str, Any], job: Job | None, check_plan: Callable[[Run], None]
) -> Finished:
    if given["resume"]:
        return _resume(targets, given, job)
    if given["raw_cells"] and not given["csv"]:
        raise UsageError("--raw-cells requires --csv", advice="add --csv DIR, or leave it out")
    refuse_taken(given["output"])
    request = make_request(targets, given)
    display = make_display()
    with Session(
        "spawn" if given["dry_run"] else request.settings.start, request.settings.cache, display.say
    ) as session:
        _man(session, job)
        run = _prepare(request, session, display)
        if not given["shard"]:  # of which each may lack a probe that others have
            refuse_unused(given, {case.probe for case in run.plan})
        settings = _settings(run)
        check_artifacts(settings, run.plan)
        if given["dry_run"]:
            print_plan(run)
            return Finished(0)
        check_plan(run)
        session.trusts_artifacts = trust_artifacts(settings, run.plan, trust=given["trust"])
        _show_cautions(session, display)
        journal = create_journal(given["output"] or default_output(run), run, "", display.say)
        return _carry_out(run, settings, journal, session, display, given)


def _settings(run: Run) -> Settings:
    return settings_of_run(run, "")


def _prepare(request: Request, session: Session, display: Display) -> Run:
    with display.busy("loading torch and looking at the machine"):
        session.start_workers(list(request.targets.sources.values()), request.axes.devices)
        return prepare_run(request, session, keeps_going=True)


def _man(session: Session, job: Job | None) -> None:
    """Have rounds use all hosts of a job, where there is one."""
    if job is not None:
        session.crew = job.crew()


def _resume(targets: tuple[str, ...], given: dict[str, Any], job: Job | None) -> Finished:
    """Finish a run: with the settings it was begun with, on the machine and code it was begun on; what its cases may use can be changed."""
    if other := [each.flags[0] for each in OPTIONS if given[each.name] and each.name not in _RESUMABLE]:
        raise UsageError(f"--resume takes its settings from the file, so {other[0]} has no place")
    if targets:
        raise UsageError(f"--resume takes the cases from the file, so {targets[0]} has no place")
    display = make_display()
    journal, reading = reopen_journal(given["resume"], display.say)
    run = reading.run
    with closing(journal):
        settings = structs.replace(settings_of_run(run, reading.path), **given_limits(given))
        if run.finished:
            display.say(f"{reading.path}: nothing is left to measure")
            if given["explain"]:
                print_cache_reasons(run.outcomes)
            _write_others(run, given, display)
            say_broken(settings.broken)
            return Finished(_exit_code(run.outcomes, settings, given), reading.path)
        return _go_on(run, settings, journal, display, given, job)


def _go_on(
    run: Run, settings: Settings, journal: Journal, display: Display, given: dict[str, Any], job: Job | None
) -> Finished:
    done = {outcome.case for outcome in run.outcomes}
    left = [case for case in run.plan if case not in done]
    refuse_to_finish(find_edited_files(run))  # no trust would help
    check_artifacts(settings, left)
    trusts_artifacts = trust_run(settings, settings.sources, left, trust=given["trust"])
    with Session(settings.start, settings.cache, display.say) as session:
        session.trusts_artifacts = trusts_artifacts
        _man(session, job)
        with display.busy("loading torch and looking at the machine"):
            session.start_workers(
                list(settings.sources.values()), sorted({case.variant.device for case in run.plan})
            )
            check_same_world(run, session, journal.path)
        _show_cautions(session, display)
        return _carry_out(run, settings, journal, session, display, given)


_RESUMABLE = {
    *("resume", "trust", "csv", "raw_cells", "v3", "ddp_json", "explain", "exit_zero"),
    *("jobs", "timeout", "memory_limit"),
}


def _show_cautions(session: Session, display: Display) -> None:
    for caution in session.cautions:
        display.say(f"caution: {caution.text}")


def _carry_out(
    run: Run, settings: Settings, journal: Journal, session: Session, display: Display, given: dict[str, Any]
) -> Finished:
    """Measure, show, write the other files, and say where everything is."""
    outcomes = list(run.outcomes)
    try:
        with (
            closing(journal),
            display.showing(run),
            closing(measure(run, settings, journal, session, display)) as measured,
        ):
            for outcome in measured:
                outcomes.append(outcome)
                display.finished(outcome)
    except KeyboardInterrupt:
        left = len(run.plan) - len(outcomes)
        sys.stderr.write(
            f"\nstopped: {len(outcomes)} of {len(run.plan)} cases are in {journal.path}, {left} are left; go on with\n"
            f"  {join_words(_resume_arguments(journal.path, given))}\n"
        )
        say_losses([journal])
        return Finished(INTERRUPTED, journal.path)
    done = structs.replace(run, outcomes=tuple(outcomes), finished=True)
    display.summarise(done, journal.path)
    if given["explain"]:
        print_cache_reasons(outcomes)
    _write_others(done, given, display)
    say_broken(settings.broken)
    code = _exit_code(outcomes, settings, given)
    return Finished(say_losses([journal]) or code, journal.path)


def say_losses(journals: Sequence[Journal]) -> int:
    """The last words about run files that were taken away while they were written, and the exit code for that; 0 if none was."""
    losses = [journal.loss for journal in journals if journal.loss]
    for loss in losses:
        sys.stdout.flush()
        sys.stderr.write(f"\nERROR: {loss.problem}\n  all results are in {loss.new_path}\n")
    return FILE_LOST if losses else 0


def _write_others(run: Run, given: dict[str, Any], display: Display) -> None:
    """The files that were asked for beside the run file."""
    write_outputs(run, given["csv"], given["v3"], display.say, raw_cells=given["raw_cells"])
    write_ddp(run, given["ddp_json"], display.say)


_FLAGS = {
    "--trust": "trust",
    "--raw-cells": "raw_cells",
    "--explain": "explain",
    "--exit-zero": "exit_zero",
}


def _resume_arguments(path: str, given: dict[str, Any]) -> list[str]:
    """The command that finishes the run, with the files that were asked for besides."""
    arguments = ["torchstone", "run", "--resume", path]
    for option in ("csv", "v3", "ddp-json"):
        value = given[option.replace("-", "_")]
        arguments += [f"--{option}", value] if value else []
    return [*arguments, *(flag for flag, name in _FLAGS.items() if given[name])]


def say_broken(files: Sequence[str]) -> None:
    """Name the files that could not be imported once more, after everything else."""
    if files:
        sys.stdout.flush()
        listed = "".join(f"  {each}\n" for each in files)
        sys.stderr.write(f"\n{count_of(len(files), 'file')} could not be imported:\n{listed}")


def _exit_code(
    outcomes: tuple[Outcome, ...] | list[Outcome], settings: Settings, given: dict[str, Any]
) -> int:
    bad = any(outcome.status not in {PASSED, SKIPPED, NOT_AVAILABLE} for outcome in outcomes)
    bad |= bool(outcomes) and all(outcome.status == NOT_AVAILABLE for outcome in outcomes)
    bad |= bool(settings.broken)
    return 1 if bad and not given["exit_zero"] else 0


run_command = make_command("run", run_benchmarks, OPTIONS, "[TARGETS]...", required=False)
