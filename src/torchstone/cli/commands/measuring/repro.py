"""``torchstone repro``: measure a case of a run again, or all cases of one benchmark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from msgspec import structs

from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.consent import TRUST, trust_run
from torchstone.cli.options.plain import Option
from torchstone.cli.terminal.case_label import Labels
from torchstone.cli.terminal.run_display import make_display
from torchstone.cli.terminal.run_summary import result_line
from torchstone.core.disk import read_text
from torchstone.core.errors import UsageError, printable
from torchstone.core.fingerprint import differences, unknowns
from torchstone.core.records import Case, Outcome, Run, matches
from torchstone.core.run_file import decode_run
from torchstone.core.text.safe_text import clean_log
from torchstone.core.vocabulary import PASSED, SKIPPED
from torchstone.measure.measuring import check_artifacts, settings_of_run
from torchstone.measure.runner import check_hosts, check_stated, look_again
from torchstone.measure.session import Session
from torchstone.measure.supervisor import Limits, Supervisor

MOST_LISTED = 10
OPTIONS = (
    Option(
        "--times",
        "times",
        "N",
        "Measure each case so many times, each time in a process of its own; by default once.",
    ),
    TRUST,
)


def reproduce(arguments: tuple[str, ...], *, times: str | None, trust: bool) -> int:
    """Measure a CASE of RUNFILE again, and show it beside what the file says.

    CASE is an id, or a benchmark's name: then all its cases are measured, one
    after the other. Nothing is written. What the worker prints is shown, so
    TORCH_LOGS and the like are of use here.

    \b
    Examples:
      torchstone repro run.jsonl mlp
      TORCH_LOGS=graph_breaks torchstone repro run.jsonl \\
        'smoke::mlp[device=cpu,backend=inductor,...]::performance'
    """
    from torchstone.cli.options.quantities import parse_count  # noqa: PLC0415

    if len(arguments) != 2:
        raise UsageError("expected a run file and one case", advice="see 'torchstone repro --help'")
    path, wanted = arguments
    run = decode_run(path, read_text(path)).run
    cases = find_cases(run, wanted, path)
    settings = structs.replace(settings_of_run(run, path), save_outputs="", save_artifacts="")
    repeats = parse_count("--times", times) or 1
    check_artifacts(settings, cases)
    trusts_artifacts = trust_run(settings, [cases[0].suite], cases, trust=trust)
    display = make_display()
    with Session(settings.start, settings.cache, display.say) as session:
        session.trusts_artifacts = trusts_artifacts
        with display.busy("loading torch and looking at the machine"):
            session.start_workers(
                [settings.sources[cases[0].suite]], sorted({case.variant.device for case in cases})
            )
            found = look_again(run, [cases[0].suite], session)
            check_stated(cases, found, path)
            check_hosts(run, cases, session)
        for difference in differences(found["environment"], run.environment):
            display.say(f"caution: not as it was: {difference}")
        for unknown in unknowns(found["environment"], run.environment):
            display.say(f"caution: {unknown.text}")
        limits = Limits(settings.timeout, settings.memory_limit)
        outcomes = list(_measure(run, cases, repeats, lambda: session.supervisor(settings, limits, display)))
    return 0 if all(outcome.status in {PASSED, SKIPPED} for outcome in outcomes) else 1


def _measure(
    run: Run, cases: list[Case], repeats: int, supervisor: Callable[[], Supervisor]
) -> Iterator[Outcome]:
    """Measure cases one after the other, and show each beside what it was then."""
    labels = Labels(cases)
    before = {outcome.case: outcome for outcome in run.outcomes}
    for number, case in enumerate(cases):
        if number:
            print()
        if case in before:
            print(f"then: {result_line(before[case], len(case.benchmark), labels.of(case))}", flush=True)
        for _ in range(repeats):
            for outcome in supervisor().execute([case]):
                show(outcome, labels.of(case))
                yield outcome


def show(outcome: Outcome, label: str = "") -> None:
    """The result, what the worker printed, and where it failed."""
    failure = outcome.failure
    log = failure.log if failure else str((outcome.extra or {}).get("log", ""))
    if log:
        sys.stderr.write(f"{clean_log(log).removesuffix(chr(10))}\n")
    print(f"now:  {result_line(outcome, len(outcome.case.benchmark), label)}", flush=True)
    if failure and failure.traceback:
        print(clean_log(failure.traceback))
    for caution in outcome.cautions:
        print(f"caution: {printable(caution.text, 1000)}")
    for cause in outcome.capture.graph_breaks if outcome.capture else ():
        place, source = printable(cause.place, 1000), printable(cause.source, 1000)
        print(f"graph break ({cause.count}x) at {place}: {source}")


def find_cases(run: Run, wanted: str, path: str) -> list[Case]:
    """The one case that is meant, or all cases of the one benchmark that is."""
    found = (
        [case for case in run.plan if case.id == wanted]
        or [case for case in run.plan if case.benchmark == wanted]
        or [case for case in run.plan if matches(wanted, case)]
    )
    if not found:
        names = {text: case for case in run.plan for text in (case.id, case.benchmark)}
        close = get_close_matches(wanted, names, n=1, cutoff=0.4)
        hint = f"did you mean {names[close[0]].id}?" if close else f"the run has {len(run.plan)} cases"
        raise UsageError(f"{path} has no case {wanted}", advice=hint)
    if len({(case.suite, case.benchmark) for case in found}) > 1:
        raise _several(found, wanted, path)
    return found


def _several(found: list[Case], wanted: str, path: str) -> UsageError:
    """The error for a text that means cases of several benchmarks, with a line for each case."""
    error = UsageError(f"{wanted} means {len(found)} cases of {path}, and not all are of one benchmark")
    lines = ["say which:", *(printable(case.id, 1000) for case in found[:MOST_LISTED])]
    if len(found) > MOST_LISTED:
        lines.append(f"... and {len(found) - MOST_LISTED} more")
    error.advice = "\n    ".join(lines)  # lines of our own: what an error is given is put on one line
    return error


repro_command = make_command("repro", reproduce, OPTIONS, "RUNFILE CASE", required=True)
