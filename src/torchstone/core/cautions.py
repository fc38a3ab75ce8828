"""Cautions about results, as values: a kind, with its numbers and names.

Only this module makes their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from torchstone.core.caution_kinds import FIELD, WORDING, CautionKind, check_values, split_values
from torchstone.core.text.redaction import redact
from torchstone.core.text.units import count_of, some_of

Span = tuple[float, float]
"""The range of a number, after cautions were merged."""


class Caution(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One caution. Its kind determines its numbers and names. ``cases`` are the affected cases, if the text should list them."""

    kind: CautionKind
    numbers: dict[str, int | float | Span] = {}
    names: dict[str, str] = {}
    cases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a caution that could not be shown."""
        check_values(self.kind, {*self.numbers, *self.names})

    @property
    def text(self) -> str:
        """Return the sentence, with the advice."""
        said = f"{self.statement}; {self.advice}" if self.advice else self.statement
        return f"{said} ({some_of(self.cases)})" if self.cases else said

    @property
    def statement(self) -> str:
        """Return the sentence, without the advice."""
        return re.sub(FIELD, lambda found: self._shown(found[1], found[2] or ""), WORDING[self.kind].text)

    def __str__(self) -> str:
        return self.text

    @property
    def advice(self) -> str:
        """Return the advice, unless it is followed already; empty if there is none."""
        wording = WORDING[self.kind]
        number, other = wording.at_most_one
        if number in self.numbers and span_of(self.numbers[number])[1] <= 1:
            return other
        return wording.advice

    @property
    def meaning(self) -> tuple[object, ...]:
        """Return a key that is equal for cautions with the same meaning, even if their numbers differ."""
        details = WORDING[self.kind].details
        return self.kind, *((name, text) for name, text in sorted(self.names.items()) if name not in details)

    def _shown(self, name: str, form: str) -> str:
        if name in self.names:
            return self.names[name]
        low, high = span_of(self.numbers[name])
        if form.startswith("count "):
            noun = form.removeprefix("count ")
            return count_of(int(high), noun) if low == high else f"{low:,} to {count_of(int(high), noun)}"
        first, last = format(low, form), format(high, form)
        return first if first == last else f"{first.removesuffix('%')} to {last}"


def span_of(number: float | Span) -> Span:
    """Return the smallest and the largest value of a number or a range."""
    return number if isinstance(number, tuple) else (number, number)


def make_caution(kind: CautionKind, **values: str | float) -> Caution:
    """Return a caution of this kind with its numbers and names."""
    numbers, names = split_values(values)
    return Caution(kind, {**numbers}, names)


def recorded(text: str) -> Caution:
    """Return a caution of which only the text is known: one of an older file, or of another tool."""
    return Caution(CautionKind.RECORDED, names={"text": text})


def redact_caution(caution: Caution) -> Caution:
    """Return the caution without the credentials of URLs."""
    if not any("://" in text or "?" in text for text in caution.names.values()):
        return caution
    return structs.replace(caution, names={name: redact(text) for name, text in caution.names.items()})


def merge_cautions(cautions: Iterable[Caution]) -> list[tuple[Caution, list[int]]]:
    """Merge cautions that mean the same into one, with ranges of their numbers; return each with the indices it stands for.

    >>> few = [make_caution(CautionKind.FEW_PAIRS, pairs=count) for count in (5, 8)]
    >>> [(merged.text, places) for merged, places in merge_cautions([few[0], recorded("odd"), few[1]])]
    [('only 5 to 8 pairs of calls were timed: too few for an interval', [0, 2]), ('odd', [1])]
    """
    given = list(cautions)
    alike: dict[tuple[object, ...], list[int]] = {}
    for place, caution in enumerate(given):
        alike.setdefault(caution.meaning, []).append(place)
    return [(_merge([given[place] for place in places]), places) for places in alike.values()]


def merged(cautions: Iterable[Caution]) -> tuple[Caution, ...]:
    """Merge cautions of several trials, ranks or cases, so that each meaning occurs once."""
    return tuple(caution for caution, _ in merge_cautions(cautions))


def _merge(alike: Sequence[Caution]) -> Caution:
    first = alike[0]
    if len(alike) == 1 or not first.numbers:
        return first
    numbers: dict[str, int | float | Span] = {}
    for name in {name: None for each in alike for name in each.numbers}:
        spans = [span_of(each.numbers[name]) for each in alike if name in each.numbers]
        low, high = min(low for low, _ in spans), max(high for _, high in spans)
        numbers[name] = low if low == high else (low, high)
    return structs.replace(first, numbers=numbers)
