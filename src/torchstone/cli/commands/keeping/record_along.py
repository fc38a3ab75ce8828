"""``--record`` of other commands: record the results that they have just measured or judged."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.api.keeping.record import RecordRequest, record_results
from torchstone.api.sources import Axes
from torchstone.cli.commands.keeping.record import print_recorded
from torchstone.core.errors import UsageError
from torchstone.core.records import Run
from torchstone.store.identity import name_revision


def record_along(
    files: Sequence[str],
    store: str | None,
    *,
    revision: str | None = None,
    branch: str | None = None,
    kind: str | None = None,
    axes: Axes = (),
    config: str | None = None,
    repository: str = "",
) -> None:
    """Record files, and say so on standard error, where it is in nobody's way."""
    request = RecordRequest(
        results=tuple(files),
        store=store or "",
        revision=revision or "",
        branch=branch or "",
        kind=kind or "",
        axes=axes,
        config=config,
        repository=repository,
    )
    print_recorded(record_results(request), to_stderr=True)


def require_revision(planned: Run) -> None:
    """Raise an error if a planned run could not be recorded."""
    if not name_revision(planned.revision, planned):
        raise UsageError(
            "--record: this folder is in no git repository, so the run has no revision",
            advice="name it: --label TEXT",
        )
