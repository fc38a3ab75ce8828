"""Links between the pages of the dashboard: relative, so that they hold below any address and as static files."""

from __future__ import annotations

from msgspec import Struct

from torchstone.reporting.html.elements import Markup, element


class PageLinks(Struct, frozen=True):
    """Makes the links of one page. ``depth`` is the number of folders that it is in.

    Static pages have no queries; ``runs`` are those that have a page there, None means all.
    """

    depth: int = 0
    is_static: bool = False
    runs: frozenset[int] | None = None

    def has_run(self, run_id: int) -> bool:
        """Return whether a run has a page."""
        return self.runs is None or run_id in self.runs

    def to(self, path: str, query: str = "") -> str:
        """Return the address of a page, such as ``run/12``; an empty path is the first page.

        >>> PageLinks(1).to("runs", "branch=main"), PageLinks(1, is_static=True).to(""), PageLinks().to("")
        ('../runs?branch=main', '../index.html', './')
        """
        up = "../" * self.depth
        if self.is_static:
            return f"{up}{path or 'index'}.html"
        address = f"{up}{path}" or "./"
        return f"{address}?{query}" if query else address

    def asset(self, name: str) -> str:
        """Return the address of a style sheet or script."""
        return f"{'../' * self.depth}assets/{name}"

    def run(self, run_id: int, text: str, title: str | None = None) -> Markup:
        """Render a link to a run; its name alone if it has no page."""
        if not self.has_run(run_id):
            return element("span", text, title=title)
        return element("a", text, href=self.to(f"run/{run_id}"), title=title)

    def case(self, case_id: int, text: str, query: str = "", title: str | None = None) -> Markup:
        """Render a link to the history of a case."""
        return element("a", text, href=self.to(f"case/{case_id}", query), title=title)
