"""Names of cases as short as they can be: with the axes that tell them from the others that are shown, and no more."""

from __future__ import annotations

from collections.abc import Iterable

from torchstone.model import Case

_NEEDS_NO_NAME = {"suite", "probe"}


class Names:
    """What tells cases from each other: the name, and where several share it, the axes and the probe in which they differ."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._of_name: dict[str, dict[Case, dict[str, str]]] = {}
        for case in dict.fromkeys(cases):
            self._of_name.setdefault(case.benchmark, {})[case] = _told_axes(case)

    def of(self, case: Case) -> str:
        """The name of a case, as short as it can be: ``BertForMaskedLM (dtype bfloat16)``."""
        alike = self._of_name.get(case.benchmark, {})
        if len(alike) < 2:
            return case.name
        told = ", ".join(
            f"{axis} {value}" if axis not in _NEEDS_NO_NAME else value
            for axis, value in _told_axes(case).items()
            if len({axes.get(axis) for axes in alike.values()}) > 1
        )
        return f"{case.name} ({told})" if told else case.name


def _told_axes(case: Case) -> dict[str, str]:
    return {"suite": case.suite} | case.variant.axes() | {"probe": case.probe}
