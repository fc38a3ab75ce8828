"""A case as a line: status, name, and the main numbers or the reason of a failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torchstone.core.errors import printable
from torchstone.core.records import Case, Failure, Measurement, Outcome, unit_of
from torchstone.core.text.intervals import format_with_interval
from torchstone.core.text.short_names import shorten_names
from torchstone.core.text.units import format_value
from torchstone.core.vocabulary import COMPILE_SECONDS, NOT_AVAILABLE, PASSED, SKIPPED, Probe
from torchstone.reporting.dialects.case_label import LONGEST_WORD, Labels, round_words
from torchstone.reporting.run_text.blocks import cut
from torchstone.reporting.run_text.scaling_blocks import round_texts
from torchstone.reporting.views.caches import WARM, Start, format_percent, hits_of, read_starts
from torchstone.reporting.views.case_row import interval_of
from torchstone.reporting.views.summary import count_text, main_count

LONGEST_NAME = 34  # on a terminal
LONGEST_REASON = 160
MOST_OWN = 2  # metrics that the benchmark reports, in the line of a case
_LONGEST = 10_000  # no name of a benchmark is longer
_INDENT = " " * 5
_SHORT_PROBES = {
    "performance": "perf",
    "accuracy": "acc",
    "compile_cache": "cache",
    "instructions": "count",
}


class CaseLines:
    """Lines of the cases of a plan, in columns.

    On a terminal of ``room`` columns, numbers that do not fit follow on the next line, and long names are cut where that keeps them distinct.
    Without ``room`` a case is one line, and nothing is cut.
    """

    def __init__(self, plan: Sequence[Case] = (), room: int | None = None) -> None:
        self._room = room
        self._labels = Labels(plan, LONGEST_WORD if room else None)
        names = [printable(case.benchmark, _LONGEST) for case in plan]
        self._names = shorten_names(names, LONGEST_NAME) if room else {}
        self._width = max((len(self._names.get(name, name)) for name in names), default=0)
        self._has_mode = not room or len({case.variant.mode for case in plan}) != 1

    def of(self, outcome: Outcome) -> str:
        """Return the line, or lines, of a case."""
        name = printable(outcome.case.benchmark, _LONGEST)
        shown = self._names.get(name, name)
        label = self._labels.of(outcome.case)
        axes = _axes(outcome.case, label, has_mode=self._has_mode)
        return _line(outcome, f"{shown:<{self._width}}", axes, label, self._room)

    def label_of(self, case: Case) -> str:
        """Return the axes that distinguish a case from others of its name."""
        return self._labels.of(case)


def result_line(outcome: Outcome, label: str = "") -> str:
    """Return one case as a line. ``label`` distinguishes it from cases of the same name."""
    name = printable(outcome.case.benchmark, _LONGEST)
    return _line(outcome, name, _axes(outcome.case, label, has_mode=True), label, None)


def _line(outcome: Outcome, name: str, axes: str, label: str, room: int | None) -> str:
    if outcome.status not in {PASSED, SKIPPED, NOT_AVAILABLE}:
        words = " ".join(f"{axes} {label}".split())
        return f"{outcome.status}: {name.rstrip()} {words}: {', '.join(_numbers(outcome))}".rstrip(": ")
    head = f"{outcome.status:<4} {name} {axes}{' ' if label and axes else ''}{label}  "
    numbers = _numbers(outcome)
    whole = f"{head}{', '.join(numbers)}".rstrip()
    if room is None or len(whole) <= room:
        return whole
    return "\n".join(_broken(head, numbers, room))


def _broken(head: str, numbers: Sequence[str], room: int) -> Iterator[str]:
    """Yield lines of at most ``room`` columns, broken between the numbers."""
    line = head
    for place, number in enumerate(numbers):
        piece = number if place == len(numbers) - 1 else f"{number},"
        if line.strip() and len(line) + len(piece) > room:
            yield line.rstrip()
            line = _INDENT
        line += f"{piece} "
    yield line.rstrip()


def _axes(case: Case, label: str, *, has_mode: bool) -> str:
    """Return probe and mode; for a scaling round, its ranks and strategy unless the label has them."""
    if words := round_words(case):
        return "" if words in label else words
    short = _SHORT_PROBES.get(case.probe, case.probe)
    mode = {"inference": "inf", "training": "train"}.get(case.variant.mode, case.variant.mode)
    return f"{short:<4} {mode:<5}" if has_mode else f"{short:<4}"


def _numbers(outcome: Outcome) -> list[str]:
    """Return the numbers of a case, most important first; for a failure, its reason."""
    if outcome.failure and not outcome.status.startswith("pass"):
        return [reason_line(outcome.failure)]
    if outcome.case.probe == Probe.COMPILE_CACHE:
        return list(_start_texts(read_starts(outcome)))
    if counted := main_count(outcome):
        return [count_text(counted)]
    if outcome.case.probe == Probe.SCALING:
        return list(round_texts(outcome))
    return list(_timing_texts({measurement.metric: measurement for measurement in outcome.measurements}))


def _timing_texts(found: dict[str, Measurement]) -> Iterator[str]:
    if "speedup" in found:
        yield format_with_interval(found["speedup"].value, interval_of(found["speedup"]), "x")
    if "device_speedup" in found:
        yield f"device {found['device_speedup'].value:.3g}x"
    own = [each for each in found.values() if each.details and each.details.better]
    for each in own[:MOST_OWN]:
        yield f"{each.metric} {format_value(each.value, unit_of(each.metric, each))}"
    for metric, unit, label in (
        (COMPILE_SECONDS, " s", "compile"),
        ("graph_breaks", "", "breaks"),
        ("dynamo_peak_mem", " GB", "peak"),
    ):
        if metric in found and (metric != "graph_breaks" or found[metric].value):
            yield f"{label} {found[metric].value:.3g}{unit}"


def _start_texts(starts: Iterable[Start]) -> Iterator[str]:
    """Yield each scenario with its time and savings."""
    for start in starts:
        if start.seconds is not None:
            saved = f" (saves {format_percent(start.saved)})" if start.saved is not None else ""
            yield f"{start.scenario} {start.seconds:.3g} s{saved}"
        if start.scenario == WARM and start.asked:
            yield f"hits {hits_of(start.hits, start.asked)}"


def reason_line(failure: Failure) -> str:
    """Return where and why a case failed, shortened to one line."""
    text = cut(f"{phase_words(failure)}{' '.join(failure.message.split())}", LONGEST_REASON)
    return printable(text, LONGEST_REASON)


def phase_words(failure: Failure) -> str:
    """Return the phase that a case failed in: ``in compile: ``."""
    return f"in {failure.phase}: " if failure.phase else ""
