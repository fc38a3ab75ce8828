"""Label the cases of a plan, briefly, by the axes that not all of them share."""

from __future__ import annotations

from collections.abc import Collection

from torchstone.analyze.scaling_curves import rank_count
from torchstone.core.errors import printable
from torchstone.core.records import AXES, Case
from torchstone.core.text.short_names import shorten_names
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Probe

LONGEST_WORD = 24
"""For narrow places."""

_OF_A_BENCHMARK = {"suite", "batch_size"}  # each benchmark may have its own, which its name then implies
_OF_SOME_ROUNDS = {"bucket_mb", "collective"}  # the strategy says whether a round has them
_SHOWN_ALREADY = {"mode"}  # each line has it
_NEEDS_NO_NAME = {"suite", "device", "backend", "dtype", "compile_mode", "size", "round", "collective"}
_SHORT = {
    "dtype": {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"},
    "dynamic": {"true": "dyn", "false": "static", "": "auto"},
}


class Labels:
    """Labels that distinguish the cases of a plan, besides name, probe and mode; one column per axis.

    A word that is longer than ``longest`` is cut in the middle, unless it would then equal another one.
    """

    def __init__(self, cases: Collection[Case] = (), longest: int | None = None) -> None:
        self._words: dict[str, dict[str, str]] = {}
        for axis in _distinguishing_axes(cases):
            words = dict.fromkeys(_word(axis, case) for case in cases)
            self._words[axis] = shorten_names(words, longest or max(map(len, words)))
        self._widths = {axis: max(map(len, words.values())) for axis, words in self._words.items()}

    def of(self, case: Case) -> str:
        """Return the label of a case: ``aot_eager static``; empty if name, probe and mode are enough."""
        words = {axis: _word(axis, case) for axis in self._widths}
        return " ".join(
            self._words[axis].get(word, word).ljust(self._widths[axis]) for axis, word in words.items()
        )

    def name_of(self, case: Case) -> str:
        """Return name, mode and label of a case: ``mlp inference aot_eager``."""
        return printable(f"{case.benchmark} {case.variant.mode} {self.of(case).strip()}".strip())


def _distinguishing_axes(cases: Collection[Case]) -> list[str]:
    cases_axes = [(case.benchmark, _axes(case)) for case in cases]
    names = dict.fromkeys(axis for _, axes in cases_axes for axis in axes if axis not in _SHOWN_ALREADY)
    return [axis for axis in names if _distinguishes(axis, cases_axes)]


def _distinguishes(axis: str, cases_axes: Collection[tuple[str, dict[str, str]]]) -> bool:
    if axis in _OF_SOME_ROUNDS:
        return len({axes[axis] for _, axes in cases_axes if axes.get(axis)}) > 1
    if axis not in _OF_A_BENCHMARK:
        return len({axes.get(axis, "") for _, axes in cases_axes}) > 1
    return len({(name, axes.get(axis, "")) for name, axes in cases_axes}) > len(
        {name for name, _ in cases_axes}
    )


def _axes(case: Case) -> dict[str, str]:
    """Return all axes in a fixed order, empty if not stated; strategy and ranks of a round come first, as one."""
    axes = {"suite": case.suite} | dict.fromkeys(AXES, "") | case.variant.axes()
    if words := round_words(case):
        axes = {axis: value for axis, value in axes.items() if axis not in {"strategy", "ranks"}}
        axes = {"round": words} | axes
    return axes


def round_words(case: Case) -> str:
    """Describe a round of the scaling probe: ``ddp 2 ranks``; empty for any other case.

    >>> from torchstone.core.records import Variant
    >>> round_words(Case("mlp", "scaling", variant=Variant(further=(("ranks", "1"), ("strategy", "none")))))
    'none 1 rank'
    """
    axes, count = dict(case.variant.further), rank_count(case)
    if case.probe != Probe.SCALING or not axes.get("ranks"):
        return ""
    ranks = f"ranks {axes['ranks']}" if count is None else count_of(count, "rank")
    return printable(f"{axes.get('strategy', '')} {ranks}".strip())


def _word(axis: str, case: Case) -> str:
    value = _axes(case).get(axis, "")
    value = _SHORT.get(axis, {}).get(value, value)
    if axis == "batch_size":
        value = f"bs{value}" if value else ""
    elif axis == "bucket_mb":
        value = f"{value} MB" if value else ""
    elif axis not in _NEEDS_NO_NAME and axis not in _SHORT:
        value = f"{axis}={value}" if value else ""
    return printable(value)
