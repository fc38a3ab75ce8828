"""Cautions about red rows that PyTorch's own scripts do not check."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import printable
from torchstone.core.upstream import upstream_versions
from torchstone.core.vocabulary import ACCURACY, SKIPPED
from torchstone.gate.checking.near_edges import first_few
from torchstone.gate.judgement import Row

_NOT_COMPARED = frozenset({SKIPPED, "eager_two_runs_differ"})


def nondeterminism_cautions(rows: Sequence[Row], version: str) -> list[Caution]:
    """Return a caution for each red status of a model that some upstream version does not compare, because its eager results differ from run to run."""
    cautions = []
    for row in rows:
        if row.blocks and row.metric == ACCURACY and {row.new_value, row.expected_value} & _NOT_COMPARED:
            skipping = [
                each.name
                for each in upstream_versions()
                if row.case.benchmark in each.eager_not_deterministic
            ]
            if skipping:
                caution = make_caution(
                    CautionKind.UPSTREAM_SKIPS,
                    case=printable(row.case.name),
                    versions=", ".join(skipping),
                    but="" if version in skipping else f", but {version} does not",
                )
                cautions.append(caution)
    return first_few(cautions, CautionKind.MORE_UPSTREAM_SKIPS)
