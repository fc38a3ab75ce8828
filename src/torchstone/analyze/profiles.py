"""Read the profile of an instruction count: its cost by compiler phase, by function and by call stack.

``torchstone run --probe instructions --profile`` stores a profile in ``outcome.details.profile`` of the run file. Call
stacks are walked with loops: they may be deeper than Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from msgspec import Struct

from torchstone.core.errors import InputError, printable
from torchstone.core.records import Number
from torchstone.core.text.safe_text import is_plain

REST = "(rest)"
_LARGEST = 1e18
_SLACK = 1e-3  # how far parts may exceed their whole: they may be rounded
_ADVICE = "measure it again with: torchstone run ... --probe instructions --profile"


class Cost(Struct, frozen=True):
    """Own cost of one function in one phase; ``library`` is its library or file."""

    phase: str
    library: str
    function: str
    cost: Number


class CallStack(Struct):
    """A call-stack frame; ``own`` is the cost counted in this frame alone."""

    name: str
    own: Number
    below: list[CallStack]


class Profile(Struct, frozen=True):
    """Breakdown of one count: phases add up to the total, functions of a phase to the phase."""

    counter: str
    unit: str
    total: Number
    phases: dict[str, Number]
    functions: tuple[Cost, ...] = ()
    stacks: CallStack | None = None
    stacks_unit: str = ""


def read_profile(stated: object, path: str, line: int) -> Profile:
    """Read a profile from a run file; raise an ``InputError`` with the field if it is invalid."""

    def fail(field: str, problem: str) -> NoReturn:
        column = f"outcome.details.profile{field}"
        raise InputError(problem, path=path, line=line, column=column, advice=_ADVICE)

    if not isinstance(stated, dict):
        fail("", f"expected a profile, found {_describe(stated)}")
    counter, unit = (_text(stated.get(key), f".{key}", fail) for key in ("counter", "unit"))
    total = _number(stated.get("total"), ".total", fail)
    phases = _phases(stated.get("phases"), total, fail)
    functions = tuple(_costs(stated.get("functions"), phases, fail))
    stacks = stated.get("stacks")
    if stacks is None:
        return Profile(counter, unit, total, phases, functions)
    if not isinstance(stacks, dict):
        fail(".stacks", f"expected an object, found {_describe(stacks)}")
    stacks_unit = _text(stacks.get("unit"), ".stacks.unit", fail)
    tree = _stack(stacks.get("tree"), fail)
    return Profile(counter, unit, total, phases, functions, tree, stacks_unit)


Fail = Callable[[str, str], NoReturn]


def _describe(value: object) -> str:
    return printable(repr(value), 60) if isinstance(value, str | int | float | None) else type(value).__name__


def _text(value: object, field: str, fail: Fail) -> str:
    if not isinstance(value, str) or not value or not is_plain(value):
        fail(field, f"expected a word, found {_describe(value)}")
    return value


def _name(value: object, field: str, fail: Fail) -> str:
    """Check a name; it may be any text, even empty."""
    if not isinstance(value, str):
        fail(field, f"expected a name, found {_describe(value)}")
    return value


def _number(value: object, field: str, fail: Fail) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        fail(field, f"expected a number from 0 on, found {_describe(value)}")
    return value


def _phases(stated: object, total: Number, fail: Fail) -> dict[str, Number]:
    """Read the cost of each phase, and assign the remainder of the total to the rest."""
    if not isinstance(stated, dict):
        fail(".phases", f"expected an object, found {_describe(stated)}")
    phases = {name: _number(cost, f".phases.{printable(name, 40)}", fail) for name, cost in stated.items()}
    if left := _left(phases.values(), total, ".phases", "the total", fail):
        phases[REST] = phases.get(REST, 0) + left
    return phases


def _left(parts: Iterable[Number], whole: Number, field: str, name: str, fail: Fail) -> Number:
    """Return the whole minus its parts; fail if the parts exceed it."""
    added = sum(parts)
    if added > whole * (1 + _SLACK):
        fail(field, f"these add up to {added:,}, which is more than {name}, {whole:,}")
    return whole - added if whole - added > whole * 1e-9 else 0


def _costs(stated: object, phases: dict[str, Number], fail: Fail) -> Iterator[Cost]:
    """Read the functions, and assign the remainder of each phase to the rest."""
    if stated is None:
        return
    if not isinstance(stated, list):
        fail(".functions", f"expected a list, found {_describe(stated)}")
    of_phase: dict[str, list[Number]] = {}
    for number, entry in enumerate(stated):
        field = f".functions[{number}]"
        if not isinstance(entry, list) or len(entry) != 4:
            fail(field, f"expected [phase, library, function, cost], found {_describe(entry)}")
        phase, library, function = (_name(part, field, fail) for part in entry[:3])
        each = Cost(phase, library, function or "(no name)", _number(entry[3], field, fail))
        of_phase.setdefault(phase, []).append(each.cost)
        yield each
    for phase in dict.fromkeys((*of_phase, *phases)) if stated else ():
        whole = f"the phase {printable(phase, 40)}"
        if left := _left(of_phase.get(phase, ()), phases.get(phase, 0), ".functions", whole, fail):
            yield Cost(phase, "", REST, left)


def _stack(stated: object, fail: Fail) -> CallStack:
    """Read the call stacks, from the root."""
    top = CallStack("", 0, [])
    waiting = [(stated, top)]
    while waiting:
        entry, above = waiting.pop()
        if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[2], list):
            fail(".stacks.tree", f"expected [name, own, [children]], found {_describe(entry)}")
        name = _name(entry[0], ".stacks.tree", fail) or "(no name)"
        frame = CallStack(name, _number(entry[1], ".stacks.tree", fail), [])
        above.below.append(frame)
        waiting += [(below, frame) for below in entry[2]]
    return top.below[0]
