"""Whether a model's answer for one example depends on how many others are in the batch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from torchstone.define import Work
from torchstone.probes.capture import reset_capture
from torchstone.probes.subject import Target, seed_everything

SKIPPED = "pass_due_to_skip"


def find_batch_dependence(work: Work, target: Target) -> tuple[str, str]:
    """The status that says at which batch size the results change, and the reason; both empty where they do not."""
    tensors = [
        leaf for leaf in pytree.tree_leaves((work.args, dict(work.kwargs))) if isinstance(leaf, torch.Tensor)
    ]
    sizes = {tensor.shape[0] for tensor in tensors if tensor.ndim}
    if target.mode != "inference":
        return SKIPPED, "batch invariance is about inference"
    if len(sizes) != 1 or (size := sizes.pop()) < 2:
        return (
            SKIPPED,
            "the inputs do not share a first dimension of two or more, so there is no batch to vary",
        )
    whole = _call(work, target, size)
    if not whole or any(tensor.ndim == 0 or tensor.shape[0] != size for tensor in whole):
        return SKIPPED, "not every output has the batch as its first dimension"
    while size > 1:
        size //= 2
        try:
            part = _call(work, target, size)
        except Exception as error:  # noqa: BLE001  (a model can raise anything, and all of it is a result)
            return f"fail_to_run_at_batch_{size}", f"{type(error).__name__}: {error}"
        if any(not torch.equal(one[:size], other) for one, other in zip(whole, part, strict=True)):
            return (
                f"fail_batch_invariance_at_{size}",
                f"the first {size} results are not those of the whole batch",
            )
    return "", ""


def _call(work: Work, target: Target, size: int) -> list[torch.Tensor]:
    """The output tensors of the compiled model for the first examples of the batch."""

    def cut(value: Any) -> Any:  # noqa: ANN401  (any leaf of the inputs)
        return value[:size] if isinstance(value, torch.Tensor) and value.ndim else value

    args, kwargs = pytree.tree_map(cut, (work.args, dict(work.kwargs)))
    reset_capture()
    seed_everything()
    with target.autocast():
        output = target.compile(work.model)(*args, **kwargs)
    return [leaf.detach() for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
