"""Profile a count: by compiler phase and function in the counter's unit, and by stack in Python calls.

Torch reports when a part of the compiler begins and ends. There the counter is stopped, read and restarted,
and its count assigned to the innermost phase. The stacks come from another iteration, because recording every
call would be counted too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch._dynamo import utils as dynamo

from torchstone.worker.probes.counting.call_tree import CallTree
from torchstone.worker.probes.counting.callgrind_output import read_elsewhere
from torchstone.worker.probes.counting.counted_work import Counting
from torchstone.worker.probes.counting.counter_interface import Counter, Lap

KEPT = 400
"""The number of functions that are named; the others are summed up."""

_PHASE_OF = {
    "entire_frame_compile": "dynamo",
    "build_guards": "guards",
    "create_aot_dispatcher_function": "aot_autograd",
    "entire_backward_compile": "aot_autograd",
    "min_cut_rematerialization_partition": "partitioner",
    "_recursive_pre_grad_passes": "inductor",
    "_recursive_joint_graph_passes": "inductor",
    "_recursive_post_grad_passes": "inductor",
    "compile_fx.<locals>.fw_compiler_base": "inductor",
    "compile_fx.<locals>.bw_compiler": "inductor",
    "inductor_compile": "inductor",
}
_PARTITIONS = "_partition_joint_graph_into_fw_bw"


@dataclass(frozen=True)
class PhaseCounts:
    """The total of a count, the phases that add up to it, and the functions that add up to the phases.

    A function is ``[phase, library, name, amount]``.
    """

    total: float
    phases: dict[str, float]
    functions: list[list[str | float]]


@dataclass(frozen=True)
class RecordedStacks:
    """All Python calls by the stack they were made from; see ``CallTree.as_lists``."""

    unit: str
    total: int
    tree: list[Any]


@dataclass(frozen=True)
class RecordedProfile:
    """The breakdown of a count, as a run file keeps it."""

    counter: str
    unit: str
    total: float
    phases: dict[str, float]
    functions: list[list[str | float]]
    stacks: RecordedStacks


def record_profile(counting: Counting) -> RecordedProfile:
    """Run two more iterations: one that reads the counter at every phase change, one that records every call."""
    phases = _record_phases(counting)
    counting.counted.prepare()
    tree = CallTree()
    counting.run(tree.start, tree.stop)
    counts = phases.counts()
    return RecordedProfile(
        counting.counter.name,
        counting.counter.unit,
        counts.total,
        counts.phases,
        counts.functions,
        RecordedStacks("calls", tree.total(), tree.as_lists("work")),
    )


def _record_phases(counting: Counting) -> Phases:
    counting.counted.prepare()
    first = "dynamo" if counting.counted.counts == "compile" else "other"
    phases = Phases(counting.counter, first)
    with _watching(phases.enter, phases.leave):
        counting.run(phases.start, phases.stop, counting.counter.begin)
    phases.read_files()
    counting.counter.end()
    return phases


class Phases:
    """A counter that is read whenever the phase changes."""

    def __init__(self, counter: Counter, first: str) -> None:
        self._counter = counter
        self._stack = [first]
        self._counts = False
        self._laps: list[tuple[str, Lap]] = []

    def start(self) -> None:
        """Start counting."""
        self._counts = True
        self._counter.start()

    def stop(self) -> None:
        """Stop counting."""
        self._counter.stop()
        self._counts = False
        self._laps.append((self._stack[-1], self._counter.lap()))

    def enter(self, event: str) -> None:
        """Handle the beginning of one of torch's events, which may start a phase."""
        if phase := _PHASE_OF.get(event):
            self._change(lambda: self._stack.append(phase))

    def leave(self, event: str) -> None:
        """Handle the end of one of torch's events."""
        if event in _PHASE_OF and len(self._stack) > 1:
            self._change(self._stack.pop)

    def _change(self, change: Callable[[], object]) -> None:
        if not self._counts:
            change()
            return
        self.stop()
        change()
        self.start()

    def read_files(self) -> None:
        """Read the files that contain functions."""
        files = [lap.file for _, lap in self._laps if lap.file]
        found = iter(read_elsewhere(files))
        self._laps = [(phase, Lap(lap.amount, next(found)) if lap.file else lap) for phase, lap in self._laps]

    def counts(self) -> PhaseCounts:
        """Add up the counts by phase and function."""
        phases: dict[str, float] = {}
        functions: dict[tuple[str, str, str], float] = {}
        for phase, lap in self._laps:
            phases[phase] = phases.get(phase, 0) + lap.amount
            for (library, name), amount in lap.functions.items():
                key = (phase, library, name)
                functions[key] = functions.get(key, 0) + amount
        return PhaseCounts(
            sum(phases.values()),
            {phase: amount for phase, amount in phases.items() if amount},
            _largest(functions, phases) if functions else [],
        )


def _largest(
    functions: dict[tuple[str, str, str], float], phases: dict[str, float]
) -> list[list[str | float]]:
    """Return the largest functions, then the remainder of each phase."""
    ordered = sorted(functions.items(), key=lambda item: (-item[1], item[0]))[:KEPT]
    left = dict(phases)
    for (phase, _, _), amount in ordered:
        left[phase] -= amount
    rest: list[list[str | float]] = [
        [phase, "", "(rest)", amount] for phase, amount in left.items() if amount > 0
    ]
    largest: list[list[str | float]] = [[*key, amount] for key, amount in ordered if amount]
    return largest + rest


@contextlib.contextmanager
def _watching(enter: Callable[[str], None], leave: Callable[[str], None]) -> Iterator[None]:
    """Watch torch's events; watch the partitioner by its function, because not all its callers have events."""
    logger: Any = dynamo.ChromiumEventLogger
    begins, ends = logger.log_event_start, logger.log_event_end

    def log_event_start(self: Any, event: str, *rest: Any, **named: Any) -> Any:  # noqa: ANN401  (torch's own)
        enter(event)
        return begins(self, event, *rest, **named)

    def log_event_end(self: Any, event: str, *rest: Any, **named: Any) -> Any:  # noqa: ANN401  (torch's own signature)
        done = ends(self, event, *rest, **named)
        leave(event)
        return done

    logger.log_event_start, logger.log_event_end = log_event_start, log_event_end
    try:
        with _watching_partitions(enter, leave):
            yield
    finally:
        logger.log_event_start, logger.log_event_end = begins, ends


@contextlib.contextmanager
def _watching_partitions(enter: Callable[[str], None], leave: Callable[[str], None]) -> Iterator[None]:
    from torch._functorch._aot_autograd import graph_compile  # noqa: PLC0415  (a zygote must not load the compiler: it may touch a device)

    partition = getattr(graph_compile, _PARTITIONS, None)
    if partition is None:  # this torch has another name for it
        yield
        return
    event = "min_cut_rematerialization_partition"

    def watched(*given: Any, **named: Any) -> Any:  # noqa: ANN401  (wraps functions of any signature)
        enter(event)
        try:
            return partition(*given, **named)
        finally:
            leave(event)

    setattr(graph_compile, _PARTITIONS, watched)
    try:
        yield
    finally:
        setattr(graph_compile, _PARTITIONS, partition)
