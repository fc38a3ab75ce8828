"""``explain``: where the time of a case went, or why two instruction counts of a case differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from torchstone.analyze.attribution import compare
from torchstone.analyze.profiles import Profile, read_profile
from torchstone.api.case_lookup import find_cases
from torchstone.api.explaining.explain_time import (
    TimeExplainResult,
    explain_run,
    explain_two_runs,
    time_profile_of,
)
from torchstone.api.explaining.profile_again import measure_profile
from torchstone.api.measuring.consent import Ask, refuse
from torchstone.api.measuring.events import EventWatcher, OnEvent, RunWatcher
from torchstone.api.requests import Source, make_request, take
from torchstone.api.sources import Input, read_input
from torchstone.api.value_checks import check_count
from torchstone.core.cautions import Caution
from torchstone.core.environments import differences, unknowns
from torchstone.core.errors import InputError, UsageError, printable
from torchstone.core.records import Case, Outcome, Reading, Run
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import PASSED, Probe
from torchstone.reporting.dialects.explanation import DEFAULT_TOP, Explanation, render_explanation
from torchstone.reporting.html.fragment import render_text_html
from torchstone.reporting.html.profile_section import Explained, profile_of, relative_change

MOST_LISTED = 10
_MEASURE = "measure both with: torchstone run ... --probe instructions --profile"


class ExplainRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One or two run files, and the case to explain; without a case, explain all cases.

    One file explains eager against compiled. With ``measure``, its case is measured again; ``trust`` executes its code without asking.
    """

    base: Input
    new: Input | None = None
    case: str = ""
    measure: bool = False
    trust: bool = False


class ExplainResult(Struct, frozen=True):
    """Differences by compiler phase, function and call stack."""

    explanation: Explanation
    cautions: tuple[Caution, ...]

    @property
    def explained(self) -> tuple[Explained, ...]:
        """One attribution for each case, largest change first."""
        return self.explanation.explained

    def render(self, style: str = "text", top: int = DEFAULT_TOP) -> str:
        """Render the explanation as text, JSON, Markdown, or an HTML page with flame graphs."""
        check_count("--top", take("top", top, int))
        return render_explanation(self.explanation, take("style", style, str), top)

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        return render_text_html(str(self))


class ProfiledSide(Struct, frozen=True):
    """One of the two run files, with the index of each case's outcome."""

    reading: Reading
    at: dict[Case, int]

    @property
    def path(self) -> str:
        """The name of the file."""
        return self.reading.path

    @property
    def run(self) -> Run:
        """The run in the file."""
        return self.reading.run

    def outcome_of(self, case: Case) -> Outcome | None:
        """Return the outcome of a case, or None."""
        return self.run.outcomes[self.at[case]] if case in self.at else None

    def profile_of(self, case: Case) -> object:
        """Return the recorded profile of a case, or None."""
        return profile_of(self.outcome_of(case))


class ProfiledSides(Struct, frozen=True):
    """The two run files."""

    base: ProfiledSide
    new: ProfiledSide

    def have_profile(self, case: Case) -> bool:
        """Return whether both have a profile of a case."""
        return all(side.profile_of(case) is not None for side in (self.base, self.new))


def explain(
    base: Source,
    new: Source | None = None,
    case: str = "",
    *,
    measure: bool = False,
    trust: bool = False,
    on_event: OnEvent | None = None,
) -> ExplainResult | TimeExplainResult:
    """Explain where the time of a case went, or why its instruction count changed, as ``torchstone explain`` does.

    The runs must have been measured with ``profile=True``; ``measure`` measures the case of one run again. One run compares
    eager with compiled. What is explained depends on the case: time if it is timed, instruction counts if it is counted.

        torchstone.explain("run.jsonl", case="mlp")
        torchstone.explain("main.jsonl", "mine.jsonl", "add_loop_eager")
    """
    given = {"base": base, "new": new, "case": case, "measure": measure, "trust": trust}
    return explain_request(make_request(ExplainRequest, given), EventWatcher(on_event))


def explain_request(
    request: ExplainRequest, watcher: RunWatcher, ask: Ask = refuse
) -> ExplainResult | TimeExplainResult:
    """Explain time or counts, as the cases have it."""
    _check(request)
    base = _read(request.base)
    if request.new is None:

        def measure_again(reading: Reading, case: Case) -> Outcome:
            return measure_profile(reading, case, watcher, trust=request.trust, ask=ask)

        return explain_run(base.reading, request.case, measure_again if request.measure else None)
    sides = ProfiledSides(base, _read(request.new))
    if _is_about_time(sides, request.case):
        return explain_two_runs(sides.base.reading, sides.new.reading, request.case)
    return _explain_counts(sides, request)


def _check(request: ExplainRequest) -> None:
    """Raise an error for options that exclude each other."""
    if request.measure and request.new is not None:
        raise UsageError(
            "--measure cannot be used with two run files",
            advice="measure both with 'torchstone run ... --profile'",
        )
    if request.measure and not request.case:
        raise UsageError("--measure requires a case", advice="name the case to measure again")
    if request.trust and not request.measure:
        raise UsageError("--trust requires --measure", advice="leave it out")


def _is_about_time(sides: ProfiledSides, wanted: str) -> bool:
    """Return whether the cases are timed, not counted: of cases with profiles, counted ones come first."""
    new = sides.new.run
    cases = find_cases(new, wanted, sides.new.path) if wanted else list(new.plan)
    if any(sides.have_profile(case) for case in cases):
        return False
    timed = [case for case in cases if case.probe == Probe.PERFORMANCE]
    if wanted:
        return len(timed) == len(cases)
    return any(
        all(time_profile_of(side.outcome_of(case)) for side in (sides.base, sides.new)) for case in timed
    )


def _explain_counts(sides: ProfiledSides, request: ExplainRequest) -> ExplainResult:
    explanation = _explain_one(sides, request.case) if request.case else _explain_all(sides)
    cautions = (caution for side in (sides.base, sides.new) for caution in side.reading.cautions)
    return ExplainResult(explanation, tuple(cautions))


def _read(given: Input) -> ProfiledSide:
    """Read a run file; no other format has profiles."""
    reading = read_input(given)
    if reading.kind != "run":
        raise InputError(
            f"expected a run file, but the format is {reading.kind}", path=reading.path, advice=_MEASURE
        )
    return ProfiledSide(
        reading, {outcome.case: number for number, outcome in enumerate(reading.run.outcomes)}
    )


def _explain_one(sides: ProfiledSides, wanted: str) -> Explanation:
    case = _find(sides, wanted)
    base, new = _profile(sides.base, case), _profile(sides.new, case)
    if trouble := _not_comparable(sides, base, new):
        advice = "measure both with the same counter, such as --counter simulated"
        raise UsageError(f"{trouble} of {case.name}", advice=advice)
    notes = []
    if (base.stacks is None) != (new.stacks is None):
        has, lacks = (sides.new, sides.base) if new.stacks else (sides.base, sides.new)
        notes.append(f"{has.path} has call stacks, {lacks.path} has none; they are not shown.")
    return _explanation(sides, [(case, Explained(case.name, "", compare(base, new)))], notes, one=True)


def _explain_all(sides: ProfiledSides) -> Explanation:
    """Explain all cases of both files; count those that cannot be explained."""
    planned = set(sides.base.run.plan)
    shared = [case for case in sides.new.run.plan if case in planned]
    if not shared:
        raise UsageError(f"{sides.base.path} and {sides.new.path} have no case in common")
    profiled = [case for case in shared if sides.have_profile(case)]
    if not profiled:
        problem = f"none of {count_of(len(shared), 'case')} has a profile in both files"
        raise UsageError(problem, advice=_MEASURE)
    names = Counter(case.name for case in profiled)
    found, notes = [], []
    for case in profiled:
        base, new = _profile(sides.base, case), _profile(sides.new, case)
        label = case.name if names[case.name] == 1 else case.id
        if trouble := _not_comparable(sides, base, new):
            notes.append(f"{printable(label)} is left out: {trouble}.")
        else:
            found.append((case, Explained(label, "", compare(base, new))))
    if left := len(shared) - len(profiled):
        more = "1 more case of both has" if left == 1 else f"{left:,} more cases of both have"
        notes.append(f"{more} no profile in both files.")
    if not found:
        raise UsageError("no case can be compared", advice=notes[0])
    found.sort(key=lambda pair: -abs(relative_change(pair[1].attribution.total)))
    return _explanation(sides, found, notes, one=False)


def _explanation(
    sides: ProfiledSides, found: Sequence[tuple[Case, Explained]], notes: Sequence[str], *, one: bool
) -> Explanation:
    differing = differences(sides.new.run.environment, sides.base.run.environment)
    notes = [*notes, *map(str, unknowns(sides.new.run.environment, sides.base.run.environment))]
    cases, explained = zip(*found, strict=True)
    return Explanation(
        sides.base.path, sides.new.path, tuple(differing), tuple(notes), tuple(cases), tuple(explained), one
    )


def _find(sides: ProfiledSides, wanted: str) -> Case:
    """Return the one case of both files that matches."""
    in_new = find_cases(sides.new.run, wanted, sides.new.path)
    in_base = set(find_cases(sides.base.run, wanted, sides.base.path))
    both = [case for case in in_new if case in in_base]
    if not both:
        other = sorted(case.id for case in in_base)[0]
        raise UsageError(f"{sides.base.path} has no case {in_new[0].id}", advice=f"it has {printable(other)}")
    profiled = [case for case in both if sides.have_profile(case)]
    if len(profiled) > 1:
        error = UsageError(f"{wanted} matches {count_of(len(profiled), 'case')} of both files")
        listed = [printable(case.id, 1000) for case in profiled[:MOST_LISTED]]
        error.advice = "\n    ".join(["choose one of:", *listed])
        raise error
    return (profiled or both)[0]


def _profile(side: ProfiledSide, case: Case) -> Profile:
    """Return the profile of a case, or raise an error that explains why there is none."""
    index = side.at.get(case)
    if index is None:
        raise UsageError(f"{side.path} has no outcome of {case.id}", advice=_MEASURE)
    outcome = side.run.outcomes[index]
    stated = profile_of(outcome)
    if stated is None:
        why = f": its status is {outcome.status}" if outcome.status not in {PASSED, ""} else ""
        raise UsageError(f"{side.path} has no profile of {case.id}{why}", advice=_MEASURE)
    return read_profile(stated, side.path, side.reading.lines[index])


def _not_comparable(sides: ProfiledSides, base: Profile, new: Profile) -> str:
    """Return why two profiles cannot be compared; empty if they can."""
    if base.counter != new.counter:
        return f"{sides.base.path} was counted by {base.counter}, {sides.new.path} by {new.counter}"
    if base.unit != new.unit:
        return f"{sides.base.path} counts {base.unit}, {sides.new.path} counts {new.unit}"
    return ""
