"""The options of ``torchstone.check()``, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TypedDict

from torchstone.api.requests import Path, Paths, Sources, Texts


class CheckOptions(TypedDict, total=False):
    """Options of ``check``, explained in docs/gate.md."""

    baselines: Sources
    policy: str
    upstream_version: str
    rules: Texts
    metrics: Texts
    only: Texts
    block: Texts
    allow: Texts
    quarantines: Paths
    platforms: Texts
    axes: Mapping[str, object]
    kind: str
    baseline_kind: str
    compare_anyway: bool
    cross_environment: bool
    history: Paths
    as_of: date
    store: str
    config: Path
