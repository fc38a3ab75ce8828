"""Add the findings that few checks need to a judgement.

These are rounds of two DDP reports, drift since past runs, commands for missing cases, and models that are not deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from torchstone.api.judging.check_request import CheckRequest
from torchstone.api.judging.missing_cases import add_commands
from torchstone.api.judging.past_runs import read_past
from torchstone.api.sources import names_of
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.records import Reading
from torchstone.formats.merge import Results
from torchstone.gate.checking.drift_cautions import drift_cautions
from torchstone.gate.checking.upstream_cautions import nondeterminism_cautions
from torchstone.gate.judgement import Judgement, RoundTable
from torchstone.reporting.views.paired_rounds import compare_by_position, header_keys


def add_findings(
    judgement: Judgement, results: Results, baselines: Sequence[Reading], request: CheckRequest
) -> Judgement:
    """Return the judgement with a table of rounds and cautions, as far as they apply."""
    counts = judgement.counts
    if counts.missing or counts.undecided:
        judgement = add_commands(judgement, results.readings, baselines)
    files = (*results.readings, *baselines)
    if [reading.kind for reading in files] == ["ddp", "ddp"]:
        new, base = files
        rounds = RoundTable(header_keys(files), compare_by_position(base, new))
        judgement = structs.replace(judgement, rounds=rounds)
        if judgement.policy.is_upstream:
            return judgement
    cautions = [*judgement.cautions]
    if judgement.policy.is_upstream and judgement.counts.red:
        cautions += nondeterminism_cautions(judgement.rows, judgement.policy.upstream_version)
    if request.history:
        cautions += _find_drift(judgement, results, request)
    return structs.replace(judgement, cautions=cautions)


def _find_drift(judgement: Judgement, results: Results, request: CheckRequest) -> list[Caution]:
    """Return cautions about metrics that have drifted since the runs in ``history``."""
    past = read_past(
        "--history",
        request.history,
        results.readings,
        names_of(request.baselines),
        request.kind,
        request.axes,
    )
    apart = {} if request.cross_environment else past.apart
    cautions = drift_cautions(judgement.rows, results, past.readings, apart)
    cautions += past.cautions
    cautions += past.tell_apart("times and memory are ") if apart else []
    if not past.cases & {outcome.case for _, _, outcome in results}:
        cautions.append(make_caution(CautionKind.NO_COMMON_PAST))
    return cautions
