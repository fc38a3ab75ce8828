"""The style sheets and scripts of the dashboard, and where each comes from."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from torchstone.reporting.html.page import read_asset

KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
ASSETS = (
    "page.css",
    "dashboard.css",
    "dashboard.js",
    "chart.js",
    "icon.svg",
    "uplot.css",
    "uplot.js",
    "uplot-license.txt",
)
"""All files below ``assets/``."""


@cache
def read_dashboard_asset(name: str) -> bytes:
    """Return a file below ``assets/``; raise KeyError if there is none of this name."""
    if name not in ASSETS:
        raise KeyError(name)
    if name == "page.css":
        return read_asset(name).encode()
    return (files("torchstone.dashboard") / "assets" / name).read_bytes()


def kind_of_asset(name: str) -> str:
    """Return the content type of a file."""
    return f"{KINDS[name.rpartition('.')[2]]}; charset=utf-8"
