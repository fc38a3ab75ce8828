"""Render an explanation of changed counts as text of 80 columns, Markdown, JSON or an HTML page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from textwrap import fill

import msgspec
from msgspec import Struct

from torchstone.analyze.attribution import Attribution, CostChange, Step, trace
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, Number
from torchstone.core.text.safe_text import escape_commands, escape_json, escape_lines
from torchstone.core.text.units import count_of, format_change, format_number, short_number
from torchstone.reporting.dialects.columns import (
    WIDTH,
    TextLayout,
    align_numbers,
    columns,
    cut_middle,
    shorten_names,
)
from torchstone.reporting.dialects.markdown_page import code, escape
from torchstone.reporting.html.profile_section import (
    MOST_STEPS,
    PYTHON,
    PYTHON_COUNTER_NOTE,
    Explained,
    describe_total,
    share_text,
    signed,
)
from torchstone.reporting.views.result_table import ResultTable

FORMAT = 1
DEFAULT_TOP = 15
STYLES = ("text", "json", "markdown")
_LONGEST_LIBRARY = 18
_DEEPEST = 20
_SO_VERSION = re.compile(r"\.so(\.\d+)+\Z")
_DIFFER = "The environments differ, which may be the cause:"


class Explanation(Struct, frozen=True):
    """The explained cases of two run files.

    ``cases`` and ``explained`` have the same order; ``one`` means that a single case was requested.
    """

    base: str
    new: str
    differences: tuple[str, ...]
    notes: tuple[str, ...]
    cases: tuple[Case, ...]
    explained: tuple[Explained, ...]
    one: bool

    @property
    def remarks(self) -> list[str]:
        """Return further notes for the reader."""
        by_python = any(each.attribution.counter == PYTHON for each in self.explained)
        return [*self.notes, *([PYTHON_COUNTER_NOTE] if by_python else [])]


def render_explanation(explanation: Explanation, style: str = "text", top: int = DEFAULT_TOP) -> str:
    """Render the explanation in one of the styles; text has 80 columns."""
    match style:
        case "json":
            return _render_json(explanation)
        case "markdown":
            return escape_commands(_render_markdown(explanation, top))
        case "html":
            from torchstone.reporting.html.explain_page import render_explained_page  # noqa: PLC0415  (start-up: text needs no page)

            return render_explained_page(
                explanation.base,
                explanation.new,
                explanation.explained,
                explanation.differences,
                explanation.notes,
            )
        case "text":
            blocks = explanation_blocks(explanation, top, TextLayout())
            text = "".join(
                f"{block}\n"
                if isinstance(block, str)
                else columns(block.header, block.rows, title=block.title)
                for block in blocks
            )
            return escape_commands(escape_lines(text))
    raise UsageError(f"{style}: no such style", advice=f"the styles are {', '.join(STYLES)} and html")


# ---- Text


def explanation_blocks(explanation: Explanation, top: int, layout: TextLayout) -> Iterator[str | ResultTable]:
    """Yield the explanation as lines and tables."""
    if explanation.differences:
        yield _DIFFER
        for difference in explanation.differences:
            yield fill(printable(difference, 1000), WIDTH, initial_indent="  ", subsequent_indent="    ")
        yield ""
    if explanation.one:
        yield from _case_blocks(explanation.explained[0], top, layout)
    else:
        yield _summary_table(explanation, layout)
    if explanation.remarks:
        yield ""
    for remark in explanation.remarks:
        yield fill(printable(remark, 1000), WIDTH)


def _case_blocks(each: Explained, top: int, layout: TextLayout) -> Iterator[str | ResultTable]:
    found = each.attribution
    yield fill(f"{printable(each.label)}: {describe_total(found)}", WIDTH)
    yield ""
    yield _phases_table(found, layout)
    yield from _function_blocks(found, top, layout)
    if found.by_stack:
        yield from _path_lines(trace(found.by_stack), found.stacks_unit, layout)


def _summary_table(explanation: Explanation, layout: TextLayout) -> ResultTable:
    rows = [[each.label, *_summary_cells(each.attribution)] for each in explanation.explained]
    header = ["case", "base", "new", "change", "", "mostly in"]
    numbers = align_numbers(header, rows, range(1, 5))
    shorten_names(rows, [0], numbers, layout)
    count = count_of(len(rows), "case")
    title = f"{count} with a profile in both files, largest change first"
    return ResultTable(title, tuple(numbers), rows)


def _summary_cells(found: Attribution) -> list[str]:
    total = found.total
    most = max(found.phases, key=lambda phase: abs(phase.change), default=None)
    mostly = f"{most.phase} {share_text(most.share)}" if most and most.change else ""
    relative = format_change(total.new, total.base) if total.base else "new"
    return [*_short_cells(total), relative if total.change else "", mostly]


def _short_cells(change: CostChange) -> list[str]:
    difference = short_number(change.change)
    return [
        short_number(change.base),
        short_number(change.new),
        f"+{difference}" if change.change > 0 else difference,
    ]


def _phases_table(found: Attribution, layout: TextLayout) -> ResultTable:
    def cells(write: Callable[[Number], str]) -> list[list[str]]:
        return [
            [
                phase.phase,
                write(phase.base),
                write(phase.new),
                f"{'+' if phase.change > 0 else ''}{write(phase.change)}",
                share_text(phase.share),
            ]
            for phase in found.phases
        ]

    header = ["phase", "base", "new", "change", "share of change"]
    rows = cells(format_number)
    if max(sum(map(len, row)) for row in [*rows, header]) > WIDTH - 2 * len(header):
        rows = cells(short_number)
    fitted = align_numbers(header, rows, range(1, 5))
    shorten_names(rows, [0], fitted, layout)
    return ResultTable(f"By compiler phase, in {found.unit}", tuple(fitted), rows)


def _function_blocks(found: Attribution, top: int, layout: TextLayout) -> Iterator[str | ResultTable]:
    if not found.functions:
        return
    yield ""
    if not found.changed:
        yield "No function changed."
        return
    shown = found.changed[:top]
    header = ["phase", "function", "library", "base", "new", "change"]
    rows = [[each.phase, each.function, each.library, *_short_cells(each)] for each in shown]
    fitted = align_numbers(header, rows, range(3, 6))
    for row in rows:
        row[0], row[2] = cut_middle(row[0], 12), _cut_library(row[2])
    shorten_names(rows, [1], fitted, layout)
    of_all = f" ({len(shown)} of {len(found.changed):,})" if len(shown) < len(found.changed) else ""
    title = f"Functions that changed most{of_all}, by own cost"
    yield ResultTable(title, tuple(fitted), rows)


def _path_lines(steps: Sequence[Step], unit: str, layout: TextLayout) -> Iterator[str]:
    yield ""
    if not steps:
        yield f"Call stacks: no change, in {printable(unit)}."
        return
    yield f"Call path that explains most of the change, in {printable(unit)}"
    shown = steps[:MOST_STEPS]
    numbers = [signed(step.frame.change) for step in shown]
    width = max(map(len, numbers))
    for step, number in zip(shown, numbers, strict=True):
        indent = " " * min(step.level, _DEEPEST)
        if step.passed:
            yield f"{' ' * width}  {indent}... {count_of(step.passed, 'frame')} more with the same change"
        name = cut_middle(step.frame.name, layout.width - width - 2 - len(indent))
        yield f"{number.rjust(width)}  {indent}{name}"
    if left := len(steps) - len(shown):
        yield f"... {count_of(left, 'step')} more"


def _cut_library(name: str) -> str:
    """Shorten a library's name by its version, or a path to its end."""
    shown = printable(_SO_VERSION.sub(".so", name), 1000)
    is_path = "/" in shown and len(shown) > _LONGEST_LIBRARY
    return f"\u2026{shown[1 - _LONGEST_LIBRARY :]}" if is_path else cut_middle(shown, _LONGEST_LIBRARY)


# ---- JSON


def _render_json(explanation: Explanation) -> str:
    document: dict[str, object] = {
        "format": FORMAT,
        "base": explanation.base,
        "new": explanation.new,
        "environment_differences": explanation.differences,
        "notes": explanation.remarks,
        "cases": [
            {"name": case.benchmark, "case": case.id} | _case_record(each.attribution)
            for case, each in zip(explanation.cases, explanation.explained, strict=True)
        ],
    }
    return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def _case_record(found: Attribution) -> dict[str, object]:
    record: dict[str, object] = {
        "counter": found.counter,
        "unit": found.unit,
        "total": _change_record(found.total),
        "phases": [
            {"phase": each.phase, **_change_record(each), "share": each.share} for each in found.phases
        ],
        "functions": [
            {"phase": each.phase, "library": each.library, "function": each.function} | _change_record(each)
            for each in found.changed
        ],
    }
    if found.by_stack:
        record["stacks_unit"] = found.stacks_unit
        record["path"] = [
            {"level": step.level, "passed": step.passed, "name": step.frame.name}
            | _change_record(CostChange(step.frame.base, step.frame.new))
            for step in trace(found.by_stack)
        ]
    return record


def _change_record(change: CostChange) -> dict[str, Number]:
    return {"base": change.base, "new": change.new, "change": change.change}


# ---- Markdown


def _render_markdown(explanation: Explanation, top: int) -> str:
    return "\n\n".join(_markdown_parts(explanation, top)) + "\n"


def _markdown_parts(explanation: Explanation, top: int) -> Iterator[str]:
    title = (
        code(explanation.explained[0].label) if explanation.one else count_of(len(explanation.cases), "case")
    )
    yield f"### torchstone explain: {title}"
    if explanation.differences:
        yield "\n".join([f"> **{_DIFFER}**", *(f"> - {escape(each)}" for each in explanation.differences)])
    if explanation.one:
        found = explanation.explained[0].attribution
        yield escape(describe_total(found))
        yield _markdown_table(
            ["phase", "base", "new", "change", "share of change"], _phase_rows(found, escape), names=1
        )
        if found.changed:
            rows = (
                [
                    escape(each.phase),
                    code(each.function, in_table=True),
                    code(each.library, in_table=True) if each.library else "",
                    *_exact_cells(each),
                ]
                for each in found.changed[:top]
            )
            yield _markdown_table(["phase", "function", "library", "base", "new", "change"], rows, names=3)
        if found.by_stack and (steps := trace(found.by_stack)):
            yield f"Call path that explains most of the change, in {escape(found.stacks_unit)}:"
            yield "\n".join(_markdown_steps(steps[:MOST_STEPS], code))
    else:
        rows = (
            [code(each.label, in_table=True), *map(escape, _summary_cells(each.attribution))]
            for each in explanation.explained
        )
        yield _markdown_table(["case", "base", "new", "change", "", "mostly in"], rows, names=1)
    for remark in explanation.remarks:
        yield escape(remark)


def _markdown_steps(steps: Sequence[Step], code: Callable[[str], str]) -> Iterator[str]:
    for step in steps:
        passed = f" (after {count_of(step.passed, 'frame')} with the same change)" if step.passed else ""
        yield f"{'  ' * min(step.level, _DEEPEST)}- {signed(step.frame.change)} {code(step.frame.name)}{passed}"


def _phase_rows(found: Attribution, escape: Callable[[str], str]) -> Iterator[list[str]]:
    for phase in found.phases:
        yield [escape(phase.phase), *_exact_cells(phase), share_text(phase.share)]


def _exact_cells(change: CostChange) -> list[str]:
    return [format_number(change.base), format_number(change.new), signed(change.change)]


def _markdown_table(header: Sequence[str], rows: Iterator[list[str]], *, names: int) -> str:
    rule = ["---" if column < names else "--:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))
