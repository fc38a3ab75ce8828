"""Probe ``accuracy``: compiled against eager, with a float64 run to say which of the two is off.

Every run starts from work of its own, with the same seed: a float64 one for reference, eager twice, compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchstone.define import Check, Work
from torchstone.probes.batch import find_batch_dependence
from torchstone.probes.capture import add_capture, read_capture, reset_capture
from torchstone.probes.device import is_out_of_memory
from torchstone.probes.kept import find_kept_difference, keep_outputs
from torchstone.probes.precision import reproducible
from torchstone.probes.reply import PhaseClock, Result, Stopped, ending_as, tell
from torchstone.probes.similarity import Comparison, find_bitwise_difference, find_stranger
from torchstone.probes.subject import (
    NO_COMPILER,
    Origin,
    Target,
    default_loss,
    find_state,
    find_trained,
    gradient_mode,
    place,
    seed_everything,
)
from torchstone.probes.values import take_apart

STEPS = 2
LEARNING_RATE = 0.01
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
Outputs = dict[str, Any]


@dataclass(frozen=True)
class AccuracyPlan:
    """What is asked beyond the comparison itself: keep the outputs, compare with kept ones, or vary the batch."""

    save_to: str = ""
    compare_with: str = ""
    batch_invariant: bool = False


def measure_accuracy(
    origin: Origin,
    target: Target,
    check: Check,
    plan: AccuracyPlan,
    clock: PhaseClock,
    result: Result,
    identity: dict[str, str],
) -> None:
    """Compare, adding to ``result``; a case that ends early raises ``Stopped`` with its status."""
    told = result.extra["accuracy"] = {"tolerance": check.tolerance, "cosine": check.cosine}
    with gradient_mode(target.mode), reproducible():
        clock.enter("eager")
        reference, why = _reference(origin, target, check)
        try:
            eager = _run_eager(origin, target, check)
        finally:
            if origin.rebuilt:
                told["rebuilt"] = origin.rebuilt
        if reference is not None and target.dtype == "float32":
            why = find_stranger(reference, eager, check.tolerance)
            reference = None if why else reference
        told["reference"] = "none" if reference is None else "float64"
        if reference is None and not check.cosine:
            check = replace(check, cosine=True)
            told |= {"cosine": True, "why_cosine": f"no float64 reference: {why}"}
            result.caution(f"compared by cosine similarity only: no float64 reference ({why})")
        clock.enter("compile")
        compiled = _run_compiled(origin, target, check)
        if target.backend != NO_COMPILER:
            add_capture(result, read_capture(), identity)
        clock.enter("compare")
        comparison = Comparison(check, reference, equal_nan=target.dtype != "float32")
        _judge(comparison, eager, compiled, lambda: _run_compiled(origin, target, check), result)
        _compare_with_kept(plan, compiled, result)
        if plan.batch_invariant:
            _check_batches(origin, target, result)


def _reference(origin: Origin, target: Target, check: Check) -> tuple[Outputs | None, str]:
    """The results in float64, or why there are none."""
    try:
        exact = place(origin.copy_apart(), target.device.device, torch.float64, target.mode)
        return _run(exact, replace(target, dtype="float64"), exact.model, check), ""
    except (Exception, SystemExit) as error:  # noqa: BLE001  (a model need not work in float64: recorded, and compared otherwise)
        return None, f"{tell(error).partition(chr(10))[0]:.200}"


def _run_eager(origin: Origin, target: Target, check: Check) -> Outputs:
    """Eager twice: a model that does not agree with itself cannot be compared with anything."""
    with ending_as("eager_1st_run_fail", "eager_1st_run_OOM", is_out_of_memory):
        work = origin.copy()
        first = _run(work, target, work.model, check)
    with ending_as("eager_2nd_run_fail", "eager_2nd_run_OOM", is_out_of_memory):
        work = origin.copy()
        second = _run(work, target, work.model, check)
    difference = find_bitwise_difference(first, second)
    if difference and torch.version.hip:
        difference = Comparison(check, None).find_mismatch(first, second)
    if difference and not check.non_deterministic:
        built = f" (each run was built anew: {origin.rebuilt})" if origin.rebuilt else ""
        raise Stopped("eager_two_runs_differ", difference + built)
    return first


def _run_compiled(origin: Origin, target: Target, check: Check) -> Outputs:
    with ending_as("fail_to_run", "OOM", is_out_of_memory):
        reset_capture()
        work = origin.copy()
        return _run(work, target, target.compile(work.model), check)


def _run(work: Work, target: Target, model: Callable[..., Any], check: Check) -> Outputs:
    """Some steps of the work with ``model`` in place of its own, and everything they produced, by name."""
    seed_everything()
    if target.mode == "inference":
        for _ in range(STEPS):
            with target.autocast():
                output = model(*work.args, **work.kwargs)
        return dict(take_apart(output))
    loss = work.loss or default_loss
    trained = find_trained(work)
    optimizer = _optimizer(work, check)
    for _ in range(STEPS):
        for leaf in trained.values():
            leaf.grad = None
        with target.autocast():
            value = loss(model(*work.args, **work.kwargs))
        value.backward()
        if optimizer:
            optimizer.step()
    return dict(_trained_values(work, value))


def _optimizer(work: Work, check: Check) -> torch.optim.Optimizer | None:
    parameters = [each for each in find_state(work).values() if each.requires_grad and each.is_leaf]
    if not parameters or not check.optimizer:
        return None
    make: Callable[..., torch.optim.Optimizer] = OPTIMIZERS[check.optimizer]
    return make(parameters, lr=LEARNING_RATE)


def _trained_values(work: Work, loss: torch.Tensor) -> Iterator[tuple[str, Any]]:
    """The loss, all gradients, and parameters and buffers after the steps. A gradient that is absent is zero."""
    yield from take_apart(loss, "loss")
    for name, leaf in find_trained(work).items():
        gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        yield from take_apart(gradient, f"gradient of {name}")
    for name, tensor in find_state(work, buffers=True).items():
        yield from take_apart(tensor, f"{name} after the steps")


def _judge(
    comparison: Comparison, eager: Outputs, compiled: Outputs, again: Callable[[], Outputs], result: Result
) -> None:
    """One comparison, or the majority of several where the check asks for it."""
    check = comparison.check
    mismatches = [comparison.find_mismatch(eager, compiled)]
    mismatches += [comparison.find_mismatch(eager, again()) for _ in range(check.runs - 1)]
    wrong = [mismatch for mismatch in mismatches if mismatch]
    votes = f" (in {len(wrong)} of {len(mismatches)} runs)" if len(mismatches) > 1 else ""
    if len(wrong) * 2 > len(mismatches) and not check.non_deterministic:
        raise Stopped("fail_accuracy", wrong[0] + votes)
    if wrong:
        why = "its results may differ from run to run" if check.non_deterministic else "most runs agree"
        result.caution(f"passed although {wrong[0]}{votes}: {why}")
    if not any(isinstance(value, torch.Tensor | int | float | complex) for value in eager.values()):
        result.caution("nothing was compared: no tensor and no number came out of the model")


def _compare_with_kept(plan: AccuracyPlan, compiled: Outputs, result: Result) -> None:
    """Compare bit by bit with the outputs that an earlier run kept, and keep these."""
    if plan.compare_with and (difference := find_kept_difference(plan.compare_with, compiled)):
        raise Stopped("not_bitwise_equivalent", difference)
    if plan.save_to and (problem := keep_outputs(plan.save_to, compiled)):
        result.caution(f"the outputs could not be kept: {problem}")


def _check_batches(origin: Origin, target: Target, result: Result) -> None:
    with ending_as("fail_to_run", "OOM", is_out_of_memory):
        status, message = find_batch_dependence(origin, target)
    if status == "pass_due_to_skip":
        result.status, result.message = status, message
    elif status:
        raise Stopped(status, message)
