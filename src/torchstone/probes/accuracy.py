"""Probe ``accuracy``: compiled against eager, with a float64 run to say which of the two is off.

Every run starts from an independent copy of the same work with the same seed: a float64 one for reference, eager twice, compiled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torchstone.define import Check, Work
from torchstone.probes.batch import find_batch_dependence
from torchstone.probes.capture import read_capture, reset_capture
from torchstone.probes.device import is_out_of_memory
from torchstone.probes.reply import PhaseClock, Result, Stopped, ending_as
from torchstone.probes.similarity import Comparison, find_bitwise_difference
from torchstone.probes.subject import (
    NotMeasurableError,
    Target,
    clone,
    default_loss,
    gradient_mode,
    place,
    seed_everything,
)

STEPS = 2
LEARNING_RATE = 0.01
_SCALARS = (int, float, complex, str, bool, type(None))


@dataclass(frozen=True)
class AccuracyPlan:
    """What is asked beyond the comparison itself: keep the outputs, compare with kept ones, or vary the batch."""

    save_to: str = ""
    compare_with: str = ""
    batch_invariant: bool = False


def measure_accuracy(
    work: Work,
    target: Target,
    check: Check,
    plan: AccuracyPlan,
    clock: PhaseClock,
    result: Result,
    identity: dict[str, str],
) -> None:
    """Compare, adding to ``result``; a case that ends early raises ``Stopped`` with its status."""
    told = result.extra["accuracy"] = {"tolerance": check.tolerance, "cosine": check.cosine}
    with gradient_mode(target.mode), _reproducible():
        clock.enter("eager")
        reference, why = _reference(work, target, check)
        told["reference"] = "none" if reference is None else "float64"
        if reference is None and not check.cosine:
            check = replace(check, cosine=True)
            told |= {"cosine": True, "why_cosine": f"no float64 reference: {why}"}
            result.caution(f"compared by cosine similarity only: no float64 reference ({why})")
        eager = _run_eager(work, target, check)
        clock.enter("compile")
        with ending_as("fail_to_run", "OOM", is_out_of_memory):
            compiled = _run_compiled(work, target, check)
        _add_capture(result, identity)
        clock.enter("compare")
        comparison = Comparison(check, reference, equal_nan=target.dtype != "float32")
        _judge(comparison, eager, compiled, lambda: _run_compiled(work, target, check))
        _compare_with_kept(plan, compiled)
        if plan.batch_invariant:
            _check_batches(work, target, result)


@contextmanager
def _reproducible() -> Iterator[None]:
    """Deterministic algorithms, full float32 precision, and compiled random numbers that are eager's."""
    import torch._inductor.config as inductor  # noqa: PLC0415

    deterministic = torch.are_deterministic_algorithms_enabled()
    precision = torch.get_float32_matmul_precision()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_float32_matmul_precision("highest")
    random_before = inductor.fallback_random
    inductor.fallback_random = True
    try:
        yield
    finally:
        inductor.fallback_random = random_before
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(deterministic)


def _reference(work: Work, target: Target, check: Check) -> tuple[dict[str, Any] | None, str]:
    """The results in float64, or why there are none."""
    try:
        exact = place(clone(work), target.device.device, torch.float64, target.mode)
        return _run(exact, replace(target, dtype="float64"), exact.model, check), ""
    except Exception as error:  # noqa: BLE001  (a model need not work in float64: recorded, and compared otherwise)
        return None, f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.200}"


def _run_eager(work: Work, target: Target, check: Check) -> dict[str, Any]:
    """Eager twice: a model that does not agree with itself cannot be compared with anything."""
    with ending_as("eager_1st_run_fail", "eager_1st_run_OOM", is_out_of_memory):
        first_work = clone(work)
        first = _run(first_work, target, first_work.model, check)
    with ending_as("eager_2nd_run_fail", "eager_2nd_run_OOM", is_out_of_memory):
        second_work = clone(work)
        second = _run(second_work, target, second_work.model, check)
    difference = find_bitwise_difference(first, second)
    if difference and torch.version.hip:
        difference = Comparison(check, None).find_mismatch(first, second)
    if difference and not check.non_deterministic:
        raise Stopped("eager_two_runs_differ", difference)
    return first


def _run_compiled(work: Work, target: Target, check: Check) -> dict[str, Any]:
    reset_capture()
    own = clone(work)
    return _run(own, target, target.compile(own.model), check)


def _run(work: Work, target: Target, model: Callable[..., Any], check: Check) -> dict[str, Any]:
    """Some steps of the work with ``model`` in place of its own, and everything they produced, by name."""
    seed_everything()
    if target.mode == "inference":
        for _ in range(STEPS):
            with target.autocast():
                output = model(*work.args, **work.kwargs)
        return dict(_outputs(output))
    loss = work.loss or default_loss
    optimizer = _optimizer(work, check)
    for _ in range(STEPS):
        for leaf in _trained(work).values():
            leaf.grad = None
        with target.autocast():
            value = loss(model(*work.args, **work.kwargs))
        value.backward()
        if optimizer:
            optimizer.step()
    return dict(_trained_values(work, value))


def _optimizer(work: Work, check: Check) -> torch.optim.Optimizer | None:
    if not isinstance(work.model, torch.nn.Module) or check.optimizer == "none":
        return None
    parameters = [parameter for parameter in work.model.parameters() if parameter.requires_grad]
    if not parameters:
        return None
    if check.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=LEARNING_RATE)
    return torch.optim.SGD(parameters, lr=LEARNING_RATE)


def _outputs(output: object) -> Iterator[tuple[str, Any]]:
    """Every leaf of what a model returned, by its path. Something that cannot be compared is refused, not passed over."""
    for path, leaf in pytree.tree_flatten_with_path(output)[0]:
        name = f"output{pytree.keystr(path)}"
        if isinstance(leaf, torch.Tensor):
            yield name, leaf.detach().clone()
        elif isinstance(leaf, _SCALARS):
            yield name, leaf
        else:
            raise NotMeasurableError(
                f"{name} is a {type(leaf).__name__}: results must be tensors, numbers, texts, or containers of these"
            )


def _trained(work: Work) -> dict[str, torch.Tensor]:
    """Everything that gets a gradient: parameters and inputs, by name."""
    found: dict[str, torch.Tensor] = {}
    if isinstance(work.model, torch.nn.Module):
        found |= {name: each for name, each in work.model.named_parameters() if each.requires_grad}
    for path, leaf in pytree.tree_flatten_with_path((work.args, dict(work.kwargs)))[0]:
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            found[f"input{pytree.keystr(path)}"] = leaf
    return found


def _trained_values(work: Work, loss: torch.Tensor) -> Iterator[tuple[str, Any]]:
    """The loss, all gradients, and parameters and buffers after the steps. A gradient that is absent is zero."""
    yield "loss", loss.detach().clone()
    for name, leaf in _trained(work).items():
        gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        yield f"gradient of {name}", gradient.detach().clone()
    if isinstance(work.model, torch.nn.Module):
        for name, tensor in (*work.model.named_parameters(), *work.model.named_buffers()):
            yield f"{name} after the steps", tensor.detach().clone()


def _judge(
    comparison: Comparison,
    eager: dict[str, Any],
    compiled: dict[str, Any],
    again: Callable[[], dict[str, Any]],
) -> None:
    """One comparison, or the majority of several where the check asks for it."""
    check = comparison.check
    mismatches = [comparison.find_mismatch(eager, compiled)]
    mismatches += [comparison.find_mismatch(eager, again()) for _ in range(check.runs - 1)]
    wrong = [mismatch for mismatch in mismatches if mismatch]
    if len(wrong) * 2 > len(mismatches) and not check.non_deterministic:
        votes = f" (in {len(wrong)} of {len(mismatches)} runs)" if len(mismatches) > 1 else ""
        raise Stopped("fail_accuracy", wrong[0] + votes)


def _compare_with_kept(plan: AccuracyPlan, compiled: dict[str, Any]) -> None:
    """Compare bit by bit with the outputs that an earlier run kept, and keep these."""
    if plan.compare_with:
        if not os.path.exists(plan.compare_with):
            raise Stopped(
                "not_bitwise_equivalent", f"no outputs were kept for this case in {plan.compare_with}"
            )
        kept = torch.load(plan.compare_with, weights_only=True)
        here = {
            name: value.cpu() if isinstance(value, torch.Tensor) else value
            for name, value in compiled.items()
        }
        if difference := find_bitwise_difference(kept, here):
            raise Stopped("not_bitwise_equivalent", difference)
    if plan.save_to:
        os.makedirs(os.path.dirname(plan.save_to), exist_ok=True)
        here = {
            name: value.cpu() if isinstance(value, torch.Tensor) else value
            for name, value in compiled.items()
        }
        torch.save(here, plan.save_to)


def _check_batches(work: Work, target: Target, result: Result) -> None:
    status, message = find_batch_dependence(clone(work), target)
    if status == "pass_due_to_skip":
        result.status, result.message = status, message
    elif status:
        raise Stopped(status, message)


def _add_capture(result: Result, identity: dict[str, str]) -> None:
    captured = read_capture()
    for metric, count in captured.counts.items():
        result.add(metric, count)
    result.add("dynamo_compilation_latency", captured.seconds, **identity)
    if captured.graph_breaks:
        result.extra["graph_breaks"] = captured.graph_breaks
    if captured.recompile_reasons:
        result.extra["recompile_reasons"] = captured.recompile_reasons
