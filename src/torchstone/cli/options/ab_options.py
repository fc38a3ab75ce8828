"""Options of ``torchstone ab`` and ``torchstone selftest``."""

from __future__ import annotations

from msgspec import structs

from torchstone.api.measuring.ab_request import PairRequest
from torchstone.api.measuring.ab_result import AB_STYLES
from torchstone.cli.options.plain import FILE, RUN_FILE, Option, in_section
from torchstone.cli.options.quantities import parse_count, parse_seconds, parse_share
from torchstone.cli.options.quarantine_options import AS_OF, PLATFORM, QUARANTINE
from torchstone.cli.options.run_options import OPTIONS as RUN_OPTIONS
from torchstone.cli.options.shared import CONFIG
from torchstone.core.config import POLICIES
from torchstone.core.errors import UsageError
from torchstone.measure.ab.benchmark_files import PLACES
from torchstone.measure.ab.contest import METRICS
from torchstone.measure.ab.side_spec import KEYS

VERDICTS = ("missing", "regression", "inconclusive", "new", "improvement", "same")
_OTHER_HELP = {
    "threads": "Threads of torch, and number of cores that the sides take turns on (default: 1).",
    "devices": "cpu, cuda, cuda:1, xpu, mps or another device (default: the accelerator of this machine, else cpu).",
}
_SHARED = {*PairRequest.__struct_fields__} - {"budget"}  # "ab" defines its own


def _parse_seed(flag: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise UsageError(f"{flag} {text}: expected a whole number from 0")
    return int(text)


def _parse_slow_downs(flag: str, texts: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(share for text in texts if (share := parse_share(flag, text)))


OPTIONS = (
    *in_section(
        "What to compare",
        Option("--a", "a", "KEY=VALUE", f"Settings of side A: {KEYS}. Repeatable. An unspecified side uses your working tree.", multiple=True),
        Option("--b", "b", "KEY=VALUE", "Settings of side B, with the same keys.", multiple=True),
        Option("--bench-from", "bench_from", "PLACE", "a, b or worktree: where both sides take the benchmark files from. By default each side has its own, and one that lacks a file takes it from the other, or from the working tree.", choices=PLACES),
        Option("--metric", "metric", "METRIC", "latency (default): time of a compiled call; on an accelerator, the time that the device is busy. wall: the same by the wall clock. compile: time of a cold compile.", choices=tuple(METRICS)),
        Option("--recompile", "recompile", "", "Compile from scratch in every trial. By default, all trials of a side share a compile cache."),
    ),
    *in_section(
        "When a case is decided",
        Option("--margin", "margin", "SHARE", "Relative change to tolerate (default: 2%).", parse=parse_share),
        Option("--alpha", "alpha", "SHARE", "Accepted rate of wrong verdicts (default: 0.25%).", parse=parse_share),
        Option("--budget", "budget", "TIME", "Answer within this time, preparation included, even if cases are undecided; all cases share it (default: 60s per case, after preparation).", parse=parse_seconds),
        Option("--min-trials", "min_trials", "N", "Minimum number of pairs before a verdict (default: as few as can decide, which is 10 at the default alpha).", parse=parse_count),
        Option("--seed", "seed", "N", "Seed for the random order of the sides (default: a new one every time).", parse=_parse_seed),
    ),
    *in_section(
        "What blocks",
        Option("--policy", "policy", "NAME", "strict (default); lenient: undecided and new cases do not block; or upstream: only verdicts named by --block block, because the original scripts do not judge pairs.", choices=POLICIES),
        Option("--block", "block", "VERDICT", "Make this verdict block, too, such as inconclusive. Repeatable.", True, VERDICTS),
        Option("--allow", "allow", "VERDICT", "Let this verdict pass, such as regression. Repeatable.", True, VERDICTS),
        QUARANTINE,
        PLATFORM,
        AS_OF,
        CONFIG,
    ),
    *in_section(
        "Report",
        Option("--output-a", "output_a", "FILE", "Run file of A (default: a dated name in .torchstone/runs).", writes=RUN_FILE),
        Option("--output-b", "output_b", "FILE", "Run file of B (default: likewise).", writes=RUN_FILE),
        Option("--output", "output", "FILE", "Also write the result to this file, as an HTML page or in the --format.", short="-o", writes=FILE),
        Option("--format", "style", "STYLE", f"{', '.join(AB_STYLES[:-1])} or {AB_STYLES[-1]} (default: text).", choices=AB_STYLES),
        Option("--report", "reports", "STYLE=FILE", "Write another report, such as junit=report.xml. Repeatable.", True, writes=FILE),
    ),
    *(structs.replace(each, help=_OTHER_HELP.get(each.name, each.help)) for each in RUN_OPTIONS if each.name in _SHARED),
)  # fmt: skip

_OF_AB_ALONE = {option.name for option in OPTIONS} - {*PairRequest.__struct_fields__} | {"budget"}

SELFTEST_OPTIONS = (
    *in_section(
        "What to compare",
        Option("--slow-down", "slow_downs", "SHARE", "Work to add to one side, relative to a call (default: 5% and 2%). Repeatable.", multiple=True, parse=_parse_slow_downs),
        Option("--repeat", "repeat", "N", "Comparisons of each case (default: 1). More comparisons give narrower bounds.", parse=parse_count),
    ),
    *in_section(
        "When a case is decided",
        Option("--budget", "budget", "TIME", "Stop a comparison after this time (default: 60s).", parse=parse_seconds),
    ),
    *(each for each in OPTIONS if each.name not in _OF_AB_ALONE),
    *in_section(
        "Report",
        Option("--output", "output", "FILE", "Also write all comparisons and their scores as JSON.", short="-o", writes=FILE),
    ),
)  # fmt: skip
