"""Read the lists of models that PyTorch's own gates consider flaky, by upstream version."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.records import matches_name
from torchstone.core.toml_file import read_toml

DATA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "upstream_flaky.toml")
EVERYWHERE = "everywhere"
_REASONS = {
    "accuracy": "in the flaky list of the original accuracy gate",
    "graph_breaks": "in the flaky list of the original graph-break gate",
}


class UpstreamVersion(Struct, frozen=True):
    """The lists of one version: the flaky models that its gates accept, and the models whose eager results its runner expects to differ."""

    name: str
    source: str
    flaky: tuple[QuarantineEntry, ...]
    eager_not_deterministic: tuple[str, ...]


class Removal(Struct, frozen=True):
    """A user's statement that a model is not flaky here: its entries are removed from the list."""

    case: str
    reason: str
    path: str
    line: int
    metrics: tuple[str, ...] = ()
    platform: str = ""

    @property
    def place(self) -> str:
        """Return the place, as ``file:line``."""
        return f"{self.path}:{self.line}"

    def removes(self, entry: QuarantineEntry) -> bool:
        """Return whether it removes this entry: the name must match, and so must metric and platform where stated."""
        if self.metrics and not any(matches_name(mine, of) for mine in self.metrics for of in entry.metrics):
            return False
        return matches_name(self.case, entry.case) and self.platform in {"", entry.platform}


@cache
def upstream_versions() -> tuple[UpstreamVersion, ...]:
    """Return all versions whose lists ship with torchstone; the first is the default."""
    document, _ = read_toml(DATA)
    metrics = {gate: tuple(names) for gate, names in document["metrics"].items()}
    return tuple(
        UpstreamVersion(
            version["name"],
            version["source"],
            tuple(
                _entry(version["name"], gate, metrics[gate], case, platform)
                for gate in metrics
                for platform, cases in version[gate].items()
                for case in cases
            ),
            tuple(version["eager_not_deterministic"]),
        )
        for version in document["version"]
    )


def _entry(version: str, gate: str, metrics: tuple[str, ...], case: str, platform: str) -> QuarantineEntry:
    where = "" if platform == EVERYWHERE else platform
    return QuarantineEntry(
        case, _REASONS[gate], f"upstream {version}, {gate}", 0, metrics=metrics, platform=where
    )


def find_version(name: str | None, error: TorchstoneError | None = None) -> UpstreamVersion:
    """Return a version by its name, or the default; raise ``error``, or else a UsageError, if it is unknown."""
    versions = upstream_versions()
    found = [version for version in versions if name in {None, version.name}]
    if found:
        return found[0]
    if error is not None:
        raise error
    raise UsageError(f"--upstream-version {name}: no such version", advice=known_versions())


def known_versions() -> str:
    """Return the names of all versions, as advice."""
    return f"known versions: {', '.join(version.name for version in upstream_versions())}"


def without_removed(
    version: UpstreamVersion, removals: Sequence[Removal]
) -> tuple[list[QuarantineEntry], list[Removal]]:
    """Return the flaky list of a version without the removed entries, and the removals that matched nothing."""
    kept = [entry for entry in version.flaky if not any(each.removes(entry) for each in removals)]
    idle = [each for each in removals if not any(each.removes(entry) for entry in version.flaky)]
    return kept, idle


def tell_idle(removal: Removal, version: str) -> Caution:
    """Return the caution about a removal that matches no entry."""
    where = f" on {removal.platform}" if removal.platform else ""
    of_what = f" for {', '.join(removal.metrics)}" if removal.metrics else ""
    return make_caution(
        CautionKind.REMOVAL_WITHOUT_USE,
        place=removal.place,
        case=removal.case,
        version=version,
        scope=f"{of_what}{where}",
    )


def platforms_of(expected: Sequence[str]) -> frozenset[str]:
    """Return the platforms that PyTorch's script derives from the paths of expected files."""
    return frozenset("rocm" if "rocm" in path else os.path.basename(path) for path in expected)
