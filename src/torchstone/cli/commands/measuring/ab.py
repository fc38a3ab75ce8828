"""``torchstone ab``: whether B is slower than A, on this machine, now."""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Any

from msgspec import structs

from torchstone.cli.commands.measuring.run import INTERRUPTED, say_losses
from torchstone.cli.options.ab_options import (
    AB_STYLES,
    OPTIONS,
    make_ab_policy,
    make_ab_request,
    make_exemptions,
    make_settings,
)
from torchstone.cli.options.clicked import make_command
from torchstone.cli.terminal.ab_display import AbDisplay, cautions_of, make_ab_display, some_of
from torchstone.cli.terminal.ab_result import AbResult, exit_code, show_result
from torchstone.cli.terminal.run_display import clock_text
from torchstone.cli.terminal.run_outputs import refuse_taken
from torchstone.cli.terminal.show import parse_reports
from torchstone.core.errors import UsageError
from torchstone.core.fingerprint import differences, unknowns
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import join_words
from torchstone.core.text.units import count_of
from torchstone.gate.policy import Policy
from torchstone.gate.tally import Exemptions
from torchstone.measure.ab.contest import METRICS, AbSettings, Contest
from torchstone.measure.ab.experiment import PairRunner, are_forked_apart, decide, make_contests, write
from torchstone.measure.ab.judging import find_unmatched, judge_contests
from torchstone.measure.ab.sides import Side, forked_alone, open_sides, parse_spec
from torchstone.measure.journal import Journal, create_journal
from torchstone.measure.launcher import CannotMeasureError
from torchstone.measure.runner import RUNS
from torchstone.measure.supervisor import Limits
from torchstone.worker.process_tree import terminated_as_interrupted, undisturbed

SECONDS_A_CASE = 60.0
SECONDS_OF_RENEWING = 60.0  # for all cases together: new zygotes before every round of pairs


def compare_sides(targets: tuple[str, ...], **given: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Decide whether B is slower than A, on this machine, now.

    TARGETS are what 'torchstone run' takes. A worker of A and a worker of B
    take turns, pair after pair, until each case is a regression, an
    improvement, or the same (within the margin), or the budget is spent.

    \b
    Examples:
      torchstone ab smoke --a rev=HEAD~1 --b rev=HEAD
      torchstone ab bench_mine.py --b python=../other-torch/.venv
      torchstone ab bench_mine.py --b env:TORCHINDUCTOR_CPP_WRAPPER=1
      torchstone ab smoke -k mlp --a mode=default --b mode=max-autotune

    Exit codes: 0 no regression, 1 a regression, or B fails where A does not,
    2 bad input or usage, 3 nothing could be measured, or a run file was
    removed, replaced or changed meanwhile.
    """
    if not targets:
        raise UsageError(
            "what is to be measured?", advice="name a suite or a file; 'torchstone list' shows the suites"
        )
    specs = (parse_spec("--a", given["a"]), parse_spec("--b", given["b"]))
    _check_outputs(given)
    request = make_ab_request(targets, given, specs)
    settings = make_settings(given)
    policy = make_ab_policy(given)
    gate = policy, make_exemptions(given, policy)
    given = {**given, "a": specs[0].texts, "b": specs[1].texts, "seed": str(settings.seed)}
    display = make_ab_display(is_result_printed=(given["style"] or "text") == "text" or bool(given["output"]))
    try:
        with ExitStack() as stack:
            stack.enter_context(terminated_as_interrupted())
            sides = stack.enter_context(open_sides(specs, request, display.say))
            return _measure(sides, settings, gate, targets, given, display)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped before the first pair; nothing was written\n")
        return INTERRUPTED


def _check_outputs(given: dict[str, Any]) -> None:
    """Refuse files that cannot be written, or would overwrite each other, before anything is measured."""
    for name in ("output_a", "output_b"):
        refuse_taken(given[name])
    named: dict[str, str] = {}
    paths = [
        ("--output-a", given["output_a"]),
        ("--output-b", given["output_b"]),
        ("--output", given["output"]),
    ]
    paths += [(f"--report {style}", path) for style, path in parse_reports(given["reports"], AB_STYLES)]
    for flag, path in paths:
        if path:
            other = named.setdefault(os.path.realpath(path), flag)
            if other != flag:
                raise UsageError(f"{other} and {flag} both name {path}", advice="give each its own")


def _measure(
    sides: Sequence[Side],
    settings: AbSettings,
    gate: tuple[Policy, Exemptions],
    targets: tuple[str, ...],
    given: dict[str, Any],
    display: AbDisplay,
) -> int:
    """Load both sides, measure, and say what came of it."""
    for side in sides:
        with display.busy(f"loading torch for {side.name} ({' '.join(side.spec.texts) or 'as things are'})"):
            side.load()
    for side in forked_alone(sides):
        with display.busy(f"loading torch for {side.name} again: workers of the other side cannot be forked"):
            side.session.spawn_instead()
            side.load()
    contests, cautions = make_contests(sides, settings)
    if not settings.budget:
        renewing = SECONDS_OF_RENEWING if are_forked_apart(sides) else 0
        settings = structs.replace(settings, budget=SECONDS_A_CASE * len(contests) + renewing)
    _say_first(sides, settings, cautions, display)
    of_run = sides[0].run.settings
    limits = Limits(of_run.get("timeout", 1800.0), of_run.get("memory_limit"))
    runner = PairRunner(sides, settings, limits, display)
    with ExitStack() as stack:
        journals = _journals(stack, sides, contests, settings, _command(targets, given), given, display)
        try:
            return _decide(runner, contests, journals, gate, targets, given, display)
        except UsageError:  # a side that is not what it should be: nothing that was measured means anything
            for journal in journals:
                journal.discard()
            raise


def _say_first(
    sides: Sequence[Side], settings: AbSettings, cautions: Sequence[str], display: AbDisplay
) -> None:
    """What a person should know before the first verdict."""
    a, b = sides
    display.say(f"seed {settings.seed}, at most {clock_text(settings.budget)}")
    for difference in differences(b.run.environment, a.run.environment):
        display.say(f"B differs from A: {difference}")
    own = [caution for side in sides for caution in side.session.cautions]
    own += unknowns(b.run.environment, a.run.environment)
    if _are_the_same(a, b):
        own.append("A and B are the same thing: this shows how often chance alone makes a verdict")
    for caution in dict.fromkeys((*cautions, *own)):
        display.say(f"caution: {caution}")


def _are_the_same(a: Side, b: Side) -> bool:
    """Whether two sides differ in nothing but the name of a commit."""
    if a.tree and b.tree and a.tree.commit == b.tree.commit:
        return structs.replace(a.spec, revision="", texts=()) == structs.replace(
            b.spec, revision="", texts=()
        )
    return a.spec == b.spec


def _journals(
    stack: ExitStack,
    sides: Sequence[Side],
    contests: Sequence[Contest],
    settings: AbSettings,
    command: str,
    given: dict[str, Any],
    display: AbDisplay,
) -> list[Journal]:
    """The two run files, with everything that is known before the first pair; if there cannot be both, there is neither."""
    plan = tuple(contest.case for contest in contests)
    journals: list[Journal] = []
    for side in sides:
        letter = side.name.lower()
        pairing = {
            "side": side.name,
            "spec": list(side.spec.texts),
            "session": settings.session,
            "seed": settings.seed,
            "metric": METRICS[settings.metric],
            "margin": settings.margin,
            "alpha": settings.alpha,
            "command": command,
        }
        of_run = {**side.run.settings, "pairing": pairing}
        run = structs.replace(side.run, id=f"{settings.session}-{letter}", plan=plan, settings=of_run)
        path = given[f"output_{letter}"] or os.path.join(RUNS, f"{run.id}.jsonl")
        try:
            journal = create_journal(path, run, command, display.say)
        except BaseException:
            for each in journals:
                each.discard()
            raise
        journals.append(stack.enter_context(closing(journal)))
    return journals


def _decide(
    runner: PairRunner,
    contests: Sequence[Contest],
    journals: Sequence[Journal],
    gate: tuple[Policy, Exemptions],
    targets: tuple[str, ...],
    given: dict[str, Any],
    display: AbDisplay,
) -> int:
    began = time.monotonic()

    def repro(contest: Contest) -> str:
        return _command(targets, {**given, "only": (_pattern(contest),)})

    try:
        with (
            display.comparing(contests, runner.settings),
            closing(decide(contests, runner, journals, repro)) as decided,
        ):
            for contest in decided:
                display.measured(contest)
        result = _judge(contests, runner, journals, gate, repro, time.monotonic() - began, display)
        show_result(result, display, given)
    except (KeyboardInterrupt, CannotMeasureError) as stopped:
        with undisturbed():
            for contest in contests:
                if not contest.verdict and contest.pairs:
                    write(contest, journals, repro)
            for journal in journals:
                journal.secure()
        code = _say_stopped(contests, journals, display)
        if isinstance(stopped, CannotMeasureError):
            raise
        return code
    code = exit_code(result, display, strict=given["strict"])
    return say_losses(journals) or code


def _judge(
    contests: Sequence[Contest],
    runner: PairRunner,
    journals: Sequence[Journal],
    gate: tuple[Policy, Exemptions],
    repro: Callable[[Contest], str],
    seconds: float,
    display: AbDisplay,
) -> AbResult:
    """Everything that was measured, judged under policy and quarantine."""
    a, b = runner.sides
    files = journals[0].path, journals[1].path
    notes = cautions_of(contests, runner, display)
    judgement = judge_contests(
        contests,
        find_unmatched(runner.sides, contests),
        runner.settings,
        *gate,
        repro,
        files,
        differences(b.run.environment, a.run.environment),
        [note.removeprefix("caution: ") for note in notes],
    )
    return AbResult(runner.sides, contests, runner.settings, judgement, files, repro, seconds, notes)


def _pattern(contest: Contest) -> str:
    """What --only has to be told to mean a case: its id, where the backend may be any if the sides differ in it."""
    a, b = contest.planned
    if a.id == b.id:
        return a.id
    return glob.escape(a.id).replace(f"backend={a.variant.backend}", "backend=*")


def _say_stopped(contests: Sequence[Contest], journals: Sequence[Journal], display: AbDisplay) -> int:
    """What is decided and what is not, after Ctrl-C."""
    left = [display.name(contest.case) for contest in contests if not contest.verdict]
    undecided = f"{count_of(len(left), 'case')} of {len(contests)} undecided ({some_of(left)})"
    sys.stderr.write(
        f"\nstopped: {undecided if left else 'everything was decided'}; "
        f"what was measured is in {' and '.join(journal.path for journal in journals)}\n"
    )
    say_losses(journals)
    return INTERRUPTED


_NOT_REPEATED = {"output_a", "output_b", "output", "strict", "style", "reports"}


def _command(targets: tuple[str, ...], given: dict[str, Any]) -> str:
    """The command that measures this again."""
    words = ["torchstone", "ab", *targets]
    for option in OPTIONS:
        value = given[option.name]
        if not value or option.name in _NOT_REPEATED:
            continue
        values = value if isinstance(value, tuple) else (value,)
        words += [
            word for each in values for word in ((option.flag, each) if option.metavar else (option.flag,))
        ]
    return join_words(map(redact, words))


ab_command = make_command("ab", compare_sides, OPTIONS, "[TARGETS]...", required=False)
