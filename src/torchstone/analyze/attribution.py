"""Attribute the difference between two instruction counts to compiler phases, functions and call stacks.

Call stacks are walked with loops: they may be deeper than Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from torchstone.analyze.profiles import REST, CallStack, Cost, Profile
from torchstone.core.records import Number

PHASES = ("dynamo", "guards", "aot_autograd", "partitioner", "inductor", "other")
CARRIES = 0.8  # a child with this share of its parent's change is followed instead of the parent
_WORTH_A_BRANCH = 0.2  # of the largest change
_MOST_BRANCHES = 3
_SHOWN_OF_A_ROW = 4
_DOUBTFUL = 2  # times the smallest named function: anything smaller may be in the other profile's rest


class CostChange(Struct, frozen=True):
    """A cost in the base run and in the new run."""

    base: Number
    new: Number

    @property
    def change(self) -> Number:
        """Return the difference, new minus base."""
        return self.new - self.base

    @property
    def relative(self) -> float | None:
        """Return the change relative to the base; None if the base is zero."""
        return self.change / self.base if self.base else None


class PhaseChange(CostChange, frozen=True):
    """Cost change of one compiler phase; ``share`` is its part of the total change, if there is one."""

    phase: str
    share: float | None


class FunctionChange(CostChange, frozen=True):
    """Change of a function's own cost, excluding the functions it calls."""

    phase: str
    library: str
    function: str


class Frame(Struct):
    """A call-tree frame with its inclusive cost in both runs."""

    name: str
    base: Number = 0
    new: Number = 0
    below: dict[str, Frame] = {}

    @property
    def change(self) -> Number:
        """Return the difference, new minus base."""
        return self.new - self.base

    @property
    def size(self) -> Number:
        """Return the larger of the two costs."""
        return max(self.base, self.new)


class Step(Struct, frozen=True):
    """A frame on the path from the root to the source of a change.

    ``level`` is the depth of the step. ``passed`` counts the frames directly above that carry the same change
    and are left out.
    """

    level: int
    frame: Frame
    passed: int = 0


class Attribution(Struct, frozen=True):
    """The difference between two profiles, by phase, function and call stack.

    ``functions`` lists all functions, largest absolute change first. ``by_function`` and ``by_stack`` are
    trees to draw.
    """

    counter: str
    unit: str
    total: CostChange
    phases: tuple[PhaseChange, ...]
    functions: tuple[FunctionChange, ...]
    by_function: Frame
    by_stack: Frame | None
    stacks_unit: str

    @property
    def changed(self) -> list[FunctionChange]:
        """Return the functions whose cost changed, largest change first."""
        return [each for each in self.functions if each.change]


def compare(base: Profile, new: Profile) -> Attribution:
    """Compare two profiles of one counter.

    Comparing a profile with itself shows where its count went.
    """
    total = CostChange(base.total, new.total)
    names = dict.fromkeys((*PHASES, *base.phases, *new.phases))
    phases = tuple(
        PhaseChange(before, now, name, (now - before) / total.change if total.change else None)
        for name in names
        if (before := base.phases.get(name, 0)) + (now := new.phases.get(name, 0))
    )
    functions = _functions(base, new)
    both = base.stacks and new.stacks and base.stacks_unit == new.stacks_unit
    return Attribution(
        new.counter,
        new.unit,
        total,
        phases,
        tuple(functions),
        _function_tree(phases, functions),
        _stack_tree(base.stacks, new.stacks) if both and base.stacks and new.stacks else None,
        new.stacks_unit,
    )


def _functions(base: Profile, new: Profile) -> list[FunctionChange]:
    """Return the functions of both profiles, largest change first."""
    found: dict[tuple[str, str, str], list[Number]] = {}
    for side, profile in enumerate((base, new)):
        for each in profile.functions or _without_functions(profile, base.functions or new.functions):
            sides = found.setdefault((each.phase, each.library, each.function), [0, 0])
            sides[side] += each.cost
    _fold_unnamed(found, base, new)
    changes = [FunctionChange(before, now, *key) for key, (before, now) in found.items()]
    return sorted(changes, key=lambda each: (-abs(each.change), -each.new, each.function, each.library))


def _fold_unnamed(found: dict[tuple[str, str, str], list[Number]], base: Profile, new: Profile) -> None:
    """Fold functions that only one profile names into the rest, where the other profile's rest may contain them.

    A profile names only its largest functions. One that appears on one side only, and is about as small as
    the smallest function that the other side names, may simply have missed the cut there.
    """
    for side, other in ((0, new), (1, base)):
        named = [each.cost for each in other.functions if each.function != REST]
        has_rest = {each.phase for each in other.functions if each.function == REST}
        doubtful = _DOUBTFUL * min(named, default=0)
        for key in [key for key in found if key[0] in has_rest and key[2] != REST]:
            sides = found[key]
            if not sides[1 - side] and sides[side] <= doubtful:
                found.setdefault((key[0], "", REST), [0, 0])[side] += sides[side]
                del found[key]


def _without_functions(profile: Profile, others: tuple[Cost, ...]) -> Iterator[Cost]:
    """Yield one cost per phase for a profile without functions, to compare it with one that has them."""
    for phase, cost in profile.phases.items() if others else ():
        yield Cost(phase, "", REST, cost)


def _function_tree(phases: Iterable[PhaseChange], functions: Iterable[FunctionChange]) -> Frame:
    """Build the tree phase > library > function; a function without a library hangs below its phase."""
    root = Frame("all")
    for phase in phases:
        root.below[phase.phase] = Frame(phase.phase)
    for each in functions:
        at = root.below.setdefault(each.phase, Frame(each.phase))
        for name in filter(None, (each.library, each.function)):
            at = at.below.setdefault(name, Frame(name))
        at.base, at.new = at.base + each.base, at.new + each.new
    for phase in phases:
        if not (frame := root.below[phase.phase]).below:  # its functions are unknown
            frame.base, frame.new = phase.base, phase.new
    return _sum_up(root, first_level_is_in_order=True)


def _stack_tree(base: CallStack, new: CallStack) -> Frame:
    """Merge both call stacks into one tree; frames with the same name and parent become one."""
    root = Frame(new.name)
    waiting = [(base, root, True), (new, root, False)]
    while waiting:
        stack, frame, is_base = waiting.pop()
        if is_base:
            frame.base += stack.own
        else:
            frame.new += stack.own
        waiting += [
            (below, frame.below.setdefault(below.name, Frame(below.name)), is_base) for below in stack.below
        ]
    return _sum_up(root)


def _sum_up(root: Frame, *, first_level_is_in_order: bool = False) -> Frame:
    """Turn own costs into inclusive costs, and sort children by size."""
    for frame in reversed(_all_frames(root)):
        for below in frame.below.values():
            frame.base, frame.new = frame.base + below.base, frame.new + below.new
        if frame is not root or not first_level_is_in_order:
            ordered = sorted(frame.below.items(), key=lambda item: (-item[1].size, item[0]))
            frame.below = dict(ordered)
    return root


def _all_frames(root: Frame) -> list[Frame]:
    """List a frame and its descendants, parents first."""
    frames = [root]
    for frame in frames:
        frames.extend(frame.below.values())
    return frames


def trace(root: Frame) -> list[Step]:
    """Find the path from the root to the lowest frames that explain most of a change.

    The path follows a child as long as it carries most of its parent's change. Where the change splits, the
    path branches to the children with the largest changes. Long runs of frames that only pass the change on
    are shortened.
    """
    largest = max(abs(frame.change) for frame in _all_frames(root))
    steps: list[Step] = []
    waiting = [Step(0, root)] if largest else []
    while waiting:
        step = waiting.pop()
        steps.append(step)
        below = sorted(step.frame.below.values(), key=lambda frame: (-abs(frame.change), frame.name))
        if below and _carries(below[0], step.frame):
            waiting.append(Step(step.level + 1, below[0]))
            continue
        worth = [frame for frame in below if abs(frame.change) >= _WORTH_A_BRANCH * largest]
        waiting += [Step(step.level + 1, frame) for frame in reversed(worth[:_MOST_BRANCHES])]
    return list(_condense(steps))


def _condense(steps: list[Step]) -> Iterator[Step]:
    """Shorten long runs of frames with the same change, and renumber the levels."""
    above: list[tuple[int, int]] = []  # old and new levels
    for row in _rows_alike(steps):
        left_out = len(row) - _SHOWN_OF_A_ROW if len(row) > _SHOWN_OF_A_ROW + 1 else 0
        half = _SHOWN_OF_A_ROW // 2
        for number, step in enumerate(row):
            if left_out and half <= number < half + left_out:
                continue
            while above and above[-1][0] >= step.level:
                above.pop()
            level = above[-1][1] + 1 if above else 0
            above.append((step.level, level))
            yield Step(level, step.frame, left_out if number == half + left_out else 0)


def _rows_alike(steps: list[Step]) -> Iterator[list[Step]]:
    """Group steps into runs of consecutive levels whose change differs by at most 1 %."""
    row: list[Step] = []
    for step in steps:
        if row:
            last = row[-1]
            difference = abs(step.frame.change - last.frame.change)
            if step.level != last.level + 1 or difference > 0.01 * abs(last.frame.change):
                yield row
                row = []
        row.append(step)
    if row:
        yield row


def _carries(child: Frame, parent: Frame) -> bool:
    return child.change * parent.change > 0 and abs(child.change) >= CARRIES * abs(parent.change)
