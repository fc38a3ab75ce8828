"""The work of one call as a list: kernels of a device, or operators of a CPU with the time they spent in themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torchstone.analyze.call_time.kernel_families import family_of
from torchstone.worker.probes.time_profile.origins import UNKNOWN, LaunchOrigin
from torchstone.worker.probes.time_profile.recorded_call import HostOperator, Recording


@dataclass(frozen=True, slots=True)
class WorkSpan:
    """One stretch of work, in nanoseconds. ``own`` is its time without the work inside it; ``operator`` a correlation.

    ``wraps`` is set for an operator that hands its work to another one of its kind, as ``linear`` does to ``addmm``.
    """

    name: str
    start: int
    end: int
    stream: int
    own: int
    operator: int
    wraps: bool = False


def list_work(recording: Recording, *, on_cpu: bool) -> list[WorkSpan]:
    """Return the work in order of start."""
    if on_cpu:
        return _own_work(recording.host)
    return [
        WorkSpan(each.name, each.start, each.end, each.stream, each.end - each.start, each.operator)
        for each in recording.device
    ]


def _own_work(host: Sequence[HostOperator]) -> list[WorkSpan]:
    """Return the operators with their own time; ``host`` is in order of start, outer ones first."""
    threads = {thread: number for number, thread in enumerate(dict.fromkeys(each.thread for each in host))}
    inside = [0] * len(host)
    families = [family_of(each.name) for each in host]
    wrapping: set[int] = set()
    open_ones: dict[int, list[int]] = {}
    for number, each in enumerate(host):
        stack = open_ones.setdefault(each.thread, [])
        while stack and host[stack[-1]].end <= each.start:
            stack.pop()
        if stack:
            inside[stack[-1]] += each.end - each.start
            wrapping.update(outer for outer in stack if families[outer] is families[number])
        stack.append(number)
    return [
        WorkSpan(
            each.name,
            each.start,
            each.end,
            threads[each.thread],
            max(0, each.end - each.start - inside[number]),
            each.correlation,
            number in wrapping,
        )
        for number, each in enumerate(host)
    ]


def least_disturbed(calls: Sequence[list[WorkSpan]]) -> list[WorkSpan]:
    """Return the fastest of several calls; if all did the same, with the shortest time that each stretch of work took in any."""
    fastest = min(calls, key=lambda work: sum(each.own for each in work))
    names = [each.name for each in fastest]
    if any([each.name for each in work] != names for work in calls):
        return fastest
    return [
        replace(each, own=min(work[position].own for work in calls)) for position, each in enumerate(fastest)
    ]


def assign_origins(
    work: Sequence[WorkSpan],
    known: Sequence[WorkSpan],
    origins: Mapping[int, LaunchOrigin],
    generated: Mapping[str, Sequence[LaunchOrigin]],
) -> list[LaunchOrigin]:
    """Return the origin of each stretch of work.

    ``known`` is the work of another call, whose operators have ``origins``: the n-th launch of a kernel has the same origin in
    both, if there are as many. What inductor's code says about the n-th call of a kernel, or of an operator, completes it.
    """
    of_name: dict[str, list[int]] = {}
    for each in known:
        of_name.setdefault(each.name, []).append(each.operator)
    counts = Counter(each.name for each in work)
    taken: Counter[str] = Counter()
    launches = []
    for each in work:
        alike = of_name.get(each.name, ())
        launches.append(alike[taken[each.name]] if len(alike) == counts[each.name] else 0)
        taken[each.name] += 1
    found = [origins.get(launch, UNKNOWN) for launch in launches]
    return _complete(work, launches, found, generated) if generated else found


def _complete(
    work: Sequence[WorkSpan],
    launches: Sequence[int],
    found: Sequence[LaunchOrigin],
    generated: Mapping[str, Sequence[LaunchOrigin]],
) -> list[LaunchOrigin]:
    """Fill in what inductor's code says. An operator may launch several kernels: they have the same number among its calls."""
    keys = [
        each.name if each.name in generated else origin.operator if origin.operator in generated else ""
        for each, origin in zip(work, found, strict=True)
    ]
    numbers: dict[str, dict[int, int]] = {}
    for position, (key, launch) in enumerate(zip(keys, launches, strict=True)):
        numbers.setdefault(key, {}).setdefault(_call_of(key, launch, position), len(numbers[key]))
    completed = []
    for position, (key, launch, origin) in enumerate(zip(keys, launches, found, strict=True)):
        stated = generated.get(key, ())
        if not stated:
            completed.append(origin)
            continue
        number = numbers[key][_call_of(key, launch, position)]
        is_known = len(stated) == len(numbers[key]) or len(set(stated)) == 1
        completed.append(_join(origin, stated[min(number, len(stated) - 1)], key) if is_known else origin)
    return completed


def _call_of(key: str, launch: int, position: int) -> int:
    """Return what distinguishes the calls of an operator; a generated kernel is launched once a call."""
    return launch if launch and key.startswith("aten::") else -position - 1


def _join(origin: LaunchOrigin, said: LaunchOrigin, key: str) -> LaunchOrigin:
    is_generated = not key.startswith("aten::")
    return replace(
        origin,
        operator=(said.operator if is_generated else "") or origin.operator,
        module=said.module or origin.module,
        place=said.place or origin.place,
        source=said.source or origin.source,
    )
