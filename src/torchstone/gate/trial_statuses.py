"""Judge cases whose trials ended differently: that decides nothing, unless the new side fails clearly more often."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution, span_of
from torchstone.core.records import Outcome
from torchstone.core.vocabulary import NOT_AVAILABLE, PASSED, Verdict

OFTEN = 2
"""This many more failures than the base: a single one may be the machine's fault."""
_PASSING = frozenset({PASSED, ""})


class Disagreement(Struct, frozen=True):
    """The verdict on a case whose trials ended differently, and how they did."""

    verdict: Verdict
    detail: str


def disagreement_caution(statuses: Counter[str]) -> Caution:
    """Return the caution that the trials of a case ended in these statuses."""
    named = ", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items(), key=_passed_first))
    failed = sum(count for status, count in statuses.items() if status != PASSED)
    return make_caution(
        CautionKind.TRIALS_DISAGREE, statuses=named, failed=failed, trials=sum(statuses.values())
    )


def _passed_first(found: tuple[str, int]) -> tuple[bool, int, str]:
    status, count = found
    return status != PASSED, -count, status


def count_statuses(outcomes: Sequence[Outcome]) -> Counter[str]:
    """Count how the trials of one case ended."""
    counted = Counter[str]()
    for outcome in outcomes:
        counted[outcome.status or PASSED] += 1
        if caution := _last_failed(outcome):
            counted[PASSED] += round(span_of(caution.numbers["trials"])[1]) - 1
    return counted


def _last_failed(outcome: Outcome) -> Caution | None:
    return next((each for each in outcome.cautions if each.kind is CautionKind.TRIAL_FAILED), None)


def find_disagreement(base: Outcome | None, new: Outcome) -> Disagreement | None:
    """Return the verdict if the trials of a side ended differently; None if they did not."""
    if not new.cautions and not (base and base.cautions):
        return None
    if base is not None and base.status == NOT_AVAILABLE:  # nothing is expected
        return None
    sides = (("its trials", new), ("the trials of the baseline", base))
    told = [f"{name} disagree: {how}" for name, side in sides if side and (how := _how_different(side))]
    if not told:
        return None
    verdict = Verdict.INCONCLUSIVE
    if base is not None and _failures(new) >= _failures(base) + OFTEN:
        verdict = Verdict.REGRESSION
        told.append("it fails clearly more often")
    return Disagreement(verdict, "; ".join(told))


def _how_different(outcome: Outcome) -> str:
    """Say how the trials of an outcome ended, if not all alike; else empty."""
    for caution in outcome.cautions:
        if caution.kind is CautionKind.TRIALS_DISAGREE:
            return caution.names["statuses"]
    if _last_failed(outcome) is None:
        return ""
    return disagreement_caution(count_statuses([outcome])).names["statuses"]


def _failures(outcome: Outcome) -> float:
    """Return how many trials failed; infinitely many if all did."""
    for caution in outcome.cautions:
        if caution.kind is CautionKind.TRIALS_DISAGREE and "failed" in caution.numbers:
            return span_of(caution.numbers["failed"])[0]
    if _last_failed(outcome):
        return 1
    return 0 if outcome.status in _PASSING else math.inf
