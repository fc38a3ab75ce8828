"""``torchstone cachebench``: PyTorch's compile-cache benchmark, with its options and its file."""

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
from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.plain import FILE, Option
from torchstone.cli.options.quantities import parse_count, parse_seconds
from torchstone.cli.options.requests import make_request
from torchstone.core.errors import UsageError, printable
from torchstone.define.benchmarks import MODES, SIZES

OPTIONS = (
    Option("--benchmark", "benchmark", "SUITE", "torchbench or huggingface.", choices=tuple(MODELS)),
    Option("--model", "models", "NAME", "Only this model of the suite. Repeatable.", multiple=True, short="-m"),
    Option("--mode", "mode", "MODE", "inference (in bfloat16) or training (in amp); by default training.", choices=MODES),
    Option("--device", "device", "DEVICE", "By default the machine's accelerator, else cpu."),
    Option("--dynamic", "dynamic", "", "Compile with dynamic shapes."),
    Option("--repeat", "repeat", "N", "Cold and warm so many times, 1 to 9; by default once.", parse=parse_count),
    Option("--output", "output", "FILE", "The JSON file. The run file is written beside it.", writes=FILE),
    Option("--size", "size", "SIZE", "full (the default; takes minutes per model on a CPU), or small: models shrunk to run in seconds.", choices=SIZES),
    Option("--threads", "threads", "N", "Threads for torch; by default torch's own choice.", parse=parse_count),
    Option("--timeout", "timeout", "TIME", "End a start that takes longer; by default 30m.", parse=parse_seconds),
    Option("--explain", "explain", "", "Print why caches did not serve a graph."),
)  # fmt: skip


def run_cachebench(_arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Compile models twice with one cache folder, cold and warm, and say what warm saves.

    Takes the options of PyTorch's own script and writes the same records. By
    default the models are that script's: nanogpt, BERT_pytorch, resnet50, moco
    and llama of torchbench; AllenaiLongformerBase, BertForMaskedLM and
    GPT2ForSequenceClassification of huggingface. A model that fails is
    reported, is in the run file, and makes the exit code 1.

    The full size is made for an accelerator. On a CPU a call takes seconds to
    a minute (BertForMaskedLM: about 50 s on two busy cores), and each start
    makes five: expect 10 minutes per model and repeat, and longer for training.
    With --size small, expect about 10 seconds.

    'torchstone run --probe compile_cache' measures more: any benchmark, saved
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
    is_file = os.path.isfile(output) or not os.path.exists(
        output
    )  # beside a pipe or a device nothing is written
    run_file = find_free_name(output) if is_file else ""
    request = make_request(CachebenchRequest, OPTIONS, values, suite=values["benchmark"], output=run_file)
    finished = run_to_file(run_request_of(request), Showing(explain=values["explain"]))
    if finished.result is None:
        return finished.code
    result = CachebenchResult(finished.result.reading, finished.result.loss, finished.result.broken)
    return max(_write(result, output), finished.code)


def _write(result: CachebenchResult, output: str) -> int:
    """Write the records of the models that passed."""
    if not result.write(output):
        sys.stderr.write(f"no model passed, so there is nothing to write to {printable(output)}\n")
        return 1
    print(f"wrote {result.written} of {len(result)} models to {printable(output)}")
    return 0


cachebench_command = make_command("cachebench", run_cachebench, OPTIONS, "", required=False, bare=True)
