"""``torchstone ab``: whether B is slower than A, on this machine, now."""

from __future__ import annotations

import glob
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from torchstone.cli.commands.measuring.run import INTERRUPTED, say_losses
from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.plain import FILE, RUN_FILE, Option
from torchstone.cli.options.quantities import parse_count, parse_seconds, parse_share
from torchstone.cli.options.run_options import OPTIONS as RUN_OPTIONS
from torchstone.cli.options.run_options import make_request
from torchstone.cli.terminal.ab_display import (
    AbDisplay,
    cautions_of,
    costs_of,
    effect_text,
    headline_of,
    make_ab_display,
    print_result,
    some_of,
    sort_by_verdict,
)
from torchstone.cli.terminal.run_display import clock_text
from torchstone.cli.terminal.run_outputs import refuse_taken
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution, merged
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError, printable
from torchstone.core.fingerprint import differences, unknowns
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import join_words
from torchstone.core.text.units import count_of, format_share
from torchstone.core.vocabulary import Probe
from torchstone.measure.ab.experiment import (
    METRICS,
    Contest,
    Match,
    Terms,
    are_forked_apart,
    decide,
    make_contests,
    write,
)
from torchstone.measure.ab.sides import KEYS, Side, Spec, forked_alone, open_sides, parse_spec
from torchstone.measure.journal import Journal, create_journal
from torchstone.measure.launcher import CannotMeasureError
from torchstone.measure.runner import RUNS, Request
from torchstone.measure.supervisor import Limits
from torchstone.reporting.html.ab_page import AbPage, AbRow, render_ab
from torchstone.worker.process_tree import terminated_as_interrupted, undisturbed

SECONDS_A_CASE = 60.0
SECONDS_OF_RENEWING = 60.0  # for all cases together: new zygotes before every round of pairs
NO_COMPILER = "none"
_OF_EAGER = (
    "eager",
    "eager_noexcept",
    "eager_debug",
    "aot_eager",
    "aot_eager_decomp_partition",
    "cudagraphs",
)
_IGNORING_MODES = {NO_COMPILER, *_OF_EAGER}
_SHARED = (
    "devices", "backends", "modes", "dtypes", "dynamics", "batch_sizes", "size", "compile_mode", "compile_options", "fullgraph", "filters", "exclusions",
    "only", "threads", "compile_threads", "timeout", "memory_limit", "start", "imports",
)  # fmt: skip
_OTHER_HELP = {"threads": "Threads for torch, and cores that both sides take turns on; by default 1."}

OPTIONS = (
    Option("--a", "a", "KEY=VALUE", f"What A is: {KEYS}. Repeatable; nothing means: as things are.", multiple=True),
    Option("--b", "b", "KEY=VALUE", "What B is, in the same words.", multiple=True),
    Option("--metric", "metric", "METRIC", "latency: the time of a compiled call. compile: the time of a cold compile.", choices=tuple(METRICS)),
    Option("--margin", "margin", "SHARE", "How much of a change matters; by default 2%."),
    Option("--alpha", "alpha", "SHARE", "How often a verdict may be wrong; by default 0.25%."),
    Option("--budget", "budget", "TIME", "Stop measuring after this long, whatever is undecided; by default 60s a case."),
    Option("--min-trials", "min_trials", "N", "No verdict before so many pairs; by default as few as can decide, which are 10 at the default alpha."),
    Option("--seed", "seed", "N", "For the random order of sides; by default another one every time."),
    Option("--recompile", "recompile", "", "Have every trial compile from nothing: by default, those of a side share a cache."),
    Option("--strict", "strict", "", "Exit with 1 if anything is inconclusive."),
    Option("--output-a", "output_a", "FILE", "The run file of A; by default a dated name in .torchstone/runs.", writes=RUN_FILE),
    Option("--output-b", "output_b", "FILE", "The run file of B.", writes=RUN_FILE),
    Option("--output", "output", "FILE", "Also write the result as an HTML page.", short="-o", writes=FILE),
    *(structs.replace(each, help=_OTHER_HELP.get(each.name, each.help)) for each in RUN_OPTIONS if each.name in _SHARED),
)  # fmt: skip


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
    terms = make_terms(given)
    given = {**given, "a": specs[0].texts, "b": specs[1].texts, "seed": str(terms.seed)}
    display = make_ab_display()
    try:
        with ExitStack() as stack:
            stack.enter_context(terminated_as_interrupted())
            sides = stack.enter_context(open_sides(specs, request, display.say))
            return _measure(sides, terms, targets, given, display)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped before the first pair; nothing was written\n")
        return INTERRUPTED


def _check_outputs(given: dict[str, Any]) -> None:
    """Refuse files that cannot be written, or would overwrite each other, before anything is measured."""
    for name in ("output_a", "output_b"):
        refuse_taken(given[name])
    named: dict[str, str] = {}
    for name, flag in (("output_a", "--output-a"), ("output_b", "--output-b"), ("output", "--output")):
        if given[name]:
            other = named.setdefault(os.path.realpath(given[name]), flag)
            if other != flag:
                raise UsageError(f"{other} and {flag} both name {given[name]}", advice="give each its own")


def make_ab_request(targets: tuple[str, ...], given: dict[str, Any], specs: Sequence[Spec]) -> Request:
    """What is measured of both sides: as 'torchstone run' would, with what differs left open."""
    for name, option, is_open in (
        ("backends", "--backend", any(spec.backend for spec in specs)),
        ("compile_mode", "--compile-mode", any(spec.compile_mode or spec.options for spec in specs)),
        ("compile_options", "--option", any(spec.compile_mode or spec.options for spec in specs)),
    ):
        if given[name] and is_open:
            raise UsageError(
                f"{option} is for both sides, and one of them has its own",
                advice="say it of each, with --a and --b",
            )
    unset = {each.name: () if each.multiple else None if each.metavar else False for each in RUN_OPTIONS}
    shared = {name: given[name] for name in _SHARED}
    request = make_request(targets, {**unset, **shared, "probes": (Probe.PERFORMANCE.value,)})
    _check_modes(specs, request.axes.backends)
    if given["metric"] == "compile" and NO_COMPILER in (
        *request.axes.backends,
        *(spec.backend for spec in specs),
    ):
        raise UsageError(
            f"the backend {NO_COMPILER} compiles nothing, so --metric compile has nothing to measure"
        )
    # One thread unless more are asked for: both sides take turns on as many cores, and one core is the quietest.
    return structs.replace(
        request, settings=structs.replace(request.settings, threads=request.settings.threads or 1)
    )


def _check_modes(specs: Sequence[Spec], backends: Sequence[str]) -> None:
    """Refuse a mode or an option of torch.compile for a side whose backend looks at neither: it would be compared with itself."""
    for option, spec in zip(("--a", "--b"), specs, strict=True):
        used = {spec.backend} if spec.backend else set(backends)
        if (spec.compile_mode or spec.options) and (ignoring := sorted(used & _IGNORING_MODES)):
            said = f"mode={spec.compile_mode}" if spec.compile_mode else f"option:{spec.options[0][0]}"
            raise UsageError(
                f"{option} {said}: the backend {ignoring[0]} has no use for it",
                advice="leave it out, or choose a backend that compiles, such as inductor",
            )


def make_terms(given: dict[str, Any]) -> Terms:
    """How the two are compared; a budget of 0 is still to be chosen, when the cases are known."""
    usual = Terms()
    seed = given["seed"]
    if seed is not None and not (seed.isascii() and seed.isdigit() and len(seed) < 16):
        raise UsageError(f"--seed {seed}: expected a whole number from 0")
    return Terms(
        given["metric"] or usual.metric,
        parse_share("--margin", given["margin"]) or usual.margin,
        parse_share("--alpha", given["alpha"]) or usual.alpha,
        parse_seconds("--budget", given["budget"]) or 0.0,
        parse_count("--min-trials", given["min_trials"]) or usual.fewest_pairs,
        int(seed) if seed is not None else secrets.randbelow(2**31),
        f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}",
        given["recompile"],
    )


def _measure(
    sides: Sequence[Side], terms: Terms, targets: tuple[str, ...], given: dict[str, Any], display: AbDisplay
) -> int:
    """Load both sides, measure, and say what came of it."""
    for side in sides:
        with display.busy(f"loading torch for {side.name} ({' '.join(side.spec.texts) or 'as things are'})"):
            side.load()
    for side in forked_alone(sides):
        with display.busy(f"loading torch for {side.name} again: workers of the other side cannot be forked"):
            side.session.spawn_instead()
            side.load()
    contests, cautions = make_contests(sides, terms)
    if not terms.budget:
        renewing = SECONDS_OF_RENEWING if are_forked_apart(sides) else 0
        terms = structs.replace(terms, budget=SECONDS_A_CASE * len(contests) + renewing)
    _say_first(sides, terms, cautions, display)
    settings = sides[0].run.settings
    limits = Limits(settings.timeout, settings.memory_limit)
    match = Match(sides, terms, limits, display)
    with ExitStack() as stack:
        journals = _journals(stack, sides, contests, terms, _command(targets, given), given, display)
        try:
            return _decide(match, contests, journals, targets, given, display)
        except UsageError:  # a side that is not what it should be: nothing that was measured means anything
            for journal in journals:
                journal.discard()
            raise


def _say_first(sides: Sequence[Side], terms: Terms, cautions: Sequence[Caution], display: AbDisplay) -> None:
    """What a person should know before the first verdict."""
    a, b = sides
    display.say(f"seed {terms.seed}, at most {clock_text(terms.budget)}")
    for difference in differences(b.run.environment, a.run.environment):
        display.say(f"B differs from A: {difference}")
    own = [caution for side in sides for caution in side.session.cautions]
    own += unknowns(b.run.environment, a.run.environment)
    if _are_the_same(a, b):
        own.append(make_caution(CautionKind.SIDES_ARE_EQUAL))
    for caution in merged((*cautions, *own)):
        display.say(f"caution: {caution.text}")


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
    terms: Terms,
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
            "session": terms.session,
            "seed": terms.seed,
            "metric": METRICS[terms.metric],
            "margin": terms.margin,
            "alpha": terms.alpha,
            "command": command,
        }
        settings = structs.replace(side.run.settings, pairing=pairing)
        run = structs.replace(side.run, id=f"{terms.session}-{letter}", plan=plan, settings=settings)
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
    match: Match,
    contests: Sequence[Contest],
    journals: Sequence[Journal],
    targets: tuple[str, ...],
    given: dict[str, Any],
    display: AbDisplay,
) -> int:
    sides, terms = match.sides, match.terms
    began = time.monotonic()

    def repro(contest: Contest) -> str:
        return _command(targets, {**given, "only": (_pattern(contest),)})

    try:
        with display.comparing(contests, terms), closing(decide(contests, match, journals, repro)) as decided:
            for contest in decided:
                display.measured(contest)
        notes = cautions_of(contests, match, display)
        print_result(contests, display, terms, time.monotonic() - began)
        for note in notes:
            print(note)
        print(f"wrote {' and '.join(printable(journal.path) for journal in journals)}")
        if given["output"]:
            page = _page(sides, contests, terms, display, repro, notes)
            write_text(given["output"], render_ab(page))
            print(f"wrote {printable(given['output'])}")
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
    code = _exit_code(contests, strict=given["strict"])
    code = _say_lost(sides, contests) if given["strict"] and not code else code
    return say_losses(journals) or code


def _pattern(contest: Contest) -> str:
    """What --only has to be told to mean a case: its id, where the backend may be any if the sides differ in it."""
    a, b = contest.planned
    if a.id == b.id:
        return a.id
    return glob.escape(a.id).replace(f"backend={a.variant.backend}", "backend=*")


def _page(
    sides: Sequence[Side],
    contests: Sequence[Contest],
    terms: Terms,
    display: AbDisplay,
    repro: Callable[[Contest], str],
    cautions: Sequence[str],
) -> AbPage:
    """What the HTML page shows."""
    told = [(side.name, " ".join(side.spec.texts) or "as things are") for side in sides]
    told += [("metric", METRICS[terms.metric]), ("margin", format_share(terms.margin))]
    told += [("alpha", format_share(terms.alpha)), ("seed", str(terms.seed))]
    rows = []
    for contest in sort_by_verdict(contests):
        effect = contest.effect
        row = AbRow(
            display.name(contest.case),
            contest.verdict,
            effect_text(effect),
            costs_of(contest, terms),
            contest.pairs,
            effect.ratio if effect else None,
            (effect.low, effect.high) if effect else None,
            contest.reason,
            repro(contest),
        )
        rows.append(row)
    notes = [
        f"B differs from A: {each}"
        for each in differences(sides[1].run.environment, sides[0].run.environment)
    ]
    hidden = unknowns(sides[1].run.environment, sides[0].run.environment)
    notes += [*(caution.text for caution in hidden), *cautions]
    headline = f"B against A: {headline_of(contests)}"
    return AbPage(headline, tuple(told), tuple(rows), terms.margin, tuple(notes))


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


def _say_lost(sides: Sequence[Side], contests: Sequence[Contest]) -> int:
    """1 if A has cases that B has not: a benchmark that is gone is not as fast as before."""
    compared = {contest.planned[0] for contest in contests}
    lost = [case for case in sides[0].run.plan if case not in compared]
    if lost:
        print(f"{count_of(len(lost), 'case')} that only A has: --strict takes that for a regression")
    return int(bool(lost))


def _exit_code(contests: Sequence[Contest], *, strict: bool) -> int:
    verdicts = {contest.verdict for contest in contests}
    if "regression" in verdicts:
        return 1
    if not any(contest.could_measure for contest in contests):
        return 3
    if "inconclusive" in verdicts:
        print(
            "inconclusive is no regression: --strict makes it one, a larger --budget or --margin may decide it"
        )
        return 1 if strict else 0
    return 0


_NOT_REPEATED = {"output_a", "output_b", "output", "strict"}


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
