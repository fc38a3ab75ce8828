"""``torchstone run``: measure benchmarks in isolated workers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from torchstone.api.keeping.record import try_store
from torchstone.api.measuring.exports import write_run_files
from torchstone.api.measuring.preparation import limits_of
from torchstone.api.measuring.run import (
    FILE_LOST,
    CheckPlan,
    Execution,
    MeasuredRun,
    exit_code_of,
    open_run,
    plan_run,
    require_targets,
)
from torchstone.api.measuring.run_request import RESUMABLE, RunRequest
from torchstone.api.measuring.run_rules import may_scale, refuse_without
from torchstone.api.requests import command_words
from torchstone.api.sources import names_of
from torchstone.cli.commands.keeping.record_along import record_along, require_revision
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.consent import ask
from torchstone.cli.options.requests import NOT_GIVEN, make_request
from torchstone.cli.options.run_options import OPTIONS, make_run_request
from torchstone.cli.terminal.plan_table import print_plan
from torchstone.cli.terminal.run_display import Display, make_display
from torchstone.cli.terminal.run_summary import print_cache_reasons
from torchstone.cli.terminal.show import print_report
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.records import Run
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import join_words
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Probe
from torchstone.measure.hosts.host_group import JobPosition, wait_for_leader
from torchstone.measure.hosts.host_job import MultiHostJob, follow, join, own_position
from torchstone.measure.journal import Journal
from torchstone.measure.measuring import Settings
from torchstone.measure.session import Session
from torchstone.measure.supervisor import WorkerLimits
from torchstone.measure.targets import resolve_targets

INTERRUPTED = 130
_MAY_RESUME = RESUMABLE | {"explain", "exit_zero", "record", "store"}


class Showing(Struct, frozen=True):
    """Options of the output, the exit code, and recording."""

    explain: bool = False
    dry_run: bool = False
    exit_zero: bool = False
    record: bool = False
    store: str = ""


class Finished(Struct, frozen=True):
    """How a run ended: exit code, run file (not the requested one if that was lost), and result unless it was interrupted."""

    code: int
    path: str = ""
    result: MeasuredRun | None = None


def run_benchmarks(targets: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Measure suites, files or folders of benchmarks.

    Compares torch.compile with eager mode. TARGETS are suites (see 'torchstone
    list'), bench_*.py files with @torchstone.benchmark functions, files written
    for PyTorch's pr_time_benchmarks, or folders of these; TARGET::NAME selects
    one benchmark. Every case runs in its own process, and its result is on disk
    before the next one starts.

    \b
    Examples:
      torchstone run bench_mine.py
      torchstone run smoke --mode inference,training -o run.jsonl
      torchstone run huggingface --size small -k Bert --device cpu
      torchstone run --resume run.jsonl
      torchstone run smoke --baseline main.jsonl --decide --decide-within 10m
      torchstone run smoke --record

    \b
    Exit codes:
      0  every case passed; with --baseline: nothing blocks
      1  a case did not pass, or one of several files cannot be imported; with
         --baseline: a verdict blocks
      2  bad input or usage
      3  nothing can be measured here; or the run file was removed, replaced or
         changed during the run, and all results are in a new file next to it
    """
    _refuse_changes_of_resumed(values)
    request = make_run_request(targets, values)
    return run_to_file(request, make_request(Showing, OPTIONS, values)).code


def _refuse_changes_of_resumed(values: Mapping[str, Any]) -> None:
    """Refuse options that a resumed run takes from its file."""
    if not values["resume"]:
        return
    for option in OPTIONS:
        if option.name not in _MAY_RESUME and values[option.name] not in NOT_GIVEN:
            raise UsageError(
                f"{option.flags[0]} cannot be used with --resume, which takes its settings from the file"
            )


def run_to_file(request: RunRequest, showing: Showing, check_plan: CheckPlan = lambda _: None) -> Finished:
    """Measure and print as 'torchstone run' does. ``check_plan`` may raise an error before anything is measured."""
    require_targets(request)
    position = own_position() if may_scale(request) else None
    if position is None:
        return _run(request, showing, None, check_plan)
    if position.local_rank:
        return Finished(wait_for_leader(position))
    return _run_in_job(position, request, showing, check_plan)


def _run_in_job(
    position: JobPosition, request: RunRequest, showing: Showing, check_plan: CheckPlan
) -> Finished:
    """Lead the part of a job on this host; on the first host, that is the run itself."""
    with join(position, request.collective_timeout, resolve_targets(request.targets).sources) as job:
        finished = Finished(0)
        try:
            is_first = position.index == 0
            finished = _run(request, showing, job, check_plan) if is_first else _follow(job, request)
            job.code = finished.code
        except (
            TorchstoneError
        ) as error:  # printed here: once the other processes know, torchrun ends this one
            sys.stderr.write(f"error: {error}\n")
            job.code = error.exit_code
        sys.stdout.flush()
        sys.stderr.flush()
        if job.has_lost_hosts():  # after a success, torchrun would wait for them for minutes
            job.code = job.code or 1
        return Finished(job.code, finished.path, finished.result)


def _follow(job: MultiHostJob, request: RunRequest) -> Finished:
    """Take part in the run on another host."""
    display = make_display()
    display.say(f"{job.names[job.position.index]}: taking part in the run on {job.names[0]}")
    settings = Settings(**limits_of(request))
    with Session("auto", "cold", display.say) as session:
        session.start_workers([])
        follow(job, session, WorkerLimits(settings.timeout, settings.memory_limit), display)
    return Finished(0)


def _run(request: RunRequest, showing: Showing, job: MultiHostJob | None, check_plan: CheckPlan) -> Finished:
    if showing.explain and request.probes:
        refuse_without("--explain", (Probe.COMPILE_CACHE,), request.probes)
    display = make_display()
    if showing.dry_run:
        planned = plan_run(request, display, job)
        _refuse_unexplained(planned, request, showing)
        print_plan(planned)
        return Finished(0)

    if showing.record:
        try_store(showing.store)

    def check(planned: Run) -> None:
        _refuse_unexplained(planned, request, showing)
        if showing.record:
            require_revision(planned)
        check_plan(planned)

    with open_run(request, display, ask=ask, check_plan=check, job=job) as execution:
        try:
            result = execution.measure_all()
        except KeyboardInterrupt:
            return _say_stopped(execution, request, showing)
        return _finish(execution, result, request, showing, display)


def _refuse_unexplained(planned: Run, request: RunRequest, showing: Showing) -> None:
    """Raise an error for --explain if no cache is measured."""
    if showing.explain and not request.shard:
        refuse_without("--explain", (Probe.COMPILE_CACHE,), {case.probe for case in planned.plan})


def _finish(
    execution: Execution, result: MeasuredRun, request: RunRequest, showing: Showing, display: Display
) -> Finished:
    """Print the summary, and write the other files."""
    if not execution.was_finished:
        display.summarise(result.run, result.path)
    if showing.explain:
        print_cache_reasons(result.outcomes)
    write_run_files(result.run, request, display.say)
    say_broken(result.broken)
    code = exit_code_of(result.outcomes, result.broken)
    if result.check:
        print()
        print_report(result.check.render(), "text")
        code = result.check.exit_code or int(bool(result.broken))
    code = 0 if showing.exit_zero else code
    if showing.record:
        print()
        record_along([result.path], showing.store, repository=result.run.settings.folder)
    return Finished(say_losses([execution.journal]) or code, result.path, result)


def _say_stopped(execution: Execution, request: RunRequest, showing: Showing) -> Finished:
    """Report progress, and the command that resumes the run."""
    journal, total, done = execution.journal, len(execution.run.plan), len(execution.outcomes)
    path = journal.path
    if journal.has_put_back:
        sys.stderr.write(f"\nstopped before the first case was done: {path} is as it was\n")
        return Finished(INTERRUPTED, path)
    where = f"{done} of {total} cases are in {path}, {total - done} are left"
    if done == total and request.decide:
        where = f"{path} has all {count_of(total, 'case')}, but not all of them are decided"
    sys.stderr.write(
        f"\nstopped: {where}; resume with\n  {join_words(_resume_arguments(path, request, showing))}\n"
    )
    if journal.previous:
        sys.stderr.write(f"the run that {path} contained before is in {journal.previous.aside}\n")
    say_losses([journal])
    return Finished(INTERRUPTED, path)


def say_losses(journals: Sequence[Journal]) -> int:
    """Report run files that were lost while they were written. Return the exit code for that, or 0."""
    losses = [journal.loss for journal in journals if journal.loss]
    for loss in losses:
        sys.stdout.flush()
        sys.stderr.write(f"\nERROR: {loss.problem}\n  all results are in {loss.new_path}\n")
    return FILE_LOST if losses else 0


def say_broken(files: Sequence[str]) -> None:
    """List the files that could not be imported again, at the end of the output."""
    if files:
        sys.stdout.flush()
        listed = "".join(f"  {each}\n" for each in files)
        sys.stderr.write(f"\n{count_of(len(files), 'file')} could not be imported:\n{listed}")


def _resume_arguments(path: str, request: RunRequest, showing: Showing) -> list[str]:
    """Return the command that resumes the run and writes the same files."""
    further = command_words(
        ("--csv", request.csv),
        ("--v3", request.v3),
        ("--ddp-json", request.ddp_json),
        ("--trust", request.trust),
        ("--raw-cells", request.raw_cells),
        ("--baseline", names_of(request.baselines)),
        ("--policy", request.policy),
        ("--decide", request.decide),
        ("--decide-within", f"{request.decide_within:g}s" if request.decide_within else None),
        ("--explain", showing.explain),
        ("--exit-zero", showing.exit_zero),
        ("--record", showing.record),
        ("--store", redact(showing.store)),
    )
    return ["torchstone", "run", "--resume", path, *further]


run_command = make_command("run", run_benchmarks, OPTIONS, "[TARGETS]...", required=False)
