"""Combine the contests of two sides, which were judged under a policy, into one judgement, with the quarantine applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from torchstone.core.cautions import Caution
from torchstone.core.records import NOWHERE, Case, FilePlace
from torchstone.core.vocabulary import ACCURACY, Verdict
from torchstone.gate.apply_quarantine import Exemptions
from torchstone.gate.blocking_policy import Policy
from torchstone.gate.judgement import Judgement, Overview, Remarks, Row, Ruling
from torchstone.measure.ab.contest import METRICS, AbSettings, Contest
from torchstone.measure.ab.sides import Side


class Unmatched(Struct, frozen=True):
    """Cases that only one side has."""

    only_a: tuple[Case, ...] = ()
    only_b: tuple[Case, ...] = ()


def find_unmatched(sides: Sequence[Side], contests: Sequence[Contest]) -> Unmatched:
    """Return the planned cases that are in no contest."""
    known = [{contest.planned[side] for contest in contests} for side in (0, 1)]
    only_a, only_b = (
        tuple(case for case in side.run.plan if case not in of_side)
        for side, of_side in zip(sides, known, strict=True)
    )
    return Unmatched(only_a, only_b)


def judge_contests(
    contests: Sequence[Contest],
    unmatched: Unmatched,
    settings: AbSettings,
    policy: Policy,
    exemptions: Exemptions,
    repro: Callable[[Contest], str],
    places: tuple[FilePlace, FilePlace] = (NOWHERE, NOWHERE),
    environment: Sequence[str] = (),
    cautions: Sequence[Caution] = (),
) -> Judgement:
    """Combine all contests. ``policy`` is the one that they were judged under; ``places`` are the run files of A and B."""

    def rule(verdict: Verdict, detail: str) -> Ruling:
        return Ruling(verdict, policy.blocks(verdict), detail)

    still_open = rule(Verdict.INCONCLUSIVE, "stopped before it was decided")
    rows = [_row_of(each, each.ruling or still_open, settings, repro(each), places) for each in contests]
    missing, new = rule(Verdict.MISSING, "only A has this case"), rule(Verdict.NEW, "only B has this case")
    rows += [Row(missing, case, METRICS[settings.metric]) for case in unmatched.only_a]
    rows += [Row(new, case, METRICS[settings.metric]) for case in unmatched.only_b]
    judged = [exemptions.apply_to_row(row) for row in rows]
    overview = Overview(settings.alpha, len(contests), environment=tuple(environment))
    return Judgement(
        policy,
        judged,
        list(cautions),
        expired=exemptions.expired,
        releases=exemptions.releases,
        overview=overview,
    )


def _row_of(
    contest: Contest, ruling: Ruling, settings: AbSettings, repro: str, places: tuple[FilePlace, FilePlace]
) -> Row:
    by_failure = contest.is_decided_by_failure or not contest.pairs
    begun = contest.is_begun
    return Row(
        ruling,
        contest.case,
        ACCURACY if by_failure else contest.metric,
        contest.outcome(1, repro) if begun else None,
        contest.outcome(0, repro) if begun else None,
        remarks=Remarks(places[1], places[0], repro=repro) if begun else Remarks(repro=repro),
        comparison=None if by_failure else contest.comparison,
        criteria=None if by_failure else settings.criteria,
    )
