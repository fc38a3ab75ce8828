"""``torchstone repro``: measure one case of a run again."""

from __future__ import annotations

import sys
from difflib import get_close_matches

from msgspec import structs

from torchstone.cli.clicked import make_command
from torchstone.cli.display import make_display
from torchstone.cli.plain import Option
from torchstone.cli.run_summary import result_line
from torchstone.codec import decode_run
from torchstone.disk import read_text
from torchstone.errors import UsageError
from torchstone.fingerprint import differences
from torchstone.measure.runner import look_again
from torchstone.measure.session import Session
from torchstone.measure.settings import settings_of_run
from torchstone.measure.supervisor import Limits
from torchstone.model import Case, Outcome, Run, matches
from torchstone.vocabulary import PASSED, SKIPPED

OPTIONS = (
    Option(
        "--times", "times", "N", "Measure it so many times, each in a process of its own; by default once."
    ),
)


def reproduce(arguments: tuple[str, ...], *, times: str | None) -> int:
    """Measure one CASE of RUNFILE again, and show it beside what the file says.

    CASE is an id, or a name if only one case has it. Nothing is written. What
    the worker prints is shown, so TORCH_LOGS and the like are of use here.

    \b
    Examples:
      torchstone repro run.jsonl mlp
      TORCH_LOGS=graph_breaks torchstone repro run.jsonl \\
        'smoke::mlp[device=cpu,backend=inductor,...]::performance'
    """
    from torchstone.cli.quantities import parse_count  # noqa: PLC0415

    if len(arguments) != 2:
        raise UsageError("expected a run file and one case", advice="see 'torchstone repro --help'")
    path, wanted = arguments
    run = decode_run(path, read_text(path)).run
    case = find_case(run, wanted, path)
    settings = structs.replace(settings_of_run(run, path), save_outputs="")
    before = next((outcome for outcome in run.outcomes if outcome.case == case), None)
    display = make_display()
    with Session(settings.start, settings.cache, display.say) as session:
        with display.busy("loading torch"):
            session.start_workers([settings.sources[case.suite]], [case.variant.device])
            found = look_again(run, [case.suite], session)
        for difference in differences(found["environment"], run.environment):
            display.say(f"caution: not as it was: {difference}")
        if before:
            print(f"then: {result_line(before, len(case.benchmark))}")
        limits = Limits(settings.timeout, settings.memory_limit)
        again = [case] * (parse_count("--times", times) or 1)
        outcomes = []
        for each in again:
            for outcome in session.supervisor(settings, limits, display).execute([each]):
                show(outcome)
                outcomes.append(outcome)
    return 0 if all(outcome.status in {PASSED, SKIPPED} for outcome in outcomes) else 1


def show(outcome: Outcome) -> None:
    """The result, what the worker printed, and where it failed."""
    failure = outcome.failure
    log = failure.log if failure else str((outcome.extra or {}).get("log", ""))
    if log:
        sys.stderr.write(log if log.endswith("\n") else f"{log}\n")
    print(f"now:  {result_line(outcome, len(outcome.case.benchmark))}")
    if failure and failure.traceback:
        print(failure.traceback)
    for caution in (outcome.extra or {}).get("cautions", []):
        print(f"caution: {caution}")
    for cause in (outcome.extra or {}).get("graph_breaks", []):
        print(f"graph break ({cause['count']}x) at {cause['place']}: {cause['source']}")


def find_case(run: Run, wanted: str, path: str) -> Case:
    """The one case that is meant."""
    found = [case for case in run.plan if case.id == wanted] or [
        case for case in run.plan if matches(wanted, case)
    ]
    if not found:
        names = {text: case for case in run.plan for text in (case.id, case.benchmark)}
        close = get_close_matches(wanted, names, n=1, cutoff=0.4)
        hint = f"did you mean {names[close[0]].id}?" if close else f"the run has {len(run.plan)} cases"
        raise UsageError(f"{path} has no case {wanted}", advice=hint)
    if len(found) > 1:
        listed = "\n  ".join(case.id for case in found[:10])
        raise UsageError(f"{wanted} means {len(found)} cases of {path}", advice=f"say which:\n  {listed}")
    return found[0]


repro_command = make_command("repro", reproduce, OPTIONS, "RUNFILE CASE", required=True)
