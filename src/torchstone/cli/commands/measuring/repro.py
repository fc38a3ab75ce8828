"""``torchstone repro``: measure a case of a run file again, or all cases of a benchmark."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from torchstone.api.repeating.repro import Repetition, ReproRequest, open_repro, read_run_file
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.consent import TRUST, ask
from torchstone.cli.options.plain import Option
from torchstone.cli.options.quantities import parse_count
from torchstone.cli.terminal.run_display import make_display
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Outcome
from torchstone.core.text.safe_text import clean_log
from torchstone.core.vocabulary import PASSED, SKIPPED
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
    request = ReproRequest(file=path, case=wanted, times=parse_count("--times", times) or 1, trust=trust)
    reading = read_run_file(request.file)
    with open_repro(request, reading, make_display(), ask) as repetition:
        outcomes = list(_measure(repetition))
    return 0 if all(outcome.status in {PASSED, SKIPPED} for outcome in outcomes) else 1


def _measure(repetition: Repetition) -> Iterator[Outcome]:
    """Measure cases one after another, and show each next to its old result."""
    labels = Labels(repetition.cases)
    for number, case in enumerate(repetition.cases):
        if number:
            print()
        if before := repetition.before(case):
            print(f"then: {result_line(before, labels.of(case))}", flush=True)
        for outcome in repetition.measure(case):
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
