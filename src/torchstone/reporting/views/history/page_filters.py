"""The filters of a page: parsed from its address, matched against cases, and written back into addresses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct, structs

from torchstone.core.records import Case
from torchstone.core.text.suggestions import did_you_mean
from torchstone.store.browsing.run_pages import FilterCount

MOST_ROWS = 300
"""The most rows of a page."""
ALL = "*"
"""As a branch: the runs of all branches."""
_LONGEST = 300
_DAY = re.compile(r"20\d\d-[01]\d-[0-3]\d\Z")
_EXPENSIVE = re.compile(r"[*+}]\??\)+[*+{]")


class PageFilters(Struct, frozen=True, omit_defaults=True):
    """What a page was asked to show.

    ``case`` has names or patterns, separated by spaces; ``-`` before one excludes what it matches, and ``/.../`` is a regular expression. The axes
    have values separated by commas; ``-`` excludes. An empty ``branch`` is the main one, ``*`` all.
    """

    case: str = ""
    suite: str = ""
    device: str = ""
    mode: str = ""
    backend: str = ""
    dtype: str = ""
    probe: str = ""
    machine: str = ""
    status: str = ""
    state: str = ""
    direction: str = ""
    cause: str = ""
    branch: str = ""
    text: str = ""
    since: str = ""
    metric: str = ""
    second: str = ""
    series: str = ""
    by: str = ""
    a: str = ""
    b: str = ""
    all: str = ""
    anyway: str = ""
    page: int = 1

    def to_query(self, **changed: str | int) -> str:
        """Return the query of an address with these filters, some of them changed; going to another filter returns to page 1."""
        new = structs.replace(self, **{"page": 1, **changed})
        pairs = [(name, getattr(new, name)) for name in self.__struct_fields__]
        return "&".join(
            f"{name}={_quote(str(value))}" for name, value in pairs if value and (name, value) != ("page", 1)
        )


class FilterField(Struct, frozen=True):
    """A field of the filter bar: its present value, and what can be chosen, with counts. Without options it is free text."""

    name: str
    label: str
    value: str
    options: tuple[FilterCount, ...] = ()
    is_free: bool = False
    hint: str = ""


class FilterBar(Struct, frozen=True):
    """The filter bar: fields, what is wrong with the address, and how many rows match of how many there are."""

    fields: tuple[FilterField, ...]
    problems: tuple[str, ...] = ()
    matching: int = 0
    total: int = 0
    noun: str = "row"
    hidden: tuple[tuple[str, str], ...] = ()


AXES: dict[str, Callable[[Case], str]] = {
    "suite": lambda case: case.suite,
    "device": lambda case: case.variant.device,
    "mode": lambda case: case.variant.mode,
    "backend": lambda case: case.variant.backend,
    "dtype": lambda case: case.variant.dtype,
    "probe": lambda case: case.probe,
}


def _quote(text: str) -> str:
    """Return a value for an address, as readable as it can be."""
    return re.sub(
        r"[^\w*/,.:@~-]",
        lambda found: "".join(f"%{each:02X}" for each in _bytes(found[0])),
        text,
        flags=re.ASCII,
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def parse_filters(
    pairs: Iterable[tuple[str, str]], known: Sequence[str]
) -> tuple[PageFilters, tuple[str, ...]]:
    """Return the filters of an address, and what is wrong with it. ``known`` are the filters of the page."""
    given: dict[str, str | int] = {}
    problems: list[str] = []
    for name, value in pairs:
        text = value.strip()
        if name not in known:
            advice = did_you_mean(name, known) or f"this page knows {', '.join(known)}. "
            problems.append(f"No such filter: {name[:60]}. {advice.strip().capitalize()}")
        elif len(text) > _LONGEST:
            problems.append(f"{name}: longer than {_LONGEST} characters, ignored.")
        elif name == "page":
            if text.isascii() and text.isdecimal() and 0 < int(text) < 10**6:
                given[name] = int(text)
            else:
                problems.append(f"page={text[:20]}: expected a number from 1.")
        elif problem := _problem_of(name, text):
            problems.append(problem)
        else:
            given[name] = text
    return PageFilters(**given), tuple(problems)  # type: ignore[arg-type]  # page is the only number


def _problem_of(name: str, text: str) -> str:
    if name == "since" and text and not _DAY.match(text):
        return f"since={text[:40]}: expected a day such as 2026-12-31."
    if name == "case":
        for term in _terms(text):
            word = term.removeprefix("-")
            if _is_expression(word) and (problem := _problem_of_expression(word[1:-1])):
                return f"{word[:80]}: {problem}"
    return ""


def _problem_of_expression(text: str) -> str:
    if _EXPENSIVE.search(text):
        return "a repetition inside a repetition may take for ever; write it with one."
    try:
        re.compile(text)
    except re.error as error:
        return f"no regular expression: {error}."
    return ""


def _terms(text: str) -> list[str]:
    return text.split()


def _is_expression(word: str) -> bool:
    return len(word) > 2 and word[0] == word[-1] == "/"


def name_filter(text: str) -> Callable[[str], bool]:
    """Return whether a name matches: any of the terms, if there are any, and none of the excluded ones.

    >>> matches = name_filter("bert* -/large$/")
    >>> matches("BertForMaskedLM"), matches("bert_large"), matches("gpt2")
    (True, False, False)
    """
    wanted = [_matcher(term) for term in _terms(text) if not term.startswith("-")]
    unwanted = [_matcher(term[1:]) for term in _terms(text) if term.startswith("-") and len(term) > 1]

    def matches(name: str) -> bool:
        short = name[:_LONGEST]
        return (not wanted or any(each(short) for each in wanted)) and not any(
            each(short) for each in unwanted
        )

    return matches


def _matcher(word: str) -> Callable[[str], bool]:
    if _is_expression(word):
        found = re.compile(word[1:-1], re.IGNORECASE)
        return lambda name: found.search(name) is not None
    lowered = word.lower()
    if any(character in word for character in "*?["):
        return lambda name: fnmatchcase(name.lower(), lowered)
    return lambda name: lowered in name.lower()


def value_filter(text: str) -> Callable[[str], bool]:
    """Return whether a value is chosen: ``a,b`` are these two, ``-a`` all but one.

    >>> value_filter("cuda,cpu")("cpu"), value_filter("-cuda")("cpu"), value_filter("")("cpu")
    (True, True, True)
    """
    words = [word for word in text.split(",") if word]
    wanted = {_stated(word) for word in words if not word.startswith("-")}
    unwanted = {_stated(word[1:]) for word in words if word.startswith("-")}
    return lambda value: (not wanted or value in wanted) and value not in unwanted


def _stated(word: str) -> str:
    return "" if word == NOT_STATED else word


NOT_STATED = "(none)"
"""How an empty value is written in an address."""


def case_filter(filters: PageFilters) -> Callable[[Case], bool]:
    """Return whether a case is chosen, by its name and axes."""
    by_name = name_filter(filters.case)
    by_axis = [
        (axis, value_filter(getattr(filters, name))) for name, axis in AXES.items() if getattr(filters, name)
    ]
    return lambda case: (
        all(chosen(axis(case)) for axis, chosen in by_axis)
        and (not filters.case or by_name(case.benchmark) or by_name(case.id))
    )


def axis_fields(filters: PageFilters, cases: Sequence[Case]) -> list[FilterField]:
    """Return the fields of all axes that have more than one value, counted among the cases that the other filters choose."""
    fields = []
    for name, axis in AXES.items():
        others = case_filter(structs.replace(filters, **{name: ""}))
        everything = {axis(case) for case in cases}
        if len(everything) > 1 or getattr(filters, name):
            counts = Counter(axis(case) for case in cases if others(case))
            fields.append(choice_field(name, filters, counts))
    return fields


def choice_field(name: str, filters: PageFilters, counts: Counter[str]) -> FilterField:
    """Return a field with a choice of values, most frequent first."""
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    options = tuple(FilterCount(value or NOT_STATED, count) for value, count in ordered[:MOST_ROWS])
    return FilterField(name, name, getattr(filters, name), options)


def find_unknown_values(fields: Iterable[FilterField]) -> list[str]:
    """Say which chosen values nothing has."""
    problems = []
    for field in fields:
        known = {option.value for option in field.options}
        for word in field.value.split(",") if not field.is_free and field.name != "branch" else ():
            if (value := word.removeprefix("-")) and value not in known:
                shown = ", ".join(sorted(known)[:12]) or "none with these filters"
                problems.append(f"{field.label}={value[:60]}: nothing has this value. There are: {shown}.")
    return problems


CASE_FIELD_HINT = "name, pattern, -not, /regex/"


def case_field(filters: PageFilters) -> FilterField:
    """Return the field for names of cases."""
    return FilterField("case", "case", filters.case, is_free=True, hint=CASE_FIELD_HINT)


def branch_field(branches: Sequence[FilterCount], chosen: str | None) -> FilterField:
    """Return the field for the branch; ``chosen`` is the one that is shown, None for all."""
    total = sum(each.count for each in branches)
    options = [FilterCount(each.value or NOT_STATED, each.count) for each in branches[:MOST_ROWS]]
    shown = ALL if chosen is None else chosen or NOT_STATED
    return FilterField("branch", "branch", shown, (*options, FilterCount(ALL, total)))


def choose_branch(
    filters: PageFilters, branches: Sequence[FilterCount], main: str | None
) -> tuple[str | None, str]:
    """Return the branch to show (None for all), and what is wrong with the one that was asked for."""
    if not filters.branch:
        return main, ""
    if filters.branch == ALL:
        return None, ""
    asked = _stated(filters.branch)
    if asked in {each.value for each in branches}:
        return asked, ""
    names = ", ".join(each.value or NOT_STATED for each in branches[:12])
    return main, f"branch={asked[:60]}: no run is of this branch. There are: {names or 'none'}."
