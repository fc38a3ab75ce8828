"""Show the proposed changes to a baseline as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torchstone.baselines.propose import Proposal
from torchstone.baselines.proposed_changes import Change
from torchstone.core.errors import printable
from torchstone.core.text.units import count_of, format_change, format_value
from torchstone.reporting.views.names import Names
from torchstone.reporting.views.result_table import ResultTable

_HEADER = ("", "case", "metric", "old", "new", "spread", "margin", "note")
_NOUNS = {"change": "changed", "add": "added", "remove": "removed", "keep": "unchanged", "hold": "held back"}


def tabulate_proposal(proposal: Proposal, path: str) -> ResultTable:
    """Return the changes as a table, with notes on rows that were left alone."""
    notes = tuple(_notes(proposal, path))
    if not proposal.changes:
        return ResultTable(f"nothing to change in {printable(path)}", _HEADER, (), notes)
    names = Names(change.case for change in proposal.changes)
    rows = [_row(change, names) for change in proposal.changes]
    return ResultTable(f"{path}: {_tally(proposal)}", _HEADER, rows, notes)


def _notes(proposal: Proposal, path: str) -> Iterator[str]:
    if proposal.unadded:
        yield f"{count_of(proposal.unadded, 'case')} without a baseline row: --add-new adds them"
    for probe, number in proposal.unfit.items():
        cases = count_of(number, "case")
        yield f"{cases} of {probe} skipped: {printable(path)} has rows of other probes; use a separate file"
    if proposal.unpruned:
        yield f"{count_of(proposal.unpruned, 'row')} without a result kept: --prune removes them"


def _tally(proposal: Proposal) -> str:
    of_action = Counter(change.action for change in proposal.changes)
    return ", ".join(f"{of_action[action]:,} {noun}" for action, noun in _NOUNS.items() if of_action[action])


def _row(change: Change, names: Names) -> tuple[str, ...]:
    note = change.note
    if (
        isinstance(change.old, int | float)
        and isinstance(change.new, int | float)
        and change.old != change.new
    ):
        note = f"{format_change(change.new, change.old)} {note}".strip()
    old, new = (format_value(value, change.unit) for value in (change.old, change.new))
    spread = "" if change.spread is None else _percent(change.spread)
    return change.action, names.of(change.case), change.metric, old, new, spread, _margin_text(change), note


def _margin_text(change: Change) -> str:
    """Return the old and new margin; empty if it was not changed or checked."""
    if change.margin is None:
        return ""
    if change.old_margin is None or change.old_margin == change.margin:
        return _percent(change.margin)
    return f"{_percent(change.old_margin)} -> {_percent(change.margin)}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%" if share < 0.995 else f"{100 * share:.0f}%"
