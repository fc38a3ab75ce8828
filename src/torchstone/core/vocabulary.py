"""Define the fixed vocabulary: verdicts, statuses, probes and metrics, each with its meaning.

The names are the same in code, command line, files and docs. docs/reference.md is generated from here.
"""

# No annotations from __future__: typing would compile each of the texts of a NamedTuple, which takes 1 ms.
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
    Verdict.INVALID: "the result contradicts itself, for example more distinct graph breaks than graph breaks",
    Verdict.MISSING: "planned or expected, but without a result",
    Verdict.REGRESSION: "worse than the baseline allows",
    Verdict.INCONCLUSIVE: "cannot be decided: not comparable, no rule, or too little data",
    Verdict.NEW: "a result without a baseline",
    Verdict.IMPROVEMENT: "better than the baseline by more than the rule tolerates",
    Verdict.QUARANTINED: "would block, but a quarantine entry prevents it",
    Verdict.EXPECTED_FAILURE: "fails exactly as the baseline expects",
    Verdict.SAME: "in a comparison: unchanged, or the change is certainly smaller than the margin",
    Verdict.PASS: "as the baseline expects, within the rule",
}

PASSED = "pass"
SKIPPED = "pass_due_to_skip"
FAILED = "failed"
NOT_AVAILABLE = "not_available"

STATUSES: dict[str, str] = {
    PASSED: "ran, and its results are correct",
    SKIPPED: "deliberately not compared: too large, or inherently not comparable",
    "fail_accuracy": "the compiled results differ from eager",
    "fail_to_run": "the compiled run raised an error",
    "OOM": "the compiled run ran out of memory",
    "eager_1st_run_fail": "the first eager run raised an error",
    "eager_1st_run_OOM": "the first eager run ran out of memory",
    "eager_2nd_run_fail": "the second eager run raised an error",
    "eager_2nd_run_OOM": "the second eager run ran out of memory",
    "eager_two_runs_differ": "two eager runs gave different results",
    "eager_fail_to_run": "loading or checking the model raised an error",
    "model_fail_to_load": "the model does not support this, as it reports itself",
    "timeout": "did not finish in time and was stopped",
    "worker_died": "the worker process crashed or was killed, and left no result",
    "worker_fail": "the original runner's name for worker_died",
    "warmup_failed": "the warm-up raised an error, before anything was timed",
    NOT_AVAILABLE: "cannot be measured here: a device, library, file or counter that it needs is missing",
    "not_bitwise_equivalent": "the outputs differ from those saved earlier",
    "fail_batch_invariance_at_N": "the results depend on the batch size; N is the first that differs",
    "fail_to_run_at_batch_N": "fails at batch size N",
    "eager_variation": "old name of eager_two_runs_differ",
    "infra_error": "a fault of the machine or the job, not of the model: two hosts of a job have different software",
    "0.0000": "old form of a failure that has no name",
    FAILED: "failed, in a performance file that does not say how; the accuracy file may",
}

_NUMBERED_STATUS = r"(fail_batch_invariance_at|fail_to_run_at_batch)_\d+"


def is_known_status(status: str) -> bool:
    """Return whether a status is in the list; numbered ones may have any number."""
    return status in STATUSES or re.fullmatch(_NUMBERED_STATUS, status) is not None


class Probe(StrEnum):
    """The kind of measurement."""

    PERFORMANCE = "performance"
    ACCURACY = "accuracy"
    COMPILE_CACHE = "compile_cache"
    INSTRUCTIONS = "instructions"
    SCALING = "scaling"


PROBES: dict[Probe, str] = {
    Probe.PERFORMANCE: "speed, memory and compile time",
    Probe.ACCURACY: "whether the compiled results are correct",
    Probe.COMPILE_CACHE: "compile time of a cold start, and what a warm one saves",
    Probe.INSTRUCTIONS: "instructions executed by the compiler or the whole work",
    Probe.SCALING: "how iteration time changes with the number of ranks",
}


class Metric(NamedTuple):
    """A named quantity; each name has one definition.

    ``better`` is ``lower``, ``higher``, or ``equal`` if any change deserves a look. ``estimator`` summarises
    several samples: ``median``, ``min`` or ``max``. ``probes`` are the probes that measure it. Only ``signed``
    metrics may be negative. A metric of the compile_cache probe is a ``quantity`` in a ``scenario``;
    ``quantity_meaning`` is its meaning without the scenario. ``is_exact`` says that a benchmark reports it as a number
    that must not change.
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
    is_exact: bool = False

    @property
    def is_counted(self) -> bool:
        """Return whether values do not vary by chance, and do not depend on the speed of a machine."""
        return self.is_exact or self.unit in COUNTED_UNITS


def reported_metric(name: str, unit: str, better: str) -> Metric:
    """Return the definition of a metric that a benchmark reports itself."""
    meaning = "reported by the benchmark itself"
    return Metric(name, unit, better, meaning, signed=True, is_exact=better == "equal")


COMPILE_SECONDS = "compile_seconds"
"""Compile time by torch's own timers; in the compile_cache probe the scenario precedes the name."""

SCENARIOS: dict[str, str] = {
    "cold": "empty cache folders",
    "warm": "the folders filled by the cold start, in a new process",
    "portable": "empty folders, after loading the artifacts that torch saved after the cold start",
    "precompile": "like portable, with dynamo's own work saved too (torch's caching_precompile)",
}
"""The scenarios of the compile_cache probe; each of its metrics starts with the name of one."""

COLD, WARM, PORTABLE, PRECOMPILE = SCENARIOS

DEFAULT_SCENARIOS = (COLD, WARM, PORTABLE)
"""Measured by default. Precompiling is new in torch, and fails for some models."""

LOOK_UPS = HIT, MISS, BYPASS = "hit", "miss", "bypass"
"""The results of a look-up in a compile cache."""

KERNEL_CACHE = "kernel"
"""Torch's table of the Triton kernels of a process. Its look-ups are for kernels, those of other caches for graphs."""

_OF_A_SCENARIO = (
    (COMPILE_SECONDS, "s", "lower", "time torch spent compiling, by its own timers"),
    ("first_result_seconds", "s", "lower", "time from requesting the worker to the first result"),
    ("dynamo_seconds", "s", "lower", "compile time in dynamo: turning bytecode into graphs"),
    ("guards_seconds", "s", "lower", "compile time in dynamo: building guards"),
    ("aot_autograd_seconds", "s", "lower", "compile time in AOT autograd"),
    ("inductor_seconds", "s", "lower", "compile time in inductor, before code generation"),
    ("codegen_seconds", "s", "lower", "compile time in inductor, during code generation"),
    ("native_seconds", "s", "lower", "compile time in the C++ or Triton compiler"),
    ("loading_seconds", "s", "lower", "compile time spent loading compiled graphs"),
    ("load_seconds", "s", "lower", "time to load saved artifacts, before the first call"),
    ("cache_files", "files", "lower", "files in the cache folders afterwards"),
    ("cache_bytes", "bytes", "lower", "bytes in the cache folders afterwards"),
    ("cache_hit", "look-ups", "higher", "graph look-ups, in any cache, that were hits"),
    ("cache_miss", "look-ups", "lower", "graph look-ups, in any cache, that were misses"),
    ("cache_bypass", "look-ups", "lower", "graphs that a cache refused to look up or to save"),
    ("hit_rate", "% of look-ups", "higher", "share of graph look-ups that were hits"),
)
SAVED = ("saved", "%", "higher", "share of the cold start's compile time that is saved")
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
    "hardware": "counted by the processor: exact to about 0.1 %, at no cost; needs permission",
    "simulated": "counted by valgrind, which simulates the processor: needs no permission, but takes 50 times as long",
    "python": "Python function calls, counted exactly: works everywhere, but sees no work of C++ code",
    "cpu_time": "CPU time in seconds: not a count, and as noisy as any time",
}
"""The counters of the instructions probe, best first. Numbers of different counters are never compared."""

_COUNTED = (Probe.INSTRUCTIONS,)
_BY_COUNTER = (
    ("instruction_count", "instructions", "instructions executed by the process in all of the work"),
    (
        "instruction_count_tree",
        "instructions",
        "the same, including all processes and threads that it starts",
    ),
    ("python_calls", "calls", "Python function calls in all of the work"),
    ("cpu_seconds", "s", "CPU time of all of the work"),
)
COMPILER_ONLY = "compile_time_"
"""Prefix of metrics that count only the compiler's part of the work."""


def _counted_metrics() -> tuple[Metric, ...]:
    return tuple(
        Metric(f"{before}{name}", unit, "lower", meaning.replace("all of the work", part), _COUNTED, "min")
        for before, part in (("", "all of the work"), (COMPILER_ONLY, "the compiler's part of the work"))
        for name, unit, meaning in _BY_COUNTER
    )


PERCENTILES = (75, 90, 95)
"""The percentiles of the iteration time that are metrics, besides the median."""

_SCALED = (Probe.SCALING,)


def _scaling_metrics() -> tuple[Metric, ...]:
    rate, per_second = "examples_per_second", "batch size times ranks, divided by"
    share = "share of an iteration in which a collective is running, by torch's profiler; median over ranks"
    spread = "how much longer the slowest rank works than the median rank, without communication"
    memory = "peak memory during the measured iterations, on the rank that uses most"
    times = [(f"iteration_time_p{n}", f"{n}th percentile of the iteration time") for n in PERCENTILES]
    rates = [
        (f"{rate}_p{n}", f"{per_second} the {n}th percentile of the iteration time") for n in PERCENTILES
    ]
    return (
        Metric("iteration_time", "s", "lower", "time of one training iteration, all ranks", _SCALED),
        *(Metric(name, "s", "lower", meaning, _SCALED) for name, meaning in times),
        Metric(rate, "1/s", "higher", f"{per_second} the median iteration time", _SCALED),
        *(Metric(name, "1/s", "higher", meaning, _SCALED) for name, meaning in rates),
        Metric(
            "scaling_efficiency",
            "%",
            "higher",
            "examples per second per rank, relative to the smallest round",
            _SCALED,
        ),
        Metric("communication_share", "%", "lower", share, _SCALED),
        Metric("rank_spread", "%", "lower", spread, _SCALED),
        Metric("peak_memory", "GB", "lower", memory, _SCALED, "max"),
    )


def _device_metrics() -> tuple[Metric, ...]:
    busy = "time in which the accelerator is busy in one {} call: the union of its kernels and copies, by torch's profiler"
    submit = "time the host takes to submit one {} call to the accelerator, without waiting for it"
    return (
        Metric("device_speedup", "x", "higher", "eager device time / compiled device time: median of pairs"),
        Metric("device_latency", "ms", "lower", busy.format("compiled")),
        Metric("eager_device_latency", "ms", "lower", busy.format("eager")),
        Metric("host_latency", "ms", "lower", submit.format("compiled")),
        Metric("eager_host_latency", "ms", "lower", submit.format("eager")),
        Metric("device_share", "%", "higher", "share of a compiled call in which the accelerator is busy"),
    )


DEVICE_METRICS = tuple(metric.name for metric in _device_metrics())
"""The metrics that only accelerators have."""

DEVICE_COUNTERPARTS: dict[str, str] = {
    "speedup": "device_speedup",
    "abs_latency": "device_latency",
    "eager_latency": "eager_device_latency",
}
"""The metric of the device's own time for each metric by the wall clock."""


ACCURACY = "accuracy"
SECONDS, BYTES, TRACKED = "seconds", "bytes", "tracked_value"
_BOTH = (Probe.PERFORMANCE, Probe.ACCURACY)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(ACCURACY, "status", "equal", "the status: how the case ended", (Probe.ACCURACY,)),
        Metric(
            "speedup",
            "x",
            "higher",
            "eager time / compiled time, timed in pairs: the median of the faster half of the pairs",
        ),
        Metric("abs_latency", "ms", "lower", "median time of one compiled call"),
        Metric("eager_latency", "ms", "lower", "median time of one eager call"),
        *_device_metrics(),
        Metric("baseline", "x", "higher", "speedup in the runner's --baseline file"),
        Metric(
            "speedup_vs_baseline", "x", "higher", "speedup relative to that in the runner's --baseline file"
        ),
        Metric(
            COMPILE_SECONDS,
            "s",
            "lower",
            "time torch spent compiling during the first calls, by its own timers",
            _BOTH,
        ),
        Metric("compilation_latency", "s", "lower", "time of five compiled calls minus five eager calls"),
        Metric("compression_ratio", "x", "higher", "eager peak memory / compiled peak memory"),
        Metric("eager_peak_mem", "GB", "lower", "peak memory of the eager warm-up"),
        Metric("dynamo_peak_mem", "GB", "lower", "peak memory of the compiled warm-up"),
        Metric("cache_lookup_latency", "s", "lower", "time spent looking up compile caches"),
        Metric("calls_captured", "calls", "higher", "operator calls captured in graphs", _BOTH),
        Metric("unique_graphs", "graphs", "higher", "distinct graphs captured", _BOTH),
        Metric("graph_breaks", "breaks", "lower", "number of times graph capture stopped", _BOTH),
        Metric(
            "unique_graph_breaks",
            "breaks",
            "lower",
            "number of distinct reasons why graph capture stopped",
            _BOTH,
        ),
        Metric("fallbacks_to_eager", "frames", "lower", "frames that were not compiled at all", _BOTH),
        Metric("autograd_captures", "graphs", "equal", "graphs captured by compiled autograd", _BOTH),
        Metric("autograd_compiles", "graphs", "equal", "graphs compiled by compiled autograd", _BOTH),
        Metric("cudagraph_skips", "graphs", "lower", "graphs that could not use CUDA graphs", _BOTH),
        Metric("recompiles", "compiles", "lower", "number of times a frame was compiled again", _BOTH),
        *_counted_metrics(),
        Metric("import_time_us", "us", "lower", "time to import a module", _COUNTED, "min"),
        *_scaling_metrics(),
        *_scenario_metrics(),
        Metric(SECONDS, "s", "lower", "time of one call or run, measured by another benchmark tool"),
        Metric(BYTES, "bytes", "lower", "memory, measured by another benchmark tool"),
        Metric(
            TRACKED,
            "number",
            "equal",
            "a number tracked by a benchmark of another tool, with any meaning",
            signed=True,
        ),
    )
}

COUNTED_UNITS = frozenset(
    {
        *("status", "calls", "graphs", "breaks", "frames", "compiles", "instructions"),
        *("look-ups", "% of look-ups"),
    }
)
"""Units of metrics that do not vary by chance, and do not depend on the speed of a machine."""

FORMER_NAMES: dict[str, str] = {"dynamo_compilation_latency": COMPILE_SECONDS}
"""Renamed metrics, by old name; files, rules and settings may still use it."""


def current_name(metric: str) -> str:
    """Return the current name of a metric; every file reader applies this."""
    return FORMER_NAMES.get(metric, metric)


def names_of(metric: str) -> tuple[str, ...]:
    """Return the current and former names of a metric."""
    return (metric, *(old for old, new in FORMER_NAMES.items() if new == metric))


DEFAULT_MARGIN = 0.015  # of an instruction count, if neither rule nor baseline has one

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
