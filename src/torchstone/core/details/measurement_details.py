"""Details of a measurement besides its samples, for comparisons, reports and other formats."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

_Size = Annotated[int, Meta(ge=1)]
_Share = Annotated[float, Meta(ge=0, lt=1)]
_Spread = Annotated[float, Meta(ge=0, le=1e6)]
_Label = str | int | float | None


class MeasurementDetails(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The way samples were taken; unknown fields have their defaults.

    ``start`` is how the worker was started (``fork`` or ``spawn``), ``cache`` the state of the compile cache (``cold`` or ``warm``), ``counter`` what
    counted instructions, ``definition`` the definition of compile time (``torch_timers``, or ``warm_up_calls`` in older files), and ``benchmark_version``
    asv's version of the benchmark. ``distributed_backend`` and ``bucket_size`` are from the head of a DDP report.

    ``trials`` has the number of samples of each trial; ``ranks`` that of each rank, further trials following. ``pairs`` is the number of timed pairs, or the name of the
    ``torchstone ab`` session, in which the i-th trials of both files belong together. ``block`` is the number of calls per sample, ``repeats`` the number of repeats
    behind an estimate, ``stopped`` why sampling stopped. ``interval`` is the confidence interval at the level ``confidence``, computed by ``method``.

    ``spread`` and ``spread_trials`` are the evidence behind an expected value that stands for its samples: the standard deviation of the logarithms of the trials (their
    relative deviation, as a share), None if there was only one, and their number.

    ``margin`` is the allowed deviation from an expected value, as a share of it. ``mixed`` says how joined trials differ in the way they were measured.
    ``disturbed`` has the indexes of trials in which something disturbed the timing; None if nobody noted which.

    ``better`` and ``unit`` define a metric that the benchmark reports itself, and no other; ``reported`` says where it does: in each timed ``call``, from its
    ``result``, in the ``build``, or in counted ``work``.
    """

    start: str = ""
    cache: str = ""
    counter: str = ""
    definition: str = ""
    benchmark_version: str = ""
    distributed_backend: _Label = None
    bucket_size: _Label = None
    block: int | None = None
    pairs: int | str | None = None
    stopped: str = ""
    repeats: int | None = None
    interval: tuple[float, float] | None = None
    confidence: float | None = None
    method: str = ""
    ranks: tuple[int, ...] = ()
    trials: tuple[_Size, ...] = ()
    margin: _Share | None = None
    spread: _Spread | None = None
    spread_trials: _Size | None = None
    mixed: dict[str, str] | None = None
    disturbed: tuple[Annotated[int, Meta(ge=0)], ...] | None = None
    better: Literal["", "higher", "lower", "equal"] = ""
    unit: str = ""
    reported: str = ""

    def methods(self) -> dict[str, str | int | float | None]:
        """Return how the samples were taken, by field: numbers are comparable if these agree wherever both sides state them."""
        return {
            "start": self.start,
            "cache": self.cache,
            "definition": self.definition,
            "benchmark_version": self.benchmark_version,
            "distributed_backend": self.distributed_backend,
            "bucket_size": self.bucket_size,
            "unit": self.unit,
            "better": self.better,
        }


NO_DETAILS = MeasurementDetails()
