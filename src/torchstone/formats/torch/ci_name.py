"""Parse and write the file names of PyTorch's CI, and the runner command that a name implies.

The usual form is ``{backend}_{suite}_{dtype}_{mode}_{device}_{probe}.csv``.
"""

from __future__ import annotations

import os
import re

from msgspec import Struct, convert

from torchstone.core.records import Case
from torchstone.core.vocabulary import Probe

# As text, because a check needs at most one of these: re compiles a pattern on first use, and keeps it.
_NAME = (
    r"(?P<backend>[\w.-]+)"
    r"_(?P<suite>torchbench|huggingface_llm|huggingface|timm_models|timm|smoke)"
    r"_(?P<dtype>amp_bf16|amp_fp16|[a-z0-9]+)"
    r"_(?P<mode>(?:inference|training)(?:-[a-z-]+)?)"
    r"_(?P<device>[a-z0-9]+(?:_[a-z0-9]+)*)"
    r"_(?P<probe>accuracy|performance)\.csv"
)
_FEWEST_UNDERSCORES = 5  # of a name of the usual form: most other names need no pattern to be told from it
_TARGETS_NAME = (
    r"expected_ci_speedup_[a-z_]+_(?P<suite>torchbench|huggingface|timm_models|timm)_(?P<device>[a-z]+)\.csv"
)
_SMOKE_TEST_NAME = (
    r"(?P<compiler>[a-z]+)_(?P<mode>inference)_.+?"
    r"(?:_(?P<backend>backend=\w+|export-[a-z-]+))?"
    r"_(?P<dtype>amp_bf16|amp_fp16|amp|float32|float16|bfloat16)"
    r"_(?P<shape>static|dynamic)(?:_(?P<wrapper>default|cpp))?_(?P<device>cpu)_smoketest\.csv"
)
SHAPES = {"static": False, "dynamic": True}
"""CI's words for shapes, and whether they are dynamic."""
BACKEND_OPTION = "backend="
"""Prefix of a backend that is written as a runner option."""
_SCRIPTS = {"timm": "timm_models"}
_OURS = {"smoke", "huggingface_llm"}
_DEVICES = {"rocm": "cuda"}
_DTYPE_OPTIONS = {"amp_bf16": "amp --amp-dtype bfloat16", "amp_fp16": "amp --amp-dtype float16"}
_BACKEND_OPTIONS = {
    "eager": "--backend eager",
    "aot_eager": "--backend aot_eager",
    "inductor": "--backend inductor",
    "inductor_with_cudagraphs": "--backend inductor",
    "inductor_no_cudagraphs": "--backend inductor --disable-cudagraphs",
    "inductor_dynamic": "--backend inductor --dynamic-shapes --dynamic-batch-only",
    "dynamic_inductor": "--backend inductor --dynamic-shapes --dynamic-batch-only",
}


class CiName(Struct, frozen=True):
    """The parts of a result file's name; all empty if CI would not give this name.

    The dtype may contain an underscore (``amp_bf16``), and so may the device, with a model (``cuda_h100``).
    """

    backend: str = ""
    suite: str = ""
    dtype: str = ""
    mode: str = ""
    device: str = ""
    probe: str = ""
    dynamic: bool | None = None
    wrapper: str = ""

    def command(self) -> str:
        """Return the runner's command for one model, ``{name}``; empty if the name does not imply it."""
        options = _BACKEND_OPTIONS.get(self.backend)
        if options is None or not self.suite or self.suite in _OURS or "-" in self.mode:
            return ""
        device = self.device.partition("_")[0]
        return (
            f"python benchmarks/dynamo/{_SCRIPTS.get(self.suite, self.suite)}.py --{self.probe} --{self.mode} "
            f"--{_DTYPE_OPTIONS.get(self.dtype, self.dtype)} {options} "
            f"--device {_DEVICES.get(device, device)} --only {{name}}"
        )


def read_ci_name(path: str, probe: str) -> CiName:
    """Parse a file name, if it is that of a file of this probe.

    >>> read_ci_name("logs/inductor_torchbench_amp_bf16_inference_xpu_accuracy.csv", "accuracy").dtype
    'amp_bf16'
    """
    name = os.path.basename(path)
    if name.count("_") >= _FEWEST_UNDERSCORES and (found := re.fullmatch(_NAME, name)):
        return convert(found.groupdict(), CiName) if found["probe"] == probe else CiName()
    return _read_smoke_test_name(name) if probe == Probe.PERFORMANCE else CiName()


def _read_smoke_test_name(name: str) -> CiName:
    """Parse the name of a CPU smoke test result.

    The form is ``inductor_inference_{model}[_{backend}]_{dtype}_{shape}[_{wrapper}]_cpu_smoketest.csv``.
    """
    found = re.fullmatch(_SMOKE_TEST_NAME, name)
    if not found:
        return CiName()
    return CiName(
        backend=(found["backend"] or found["compiler"]).removeprefix(BACKEND_OPTION),
        dtype=found["dtype"],
        mode=found["mode"],
        device=found["device"],
        probe=Probe.PERFORMANCE.value,
        dynamic=SHAPES[found["shape"]],
        wrapper=found["wrapper"] or "",
    )


def read_targets_name(path: str) -> CiName:
    """Parse suite and device from the name of a speedup-targets file.

    >>> read_targets_name("expected_ci_speedup_inductor_torchbench_cpu.csv").device
    'cpu'
    """
    found = re.fullmatch(_TARGETS_NAME, os.path.basename(path))
    return CiName(suite=found["suite"], device=found["device"]) if found else CiName()


def file_stem(case: Case) -> str:
    """Return the name that CI would give a file with this case, without its extension.

    Dynamic shapes, a compile mode or a size follow the backend, as in ``inductor_dynamic``.
    """
    variant = case.variant
    further = [
        value if name in {"compile_mode", "size"} else f"{name}_{value}" for name, value in variant.further
    ]
    dynamic = {True: ["dynamic"], False: ["static"], None: []}[variant.dynamic]
    backend = "_".join([variant.backend, *dynamic, *further])
    parts = (backend, case.suite, variant.dtype, variant.mode, variant.device.replace(":", ""), case.probe)
    return re.sub(r"[^\w.-]+", "_", "_".join(parts))
