"""Results of the scaling probe as text: the numbers of a round, and tables of rounds and bucket sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchstone.analyze.bucket_sizes import BucketSweep
from torchstone.analyze.scaling_curves import Point, collect_sweeps
from torchstone.core.records import Outcome, Run
from torchstone.core.text.units import count_of
from torchstone.reporting.run_text.blocks import Block, wrapped
from torchstone.reporting.views.result_table import ResultTable
from torchstone.reporting.views.scaling_view import (
    ShownSweep,
    conditions_of,
    ending_of,
    find_bucket,
    format_part,
    format_peak,
    format_rate,
    format_ratios,
    format_time,
    format_times,
    interval_note,
    read_stragglers,
    scaling_of,
)

LONGEST_ENDING = 10
_COLUMNS = ("strategy", "ranks", "p50", "p95", "ex/s", "efficiency", "comm.", "peak")
_BUCKET_COLUMNS = ("bucket", "p50", "interval", "vs. best", "")


def round_texts(outcome: Outcome) -> Iterator[str]:
    """Yield the numbers of a round, most important first: ``51.2 ms/iter``, ``1,250 ex/s``, ``efficiency 83%``, ``communication 22%``."""
    points = [point for sweep in collect_sweeps([outcome]) for point in sweep.points]
    stated = {measurement.metric for measurement in outcome.measurements}
    for point in points:
        if point.seconds is not None:
            yield f"{format_time(point.seconds)}/iter"
        if point.examples is not None:
            yield f"{format_rate(point.examples)} ex/s"
        if point.efficiency is not None and "scaling_efficiency" in stated:
            yield f"efficiency {format_part(point.efficiency)}"
        if point.communication is not None:
            yield f"communication {format_part(point.communication)}"
        if point.rank_spread is not None and read_stragglers(outcome):
            yield f"slowest rank +{format_part(point.rank_spread)}"


def scaling_blocks(run: Run, width: int) -> Iterator[Block]:
    """Yield a table of rounds for each benchmark, stragglers, and bucket sizes."""
    shown = scaling_of(run)
    for sweep in shown:
        yield ""
        yield ResultTable(_title(sweep), _COLUMNS, list(_lines(sweep)))
        for curve in sweep.sweep.curves:
            for point in curve.points:
                name = f"{sweep.name_of(curve)} on {count_of(point.ranks, 'rank')}"
                for text in read_stragglers(point.outcome):
                    yield wrapped(f"straggler: {name}: {text}", "", "  ", width)
        several = len({buckets.collective for buckets in sweep.buckets}) > 1
        for buckets in sweep.buckets:
            yield from _bucket_blocks(buckets, width, several=several)
    if legend := "; ".join(_words(point for sweep in shown for point in sweep.sweep.points)):
        yield f"\n{wrapped(legend, '', '', width)}"


def _words(points: Iterable[Point]) -> Iterator[str]:
    """Yield explanations of the columns that are present."""
    measured = [point for point in points if point.seconds is not None]
    if measured:
        yield "p50, p95: time of an iteration"
        yield "ex/s: examples per second"
    if any(point.efficiency is not None for point in measured):
        yield "efficiency: examples per second and rank, relative to the smallest round"
    if any(point.communication is not None for point in measured):
        yield "comm.: share of an iteration spent in communication"
    if any(point.peak is not None for point in measured):
        yield "peak: memory of the rank that uses most"


def _title(sweep: ShownSweep) -> str:
    conditions = conditions_of(sweep.sweep)
    return f"{sweep.title}: {conditions}" if conditions else sweep.title


def _lines(sweep: ShownSweep) -> Iterator[list[str]]:
    for curve in sweep.sweep.curves:
        for point in curve.points:
            head = [sweep.name_of(curve), str(point.ranks)]
            if point.seconds is None:
                yield [*head, _short_ending(point), *[""] * (len(_COLUMNS) - 3)]
                continue
            yield [
                *head,
                format_time(point.seconds),
                format_time(point.slow_seconds),
                format_rate(point.examples),
                format_part(point.efficiency),
                format_part(point.communication),
                format_peak(point.peak),
            ]


def _short_ending(point: Point) -> str:
    """Return how a round ended in few letters; details are below the tables."""
    ending = ending_of(point)
    return ending if len(ending) <= LONGEST_ENDING else "failed"


def _bucket_blocks(sweep: BucketSweep, width: int, *, several: bool) -> Iterator[Block]:
    """Yield the table of bucket sizes; name the collective if there are ``several``."""
    collective = f", {sweep.collective}" if several else ""
    title = f"{sweep.of.name}: bucket sizes on {count_of(sweep.ranks, 'rank')}{collective}"
    best = sweep.best
    lines = []
    for bucket in sweep.buckets:
        if bucket.seconds is None:
            lines.append([f"{bucket.size} MB", _short_ending(bucket.point), "", "", ""])
            continue
        interval = format_times(*bucket.interval) if bucket.interval else ""
        note = "best" if bucket is best else "slower" if bucket.is_slower else ""
        lines.append(
            [f"{bucket.size} MB", format_time(bucket.seconds), interval, format_ratios(bucket), note]
        )
    yield ""
    yield ResultTable(title, _BUCKET_COLUMNS, lines)
    yield wrapped(f"{find_bucket(sweep)} ({interval_note(sweep)})", "", "  ", width)
