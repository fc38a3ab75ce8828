"""Convert a run to another format, and report what that format cannot hold.

Losses are found by reading back the written file and comparing it with the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct, structs

from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.environments import differences
from torchstone.core.errors import InputError, UsageError, printable
from torchstone.core.records import AXES, Case, Outcome, Reading, Revision, Run
from torchstone.core.run_settings import NO_ENVIRONMENT, Settings
from torchstone.core.text.safe_text import quote_word
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Probe
from torchstone.formats import FORMATS, SUMMARY, TABLES, summary_csv
from torchstone.formats.table import defuse


class Conversion(Struct, frozen=True):
    """A run as text in another format.

    ``losses`` lists data of the measurement that the format cannot hold, ``omitted`` what only describes it, such as
    logs and repro commands. ``cases`` is the number of cases written.
    """

    text: str
    losses: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    cases: int = 0


def convert(run: Run, kind: str, *, raw_cells: bool = False) -> Conversion:
    """Convert a run to another format.

    Cells that a spreadsheet would execute are escaped, unless ``raw_cells`` is set.
    """
    if kind == SUMMARY:
        text = summary_csv.write(run)
        return Conversion(text if raw_cells else defuse(text), cases=len(run.plan))
    text = FORMATS[kind].write(run)
    if kind in TABLES and not raw_cells:
        text = defuse(text)
    if kind in set(Probe) and not any(outcome.case.probe == kind for outcome in run.outcomes):
        probes = ", ".join(sorted({outcome.case.probe for outcome in run.outcomes}))
        raise UsageError(
            f"there is nothing about {kind} in these results", advice=f"they are about: {probes or 'nothing'}"
        )
    if not text:
        raise UsageError(
            f"none of these results can be written as {kind}",
            advice="see docs/formats.md for what a format holds",
        )
    back = _read_back(run, kind, text)
    found = dict.fromkeys(_losses(run, back))
    losses = tuple(loss for loss in found if not isinstance(loss, _Aside))
    omitted = tuple(str(loss) for loss in found if isinstance(loss, _Aside))
    return Conversion(text, losses, omitted, len(back.outcomes))


def _read_back(run: Run, kind: str, text: str) -> Run:
    """Read the written file; raise UsageError if that fails, or if cases have become one."""
    try:
        back = FORMATS[kind].read(f"(as {kind})", text).run
    except InputError as error:
        column = f"column {error.column}: " if error.column else ""
        raise UsageError(
            f"these results cannot be written as {kind}: {column}{error.message}",
            advice=_one_probe(run) or "see docs/formats.md for what a format holds",
        ) from None
    for case, times in Counter(outcome.case for outcome in back.outcomes).most_common(1):
        if times > 1:
            raise UsageError(
                f"as {kind}, {printable(case.name)} would occur {times} times",
                advice=f"the format cannot tell these cases apart: {_one_probe(run) or 'choose some with --only'}",
            )
    return back


class _Aside(str):
    """A loss that is no data of the measurement."""

    __slots__ = ()


def _one_probe(run: Run) -> str:
    """Return advice for a run with several probes, whose metrics may share names in other formats."""
    probes = list(dict.fromkeys(outcome.case.probe for outcome in run.outcomes if outcome.case.probe))
    return f"write one probe at a time, such as --only '*::{probes[0]}'" if len(probes) > 1 else ""


def _losses(run: Run, back: Run) -> Iterator[str]:
    """Yield what the run states and the copy does not. Every format keeps the order of outcomes."""
    if run.revision not in (Revision(), back.revision):
        held = back.revision.commit and back.revision.commit == run.revision.commit
        yield _Aside("revision") if held else "revision"
    if run.environment not in (NO_ENVIRONMENT, back.environment):
        held = back.environment.is_stated and not differences(run.environment, back.environment)
        yield _Aside("environment") if held else "environment"
    if run.settings not in (Settings(), back.settings):
        yield _Aside("settings") if run.settings.sources else "settings"
    if run.controls and not back.controls:
        yield _Aside("control cases")
    if back.finished and not run.finished:
        yield "that the run did not finish"
    if (unmeasured := len(run.plan) - len(run.outcomes)) and back.plan != run.plan:
        yield f"{count_of(unmeasured, 'planned case')} without an outcome"
    kept = _pairs(run, back)
    if unwritten := [printable(outcome.case.name) for outcome, copy in kept if copy is None]:
        names = ", ".join(unwritten[:3]) + (", ..." if len(unwritten) > 3 else "")
        yield f"{count_of(len(unwritten), 'case')} ({names})"
    for outcome, copy in kept:
        if copy is not None:
            yield from _case_losses(outcome.case, copy.case)
            yield from _outcome_losses(outcome, copy)


def _pairs(run: Run, back: Run) -> list[tuple[Outcome, Outcome | None]]:
    """Pair each outcome with its copy: by position if the order is the same, else by name, dtype, round and probe."""
    if len(run.outcomes) == len(back.outcomes):
        pairs = list(zip(run.outcomes, back.outcomes, strict=True))
        if all(_keys(copy)[0] in _keys(outcome) for outcome, copy in pairs):
            return [*pairs]
    copies = {_keys(copy)[0]: copy for copy in back.outcomes}
    probes = {"", *(copy.case.probe for copy in back.outcomes)}
    return [
        (
            o,
            next((copies[key] for key in _keys(o) if key in copies), None)
            if o.case.probe in probes
            else None,
        )
        for o in run.outcomes
    ]


def _keys(outcome: Outcome) -> tuple[tuple[str, ...], ...]:
    """Return the keys to find a copy by, from the full key to one without axes that a format may omit."""
    case, axes = outcome.case, dict(outcome.case.variant.further)
    of_round = axes.get("ranks", ""), axes.get("strategy", "")
    return tuple(
        (case.benchmark, dtype, *axes_of_round)
        for axes_of_round in (of_round, ("", ""))
        for dtype in (case.variant.dtype, "")
    )


def _case_losses(case: Case, copy: Case) -> Iterator[str]:
    if case.suite and case.suite != copy.suite:
        yield "suite"
    for axis in AXES:
        if getattr(case.variant, axis) not in ("", None, getattr(copy.variant, axis)):
            yield axis
    for axis, value in case.variant.further:
        if (axis, value) not in copy.variant.further:
            yield axis
    if case.probe not in {"", copy.probe}:
        yield f"the probe ({case.probe})"


def _outcome_losses(outcome: Outcome, copy: Outcome) -> Iterator[str]:
    if outcome.status not in {"", copy.status}:
        yield f"the status {outcome.status}"
    for field in ("failure", "repro", "cautions", "provenance", "capture"):
        if (value := getattr(outcome, field)) and value != getattr(copy, field):
            yield _Aside(field)
    yield from _fact_losses(outcome.facts(), copy.facts(), _DESCRIPTIONS)
    copies = {measurement.metric: measurement for measurement in copy.measurements}
    for measurement in outcome.measurements:
        found = copies.get(measurement.metric)
        if found is None:
            yield f"the metric {measurement.metric}"
            continue
        if found.samples != measurement.samples:
            yield (
                f"samples of {measurement.metric}"
                if len(found.samples) < len(measurement.samples)
                else f"values of {measurement.metric}"
            )
        yield from _fact_losses(measurement.facts(), found.facts(), _DERIVED)


_DESCRIPTIONS = frozenset(OutcomeDetails.__struct_fields__)
_DERIVED = frozenset({"block", "stopped", "repeats", "interval", "confidence", "method", "ranks", "mixed"})
"""Details of a measurement that no comparison uses: they describe how samples were taken, or follow from them."""


def _fact_losses(
    facts: Mapping[str, object], copy: Mapping[str, object], asides: Collection[str]
) -> Iterator[str]:
    for key, value in facts.items():
        if copy.get(key) != value:
            is_aside = key in asides or (key == "pairs" and isinstance(value, int))
            loss = "v3 fields" if key.startswith("v3") else printable(key)
            yield _Aside(loss) if is_aside else loss


def merge_runs(readings: list[Reading], *, with_repro: bool) -> Run:
    """Merge several files into one run; metadata such as the revision must agree.

    ``with_repro`` adds each case's repro command where the file name implies one.
    """
    first = readings[0].run
    for reading in readings[1:]:
        for field in ("revision", "environment", "settings"):
            if getattr(reading.run, field) != getattr(first, field):
                raise UsageError(
                    f"{readings[0].path} and {reading.path} differ in their {field}",
                    advice="import them one by one",
                )
    plan = tuple(dict.fromkeys(case for reading in readings for case in reading.run.plan))
    outcomes = tuple(
        _with_repro(outcome, reading) if with_repro else outcome
        for reading in readings
        for outcome in reading.run.outcomes
    )
    finished = all(reading.run.finished for reading in readings)
    controls = tuple(control for reading in readings for control in reading.run.controls)
    return structs.replace(first, plan=plan, outcomes=outcomes, finished=finished, controls=controls)


def _with_repro(outcome: Outcome, reading: Reading) -> Outcome:
    """Add the repro command to an outcome."""
    if outcome.repro or not reading.repro:
        return outcome
    return structs.replace(outcome, repro=reading.repro.replace("{name}", quote_word(outcome.case.benchmark)))
