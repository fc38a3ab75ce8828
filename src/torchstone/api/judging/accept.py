"""``accept``: what adopting results would change in a baseline, and writing it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct, structs

from torchstone.api.requests import Path, Sources, Texts, make_request
from torchstone.api.showing import show_html, show_text
from torchstone.api.sources import Axes, Input, read_inputs
from torchstone.baselines.adopt import AdoptionOptions
from torchstone.baselines.propose import Proposal, find_repeatable, new_baseline, propose
from torchstone.baselines.text_edits import Change
from torchstone.core.cautions import Caution, merged
from torchstone.core.config import load_config, parse_rule
from torchstone.core.disk import read_text, replace_text
from torchstone.core.errors import InputError, UsageError
from torchstone.core.fingerprint import unknowns
from torchstone.core.records import Reading
from torchstone.formats import FORMATS, recognise
from torchstone.formats.merge import merge, require_results
from torchstone.gate.baseline import require_common_probe
from torchstone.gate.rules import RuleBook
from torchstone.reporting.views.proposal_rows import tabulate_proposal
from torchstone.reporting.views.result_table import ResultTable

if TYPE_CHECKING:
    from typing import Unpack

    from torchstone.api.measuring.consent import Ask
    from torchstone.api.measuring.events import OnEvent, RunWatcher

_HOLDING_MARGINS = ("pr-time-expected", "run")


class AcceptRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which results to adopt, into which baseline, and how. ``past`` are earlier runs to learn margins from."""

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
    """What ``accept`` takes besides results and baseline; docs/baselines.md explains each."""

    only: Texts
    metrics: Texts
    add_new: bool
    prune: bool
    include_unstable: bool
    repeat: int
    past: Texts
    false_alarms: float
    trust: bool
    rules: Texts
    axes: Mapping[str, object]
    kind: str
    baseline_kind: str
    config: Path


class AcceptResult(Struct, frozen=True):
    """A proposal: what would change in a baseline. Nothing is written until ``write`` is called."""

    path: str
    kind: str
    old_text: str
    proposal: Proposal
    cautions: tuple[Caution, ...]

    @property
    def changes(self) -> list[Change]:
        """A change for each row that was looked at, with what was held back."""
        return self.proposal.changes

    @property
    def adopted(self) -> list[Change]:
        """The changes that ``write`` would make."""
        return self.proposal.adopted

    @property
    def text(self) -> str:
        """The new text of the baseline."""
        return self.proposal.text

    @property
    def table(self) -> ResultTable:
        """The changes as a table."""
        return tabulate_proposal(self.proposal, self.path)

    def diff(self) -> str:
        """The change of the text, as a unified diff."""
        old, new = self.old_text.splitlines(), self.text.splitlines()
        return "\n".join(difflib.unified_diff(old, new, self.path, self.path, lineterm=""))

    def validate(self) -> None:
        """Make sure that the new text can be read; otherwise raise an ``InputError``."""
        if self.adopted:
            FORMATS[self.kind].read(self.path, self.text)

    def write(self) -> bool:
        """Replace the baseline, unless it has changed since it was read; whether there was anything to write."""
        if not self.adopted:
            return False
        self.validate()
        replace_text(self.path, self.old_text, self.text)
        return True

    def __str__(self) -> str:
        return show_text(_with_cautions(self))

    def _repr_html_(self) -> str:
        return show_html(_with_cautions(self))


def _with_cautions(result: AcceptResult) -> ResultTable:
    table = result.table
    return structs.replace(table, notes=(*table.notes, *(f"caution: {each}" for each in result.cautions)))


class Adoption(Struct, frozen=True):
    """Results and baseline as read, and the options for adopting them."""

    request: AcceptRequest
    readings: list[Reading]
    baseline: Reading
    text: str
    rules: RuleBook
    options: AdoptionOptions


def accept(
    results: Sources,
    baseline: Path,
    *,
    on_event: OnEvent | None = None,
    **options: Unpack[AcceptOptions],
) -> AcceptResult:
    """Propose to make results the new baseline, as ``torchstone accept`` does. Nothing is written yet.

        proposal = torchstone.accept("results.csv", "expected.csv")
        print(proposal.diff())
        proposal.write()

    With ``repeat``, counted cases are measured again first; ``on_event`` is told how that goes.
    """
    from torchstone.api.measuring.consent import refuse  # noqa: PLC0415  (start-up: brings all of measuring along)
    from torchstone.api.measuring.events import EventWatcher  # noqa: PLC0415  (start-up: most accept what is there)

    request = make_request(AcceptRequest, {"results": results, "baseline": baseline, **options})
    adoption = read_adoption(resolve_baseline(request))
    repeats = measure_repeats(adoption, EventWatcher(on_event), refuse)
    return propose_adoption(adoption, repeats)


def resolve_baseline(request: AcceptRequest) -> AcceptRequest:
    """The request with the baseline that the configuration names, where it names none; what cannot be meant is refused."""
    configured = load_config(request.config).baselines
    path = request.baseline or (configured[0] if len(configured) == 1 else "")
    if not path:
        raise UsageError("no baseline given", advice="say which file to update: --baseline FILE")
    if not request.results:
        raise UsageError(
            "no results given", advice="for example: torchstone accept results.csv --baseline expected.csv"
        )
    if request.repeat is not None and request.past:
        raise UsageError("--repeat and --learn-margins both find margins", advice="choose one of them")
    if request.trust and request.repeat is None:
        raise UsageError("--trust requires --repeat", advice="leave it out")
    return structs.replace(request, baseline=path)


def read_adoption(request: AcceptRequest) -> Adoption:
    """Read results and baseline."""
    readings = read_inputs(request.results, request.kind, request.axes)
    require_results(readings, request.kind)
    for reading in readings:
        merge([reading])  # no file may have a case twice
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
    if not os.path.exists(path):
        if not options.add_new:
            raise InputError("no such file", path=path, advice="to start a new baseline, add --add-new")
        fresh = new_baseline(path, readings, options.only)
        return Reading(path, kind or fresh.kind, fresh.run, ()), ""
    text = read_text(path)
    return FORMATS[kind or recognise(path, text)].read(path, text), text


def measure_repeats(adoption: Adoption, watcher: RunWatcher, ask: Ask) -> list[Reading]:
    """The repeats that were asked for, if any. Everything that stands in the way is said before anything is measured."""
    request, readings = adoption.request, adoption.readings
    if request.repeat is None:
        return []
    from torchstone.api.measuring.repeats import check_repeats, measure_again  # noqa: PLC0415  (start-up: most accept what is there)

    check_repeats(request.repeat)
    if len(readings) != 1 or readings[0].kind != "run":
        raise UsageError(
            "--repeat needs one run file, which says how to measure its cases again",
            advice="give the file that 'torchstone run' has written, or several files without --repeat",
        )
    if request.axes:
        raise UsageError("--set cannot be used with --repeat, which measures the cases as they are")
    _require_place_for_margins(adoption.baseline, "--repeat")
    cases = find_repeatable(adoption.baseline, readings[0], adoption.options)
    if not cases:
        raise UsageError(
            "--repeat: there is nothing to measure again: no case to be accepted has a count",
            advice="look at --only and --add-new, and at what 'torchstone run --probe instructions' has measured",
        )
    return measure_again(readings[0], cases, request.repeat, watcher, trust=request.trust, ask=ask)


def propose_adoption(adoption: Adoption, repeats: Sequence[Reading] = ()) -> AcceptResult:
    """What adopting the results, and their repeats, would change."""
    baseline, readings = adoption.baseline, adoption.readings
    options, warned = _learn(adoption)
    proposal = propose(baseline, adoption.text, [*readings, *repeats], adoption.rules, options)
    unknown = (
        caution for each in readings for caution in unknowns(each.run.environment, baseline.run.environment)
    )
    own = (caution for reading in (*readings, baseline) for caution in reading.cautions)
    cautions = (*own, *merged(unknown), *warned)
    return AcceptResult(baseline.path, baseline.kind, adoption.text, proposal, cautions)


def _learn(adoption: Adoption) -> tuple[AdoptionOptions, list[Caution]]:
    """Return the options with the past runs to learn margins from, and cautions about these runs."""
    request, options = adoption.request, adoption.options
    if not request.past:
        if request.false_alarms is not None:
            raise UsageError("--false-alarms is for --learn-margins", advice="name past runs to learn from")
        return options, []
    from torchstone.api.judging.past_runs import check_false_alarms, learn_from, read_past  # noqa: PLC0415  (start-up: most learn nothing)

    rate = check_false_alarms(request.false_alarms)
    baseline, readings = adoption.baseline, adoption.readings
    _require_place_for_margins(baseline, "--learn-margins")
    past = read_past("--learn-margins", request.past, readings, [baseline.path], request.kind, request.axes)
    measured = learn_from(past, readings, baseline, options, rate)
    return structs.replace(options, past=measured), [*past.cautions, *past.tell_apart()]


def _require_place_for_margins(baseline: Reading, option: str) -> None:
    """Refuse a kind of baseline that has no place for a margin."""
    if baseline.kind not in _HOLDING_MARGINS:
        raise UsageError(
            f"{baseline.path}: a file of the kind {baseline.kind} cannot hold the margins that {option} finds",
            advice=f"use a baseline of the kind {' or '.join(_HOLDING_MARGINS)}",
        )
