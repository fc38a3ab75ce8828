"""Render a report in any of the styles; only the needed renderer is imported."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from torchstone.reporting.views.report_view import ReportView

_RENDERERS = {
    "text": ("text_report", "render_text"),
    "markdown": ("markdown_report", "render_markdown"),
    "junit": ("junit_xml", "render_junit"),
    "json": ("json_report", "render_json"),
    "github": ("github_annotations", "render_github"),
}
STYLES = tuple(_RENDERERS)
WIDTH = 80


def render_report(report: ReportView, style: str = "text", *, color: bool = False, width: int = WIDTH) -> str:
    """Render a judgement in one of the styles; color and width are for text."""
    if style not in _RENDERERS:
        raise UsageError(f"{style}: no such style", advice=f"the styles are {', '.join(STYLES)}")
    module, name = _RENDERERS[style]
    render: Callable[..., str] = getattr(import_module(f"torchstone.reporting.dialects.{module}"), name)
    return render(report, color=color, width=width) if style == "text" else render(report)
