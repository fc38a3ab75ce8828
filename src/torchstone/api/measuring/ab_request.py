"""Requests of ``ab`` and ``selftest``: targets, comparison criteria, and what blocks."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime

from msgspec import structs

from torchstone.api.judging.verdicts_and_quarantine import find_quarantine, parse_verdicts
from torchstone.api.measuring.preparation import prepare_request
from torchstone.api.measuring.run_request import CaseOptions, CaseRequest, RunRequest
from torchstone.api.requests import Path, Paths, Texts, command_words
from torchstone.api.value_checks import check_count, check_seconds, check_share
from torchstone.core.config import POLICIES, load_config
from torchstone.core.errors import UsageError
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import join_words
from torchstone.core.vocabulary import Probe
from torchstone.gate.apply_quarantine import Exemptions
from torchstone.gate.blocking_policy import Policy, comparison_policy
from torchstone.gate.defaults import DEFAULTS
from torchstone.measure.ab.benchmark_files import find_in_revisions
from torchstone.measure.ab.contest import METRICS, AbSettings
from torchstone.measure.ab.side_spec import SideSpec
from torchstone.measure.devices.placement import is_all, kind_of_all
from torchstone.measure.runner import PlanRequest

USUAL = AbSettings()
NO_COMPILER = "none"
_IGNORING_MODES = {
    NO_COMPILER,
    "eager",
    "eager_noexcept",
    "eager_debug",
    "aot_eager",
    "aot_eager_decomp_partition",
    "cudagraphs",
}
_SWITCH = {None: "", True: "on", False: "off"}
_DYNAMIC = {None: "auto", True: "true", False: "false"}


class PairRequest(CaseRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cases to measure in pairs, and when a case is decided. Times are in seconds, sizes in bytes, shares between 0 and 1."""

    margin: float = DEFAULTS.pair_margin
    alpha: float = DEFAULTS.pair_alpha
    budget: float | None = None
    min_trials: int = USUAL.fewest_pairs
    seed: int | None = None


class AbRequest(PairRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The two sides, the cases to measure, and what blocks. ``a`` and ``b`` are settings such as ``rev=HEAD~1``; the default is the working tree.

    ``bench_from`` is where both sides take their benchmark files from: ``a``, ``b`` or ``worktree``; by default, each has its own, and takes a
    file that it lacks from where it is. ``budget`` is the time from the call to the result, in seconds, preparation included.
    With ``recompile``, every trial compiles from scratch.
    ``output_a`` and ``output_b`` are the run files.
    """

    a: tuple[str, ...] = ()
    b: tuple[str, ...] = ()
    bench_from: str = ""
    metric: str = USUAL.metric
    recompile: bool = False
    policy: str = POLICIES[0]
    block: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    quarantines: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    as_of: date | None = None
    output_a: str = ""
    output_b: str = ""
    config: str | None = None


class SelftestRequest(PairRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cases to compare with themselves: how often, and with how much work added. ``budget`` is for one comparison."""

    slow_downs: tuple[float, ...] = (0.05, 0.02)
    repeat: int = 1


class PairOptions(CaseOptions, total=False):
    """Options that ``ab`` and ``selftest`` share, explained in docs/ab.md and docs/run.md."""

    margin: float
    alpha: float
    budget: float
    min_trials: int
    seed: int


class AbOptions(PairOptions, total=False):
    """Options of ``ab``, explained in docs/ab.md."""

    bench_from: str
    metric: str
    recompile: bool
    policy: str
    block: Texts
    allow: Texts
    quarantines: Paths
    platforms: Texts
    as_of: date
    output_a: Path
    output_b: Path
    config: Path


class SelftestOptions(PairOptions, total=False):
    """Options of ``selftest``, explained in docs/ab.md."""

    slow_downs: float | Collection[float]
    repeat: int


def prepare_pairs(request: PairRequest, specs: Sequence[SideSpec], metric: str = USUAL.metric) -> PlanRequest:
    """Return the request for both sides, as for ``run``, without the settings in which they differ."""
    if not request.targets:
        raise UsageError(
            "no targets given", advice="name a suite or a file; 'torchstone list' shows the suites"
        )
    _check_values(request)
    _refuse_shared_and_own(request, specs)
    shared = {name: getattr(request, name) for name in CaseRequest.__struct_fields__}
    measured = RunRequest(probes=(Probe.PERFORMANCE.value,), **shared)
    prepared = prepare_request(measured, find_in_revisions(request.targets, specs))
    _check_modes(specs, prepared.axes.backends)
    used = (*prepared.axes.backends, *(spec.backend for spec in specs))
    if metric == "compile" and NO_COMPILER in used:
        raise UsageError(
            f"--metric compile cannot be used with the backend {NO_COMPILER}, which compiles nothing"
        )
    # One thread by default: both sides take turns on that many cores, and a single core has the least noise.
    threads = prepared.settings.threads or 1
    return structs.replace(prepared, settings=structs.replace(prepared.settings, threads=threads))


def _check_values(request: PairRequest) -> None:
    """Raise an error for invalid values."""
    if spread := [device for device in request.devices if is_all(device)]:
        raise UsageError(
            f"--device {spread[0]}: both sides take turns on one device",
            advice=f"--device {kind_of_all(spread[0])}",
        )
    check_share("--margin", request.margin)
    check_share("--alpha", request.alpha)
    check_seconds("--budget", request.budget)
    check_count("--min-trials", request.min_trials)
    check_count("--seed", request.seed, least=0)


def _refuse_shared_and_own(request: PairRequest, specs: Sequence[SideSpec]) -> None:
    """Raise an error for a setting that is given for both sides and again for one of them."""
    has_mode = any(spec.compile_mode or spec.options for spec in specs)
    for option, value, is_own in (
        ("--backend", request.backends, any(spec.backend for spec in specs)),
        ("--compile-mode", request.compile_mode, has_mode),
        ("--option", request.compile_options, has_mode),
    ):
        if value and is_own:
            raise UsageError(
                f"{option} applies to both sides, but one of them sets its own",
                advice="set it for each side, with --a and --b",
            )


def _check_modes(specs: Sequence[SideSpec], backends: Sequence[str]) -> None:
    """Raise an error if a side sets a mode or an option of torch.compile that its backend ignores."""
    for option, spec in zip(("--a", "--b"), specs, strict=True):
        used = {spec.backend} if spec.backend else set(backends)
        if (spec.compile_mode or spec.options) and (ignoring := sorted(used & _IGNORING_MODES)):
            said = f"mode={spec.compile_mode}" if spec.compile_mode else f"option:{spec.options[0][0]}"
            raise UsageError(
                f"{option} {said}: the backend {ignoring[0]} ignores it",
                advice="leave it out, or choose a backend that compiles, such as inductor",
            )


def make_settings(request: PairRequest, metric: str = USUAL.metric, *, fresh: bool = False) -> AbSettings:
    """Return the settings of the comparison."""
    if metric not in METRICS:
        raise UsageError(f"--metric {metric}: expected latency, wall or compile")
    return AbSettings(
        metric,
        request.margin,
        request.alpha,
        request.budget or 0.0,
        request.min_trials,
        secrets.randbelow(2**31) if request.seed is None else request.seed,
        f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}",
        fresh,
    )


def make_ab_policy(request: AbRequest) -> Policy:
    """Return the policy: the same as for every other command."""
    if request.policy not in POLICIES:
        raise UsageError(f"--policy {request.policy}: expected {', '.join(POLICIES)}")
    block, allow = map(parse_verdicts, (request.block, request.allow))
    if both := block & allow:
        raise UsageError(f"block and allow both name {', '.join(sorted(both))}")
    return comparison_policy(request.policy, block, allow)


def make_exemptions(request: AbRequest, policy: Policy) -> Exemptions:
    """Return the quarantine in force."""
    paths = request.quarantines or load_config(request.config).quarantines
    # The list of the policy upstream is about accuracy, which pairs do not measure.
    entries, _ = find_quarantine(paths, structs.replace(policy, name=POLICIES[0]))
    return Exemptions(policy, entries, request.as_of or date.today(), frozenset(request.platforms))


def command_of(request: AbRequest) -> str:
    """Return the command that measures this again."""
    words = command_words(
        ("--a", request.a),
        ("--b", request.b),
        ("--bench-from", request.bench_from),
        ("--metric", _unusual(request.metric, USUAL.metric)),
        ("--margin", _unusual(request.margin, DEFAULTS.pair_margin)),
        ("--alpha", _unusual(request.alpha, DEFAULTS.pair_alpha)),
        ("--budget", _seconds(request.budget)),
        ("--min-trials", _unusual(request.min_trials, USUAL.fewest_pairs)),
        ("--seed", request.seed),
        ("--recompile", request.recompile),
        ("--policy", _unusual(request.policy, POLICIES[0])),
        ("--block", request.block),
        ("--allow", request.allow),
        ("--quarantine", request.quarantines),
        ("--platform", request.platforms),
        ("--as-of", request.as_of),
        ("--config", request.config),
        *_measured_words(request),
    )
    return join_words(map(redact, ("torchstone", "ab", *request.targets, *words)))


def _measured_words(request: PairRequest) -> list[tuple[str, object]]:
    """Return the options that ``run`` has, too."""
    return [
        ("--device", request.devices),
        ("--backend", request.backends),
        ("--mode", request.modes),
        ("--dtype", request.dtypes),
        ("--dynamic", tuple(_DYNAMIC[each] for each in request.dynamics)),
        ("--batch-size", request.batch_sizes),
        ("--size", _unusual(request.size, "full")),
        ("--compile-mode", request.compile_mode),
        ("--option", request.compile_options),
        ("--fullgraph", request.fullgraph),
        ("--preset", request.preset),
        ("--tf32", _SWITCH[request.tf32]),
        ("--half-reductions", _SWITCH[request.half_reductions]),
        ("--cuda-graphs", _SWITCH[request.cuda_graphs]),
        ("--labels", _SWITCH[request.labels]),
        ("--batch-set", request.batch_set),
        ("--filter", request.filters),
        ("--exclude", request.exclusions),
        ("--only", request.only),
        ("--threads", request.threads),
        ("--compile-threads", request.compile_threads),
        ("--timeout", _seconds(request.timeout)),
        ("--memory-limit", request.memory_limit),
        ("--start", _unusual(request.start, "auto")),
        ("--import", request.imports),
    ]


def _unusual(value: object, usual: object) -> object:
    return None if value == usual else value


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".") + "s"
