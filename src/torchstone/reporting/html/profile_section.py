"""Render profiles of counts and the causes of changes: tables, flame graphs, call paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from torchstone.analyze.attribution import (
    Attribution,
    CostChange,
    FunctionChange,
    Step,
    compare,
    trace,
)
from torchstone.analyze.profiles import read_profile
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import InputError
from torchstone.core.records import NOWHERE, FilePlace, Number, Outcome
from torchstone.core.text.units import count_of, format_change, format_number, format_value
from torchstone.reporting.html.elements import NOTHING, Markup, element, join, long_text
from torchstone.reporting.svg.flame_graph import MOST_FRAMES, draw_flame, draw_shade
from torchstone.reporting.views.case_row import CaseRow
from torchstone.reporting.views.check_rows import Report

ALL_FRAMES = 16_000  # in all graphs of a page together, so that it stays usable
FEWEST_FRAMES = 100
_GRAPHS = 2  # per case
MOST_CASES = 60
MOST_FUNCTIONS = 25
MOST_STEPS = 40
_DEEPEST = 8  # indentation levels in the style sheet
PYTHON = "python"
PYTHON_COUNTER_NOTE = "The python counter does not count C++ code: changes there do not show here."


class Explained(Struct, frozen=True):
    """The attribution of one case's count. ``plain`` means there is no comparison; ``note`` may say why."""

    label: str
    anchor: str
    attribution: Attribution
    plain: bool = False
    note: str = ""


def profile_of(outcome: Outcome | None) -> object:
    """Return the profile that an outcome states; None if there is none."""
    return outcome.details.profile if outcome and outcome.details else None


def explain_rows(
    rows: Iterable[CaseRow], report: Report | None
) -> tuple[tuple[Explained, ...], tuple[Caution, ...]]:
    """Return the cases with profiles, largest change first, and the problems with profiles."""
    wanted = {row.case: row for row in rows if profile_of(row.outcome) is not None}
    if not wanted:
        return (), ()
    before: dict[object, tuple[object, FilePlace]] = {}
    for judged in report.judgement.rows if report else ():
        if judged.case in wanted and (stated := profile_of(judged.base)) is not None:
            before.setdefault(judged.case, (stated, judged.remarks.base_place))
    found, cautions = [], []
    for case, row in wanted.items():
        try:
            found.append(_explain_row(row, *before.get(case, (None, NOWHERE))))
        except InputError as error:
            cautions.append(make_caution(CautionKind.PROFILE_NOT_SHOWN, case=row.label, why=str(error)))
    return tuple(sorted(found, key=_by_change)), tuple(cautions)


def _explain_row(row: CaseRow, before: object, before_place: FilePlace) -> Explained:
    new = read_profile(profile_of(row.outcome), row.place.path, row.place.line or 1)
    if before is None:
        return Explained(row.label, row.anchor, compare(new, new), plain=True)
    base = read_profile(before, before_place.path, before_place.line or 1)
    if (base.counter, base.unit) != (new.counter, new.unit):
        note = f"Not compared: this is counted by {new.counter}, the baseline by {base.counter}."
        return Explained(row.label, row.anchor, compare(new, new), plain=True, note=note)
    return Explained(row.label, row.anchor, compare(base, new))


def _by_change(each: Explained) -> tuple[bool, float, float]:
    return each.plain, -abs(relative_change(each.attribution.total)), -float(each.attribution.total.new)


def relative_change(total: CostChange) -> float:
    """Return the relative change as a sort key; a change from zero sorts highest."""
    return total.relative if total.relative is not None else float("inf") if total.new else 0.0


def with_unit(value: Number, unit: str) -> str:
    """Format a cost with its unit: ``1,234 instructions``."""
    text = format_value(value, unit)
    return text if text.endswith(unit) else f"{text} {unit}"


def signed(change: Number) -> str:
    """Format a change with its sign: ``+1,234``."""
    return f"{'+' if change > 0 else ''}{format_number(change)}"


def describe_total(attribution: Attribution, *, plain: bool = False) -> str:
    """Describe the total in one sentence."""
    total, unit = attribution.total, attribution.unit
    counted = f"counted by {attribution.counter}"
    if plain:
        return f"{with_unit(total.new, unit)}, {counted}."
    if not total.change:
        return f"{with_unit(total.new, unit)}, unchanged, {counted}."
    share = f" ({format_change(total.new, total.base)})" if total.base else ""
    change = f"{signed(total.change)}{share}"
    return f"{with_unit(total.new, unit)}, was {format_number(total.base)}: {change}, {counted}."


def share_text(share: float | None) -> str:
    """Format a phase's share of the change."""
    return "" if share is None else f"{100 * share:.0f}%"


def render_explained(cases: Sequence[Explained]) -> Markup:
    """Render the section of the report."""
    if not cases:
        return NOTHING
    shown = cases[:MOST_CASES]
    several = count_of(len(cases), "case")
    title = "Profiles" if all(each.plain for each in cases) else "Causes of the changes"
    left = len(cases) - len(shown)
    return element(
        "section",
        element("h2", f"{title}: {several}", id="explained"),
        render_cases(shown),
        element("p", f"{left:,} more with smaller changes are not shown.", class_="quiet") if left else None,
    )


def render_cases(cases: Sequence[Explained], *, linked: bool = True) -> Markup:
    """Render a folded part per case, the first one open; a single case is not folded."""
    if len(cases) == 1 and not linked:
        return render_case(cases[0])
    return join(
        element(
            "details",
            element("summary", element("b", each.label), " ", element("span", _brief(each))),
            element("p", element("a", "Row in the table", href=f"#{each.anchor}"))
            if linked and each.anchor
            else None,
            body,
            class_="explained",
            open=number == 0,
        )
        for number, (each, body) in enumerate(_render_within_limit(cases))
    )


def _render_within_limit(cases: Sequence[Explained]) -> Iterator[tuple[Explained, Markup]]:
    """Yield the rendered cases within the page's limit of frames; the first ones have the most detail."""
    left = ALL_FRAMES
    for number, each in enumerate(cases, 1):
        spare = left - _GRAPHS * FEWEST_FRAMES * (len(cases) - number)
        body = render_case(each, max(FEWEST_FRAMES, min(MOST_FRAMES, spare // _GRAPHS)))
        left -= body.count("<rect/>")
        yield each, body


def _brief(each: Explained) -> str:
    total = each.attribution.total
    cost = with_unit(total.new, each.attribution.unit)
    if each.plain:
        return cost
    return f"{cost}, {format_change(total.new, total.base) if total.change else 'unchanged'}"


def render_case(each: Explained, most: int = MOST_FRAMES) -> Markup:
    """Render one case, most important first."""
    found, plain = each.attribution, each.plain
    stacks = found.by_stack
    steps = [] if plain or stacks is None else trace(stacks)
    what = "cost" if plain else "change"
    return join(
        element("p", describe_total(found, plain=plain)),
        element("p", PYTHON_COUNTER_NOTE, class_="note") if found.counter == PYTHON else None,
        element("p", long_text(each.note, 600), class_="note") if each.note else None,
        element("h3", "By compiler phase"),
        _phase_table(found, plain=plain),
        element("h3", f"By phase, library and function, in {found.unit}"),
        draw_flame(
            found.by_function,
            found.unit,
            f"Flame graph of the {what} by function of {each.label}",
            plain=plain,
            most=most,
        ),
        _function_table(found, each.label, plain=plain),
        element("h3", f"By Python call stack, in {found.stacks_unit}") if stacks else None,
        draw_flame(
            stacks,
            found.stacks_unit,
            f"Flame graph of the {what} by call stack of {each.label}",
            plain=plain,
            most=most,
        )
        if stacks
        else None,
        _path(steps),
    )


def _table(name: str, head: Sequence[str], rows: Iterable[Markup]) -> Markup:
    """Render a table that scrolls if it is too wide; its first columns are names."""
    cells = [element("th", text, scope="col", class_="number" if text in _NUMBERS else None) for text in head]
    table = element(
        "table", element("thead", element("tr", cells)), element("tbody", list(rows)), class_="changes"
    )
    return element("div", table, class_="scroll", role="region", aria_label=name, tabindex=0)


_NUMBERS = frozenset({"base", "new", "change", "share of change", "cost", "share"})


def _phase_table(found: Attribution, *, plain: bool) -> Markup:
    whole = found.total.new
    head = ("phase", "cost", "share") if plain else ("phase", "change", "share of change", "base", "new")
    rows = [
        element(
            "tr",
            element("th", phase.phase, scope="row"),
            _plain_numbers(phase.new, whole)
            if plain
            else [_change(phase), _number(share_text(phase.share)), *_sides(phase)],
        )
        for phase in found.phases
    ]
    return _table("By compiler phase", head, rows)


def _function_table(found: Attribution, label: str, *, plain: bool) -> Markup:
    """Render the numbers of the graph as a table, largest first."""
    functions = found.functions if plain else found.changed
    if not functions:
        if plain:
            return NOTHING
        note = "No function changed." if found.functions else "No data on functions."
        return element("p", note, class_="quiet")
    shown = functions[:MOST_FUNCTIONS]
    head = ("function", *(("cost", "share") if plain else ("change", "base", "new")), "phase", "library")
    rows = [_function_row(each, found.total.new, plain=plain) for each in shown]
    name = f"Functions that {'cost' if plain else 'changed'} most"
    left = len(functions) - len(shown)
    summary = f"{name} ({len(shown):,} of {len(functions):,})" if left else name
    return element(
        "details", element("summary", summary), _table(f"{name} in {label}", head, rows), open=not plain
    )


def _function_row(each: FunctionChange, whole: Number, *, plain: bool) -> Markup:
    return element(
        "tr",
        element("th", long_text(each.function, 160), scope="row"),
        _plain_numbers(each.new, whole) if plain else [_change(each), *_sides(each)],
        element("td", each.phase),
        element("td", long_text(each.library, 60)),
    )


def _change(change: CostChange) -> Markup:
    relative = (
        "new" if not change.base else "gone" if not change.new else format_change(change.new, change.base)
    )
    shade = draw_shade(change.base, change.new)
    return _number(
        join(shade, signed(change.change), " ", element("small", relative if change.change else ""))
    )


def _sides(change: CostChange) -> list[Markup]:
    return [_number(format_number(change.base)), _number(format_number(change.new))]


def _plain_numbers(cost: Number, whole: Number) -> list[Markup]:
    return [_number(format_number(cost)), _number(f"{100 * cost / whole:.1f}%" if whole else "")]


def _number(text: str) -> Markup:
    return element("td", text, class_="number")


def _path(steps: Sequence[Step]) -> Markup:
    """Render the path to the frames that explain most of the change."""
    if not steps:
        return NOTHING
    items = [
        element(
            "li",
            element("span", signed(step.frame.change), class_="number"),
            element(
                "span",
                element("small", f"{count_of(step.passed, 'frame')} with the same change")
                if step.passed
                else None,
                element("code", long_text(step.frame.name, 200)),
                class_=f"i{min(step.level, _DEEPEST)}",
            ),
        )
        for step in steps[:MOST_STEPS]
    ]
    left = len(steps) - len(items)
    return join(
        element("h3", "Call path that explains most of the change"),
        element("ol", items, class_="path"),
        element("p", f"{left:,} more steps are not shown.", class_="quiet") if left > 0 else None,
    )
