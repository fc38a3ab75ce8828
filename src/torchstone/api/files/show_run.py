"""``show``: a run again, or everything about some of its cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.case_lookup import match_cases
from torchstone.api.requests import Source, make_request, take
from torchstone.api.sources import Axes, Input, read_inputs
from torchstone.core.cautions import Caution
from torchstone.core.errors import UsageError
from torchstone.core.records import Reading
from torchstone.reporting.html.fragment import render_text_html
from torchstone.reporting.run_text.blocks import Block, join_blocks
from torchstone.reporting.run_text.case_view import CaseView, view_case, view_missing
from torchstone.reporting.run_text.run_blocks import TextRoom, cases_blocks, run_blocks
from torchstone.reporting.run_text.run_json import render_run_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Unpack

SHOW_STYLES = ("text", "json")


class ShowRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file, and the case to show: a name, an id or a shell pattern; without one, the whole run.

    ``kind`` is the format unless it is to be detected, ``axes`` are axes that the file does not state.
    """

    file: Input
    case: str = ""
    kind: str = ""
    axes: Axes = ()


class ShowOptions(TypedDict, total=False):
    """Options of ``show``."""

    kind: str
    axes: Mapping[str, object]


class ShowResult(Struct, frozen=True):
    """A run, or some of its cases. ``cases`` has everything that the file says about each of them; ``whole`` is whether all were asked for."""

    reading: Reading
    cases: tuple[CaseView, ...]
    whole: bool

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Warnings about the file."""
        return self.reading.cautions

    def blocks(self, room: TextRoom) -> Iterator[Block]:
        """Yield lines and tables for a terminal."""
        if self.whole:
            return run_blocks(self.reading, self.cases, room)
        return cases_blocks(self.cases, room)

    def render(self, style: str = "text") -> str:
        """Render as text or JSON."""
        if take("style", style, str) not in SHOW_STYLES:
            raise UsageError(f"style {style}: expected {' or '.join(SHOW_STYLES)}")
        if style == "json":
            return render_run_json(self.reading, self.cases)
        return join_blocks(self.blocks(TextRoom()))

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        return render_text_html(str(self))


def show(file: Source, case: str = "", **options: Unpack[ShowOptions]) -> ShowResult:
    """Show a run again, or everything about the cases that match ``case``, as ``torchstone show`` does.

    print(torchstone.show("run.jsonl", "mlp"))
    """
    return show_results(make_request(ShowRequest, {"file": file, "case": case, **options}))


def show_results(request: ShowRequest) -> ShowResult:
    """Show as requested."""
    (reading,) = read_inputs([request.file], request.kind, request.axes)
    run = reading.run
    chosen = set(match_cases(run, request.case, reading.path)) if request.case else set(run.plan)
    measured = [view_case(reading, index) for index, each in enumerate(run.outcomes) if each.case in chosen]
    done = {view.case for view in measured}
    missing = [view_missing(reading, case) for case in run.plan if case in chosen and case not in done]
    return ShowResult(reading, (*measured, *missing), whole=not request.case)
