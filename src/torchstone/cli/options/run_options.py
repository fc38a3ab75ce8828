"""Options of ``torchstone run``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torchstone.api.measuring.run_request import RunRequest
from torchstone.api.presets import list_presets
from torchstone.cli.options.consent import TRUST
from torchstone.cli.options.plain import FILE, FOLDER, RUN_FILE, Option, in_section
from torchstone.cli.options.quantities import (
    parse_bytes,
    parse_count,
    parse_seconds,
    parse_shard,
    parse_share,
    split_list,
)
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.store_options import RECORD, STORE
from torchstone.core.config import POLICIES
from torchstone.core.errors import UsageError
from torchstone.core.run_settings import BATCH_SETS, CACHES, STARTS, STRATEGIES
from torchstone.core.vocabulary import COUNTERS, DEFAULT_SCENARIOS, PROBES, SCENARIOS
from torchstone.define.benchmarks import DTYPES, MODES, SIZES
from torchstone.measure.procedures.rounds import DEFAULT_STRATEGIES

DEVICES = ("cpu", "cuda", "xpu", "mps")
BACKENDS = ("inductor", "eager", "aot_eager", "aot_eager_decomp_partition", "cudagraphs", "none")
"""Words that a shell completes. Only torch knows which devices and backends exist."""

SWITCH = ("on", "off")

_DYNAMIC = {"auto": None, "true": True, "false": False}


def _alternatives(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}"


def parse_counts(option: str, texts: tuple[str, ...]) -> tuple[int, ...]:
    """Parse a list of positive integers."""
    counts = (parse_count(option, each) for each in split_list(option, texts))
    return tuple(count for count in counts if count)


def _parse_dynamics(option: str, texts: tuple[str, ...]) -> tuple[bool | None, ...]:
    return tuple(_DYNAMIC[each] for each in split_list(option, texts, tuple(_DYNAMIC)))


def _parse_switch(_option: str, text: str) -> bool:
    return text == "on"


def _parse_preset(option: str, text: str) -> str:
    if not text:
        raise UsageError(f"{option}: expected the name of a preset", advice=", ".join(list_presets()))
    return text


def _parse_buckets(option: str, texts: tuple[str, ...]) -> tuple[float, ...]:
    sizes = []
    for text in split_list(option, texts):
        try:
            size = float(text)
        except ValueError:
            size = 0.0
        if not 0 < size < 1e6:
            raise UsageError(f"{option} {text}: expected megabytes, such as 25")
        sizes.append(size)
    return tuple(dict.fromkeys(sizes))


def _parse_pairs(option: str, texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for text in texts:
        key, found, value = text.partition("=")
        if not found or not key:
            raise UsageError(f"{option} {text}: expected KEY=VALUE, such as max_autotune=true")
        pairs.append((key, value))
    return tuple(pairs)


OPTIONS = (
    *in_section(
        "What to measure",
        Option("--probe", "probes", "PROBE", "performance, accuracy, compile_cache, instructions or scaling (default: performance and accuracy, or the probe a benchmark is made for).", multiple=True, parse=split_list, words=tuple(PROBES)),
        Option("--device", "devices", "DEVICE", "cpu, cuda, xpu, mps or another device (default: the accelerator of this machine, else cpu). cuda:all spreads the cases over all GPUs.", multiple=True, parse=split_list, words=DEVICES),
        Option("--backend", "backends", "NAME", "Backend of torch.compile (default: inductor). With 'none' nothing is compiled: both sides are eager.", multiple=True, parse=split_list, words=BACKENDS),
        Option("--mode", "modes", "MODE", "inference or training (default: inference).", multiple=True, parse=split_list, words=MODES),
        Option("--dtype", "dtypes", "DTYPE", f"{_alternatives(DTYPES)} (default: float32).", multiple=True, parse=split_list, words=DTYPES),
        Option("--dynamic", "dynamics", "true|false|auto", "The 'dynamic' argument of torch.compile (default: auto).", multiple=True, parse=_parse_dynamics, words=tuple(_DYNAMIC)),
        Option("--batch-size", "batch_sizes", "N", "Batch size (default: that of each benchmark). Benchmarks without a batch_size parameter are skipped.", multiple=True, parse=parse_counts),
        Option("--size", "size", "SIZE", "full (default), or small: models shrunk to run in seconds on a CPU.", choices=SIZES),
        Option("--compile-mode", "compile_mode", "MODE", "The 'mode' argument of torch.compile, such as max-autotune or reduce-overhead."),
        Option("--option", "compile_options", "KEY=VALUE", "One of the 'options' of torch.compile. Repeatable.", multiple=True, parse=_parse_pairs),
        Option("--fullgraph", "fullgraph", "", "The 'fullgraph' argument of torch.compile: a graph break is an error."),
        Option("--preset", "preset", "NAME", "Set of options: dashboard measures as PyTorch's dashboard does; torchstone.toml may define others. Options given with it override it.", parse=_parse_preset),
        Option("--tf32", "tf32", "on|off", "Let float32 matrix products on a GPU use TF32 (default: torch's choice).", choices=SWITCH, parse=_parse_switch),
        Option("--half-reductions", "half_reductions", "on|off", "Let the math backend of attention on a GPU sum in float16 and bfloat16 (default: torch's choice).", choices=SWITCH, parse=_parse_switch),
        Option("--cuda-graphs", "cuda_graphs", "on|off", "Let inductor use CUDA graphs (default: as --compile-mode says).", choices=SWITCH, parse=_parse_switch),
        Option("--labels", "labels", "on|off", "Pass labels in inference, too, so that each call computes the loss (default: off).", choices=SWITCH, parse=_parse_switch),
        Option("--batch-set", "batch_set", "SET", "own (default), or dashboard: the batch sizes of PyTorch's dashboard.", choices=BATCH_SETS),
        Option("--import", "imports", "MODULE", "Import this module first; it may register a backend or a device. Repeatable.", multiple=True),
    ),
    *in_section(
        "Which cases",
        Option("--filter", "filters", "REGEX", "Only benchmarks whose name matches. Repeatable.", multiple=True, short="-k"),
        Option("--exclude", "exclusions", "REGEX", "Skip benchmarks whose name matches. Repeatable.", multiple=True, short="-x"),
        Option("--only", "only", "NAME", "Only this benchmark or case: an exact name or id, or a shell pattern. Repeatable.", multiple=True),
        Option("--shard", "shard", "I/N", "Only part I of N, counted from 1. All cases of a benchmark are in the same part.", parse=lambda _, text: parse_shard(text)),
        Option("--durations", "durations", "FILE", "Earlier run file, used to make shards take equally long. Use the same for all shards. Repeatable.", multiple=True),
    ),
    *in_section(
        "How long",
        Option("--repeat", "repeat", "N", "Time N pairs of calls (default: as many as --precision needs). compile_cache: measure all scenarios N times (default: 1). instructions: count N iterations. scaling: time N iterations (default: 20 to 500, for about 3 s).", parse=parse_count),
        Option("--trials", "trials", "N", "Measure every case in N processes, one after another, for 'torchstone compare' (default: 1).", parse=parse_count),
        Option("--precision", "precision", "SHARE", "Stop timing once the speedup is known this precisely (default: 1%).", parse=parse_share),
        Option("--budget", "budget", "TIME", "Stop timing a case after this time (default: 5s).", parse=parse_seconds),
        Option("--timeout", "timeout", "TIME", "End a case that takes longer (default: 30m).", parse=parse_seconds),
    ),
    *in_section(
        "Workers",
        Option("--threads", "threads", "N", "Threads of torch (default: torch's own choice; 1 for the instructions probe).", parse=parse_count),
        Option("--compile-threads", "compile_threads", "N", "Compiler processes of each worker (default: 1).", parse=parse_count),
        Option("--jobs", "jobs", "N", "Cases to run at once; only one is timed at a time on a device (default: as many as the cores allow with --threads each; on an accelerator, as many as cores and memory allow). Scaling rounds never run at once.", short="-j", parse=parse_count),
        Option("--memory-limit", "memory_limit", "SIZE", "End a case that uses more memory, such as 8GB.", parse=parse_bytes),
        Option("--start", "start", "HOW", "How to start workers: auto (default), fork or spawn. Compile times differ between fork and spawn.", choices=STARTS),
        Option("--cache", "cache", "KIND", "cold (default): every case compiles from scratch. warm: keep compiled code between runs.", choices=CACHES),
    ),
    *in_section(
        "Judging",
        Option("--baseline", "baselines", "FILE", "Judge the results against this baseline, a file or a level of the store (history, history:BRANCH or history:RUN), as 'torchstone check' does. Repeatable.", multiple=True),
        Option("--decide", "decide", "", "Measure what is red or undecided again, in new processes, until it is decided."),
        Option("--decide-within", "decide_within", "TIME", "With --decide: time for the whole run (default: 10m).", parse=parse_seconds),
        Option("--policy", "policy", "NAME", "With --baseline: strict (default), lenient or upstream.", choices=POLICIES),
    ),
    *in_section(
        "Output",
        Option("--output", "output", "FILE", "Run file to write (default: a dated name in .torchstone/runs).", short="-o", writes=RUN_FILE),
        Option("--force", "force", "", "Replace the run file that --output names. It is kept until the new run is complete."),
        Option("--csv", "csv", "DIR", "Also write CSV files as PyTorch's benchmark runner does.", writes=FOLDER),
        Option("--raw-cells", "raw_cells", "", "With --csv: write cells unchanged. By default, a cell that a spreadsheet would run as a formula, such as =1+1, gets a leading apostrophe."),
        Option("--ddp-json", "ddp_json", "FILE", "Also write the report of PyTorch's DDP benchmark (scaling probe).", writes=FILE),
        Option("--v3", "v3", "DIR", "Also write records for PyTorch's benchmark database.", writes=FOLDER),
        Option("--label", "label", "TEXT", "Name of the code under test, recorded in the run file."),
    ),
    *in_section(
        "Probe accuracy",
        Option("--save-outputs", "save_outputs", "DIR", "Save the outputs of the compiled models.", writes=FOLDER),
        Option("--compare-outputs", "compare_outputs", "DIR", "Compare bit by bit with outputs saved earlier."),
        Option("--batch-invariant", "batch_invariant", "", "Also check that results do not depend on the batch size."),
    ),
    *in_section(
        "Probe compile_cache",
        Option("--scenario", "scenarios", "NAME", f"{_alternatives(SCENARIOS)} (default: {', '.join(DEFAULT_SCENARIOS)}). cold is always measured.", multiple=True, parse=split_list, words=tuple(SCENARIOS)),
        Option("--save-artifacts", "save_artifacts", "DIR", "Save torch's portable cache artifacts.", writes=FOLDER),
        Option("--load-artifacts", "load_artifacts", "DIR", "Load artifacts saved earlier in the portable scenario."),
        Option("--explain", "explain", "", "Print why graphs were not served from a cache."),
    ),
    *in_section(
        "Probe instructions",
        Option("--counter", "counter", "NAME", f"{_alternatives(COUNTERS)} (default: the first that works on this machine).", choices=tuple(COUNTERS)),
        Option("--profile", "profile", "", "Also record where the count goes, for 'torchstone explain'; for the probe performance, where the time goes."),
    ),
    *in_section(
        "Probe scaling",
        Option("--ranks", "ranks", "N", "Number of training processes (default: 1, 2, 4, ..., the number of devices, then whole hosts).", multiple=True, parse=parse_counts),
        Option("--strategy", "strategies", "NAME", f"{_alternatives(STRATEGIES)} (default: {' and '.join(DEFAULT_STRATEGIES)}).", multiple=True, parse=split_list, words=STRATEGIES),
        Option("--bucket-mb", "buckets", "MB", "Bucket size of DDP (default: 25). Give several to compare them.", multiple=True, parse=_parse_buckets),
        Option("--collective-backend", "collective", "NAME", "gloo, nccl or another backend of torch.distributed (default: that of the device)."),
        Option("--collective-timeout", "collective_timeout", "TIME", "Give up on a rank after waiting this long (default: 2m).", parse=parse_seconds),
        Option("--warm-up", "warm_up", "N", "Iterations before the first timed one (default: 5).", parse=parse_count),
    ),
    RECORD,
    STORE,
    Option("--resume", "resume", "RUNFILE", "Finish an interrupted run. --jobs, --timeout and --memory-limit may be changed."),
    TRUST,
    Option("--dry-run", "dry_run", "", "Show the planned cases without measuring them."),
    Option("--exit-zero", "exit_zero", "", "Exit with 0 even if cases failed; for use with 'torchstone check'."),
)  # fmt: skip


def make_run_request(targets: tuple[str, ...], values: Mapping[str, Any]) -> RunRequest:
    """Make the request from the values of the options."""
    return make_request(RunRequest, OPTIONS, values, targets=targets)
