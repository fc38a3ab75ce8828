"""The result of ``torchstone ab``: on the terminal, as reports in every format, as a page, and as an exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from torchstone.cli.terminal.ab_display import (
    AbDisplay,
    costs_of,
    effect_text,
    headline_of,
    pair_rows,
    print_result,
    reason_of,
)
from torchstone.cli.terminal.show import parse_reports, print_report, write_reports
from torchstone.core.errors import printable
from torchstone.core.fingerprint import differences, unknowns
from torchstone.core.text.units import count_of, format_share
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import Judgement
from torchstone.measure.ab.contest import METRICS, AbSettings, Contest
from torchstone.measure.ab.sides import Side
from torchstone.reporting.dialects.styles import STYLES, WIDTH, render_report
from torchstone.reporting.html.ab_page import AbPage, AbRow, render_ab
from torchstone.reporting.views.comparison_rows import CompareReport

HTML = "html"


class AbResult(Struct, frozen=True):
    """Everything that is shown of a comparison of two sides."""

    sides: Sequence[Side]
    contests: Sequence[Contest]
    settings: AbSettings
    judgement: Judgement
    files: tuple[str, str]
    repro: Callable[[Contest], str]
    seconds: float
    notes: Sequence[str] = ()


def show_result(result: AbResult, display: AbDisplay, given: dict[str, Any]) -> None:
    """Print the result, and write the reports that were asked for."""
    style = given["style"] or "text"
    reports = parse_reports(given["reports"], (*STYLES, HTML))
    if given["output"]:
        reports.append((given["style"] or HTML, given["output"]))
        style = "text"
    written = " and ".join(printable(path) for path in result.files)
    make = partial(_render, result, display)
    if style == "text":
        decided = pair_rows(result.contests, result.judgement.rows)
        print_result(decided, display, result.settings, result.seconds)
        for note in result.notes:
            print(note)
        _say_quarantine(result.judgement)
    else:
        print_report(make(style, color=False, width=WIDTH), style)
    print(f"wrote {written}", file=display.stream)
    write_reports(make, reports)
    for _, path in reports:
        print(f"wrote {printable(path)}", file=display.stream)


def _render(result: AbResult, display: AbDisplay, style: str, *, color: bool, width: int) -> str:
    if style == HTML:
        return render_ab(make_page(result, display))
    report = CompareReport(result.judgement, (result.files[0],), (result.files[1],), command="ab")
    return render_report(report, style, color=color, width=width)


def _say_quarantine(judgement: Judgement) -> None:
    for entry in judgement.expired:
        print(
            f"expired: the quarantine of {printable(entry.case)} ended {entry.expires} ({printable(entry.place)})"
        )
    for release in judgement.releases:
        print(
            f"could be released from quarantine: {printable(release.case.name)} ({printable(release.entry.place)})"
        )


def make_page(result: AbResult, display: AbDisplay) -> AbPage:
    """What the HTML page shows."""
    a, b = result.sides
    settings = result.settings
    told = [(side.name, " ".join(side.spec.texts) or "as things are") for side in result.sides]
    told += [("metric", METRICS[settings.metric]), ("margin", format_share(settings.margin))]
    told += [("alpha", format_share(settings.alpha)), ("seed", str(settings.seed))]
    decided = pair_rows(result.contests, result.judgement.rows)
    rows = [
        AbRow(
            display.name(contest.case),
            row.verdict.value,
            effect_text(effect := contest.effect),
            costs_of(contest, settings),
            contest.pairs,
            effect.ratio if effect else None,
            (effect.low, effect.high) if effect else None,
            reason_of(row),
            result.repro(contest),
        )
        for contest, row in decided
    ]
    notes = [f"B differs from A: {each}" for each in differences(b.run.environment, a.run.environment)]
    notes += [*unknowns(b.run.environment, a.run.environment), *result.notes]
    headline = f"B against A: {headline_of(row for _, row in decided)}"
    return AbPage(headline, tuple(told), tuple(rows), settings.margin, tuple(notes))


def exit_code(result: AbResult, display: AbDisplay, *, strict: bool) -> int:
    """3 where nothing could be measured, 1 where something blocks, otherwise 0; says what the code alone does not."""
    judgement = result.judgement
    if not any(contest.could_measure for contest in result.contests):
        return 3
    verdicts = {row.verdict for row in judgement.rows}
    if Verdict.REGRESSION not in verdicts and Verdict.INCONCLUSIVE in verdicts:
        print(
            "inconclusive is no regression: --strict makes it one, a larger --budget or --margin may decide it",
            file=display.stream,
        )
    lost = sum(row.verdict is Verdict.MISSING and row.blocks for row in judgement.rows)
    if (
        strict
        and lost
        and not any(row.blocks and row.verdict is not Verdict.MISSING for row in judgement.rows)
    ):
        print(
            f"{count_of(lost, 'case')} that only A has: --strict takes that for a regression",
            file=display.stream,
        )
    return judgement.exit_code
