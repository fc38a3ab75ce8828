"""A whole run as text: the lines and the summary that ``run`` printed, then tracebacks and logs of what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from torchstone.core.errors import printable
from torchstone.core.records import Reading, Revision
from torchstone.core.text.safe_text import quote_word
from torchstone.core.text.units import count_of, format_value
from torchstone.reporting.run_text.blocks import WIDTH, Block
from torchstone.reporting.run_text.case_blocks import case_blocks, log_blocks
from torchstone.reporting.run_text.case_lines import CaseLines
from torchstone.reporting.run_text.case_view import CaseView
from torchstone.reporting.run_text.summary_blocks import summary_blocks
from torchstone.reporting.views.case_row import MISSING

MOST_LOG_LINES = 20
MOST_TRACEBACKS = 10


class TextRoom(Struct, frozen=True):
    """Columns of running text, and of a case's line; None if a line may have any number."""

    width: int = WIDTH
    line: int | None = None


def run_blocks(reading: Reading, views: Sequence[CaseView], room: TextRoom) -> Iterator[Block]:
    """Yield a run as ``run`` printed it, with tracebacks and logs of the cases that failed."""
    run = reading.run
    yield from _head(reading)
    lines = CaseLines(run.plan, room.line)
    yield from (lines.of(outcome) for outcome in run.outcomes)
    yield from summary_blocks(reading, _title(reading), room.width, most_lines=None)
    yield from _ending_blocks(reading, views)
    if run.finished:
        return
    left = len(run.plan) - len(run.outcomes)
    yield f"\nthe run is not finished: {count_of(left, 'case')} left; finish it:"
    yield f"  torchstone run --resume {quote_word(reading.path)}"


def cases_blocks(views: Sequence[CaseView], room: TextRoom) -> Iterator[Block]:
    """Yield everything about some cases, one after another."""
    for number, view in enumerate(views):
        if number:
            yield ""
        yield from case_blocks(view, room.width)


def _head(reading: Reading) -> Iterator[str]:
    """Yield the file, the run or the format, and the revision."""
    run = reading.run
    told = [f"run {run.id}" if reading.kind == "run" else f"{reading.kind} file", *_revision(run.revision)]
    told += [f"preset {run.settings.preset}"] if run.settings.preset else []
    yield f"{printable(reading.path, 1000)}: {printable(', '.join(told), 1000)}"
    yield ""


def _revision(revision: Revision) -> Iterator[str]:
    if revision.commit:
        dirty = " with uncommitted changes" if revision.dirty else ""
        branch = f" ({revision.branch})" if revision.branch else ""
        yield f"commit {revision.commit[:12]}{branch}{dirty}"
    if revision.label:
        yield f"label {revision.label}"


def _title(reading: Reading) -> str:
    outcomes = reading.run.outcomes
    durations = [
        each.details.duration for each in outcomes if each.details and each.details.duration is not None
    ]
    took = f"; measuring took {format_value(round(sum(durations)), 's')} in all" if durations else ""
    return f"{count_of(len(outcomes), 'case')}{took}"


def _ending_blocks(reading: Reading, views: Sequence[CaseView]) -> Iterator[Block]:
    """Yield tracebacks and logs of failed cases; of cases that failed alike, those of the first."""
    found: dict[tuple[str, str, str], list[CaseView]] = {}
    for view in views:
        failure = view.failure
        if failure and (failure.traceback or view.log) and view.status != MISSING:
            found.setdefault((view.status, failure.message, failure.traceback), []).append(view)
    for number, group in enumerate(found.values()):
        if number == MOST_TRACEBACKS:
            yield f"\n... and {len(found) - number} more tracebacks; see one case: torchstone show {quote_word(reading.path)} CASE"
            return
        yield f"\n{printable(group[0].case.id, 1000)}"
        if len(group) > 1:
            yield f"  and {count_of(len(group) - 1, 'case')} that failed alike"
        yield from log_blocks(group[0], MOST_LOG_LINES)
