"""Details of a round of the scaling probe: how it was run, the numbers of each rank, and its stragglers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

_Number = Annotated[float, Meta(ge=-1e300, le=1e300)]


class RoundSettings(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """How a round was run: warm-up iterations, collective backend, bucket size, hosts, and timed iterations per rank."""

    warm_up: int | None = None
    collective: str = ""
    bucket_mb: float | None = None
    hosts: tuple[str, ...] = ()
    iterations: int | None = None


class RankDetails(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The numbers of one rank; None if not stated.

    ``median`` and ``own`` are seconds of an iteration and of the rank's own work in it, ``communication`` is the share of an iteration spent in collectives, in percent, and
    ``peak`` the peak memory in GB.
    """

    rank: int
    host: str = ""
    local_rank: int | None = None
    device: str = ""
    median: _Number | None = None
    own: _Number | None = None
    communication: _Number | None = None
    peak: _Number | None = None


class RoundDetails(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Details of a round; the ranks are those of the first trial, the stragglers those of all trials."""

    round: RoundSettings | None = None
    ranks: tuple[RankDetails, ...] = ()
    stragglers: tuple[str, ...] = ()
