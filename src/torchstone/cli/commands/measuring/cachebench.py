"""``torchstone cachebench``: PyTorch's compile-cache benchmark, with its options and its file."""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

from torchstone.cli.commands.measuring.pr_time import new_run_file
from torchstone.cli.commands.measuring.run import run_to_file
from torchstone.cli.options import run_options
from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.plain import FILE, Option
from torchstone.cli.options.quantities import parse_count
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Run
from torchstone.core.vocabulary import PASSED, Probe
from torchstone.define.benchmarks import MODES, SIZES
from torchstone.formats import read_file
from torchstone.formats.torch import cachebench_json

MODELS = {
    "torchbench": ("nanogpt", "BERT_pytorch", "resnet50", "moco", "llama"),
    "huggingface": ("AllenaiLongformerBase", "BertForMaskedLM", "GPT2ForSequenceClassification"),
}
DTYPES = {"inference": "bfloat16", "training": "amp"}
MOST_REPEATS = 9

OPTIONS = (
    Option("--benchmark", "benchmark", "SUITE", "torchbench or huggingface.", choices=tuple(MODELS)),
    Option("--model", "models", "NAME", "Only this model of the suite. Repeatable.", multiple=True, short="-m"),
    Option("--mode", "mode", "MODE", "inference (in bfloat16) or training (in amp); by default training.", choices=MODES),
    Option("--device", "device", "DEVICE", "By default the machine's accelerator, else cpu."),
    Option("--dynamic", "dynamic", "", "Compile with dynamic shapes."),
    Option("--repeat", "repeat", "N", "Cold and warm so many times, 1 to 9; by default once."),
    Option("--output", "output", "FILE", "The JSON file. The run file is written beside it.", writes=FILE),
    Option("--size", "size", "SIZE", "full (the default; takes minutes per model on a CPU), or small: models shrunk to run in seconds.", choices=SIZES),
    Option("--threads", "threads", "N", "Threads for torch; by default torch's own choice."),
    Option("--timeout", "timeout", "TIME", "End a start that takes longer; by default 30m."),
    Option("--explain", "explain", "", "Print why caches did not serve a graph."),
)  # fmt: skip


def run_cachebench(_arguments: tuple[str, ...], **given: Any) -> int:  # noqa: ANN401  (click gives texts, flags and tuples)
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
    suite, output = _required(given, "benchmark"), _required(given, "output")
    if (parse_count("--repeat", given["repeat"]) or 1) > MOST_REPEATS:
        raise UsageError(f"--repeat {given['repeat']}: expected 1 to {MOST_REPEATS}")
    run_file = find_free_name(output) if is_file(output) else new_run_file()
    finished = run_to_file((suite,), _request(suite, run_file, given))
    if not finished.path:
        return finished.code
    run = read_file(finished.path).run
    written = _write(run, output) if run.finished else 0
    return max(written, finished.code)


def _required(given: dict[str, Any], name: str) -> str:
    if not given[name]:
        raise UsageError(f"--{name} is missing", advice="see 'torchstone cachebench --help'")
    return str(given[name])


def _request(suite: str, run_file: str, given: dict[str, Any]) -> dict[str, Any]:
    """The same as options of ``torchstone run``."""
    mode = given["mode"] or "training"
    request: dict[str, Any] = {
        option.name: () if option.multiple else None if option.metavar else False
        for option in run_options.OPTIONS
    }
    return request | {
        "probes": (Probe.COMPILE_CACHE.value,),
        "scenarios": ("cold", "warm"),
        "modes": (mode,),
        "dtypes": (DTYPES[mode],),
        "devices": (given["device"],) if given["device"] else (),
        "dynamics": ("true",) if given["dynamic"] else (),
        "only": given["models"] or MODELS[suite],
        "output": run_file,
        **{name: given[name] for name in ("repeat", "size", "threads", "timeout", "explain")},
    }


def is_file(output: str) -> bool:
    """Whether an output is, or will be, a regular file: beside a pipe or a device nothing is written."""
    return os.path.isfile(output) or not os.path.exists(output)


def find_free_name(output: str) -> str:
    """The run file beside a JSON file: its name, and a number if an earlier run has it."""
    stem = output.removesuffix(".json")
    names = (f"{stem}{f'-{number}' if number > 1 else ''}.jsonl" for number in itertools.count(1))
    return next(name for name in names if not os.path.exists(name))


def _write(run: Run, output: str) -> int:
    """Write the records of the models that passed; with none of them there is no file, as the original has it."""
    text = cachebench_json.write(run)
    if not text:
        sys.stderr.write(f"no model passed, so there is nothing to write to {printable(output)}\n")
        return 1
    write_text(output, text)
    written = sum(outcome.status == PASSED for outcome in run.outcomes)
    print(f"wrote {written} of {len(run.outcomes)} models to {printable(output)}")
    return 0


cachebench_command = make_command("cachebench", run_cachebench, OPTIONS, "", required=False, bare=True)
