"""Find the shortest unambiguous names of cases: the name, plus only the axes that distinguish it."""

from __future__ import annotations

from collections.abc import Iterable

from torchstone.core.records import Case

_NEEDS_NO_NAME = {"suite", "probe"}


class Names:
    """Names of cases; if several share a name, with the axes and the probe in which they differ."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._of_name: dict[str, list[Case]] = {}
        for case in dict.fromkeys(cases):
            self._of_name.setdefault(case.benchmark, []).append(case)
        self._differing: dict[str, frozenset[str]] = {}

    def of(self, case: Case) -> str:
        """Return the shortest unambiguous name of a case: ``BertForMaskedLM (dtype bfloat16)``."""
        if len(self._of_name.get(case.benchmark, ())) < 2:
            return case.name
        differing = self._differing_axes(case.benchmark)
        axes = ", ".join(
            f"{axis} {value}" if axis not in _NEEDS_NO_NAME else value
            for axis, value in _all_axes(case).items()
            if axis in differing
        )
        return f"{case.name} ({axes})" if axes else case.name

    def _differing_axes(self, name: str) -> frozenset[str]:
        """Return the axes in which the cases of one name differ; computed once per name."""
        found = self._differing.get(name)
        if found is None:
            alike = [_all_axes(case) for case in self._of_name[name]]
            axes = {axis for each in alike for axis in each}
            found = frozenset(axis for axis in axes if len({each.get(axis) for each in alike}) > 1)
            self._differing[name] = found
        return found


def _all_axes(case: Case) -> dict[str, str]:
    return {"suite": case.suite} | case.variant.axes() | {"probe": case.probe}
