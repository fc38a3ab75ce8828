"""Summarise the scaling rounds of a run by benchmark, with those of baselines, and name the best bucket size."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from torchstone.analyze.bucket_sizes import SAME, Bucket, BucketSweep, sweep_buckets
from torchstone.analyze.scaling_curves import Curve, CurveKey, Point, ScalingSweep, collect_sweeps
from torchstone.core.details.round_details import RankDetails, RoundDetails
from torchstone.core.errors import printable
from torchstone.core.records import AXES, Case, Outcome, Reading, Run, axis_text
from torchstone.core.text.units import count_of, format_share, short_number
from torchstone.reporting.views.caches import format_size

MOST_TRIALS = 50  # the most trials to suggest
USUAL_TRIALS = 5
NO_RESULT = "no result"


class BaselineSweep(Struct, frozen=True):
    """The same benchmark in a baseline file called ``name``."""

    name: str
    sweep: ScalingSweep


class ShownSweep(Struct, frozen=True):
    """The rounds of one benchmark. ``names`` has the name of each curve, by its key.

    ``others`` mentions baselines that have the benchmark under conditions that are not comparable.
    """

    sweep: ScalingSweep
    names: dict[CurveKey, str]
    buckets: tuple[BucketSweep, ...]
    bases: tuple[BaselineSweep, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return the name of the benchmark."""
        return self.sweep.of.name

    def name_of(self, curve: Curve) -> str:
        """Return the name of a curve."""
        return self.names[curve.key]

    def base_points(self, name: str, ranks: int) -> list[tuple[str, Point]]:
        """Return the same round of each baseline that has it, with the name of its file."""
        return [
            (base.name, point)
            for base in self.bases
            for curve in base.sweep.curves
            for point in curve.points
            if self.name_of(curve) == name and point.ranks == ranks
        ]


def scaling_of(run: Run) -> list[ShownSweep]:
    """Return the rounds of a run by benchmark, without baselines."""
    return show_sweeps(run.outcomes, run.plan, ())


def show_sweeps(
    outcomes: Iterable[Outcome], planned: Iterable[Case], baselines: Sequence[Reading]
) -> list[ShownSweep]:
    """Return the rounds of outcomes by benchmark, with those of comparable baselines."""
    sweeps = collect_sweeps(outcomes, planned)
    if not sweeps:
        return []
    names = _file_names(baselines)
    bases = [
        BaselineSweep(name, sweep)
        for name, reading in zip(names, baselines, strict=True)
        for sweep in collect_sweeps(reading.run.outcomes)
    ]
    by_benchmark: dict[str, list[BaselineSweep]] = {}
    for base in bases:
        by_benchmark.setdefault(base.sweep.of.benchmark, []).append(base)
    return [_show(sweep, by_benchmark.get(sweep.of.benchmark, ())) for sweep in sweeps]


def _file_names(readings: Sequence[Reading]) -> list[str]:
    """Return the files' names, with folders only if two names are the same."""
    short = [os.path.basename(reading.path) for reading in readings]
    return short if len(set(short)) == len(short) else [reading.path for reading in readings]


def _show(sweep: ScalingSweep, bases: Sequence[BaselineSweep]) -> ShownSweep:
    """Combine a sweep with the comparable ones of its baselines."""
    differences = [(base, _differences(sweep.of, base.sweep.of)) for base in bases]
    kept = [base for base, found in differences if not found]
    others = [f"{base.name} has {sweep.of.name} {', '.join(found)}" for base, found in differences if found]
    curves = [*sweep.curves, *(curve for base in kept for curve in base.sweep.curves)]
    notes = () if kept else tuple(f"{other}: not comparable, so not shown" for other in others)
    return ShownSweep(sweep, name_curves(curves), tuple(sweep_buckets(sweep)), tuple(kept), notes)


def _differences(ours: Case, theirs: Case) -> list[str]:
    """Return the axes that both state with different values, which makes rounds not comparable.

    A DDP report states few axes.
    """
    mine, base = ours.variant.axes(), theirs.variant.axes()
    differ = [axis for axis in base if axis in mine and base[axis] != mine[axis]]
    return [f"with {axis.replace('_', ' ')} {base[axis]}" for axis in differ]


def name_curves(curves: Sequence[Curve]) -> dict[CurveKey, str]:
    """Name each curve by its strategy, plus whatever not all curves share."""
    buckets = {curve.bucket for curve in curves if curve.bucket}
    collectives = {curve.collective for curve in curves if curve.collective}
    names = {}
    for curve in curves:
        parts = [curve.strategy or "?"]
        parts += [f"{curve.bucket} MB"] if curve.bucket and len(buckets) > 1 else []
        parts += [curve.collective] if curve.collective and len(collectives) > 1 else []
        parts += [f"on ranks {curve.rank_list}"] if curve.rank_list else []
        names[curve.key] = printable(" ".join(parts))
    return names


def conditions_of(sweep: ScalingSweep, shared: Iterable[str] = ()) -> str:
    """Return the conditions of a benchmark, except ``shared`` ones: ``float32, batch size 32 per rank, cpu``."""
    variant, left_out = sweep.of.variant, set(shared)
    axes = {axis: axis_text(value) for axis in AXES if (value := getattr(variant, axis)) not in ("", None)}
    axes |= dict(variant.further)
    axes.pop("mode", None)
    parts = [_condition(axis, value) for axis, value in axes.items() if axis not in left_out]
    curves = [curve for curve in sweep.curves if curve.bucket or curve.collective]
    for values, unit in (
        ({curve.bucket for curve in curves} - {""}, " MB buckets"),
        ({curve.collective for curve in curves} - {""}, ""),
    ):
        parts += [f"{value}{unit}" for value in values] if len(values) == 1 else []
    return printable(", ".join(part for part in parts if part), 300)


def _condition(axis: str, value: str) -> str:
    if axis == "backend" and value == "none":
        return "eager"
    if axis == "batch_size":
        return f"batch size {value} per rank"
    return value if axis in {"device", "backend", "dtype"} else f"{axis} {value}"


def read_ranks(outcome: Outcome | None) -> list[RankDetails]:
    """Return the numbers of each rank of a round, with names that fit on a line."""
    return [_shown_rank(each) for each in _round_of(outcome).ranks]


def _round_of(outcome: Outcome | None) -> RoundDetails:
    details = outcome.details if outcome else None
    return (details.scaling if details else None) or RoundDetails()


def _shown_rank(rank: RankDetails) -> RankDetails:
    return structs.replace(rank, host=printable(rank.host, 80), device=printable(rank.device, 80))


def read_stragglers(outcome: Outcome | None) -> list[str]:
    """Return the descriptions of a round's stragglers."""
    return list(_round_of(outcome).stragglers)


def count_trials(outcome: Outcome | None) -> int:
    """Return the number of trials of a round; the numbers of its ranks are from the first."""
    times = [m for m in outcome.measurements if m.metric == "iteration_time"] if outcome else []
    return max((len(each.trials) for each in times), default=0)


def ending_of(point: Point) -> str:
    """Return how a round without numbers ended."""
    if point.outcome is None:
        return NO_RESULT
    return point.outcome.status if point.outcome.status not in {"pass", ""} else "no numbers"


def scaling_figures(sweeps: Sequence[ShownSweep]) -> tuple[str, list[str]]:
    """Return the key figure of scaling, and notes on it.

    It is the lowest efficiency of any benchmark on its largest number of ranks, with its best strategy.
    """
    found = [end for shown in sweeps if (end := _efficiency_at_most_ranks(shown)) is not None]
    if not found:
        return "", []
    share, name, ranks, title = min(found)
    notes = [f"efficiency of {title} with {name} on {count_of(ranks, 'rank')}"]
    if len(found) > 1:
        notes.append(f"the lowest of {count_of(len(found), 'benchmark')}, each on its most ranks")
    return format_part(share), notes


def _efficiency_at_most_ranks(shown: ShownSweep) -> tuple[float, str, int, str] | None:
    """Return the best efficiency on the most ranks; None if that is the smallest round itself."""
    known = [
        (point.ranks, point.efficiency, shown.name_of(curve))
        for curve in shown.sweep.curves
        for point in curve.points
        if point.efficiency is not None
    ]
    if not known or max(known)[0] == shown.sweep.smallest.ranks:
        return None
    ranks, share, name = max(known)
    return share, name, ranks, shown.title


class BucketFinding(Struct, frozen=True):
    """Conclusion of a sweep of bucket sizes, and how many trials would decide what it leaves open; 0 for none."""

    text: str
    trials: int = 0

    @property
    def option(self) -> str:
        """The option that measures as many trials."""
        return f"--trials {self.trials}"

    def __str__(self) -> str:
        return f"{self.text}: use {self.option} to find out" if self.trials else self.text


def find_bucket(sweep: BucketSweep) -> BucketFinding:
    """Describe the result: ``25 MB is fastest; 50 MB is not clearly slower: use --trials 5 to find out``."""
    best = sweep.best
    if best is None:
        return BucketFinding("no bucket size has a result")
    others = [bucket for bucket in sweep.buckets if bucket is not best and bucket.seconds is not None]
    if not others:
        return BucketFinding(f"only {best.size} MB has a result")
    same = [bucket for bucket in others if bucket.is_as_fast and not bucket.is_slower]
    open_ = [bucket for bucket in others if not bucket.is_slower and bucket not in same]
    parts = [f"{best.size} MB is fastest"]
    if same:
        parts.append(f"{_sizes(same)} {_is(same)} as fast, within {format_share(SAME)}")
    if open_:
        parts.append(f"{_sizes(open_)} {_is(open_)} not clearly slower")
        trials = _trials_needed(sweep, open_)
        if not trials:
            return BucketFinding(f"{'; '.join(parts)}: even {MOST_TRIALS} trials would not show a difference")
        return BucketFinding("; ".join(parts), trials)
    if sweep.trials == 1:
        parts.append("measured in one job each, and another may differ")
        return BucketFinding("; ".join(parts), USUAL_TRIALS)
    return BucketFinding("; ".join(parts))


def _sizes(buckets: Sequence[Bucket]) -> str:
    *first, last = (bucket.size for bucket in buckets)
    return f"{', '.join(first)} and {last} MB" if first else f"{last} MB"


def _is(buckets: Sequence[Bucket]) -> str:
    return "is" if len(buckets) == 1 else "are"


def _trials_needed(sweep: BucketSweep, buckets: Sequence[Bucket]) -> int:
    """Return how many trials would show a difference; 0 if too many. One job does not show how much jobs differ."""
    more = [bucket.more for bucket in buckets]
    if sweep.trials < 2 or None in more:
        return max(USUAL_TRIALS, 2 * sweep.trials)
    trials = sweep.trials + max(each for each in more if each is not None)
    return trials if trials <= MOST_TRIALS else 0


def interval_note(sweep: BucketSweep) -> str:
    """Describe the intervals in a table of bucket sizes."""
    if sweep.trials > 1:
        return f"95% intervals over {count_of(sweep.trials, 'trial')} each; those of ratios hold for all sizes together"
    if any(bucket.interval for bucket in sweep.buckets):
        return "95% intervals within one job each, by batches of iterations: they do not cover differences between jobs"
    return "no intervals: they need 20 iterations, or --trials"


def format_time(seconds: float | None) -> str:
    """Format seconds per iteration with three digits: ``51.2 ms``, ``1.25 s``.

    >>> format_time(0.029), format_time(1.25), format_time(0.1814), format_time(1234.5)
    ('29.0 ms', '1.25 s', '181 ms', '1,234 s')
    """
    return "" if seconds is None else " ".join(_time_and_unit(seconds))


def _time_and_unit(seconds: float) -> tuple[str, str]:
    if seconds >= 999.5:
        return short_number(round(seconds)), "s"
    number, unit = (1000 * seconds, "ms") if seconds < 0.9995 else (seconds, "s")
    return f"{number:#.3g}".removesuffix("."), unit


def format_times(low: float, high: float) -> str:
    """Format a range of times: ``50.1 to 52.3 ms``, or ``from 50.1 ms`` if it has no upper end."""
    if not math.isfinite(high):
        return f"from {format_time(low)}"
    first, unit = _time_and_unit(low)
    last, last_unit = _time_and_unit(high)
    return f"{first} to {last} {unit}" if unit == last_unit else f"{first} {unit} to {last} {last_unit}"


def format_rate(examples: float | None) -> str:
    """Format examples per second: ``1,250``, ``83.2``."""
    if examples is None:
        return ""
    if examples >= 1e7:
        return short_number(examples)
    return f"{examples:,.0f}" if examples >= 99.95 else f"{examples:#.3g}"


def format_part(percent: float | None) -> str:
    """Format a percentage, with a decimal only if it is small: ``83%``, ``4.5%``."""
    if percent is None:
        return ""
    return f"{percent:,.0f}%" if abs(percent) >= 9.95 else f"{percent:.1f}%"


def format_peak(gigabytes: float | None) -> str:
    """Format memory with three digits: ``312 MB``, ``4.54 GB``."""
    return "" if gigabytes is None else format_size(1e9 * gigabytes)


def format_ratios(bucket: Bucket) -> str:
    """Format the ratio to the fastest: ``1.042x (1.010 to 1.075)``; unbounded intervals are omitted."""
    if bucket.ratio is None:
        return ""
    if bucket.ratio_interval is None or not math.isfinite(bucket.ratio_interval[1]):
        return f"{bucket.ratio:.3f}x"
    low, high = bucket.ratio_interval
    return f"{bucket.ratio:.3f}x ({low:.3f} to {high:.3f})"
