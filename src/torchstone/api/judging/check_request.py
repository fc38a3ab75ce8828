"""The request of ``check``, and the options of its command that suggested commands repeat."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from msgspec import Struct

from torchstone.api.requests import command_words
from torchstone.api.sources import Axes, Input
from torchstone.core.text.redaction import redact


class CheckRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Results to judge, baselines, rules and policy. ``store`` is where the baseline ``history`` is. Without ``keep_passing``, passing rows are only counted."""

    results: tuple[Input, ...] = ()
    baselines: tuple[Input, ...] = ()
    policy: str = ""
    upstream_version: str | None = None
    rules: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    quarantines: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    axes: Axes = ()
    kind: str = ""
    baseline_kind: str = ""
    compare_anyway: bool = False
    cross_environment: bool = False
    history: tuple[str, ...] = ()
    as_of: date | None = None
    config: str | None = None
    store: str = ""
    keep_passing: bool = True


def words_for_check(request: CheckRequest) -> tuple[str, ...]:
    """Return the options that a suggested ``check`` command repeats, so that it judges in the same way."""
    return command_words(*_in_order(request))


def words_for_accept(request: CheckRequest) -> tuple[str, ...]:
    """Return the options that a suggested ``accept`` command repeats."""
    flags = {"--rule", "--set", "--kind", "--baseline-kind", "--config"}
    return command_words(*((flag, value) for flag, value in _in_order(request) if flag in flags))


def _in_order(request: CheckRequest) -> Iterator[tuple[str, object]]:
    yield "--policy", request.policy
    yield "--upstream-version", request.upstream_version
    yield "--rule", request.rules
    yield "--metric", request.metrics
    yield "--block", request.block
    yield "--allow", request.allow
    yield "--quarantine", request.quarantines
    yield "--platform", request.platforms
    yield "--set", request.axes
    yield "--kind", request.kind
    yield "--store", redact(request.store)
    yield "--baseline-kind", request.baseline_kind
    yield "--compare-anyway", request.compare_anyway
    yield "--cross-environment", request.cross_environment
    yield "--as-of", request.as_of
    yield "--config", request.config
