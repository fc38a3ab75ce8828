"""Find values that are to be written to a baseline although they were disturbed while they were measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torchstone.baselines.proposed_changes import Change
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution, merge_cautions
from torchstone.core.records import Case, Outcome, Reading
from torchstone.formats import FORMATS
from torchstone.gate.disturbance import describe_disturbance, disturbance_of, is_all_disturbed


def disturbed_cautions(
    adopted: Sequence[Change], readings: Sequence[Reading], kind: str, text: str
) -> list[Caution]:
    """Return a caution for each kind of disturbance of the values that would be written, with their number and cases.

    ``text`` is the new text of the baseline, of this kind: it tells which numbers of a new case are written.
    """
    is_clean = not any(outcome.cautions for reading in readings for outcome in reading.run.outcomes)
    if is_clean or not adopted:
        return []
    written = FORMATS[kind].read("baseline", text).run.outcomes
    metrics = {(each.case.benchmark, found.metric) for each in written for found in each.measurements}
    found: list[tuple[Case, Caution]] = []
    for change in adopted:
        for outcome in _outcomes_of(change.case, readings):
            found += (
                (outcome.case, caution)
                for metric, caution in _disturbances(change, outcome)
                if (change.case.benchmark, metric) in metrics
            )
    return [
        make_caution(
            CautionKind.ADOPTED_DISTURBED,
            values=len(places),
            what=describe_disturbance(caution),
            cases=", ".join(_some({found[place][0].name: None for place in places})),
        )
        for caution, places in merge_cautions([caution for _, caution in found])
    ]


def _outcomes_of(case: Case, readings: Sequence[Reading]) -> Iterator[Outcome]:
    """Yield the results that a row of a baseline is for: those of the same name and probe, which state nothing else."""
    stated = case.variant.axes()
    for reading in readings:
        for outcome in reading.run.outcomes:
            axes = outcome.case.variant.axes()
            is_same = outcome.case.benchmark == case.benchmark and case.probe in {"", outcome.case.probe}
            if is_same and all(axes.get(axis, value) == value for axis, value in stated.items()):
                yield outcome


def _disturbances(change: Change, outcome: Outcome) -> Iterator[tuple[str, Caution]]:
    """Yield the metric and the disturbance of each number of an outcome that the change may write: of a new case, all."""
    for measurement in outcome.measurements:
        metric = measurement.metric
        is_written = change.action == "add" or metric == change.metric
        if not is_written or not is_all_disturbed(outcome, metric):
            continue
        if caution := disturbance_of(outcome, metric):
            yield metric, caution


def _some(names: Iterable[str], most: int = 5) -> list[str]:
    listed = list(names)
    left = len(listed) - most
    return [*listed[:most], *([f"and {left:,} more"] if left > 0 else [])]
