"""Sum up the work of one call by kernel and origin, small enough for a run file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torchstone.analyze.call_time.kernel_families import KernelFamily, KernelKind, classify
from torchstone.worker.probes.device_time.busy_time import union
from torchstone.worker.probes.time_profile.origins import LaunchOrigin
from torchstone.worker.probes.time_profile.work_of_call import WorkSpan
from torchstone.worker.protocol.time_profile_reply import KernelTimeFound, SideTimeFound

MOST_KERNELS = 150
MOST_INTERVALS = 2_000
LONGEST_NAME = 240
REST = "(rest)"
_Row = KernelTimeFound


def sum_up(
    work: Sequence[WorkSpan], origins: Sequence[LaunchOrigin], wall: int, *, on_cpu: bool
) -> SideTimeFound:
    """Return the call's work by kernel and origin, the costliest first; small ones are folded by family."""
    rows: dict[tuple[str, bool, LaunchOrigin], _Row] = {}
    keys = []
    for each, origin in zip(work, origins, strict=True):
        key = (each.name, each.wraps, origin)
        keys.append(key)
        row = rows.get(key) or _first(each, origin)
        rows[key] = replace(row, count=row.count + 1, milliseconds=row.milliseconds + each.own / 1e6)
    ordered = sorted(rows, key=lambda key: (-rows[key].milliseconds, key[0], rows[key].place))
    kept, folded = ordered[:MOST_KERNELS], ordered[MOST_KERNELS:]
    place_of = {key: number for number, key in enumerate(kept)}
    first = work[0].start if work else 0
    return SideTimeFound(
        wall=wall / 1e6,
        busy=(sum(each.own for each in work) if on_cpu else union((each.start, each.end) for each in work))
        / 1e6,
        launches=len(work),
        kernels=tuple(map(_rounded, [*(rows[key] for key in kept), *_fold([rows[key] for key in folded])])),
        folded=len(folded),
        timeline=tuple(
            (place_of.get(key, -1), each.stream, each.start - first, each.end - each.start)
            for key, each in list(zip(keys, work, strict=True))[:MOST_INTERVALS]
        ),
    )


def _first(work: WorkSpan, origin: LaunchOrigin) -> _Row:
    name = work.name
    kind = KernelKind(KernelFamily.OVERHEAD) if work.wraps else classify(name, origin.operator, origin.dtype)
    return _Row(
        name[:LONGEST_NAME],
        kind.family.value,
        kind.dtype,
        0,
        0.0,
        "" if origin.operator == name or origin.operator.startswith("#") else origin.operator[:LONGEST_NAME],
        origin.module[:LONGEST_NAME],
        origin.place[-LONGEST_NAME:],
        origin.source,
    )


def _fold(rows: Sequence[_Row]) -> list[_Row]:
    """Return one row for each family and dtype."""
    folded: dict[tuple[str, str], _Row] = {}
    for row in rows:
        so_far = folded.get((row.family, row.dtype)) or _Row(REST, row.family, row.dtype, 0, 0.0)
        folded[row.family, row.dtype] = replace(
            so_far, count=so_far.count + row.count, milliseconds=so_far.milliseconds + row.milliseconds
        )
    return list(folded.values())


def _rounded(row: _Row) -> _Row:
    return replace(row, milliseconds=round(row.milliseconds, 6))
