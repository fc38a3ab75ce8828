"""Cautions as values: what a reader of the numbers should know, by kind, with its numbers and names; text is made only here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from torchstone.core.caution_kinds import (
    FIELD,
    WORDING,
    CautionKind,
    CautionMessage,
    caution_message,
    check_values,
)
from torchstone.core.text.redaction import redact
from torchstone.core.text.units import count_of, some_of

Span = tuple[float, float]
"""The smallest and the largest of a number, where cautions were merged."""


class Caution(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One caution. Its kind says which numbers and names it has; any other is refused. ``cases`` are the cases it is about, where that is worth saying."""

    kind: CautionKind
    numbers: dict[str, int | float | Span] = {}
    names: dict[str, str] = {}
    cases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a caution that could not be shown."""
        check_values(self.kind, {*self.numbers, *self.names})

    @property
    def text(self) -> str:
        """What it says, with what to do about it."""
        wording = WORDING[self.kind]
        said = FIELD.sub(lambda found: self._shown(found[1], found[2] or ""), wording.text)
        said = f"{said}; {wording.advice}" if wording.advice else said
        return f"{said} ({some_of(self.cases)})" if self.cases else said

    def __str__(self) -> str:
        return self.text

    @property
    def advice(self) -> str:
        """What to do about it; empty where nothing can be done."""
        return WORDING[self.kind].advice

    @property
    def meaning(self) -> tuple[object, ...]:
        """Equal for cautions that say the same, perhaps with other numbers."""
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
        return first if first == last else f"{first} to {last}"


def span_of(number: float | Span) -> Span:
    """The smallest and the largest of what a number stands for."""
    return number if isinstance(number, tuple) else (number, number)


def make_caution(kind: CautionKind, **values: str | float) -> Caution:
    """A caution of some kind with its numbers and names."""
    return caution_of(caution_message(kind, **values))


def caution_of(message: CautionMessage) -> Caution:
    """A worker's caution as a value."""
    return Caution(CautionKind(message.kind), {**message.numbers}, {**message.names})


def recorded(text: str) -> Caution:
    """A caution of an older file, or of another tool's: of these only the text is known."""
    return Caution(CautionKind.RECORDED, names={"text": text})


def redact_caution(caution: Caution) -> Caution:
    """The same caution without the credentials of URLs."""
    if not any("://" in text or "?" in text for text in caution.names.values()):
        return caution
    return structs.replace(caution, names={name: redact(text) for name, text in caution.names.items()})


def merge_cautions(cautions: Iterable[Caution]) -> list[tuple[Caution, list[int]]]:
    """Each caution once, with the places of those it stands for; those that differ only in numbers are one, with ranges.

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
    """Cautions of several trials, ranks or cases, each meaning once."""
    return tuple(caution for caution, _ in merge_cautions(cautions))


def _merge(alike: Sequence[Caution]) -> Caution:
    first = alike[0]
    if len(alike) == 1 or not first.numbers:
        return first
    numbers: dict[str, int | float | Span] = {}
    for name in first.numbers:
        spans = [span_of(each.numbers[name]) for each in alike if name in each.numbers]
        low, high = min(low for low, _ in spans), max(high for _, high in spans)
        numbers[name] = low if low == high else (low, high)
    return structs.replace(first, numbers=numbers)
