"""Where the benchmarks of a suite come from."""

from __future__ import annotations

from msgspec import Struct


class BenchmarkSource(Struct, frozen=True, omit_defaults=True):
    """The source of a suite. ``kind`` is ``suite`` (built in), ``file`` or ``package`` (an installed package's suite).

    A file has its absolute ``path`` and the SHA-256 ``hash`` of its content. A run file may lack any of these, and
    leaves empty ones out.
    """

    kind: str = ""
    name: str = ""
    path: str = ""
    hash: str = ""

    @property
    def is_file(self) -> bool:
        """Return whether it is a file of the user's."""
        return self.kind == "file"
