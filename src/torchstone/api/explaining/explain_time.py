"""Explain where the time of a case went: eager against compiled of one run, or two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from torchstone.api.case_lookup import find_cases
from torchstone.api.requests import take
from torchstone.api.value_checks import check_count
from torchstone.core.cautions import Caution
from torchstone.core.details.time_profile import TimeProfile
from torchstone.core.environments import differences, unknowns
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, Outcome, Reading
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import PASSED, Probe
from torchstone.reporting.dialects.explaining.time_json import render_time_json
from torchstone.reporting.dialects.explaining.time_markdown import render_time_markdown
from torchstone.reporting.dialects.explaining.time_text import render_overview_text, render_time_text
from torchstone.reporting.dialects.explaining.trace_file import render_trace
from torchstone.reporting.dialects.explanation import DEFAULT_TOP, STYLES
from torchstone.reporting.html.fragment import render_text_html
from torchstone.reporting.views.explaining.time_view import TimeExplanation, explain_runs, explain_sides

MOST_LISTED = 10
_MEASURE = "measure it with: torchstone run ... --probe performance --profile"
MeasureAgain = Callable[[Reading, Case], Outcome]
"""Measures a case of a run file again, with its profile."""


class TimeExplainResult(Struct, frozen=True):
    """Where the time of one or several cases went, with hints."""

    explanations: tuple[TimeExplanation, ...]
    cautions: tuple[Caution, ...] = ()
    notes: tuple[str, ...] = ()
    is_overview: bool = False

    def render(self, style: str = "text", top: int = DEFAULT_TOP) -> str:
        """Render the explanation as text, JSON, Markdown, or an HTML page with pictures."""
        check_count("--top", take("top", top, int))
        match take("style", style, str):
            case "text":
                if self.is_overview:
                    return render_overview_text(self.explanations, self.notes)
                return render_time_text(self.explanations[0], top)
            case "json":
                return render_time_json(self.explanations, self.notes)
            case "markdown":
                return render_time_markdown(self.explanations, self.notes, top)
            case "html":
                from torchstone.reporting.html.explaining.time_page import render_time_page  # noqa: PLC0415  (start-up: text needs no page)

                return render_time_page(self.explanations, self.notes)
        raise UsageError(f"{style}: no such style", advice=f"the styles are {', '.join(STYLES)} and html")

    def trace(self) -> bytes:
        """Return both calls of the one explained case as a trace (JSON) that Perfetto and chrome://tracing open."""
        if self.is_overview:
            raise UsageError("a trace is of one case", advice="name the case")
        return render_trace(self.explanations[0])

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        return render_text_html(str(self))


def time_profile_of(outcome: Outcome | None) -> TimeProfile | None:
    """Return the time profile of an outcome; None if it has none, or an empty one."""
    found = outcome.details.time_profile if outcome and outcome.details else None
    return found if found and (found.eager or found.compiled) else None


def explain_run(reading: Reading, wanted: str, measure: MeasureAgain | None) -> TimeExplainResult:
    """Explain eager against compiled of one case, or of all cases of a run that have a profile."""
    outcomes = {outcome.case: outcome for outcome in reading.run.outcomes}
    if not wanted:
        return _explain_all(reading, outcomes.values())
    case = _choose(find_cases(reading.run, wanted, reading.path), outcomes, wanted, reading.path)
    outcome = measure(reading, case) if measure else outcomes.get(case)
    profile = _require(outcome, case, reading.path, can_measure=measure is None)
    explanation = explain_sides(_of(outcome), profile, case.name, reading.path)
    return TimeExplainResult((explanation,), tuple(reading.cautions))


def _of(outcome: Outcome | None) -> Outcome:
    if outcome is None:
        raise ValueError("a profile without an outcome")
    return outcome


def explain_two_runs(base: Reading, new: Reading, wanted: str) -> TimeExplainResult:
    """Explain one case of two runs, or all cases of both that have a profile."""
    before, after = ({each.case: each for each in reading.run.outcomes} for reading in (base, new))
    files = (base.path, new.path)
    cautions = (*base.cautions, *new.cautions)
    differing = differences(new.run.environment, base.run.environment)
    notes = tuple(map(str, unknowns(new.run.environment, base.run.environment)))

    def explain_one(case: Case, label: str) -> TimeExplanation:
        profiles = tuple(
            _require(side.get(case), case, path, can_measure=False)
            for side, path in zip((before, after), files, strict=True)
        )
        pair = (before[case], after[case])
        return explain_runs(pair, (profiles[0], profiles[1]), label, files, differing)

    if wanted:
        both = [case for case in find_cases(new.run, wanted, new.path) if case in before]
        if not both:
            find_cases(base.run, wanted, base.path)  # raises an error if there is none
            raise UsageError(f"{base.path} has no outcome of {wanted} with the axes of {new.path}")
        case = _choose(both, {**after}, wanted, new.path)
        return TimeExplainResult((explain_one(case, case.name),), cautions, notes)
    shared = [case for case in after if time_profile_of(before.get(case)) and time_profile_of(after[case])]
    labels = _labels(shared)
    found = sorted((explain_one(case, labels[case]) for case in shared), key=_by_change)
    return TimeExplainResult(tuple(found), cautions, notes, is_overview=len(found) > 1)


def _explain_all(reading: Reading, outcomes: Iterable[Outcome]) -> TimeExplainResult:
    profiled = [(outcome, profile) for outcome in outcomes if (profile := time_profile_of(outcome))]
    if not profiled:
        raise UsageError(f"{reading.path}: no case has a time profile", advice=_MEASURE)
    labels = _labels([outcome.case for outcome, _ in profiled])
    found = [
        explain_sides(outcome, profile, labels[outcome.case], reading.path) for outcome, profile in profiled
    ]
    found.sort(key=_by_change)
    left = len(reading.run.plan) - len(found)
    notes = (f"{count_of(left, 'case')} without a time profile.",) if left else ()
    return TimeExplainResult(tuple(found), tuple(reading.cautions), notes, is_overview=len(found) > 1)


def _by_change(each: TimeExplanation) -> float:
    return -abs(each.comparison.busy.change)


def _labels(cases: Sequence[Case]) -> dict[Case, str]:
    names = Counter(case.name for case in cases)
    return {case: case.name if names[case.name] == 1 else case.id for case in cases}


def _choose(cases: Sequence[Case], outcomes: dict[Case, Outcome], wanted: str, path: str) -> Case:
    """Return the one case that is meant: of several, the one with a profile, else the one that is timed."""
    profiled = [case for case in cases if time_profile_of(outcomes.get(case))]
    timed = [case for case in cases if case.probe == Probe.PERFORMANCE]
    found = profiled or timed or list(cases)
    if len(found) > 1:
        error = UsageError(f"{printable(wanted)} matches {count_of(len(found), 'case')} of {path}")
        listed = [printable(case.id, 1000) for case in found[:MOST_LISTED]]
        error.advice = "\n    ".join(["choose one of:", *listed])
        raise error
    return found[0]


def _require(outcome: Outcome | None, case: Case, path: str, *, can_measure: bool) -> TimeProfile:
    """Return the profile of an outcome; raise an error that says why there is none, and how to get one."""
    profile = time_profile_of(outcome)
    advice = f"measure it again: torchstone explain {path} '{case.id}' --measure" if can_measure else _MEASURE
    if case.probe != Probe.PERFORMANCE:
        raise UsageError(
            f"{case.id} is measured by the probe {case.probe}, which takes no time profile",
            advice="name a performance case; two run files explain instruction counts",
        )
    if profile is None:
        missing = outcome is None or outcome.status == PASSED
        why = "" if missing or outcome is None else f": its status is {outcome.status}"
        raise UsageError(f"{path} has no time profile of {case.id}{why}", advice=advice)
    for side in filter(None, (profile.eager, profile.compiled)):
        if side.problem:
            raise UsageError(f"{path}: the time profile of {case.id} is empty: {side.problem}", advice=advice)
    return profile
