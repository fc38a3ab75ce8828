"""``repro``: measure cases of a run file again, with the settings of their run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, structs

from torchstone.api.case_lookup import find_cases
from torchstone.api.measuring.consent import Ask, refuse
from torchstone.api.measuring.events import EventWatcher, OnEvent, RunWatcher
from torchstone.api.repeating.again import open_again
from torchstone.api.requests import Source, make_request
from torchstone.api.showing import show_html, show_text
from torchstone.api.sources import Input
from torchstone.api.value_checks import check_count
from torchstone.core.disk import read_text
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Outcome, Reading
from torchstone.core.run_file import decode_run
from torchstone.core.run_settings import Settings
from torchstone.core.vocabulary import PASSED, SKIPPED
from torchstone.formats import require_run_file
from torchstone.measure.measuring import settings_of_run
from torchstone.measure.session import Session
from torchstone.measure.supervisor import WorkerLimits
from torchstone.reporting.dialects.case_label import Labels
from torchstone.reporting.run_text.case_lines import result_line
from torchstone.reporting.views.result_table import ResultTable

_ADVICE = "give a file that 'torchstone run' has written"


class ReproRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run file, and the case to measure again ``times`` times: an id, or the name of a benchmark for all its cases."""

    file: Input
    case: str
    times: int = 1
    trust: bool = False


class RepeatedCase(Struct, frozen=True):
    """A case that was measured again: its outcome in the file, if there is one, and the new ones."""

    case: Case
    before: Outcome | None
    outcomes: tuple[Outcome, ...]


class ReproResult(Struct, frozen=True):
    """Cases that were measured again."""

    path: str
    cases: tuple[RepeatedCase, ...]

    @property
    def outcomes(self) -> list[Outcome]:
        """All new outcomes."""
        return [outcome for each in self.cases for outcome in each.outcomes]

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0 if every outcome passed, else 1."""
        return int(any(outcome.status not in {PASSED, SKIPPED} for outcome in self.outcomes))

    @property
    def passed(self) -> bool:
        """Whether every outcome passed."""
        return self.exit_code == 0

    def __str__(self) -> str:
        return show_text(self._table())

    def _repr_html_(self) -> str:
        return show_html(self._table())

    def _table(self) -> ResultTable:
        labels = Labels([each.case for each in self.cases])
        rows = []
        for each in self.cases:
            shown = [("then", each.before)] if each.before else []
            rows += [
                (when, result_line(outcome, labels.of(each.case)))
                for when, outcome in (*shown, *(("now", outcome) for outcome in each.outcomes))
            ]
        return ResultTable(f"{self.path}, measured again", ("", "result"), rows)


class Repetition:
    """Cases that are ready to be measured again."""

    def __init__(
        self, reading: Reading, cases: list[Case], times: int, session: Session, watcher: RunWatcher
    ) -> None:
        self.cases = cases
        self._times = times
        self._session = session
        self._watcher = watcher
        self._settings = again_settings(reading)
        self._before = {outcome.case: outcome for outcome in reading.run.outcomes}

    def before(self, case: Case) -> Outcome | None:
        """Return the outcome of a case in the file, if there is one."""
        return self._before.get(case)

    def measure(self, case: Case) -> Iterator[Outcome]:
        """Measure a case, each time in a new process."""
        limits = WorkerLimits(self._settings.timeout, self._settings.memory_limit)
        for _ in range(self._times):
            yield from self._session.supervisor(self._settings, limits, self._watcher).execute([case])


def again_settings(reading: Reading) -> Settings:
    """Return the settings of a run, without the files that it wrote."""
    return structs.replace(settings_of_run(reading.run, reading.path), save_outputs="", save_artifacts="")


def repro(
    file: Source, case: str, *, times: int = 1, trust: bool = False, on_event: OnEvent | None = None
) -> ReproResult:
    """Measure a case of a run file again, as ``torchstone repro`` does; nothing is written.

        print(torchstone.repro("run.jsonl", "mlp", times=3))

    ``case`` is an id, or the name of a benchmark, to measure all its cases.
    """
    given = {"file": file, "case": case, "times": times, "trust": trust}
    watcher = EventWatcher(on_event)
    request = make_request(ReproRequest, given)
    reading = read_run_file(request.file)
    with open_repro(request, reading, watcher) as repetition:
        planned = structs.replace(reading.run, plan=tuple(repetition.cases), outcomes=())
        with watcher.showing(planned):
            repeated = [_repeat(each, repetition, watcher) for each in repetition.cases]
    return ReproResult(reading.path, tuple(repeated))


def _repeat(case: Case, repetition: Repetition, watcher: RunWatcher) -> RepeatedCase:
    outcomes = []
    for outcome in repetition.measure(case):
        watcher.finished(outcome)
        outcomes.append(outcome)
    return RepeatedCase(case, repetition.before(case), tuple(outcomes))


def read_run_file(given: Input) -> Reading:
    """Read a run file; no other format says how its cases were measured."""
    if isinstance(given, str):
        text = read_text(given)
        require_run_file(given, text, _ADVICE)
        return decode_run(given, text)
    if given.kind != "run":
        raise InputError(
            f"this is not a run file: its format is {given.kind}", path=given.path, advice=_ADVICE
        )
    return given


@contextmanager
def open_repro(
    request: ReproRequest, reading: Reading, watcher: RunWatcher, ask: Ask = refuse
) -> Iterator[Repetition]:
    """Find the cases, and start what measures them."""
    check_count("--times", request.times)
    cases = find_cases(reading.run, request.case, reading.path)
    settings = again_settings(reading)
    with open_again(reading, cases, settings, watcher, trust=request.trust, ask=ask) as session:
        yield Repetition(reading, cases, request.times, session, watcher)
