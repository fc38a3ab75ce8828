"""Define the part that the results of ``check``, ``compare`` and ``ab`` share."""

from __future__ import annotations

from msgspec import Struct

from torchstone.api.requests import take
from torchstone.core.cautions import Caution
from torchstone.gate.judgement import Judgement, Row
from torchstone.reporting.dialects.styles import render_report
from torchstone.reporting.views.report_view import ReportView


class JudgedResult(Struct, frozen=True):
    """Verdicts on results, as a report."""

    report: ReportView

    @property
    def judgement(self) -> Judgement:
        """All verdicts, counts and cautions."""
        return self.report.judgement

    @property
    def rows(self) -> list[Row]:
        """A row for each judged metric of each case."""
        return self.report.ordered

    @property
    def red(self) -> list[Row]:
        """The rows that block, worst first."""
        return self.report.red

    @property
    def passed(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0 if nothing blocks, else 1."""
        return self.judgement.exit_code

    @property
    def headline(self) -> str:
        """The result in one line."""
        return self.report.headline

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Warnings about the input and the measurement."""
        return tuple(self.judgement.cautions)

    def render(self, style: str = "text") -> str:
        """Render the report as text, Markdown, JUnit, JSON or GitHub annotations."""
        return render_report(self.report, take("style", style, str))

    def __str__(self) -> str:
        return self.render().rstrip("\n")
