"""Compare the rounds of two DDP reports: by position, as the original does, or by name."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.analyze.scaling_curves import Round, RoundChange, compare_rounds
from torchstone.core.records import Reading
from torchstone.formats.torch.ddp import METRIC, NONE, count_ranks, group_by_model, strategy_of

_Key = tuple[str, int, int]


def are_ddp(readings: Sequence[Reading]) -> bool:
    """Return whether all files are reports of PyTorch's DDP benchmark."""
    return all(reading.kind == "ddp" for reading in readings)


def header_keys(readings: Sequence[Reading]) -> list[str]:
    """Return the keys in the headers of the reports."""
    return sorted({key for reading in readings for key in reading.run.settings.to_mapping()})


def compare_by_position(base: Reading, new: Reading) -> list[RoundChange]:
    """Compare as the original does: the first model of one report with the first of the other, and so on."""
    return compare_rounds(_rounds(base), _rounds(new))


def compare_by_name(base: Sequence[Reading], new: Sequence[Reading]) -> list[RoundChange]:
    """Compare each DDP round that both sides have: same model, batch size and number of ranks.

    Samples of several files are combined.
    """
    before, after = _by_key(base), _by_key(new)
    common = [key for key in after if key in before]
    return [
        change
        for key in common
        # compare_rounds skips the first round, which is without DDP, so it is given one to skip
        for change in compare_rounds([[before[key], before[key]]], [[after[key], after[key]]])
    ]


def _rounds(reading: Reading) -> list[list[Round]]:
    return [
        [Round(model, size, count_ranks(o.case), o.measurements[0].samples) for o in outcomes]
        for model, size, outcomes in group_by_model(reading.run)
    ]


def _by_key(readings: Sequence[Reading]) -> dict[_Key, Round]:
    found: dict[_Key, Round] = {}
    for reading in readings:
        for outcome in reading.run.outcomes:
            if strategy_of(outcome.case) == NONE:
                continue
            samples = tuple(s for m in outcome.measurements if m.metric == METRIC for s in m.samples)
            key = (outcome.case.benchmark, outcome.case.variant.batch_size or 0, count_ranks(outcome.case))
            before = found[key].samples if key in found else ()
            found[key] = Round(*key, before + samples)
    return found
