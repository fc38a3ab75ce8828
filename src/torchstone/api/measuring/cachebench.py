"""``cachebench``: PyTorch's compile-cache benchmark, with the same models and output file."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.measuring.events import EventWatcher, OnEvent
from torchstone.api.measuring.run import MeasuredRun, measure_run
from torchstone.api.measuring.run_request import RunRequest
from torchstone.api.requests import Path, Texts, make_request, path_of
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError
from torchstone.core.vocabulary import PASSED, Probe
from torchstone.formats.torch import cachebench_json

if TYPE_CHECKING:
    from typing import Unpack

MODELS = {
    "torchbench": ("nanogpt", "BERT_pytorch", "resnet50", "moco", "llama"),
    "huggingface": ("AllenaiLongformerBase", "BertForMaskedLM", "GPT2ForSequenceClassification"),
}
DTYPES = {"inference": "bfloat16", "training": "amp"}
MOST_REPEATS = 9


class CachebenchRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Suite, models and settings: the options of PyTorch's script, and some of ``run``. ``output`` is the run file."""

    suite: str
    models: tuple[str, ...] = ()
    mode: str = "training"
    device: str = ""
    dynamic: bool = False
    repeat: int | None = None
    size: str = "full"
    threads: int | None = None
    timeout: float | None = None
    output: str = ""


class CachebenchOptions(TypedDict, total=False):
    """Options of ``cachebench``, explained in docs/cache.md."""

    models: Texts
    mode: str
    device: str
    dynamic: bool
    repeat: int
    size: str
    threads: int
    timeout: float
    output: Path


class CachebenchResult(MeasuredRun, frozen=True):
    """A run of the compile-cache benchmark."""

    @property
    def text(self) -> str:
        """The records of all models that passed, as PyTorch's script writes them."""
        return cachebench_json.write(self.run)

    @property
    def written(self) -> int:
        """The number of models with a record."""
        return sum(outcome.status == PASSED for outcome in self.outcomes)

    def write(self, path: Path) -> bool:
        """Write the records, unless no model passed, as PyTorch's script does. Return whether the file was written."""
        target = path_of(path)
        if not self.text:
            return False
        write_text(target, self.text)
        return True


def cachebench(
    suite: str, *, on_event: OnEvent | None = None, **options: Unpack[CachebenchOptions]
) -> CachebenchResult:
    """Compile models twice with one cache folder, cold and warm, as ``torchstone cachebench`` does.

    torchstone.cachebench("huggingface", models="BertForMaskedLM", size="small").write("cache.json")
    """
    request = run_request_of(make_request(CachebenchRequest, {"suite": suite, **options}))
    measured = measure_run(request, EventWatcher(on_event))
    return CachebenchResult(measured.reading, measured.loss, measured.broken)


def run_request_of(request: CachebenchRequest) -> RunRequest:
    """Return the request of the run that the benchmark consists of."""
    if request.suite not in MODELS:
        raise UsageError(f"--benchmark {request.suite}: expected {' or '.join(MODELS)}")
    if request.mode not in DTYPES:
        raise UsageError(f"--mode {request.mode}: expected {' or '.join(DTYPES)}")
    if not 1 <= (request.repeat or 1) <= MOST_REPEATS:
        raise UsageError(f"--repeat {request.repeat}: expected 1 to {MOST_REPEATS}")
    return RunRequest(
        targets=(request.suite,),
        probes=(Probe.COMPILE_CACHE.value,),
        scenarios=("cold", "warm"),
        modes=(request.mode,),
        dtypes=(DTYPES[request.mode],),
        devices=(request.device,) if request.device else (),
        dynamics=(True,) if request.dynamic else (),
        only=request.models or MODELS[request.suite],
        repeat=request.repeat,
        size=request.size,
        threads=request.threads,
        timeout=request.timeout,
        output=request.output,
    )


def find_free_name(output: str) -> str:
    """Return an unused name for the run file next to a JSON file."""
    stem = output.removesuffix(".json")
    names = (f"{stem}{f'-{number}' if number > 1 else ''}.jsonl" for number in itertools.count(1))
    return next(name for name in names if not os.path.exists(name))
