"""``Quarantine``: list, add, remove and check the entries of a quarantine file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.quarantine.quarantine_review import CheckEntriesRequest, QuarantineReview, review_entries
from torchstone.api.requests import Path, Sources, Texts, make_request, path_of, take
from torchstone.core.cautions import Caution
from torchstone.core.config import QUARANTINE_NAME
from torchstone.core.disk import read_text
from torchstone.core.errors import UsageError
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.text.redaction import redact
from torchstone.core.upstream import find_version, tell_idle, without_removed
from torchstone.gate.quarantine_file import (
    Fields,
    add_entry,
    read_quarantine,
    read_removals,
    remove_entries,
    write_quarantine,
)

if TYPE_CHECKING:
    from typing import Unpack


class NewEntryRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry to add. With ``replace``, it takes the place of the entry for this case, and keeps what it does not state."""

    case: str
    reason: str
    link: str = ""
    owner: str = ""
    metrics: tuple[str, ...] = ()
    platform: str = ""
    since: date | None = None
    expires: date | None = None
    allow_missing: bool = False
    replace: bool = False


class NewEntryOptions(TypedDict, total=False):
    """Options of ``Quarantine.add``, explained in docs/quarantine.md."""

    link: str
    owner: str
    metrics: Texts
    platform: str
    since: date
    expires: date
    allow_missing: bool
    replace: bool


class CheckEntriesOptions(TypedDict, total=False):
    """Options of ``Quarantine.check``, explained in docs/quarantine.md."""

    baselines: Sources
    platforms: Texts
    axes: Mapping[str, object]
    as_of: date
    upstream_version: str


class Quarantine:
    """The cases in a quarantine file, which do not block. The file is read anew by each call.

    quarantine = torchstone.Quarantine("quarantine.toml")
    quarantine.add("yolov3", "flaky since the driver update", expires=date(2027, 1, 31))
    torchstone.check("run.jsonl", baselines="expected.csv", quarantines=quarantine)
    """

    def __init__(self, path: Path = QUARANTINE_NAME) -> None:
        self._path = path_of(path)

    @property
    def path(self) -> str:
        """The name of the file."""
        return self._path

    def __fspath__(self) -> str:
        return self._path

    def __repr__(self) -> str:
        return f"Quarantine({self._path!r})"

    def entries(self, upstream_version: str = "") -> list[QuarantineEntry]:
        """Return all entries; with a version, also those of PyTorch's list of flaky models that the file does not remove."""
        version = take("upstream_version", upstream_version, str)
        if self._path == QUARANTINE_NAME and not os.path.exists(self._path) and not version:
            return []
        return read_entries(self._path, version)[0]

    def add(self, case: str, reason: str, **options: Unpack[NewEntryOptions]) -> QuarantineEntry:
        """Add an entry for a case, by its name, id or a shell pattern; return it as it now is in the file."""
        request = make_request(NewEntryRequest, {"case": case, "reason": reason, **options})
        return add_to_file(self._path, request)[0]

    def remove(self, case: str) -> list[QuarantineEntry]:
        """Remove the entries whose pattern is exactly this one, and return them. Raise an error if there are none."""
        return remove_from_file(self._path, take("case", case, str))

    def check(self, results: Sources = (), **options: Unpack[CheckEntriesOptions]) -> QuarantineReview:
        """Find entries that have expired, match nothing, or can be released: ``results`` are repeats of a run."""
        return check_file(self._path, make_request(CheckEntriesRequest, {"results": results, **options}))


def read_entries(path: str, upstream_version: str) -> tuple[list[QuarantineEntry], list[Caution]]:
    """Return the entries of a file and of an upstream version, and cautions about removals that match none of the latter."""
    if not upstream_version:
        return read_quarantine(path), []
    chosen = find_version(upstream_version)
    if not os.path.exists(path) and path == QUARANTINE_NAME:
        return list(chosen.flaky), []
    shipped, idle = without_removed(chosen, read_removals(path))
    return [*read_quarantine(path), *shipped], [tell_idle(removal, chosen.name) for removal in idle]


def check_file(path: str, request: CheckEntriesRequest) -> QuarantineReview:
    """Check the entries of a file as requested."""
    entries, cautions = read_entries(path, request.upstream_version)
    return review_entries(name_of(path, request.upstream_version), entries, cautions, request)


def name_of(path: str, upstream_version: str) -> str:
    """Return what a list of entries is called."""
    if not upstream_version:
        return path
    shipped = f"the flaky list {upstream_version}"
    return f"{path} and {shipped}" if os.path.exists(path) else shipped


def add_to_file(path: str, request: NewEntryRequest) -> tuple[QuarantineEntry, bool]:
    """Add an entry to a file; return it, and whether it replaced one."""
    text = read_text(path) if os.path.exists(path) else ""
    kept, gone = _take_out(path, text, request) if request.replace else (text, [])
    old = gone[0] if gone else QuarantineEntry(request.case, request.reason, path, 0)
    first = request.since or old.since or date.today()
    last = request.expires or old.expires
    if last and last < first:
        raise UsageError(f"--expires {last} is before the first day, {first}", advice="nothing was written")
    fields: Fields = {
        "case": request.case,
        "reason": redact(request.reason),
        "link": redact(request.link or old.link),
        "owner": request.owner or old.owner,
        "metric": request.metrics or old.metrics,
        "platform": request.platform or old.platform,
        "since": first,
        "allow_missing": request.allow_missing or old.allow_missing,
    }
    if last:
        fields["expires"] = last
    write_quarantine(path, text, add_entry(path, kept, fields))
    return read_quarantine(path)[-1], bool(gone)


def _take_out(path: str, text: str, request: NewEntryRequest) -> tuple[str, list[QuarantineEntry]]:
    """Return the text without the entry to replace: the only one for the case, or the one with this metric and platform."""
    _, there = remove_entries(path, text, request.case)
    meant = [
        entry
        for entry in there
        if len(there) == 1
        or (
            (not request.metrics or entry.metrics == request.metrics)
            and (not request.platform or entry.platform == request.platform)
        )
    ]
    if len(meant) > 1:
        told = "; ".join(
            f"line {entry.line}: metric {', '.join(entry.metrics) or 'any'}, platform {entry.platform or 'any'}"
            for entry in meant
        )
        raise UsageError(
            f"{path} has {len(meant)} entries for {request.case} ({told})",
            advice="select one with --metric and --platform, or remove all of them first",
        )
    return remove_entries(path, text, request.case, lambda entry: entry in meant)


def remove_from_file(path: str, case: str) -> list[QuarantineEntry]:
    """Remove the entries with exactly this pattern from a file, and return them."""
    text = read_text(path)
    left, gone = remove_entries(path, text, case)
    if not gone:
        there = ", ".join(entry.case for entry in read_quarantine(path)) or "none"
        raise UsageError(f"{path} has no entry for {case}", advice=f"it has: {there}")
    write_quarantine(path, text, left)
    return gone
