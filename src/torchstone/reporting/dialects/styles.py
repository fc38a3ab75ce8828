"""Render a report in any of the styles; only the needed renderer is imported."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from torchstone.reporting.views.report_view import ReportView

_RENDERERS = {
    "text": ("dialects.text_report", "render_text"),
    "markdown": ("dialects.markdown_report", "render_markdown"),
    "junit": ("dialects.junit_xml", "render_junit"),
    "json": ("dialects.json_report", "render_json"),
    "github": ("dialects.github_annotations", "render_github"),
}
_COMPARISON = "html.comparison_page", "render_html"
HTML = "html"
STYLES = tuple(_RENDERERS)
COMPARISON_STYLES = (*STYLES, HTML)
"""The styles of a comparison of two sides; an HTML page of a check is made by ``torchstone report``."""
WIDTH = 80


def render_report(report: ReportView, style: str = "text", *, color: bool = False, width: int = WIDTH) -> str:
    """Render a judgement in one of the styles; color and width are for text."""
    renderers = {**_RENDERERS, HTML: _COMPARISON} if report.judgement.overview else _RENDERERS
    if style not in renderers:
        raise UsageError(f"{style}: no such style", advice=f"the styles are {', '.join(renderers)}")
    module, name = renderers[style]
    render: Callable[..., str] = getattr(import_module(f"torchstone.reporting.{module}"), name)
    return render(report, color=color, width=width) if style == "text" else render(report)
