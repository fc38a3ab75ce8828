"""The closed lists of words: statuses, verdicts, probes and metrics, each with its meaning.

These words are the same in code, command line, files and docs (docs/reference.md lists them, and a test compares).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """The gate's decision on one row, from worst to best."""

    INVALID = "invalid"
    MISSING = "missing"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"
    NEW = "new"
    IMPROVEMENT = "improvement"
    QUARANTINED = "quarantined"
    EXPECTED_FAILURE = "expected_failure"
    SAME = "same"
    PASS = "pass"  # noqa: S105  (a verdict, not a password)


VERDICTS: dict[Verdict, str] = {
    Verdict.INVALID: "the result contradicts itself, such as more distinct graph breaks than graph breaks",
    Verdict.MISSING: "planned or expected, but there is no result",
    Verdict.REGRESSION: "worse than the baseline allows",
    Verdict.INCONCLUSIVE: "the two cannot be compared, or nothing says how",
    Verdict.NEW: "a result without a baseline",
    Verdict.IMPROVEMENT: "better than the baseline by more than the rule calls equal",
    Verdict.QUARANTINED: "would block, but a quarantine entry says that it may not",
    Verdict.EXPECTED_FAILURE: "fails exactly as the baseline says it does",
    Verdict.SAME: "in a comparison: unchanged, or changed by less than the margin for certain",
    Verdict.PASS: "as the baseline says, within the rule",
}

PASSED = "pass"
SKIPPED = "pass_due_to_skip"
FAILED = "failed"
NOT_AVAILABLE = "not_available"

STATUSES: dict[str, str] = {
    PASSED: "ran, and its results are right",
    SKIPPED: "not compared, on purpose: too large, or not comparable by nature",
    "fail_accuracy": "the compiled results differ from eager",
    "fail_to_run": "the compiled run raised an error",
    "OOM": "the compiled run went out of memory",
    "eager_1st_run_fail": "the first eager run raised an error",
    "eager_1st_run_OOM": "the first eager run went out of memory",
    "eager_2nd_run_fail": "the second eager run raised an error",
    "eager_2nd_run_OOM": "the second eager run went out of memory",
    "eager_two_runs_differ": "eager does not even agree with itself",
    "eager_fail_to_run": "loading or checking the model raised an error",
    "model_fail_to_load": "the model says that it does not support this",
    "timeout": "did not end in time and was stopped",
    "worker_died": "the worker process ended without a result: a crash, or a kill",
    "worker_fail": "the original's word for a worker that died",
    "warmup_failed": "warming up raised an error before anything was timed",
    NOT_AVAILABLE: "cannot be measured here: the device, the library or the counter that it needs is missing",
    "not_bitwise_equivalent": "differs from the outputs saved earlier",
    "fail_batch_invariance_at_N": "results change with the batch size; N is the first that does",
    "fail_to_run_at_batch_N": "fails at batch size N",
    "eager_variation": "old word for eager_two_runs_differ",
    "infra_error": "the machine or the job is at fault, not the model: two hosts of a job have different software",
    "0.0000": "old form of a failure without a word for it",
    FAILED: "a performance file says only that it failed; its accuracy file may say how",
}

_NUMBERED_STATUS = re.compile(r"(fail_batch_invariance_at|fail_to_run_at_batch)_\d+\Z")


def is_known_status(status: str) -> bool:
    """Whether ``status`` is in the list, the numbered ones with any number."""
    return status in STATUSES or _NUMBERED_STATUS.match(status) is not None


class Probe(StrEnum):
    """What is measured of a benchmark."""

    PERFORMANCE = "performance"
    ACCURACY = "accuracy"
    COMPILE_CACHE = "compile_cache"
    INSTRUCTIONS = "instructions"
    SCALING = "scaling"


PROBES: dict[Probe, str] = {
    Probe.PERFORMANCE: "how fast, and with how much memory and compile time",
    Probe.ACCURACY: "whether the compiled results are right",
    Probe.COMPILE_CACHE: "what a cold start costs and a warm one saves",
    Probe.INSTRUCTIONS: "how many instructions the compiler or the work executes",
    Probe.SCALING: "how iteration time changes with the number of ranks",
}


class Metric(NamedTuple):
    """A named quantity. Two definitions never share a name.

    ``better`` is ``lower``, ``higher``, or ``equal`` where any change is worth a look. ``estimator`` says which one number stands for
    several samples: ``median``, ``min`` or ``max``. ``probes`` are the probes that measure it. ``signed`` marks the few that may be negative:
    of any other metric, a negative number is a mistake. A metric of the compile_cache probe is a ``quantity`` in a ``scenario``;
    ``quantity_meaning`` is its meaning without the scenario.
    """

    name: str
    unit: str
    better: str
    meaning: str
    probes: tuple[str, ...] = (Probe.PERFORMANCE,)
    estimator: str = "median"
    signed: bool = False
    scenario: str = ""
    quantity: str = ""
    quantity_meaning: str = ""


COMPILE_SECONDS = "compile_seconds"
"""Compile time by torch's own timers; the metrics of the compile_cache probe have the scenario in front of it."""

LEFT_OUT = "left_out"
"""The key of an outcome's ``extra`` that says of which metrics there is no number, on purpose, and why."""

SCENARIOS: dict[str, str] = {
    "cold": "empty cache folders",
    "warm": "the folders that the cold start has filled, in a new process",
    "portable": "empty folders, and the artifacts that torch saved after the cold start, loaded first",
    "precompile": "as portable, with dynamo's own work saved too (torch's caching_precompile)",
}
"""The ways to start that the compile_cache probe measures; each of its metrics begins with one of these words."""

COLD, WARM, PORTABLE, PRECOMPILE = SCENARIOS

DEFAULT_SCENARIOS = (COLD, WARM, PORTABLE)
"""What is measured unless other scenarios are asked for: torch's precompiling is young, and fails for some models."""

LOOK_UPS = HIT, MISS, BYPASS = "hit", "miss", "bypass"
"""What a look-up in a compile cache comes to."""

KERNEL_CACHE = "kernel"
"""Torch's table of the Triton kernels that a process has compiled or loaded: asked for kernels, where other caches are asked for graphs."""

_OF_A_SCENARIO = (
    (COMPILE_SECONDS, "s", "lower", "time that torch spent compiling, by its own timers"),
    ("first_result_seconds", "s", "lower", "from asking for the worker to the first result"),
    ("dynamo_seconds", "s", "lower", "compiling, in dynamo: reading bytecode into graphs"),
    ("guards_seconds", "s", "lower", "compiling, in dynamo: building guards"),
    ("aot_autograd_seconds", "s", "lower", "compiling, in AOT autograd"),
    ("inductor_seconds", "s", "lower", "compiling, in inductor before it writes code"),
    ("codegen_seconds", "s", "lower", "compiling, in inductor while it writes code"),
    ("native_seconds", "s", "lower", "compiling, in the C++ or Triton compiler"),
    ("loading_seconds", "s", "lower", "compiling, in reading compiled graphs back"),
    ("load_seconds", "s", "lower", "loading saved artifacts, before the first call"),
    ("cache_files", "files", "lower", "files in the cache folders afterwards"),
    ("cache_bytes", "bytes", "lower", "bytes in the cache folders afterwards"),
    ("cache_hit", "look-ups", "higher", "look-ups of graphs, in any cache, that found something"),
    ("cache_miss", "look-ups", "lower", "look-ups of graphs, in any cache, that found nothing"),
    ("cache_bypass", "look-ups", "lower", "graphs that a cache refused to look up or to save"),
    ("hit_rate", "% of look-ups", "higher", "share of the look-ups of graphs that found something"),
)
SAVED = ("saved", "%", "higher", "share of the cold start's compile seconds that it saves")
_WITH_ARTIFACTS = ("portable", "precompile")
_CACHED = (Probe.COMPILE_CACHE,)


def _scenario_metrics() -> tuple[Metric, ...]:
    return tuple(
        Metric(
            f"{scenario}_{name}",
            unit,
            better,
            f"{scenario} start: {meaning}",
            _CACHED,
            signed=name == SAVED[0],
            scenario=scenario,
            quantity=name,
            quantity_meaning=meaning,
        )
        for scenario in SCENARIOS
        for name, unit, better, meaning in (*_OF_A_SCENARIO, SAVED)
        if not (name == "saved" and scenario == "cold")
        and not (name == "load_seconds" and scenario not in _WITH_ARTIFACTS)
    )


COUNTERS: dict[str, str] = {
    "hardware": "the processor counts instructions: exact to about 0.1 %, and free; needs permission",
    "simulated": "valgrind executes every instruction and counts it: needs no permission, but 50 times the time",
    "python": "calls of Python functions, counted exactly: works everywhere, but sees no work of C++ code",
    "cpu_time": "seconds of processor time: no count at all, and as noisy as any time",
}
"""What counts the work of the instructions probe, the best first. Numbers of two counters are never compared."""

_COUNTED = (Probe.INSTRUCTIONS,)
_BY_COUNTER = (
    ("instruction_count", "instructions", "instructions of all of the work, in the process"),
    ("instruction_count_tree", "instructions", "the same, with all processes and threads that it starts"),
    ("python_calls", "calls", "calls of functions that Python made in all of the work"),
    ("cpu_seconds", "s", "processor time of all of the work"),
)
COMPILER_ONLY = "compile_time_"
"""Begins the names of metrics that count only what the compiler does."""


def _counted_metrics() -> tuple[Metric, ...]:
    return tuple(
        Metric(f"{before}{name}", unit, "lower", meaning.replace("all of the work", part), _COUNTED, "min")
        for before, part in (("", "all of the work"), (COMPILER_ONLY, "the compiler's part of the work"))
        for name, unit, meaning in _BY_COUNTER
    )


PERCENTILES = (75, 90, 95)
"""The percentiles of iterations that have metrics of their own, beside the median."""

_SCALED = (Probe.SCALING,)


def _scaling_metrics() -> tuple[Metric, ...]:
    per_second = "batch size times ranks over"
    return (
        Metric("iteration_time", "s", "lower", "one training iteration, all ranks' samples", _SCALED),
        *(
            Metric(f"iteration_time_p{level}", "s", "lower", f"{level} % of iterations take less", _SCALED)
            for level in PERCENTILES
        ),
        Metric("examples_per_second", "1/s", "higher", f"{per_second} the median iteration time", _SCALED),
        *(
            Metric(
                f"examples_per_second_p{level}",
                "1/s",
                "higher",
                f"{per_second} the time that {level} % of iterations take at most",
                _SCALED,
            )
            for level in PERCENTILES
        ),
        Metric(
            "scaling_efficiency",
            "%",
            "higher",
            "examples per second and rank, against those of the smallest round",
            _SCALED,
        ),
        Metric(
            "communication_share",
            "%",
            "lower",
            "part of an iteration in which a collective is under way, in torch's profiler: of the middle rank",
            _SCALED,
        ),
        Metric(
            "rank_spread",
            "%",
            "lower",
            "how much longer the slowest rank works, communication left out, than the middle one",
            _SCALED,
        ),
        Metric(
            "peak_memory",
            "GB",
            "lower",
            "peak memory of the measured iterations, of the largest rank",
            _SCALED,
            "max",
        ),
    )


ACCURACY = "accuracy"
SECONDS, BYTES, TRACKED = "seconds", "bytes", "tracked_value"
_BOTH = (Probe.PERFORMANCE, Probe.ACCURACY)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(ACCURACY, "status", "equal", "how the case ended: its status", (Probe.ACCURACY,)),
        Metric(
            "speedup",
            "x",
            "higher",
            "eager time over compiled time, timed in turns: the median of the faster half of the pairs",
        ),
        Metric("abs_latency", "ms", "lower", "median time of one compiled call"),
        Metric("eager_latency", "ms", "lower", "median time of one eager call"),
        Metric("baseline", "x", "higher", "the speedup that the runner's --baseline file had"),
        Metric("speedup_vs_baseline", "x", "higher", "speedup over that of the runner's --baseline file"),
        Metric(
            COMPILE_SECONDS,
            "s",
            "lower",
            "time that torch spent compiling during the first calls, by its own timers",
            _BOTH,
        ),
        Metric("compilation_latency", "s", "lower", "five compiled calls less five eager calls"),
        Metric("compression_ratio", "x", "higher", "eager peak memory over compiled peak memory"),
        Metric("eager_peak_mem", "GB", "lower", "peak memory of the eager warm-up"),
        Metric("dynamo_peak_mem", "GB", "lower", "peak memory of the compiled warm-up"),
        Metric("cache_lookup_latency", "s", "lower", "time spent looking up compile caches"),
        Metric("calls_captured", "calls", "higher", "operator calls that ended in a graph", _BOTH),
        Metric("unique_graphs", "graphs", "higher", "distinct graphs captured", _BOTH),
        Metric("graph_breaks", "breaks", "lower", "times that capture had to stop", _BOTH),
        Metric("unique_graph_breaks", "breaks", "lower", "distinct reasons that capture had to stop", _BOTH),
        Metric("fallbacks_to_eager", "frames", "lower", "frames that were not compiled at all", _BOTH),
        Metric("autograd_captures", "graphs", "equal", "graphs captured by compiled autograd", _BOTH),
        Metric("autograd_compiles", "graphs", "equal", "graphs compiled by compiled autograd", _BOTH),
        Metric("cudagraph_skips", "graphs", "lower", "graphs that could not use CUDA graphs", _BOTH),
        Metric("recompiles", "compiles", "lower", "times that a frame was compiled again", _BOTH),
        *_counted_metrics(),
        Metric("import_time_us", "us", "lower", "time that importing a module takes", _COUNTED, "min"),
        *_scaling_metrics(),
        *_scenario_metrics(),
        Metric(SECONDS, "s", "lower", "time of one call or run, as another benchmark tool measured it"),
        Metric(BYTES, "bytes", "lower", "memory, as another benchmark tool measured it"),
        Metric(
            TRACKED,
            "number",
            "equal",
            "a number that a benchmark of another tool tracks, whatever it means",
            signed=True,
        ),
    )
}

FORMER_NAMES: dict[str, str] = {"dynamo_compilation_latency": COMPILE_SECONDS}
"""Metrics that were renamed: files, rules and settings may still say the old name."""


def current_name(metric: str) -> str:
    """The name that a metric has now; every reader of a file passes names through here."""
    return FORMER_NAMES.get(metric, metric)


def names_of(metric: str) -> tuple[str, ...]:
    """The name of a metric and those it had before."""
    return (metric, *(old for old, new in FORMER_NAMES.items() if new == metric))


DEFAULT_MARGIN = 0.015  # the share by which an instruction count may be off where nothing else is said

CAPTURE_METRICS = (
    "calls_captured",
    "unique_graphs",
    "graph_breaks",
    "unique_graph_breaks",
    "fallbacks_to_eager",
    "autograd_captures",
    "autograd_compiles",
    "cudagraph_skips",
)
