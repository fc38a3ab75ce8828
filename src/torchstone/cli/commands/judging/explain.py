"""``torchstone explain``: where the difference between two counts of a case came from."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from torchstone.analyze.attribution import compare
from torchstone.analyze.profiles import Profile, read_profile
from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.plain import FILE_OR_STDOUT, Option
from torchstone.cli.options.quantities import parse_count
from torchstone.cli.options.shared import patience
from torchstone.cli.terminal.explain_formats import Explanation, render
from torchstone.cli.terminal.output import write_data
from torchstone.cli.terminal.show import refuse_overwriting
from torchstone.core.disk import write_text
from torchstone.core.errors import InputError, UsageError, printable
from torchstone.core.fingerprint import differences, unknowns
from torchstone.core.records import Case, Reading, Run
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import PASSED
from torchstone.formats import read_file
from torchstone.reporting.html.profile_section import Explained, profile_of, relative_change

DEFAULT_TOP = 15
MOST_LISTED = 10
STYLES = ("text", "json", "markdown")
_BY_SUFFIX = {".json": "json", ".md": "markdown"}
_PAGE = (".html", ".htm")
_MEASURE = "measure both with: torchstone run ... --probe instructions --profile"

OPTIONS = (
    Option("--top", "top", "N", f"Show so many functions; by default {DEFAULT_TOP}. JSON has them all."),
    Option("--format", "style", "STYLE", "text, json or markdown; by default text.", choices=STYLES),
    Option(
        "--output",
        "output",
        "FILE",
        "Write it there too: .html is a page with flame graphs, .json and .md are what they say.",
        short="-o",
        writes=FILE_OR_STDOUT,
    ),
)


class Side(Struct, frozen=True):
    """One of the two run files, and where in it each case has its outcome."""

    reading: Reading
    at: dict[Case, int]

    @property
    def path(self) -> str:
        """The file's name."""
        return self.reading.path

    @property
    def run(self) -> Run:
        """What is in it."""
        return self.reading.run

    def profile_of(self, case: Case) -> object:
        """What it states as the profile of a case; None where it has none."""
        return profile_of(self.run.outcomes[self.at[case]]) if case in self.at else None


class Sides(Struct, frozen=True):
    """The two run files."""

    base: Side
    new: Side

    def have_profile(self, case: Case) -> bool:
        """Whether both have a profile of a case."""
        return all(side.profile_of(case) is not None for side in (self.base, self.new))


def explain(arguments: tuple[str, ...], *, top: str | None, style: str | None, output: str | None) -> int:
    """Say where the difference between the counts of a CASE came from.

    BASE and NEW are run files, both measured with --probe instructions
    --profile. CASE is a name, an id or a shell pattern that means one case of
    both. Shown are the phases of the compiler, the functions that changed most,
    and the call stacks that lead to the change. Without CASE, all cases are
    listed, the largest change first.

    \b
    Examples:
      torchstone explain main.jsonl mine.jsonl add_loop_eager
      torchstone explain main.jsonl mine.jsonl add_loop_eager -o why.html
      torchstone explain main.jsonl mine.jsonl
    """
    if len(arguments) not in {2, 3}:
        problem = "expected two run files, and a case or none"
        raise UsageError(problem, advice="see 'torchstone explain --help'")
    paths, wanted = arguments[:2], arguments[2:]
    path = output if output != "-" else None
    written = _style_of(path, style)
    most = parse_count("--top", top) or DEFAULT_TOP
    refuse_overwriting([path] if path else [], paths)
    with patience("reading the two run files"):
        sides = Sides(*(_read(each) for each in paths))
        explanation = _explain_one(sides, wanted[0]) if wanted else _explain_all(sides)
        if path:
            write_text(path, render(explanation, written, most))
    for side in (sides.base, sides.new):
        for caution in side.reading.cautions:
            sys.stderr.write(f"caution: {printable(caution.text, 2000)}\n")
    printed = "text" if path else written
    write = sys.stdout.write if printed == "text" else write_data
    write(render(explanation, printed, most, terminal=sys.stdout.isatty()))
    if path:
        print(f"\nwrote {printable(path)}")
    return 0


def _style_of(path: str | None, style: str | None) -> str:
    """What to write: as asked for, else as the file's name says."""
    suffix = os.path.splitext(path or "")[1].lower()
    if suffix not in _PAGE:
        return style or _BY_SUFFIX.get(suffix, "text")
    if style:
        raise UsageError(f"{path} is a page, and --format {style} is none", advice="leave out one of the two")
    return "html"


def _read(path: str) -> Side:
    """A run file: no other kind has profiles."""
    reading = read_file(path, "")
    if reading.kind != "run":
        raise InputError(f"a file of kind {reading.kind}, expected a run file", path=path, advice=_MEASURE)
    return Side(reading, {outcome.case: number for number, outcome in enumerate(reading.run.outcomes)})


def _explain_one(sides: Sides, wanted: str) -> Explanation:
    case = _find(sides, wanted)
    base, new = _profile(sides.base, case), _profile(sides.new, case)
    if trouble := _not_comparable(sides, base, new):
        advice = "two counters cannot be compared: measure both with one, such as --counter simulated"
        raise UsageError(f"{trouble} of {case.name}", advice=advice)
    notes = []
    if (base.stacks is None) != (new.stacks is None):
        has, lacks = (sides.new, sides.base) if new.stacks else (sides.base, sides.new)
        notes.append(f"{has.path} has call stacks, {lacks.path} has none: they are not shown.")
    return _explanation(sides, [(case, Explained(case.name, "", compare(base, new)))], notes, one=True)


def _explain_all(sides: Sides) -> Explanation:
    """All cases of both that can be explained; the others are counted."""
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
    sides: Sides, found: Sequence[tuple[Case, Explained]], notes: Sequence[str], *, one: bool
) -> Explanation:
    differing = differences(sides.new.run.environment, sides.base.run.environment)
    hidden = unknowns(sides.new.run.environment, sides.base.run.environment)
    notes = [*notes, *(caution.text for caution in hidden)]
    cases, explained = zip(*found, strict=True)
    return Explanation(
        sides.base.path, sides.new.path, tuple(differing), tuple(notes), tuple(cases), tuple(explained), one
    )


def _find(sides: Sides, wanted: str) -> Case:
    """The one case of both files that is meant."""
    from torchstone.cli.commands.measuring.repro import find_cases  # noqa: PLC0415  (brings all of measuring along)

    in_new = find_cases(sides.new.run, wanted, sides.new.path)
    in_base = set(find_cases(sides.base.run, wanted, sides.base.path))
    both = [case for case in in_new if case in in_base]
    if not both:
        other = sorted(case.id for case in in_base)[0]
        raise UsageError(f"{sides.base.path} has no case {in_new[0].id}", advice=f"it has {printable(other)}")
    profiled = [case for case in both if sides.have_profile(case)]
    if len(profiled) > 1:
        error = UsageError(f"{wanted} means {count_of(len(profiled), 'case')} of both files")
        listed = [printable(case.id, 1000) for case in profiled[:MOST_LISTED]]
        error.advice = "\n    ".join(["say which:", *listed])
        raise error
    return (profiled or both)[0]


def _profile(side: Side, case: Case) -> Profile:
    """The profile of a case, or an error that says why there is none."""
    index = side.at.get(case)
    if index is None:
        raise UsageError(f"{side.path} has no outcome of {case.id}", advice=_MEASURE)
    outcome = side.run.outcomes[index]
    stated = profile_of(outcome)
    if stated is None:
        why = f": it ended as {outcome.status}" if outcome.status not in {PASSED, ""} else ""
        raise UsageError(f"{side.path} has no profile of {case.id}{why}", advice=_MEASURE)
    return read_profile(stated, side.path, side.reading.lines[index])


def _not_comparable(sides: Sides, base: Profile, new: Profile) -> str:
    """Why the two cannot be compared; empty where they can."""
    if base.counter != new.counter:
        return f"{sides.base.path} has a count by {base.counter}, {sides.new.path} one by {new.counter}"
    if base.unit != new.unit:
        return f"{sides.base.path} counts {base.unit}, {sides.new.path} counts {new.unit}"
    return ""


explain_command = make_command("explain", explain, OPTIONS, "BASE NEW [CASE]", required=True)
