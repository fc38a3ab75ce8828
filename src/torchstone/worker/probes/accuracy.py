"""Probe ``accuracy``: compare compiled with eager results, with a float64 run as reference.

Each run starts from a fresh copy of the work with the same seed: one in float64, two eager, one compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from torchstone.core.caution_kinds import CautionKind
from torchstone.define.benchmarks import Check, Work
from torchstone.worker.failures import is_out_of_memory
from torchstone.worker.probes.compiler.capture import add_capture, read_capture, reset_capture
from torchstone.worker.probes.compiler.compile_strain import noting_strain
from torchstone.worker.probes.outputs.batch import find_batch_dependence
from torchstone.worker.probes.outputs.precision import reproducible
from torchstone.worker.probes.outputs.saved_outputs import find_saved_difference, save_outputs
from torchstone.worker.probes.outputs.similarity import (
    OutputComparison,
    find_bitwise_difference,
    find_unrelated,
)
from torchstone.worker.probes.outputs.values import Outputs, take_apart, tensors_in
from torchstone.worker.probes.reply import PhaseClock, Result, Stopped, ending_as, tell
from torchstone.worker.probes.subject import (
    Origin,
    Target,
    default_loss,
    find_state,
    find_trained,
    gradient_mode,
    place,
    read_random_state,
    seed_everything,
)
from torchstone.worker.protocol.case_findings import AccuracyFound
from torchstone.worker.protocol.jobs import NO_COMPILER

STEPS = 2
LEARNING_RATE = 0.01
NOTHING = "nothing was compared: no tensor and no number came out of the model, and it changed no input and no buffer"
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


@dataclass
class RunResults:
    """Results of one run by name: the outputs of the model, and what it wrote into its inputs and buffers.

    ``written`` names the latter; ``unwritten`` are the inputs and buffers it left alone, because the other
    side may have written to them. ``drew`` tells whether it drew random numbers.
    """

    outputs: Outputs
    written: set[str] = field(default_factory=set)
    unwritten: dict[str, torch.Tensor] = field(default_factory=dict)
    drew: bool = False

    def include(self, names: set[str]) -> None:
        """Add these inputs and buffers to the outputs, with their current values."""
        for name in sorted(names & self.unwritten.keys()):
            self.outputs |= take_apart(self.unwritten.pop(name), name)
            self.written.add(name)


@dataclass(frozen=True)
class AccuracyPlan:
    """Options beyond the comparison: save the outputs, compare with saved ones, or vary the batch size."""

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
    """Compare, and add to ``result``; a case that ends early raises ``Stopped`` with its status."""
    found = _record(result, AccuracyFound(check.tolerance, check.cosine))
    with gradient_mode(target.mode), reproducible():
        if check.uncompared:
            _run_uncompared(origin, target, check, clock, result, identity)
            return
        clock.enter("eager")
        reference, why = _run_in("float64", origin, target, check)
        try:
            eager = _run_eager(origin, target, check)
        finally:
            if origin.rebuilt:
                found = _record(result, replace(found, rebuilt=origin.rebuilt))
        if reference is not None:
            why = _find_unrelated(reference, eager, origin, target, check)
            reference = None if why else reference
        found = _record(result, replace(found, reference="none" if reference is None else "float64"))
        if reference is None and not check.cosine:
            check = replace(check, cosine=True)
            _record(result, replace(found, cosine=True, why_cosine=f"no float64 reference: {why}"))
            result.caution(CautionKind.NO_REFERENCE, why=why)
        clock.enter("compile")
        with noting_strain(result):
            compiled = _run_compiled(origin, target, check, eager)
        if target.backend != NO_COMPILER:
            add_capture(result, read_capture(), identity)
        clock.enter("compare")
        comparison = OutputComparison(check, reference, equal_nan=target.dtype != "float32")
        _judge(
            comparison, eager.outputs, compiled, lambda: _run_compiled(origin, target, check, eager), result
        )
        _compare_with_saved(plan, compiled, result)
        if plan.batch_invariant:
            _check_batches(origin, target, result)


def _record(result: Result, found: AccuracyFound) -> AccuracyFound:
    """Add to ``result`` how outputs are compared, as far as that is known: the case may end early."""
    result.details = replace(result.details, accuracy=found)
    return found


def _run_uncompared(
    origin: Origin,
    target: Target,
    check: Check,
    clock: PhaseClock,
    result: Result,
    identity: dict[str, str],
) -> None:
    """Run eager and compiled to find failures and graph breaks, but compare nothing: eager is not deterministic."""
    clock.enter("eager")
    eager = _run_eager(origin, target, check)
    clock.enter("compile")
    with noting_strain(result):
        _run_compiled(origin, target, check, eager)
    if target.backend != NO_COMPILER:
        add_capture(result, read_capture(), identity)
    result.status, result.message = "pass_due_to_skip", check.uncompared


def _find_unrelated(
    reference: Outputs, eager: RunResults, origin: Origin, target: Target, check: Check
) -> str:
    """Return why float64 computes something else than eager in float32; empty if it does not.

    Low-precision dtypes may differ a lot by rounding alone, so for them this is only checked if the model
    draws random numbers, with a separate run in float32.
    """
    if target.dtype == "float32":
        return find_unrelated(reference, eager.outputs, check.tolerance)
    plain, _ = _run_in("float32", origin, target, check) if eager.drew else (None, "")
    return find_unrelated(reference, plain, check.tolerance) if plain else ""


def _run_in(dtype: str, origin: Origin, target: Target, check: Check) -> tuple[Outputs | None, str]:
    """Return the results in another dtype, or why there are none."""
    try:
        work = place(origin.copy_apart(), target.device.device, getattr(torch, dtype), target.mode)
        return _run(work, replace(target, dtype=dtype), work.model, check).outputs, ""
    except (Exception, SystemExit) as error:  # noqa: BLE001  (a model need not work in every dtype: recorded, and compared otherwise)
        return None, f"{tell(error).partition(chr(10))[0]:.200}"


def _run_eager(origin: Origin, target: Target, check: Check) -> RunResults:
    """Run eager twice: a model that does not agree with itself cannot be compared with anything."""
    with ending_as("eager_1st_run_fail", "eager_1st_run_OOM", is_out_of_memory):
        work = origin.copy()
        first = _without_own_model(_run(work, target, work.model, check), origin, target)
    with ending_as("eager_2nd_run_fail", "eager_2nd_run_OOM", is_out_of_memory):
        work = origin.copy()
        second = _run(work, target, work.model, check)
    first.include(second.written)
    second.include(first.written)
    difference = find_bitwise_difference(first.outputs, second.outputs)
    if difference and torch.version.hip:
        difference = OutputComparison(check, None).find_mismatch(first.outputs, second.outputs)
    if difference and not check.non_deterministic and not check.uncompared:
        built = f" (each run was built anew: {origin.rebuilt})" if origin.rebuilt else ""
        raise Stopped("eager_two_runs_differ", difference + built)
    return first


def _without_own_model(ran: RunResults, origin: Origin, target: Target) -> RunResults:
    """Replace unchanged tensors of the run's model by the origin's, so that the copy can be freed."""
    theirs = {
        name: each for name, each in _writable(origin.work, target.mode) if not name.startswith("input")
    }
    kept = {name: theirs.get(name, tensor) for name, tensor in ran.unwritten.items()}
    return replace(ran, unwritten=kept)


def _run_compiled(origin: Origin, target: Target, check: Check, eager: RunResults) -> Outputs:
    """Return the compiled results. Tensors that either side wrote to are among the results of both."""
    with ending_as("fail_to_run", "OOM", is_out_of_memory):
        reset_capture()
        work = origin.copy()
        compiled = _run(work, target, target.compile(work.model), check)
        compiled.include(eager.written)
        eager.include(compiled.written)
        return compiled.outputs


def _run(work: Work, target: Target, model: Callable[..., Any], check: Check) -> RunResults:
    """Run some steps of the work with ``model`` in place of its own, and return everything they produced, by name."""
    seed_everything()
    chance = read_random_state(target.device.device)
    before = {name: (tensor, _version(tensor)) for name, tensor in _writable(work, target.mode)}
    ran = RunResults(
        _train(work, target, model, check) if target.mode == "training" else _infer(work, target, model)
    )
    for name, tensor in _writable(work, target.mode):
        if name in before and before[name][0] is tensor and before[name][1] == _version(tensor):
            ran.unwritten[name] = tensor
        else:
            ran.outputs |= take_apart(tensor, name)
            ran.written.add(name)
    after = read_random_state(target.device.device)
    ran.drew = not all(map(torch.equal, chance, after))
    return ran


def _infer(work: Work, target: Target, model: Callable[..., Any]) -> Outputs:
    for _ in range(STEPS):
        with target.autocast():
            output = model(*work.args, **work.kwargs)
    return dict(take_apart(output))


def _train(work: Work, target: Target, model: Callable[..., Any], check: Check) -> Outputs:
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


def _writable(work: Work, mode: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors a call may write to, by name: inputs and the model's own (compared anyway in training)."""
    state = find_state(work, buffers=True)
    known = {id(tensor) for tensor in state.values()}
    for number, tensor in enumerate(tensors_in((work.args, dict(work.kwargs)))):
        if id(tensor) not in known:
            known.add(id(tensor))
            yield f"input {number} (changed by the model)", tensor
    if mode == "inference":
        for name, tensor in state.items():
            yield f"{'parameter' if isinstance(tensor, torch.nn.Parameter) else 'buffer'} {name}", tensor


def _version(tensor: torch.Tensor) -> int:
    """Return a number that grows whenever a tensor is written to; inference tensors have none."""
    return 0 if tensor.is_inference() else tensor._version


def _optimizer(work: Work, check: Check) -> torch.optim.Optimizer | None:
    parameters = [each for each in find_state(work).values() if each.requires_grad and each.is_leaf]
    if not parameters or not check.optimizer:
        return None
    make: Callable[..., torch.optim.Optimizer] = OPTIMIZERS[check.optimizer]
    return make(parameters, lr=LEARNING_RATE)


def _trained_values(work: Work, loss: torch.Tensor) -> Iterator[tuple[str, Any]]:
    """Yield the loss, all gradients, and parameters and buffers after the steps; absent gradients are zero."""
    yield from take_apart(loss, "loss")
    for name, leaf in find_trained(work).items():
        gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        yield from take_apart(gradient, f"gradient of {name}")
    for name, tensor in find_state(work, buffers=True).items():
        yield from take_apart(tensor, f"{name} after the steps")


def _judge(
    comparison: OutputComparison,
    eager: Outputs,
    compiled: Outputs,
    again: Callable[[], Outputs],
    result: Result,
) -> None:
    """Compare once, or decide by the majority of several comparisons if the check asks for it."""
    check = comparison.check
    mismatches = [comparison.find_mismatch(eager, compiled)]
    mismatches += [comparison.find_mismatch(eager, again()) for _ in range(check.runs - 1)]
    wrong = [mismatch for mismatch in mismatches if mismatch]
    votes = f" (in {len(wrong)} of {len(mismatches)} runs)" if len(mismatches) > 1 else ""
    if len(wrong) * 2 > len(mismatches) and not check.non_deterministic:
        raise Stopped("fail_accuracy", wrong[0] + votes)
    if wrong:
        why = "its results may differ from run to run" if check.non_deterministic else "most runs agree"
        result.caution(
            CautionKind.PASSED_DESPITE_MISMATCH,
            mismatch=wrong[0],
            wrong=len(wrong),
            runs=len(mismatches),
            why=why,
        )
    if not any(isinstance(value, torch.Tensor | int | float | complex) for value in eager.values()):
        result.status, result.message = "pass_due_to_skip", NOTHING


def _compare_with_saved(plan: AccuracyPlan, compiled: Outputs, result: Result) -> None:
    """Compare bit by bit with the outputs saved by an earlier run, and save these."""
    if plan.compare_with and (difference := find_saved_difference(plan.compare_with, compiled)):
        raise Stopped("not_bitwise_equivalent", difference)
    if plan.save_to and (problem := save_outputs(plan.save_to, compiled)):
        result.caution(CautionKind.OUTPUTS_NOT_SAVED, problem=problem)


def _check_batches(origin: Origin, target: Target, result: Result) -> None:
    with ending_as("fail_to_run", "OOM", is_out_of_memory):
        status, message = find_batch_dependence(origin, target)
    if status == "pass_due_to_skip":
        result.status, result.message = status, message
    elif status:
        raise Stopped(status, message)
