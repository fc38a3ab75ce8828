"""Cautions as workers send them."""

from __future__ import annotations

from dataclasses import dataclass

from torchstone.core.caution_kinds import CautionKind, check_values, split_values


@dataclass(frozen=True)
class CautionMessage:
    """A caution as a worker sends it."""

    kind: str
    numbers: dict[str, float]
    names: dict[str, str]

    def __post_init__(self) -> None:
        """Raise ValueError for a caution that could not be shown."""
        if self.kind not in {kind.value for kind in CautionKind}:
            raise ValueError("unknown kind of caution")
        check_values(CautionKind(self.kind), {*self.numbers, *self.names})


def caution_message(kind: CautionKind, **values: str | float) -> CautionMessage:
    """Return a caution of this kind with its numbers and names, as a worker sends it."""
    return CautionMessage(kind.value, *split_values(values))
