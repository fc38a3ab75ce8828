"""Where a difference between two counts came from: two profiles -> differences by phase, by function and by call stack.

A profile is what ``torchstone run --probe instructions --profile`` keeps of a case, in ``outcome.extra["profile"]`` of the run file. Nothing
here walks a tree by recursion: call stacks may be deeper than Python allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from msgspec import Struct

from torchstone.core.errors import InputError, printable
from torchstone.core.records import Number
from torchstone.core.text.safe_text import is_plain

PHASES = ("dynamo", "guards", "aot_autograd", "partitioner", "inductor", "other")
REST = "(rest)"
CARRIES = 0.8  # a frame below which one child has this share of its change is not where the change came from
_WORTH_A_BRANCH = 0.2  # of the largest change there is
_MOST_BRANCHES = 3
_SHOWN_OF_A_ROW = 4
_DOUBTFUL = (
    2  # times the smallest function that a profile names: one this small may be among those that it does not
)
_LARGEST = 1e18
_SLACK = 1e-3  # by which parts may exceed their whole: they may be rounded
_ADVICE = "measure it again with: torchstone run ... --probe instructions --profile"


class Cost(Struct, frozen=True):
    """What one function cost by itself, in one phase; ``library`` is the library or file that it is in."""

    phase: str
    library: str
    function: str
    cost: Number


class Stack(Struct):
    """A frame of the call stacks: ``own`` is what was counted at this very frame."""

    name: str
    own: Number
    below: list[Stack]


class Profile(Struct, frozen=True):
    """Where one count went. The phases add up to the total, and the functions of a phase to the phase."""

    counter: str
    unit: str
    total: Number
    phases: dict[str, Number]
    functions: tuple[Cost, ...] = ()
    stacks: Stack | None = None
    stacks_unit: str = ""


class Change(Struct, frozen=True):
    """A cost in two runs."""

    base: Number
    new: Number

    @property
    def change(self) -> Number:
        """How much more it is now."""
        return self.new - self.base

    @property
    def relative(self) -> float | None:
        """The change as a share of what it was; None where it was nothing."""
        return self.change / self.base if self.base else None


class PhaseChange(Change, frozen=True):
    """What a phase of the compiler cost; ``share`` is its part of the whole change, None where there is none."""

    phase: str
    share: float | None


class FunctionChange(Change, frozen=True):
    """What a function cost by itself."""

    phase: str
    library: str
    function: str


class Frame(Struct):
    """A frame of both runs at once: what it and all below it cost."""

    name: str
    base: Number = 0
    new: Number = 0
    below: dict[str, Frame] = {}

    @property
    def change(self) -> Number:
        """How much more it is now."""
        return self.new - self.base

    @property
    def size(self) -> Number:
        """What it cost where it cost more."""
        return max(self.base, self.new)


class Step(Struct, frozen=True):
    """A frame on the way to where a change came from.

    ``level`` counts the steps from the top; ``passed`` frames right above it, which have the same change, are not among the steps.
    """

    level: int
    frame: Frame
    passed: int = 0


class Attribution(Struct, frozen=True):
    """Where the difference between two counts came from. ``by_function`` and ``by_stack`` are trees to draw.

    ``functions`` are all there are, the largest change first, in either direction.
    """

    counter: str
    unit: str
    total: Change
    phases: tuple[PhaseChange, ...]
    functions: tuple[FunctionChange, ...]
    by_function: Frame
    by_stack: Frame | None
    stacks_unit: str

    @property
    def changed(self) -> list[FunctionChange]:
        """The functions whose cost is another one now, the largest change first."""
        return [each for each in self.functions if each.change]


def compare(base: Profile, new: Profile) -> Attribution:
    """The difference between two profiles of one counter. Compared with itself, a profile shows just where a count went."""
    total = Change(base.total, new.total)
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
    """All functions of both, the largest change first."""
    found: dict[tuple[str, str, str], list[Number]] = {}
    for side, profile in enumerate((base, new)):
        for each in profile.functions or _without_functions(profile, base.functions or new.functions):
            sides = found.setdefault((each.phase, each.library, each.function), [0, 0])
            sides[side] += each.cost
    _fold_unnamed(found, base, new)
    changes = [FunctionChange(before, now, *key) for key, (before, now) in found.items()]
    return sorted(changes, key=lambda each: (-abs(each.change), -each.new, each.function, each.library))


def _fold_unnamed(found: dict[tuple[str, str, str], list[Number]], base: Profile, new: Profile) -> None:
    """Put into the rest what may be part of the other side's rest.

    Only the largest functions of a profile are named. One that is named on one side only, and is about as small as the smallest that the other
    side names, need not be new or gone: it may just have missed being named there.
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
    """The phases of a profile that knows no functions, so that it can be set against one that does."""
    for phase, cost in profile.phases.items() if others else ():
        yield Cost(phase, "", REST, cost)


def _function_tree(phases: Iterable[PhaseChange], functions: Iterable[FunctionChange]) -> Frame:
    """Phase, library, function; what is in no library hangs from its phase."""
    root = Frame("all")
    for phase in phases:
        root.below[phase.phase] = Frame(phase.phase)
    for each in functions:
        at = root.below.setdefault(each.phase, Frame(each.phase))
        for name in filter(None, (each.library, each.function)):
            at = at.below.setdefault(name, Frame(name))
        at.base, at.new = at.base + each.base, at.new + each.new
    for phase in phases:
        if not (frame := root.below[phase.phase]).below:  # nothing is known of its functions
            frame.base, frame.new = phase.base, phase.new
    return _sum_up(root, first_level_is_in_order=True)


def _stack_tree(base: Stack, new: Stack) -> Frame:
    """Both call stacks in one tree; frames of one name under one parent are one frame."""
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
    """Turn the own costs of frames into what they and all below them cost; the largest are first."""
    for frame in reversed(_all_frames(root)):
        for below in frame.below.values():
            frame.base, frame.new = frame.base + below.base, frame.new + below.new
        if frame is not root or not first_level_is_in_order:
            ordered = sorted(frame.below.items(), key=lambda item: (-item[1].size, item[0]))
            frame.below = dict(ordered)
    return root


def _all_frames(root: Frame) -> list[Frame]:
    """A frame and all below it, each before those below it."""
    frames = [root]
    for frame in frames:
        frames.extend(frame.below.values())
    return frames


def trace(root: Frame) -> list[Step]:
    """The way from the top to the lowest frames that explain most of a change.

    As long as one child carries most of its parent's change, the way leads on to it. Where it splits, the children with the
    largest changes are followed, each in its turn. Of many frames in a row that only pass the change on, most are left out.
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
    """Leave out the middle of long rows of frames that have the same change, and count levels without them."""
    above: list[tuple[int, int]] = []  # as they were, and as they are
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
    """The steps in rows, each a way down on which the change stays the same, within a hundredth."""
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


def read_profile(stated: object, path: str, line: int) -> Profile:
    """A profile as a run file states it; anything else is an error that says where and what was expected."""

    def fail(field: str, problem: str) -> NoReturn:
        column = f"outcome.extra.profile{field}"
        raise InputError(problem, path=path, line=line, column=column, advice=_ADVICE)

    if not isinstance(stated, dict):
        fail("", f"expected a profile, found {_told(stated)}")
    counter, unit = (_text(stated.get(key), f".{key}", fail) for key in ("counter", "unit"))
    total = _number(stated.get("total"), ".total", fail)
    phases = _phases(stated.get("phases"), total, fail)
    functions = tuple(_costs(stated.get("functions"), phases, fail))
    stacks = stated.get("stacks")
    if stacks is None:
        return Profile(counter, unit, total, phases, functions)
    if not isinstance(stacks, dict):
        fail(".stacks", f"expected an object, found {_told(stacks)}")
    stacks_unit = _text(stacks.get("unit"), ".stacks.unit", fail)
    tree = _stack(stacks.get("tree"), fail)
    return Profile(counter, unit, total, phases, functions, tree, stacks_unit)


Fail = Callable[[str, str], NoReturn]


def _told(value: object) -> str:
    return printable(repr(value), 60) if isinstance(value, str | int | float | None) else type(value).__name__


def _text(value: object, field: str, fail: Fail) -> str:
    if not isinstance(value, str) or not value or not is_plain(value):
        fail(field, f"expected a word, found {_told(value)}")
    return value


def _name(value: object, field: str, fail: Fail) -> str:
    """A name may be anything, even nothing."""
    if not isinstance(value, str):
        fail(field, f"expected a name, found {_told(value)}")
    return value


def _number(value: object, field: str, fail: Fail) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        fail(field, f"expected a number from 0 on, found {_told(value)}")
    return value


def _phases(stated: object, total: Number, fail: Fail) -> dict[str, Number]:
    """The cost of each phase, with what is missing to the total as the rest."""
    if not isinstance(stated, dict):
        fail(".phases", f"expected an object, found {_told(stated)}")
    phases = {name: _number(cost, f".phases.{printable(name, 40)}", fail) for name, cost in stated.items()}
    if left := _left(phases.values(), total, ".phases", "the total", fail):
        phases[REST] = phases.get(REST, 0) + left
    return phases


def _left(parts: Iterable[Number], whole: Number, field: str, name: str, fail: Fail) -> Number:
    """What is missing to the whole; parts that are more than their whole are an error."""
    added = sum(parts)
    if added > whole * (1 + _SLACK):
        fail(field, f"these add up to {added:,}, which is more than {name}, {whole:,}")
    return whole - added if whole - added > whole * 1e-9 else 0


def _costs(stated: object, phases: dict[str, Number], fail: Fail) -> Iterator[Cost]:
    """The functions, with what is missing to each phase as the rest of it."""
    if stated is None:
        return
    if not isinstance(stated, list):
        fail(".functions", f"expected a list, found {_told(stated)}")
    of_phase: dict[str, list[Number]] = {}
    for number, entry in enumerate(stated):
        field = f".functions[{number}]"
        if not isinstance(entry, list) or len(entry) != 4:
            fail(field, f"expected [phase, library, function, cost], found {_told(entry)}")
        phase, library, function = (_name(part, field, fail) for part in entry[:3])
        each = Cost(phase, library, function or "(no name)", _number(entry[3], field, fail))
        of_phase.setdefault(phase, []).append(each.cost)
        yield each
    for phase in dict.fromkeys((*of_phase, *phases)) if stated else ():
        told = f"the phase {printable(phase, 40)}"
        if left := _left(of_phase.get(phase, ()), phases.get(phase, 0), ".functions", told, fail):
            yield Cost(phase, "", REST, left)


def _stack(stated: object, fail: Fail) -> Stack:
    """The call stacks, from the top."""
    top = Stack("", 0, [])
    waiting = [(stated, top)]
    while waiting:
        entry, above = waiting.pop()
        if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[2], list):
            fail(".stacks.tree", f"expected [name, own, [children]], found {_told(entry)}")
        name = _name(entry[0], ".stacks.tree", fail) or "(no name)"
        frame = Stack(name, _number(entry[1], ".stacks.tree", fail), [])
        above.below.append(frame)
        waiting += [(below, frame) for below in entry[2]]
    return top.below[0]
