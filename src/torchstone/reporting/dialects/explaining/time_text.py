"""Render where the time of a call went as text of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill, wrap

from torchstone.analyze.call_time.time_comparison import IDLE, TimePair
from torchstone.core.errors import printable
from torchstone.core.text.safe_text import escape_commands, escape_lines
from torchstone.reporting.dialects.columns import (
    WIDTH,
    TextLayout,
    align_numbers,
    columns,
    cut_middle,
    shorten_names,
)
from torchstone.reporting.views.explaining.kernel_names import short_name
from torchstone.reporting.views.explaining.time_view import (
    NO_LINE,
    TimeExplanation,
    decimal,
    milliseconds,
    signed_decimal,
    signed_milliseconds,
)
from torchstone.reporting.views.result_table import ResultTable

DIFFER = "The environments differ, which may be the cause:"


def render_time_text(explanation: TimeExplanation, top: int) -> str:
    """Render an explanation as text."""
    text = "".join(
        f"{block}\n" if isinstance(block, str) else columns(block.header, block.rows, title=block.title)
        for block in time_blocks(explanation, top, TextLayout())
    )
    return escape_commands(escape_lines(text))


def time_blocks(explanation: TimeExplanation, top: int, layout: TextLayout) -> Iterator[str | ResultTable]:
    """Yield the explanation as lines and tables."""
    if explanation.differences:
        yield DIFFER
        for difference in explanation.differences:
            yield fill(printable(difference, 1000), WIDTH, initial_indent="  ", subsequent_indent="    ")
        yield ""
    yield fill(printable(explanation.headline, 1000), WIDTH)
    yield ""
    yield from _hint_lines(explanation)
    yield _family_table(explanation, layout)
    if explanation.kernels:
        yield ""
        yield _kernel_table(explanation, top, layout)
    if explanation.places:
        yield ""
        yield _place_table(explanation, top, layout)
    if explanation.notes:
        yield ""
    for note in explanation.notes:
        yield fill(printable(note, 1000), WIDTH)


def _hint_lines(explanation: TimeExplanation) -> Iterator[str]:
    if not explanation.hints:
        return
    yield "Hints"
    for hint in explanation.hints:
        text = f"{hint.text} (In base too.)" if hint.held_before else hint.text
        yield fill(printable(text, 2000), WIDTH, initial_indent="  - ", subsequent_indent="    ")
    yield ""


def header_of(explanation: TimeExplanation, first: str) -> list[str]:
    """Return the header of a table: one column of times if there is only one side."""
    if explanation.is_alone:
        return [first, "ms", "launches"]
    return [first, *explanation.names, "change", "launches"]


def number_cells(explanation: TimeExplanation, each: TimePair, *, counted: bool = True) -> list[str]:
    """Return the times of both sides, their difference, and the launches."""
    if explanation.is_alone:
        return [decimal(each.new), f"{each.new_count:,}" if counted else ""]
    launches = (
        f"{each.base_count:,}"
        if each.base_count == each.new_count
        else f"{each.base_count:,} -> {each.new_count:,}"
    )
    return [
        decimal(each.base),
        decimal(each.new),
        signed_decimal(each.change),
        launches if counted else "",
    ]


def _family_table(explanation: TimeExplanation, layout: TextLayout) -> ResultTable:
    found = explanation.comparison
    rows = [[each.label, *number_cells(explanation, each)] for each in found.families]
    rows.append(["total", *number_cells(explanation, found.busy)])
    if not explanation.on_cpu:
        rows.append([IDLE, *number_cells(explanation, found.idle, counted=False)])
    title = f"By family, in ms of {explanation.what} a call"
    return _table(title, header_of(explanation, "family"), rows, [0], layout)


def _kernel_table(explanation: TimeExplanation, top: int, layout: TextLayout) -> ResultTable:
    name = "operator" if explanation.on_cpu else "kernel"
    shown = explanation.kernels[:top]
    header = [*header_of(explanation, name)[:-1], "", "launches"]
    rows = []
    for each in shown:
        cells = number_cells(explanation, each)
        state = "" if explanation.is_alone else each.state
        rows.append([short_name(each.name), *cells[:-1], state, cells[-1]])
    title = _title(f"{name.capitalize()}s", explanation, len(shown), len(explanation.kernels))
    return _table(title, header, rows, [0], layout, words=(len(header) - 2,))


def _place_table(explanation: TimeExplanation, top: int, layout: TextLayout) -> ResultTable:
    shown = explanation.places[:top]
    header = ["line", *header_of(explanation, "module")[:-1]]
    rows = [[each.place or NO_LINE, each.module, *number_cells(explanation, each)[:-1]] for each in shown]
    title = _title("Modules and lines", explanation, len(shown), len(explanation.places))
    for row in rows:
        row[0] = cut_path(row[0])
    return _table(title, header, rows, [1], layout, words=(0,))


def cut_path(place: str, width: int = 28) -> str:
    """Shorten a path to its end."""
    shown = printable(place, 1000)
    return shown if len(shown) <= width else f"\u2026{shown[1 - width :]}"


def _title(what: str, explanation: TimeExplanation, shown: int, known: int) -> str:
    how = "that take longest" if explanation.is_alone else "that differ most"
    of_all = f" ({shown:,} of {known:,})" if shown < known else ""
    return f"{what} {how}{of_all}, in ms a call"


def _table(
    title: str,
    header: Sequence[str],
    rows: list[list[str]],
    shortened: Sequence[int],
    layout: TextLayout,
    words: Sequence[int] = (),
) -> ResultTable:
    """Return a table with its numbers aligned, and names cut so that it fits."""
    fitted = list(header)
    for column in range(1, len(header)):
        if column not in words and column not in shortened:
            fitted = align_numbers(fitted, rows, range(column, column + 1))
    shorten_names(rows, shortened, fitted, layout)
    return ResultTable(title, tuple(fitted), rows)


# ---- All cases of a file


def render_overview_text(explanations: Sequence[TimeExplanation], notes: Sequence[str]) -> str:
    """Render one line for each case, and remarks."""
    layout = TextLayout()
    table = overview_table(explanations, layout)
    text = columns(table.header, table.rows, title=table.title)
    text += "".join(f"{line}\n" for note in notes for line in wrap(printable(note, 1000), WIDTH))
    return escape_commands(escape_lines(text))


def overview_table(explanations: Sequence[TimeExplanation], layout: TextLayout) -> ResultTable:
    """Return a table of cases: totals, and the family that changed most."""
    names = explanations[0].names
    header = ["case", *names, "change", "mostly in"]
    rows = []
    for each in explanations:
        busy, families = each.comparison.busy, each.comparison.families
        mostly = f"{families[0].label} {signed_milliseconds(families[0].change)}" if families else ""
        rows.append(
            [
                each.label,
                milliseconds(busy.base),
                milliseconds(busy.new),
                signed_milliseconds(busy.change),
                mostly,
            ]
        )
    for row in rows:
        row[4] = cut_middle(row[4], 36)
    title = f"Time of a call by case, {'operators' if explanations[0].on_cpu else 'device'}"
    return _table(title, header, rows, [0], layout, words=(4,))
