"""``torchstone selftest``: how often the verdicts of ``torchstone ab`` are wrong on this machine, and how small a slow-down they catch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
from msgspec import structs

from torchstone.cli.commands.measuring.ab import OPTIONS as AB_OPTIONS
from torchstone.cli.commands.measuring.ab import SECONDS_A_CASE, make_ab_request, make_terms
from torchstone.cli.commands.measuring.run import INTERRUPTED
from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.plain import FILE, Option
from torchstone.cli.options.quantities import parse_count, parse_share
from torchstone.cli.terminal.run_display import Display, LiveDisplay, clock_text
from torchstone.cli.terminal.tables import print_table
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Run
from torchstone.core.text.safe_text import escape_json, escape_line
from torchstone.core.text.units import count_of, format_share
from torchstone.measure.ab.experiment import Terms
from torchstone.measure.ab.self_comparison import Score, Tried, score, try_verdicts
from torchstone.measure.ab.sides import Side, Spec, open_sides
from torchstone.measure.supervisor import Limits
from torchstone.worker.process_tree import terminated_as_interrupted

SLOW_DOWNS = ("5%", "2%")
_OF_AB = {"margin", "alpha", "min_trials", "seed"}
_NOT_HERE = {"a", "b", "metric", "recompile", "strict", "output_a", "output_b", "output", "budget"}

OPTIONS = (
    Option("--slow-down", "slow_downs", "SHARE", "How much longer the slowed side takes; by default 5% and 2%. Repeatable.", multiple=True),
    Option("--repeat", "repeat", "N", "Compare every case so often; by default once. More comparisons say more."),
    Option("--budget", "budget", "TIME", "Stop a comparison after this long; by default 60s."),
    Option("--output", "output", "FILE", "Also write every comparison, and what they come to, as JSON.", short="-o", writes=FILE),
    *(each for each in AB_OPTIONS if each.name not in _NOT_HERE),
)  # fmt: skip


class _Lines(Display):
    """Plain lines: one for each comparison."""

    def tried(self, each: Tried) -> None:
        """A comparison has come to its end."""
        self._done += 1
        print(f"[{self._done:>{len(str(self._total))}}/{self._total}] {_line(each)}", flush=True)

    def expect(self, total: int) -> None:
        """So many comparisons are to come."""
        self._total = total


class _Live(LiveDisplay):
    """A bar with the time left; comparisons scroll by above."""

    def tried(self, each: Tried) -> None:
        """A comparison has come to its end."""
        self._done += 1
        from rich.text import Text  # noqa: PLC0415  (of no use in a pipe)

        self._at_work.clear()
        if self._live:
            self._live.console.print(Text(escape_line(_line(each))), no_wrap=True, overflow="ellipsis")
        self._draw()

    def expect(self, total: int) -> None:
        """So many comparisons are to come."""
        self._total = total


def test_verdicts(targets: tuple[str, ...], **given: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Measure how often 'torchstone ab' is wrong here, and what it catches.

    Compares every case with itself: once as it is, where any change that is
    seen is a false alarm, and once for each --slow-down with so much real
    work added to every call of one side. TARGETS are what 'torchstone run' takes.

    \b
    Examples:
      torchstone selftest smoke
      torchstone selftest bench_mine.py --slow-down 1% --repeat 10

    Exit codes: 0 fine, 1 more false alarms than --alpha allows, 2 bad input or
    usage, 3 nothing could be measured.
    """
    if not targets:
        raise UsageError(
            "what is to be measured?", advice="name a suite or a file; 'torchstone list' shows the suites"
        )
    shares = [0.0, *(_share(text) for text in given["slow_downs"] or SLOW_DOWNS)]
    repeat = parse_count("--repeat", given["repeat"]) or 1
    unset = {each.name: () if each.multiple else None if each.metavar else False for each in AB_OPTIONS}
    given = {**unset, **given}
    request = make_ab_request(targets, given, (Spec(), Spec()))
    terms = make_terms(given)
    terms = structs.replace(terms, budget=terms.budget or SECONDS_A_CASE)
    display: _Lines | _Live = _Live() if sys.stdout.isatty() else _Lines()
    tried: list[Tried] = []
    try:
        with ExitStack() as stack:
            stack.enter_context(terminated_as_interrupted())
            sides = stack.enter_context(open_sides((Spec(), Spec()), request, display.say))
            _try_all(sides, terms, shares, repeat, tried, display)
    except KeyboardInterrupt:
        _conclude(tried, terms, given["output"])
        sys.stderr.write("\nstopped: what was found until then is above\n")
        return INTERRUPTED
    return _conclude(tried, terms, given["output"])


def _share(text: str) -> float:
    share = parse_share("--slow-down", text)
    if not share:
        raise UsageError(f"--slow-down {text}: expected a share above 0, such as 5%")
    return share


def _try_all(
    sides: Sequence[Side],
    terms: Terms,
    shares: Sequence[float],
    repeat: int,
    tried: list[Tried],
    display: _Lines | _Live,
) -> None:
    for side in sides:
        with display.busy(f"loading torch for {side.name}"):
            side.load()
    run: Run = sides[0].run
    total = len(run.plan) * len(shares) * repeat
    display.say(
        f"seed {terms.seed}; {count_of(total, 'comparison')}, at most {clock_text(total * terms.budget)}"
    )
    limits = Limits(run.settings.timeout, run.settings.memory_limit)
    with display.showing(run):
        display.expect(total)
        for each in try_verdicts(sides, terms, shares, repeat, limits, display):
            tried.append(each)
            display.tried(each)


def _line(each: Tried) -> str:
    """``mlp... 5% slower: regression  +5.1% [+3.2%, +7.4%]  9 pairs, 31 s``."""
    what = f"{format_share(each.slow_down)} slower" if each.slow_down else "as it is"
    found = ""
    if each.ratio is not None and each.low is not None and each.high is not None:
        found = (
            f"{each.ratio - 1:+.1%} [{each.low - 1:+.1%}, {each.high - 1:+.1%}]  " if each.high < 100 else ""
        )
    name = printable(each.case.partition("[")[0])
    return f"{name}  {what}: {each.verdict}  {found}{count_of(each.pairs, 'pair')}, {each.seconds:.0f} s {each.reason}".rstrip()


def _conclude(tried: Sequence[Tried], terms: Terms, output: str | None) -> int:
    """The table, what it means in words, and the exit code."""
    scores = score(tried)
    if not scores:
        sys.stderr.write("nothing could be measured" + (f": {tried[0].reason}" if tried else "") + "\n")
        return 3
    columns = [
        (
            format_share(each.slow_down) if each.slow_down else "nothing",
            f"{each.median_ratio - 1:+.1%}",
            *map(str, (each.tries, each.slower, each.faster, each.same, each.inconclusive)),
            f"{each.median_seconds:.0f}",
            f"{each.median_pairs:.0f}",
        )
        for each in scores
    ]
    header, *rows = zip(_LINES, *columns, strict=True)
    print()
    print_table(header, rows, title=f"verdicts at a margin of {format_share(terms.margin)}")
    for each in scores:
        print(_in_words(each))
    if output:
        told = {"terms": structs.asdict(terms), "scores": scores, "comparisons": list(tried)}
        write_text(output, escape_json(msgspec.json.format(msgspec.json.encode(told)).decode()) + "\n")
        print(f"wrote {printable(output)}")
    return _exit_code(scores, terms)


_LINES = (
    "work added",
    "effect measured (median)",
    "comparisons",
    "  regression",
    "  improvement",
    "  same",
    "  inconclusive",
    "seconds (median)",
    "pairs (median)",
)


def _in_words(found: Score) -> str:
    if not found.slow_down:
        return (
            f"false alarms: {found.false_alarms} of {found.tries}, "
            f"so less than {format_share(found.most_false)} with 95% confidence"
        )
    return (
        f"{format_share(found.slow_down)} slower: {found.slower} of {found.tries} caught, "
        f"so more than {format_share(found.least_caught)} with 95% confidence"
    )


def _exit_code(scores: Sequence[Score], terms: Terms) -> int:
    """1 if there are more false alarms than chance makes of the share that is allowed."""
    from torchstone.analyze.proportion import lower_limit  # noqa: PLC0415

    plain = [each for each in scores if not each.slow_down]
    return int(any(lower_limit(each.false_alarms, each.tries) > terms.alpha for each in plain))


selftest_command = make_command("selftest", test_verdicts, OPTIONS, "[TARGETS]...", required=False)
