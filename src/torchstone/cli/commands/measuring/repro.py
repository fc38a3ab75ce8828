"""``torchstone repro``: measure a case of a run file again, or all cases of a benchmark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from msgspec import structs

from torchstone.api.case_lookup import find_cases
from torchstone.api.measuring.consent import trust_run
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.consent import TRUST, ask
from torchstone.cli.options.plain import Option
from torchstone.cli.options.quantities import parse_count
from torchstone.cli.terminal.run_display import make_display
from torchstone.core.disk import read_text
from torchstone.core.environments import differences, unknowns
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, Outcome, Run
from torchstone.core.run_file import decode_run
from torchstone.core.text.safe_text import clean_log
from torchstone.core.vocabulary import PASSED, SKIPPED
from torchstone.formats import require_run_file
from torchstone.measure.measuring import check_artifacts, settings_of_run
from torchstone.measure.runner import check_axes_stated, check_hosts, environment_of, survey_again
from torchstone.measure.session import Session
from torchstone.measure.supervisor import Supervisor, WorkerLimits
from torchstone.measure.survey_replies import check_devices
from torchstone.reporting.dialects.case_label import Labels
from torchstone.reporting.run_text.case_lines import result_line

OPTIONS = (
    Option(
        "--times",
        "times",
        "N",
        "Measure each case N times, each time in a new process (default: 1).",
    ),
    TRUST,
)


def reproduce(arguments: tuple[str, ...], *, times: str | None, trust: bool) -> int:
    """Measure a CASE of RUNFILE again, and compare with the file.

    CASE is an id, or the name of a benchmark, to measure all its cases one
    after another. Nothing is written. The output of the worker is shown, so
    that TORCH_LOGS and similar variables are useful here.

    \b
    Examples:
      torchstone repro run.jsonl mlp
      TORCH_LOGS=graph_breaks torchstone repro run.jsonl \\
        'smoke::mlp[device=cpu,backend=inductor,...]::performance'
    """
    if len(arguments) != 2:
        raise UsageError("expected a run file and one case", advice="see 'torchstone repro --help'")
    path, wanted = arguments
    text = read_text(path)
    require_run_file(path, text, "give a file that 'torchstone run' has written")
    run = decode_run(path, text).run
    cases = find_cases(run, wanted, path)
    settings = structs.replace(settings_of_run(run, path), save_outputs="", save_artifacts="")
    repeats = parse_count("--times", times) or 1
    check_artifacts(settings, cases)
    display = make_display()
    trusts_artifacts = trust_run(settings, [cases[0].suite], cases, trust=trust, ask=ask, say=display.say)
    with Session(settings.start, settings.cache, display.say) as session:
        session.trusts_artifacts = trusts_artifacts
        with display.busy("loading torch and inspecting the machine"):
            session.start_workers(
                [settings.sources[cases[0].suite]], sorted({case.variant.device for case in cases})
            )
            found = survey_again(run, [cases[0].suite], session)
            check_devices(sorted({case.variant.device for case in cases}), found)
            check_axes_stated(cases, found, path)
            check_hosts(run, cases, session)
        for difference in differences(environment_of(found, run.settings), run.environment):
            display.say(f"caution: changed since the run: {difference}")
        for unknown in unknowns(environment_of(found, run.settings), run.environment):
            display.say(f"caution: {unknown}")
        limits = WorkerLimits(settings.timeout, settings.memory_limit)
        outcomes = list(_measure(run, cases, repeats, lambda: session.supervisor(settings, limits, display)))
    return 0 if all(outcome.status in {PASSED, SKIPPED} for outcome in outcomes) else 1


def _measure(
    run: Run, cases: list[Case], repeats: int, supervisor: Callable[[], Supervisor]
) -> Iterator[Outcome]:
    """Measure cases one after another, and show each next to its old result."""
    labels = Labels(cases)
    before = {outcome.case: outcome for outcome in run.outcomes}
    for number, case in enumerate(cases):
        if number:
            print()
        if case in before:
            print(f"then: {result_line(before[case], labels.of(case))}", flush=True)
        for _ in range(repeats):
            for outcome in supervisor().execute([case]):
                show(outcome, labels.of(case))
                yield outcome


def show(outcome: Outcome, label: str = "") -> None:
    """Print the result, the output of the worker, and the traceback of a failure."""
    failure = outcome.failure
    passed_log = outcome.details.log if outcome.details else ""
    log = failure.log if failure else passed_log
    if log:
        sys.stderr.write(f"{clean_log(log).removesuffix(chr(10))}\n")
    print(f"now:  {result_line(outcome, label)}", flush=True)
    if failure and failure.traceback:
        print(clean_log(failure.traceback))
    for caution in outcome.cautions:
        print(f"caution: {printable(caution.text, 1000)}")
    for cause in outcome.capture.graph_breaks if outcome.capture else ():
        place, source = printable(cause.place, 1000), printable(cause.source, 1000)
        print(f"graph break ({cause.count}x) at {place}: {source}")


repro_command = make_command("repro", reproduce, OPTIONS, "RUNFILE CASE", required=True)
