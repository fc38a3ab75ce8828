"""Results of a run in Python: outcomes, dictionaries, data frames, text, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchstone.api.data_frames import make_frame
from torchstone.api.requests import ReadResult
from torchstone.api.showing import show_html, show_text
from torchstone.core.cautions import Caution
from torchstone.core.records import Case, Outcome, Revision, Run
from torchstone.core.text.units import count_of
from torchstone.reporting.views.result_table import tabulate_run

if TYPE_CHECKING:
    import pandas as pd


class RunResult(ReadResult, frozen=True):
    """Results that were measured, or read from a file."""

    @property
    def run(self) -> Run:
        """The run as a record: plan, outcomes, revision, environment, settings."""
        return self.reading.run

    @property
    def path(self) -> str:
        """The file that contains the run."""
        return self.reading.path

    @property
    def id(self) -> str:
        """The id of the run; the name of the file if it has none."""
        return self.run.id

    @property
    def plan(self) -> tuple[Case, ...]:
        """All planned cases."""
        return self.run.plan

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """One outcome for each measured case."""
        return self.run.outcomes

    @property
    def revision(self) -> Revision:
        """The code under test."""
        return self.run.revision

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Warnings about the input."""
        return self.reading.cautions

    def __len__(self) -> int:
        return len(self.outcomes)

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.outcomes)

    def __getitem__(self, name: str) -> Outcome:
        """Return the outcome of a case, by its id, or by the name of a benchmark that has one case."""
        found = [each for each in self.outcomes if name in {each.case.id, each.case.benchmark}]
        if len(found) != 1:
            raise KeyError(name if not found else f"{name}: {count_of(len(found), 'case')}, use the id")
        return found[0]

    def to_dicts(self) -> list[dict[str, object]]:
        """Return one dictionary for each measurement, and one for each case without any: case, axes, status, metric, value."""
        return [record for outcome in self.outcomes for record in _records(outcome)]

    def to_frame(self) -> pd.DataFrame:
        """Return the same as a pandas ``DataFrame``. Requires pandas; ``to_dicts`` does not."""
        return make_frame(self.to_dicts())

    def __str__(self) -> str:
        return show_text(tabulate_run(self.run, self.path))

    def _repr_html_(self) -> str:
        return show_html(tabulate_run(self.run, self.path))


def _records(outcome: Outcome) -> Iterator[dict[str, object]]:
    case = outcome.case
    common = {
        "case": case.id,
        "suite": case.suite,
        "benchmark": case.benchmark,
        "probe": case.probe,
        **case.variant.axes(),
        "status": outcome.status,
        "failure": outcome.failure.message if outcome.failure else "",
    }
    if not outcome.measurements:
        yield {**common, "metric": None, "value": None, "samples": 0}
    for each in outcome.measurements:
        yield {**common, "metric": each.metric, "value": each.value, "samples": len(each.samples)}
