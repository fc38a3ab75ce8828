"""The request of ``accept``, and the files it names as read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypedDict

from msgspec import Struct, structs

from torchstone.api.requests import Path, Paths, Texts
from torchstone.api.sources import Axes, Input, read_inputs, require_given
from torchstone.baselines.propose import new_baseline
from torchstone.baselines.row_changes import AdoptionOptions
from torchstone.core.config import load_config, parse_rule
from torchstone.core.disk import read_text
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Reading
from torchstone.formats import FORMATS, recognise, require_known
from torchstone.formats.merge import merge, require_results
from torchstone.gate.baseline import names_history, require_common_probe
from torchstone.gate.rules import RuleBook

_HOLDING_MARGINS = ("pr-time-expected", "run")


class AcceptRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Results to adopt, the baseline to update, and how. ``past`` are earlier runs to learn margins from."""

    results: tuple[Input, ...] = ()
    baseline: str = ""
    only: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    add_new: bool = False
    prune: bool = False
    include_unstable: bool = False
    repeat: int | None = None
    past: tuple[str, ...] = ()
    false_alarms: float | None = None
    trust: bool = False
    rules: tuple[str, ...] = ()
    axes: Axes = ()
    kind: str = ""
    baseline_kind: str = ""
    config: str | None = None


class AcceptOptions(TypedDict, total=False):
    """Options of ``accept``, explained in docs/baselines.md."""

    only: Texts
    metrics: Texts
    add_new: bool
    prune: bool
    include_unstable: bool
    repeat: int
    past: Paths
    false_alarms: float
    trust: bool
    rules: Texts
    axes: Mapping[str, object]
    kind: str
    baseline_kind: str
    config: Path


class Adoption(Struct, frozen=True):
    """A request with its results, baseline and rules as read."""

    request: AcceptRequest
    readings: list[Reading]
    baseline: Reading
    text: str
    rules: RuleBook
    options: AdoptionOptions


def resolve_baseline(request: AcceptRequest) -> AcceptRequest:
    """Return the request with the configured baseline if it names none. Raise an error for contradictory options."""
    configured = load_config(request.config).baselines
    path = request.baseline or (configured[0] if len(configured) == 1 else "")
    if not path:
        raise UsageError("no baseline given", advice="name the file to update: --baseline FILE")
    require_given(request.results, "torchstone accept results.csv --baseline expected.csv")
    if request.repeat is not None and request.past:
        raise UsageError(
            "--repeat cannot be used with --learn-margins: both find margins", advice="choose one of them"
        )
    if request.trust and request.repeat is None:
        raise UsageError("--trust requires --repeat", advice="leave it out")
    if names_history(path):
        raise UsageError(
            f"--baseline {path}: a level of the store is no file that could be updated",
            advice='accept its change instead: torchstone triage set GROUP expected --reason "..."',
        )
    return structs.replace(request, baseline=path)


def read_adoption(request: AcceptRequest) -> Adoption:
    """Read results and baseline."""
    readings = read_inputs(request.results, request.kind, request.axes)
    require_results(readings, request.kind)
    for reading in readings:
        merge([reading])  # raises an error if the file has a case twice
    options = AdoptionOptions(
        request.only,
        request.metrics,
        request.prune,
        request.add_new,
        request.include_unstable,
        request.repeat is not None,
    )
    baseline, text = _read_baseline(request, readings, options)
    require_common_probe(readings, [baseline])
    rules = (*load_config(request.config).rules, *map(parse_rule, request.rules))
    return Adoption(request, readings, baseline, text, RuleBook(rules), options)


def _read_baseline(
    request: AcceptRequest, readings: Sequence[Reading], options: AdoptionOptions
) -> tuple[Reading, str]:
    path, kind = request.baseline, request.baseline_kind
    require_known(kind)
    if not os.path.exists(path):
        if not options.add_new:
            raise InputError("no such file", path=path, advice="to start a new baseline, add --add-new")
        fresh = new_baseline(path, readings, options.only)
        return Reading(path, kind or fresh.kind, fresh.run, ()), ""
    text = read_text(path)
    return FORMATS[kind or recognise(path, text)].read(path, text), text


def require_place_for_margins(baseline: Reading, option: str) -> None:
    """Raise an error if the format of the baseline cannot hold margins."""
    if baseline.kind not in _HOLDING_MARGINS:
        raise UsageError(
            f"{baseline.path}: the format {baseline.kind} cannot hold the margins that {option} finds",
            advice=f"use a baseline in the format {' or '.join(_HOLDING_MARGINS)}",
        )
