"""Where the benchmarks of a suite come from. Standard library only: parent and worker exchange this record."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class BenchmarkSource:
    """The source of a suite. ``kind`` is ``suite`` (built in), ``file`` or ``package`` (an installed package's suite).

    A file has its absolute ``path`` and the SHA-256 ``hash`` of its content. A run file may lack any of these.
    """

    kind: str = ""
    name: str = ""
    path: str = ""
    hash: str = ""

    @property
    def is_file(self) -> bool:
        """Return whether it is a file of the user's."""
        return self.kind == "file"

    def to_mapping(self) -> dict[str, str]:
        """Return the source as a run file has it: empty fields are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value}
