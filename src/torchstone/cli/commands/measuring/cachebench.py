"""``torchstone cachebench``: PyTorch's compile-cache benchmark, with the same options and output file."""

from __future__ import annotations

import os
import sys
from typing import Any

from torchstone.api.measuring.cachebench import (
    MODELS,
    CachebenchRequest,
    CachebenchResult,
    find_free_name,
    run_request_of,
)
from torchstone.cli.commands.measuring.run import Showing, run_to_file
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import FILE, Option
from torchstone.cli.options.quantities import parse_count, parse_seconds
from torchstone.cli.options.requests import make_request
from torchstone.core.errors import UsageError, printable
from torchstone.define.benchmarks import MODES, SIZES

OPTIONS = (
    Option("--benchmark", "benchmark", "SUITE", "torchbench or huggingface.", choices=tuple(MODELS)),
    Option("--model", "models", "NAME", "Only this model of the suite. Repeatable.", multiple=True, short="-m"),
    Option("--mode", "mode", "MODE", "inference (in bfloat16) or training (in amp) (default: training).", choices=MODES),
    Option("--device", "device", "DEVICE", "Device (default: the accelerator of this machine, else cpu)."),
    Option("--dynamic", "dynamic", "", "Compile with dynamic shapes."),
    Option("--repeat", "repeat", "N", "Number of repeats, 1 to 9 (default: 1).", parse=parse_count),
    Option("--output", "output", "FILE", "JSON file to write; the run file is written next to it.", writes=FILE),
    Option("--size", "size", "SIZE", "full (default; takes minutes per model on a CPU), or small: models shrunk to run in seconds.", choices=SIZES),
    Option("--threads", "threads", "N", "Threads of torch (default: torch's own choice).", parse=parse_count),
    Option("--timeout", "timeout", "TIME", "End a process that takes longer (default: 30m).", parse=parse_seconds),
    Option("--explain", "explain", "", "Print why graphs were not served from a cache."),
)  # fmt: skip


def run_cachebench(_arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Measure how much time compile caches save, cold and warm.

    Compiles each model twice with the same cache folder. Takes the options of
    PyTorch's own script and writes the same records. The default models are
    those of the script: nanogpt, BERT_pytorch, resnet50, moco and llama of
    torchbench; AllenaiLongformerBase, BertForMaskedLM and
    GPT2ForSequenceClassification of huggingface. A model that fails is
    reported, is in the run file, and makes the exit code 1.

    The full size is meant for an accelerator. On a CPU, a call takes between
    seconds and a minute (BertForMaskedLM: about 50 s on two busy cores), and
    each process makes five: expect 10 minutes per model and repeat, and more
    for training. With --size small, expect about 10 seconds.

    'torchstone run --probe compile_cache' can do more: any benchmark, saved
    artifacts, and precompiling.

    \b
    Example:
      torchstone cachebench --benchmark huggingface -m BertForMaskedLM \\
        --mode inference --repeat 3 --output cache.json
    """
    for name in ("benchmark", "output"):
        if not values[name]:
            raise UsageError(f"--{name} is missing", advice="see 'torchstone cachebench --help'")
    output = values["output"]
    # Next to a pipe or a device no run file is written.
    is_file = os.path.isfile(output) or not os.path.exists(output)
    run_file = find_free_name(output) if is_file else ""
    request = make_request(CachebenchRequest, OPTIONS, values, suite=values["benchmark"], output=run_file)
    finished = run_to_file(run_request_of(request), Showing(explain=values["explain"]))
    if finished.result is None:
        return finished.code
    result = CachebenchResult(finished.result.reading, finished.result.loss, finished.result.broken)
    return max(_write(result, output), finished.code)


def _write(result: CachebenchResult, output: str) -> int:
    """Write the records of all models that passed."""
    if not result.write(output):
        sys.stderr.write(f"no model passed, so {printable(output)} was not written\n")
        return 1
    print(f"wrote {result.written} of {len(result)} models to {printable(output)}")
    return 0


cachebench_command = make_command("cachebench", run_cachebench, OPTIONS, "", required=False, bare=True)
