"""Plan the rounds of the scaling probe: numbers of ranks, strategies and bucket sizes."""

from __future__ import annotations

from msgspec import Struct

from torchstone.core.errors import UsageError
from torchstone.core.text.units import count_of

DEFAULT_STRATEGIES = ("none", "ddp")
DEFAULT_BUCKET = 25.0
WARM_UP, COLLECTIVE_TIMEOUT = 5, 120.0

Further = tuple[tuple[str, str], ...]


class Sweep(Struct, frozen=True):
    """The requested rounds; empty fields use the defaults of the machine."""

    ranks: tuple[int, ...] = ()
    strategies: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    collective: str = ""


class RankCapacity(Struct, frozen=True):
    """Available capacity: hosts, ranks per host, and what one rank needs (``cuda device``, ``core``)."""

    hosts: int
    ranks: int
    unit: str


def plan_sweep(sweep: Sweep, capacity: RankCapacity) -> tuple[Further, ...]:
    """Return the axes of every round in measuring order: without a strategy first, then increasing numbers of ranks."""
    strategies = sweep.strategies or DEFAULT_STRATEGIES
    if sweep.buckets and "ddp" not in strategies:
        raise UsageError("--bucket-mb needs the strategy ddp", advice="leave it out, or add --strategy ddp")
    if sweep.ranks and strategies == ("none",):
        raise UsageError(
            "--ranks cannot be used with --strategy none, which is one process", advice="leave it out"
        )
    counts = sweep.ranks or default_ranks(capacity)
    for count in counts:
        _check_ranks(count, capacity)
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
    """Return the axes of a round, as a case has them."""
    axes = {"ranks": str(ranks), "strategy": strategy}
    if collective:
        axes["collective"] = collective
    if bucket is not None:
        axes["bucket_mb"] = f"{bucket:g}"
    return tuple(sorted(axes.items()))


def default_ranks(capacity: RankCapacity) -> tuple[int, ...]:
    """Return 1, 2, 4, ... and all ranks of one host, then whole hosts.

    >>> default_ranks(RankCapacity(3, 8, "cuda device"))
    (1, 2, 4, 8, 16, 24)
    """
    counts, count = [], 1
    while count < capacity.ranks:
        counts.append(count)
        count *= 2
    return (*counts, *(capacity.ranks * hosts for hosts in range(1, capacity.hosts + 1)))


def _check_ranks(count: int, capacity: RankCapacity) -> None:
    there = capacity.ranks * capacity.hosts
    if count > there:
        raise UsageError(
            f"--ranks {count}: only {count_of(there, capacity.unit)} available",
            advice=f"use at most {there}, or more hosts: torchrun --nnodes N --nproc-per-node {capacity.ranks} -m torchstone run ...",
        )
    if count > capacity.ranks and count % capacity.ranks:
        raise UsageError(
            f"--ranks {count}: rounds on several hosts use whole hosts, with {count_of(capacity.ranks, 'rank')} each",
            advice=f"such as {count - count % capacity.ranks}",
        )


def hosts_for(count: int, capacity: RankCapacity) -> tuple[int, int]:
    """Return the number of hosts of a round, and the ranks on each; one host for all if the capacity is unknown."""
    if not capacity.unit:
        return 1, count
    return max(1, count // capacity.ranks), min(count, capacity.ranks)
