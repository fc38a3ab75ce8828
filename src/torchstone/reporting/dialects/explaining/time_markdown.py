"""Render where the time of a call went as Markdown, for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.text.safe_text import escape_commands
from torchstone.reporting.dialects.columns import TextLayout
from torchstone.reporting.dialects.explaining.time_text import DIFFER, header_of, number_cells, overview_table
from torchstone.reporting.dialects.markdown_page import code, escape
from torchstone.reporting.views.explaining.kernel_names import short_name
from torchstone.reporting.views.explaining.time_view import NO_LINE, TimeExplanation

_WIDE = 400


def render_time_markdown(explanations: Sequence[TimeExplanation], notes: Sequence[str], top: int) -> str:
    """Render one case in full, or one line for each of several."""
    parts = (
        list(_case_parts(explanations[0], top)) if len(explanations) == 1 else list(_overview(explanations))
    )
    return escape_commands("\n\n".join([*parts, *map(escape, notes)]) + "\n")


def _case_parts(each: TimeExplanation, top: int) -> Iterator[str]:
    yield f"### torchstone explain: {code(each.label)}"
    if each.differences:
        yield "\n".join([f"> **{DIFFER}**", *(f"> - {escape(text)}" for text in each.differences)])
    yield escape(each.headline)
    if each.hints:
        yield "\n".join(
            f"- {escape(shown.text)}{' (In base too.)' if shown.held_before else ''}" for shown in each.hints
        )
    families = [[escape(row.label), *number_cells(each, row)] for row in each.comparison.families]
    total = ["total", *number_cells(each, each.comparison.busy)]
    yield _table(header_of(each, "family"), [*families, total], names=1)
    name = "operator" if each.on_cpu else "kernel"
    kernels = [
        [
            code(short_name(row.name), in_table=True),
            "" if each.is_alone else row.state,
            *number_cells(each, row),
        ]
        for row in each.kernels[:top]
    ]
    header = header_of(each, name)
    if kernels:
        yield _table([header[0], "", *header[1:]], kernels, names=2)
    places = [
        [
            code(row.module, in_table=True) if row.module else "",
            code(row.place, in_table=True) if row.place else NO_LINE,
            *number_cells(each, row),
        ]
        for row in each.places[:top]
    ]
    if places:
        yield _table(["module", "line", *header[1:]], places, names=2)
    yield from map(escape, each.notes)


def _overview(explanations: Sequence[TimeExplanation]) -> Iterator[str]:
    yield f"### torchstone explain: {len(explanations):,} cases"
    table = overview_table(explanations, TextLayout(_WIDE))
    rows = [
        [code(row[0].strip(), in_table=True), *(escape(cell.strip()) for cell in row[1:])]
        for row in table.rows
    ]
    yield _table([cell.strip() for cell in table.header], rows, names=1)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, names: int) -> str:
    rule = ["---" if column < names else "--:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))
