"""The rounds of the scaling probe: on how many ranks, by which strategy, with which bucket sizes each benchmark is trained."""

from __future__ import annotations

from msgspec import Struct

from torchstone.core.errors import UsageError
from torchstone.core.text.units import count_of

DEFAULT_STRATEGIES = ("none", "ddp")
DEFAULT_BUCKET = 25.0
WARM_UP, COLLECTIVE_TIMEOUT = 5, 120.0

Further = tuple[tuple[str, str], ...]


class Sweep(Struct, frozen=True):
    """What was asked for; empty is what the machine offers."""

    ranks: tuple[int, ...] = ()
    strategies: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    collective: str = ""


class RankCapacity(Struct, frozen=True):
    """What there is to train on: hosts, how many ranks each has room for, and what holds one rank (``cuda device``, ``core``)."""

    hosts: int
    ranks: int
    unit: str


def plan_sweep(sweep: Sweep, room: RankCapacity) -> tuple[Further, ...]:
    """The axes of every round, in the order of measuring: without a strategy first, then growing numbers of ranks."""
    strategies = sweep.strategies or DEFAULT_STRATEGIES
    if sweep.buckets and "ddp" not in strategies:
        raise UsageError("--bucket-mb is for the strategy ddp", advice="leave it out, or add --strategy ddp")
    if sweep.ranks and strategies == ("none",):
        raise UsageError("--strategy none is one process, so --ranks has no place", advice="leave it out")
    counts = sweep.ranks or default_ranks(room)
    for count in counts:
        _check(count, room)
    rounds = []
    for strategy in strategies:
        if strategy == "none":
            rounds.append(axes_of(strategy, 1))
            continue
        for count in counts:
            if strategy == "ddp":
                buckets = sweep.buckets or (DEFAULT_BUCKET,)
                rounds += [axes_of(strategy, count, sweep.collective, bucket) for bucket in buckets]
            else:
                rounds.append(axes_of(strategy, count, sweep.collective))
    return tuple(rounds)


def axes_of(strategy: str, ranks: int, collective: str = "", bucket: float | None = None) -> Further:
    """A round's own axes, as a case has them."""
    told = {"ranks": str(ranks), "strategy": strategy}
    if collective:
        told["collective"] = collective
    if bucket is not None:
        told["bucket_mb"] = f"{bucket:g}"
    return tuple(sorted(told.items()))


def default_ranks(room: RankCapacity) -> tuple[int, ...]:
    """One, two, four, ... and all of one host, then whole hosts.

    >>> default_ranks(RankCapacity(3, 8, "cuda device"))
    (1, 2, 4, 8, 16, 24)
    """
    counts, count = [], 1
    while count < room.ranks:
        counts.append(count)
        count *= 2
    return (*counts, *(room.ranks * hosts for hosts in range(1, room.hosts + 1)))


def _check(count: int, room: RankCapacity) -> None:
    there = room.ranks * room.hosts
    if count > there:
        raise UsageError(
            f"--ranks {count}: there {'is' if there == 1 else 'are'} {count_of(there, room.unit)}",
            advice=f"at most {there}, or more hosts: torchrun --nnodes N --nproc-per-node {room.ranks} -m torchstone run ...",
        )
    if count > room.ranks and count % room.ranks:
        raise UsageError(
            f"--ranks {count}: beyond one host, rounds are of whole hosts, with {count_of(room.ranks, 'rank')} each",
            advice=f"such as {count - count % room.ranks}",
        )


def hosts_for(count: int, room: RankCapacity) -> tuple[int, int]:
    """How many hosts a round needs, and how many ranks are on each; where nobody has looked, one host has room for all."""
    if not room.unit:
        return 1, count
    return max(1, count // room.ranks), min(count, room.ranks)
