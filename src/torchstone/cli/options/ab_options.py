"""Options of ``torchstone ab`` and ``torchstone selftest``."""

from __future__ import annotations

from msgspec import structs

from torchstone.api.measuring.ab_request import PairRequest
from torchstone.api.measuring.ab_result import AB_STYLES
from torchstone.cli.options.plain import FILE, RUN_FILE, Option
from torchstone.cli.options.policies import AS_OF, PLATFORM, QUARANTINE
from torchstone.cli.options.quantities import parse_count, parse_seconds, parse_share
from torchstone.cli.options.run_options import OPTIONS as RUN_OPTIONS
from torchstone.cli.options.shared import CONFIG
from torchstone.core.config import POLICIES
from torchstone.core.errors import UsageError
from torchstone.measure.ab.contest import METRICS
from torchstone.measure.ab.side_spec import KEYS

VERDICTS = ("missing", "regression", "inconclusive", "new", "improvement", "same")
_OTHER_HELP = {"threads": "Threads for torch, and cores that both sides take turns on; by default 1."}
_SHARED = {*PairRequest.__struct_fields__} - {"budget"}  # of which pairs have another one


def _parse_seed(flag: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise UsageError(f"{flag} {text}: expected a whole number from 0")
    return int(text)


def _parse_slow_downs(flag: str, texts: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(share for text in texts if (share := parse_share(flag, text)))


OPTIONS = (
    Option("--a", "a", "KEY=VALUE", f"What A is: {KEYS}. Repeatable; nothing means: as things are.", multiple=True),
    Option("--b", "b", "KEY=VALUE", "What B is, in the same words.", multiple=True),
    Option("--metric", "metric", "METRIC", "latency: the time of a compiled call. compile: the time of a cold compile.", choices=tuple(METRICS)),
    Option("--margin", "margin", "SHARE", "How much of a change matters; by default 2%.", parse=parse_share),
    Option("--alpha", "alpha", "SHARE", "How often a verdict may be wrong; by default 0.25%.", parse=parse_share),
    Option("--budget", "budget", "TIME", "Stop measuring after this long, whatever is undecided; by default 60s a case.", parse=parse_seconds),
    Option("--min-trials", "min_trials", "N", "No verdict before so many pairs; by default as few as can decide, which are 10 at the default alpha.", parse=parse_count),
    Option("--seed", "seed", "N", "For the random order of sides; by default another one every time.", parse=_parse_seed),
    Option("--recompile", "recompile", "", "Have every trial compile from nothing: by default, those of a side share a cache."),
    Option("--strict", "strict", "", "Exit with 1 if anything is inconclusive."),
    Option("--output-a", "output_a", "FILE", "The run file of A; by default a dated name in .torchstone/runs.", writes=RUN_FILE),
    Option("--output-b", "output_b", "FILE", "The run file of B.", writes=RUN_FILE),
    Option("--output", "output", "FILE", "Also write the result there: as an HTML page, or as --format says.", short="-o", writes=FILE),
    Option("--policy", "policy", "NAME", "strict (the default), or upstream: nothing blocks unless --block names it, as the original scripts judge no pairs.", choices=POLICIES),
    Option("--block", "block", "VERDICT", "Let this verdict block too, such as inconclusive. Repeatable.", True, VERDICTS),
    Option("--allow", "allow", "VERDICT", "Let this verdict pass, such as regression. Repeatable.", True, VERDICTS),
    QUARANTINE,
    PLATFORM,
    AS_OF,
    Option("--format", "style", "STYLE", f"What the result looks like: {', '.join(AB_STYLES)}. Default: text.", choices=AB_STYLES),
    Option("--report", "reports", "STYLE=FILE", "Write one more report, such as junit=report.xml. Repeatable.", True, writes=FILE),
    CONFIG,
    *(structs.replace(each, help=_OTHER_HELP.get(each.name, each.help)) for each in RUN_OPTIONS if each.name in _SHARED),
)  # fmt: skip

_OF_AB_ALONE = {option.name for option in OPTIONS} - {*PairRequest.__struct_fields__} | {"budget"}

SELFTEST_OPTIONS = (
    Option("--slow-down", "slow_downs", "SHARE", "How much longer the slowed side takes; by default 5% and 2%. Repeatable.", multiple=True, parse=_parse_slow_downs),
    Option("--repeat", "repeat", "N", "Compare every case so often; by default once. More comparisons say more.", parse=parse_count),
    Option("--budget", "budget", "TIME", "Stop a comparison after this long; by default 60s.", parse=parse_seconds),
    Option("--output", "output", "FILE", "Also write every comparison, and what they come to, as JSON.", short="-o", writes=FILE),
    *(each for each in OPTIONS if each.name not in _OF_AB_ALONE),
)  # fmt: skip
