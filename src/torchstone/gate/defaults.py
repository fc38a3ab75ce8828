"""The default rules, and the usual noise of each kind of metric: the one table of defaults behind docs/gate.md.

A rule states the margin of its metric. The noise is how much a number differs between two processes of the same code on an
ordinary machine, as the standard deviation of its logarithm. It is used where a side has a single process; several trials
show their noise themselves.
"""

from __future__ import annotations

from msgspec import Struct

from torchstone.analyze.speedup_ratio import BETWEEN_PROCESSES
from torchstone.core.records import Measurement, Outcome, Rule, ScopedRule, find_metric
from torchstone.core.vocabulary import COMPILE_SECONDS, DEFAULT_MARGIN, METRICS, SCENARIOS, Probe


class DefaultCriteria(Struct, frozen=True):
    """The numbers that everything is judged by unless it is told otherwise; docs/gate.md has them as a table.

    Ratios and margins are shares of the expected value, ``points`` is in the metric's own unit (percent). ``pair_`` numbers are for pairs of ``ab``.
    Noise is the standard deviation of the logarithm between processes.
    """

    alpha: float = 0.01
    pair_alpha: float = 0.0025
    pair_margin: float = 0.02
    no_rule_margin: float = 0.05
    count_margin: float = DEFAULT_MARGIN
    cpu_margin: float = 0.3
    gain_floor: float = 0.95
    time_ceiling: float = 1.15
    size_ceiling: float = 1.15
    device_ceiling: float = 1.05
    rate_floor: float = 0.87  # about 1 / 1.15, because a rate varies like a time
    points: float = 5
    gain_noise: float = 0.01
    time_noise: float = 0.03
    size_noise: float = 0.01


DEFAULTS = DefaultCriteria()
_FASTER = Rule("ratio_floor", ratio=DEFAULTS.gain_floor)
_SLOWER = Rule("ratio_ceiling", ratio=DEFAULTS.time_ceiling)
_LARGER = Rule("ratio_ceiling", ratio=DEFAULTS.size_ceiling)
_MORE_POINTS = Rule("count", better="higher", tolerance=DEFAULTS.points)

_NOISE_BY_METRIC = {
    "speedup": DEFAULTS.gain_noise,
    "compression_ratio": DEFAULTS.gain_noise,
    "device_speedup": 0.0,  # its own interval allows for other processes
    "device_latency": BETWEEN_PROCESSES,
    "eager_device_latency": BETWEEN_PROCESSES,
}
_SIZES = dict.fromkeys(("GB", "bytes", "files"), DEFAULTS.size_noise)
_NOISE_BY_UNIT = {**_SIZES, "%": None, "status": None}


def noise_of(metric: str, *found: Measurement | Outcome | None) -> float | None:
    """Return the usual noise of a metric between processes; None where a single process says nothing about it.

    ``found`` may define a metric that a benchmark reports: it varies like a time, unless its unit says otherwise.
    """
    if metric in _NOISE_BY_METRIC:
        return _NOISE_BY_METRIC[metric]
    known = find_metric(metric, *found)
    return _NOISE_BY_UNIT.get(known.unit, DEFAULTS.time_noise) if known else DEFAULTS.time_noise


_CACHE_RULES = {
    COMPILE_SECONDS: _SLOWER,
    "saved": _MORE_POINTS,  # in points: a saving may be near 0, or less
    "hit_rate": Rule("count", better="higher"),
}


def _scenario_rules() -> tuple[ScopedRule, ...]:
    """Return the rules of the compile_cache probe. Other metrics explain these, and are ignored by default; a cold start has no hits to lose."""
    rules = {
        f"{scenario}_{quantity}": rule
        for scenario in SCENARIOS
        for quantity, rule in _CACHE_RULES.items()
        if (scenario, quantity) != ("cold", "hit_rate")
    }
    return tuple(
        ScopedRule(rules.get(metric.name, Rule("ignore")), metric.name)
        for metric in METRICS.values()
        if Probe.COMPILE_CACHE in metric.probes
    )


_SCALING_RULES = {
    "iteration_time": _SLOWER,
    "scaling_efficiency": _MORE_POINTS,  # in points
    "peak_memory": _LARGER,
}


def _scaling_rules() -> tuple[ScopedRule, ...]:
    """Return the rules of the scaling probe. Other metrics express or explain the same, and are ignored by default."""
    return tuple(
        ScopedRule(_SCALING_RULES.get(metric.name, Rule("ignore")), metric.name)
        for metric in METRICS.values()
        if Probe.SCALING in metric.probes
    )


DEFAULT_RULES: tuple[ScopedRule, ...] = (
    ScopedRule(Rule("status_equal"), "accuracy"),
    # On an accelerator the device's own time comes first: it varies least, and a host-bound wall time is left to it.
    ScopedRule(_FASTER, "device_speedup"),
    ScopedRule(Rule("ratio_ceiling", ratio=DEFAULTS.device_ceiling), "device_latency"),
    ScopedRule(_FASTER, "speedup"),
    ScopedRule(_FASTER, "compression_ratio"),
    ScopedRule(_SLOWER, "abs_latency"),
    ScopedRule(_SLOWER, "compilation_latency"),
    ScopedRule(_SLOWER, COMPILE_SECONDS),
    ScopedRule(_LARGER, "dynamo_peak_mem"),
    ScopedRule(_SLOWER, "seconds"),
    ScopedRule(_LARGER, "bytes"),
    ScopedRule(Rule("count", better="lower"), "graph_breaks"),
    ScopedRule(Rule("count", better="lower"), "unique_graph_breaks"),
    ScopedRule(Rule("count", better="lower"), "fallbacks_to_eager"),
    ScopedRule(Rule("count", better="lower"), "cudagraph_skips"),
    ScopedRule(Rule("count", better="lower"), "recompiles"),
    ScopedRule(Rule("count", better="higher"), "calls_captured"),
    ScopedRule(Rule("count", better="higher"), "unique_graphs"),
    ScopedRule(Rule("margin"), "instruction_count"),
    ScopedRule(Rule("margin"), "compile_time_instruction_count"),
    ScopedRule(Rule("margin"), "python_calls"),
    ScopedRule(Rule("margin"), "compile_time_python_calls"),
    # Times are noisy: the default margin of counts would be too narrow.
    ScopedRule(Rule("margin", usual=DEFAULTS.cpu_margin), "cpu_seconds"),
    ScopedRule(Rule("margin", usual=DEFAULTS.cpu_margin), "compile_time_cpu_seconds"),
    ScopedRule(Rule("margin", usual=DEFAULTS.cpu_margin), "import_time_us"),
    # The work of other threads and processes depends on scheduling.
    ScopedRule(Rule("ignore"), "instruction_count_tree"),
    ScopedRule(Rule("ignore"), "compile_time_instruction_count_tree"),
    # Ignored by default: the cost of eager, and metrics that are neither good nor bad.
    ScopedRule(Rule("ignore"), "eager_peak_mem"),
    ScopedRule(Rule("ignore"), "eager_latency"),
    ScopedRule(Rule("ignore"), "eager_device_latency"),
    # How fast the host submits work differs by a factor of two between processes.
    ScopedRule(Rule("ignore"), "host_latency"),
    ScopedRule(Rule("ignore"), "eager_host_latency"),
    ScopedRule(Rule("ignore"), "device_share"),
    ScopedRule(Rule("ignore"), "baseline"),
    ScopedRule(Rule("ignore"), "speedup_vs_baseline"),
    ScopedRule(Rule("ignore"), "cache_lookup_latency"),
    ScopedRule(Rule("ignore"), "autograd_captures"),
    ScopedRule(Rule("ignore"), "autograd_compiles"),
    ScopedRule(Rule("ignore"), "tracked_value"),
    *_scenario_rules(),
    *_scaling_rules(),
)

CUSTOM_RULES: dict[str, Rule] = {
    "higher": Rule("ratio_floor", ratio=DEFAULTS.rate_floor),
    "lower": _SLOWER,
    "equal": Rule("count", better="equal"),
}
"""The default rules of metrics that benchmarks report themselves, by the direction that is better."""
