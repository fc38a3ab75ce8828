"""One report in any of the styles; only the renderer that is needed is imported."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from torchstone.reporting.views.check_rows import Report
    from torchstone.reporting.views.comparison_rows import CompareReport

STYLES = ("text", "markdown", "junit", "json", "github")
WIDTH = 80


def render_check(report: Report, style: str = "text", *, color: bool = False, width: int = WIDTH) -> str:
    """A judgement in one of the styles; color and width are for text."""
    render = _renderer("check", style, "render_")
    return render(report, color=color, width=width) if style == "text" else render(report)


def render_comparison(
    report: CompareReport, style: str = "text", *, color: bool = False, width: int = WIDTH
) -> str:
    """A comparison in one of the styles; color and width are for text."""
    render = _renderer("comparison", style, "render_compare_")
    return render(report, color=color, width=width) if style == "text" else render(report)


def _renderer(subject: str, style: str, prefix: str) -> Callable[..., str]:
    if style not in STYLES:
        raise UsageError(f"{style}: no such style", advice=f"the styles are {', '.join(STYLES)}")
    module = import_module(f"torchstone.reporting.dialects.{subject}_{style}")
    render: Callable[..., str] = getattr(module, f"{prefix}{style}")
    return render
