"""Take turns with a worker of the other side: prepare a case, then time calls whenever the parent says so."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torchstone.core.caution_kinds import CautionKind
from torchstone.define.benchmarks import Work
from torchstone.worker.failures import is_out_of_memory
from torchstone.worker.machine.strain import TASKS
from torchstone.worker.probes.compiler.capture import read_capture, reset_capture
from torchstone.worker.probes.device import Device
from torchstone.worker.probes.device_time.device_results import note_host_bound
from torchstone.worker.probes.device_time.device_turns import DeviceTurns, slow_down_device
from torchstone.worker.probes.device_time.recording import NoDeviceActivityError
from torchstone.worker.probes.device_time.watching import note_device_state, watch_device
from torchstone.worker.probes.reply import Exchange, PhaseClock, Result, ending_as
from torchstone.worker.probes.slowing import slow_down
from torchstone.worker.probes.subject import Target, gradient_mode, make_call, seed_everything
from torchstone.worker.probes.timing import Call, choose_block, time_block
from torchstone.worker.probes.warm_up import WARM_UP_CALLS
from torchstone.worker.protocol.case_findings import CodeFound
from torchstone.worker.protocol.jobs import CodeTree, MakeCalls, PairPart
from torchstone.worker.protocol.replies import TurnReady, TurnTaken

_BLOCKS = 400
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def take_turns(
    work: Work, target: Target, pair: PairPart, clock: PhaseClock, result: Result, exchange: Exchange
) -> None:
    """Compile and warm up, then time a block of calls at every turn, until the parent ends it.

    If the code should come from a worktree, the first reply names the modules that do not.
    """
    with gradient_mode(target.mode):
        clock.enter("compile")
        with ending_as("fail_to_run", "OOM", is_out_of_memory):
            reset_capture()
            seed_everything()
            call = make_call(work, target, target.compile(work.model))
            for _ in range(WARM_UP_CALLS):
                call()
            target.device.synchronize()
            captured = read_capture()
        clock.enter("run")
        with ending_as("fail_to_run", "OOM", is_out_of_memory):
            pin(pair.cores)
            call = _slowed(call, pair.slow_down, target)
            _, each = choose_block(call, target.device.synchronize)
            busy = look_at_device(call, each, target.device, result)
            code = look_at_code(pair.tree) if pair.tree else None
            ready = replace(
                TurnReady(each, code.from_elsewhere, code.imported) if code else TurnReady(each), busy=busy
            )
            watch = watch_device(target.device, result)
            _time_turns(call, target.device, exchange, ready)
            note_device_state(watch, result)
        if read_capture().has_compiled_since(captured):
            result.caution(CautionKind.RECOMPILED_WHILE_TIMED)


def _slowed(call: Call, share: float | None, target: Target) -> Call:
    """Return the call, slowed down by a share of its time, if one is given: on an accelerator by work of the device."""
    if share is None:
        return call
    if target.device.type == "cpu":
        return slow_down(call, share, target.device.synchronize)
    return slow_down_device(call, share, target.device)


def look_at_device(call: Call, wall: float, device: Device, result: Result) -> float | None:
    """Return the nanoseconds that the device is busy in a call, which takes ``wall``; None on a CPU, and if it cannot be told.

    Add a caution if the call is host-bound.
    """
    if device.type == "cpu":
        return None
    try:
        side = DeviceTurns(call, device).look()
    except NoDeviceActivityError as error:
        result.caution(CautionKind.NO_DEVICE_TIME, why=str(error))
        return None
    note_host_bound(result, side, "compiled", wall)
    return side.busy[0]


def _time_turns(call: Call, device: Device, exchange: Exchange, ready: TurnReady) -> None:
    """Answer each turn with nanoseconds per call. Garbage is collected while neither side is timed."""
    gc.freeze()  # a full collection takes half a second and frees almost nothing
    gc.disable()
    turns = DeviceTurns(call, device)
    try:
        order = exchange(ready)
        while isinstance(order, MakeCalls) and order.go:
            took = turns.take(order.go) if order.on_device else time_block(call, order.go, device.synchronize)
            if gc.get_count()[0] > gc.get_threshold()[0] > 0:
                gc.collect(1)
            order = exchange(TurnTaken(took))
    finally:
        gc.enable()
        gc.unfreeze()


def scatter_memory(seed: int | None) -> list[bytearray]:
    """Allocate blocks of random sizes with gaps, to randomise the memory layout; nothing without a seed.

    All workers of one zygote inherit its memory layout. Without this, a model's buffers would lie alike in
    all trials of a side, and differently in the other's, which alone can make one side 1 to 2 % faster in
    every pair.
    """
    if seed is None:
        return []
    chance = random.Random(seed)  # noqa: S311  (places, not secrets)
    blocks = [bytearray(int(2 ** chance.uniform(9, 17))) for _ in range(_BLOCKS)]
    return [block for block in blocks if chance.random() < 0.5]


def pin(cores: Sequence[int]) -> None:
    """Pin this process and its children to these cores, if any are given and the system allows it."""
    if not cores or not os.path.isdir(TASKS):
        return
    for thread in os.listdir(TASKS):
        with contextlib.suppress(OSError, ValueError):
            os.sched_setaffinity(int(thread), cores)


def look_at_code(tree: CodeTree) -> CodeFound:
    """Report where this process imported its code from.

    ``from_elsewhere`` are modules imported from the repository although the code under test is in a worktree;
    ``imported`` are files of that worktree.
    """
    root, worktree = tree.root, tree.worktree
    from_elsewhere, imported = [], []
    for name, real in _imported_files():
        if real.startswith(worktree + os.sep):
            imported.append(os.path.relpath(real, worktree))
        elif real.startswith(root + os.sep):
            from_elsewhere.append(f"{name} ({real})")
    return CodeFound(tuple(sorted(from_elsewhere)), tuple(sorted(imported)))


def _imported_files() -> Iterator[tuple[str, str]]:
    """Yield all modules with their files, except installed ones and ours."""
    installed = (sys.prefix + os.sep, sys.base_prefix + os.sep)
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or name.partition(".")[0] == "torchstone":
            continue
        real = os.path.realpath(path)
        if not real.startswith(installed) and not any(each in real for each in _INSTALLED):
            yield name, real
