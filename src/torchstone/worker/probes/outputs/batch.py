"""Check whether a model's result for one example depends on the batch size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from torchstone.define.benchmarks import Work
from torchstone.worker.probes.compiler.capture import reset_capture
from torchstone.worker.probes.outputs.similarity import find_bitwise_difference
from torchstone.worker.probes.outputs.values import map_parts, take_apart, tensors_in
from torchstone.worker.probes.reply import tell
from torchstone.worker.probes.subject import Origin, Target, seed_everything

SKIPPED = "pass_due_to_skip"


def find_batch_dependence(origin: Origin, target: Target) -> tuple[str, str]:
    """Return the status and the reason if results change with the batch size; both empty if not."""
    sizes = {tensor.shape[0] for tensor in tensors_in(_inputs(origin.work)) if tensor.ndim}
    if target.mode != "inference":
        return SKIPPED, "batch invariance is about inference"
    if len(sizes) != 1 or (size := sizes.pop()) < 2:
        return (
            SKIPPED,
            "the inputs do not share a first dimension of two or more, so there is no batch to vary",
        )
    whole = _call(origin, target, size)
    if not whole or any(tensor.ndim == 0 or tensor.shape[0] != size for tensor in whole.values()):
        return SKIPPED, "not every output has the batch as its first dimension"
    while size > 1:
        size //= 2
        try:
            part = _call(origin, target, size)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (a model can raise anything, and all of it is a result)
            return f"fail_to_run_at_batch_{size}", tell(error)
        if difference := find_bitwise_difference({name: each[:size] for name, each in whole.items()}, part):
            return (
                f"fail_batch_invariance_at_{size}",
                f"the first {size} results are not those of the whole batch: {difference}",
            )
    return "", ""


def _inputs(work: Work) -> tuple[tuple[Any, ...], dict[str, object]]:
    return work.args, dict(work.kwargs)


def _call(origin: Origin, target: Target, size: int) -> dict[str, torch.Tensor]:
    """Return the output tensors of the compiled model for the first examples of the batch."""

    def cut(value: Any) -> Any:  # noqa: ANN401  (a tensor or a module)
        return value[:size] if isinstance(value, torch.Tensor) and value.ndim else value

    work = origin.copy()
    args, kwargs = map_parts(cut, _inputs(work))
    work = replace(work, args=args, kwargs=kwargs)
    reset_capture()
    seed_everything()
    with target.autocast():
        output = target.compile(work.model)(*work.args, **work.kwargs)
    return {name: leaf for name, leaf in take_apart(output) if isinstance(leaf, torch.Tensor)}
