"""The source of a suite, as parent and worker exchange it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceMessage:
    """The source of a suite; see ``core.benchmark_source.BenchmarkSource``, which has the same fields."""

    kind: str = ""
    name: str = ""
    path: str = ""
    hash: str = ""

    @property
    def is_file(self) -> bool:
        """Return whether it is a file of the user's."""
        return self.kind == "file"
