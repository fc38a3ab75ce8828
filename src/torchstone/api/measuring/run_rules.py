"""Check which options of a run can be combined, and which probes they apply to."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from torchstone.api.measuring.run_request import RESUMABLE, RunRequest
from torchstone.api.value_checks import check_count, check_seconds
from torchstone.core.config import POLICIES
from torchstone.core.errors import UsageError
from torchstone.core.run_settings import BATCH_SETS, STRATEGIES
from torchstone.core.text.suggestions import did_you_mean
from torchstone.core.vocabulary import PORTABLE, SCENARIOS, Probe
from torchstone.define.benchmarks import DTYPES, MODES
from torchstone.measure.plan import DEFAULT_PROBES

PROBES = (*DEFAULT_PROBES, Probe.COMPILE_CACHE.value, Probe.INSTRUCTIONS.value, Probe.SCALING.value)
_KNOWN = (
    ("--probe", "probes", PROBES),
    ("--mode", "modes", MODES),
    ("--dtype", "dtypes", DTYPES),
    ("--scenario", "scenarios", tuple(SCENARIOS)),
    ("--strategy", "strategies", STRATEGIES),
)


def refuse_changes_of_resumed(request: RunRequest) -> None:
    """Raise an error if targets or settings are given for a resumed run."""
    if request.targets:
        raise UsageError(
            f"the target {request.targets[0]} cannot be used with --resume, which takes its cases from the file"
        )
    usual = RunRequest()
    for name in RunRequest.__struct_fields__:
        if name not in RESUMABLE and getattr(request, name) != getattr(usual, name):
            raise UsageError(f"{name} cannot be used with --resume, which takes its settings from the file")


def check_request(request: RunRequest) -> None:
    """Raise an error for invalid values and contradictory options."""
    _check_values(request)
    if request.batch_set and request.batch_set not in BATCH_SETS:
        raise UsageError(f"--batch-set {request.batch_set}: expected {' or '.join(BATCH_SETS)}")
    refuse_mode_and_options(request)
    if request.probes == (Probe.SCALING.value,):
        _check_scaling(request)
    if request.probes:
        refuse_unused(request, request.probes)
    _check_loading(request)
    if request.durations and not request.shard:
        raise UsageError("--durations requires --shard", advice="add --shard I/N, or leave it out")
    if request.force and not request.output:
        raise UsageError("--force requires --output", advice="name the run file to replace, or leave it out")
    check_deciding(request)
    if request.raw_cells and not request.csv:
        raise UsageError("--raw-cells requires --csv", advice="add --csv DIR, or leave it out")


def refuse_mode_and_options(request: RunRequest) -> None:
    """Raise an error if a request has both a mode and options of torch.compile."""
    if request.compile_mode and request.compile_options:
        preset = f" (one of them is from the preset {request.preset})" if request.preset else ""
        raise UsageError(
            f"--compile-mode cannot be used with --option: torch.compile takes only one of them{preset}",
            advice="leave one out",
        )


def check_deciding(request: RunRequest) -> None:
    """Raise an error for options of deciding that lack what they need."""
    if request.decide_within is not None and not request.decide:
        raise UsageError("--decide-within requires --decide", advice="add --decide, or leave it out")
    if request.policy and request.policy not in POLICIES:
        raise UsageError(f"--policy {request.policy}: expected {', '.join(POLICIES)}")
    if request.policy == "upstream" and request.decide:
        raise UsageError(
            "--policy upstream cannot be used with --decide: the original scripts judge single numbers",
            advice="leave out one of them",
        )
    check_seconds("--decide-within", request.decide_within)
    if request.policy and not (request.baselines or request.decide):
        raise UsageError("--policy requires --baseline", advice="add --baseline FILE, or leave it out")


def _check_loading(request: RunRequest) -> None:
    """Raise an error for --trust or --load-artifacts if no artifacts would be loaded."""
    if request.trust and not request.load_artifacts:
        raise UsageError("--trust requires --resume or --load-artifacts", advice="leave it out")
    if request.load_artifacts and request.scenarios and PORTABLE not in request.scenarios:
        advice = f"add --scenario {PORTABLE}, or leave out --load-artifacts"
        raise UsageError(f"--load-artifacts requires the scenario {PORTABLE}", advice=advice)


def _check_values(request: RunRequest) -> None:
    for flag, name, known in _KNOWN:
        for value in getattr(request, name):
            if value not in known:
                advice = did_you_mean(value, known).strip()
                raise UsageError(f"{flag} {value}: expected {', '.join(known)}", advice=advice)
    for bucket in request.buckets:
        if not 0 < bucket < 1e6:
            raise UsageError(f"--bucket-mb {bucket:g}: expected megabytes, such as 25")
    for flag, counts in (("--batch-size", request.batch_sizes), ("--ranks", request.ranks)):
        for count in counts:
            check_count(flag, count)
    if request.shard and not 1 <= request.shard[0] <= request.shard[1]:
        index, count = request.shard
        raise UsageError(f"--shard {index}/{count}: expected I/N with I from 1 to N, such as 2/4")


def _check_scaling(request: RunRequest) -> None:
    """Raise an error for options that the scaling probe does not support."""
    if "inference" in request.modes:
        raise UsageError(
            "--mode inference cannot be used with the probe scaling, which measures training",
            advice="leave it out",
        )
    for flag, given in (
        ("--dynamic", request.dynamics),
        ("--precision", request.precision),
        ("--budget", request.budget),
    ):
        if given:
            raise UsageError(f"{flag} cannot be used with the probe scaling", advice=f"leave out {flag}")


_CACHES, _COUNTS, _OUTPUTS = (Probe.COMPILE_CACHE,), (Probe.INSTRUCTIONS,), (Probe.ACCURACY,)
_ROUNDS, _TIMES = (Probe.SCALING,), (Probe.PERFORMANCE,)


def _used_by(request: RunRequest) -> Iterator[tuple[str, object, tuple[Probe, ...]]]:
    """Yield the options that only some probes use: flag, value, and these probes."""
    repeating = (Probe.PERFORMANCE, Probe.COMPILE_CACHE, Probe.INSTRUCTIONS, Probe.SCALING)
    yield "--repeat", request.repeat, repeating
    yield "--precision", request.precision, _TIMES
    yield "--budget", request.budget, _TIMES
    yield "--save-outputs", request.save_outputs, _OUTPUTS
    yield "--compare-outputs", request.compare_outputs, _OUTPUTS
    yield "--scenario", request.scenarios, _CACHES
    yield "--save-artifacts", request.save_artifacts, _CACHES
    yield "--load-artifacts", request.load_artifacts, _CACHES
    yield "--counter", request.counter, _COUNTS
    yield "--profile", request.profile, (*_COUNTS, *_TIMES)
    yield "--ranks", request.ranks, _ROUNDS
    yield "--strategy", request.strategies, _ROUNDS
    yield "--bucket-mb", request.buckets, _ROUNDS
    yield "--collective-backend", request.collective, _ROUNDS
    yield "--collective-timeout", request.collective_timeout, _ROUNDS
    yield "--warm-up", request.warm_up, _ROUNDS
    yield "--batch-invariant", request.batch_invariant, _OUTPUTS
    yield "--ddp-json", request.ddp_json, _ROUNDS


def refuse_unused(request: RunRequest, probes: Collection[str]) -> None:
    """Raise an error for an option that none of these probes uses."""
    for flag, given, users in _used_by(request):
        if given:
            refuse_without(flag, users, probes)


def refuse_without(flag: str, users: tuple[Probe, ...], probes: Collection[str]) -> None:
    """Raise an error for an option unless one of its probes is measured."""
    if {*users} & {*probes}:
        return
    named = f"the probe {' or '.join(users)}"
    raise UsageError(
        f"{flag} requires {named}",
        advice=f"add --probe {users[0]}, or leave out {flag}",
    )


def may_scale(request: RunRequest) -> bool:
    """Return whether the run may include scaling rounds; only then are several processes of a job one run."""
    return not request.probes or Probe.SCALING in request.probes
