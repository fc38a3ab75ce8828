"""The options of ``torchstone run``, and the request that they add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchstone.api.measuring.preparation import prepare_request
from torchstone.api.measuring.run_request import RunRequest
from torchstone.cli.options.consent import TRUST
from torchstone.cli.options.plain import FILE, FOLDER, RUN_FILE, Option
from torchstone.cli.options.quantities import (
    parse_bytes,
    parse_count,
    parse_seconds,
    parse_shard,
    parse_share,
    split_list,
)
from torchstone.cli.options.requests import make_request as request_of
from torchstone.core.errors import UsageError
from torchstone.core.run_settings import CACHES, STARTS, STRATEGIES
from torchstone.core.vocabulary import COUNTERS, DEFAULT_SCENARIOS, SCENARIOS
from torchstone.define.benchmarks import DTYPES, SIZES
from torchstone.measure.procedures.rounds import DEFAULT_STRATEGIES
from torchstone.measure.runner import PlanRequest

_DYNAMIC = {"auto": None, "true": True, "false": False}


def parse_counts(option: str, texts: tuple[str, ...]) -> tuple[int, ...]:
    """Several counts, each 1 or more."""
    counts = (parse_count(option, each) for each in split_list(option, texts))
    return tuple(count for count in counts if count)


def _parse_dynamics(option: str, texts: tuple[str, ...]) -> tuple[bool | None, ...]:
    return tuple(_DYNAMIC[each] for each in split_list(option, texts, tuple(_DYNAMIC)))


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
    Option("--probe", "probes", "PROBE", "What to measure: performance, accuracy, compile_cache, instructions, scaling; by default the first two, and of some benchmarks what they are made for.", multiple=True, parse=split_list),
    Option("--device", "devices", "DEVICE", "cpu, cuda, xpu, mps or another; by default the machine's accelerator, else cpu.", multiple=True, parse=split_list),
    Option("--backend", "backends", "NAME", "Any backend of torch.compile; by default inductor. 'none' compiles nothing: both sides are eager.", multiple=True, parse=split_list),
    Option("--mode", "modes", "MODE", "inference, training or both; by default inference.", multiple=True, parse=split_list),
    Option("--dtype", "dtypes", "DTYPE", f"{', '.join(DTYPES)}; by default float32.", multiple=True, parse=split_list),
    Option("--dynamic", "dynamics", "true|false|auto", "torch.compile's dynamic; auto, its own default, unless given.", multiple=True, parse=_parse_dynamics),
    Option("--batch-size", "batch_sizes", "N", "Instead of each benchmark's own.", multiple=True, parse=parse_counts),
    Option("--size", "size", "SIZE", "full, or small: models shrunk to run in seconds on a CPU.", choices=SIZES),
    Option("--compile-mode", "compile_mode", "MODE", "torch.compile's mode, such as max-autotune or reduce-overhead."),
    Option("--option", "compile_options", "KEY=VALUE", "One of torch.compile's options. Repeatable.", multiple=True, parse=_parse_pairs),
    Option("--fullgraph", "fullgraph", "", "torch.compile's fullgraph: a graph break is an error."),
    Option("--filter", "filters", "REGEX", "Only benchmarks whose name has this in it. Repeatable.", multiple=True, short="-k"),
    Option("--exclude", "exclusions", "REGEX", "No benchmarks whose name has this in it. Repeatable.", multiple=True, short="-x"),
    Option("--only", "only", "NAME", "Only this benchmark or case: its exact name or id, or a shell pattern. Repeatable.", multiple=True),
    Option("--shard", "shard", "I/N", "Only the I-th of N parts, from 1. All cases of a benchmark are in one part.", parse=lambda _, text: parse_shard(text)),
    Option("--durations", "durations", "FILE", "An earlier run file, to make shards take equally long; the same for all shards. Repeatable.", multiple=True),
    Option("--repeat", "repeat", "N", "Time exactly N pairs of calls; by default as many as --precision needs. Of compile_cache: measure all scenarios N times, by default once. Of instructions: count N iterations. Of scaling: time N iterations, by default 20 to 500, for about 3 s.", parse=parse_count),
    Option("--trials", "trials", "N", "Measure every case in N processes, one after another, for 'torchstone compare'; by default in one.", parse=parse_count),
    Option("--precision", "precision", "SHARE", "Stop once the speedup is known this well; by default 1%.", parse=parse_share),
    Option("--budget", "budget", "TIME", "Stop timing a case after this long; by default 5s.", parse=parse_seconds),
    Option("--threads", "threads", "N", "Threads for torch; by default torch's own choice. What is counted has one.", parse=parse_count),
    Option("--compile-threads", "compile_threads", "N", "Processes for the compiler in each worker; by default 1.", parse=parse_count),
    Option("--jobs", "jobs", "N", "Cases at once. Only one is timed at a time. By default one for each --threads cores, and 1 on an accelerator. Rounds of scaling are never side by side.", short="-j", parse=parse_count),
    Option("--timeout", "timeout", "TIME", "End a case that takes longer; by default 30m.", parse=parse_seconds),
    Option("--memory-limit", "memory_limit", "SIZE", "End a case that holds more memory than this, such as 8GB.", parse=parse_bytes),
    Option("--start", "start", "HOW", "How workers are started: auto, fork or spawn. Compile times of the two differ.", choices=STARTS),
    Option("--cache", "cache", "KIND", "cold: every case compiles from nothing. warm: compiled code is kept between runs.", choices=CACHES),
    Option("--import", "imports", "MODULE", "Import this first: it may register a backend or a device. Repeatable.", multiple=True),
    Option("--save-outputs", "save_outputs", "DIR", "Keep the compiled outputs of the accuracy probe.", writes=FOLDER),
    Option("--compare-outputs", "compare_outputs", "DIR", "Compare bit by bit with outputs kept earlier."),
    Option("--scenario", "scenarios", "NAME", f"How compile_cache starts: {', '.join(SCENARIOS)}; by default {', '.join(DEFAULT_SCENARIOS)}. 'cold' is always measured.", multiple=True, parse=split_list),
    Option("--save-artifacts", "save_artifacts", "DIR", "Keep torch's portable cache artifacts of compile_cache there.", writes=FOLDER),
    Option("--load-artifacts", "load_artifacts", "DIR", "Have the portable scenario load artifacts kept earlier."),
    Option("--explain", "explain", "", "Print why caches did not serve a graph (compile_cache)."),
    Option("--counter", "counter", "NAME", f"What counts the instructions probe: {', '.join(COUNTERS)}; by default the first that this machine has.", choices=tuple(COUNTERS)),
    Option("--profile", "profile", "", "Also record where the count went, for 'torchstone explain' (instructions)."),
    Option("--ranks", "ranks", "N", "How many processes train (scaling): by default 1, 2, 4, ... and as many as there are devices, then whole hosts.", multiple=True, parse=parse_counts),
    Option("--strategy", "strategies", "NAME", f"How they train together (scaling): {', '.join(STRATEGIES)}; by default {' and '.join(DEFAULT_STRATEGIES)}.", multiple=True, parse=split_list),
    Option("--bucket-mb", "buckets", "MB", "How large DDP's buckets are (scaling); by default 25. Several are compared.", multiple=True, parse=_parse_buckets),
    Option("--collective-backend", "collective", "NAME", "What ranks talk with (scaling): gloo, nccl or another that torch has; by default the device's own."),
    Option("--collective-timeout", "collective_timeout", "TIME", "Give up on a rank that is waited for this long (scaling); by default 2m.", parse=parse_seconds),
    Option("--warm-up", "warm_up", "N", "Iterations before the first timed one (scaling); by default 5.", parse=parse_count),
    Option("--batch-invariant", "batch_invariant", "", "Also check that results do not depend on the batch size."),
    Option("--output", "output", "FILE", "The run file; by default a dated name in .torchstone/runs.", short="-o", writes=RUN_FILE),
    Option("--csv", "csv", "DIR", "Also write the CSV files of PyTorch's runner there.", writes=FOLDER),
    Option("--raw-cells", "raw_cells", "", "Write the cells of --csv files unchanged. By default, a cell that a spreadsheet would run as a formula, such as =1+1, gets a leading apostrophe."),
    Option("--ddp-json", "ddp_json", "FILE", "Also write the report of PyTorch's DDP benchmark (scaling).", writes=FILE),
    Option("--v3", "v3", "DIR", "Also write records for PyTorch's benchmark database there.", writes=FOLDER),
    Option("--label", "label", "TEXT", "A name for the code under test, kept in the run file."),
    Option("--resume", "resume", "RUNFILE", "Finish a run that was interrupted; --jobs, --timeout and --memory-limit may be given anew."),
    TRUST,
    Option("--dry-run", "dry_run", "", "Show what would be measured."),
    Option("--exit-zero", "exit_zero", "", "Exit with 0 even if a case failed: 'torchstone check' decides."),
)  # fmt: skip


def make_run_request(targets: tuple[str, ...], values: Mapping[str, Any]) -> RunRequest:
    """The request that a command line asks for."""
    return request_of(RunRequest, OPTIONS, values, targets=targets)


def make_request(targets: tuple[str, ...], values: Mapping[str, Any]) -> PlanRequest:
    """The same as the measuring side takes it."""
    return prepare_request(make_run_request(targets, values))
