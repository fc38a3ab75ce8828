"""``selftest``: measure how often verdicts of ``ab`` are wrong on this machine, and which slow-downs they detect."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from torchstone.analyze.proportion import lower_limit
from torchstone.api.measuring.ab import SECONDS_A_CASE
from torchstone.api.measuring.ab_request import (
    SelftestOptions,
    SelftestRequest,
    make_settings,
    prepare_pairs,
)
from torchstone.api.measuring.ab_result import NOTHING_MEASURED
from torchstone.api.measuring.events import EventWatcher, OnEvent, SelftestWatcher
from torchstone.api.requests import Path, Texts, make_request, path_of
from torchstone.api.showing import show_html, show_text
from torchstone.api.value_checks import check_count, check_share
from torchstone.core.disk import write_text
from torchstone.core.text.safe_text import escape_json
from torchstone.core.text.units import clock_text, count_of, format_share
from torchstone.measure.ab.contest import AbSettings
from torchstone.measure.ab.self_comparison import Score, SelfComparison, compare_with_itself, score
from torchstone.measure.ab.side_spec import SideSpec
from torchstone.measure.ab.sides import Side, open_sides
from torchstone.measure.supervisor import WorkerLimits
from torchstone.reporting.views.result_table import ResultTable
from torchstone.worker.process_tree import terminated_as_interrupted

if TYPE_CHECKING:
    from typing import Unpack

_LINES = (
    "work added",
    "effect measured (median)",
    "comparisons",
    "  regression",
    "  improvement",
    "  same",
    "  inconclusive",
    "seconds (median)",
    "pairs (median)",
)


class SelftestResult(Struct, frozen=True):
    """Comparisons of cases with themselves, unchanged and with work added, and a score of their verdicts."""

    settings: AbSettings
    comparisons: tuple[SelfComparison, ...]

    @property
    def scores(self) -> list[Score]:
        """The verdicts counted by the amount of work added, without cases that could not be measured."""
        return score(self.comparisons)

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0, 1 if there are more false alarms than alpha allows, 3 if nothing could be measured."""
        if not self.scores:
            return NOTHING_MEASURED
        plain = [each for each in self.scores if not each.slow_down]
        return int(any(lower_limit(each.false_alarms, each.tries) > self.settings.alpha for each in plain))

    @property
    def passed(self) -> bool:
        """Whether there are no more false alarms than alpha allows."""
        return self.exit_code == 0

    @property
    def sentences(self) -> tuple[str, ...]:
        """The scores as sentences; without scores, the reason."""
        if not self.scores:
            why = f": {self.comparisons[0].reason}" if self.comparisons else ""
            return (f"nothing could be measured{why}",)
        return tuple(map(_in_words, self.scores))

    @property
    def table(self) -> ResultTable:
        """The scores as a table, with a column for each amount of work added."""
        columns = [
            (
                format_share(each.slow_down) if each.slow_down else "nothing",
                f"{each.median_ratio - 1:+.1%}",
                *map(str, (each.tries, each.slower, each.faster, each.same, each.inconclusive)),
                f"{each.median_seconds:.0f}",
                f"{each.median_pairs:.0f}",
            )
            for each in self.scores
        ]
        header, *rows = zip(_LINES, *columns, strict=True)
        title = f"verdicts at a margin of {format_share(self.settings.margin)}"
        return ResultTable(title, header, rows, self.sentences)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return a dictionary for each comparison: case, work added, verdict, pairs, seconds, ratio and its interval."""
        found: list[dict[str, object]] = msgspec.to_builtins(list(self.comparisons))
        return found

    def write(self, path: Path) -> None:
        """Write settings, scores and all comparisons as JSON."""
        document = {
            "terms": structs.asdict(self.settings),
            "scores": self.scores,
            "comparisons": self.comparisons,
        }
        write_text(
            path_of(path), escape_json(msgspec.json.format(msgspec.json.encode(document)).decode()) + "\n"
        )

    def __str__(self) -> str:
        return show_text(self.table)

    def _repr_html_(self) -> str:
        return show_html(self.table)


def _in_words(found: Score) -> str:
    if not found.slow_down:
        return (
            f"false alarms: {found.false_alarms} of {found.tries}, "
            f"so less than {format_share(found.most_false)} with 95% confidence"
        )
    return (
        f"{format_share(found.slow_down)} slower: {found.slower} of {found.tries} detected, "
        f"so more than {format_share(found.least_caught)} with 95% confidence"
    )


class SelftestExecution:
    """A self-test that is ready to start. Iterate over it for its comparisons."""

    def __init__(
        self,
        request: SelftestRequest,
        sides: tuple[Side, Side],
        settings: AbSettings,
        watcher: SelftestWatcher,
    ) -> None:
        self._request = request
        self._sides = sides
        self._settings = settings
        self._watcher = watcher
        self._done: list[SelfComparison] = []

    def __iter__(self) -> Generator[SelfComparison, None, None]:
        run = self._sides[0].run
        shares = (0.0, *self._request.slow_downs)
        total = len(run.plan) * len(shares) * self._request.repeat
        limits = WorkerLimits(run.settings.timeout, run.settings.memory_limit)
        longest = clock_text(total * self._settings.budget)
        self._watcher.say(f"seed {self._settings.seed}; {count_of(total, 'comparison')}, at most {longest}")
        tries = compare_with_itself(
            self._sides, self._settings, shares, self._request.repeat, limits, self._watcher
        )
        with self._watcher.trying(run, total), closing(tries):
            for each in tries:
                self._done.append(each)
                self._watcher.tried(each)
                yield each

    def measure_all(self) -> SelftestResult:
        """Make all comparisons."""
        with closing(iter(self)) as tries:
            for _ in tries:
                pass
        return self.result()

    def result(self) -> SelftestResult:
        """Return the comparisons that have ended so far."""
        return SelftestResult(self._settings, tuple(self._done))


def selftest(
    targets: Texts, *, on_event: OnEvent | None = None, **options: Unpack[SelftestOptions]
) -> SelftestResult:
    """Measure how often ``ab`` is wrong on this machine, and what it detects, as ``torchstone selftest`` does.

        print(torchstone.selftest("smoke", slow_downs=[0.05], repeat=3))

    Every case is compared with itself: unchanged, where any change found is a false alarm, and with real work added to one side.
    """
    request = make_request(SelftestRequest, {"targets": targets, **options})
    with open_selftest(request, EventWatcher(on_event)) as execution:
        return execution.measure_all()


@contextmanager
def open_selftest(request: SelftestRequest, watcher: SelftestWatcher) -> Iterator[SelftestExecution]:
    """Load torch for two identical sides."""
    for share in request.slow_downs:
        check_share("--slow-down", share)
    check_count("--repeat", request.repeat)
    specs = (SideSpec(), SideSpec())
    prepared = prepare_pairs(request, specs)
    settings = make_settings(request)
    settings = structs.replace(settings, budget=settings.budget or SECONDS_A_CASE)
    with ExitStack() as stack:
        stack.enter_context(terminated_as_interrupted())
        sides = stack.enter_context(open_sides(specs, prepared, watcher.say))
        for side in sides:
            with watcher.busy(f"loading torch for {side.name}"):
                side.load()
        yield SelftestExecution(request, sides, settings, watcher)
