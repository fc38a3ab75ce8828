"""Options of ``torchstone ab``, and the records made of them: what is measured, how the sides are compared, what blocks."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from msgspec import structs

from torchstone.api.judging.check import find_quarantine
from torchstone.cli.options.plain import FILE, RUN_FILE, Option
from torchstone.cli.options.policies import AS_OF, PLATFORM, QUARANTINE
from torchstone.cli.options.quantities import parse_count, parse_seconds, parse_share
from torchstone.cli.options.run_options import OPTIONS as RUN_OPTIONS
from torchstone.cli.options.run_options import make_request
from torchstone.cli.options.shared import CONFIG, parse_day
from torchstone.core.config import POLICIES, load_settings
from torchstone.core.errors import UsageError
from torchstone.core.vocabulary import Probe, Verdict
from torchstone.gate.policy import Policy, comparison_policy
from torchstone.gate.tally import Exemptions
from torchstone.measure.ab.contest import METRICS, AbSettings
from torchstone.measure.ab.sides import KEYS, Spec
from torchstone.measure.runner import Request
from torchstone.reporting.dialects.styles import STYLES

AB_STYLES = (*STYLES, "html")
VERDICTS = ("missing", "regression", "inconclusive", "new", "improvement", "same")
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


def make_settings(given: dict[str, Any]) -> AbSettings:
    """How the two are compared; a budget of 0 is still to be chosen, when the cases are known."""
    usual = AbSettings()
    seed = given["seed"]
    if seed is not None and not (seed.isascii() and seed.isdigit() and len(seed) < 16):
        raise UsageError(f"--seed {seed}: expected a whole number from 0")
    return AbSettings(
        given["metric"] or usual.metric,
        parse_share("--margin", given["margin"]) or usual.margin,
        parse_share("--alpha", given["alpha"]) or usual.alpha,
        parse_seconds("--budget", given["budget"]) or 0.0,
        parse_count("--min-trials", given["min_trials"]) or usual.fewest_pairs,
        int(seed) if seed is not None else secrets.randbelow(2**31),
        f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}",
        given["recompile"],
    )


def make_ab_policy(given: dict[str, Any]) -> Policy:
    """What blocks: regressions; with --strict also what is open, and what only A has."""
    block, allow = ({Verdict(name) for name in given[key]} for key in ("block", "allow"))
    if both := block & allow:
        raise UsageError(f"block and allow both name {', '.join(sorted(both))}")
    if given["strict"]:
        block |= {Verdict.INCONCLUSIVE, Verdict.MISSING} - allow
    elif Verdict.MISSING not in block:
        allow.add(Verdict.MISSING)
    return comparison_policy(given["policy"] or POLICIES[0], block, allow)


def make_exemptions(given: dict[str, Any], policy: Policy) -> Exemptions:
    """The quarantine that is in force."""
    paths = given["quarantines"] or load_settings(given["config"]).quarantines
    # The list that comes with the policy upstream is about accuracy, which pairs do not test.
    entries, _ = find_quarantine(paths, structs.replace(policy, name=POLICIES[0]))
    today = parse_day("--as-of", given["as_of"]) or date.today()
    return Exemptions(policy, entries, today, frozenset(given["platforms"]))
