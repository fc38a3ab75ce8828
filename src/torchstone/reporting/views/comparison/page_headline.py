"""Decide the headline of a page and its color.

The pages of ``compare``, ``ab`` and ``report`` all take it from here.
"""

from __future__ import annotations

from msgspec import Struct

from torchstone.gate.judgement import State
from torchstone.reporting.views.report_view import ReportView

GOOD, BAD, OPEN, PLAIN = "good", "bad", "open", "plain"
"""Tones of a headline: everything passed, something fails, something is undecided, nothing was judged."""


class Headline(Struct, frozen=True):
    """The result in one line, and its tone."""

    text: str
    tone: str


def headline_of(report: ReportView) -> Headline:
    """Return the headline of a judgement.

    It is bad if anything blocks that was decided, and good only if everything was decided: a judgement in which only undecided rows block
    is undecided, whatever its exit code.
    """
    tones = {State.FAIL: BAD, State.UNDECIDED: OPEN, State.PASS: GOOD if report.is_pass else PLAIN}
    return Headline(report.headline, tones[report.judgement.state])
