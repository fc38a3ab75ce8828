"""Names of cases as short as they can be: with the axes that tell them from the others that are shown, and no more."""

from __future__ import annotations

from collections.abc import Iterable

from torchstone.core.records import Case

_NEEDS_NO_NAME = {"suite", "probe"}


class Names:
    """What tells cases from each other: the name, and where several share it, the axes and the probe in which they differ."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._of_name: dict[str, list[Case]] = {}
        for case in dict.fromkeys(cases):
            self._of_name.setdefault(case.benchmark, []).append(case)
        self._differing: dict[str, frozenset[str]] = {}

    def of(self, case: Case) -> str:
        """The name of a case, as short as it can be: ``BertForMaskedLM (dtype bfloat16)``."""
        if len(self._of_name.get(case.benchmark, ())) < 2:
            return case.name
        differing = self._differing_axes(case.benchmark)
        told = ", ".join(
            f"{axis} {value}" if axis not in _NEEDS_NO_NAME else value
            for axis, value in _told_axes(case).items()
            if axis in differing
        )
        return f"{case.name} ({told})" if told else case.name

    def _differing_axes(self, name: str) -> frozenset[str]:
        """The axes in which the cases of one name differ; looked for once a name, however many cases it has."""
        found = self._differing.get(name)
        if found is None:
            alike = [_told_axes(case) for case in self._of_name[name]]
            axes = {axis for each in alike for axis in each}
            found = frozenset(axis for axis in axes if len({each.get(axis) for each in alike}) > 1)
            self._differing[name] = found
        return found


def _told_axes(case: Case) -> dict[str, str]:
    return {"suite": case.suite} | case.variant.axes() | {"probe": case.probe}
