"""The options of ``torchstone run``, and the request that they add up to."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from torchstone.cli.options.consent import TRUST
from torchstone.cli.options.plain import FILE, FOLDER, RUN_FILE, Option
from torchstone.cli.options.quantities import (
    parse_assignments,
    parse_bytes,
    parse_count,
    parse_seconds,
    parse_shard,
    parse_share,
    split_list,
)
from torchstone.core.errors import UsageError
from torchstone.core.records import Case
from torchstone.core.run_settings import CACHES, STARTS, STRATEGIES, Settings, fault_of_record
from torchstone.core.text.redaction import redact
from torchstone.core.vocabulary import COUNTERS, DEFAULT_SCENARIOS, PORTABLE, SCENARIOS, Probe
from torchstone.define.benchmarks import DTYPES, MODES, SIZES
from torchstone.formats import read_file
from torchstone.measure.plan import DEFAULT_PROBES, Axes, Selection, check_patterns, durations_of
from torchstone.measure.procedures.rounds import DEFAULT_STRATEGIES
from torchstone.measure.runner import Request
from torchstone.measure.targets import resolve_targets

PROBES = (*DEFAULT_PROBES, Probe.COMPILE_CACHE.value, Probe.INSTRUCTIONS.value, Probe.SCALING.value)
_DYNAMIC = {"auto": None, "true": True, "false": False}
_DEFAULTS = Settings()

OPTIONS = (
    Option("--probe", "probes", "PROBE", "What to measure: performance, accuracy, compile_cache, instructions, scaling; by default the first two, and of some benchmarks what they are made for.", multiple=True),
    Option("--device", "devices", "DEVICE", "cpu, cuda, xpu, mps or another; by default the machine's accelerator, else cpu.", multiple=True),
    Option("--backend", "backends", "NAME", "Any backend of torch.compile; by default inductor. 'none' compiles nothing: both sides are eager.", multiple=True),
    Option("--mode", "modes", "MODE", "inference, training or both; by default inference.", multiple=True),
    Option("--dtype", "dtypes", "DTYPE", f"{', '.join(DTYPES)}; by default float32.", multiple=True),
    Option("--dynamic", "dynamics", "true|false|auto", "torch.compile's dynamic; auto, its own default, unless given.", multiple=True),
    Option("--batch-size", "batch_sizes", "N", "Instead of each benchmark's own.", multiple=True),
    Option("--size", "size", "SIZE", "full, or small: models shrunk to run in seconds on a CPU.", choices=SIZES),
    Option("--compile-mode", "compile_mode", "MODE", "torch.compile's mode, such as max-autotune or reduce-overhead."),
    Option("--option", "compile_options", "KEY=VALUE", "One of torch.compile's options. Repeatable.", multiple=True),
    Option("--fullgraph", "fullgraph", "", "torch.compile's fullgraph: a graph break is an error."),
    Option("--filter", "filters", "REGEX", "Only benchmarks whose name has this in it. Repeatable.", multiple=True, short="-k"),
    Option("--exclude", "exclusions", "REGEX", "No benchmarks whose name has this in it. Repeatable.", multiple=True, short="-x"),
    Option("--only", "only", "NAME", "Only this benchmark or case: its exact name or id, or a shell pattern. Repeatable.", multiple=True),
    Option("--shard", "shard", "I/N", "Only the I-th of N parts, from 1. All cases of a benchmark are in one part."),
    Option("--durations", "durations", "FILE", "An earlier run file, to make shards take equally long; the same for all shards. Repeatable.", multiple=True),
    Option("--repeat", "repeat", "N", "Time exactly N pairs of calls; by default as many as --precision needs. Of compile_cache: measure all scenarios N times, by default once. Of instructions: count N iterations. Of scaling: time N iterations, by default 20 to 500, for about 3 s."),
    Option("--trials", "trials", "N", "Measure every case in N processes, one after another, for 'torchstone compare'; by default in one."),
    Option("--precision", "precision", "SHARE", "Stop once the speedup is known this well; by default 1%."),
    Option("--budget", "budget", "TIME", "Stop timing a case after this long; by default 5s."),
    Option("--threads", "threads", "N", "Threads for torch; by default torch's own choice. What is counted has one."),
    Option("--compile-threads", "compile_threads", "N", "Processes for the compiler in each worker; by default 1."),
    Option("--jobs", "jobs", "N", "Cases at once. Only one is timed at a time. By default one for each --threads cores, and 1 on an accelerator. Rounds of scaling are never side by side.", short="-j"),
    Option("--timeout", "timeout", "TIME", "End a case that takes longer; by default 30m."),
    Option("--memory-limit", "memory_limit", "SIZE", "End a case that holds more memory than this, such as 8GB."),
    Option("--start", "start", "HOW", "How workers are started: auto, fork or spawn. Compile times of the two differ.", choices=STARTS),
    Option("--cache", "cache", "KIND", "cold: every case compiles from nothing. warm: compiled code is kept between runs.", choices=CACHES),
    Option("--import", "imports", "MODULE", "Import this first: it may register a backend or a device. Repeatable.", multiple=True),
    Option("--save-outputs", "save_outputs", "DIR", "Keep the compiled outputs of the accuracy probe.", writes=FOLDER),
    Option("--compare-outputs", "compare_outputs", "DIR", "Compare bit by bit with outputs kept earlier."),
    Option("--scenario", "scenarios", "NAME", f"How compile_cache starts: {', '.join(SCENARIOS)}; by default {', '.join(DEFAULT_SCENARIOS)}. 'cold' is always measured.", multiple=True),
    Option("--save-artifacts", "save_artifacts", "DIR", "Keep torch's portable cache artifacts of compile_cache there.", writes=FOLDER),
    Option("--load-artifacts", "load_artifacts", "DIR", "Have the portable scenario load artifacts kept earlier."),
    Option("--explain", "explain", "", "Print why caches did not serve a graph (compile_cache)."),
    Option("--counter", "counter", "NAME", f"What counts the instructions probe: {', '.join(COUNTERS)}; by default the first that this machine has.", choices=tuple(COUNTERS)),
    Option("--profile", "profile", "", "Also record where the count went, for 'torchstone explain' (instructions)."),
    Option("--ranks", "ranks", "N", "How many processes train (scaling): by default 1, 2, 4, ... and as many as there are devices, then whole hosts.", multiple=True),
    Option("--strategy", "strategies", "NAME", f"How they train together (scaling): {', '.join(STRATEGIES)}; by default {' and '.join(DEFAULT_STRATEGIES)}.", multiple=True),
    Option("--bucket-mb", "buckets", "MB", "How large DDP's buckets are (scaling); by default 25. Several are compared.", multiple=True),
    Option("--collective-backend", "collective", "NAME", "What ranks talk with (scaling): gloo, nccl or another that torch has; by default the device's own."),
    Option("--collective-timeout", "collective_timeout", "TIME", "Give up on a rank that is waited for this long (scaling); by default 2m."),
    Option("--warm-up", "warm_up", "N", "Iterations before the first timed one (scaling); by default 5."),
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


def make_request(targets: tuple[str, ...], given: dict[str, Any]) -> Request:
    """What the options add up to; a value that cannot be right is an error before anything is started."""
    check_patterns("-k", given["filters"])
    check_patterns("--exclude", given["exclusions"])
    resolved = resolve_targets(targets)
    if given["compile_mode"] and given["compile_options"]:
        raise UsageError(
            "--compile-mode and --option exclude each other in torch.compile", advice="leave one out"
        )
    _check_probe_options(given)
    _check_loading(given)
    if given["durations"] and not given["shard"]:
        raise UsageError("--durations is for --shard", advice="add --shard I/N, or leave it out")
    settings = _settings(given, resolved.sources)
    field, problem = fault_of_record(settings)
    if problem:
        raise UsageError(f"--{field.partition('[')[0].replace('_', '-')}: {problem}")
    return Request(
        resolved,
        _axes(given),
        Selection(tuple(given["only"]), tuple(given["filters"]), tuple(given["exclusions"])),
        settings,
        parse_shard(given["shard"]),
        _durations(given["durations"]),
        given["label"] or "",
    )


_ONLY_FOR: dict[str, tuple[Probe, ...]] = {
    **dict.fromkeys(("scenarios", "save_artifacts", "load_artifacts", "explain"), (Probe.COMPILE_CACHE,)),
    **dict.fromkeys(("counter", "profile"), (Probe.INSTRUCTIONS,)),
    **dict.fromkeys(("save_outputs", "compare_outputs", "batch_invariant"), (Probe.ACCURACY,)),
    **dict.fromkeys(("ranks", "strategies", "buckets", "collective"), (Probe.SCALING,)),
    **dict.fromkeys(("collective_timeout", "warm_up", "ddp_json"), (Probe.SCALING,)),
    **dict.fromkeys(("precision", "budget"), (Probe.PERFORMANCE,)),
    "repeat": (Probe.PERFORMANCE, Probe.COMPILE_CACHE, Probe.INSTRUCTIONS, Probe.SCALING),
}


def _check_probe_options(given: dict[str, Any]) -> None:
    """Refuse an option that no probe which was asked for would look at."""
    probes = split_list("--probe", given["probes"], PROBES)
    if probes == (Probe.SCALING.value,):
        _check_scaling(given)
    if probes:
        refuse_unused(given, probes)


def _check_loading(given: dict[str, Any]) -> None:
    """Refuse options about compile artifacts of which nothing would be loaded."""
    if given["trust"] and not given["load_artifacts"]:
        raise UsageError("--trust requires --resume or --load-artifacts", advice="leave it out")
    scenarios = split_list("--scenario", given["scenarios"], tuple(SCENARIOS))
    if given["load_artifacts"] and scenarios and PORTABLE not in scenarios:
        advice = f"add --scenario {PORTABLE}, or leave out --load-artifacts"
        raise UsageError(f"--load-artifacts requires the scenario {PORTABLE}", advice=advice)


def refuse_unused(given: dict[str, Any], probes: Collection[str]) -> None:
    """Refuse an option that none of these probes would look at."""
    for option in OPTIONS:
        users = _ONLY_FOR.get(option.name)
        if users and given[option.name] and not {*users} & {*probes}:
            named = f"the probe{'s' if len(users) > 1 else ''} {', '.join(users)}"
            raise UsageError(
                f"{option.flag} is for {named}, and nothing here is measured by {'it' if len(users) == 1 else 'these'}",
                advice=f"add --probe {users[0]}, or leave out {option.flag}",
            )


def may_scale(given: dict[str, Any]) -> bool:
    """Whether something may be trained on several ranks: only then is a job of several processes one run."""
    return not given["probes"] or Probe.SCALING in split_list("--probe", given["probes"], PROBES)


def _check_scaling(given: dict[str, Any]) -> None:
    """Refuse what rounds of training have no use for."""
    if "inference" in split_list("--mode", given["modes"], MODES):
        raise UsageError("scaling is about training, so --mode inference has no place", advice="leave it out")
    for name in ("dynamics", "precision", "budget"):
        if given[name]:
            flag = next(option.flag for option in OPTIONS if option.name == name)
            raise UsageError(f"{flag} has no meaning for the probe scaling", advice=f"leave out {flag}")


def _axes(given: dict[str, Any]) -> Axes:
    return Axes(
        split_list("--probe", given["probes"], PROBES),
        split_list("--device", given["devices"]),
        split_list("--backend", given["backends"]) or ("inductor",),
        split_list("--mode", given["modes"], MODES) or ("inference",),
        split_list("--dtype", given["dtypes"], DTYPES) or ("float32",),
        tuple(_DYNAMIC[each] for each in split_list("--dynamic", given["dynamics"], tuple(_DYNAMIC)))
        or (None,),
        parse_counts("--batch-size", given["batch_sizes"]),
        given["size"] or "full",
        _further(given),
        scaled_backends=split_list("--backend", given["backends"]) or ("none",),
    )


def parse_counts(option: str, texts: tuple[str, ...]) -> tuple[int, ...]:
    """Several counts, each 1 or more."""
    counts = (parse_count(option, each) for each in split_list(option, texts))
    return tuple(count for count in counts if count)


def _buckets(texts: tuple[str, ...]) -> tuple[float, ...]:
    sizes = []
    for text in split_list("--bucket-mb", texts):
        try:
            size = float(text)
        except ValueError:
            size = 0.0
        if not 0 < size < 1e6:
            raise UsageError(f"--bucket-mb {text}: expected megabytes, such as 25")
        sizes.append(size)
    return tuple(dict.fromkeys(sizes))


def _further(given: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """What torch.compile is told beyond a case's own axes: another compilation, so another case."""
    told = {"compile_mode": given["compile_mode"]} if given["compile_mode"] else {}
    if given["fullgraph"]:
        told["fullgraph"] = "true"
    options: list[str] = [redact(text) for text in given["compile_options"]]
    return tuple(told.items()) + tuple(
        (text.partition("=")[0], text.partition("=")[2]) for text in sorted(options)
    )


def _settings(given: dict[str, Any], sources: dict[str, dict[str, str]]) -> Settings:
    is_local = bool(given["imports"]) or any(source["kind"] == "file" for source in sources.values())
    return Settings(
        sources=sources,
        folder=os.getcwd() if is_local else "",
        imports=tuple(given["imports"]),
        start=given["start"] or _DEFAULTS.start,
        cache=given["cache"] or _DEFAULTS.cache,
        threads=parse_count("--threads", given["threads"]),
        compile_threads=parse_count("--compile-threads", given["compile_threads"]),
        repeat=parse_count("--repeat", given["repeat"]),
        trials=parse_count("--trials", given["trials"]),
        precision=parse_share("--precision", given["precision"]),
        budget=parse_seconds("--budget", given["budget"]),
        size=given["size"] or _DEFAULTS.size,
        compile_mode=given["compile_mode"],
        fullgraph=given["fullgraph"],
        options=parse_assignments("--option", given["compile_options"]),
        save_outputs=os.path.abspath(given["save_outputs"]) if given["save_outputs"] else "",
        compare_outputs=_folder("--compare-outputs", given["compare_outputs"]),
        batch_invariant=given["batch_invariant"],
        scenarios=split_list("--scenario", given["scenarios"], tuple(SCENARIOS)),
        save_artifacts=os.path.abspath(given["save_artifacts"]) if given["save_artifacts"] else "",
        load_artifacts=_folder("--load-artifacts", given["load_artifacts"]),
        counter=given["counter"] or "",
        profile=given["profile"],
        ranks=tuple(dict.fromkeys(sorted(parse_counts("--ranks", given["ranks"])))),
        strategies=split_list("--strategy", given["strategies"], STRATEGIES),
        buckets=_buckets(given["buckets"]),
        collective=given["collective"] or "",
        collective_timeout=parse_seconds("--collective-timeout", given["collective_timeout"]),
        warm_up=parse_count("--warm-up", given["warm_up"]),
        **given_limits(given),
    )


def given_limits(given: dict[str, Any]) -> dict[str, Any]:
    """What cases may use, as far as it was said; it has no part in what is measured."""
    limits = {
        "jobs": parse_count("--jobs", given["jobs"]),
        "timeout": parse_seconds("--timeout", given["timeout"]),
        "memory_limit": parse_bytes("--memory-limit", given["memory_limit"]),
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def _folder(option: str, path: str | None) -> str:
    if path and not os.path.isdir(path):
        raise UsageError(f"{option} {path}: no such folder")
    return os.path.abspath(path) if path else ""


def _durations(paths: tuple[str, ...]) -> dict[Case, float]:
    noted: dict[Case, float] = {}
    for path in paths:
        found = durations_of(read_file(path).run.outcomes)
        if not found:
            raise UsageError(
                f"--durations {path}: it does not say how long anything took", advice="expected a run file"
            )
        noted |= found
    return noted
