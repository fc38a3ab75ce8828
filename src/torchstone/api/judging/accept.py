"""``accept``: propose changes to a baseline from results, and write them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from torchstone.api.judging.accept_folder import is_folder, read_adoptions
from torchstone.api.judging.accept_request import (
    AcceptOptions,
    AcceptRequest,
    Adoption,
    read_adoption,
    require_place_for_margins,
    resolve_baseline,
)
from torchstone.api.judging.past_runs import check_false_alarms, learn_from, read_past
from torchstone.api.requests import Path, Sources, make_request
from torchstone.api.showing import show_html, show_text
from torchstone.baselines.disturbed_values import disturbed_cautions
from torchstone.baselines.propose import Proposal, propose
from torchstone.baselines.proposed_changes import Change
from torchstone.baselines.row_changes import AdoptionOptions
from torchstone.core.cautions import Caution, merged
from torchstone.core.disk import make_folder, replace_text
from torchstone.core.environments import unknowns
from torchstone.core.errors import UsageError
from torchstone.core.records import Reading
from torchstone.formats import FORMATS
from torchstone.reporting.views.proposal_rows import tabulate_proposal
from torchstone.reporting.views.result_table import ResultTable

if TYPE_CHECKING:
    from typing import Unpack

    from torchstone.api.measuring.events import OnEvent


class AcceptResult(Struct, frozen=True):
    """Proposed changes to a baseline. Nothing is written until ``write`` is called.

    If the baseline is a folder, ``files`` has the changes to each of its files, and there is no ``kind`` and no ``text``.
    """

    path: str
    kind: str
    old_text: str
    proposal: Proposal
    cautions: tuple[Caution, ...]
    files: tuple[AcceptResult, ...] = ()

    @property
    def changes(self) -> list[Change]:
        """A change for each row considered, including those held back."""
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
        """Return the changes as a unified diff."""
        if self.files:
            return "\n".join(filter(None, (file.diff() for file in self.files)))
        old, new = self.old_text.splitlines(), self.text.splitlines()
        return "\n".join(difflib.unified_diff(old, new, self.path, self.path, lineterm=""))

    def validate(self) -> None:
        """Raise an ``InputError`` if the new text cannot be read."""
        for file in self.files:
            file.validate()
        if self.adopted and not self.files:
            FORMATS[self.kind].read(self.path, self.text)

    def write(self) -> bool:
        """Write the baseline; raise an error if it has changed since it was read. Return whether there was anything to write."""
        if not self.adopted:
            return False
        self.validate()
        if self.files:
            make_folder(self.path)
            for file in self.files:
                file.write()
            return True
        replace_text(self.path, self.old_text, self.text)
        return True

    def __str__(self) -> str:
        return show_text(_with_cautions(self))

    def _repr_html_(self) -> str:
        return show_html(_with_cautions(self))


def _with_cautions(result: AcceptResult) -> ResultTable:
    table = result.table
    return structs.replace(table, notes=(*table.notes, *(f"caution: {each}" for each in result.cautions)))


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

    The baseline may be a folder, with a file for each probe. With ``repeat``, counted cases are measured again first, and ``on_event`` is called with each event.
    """
    request = resolve_baseline(
        make_request(AcceptRequest, {"results": results, "baseline": baseline, **options})
    )
    if is_folder(request.baseline):
        return propose_for_folder(request)
    adoption = read_adoption(request)
    if request.repeat is None:
        return propose_adoption(adoption)
    from torchstone.api.judging.accept_repeats import measure_with_events  # noqa: PLC0415  (start-up: only --repeat measures)

    return propose_adoption(adoption, measure_with_events(adoption, on_event))


def propose_for_folder(request: AcceptRequest) -> AcceptResult:
    """Propose changes to the files of a folder of baselines, one per probe."""
    files = tuple(propose_adoption(adoption) for adoption in read_adoptions(request))
    proposals = [file.proposal for file in files]
    together = Proposal(
        [change for each in proposals for change in each.changes],
        "",
        sum(each.unpruned for each in proposals),
        sum(each.unadded for each in proposals),
        {},
    )
    cautions = merged(caution for file in files for caution in file.cautions)
    return AcceptResult(request.baseline, "", "", together, cautions, files)


def propose_adoption(adoption: Adoption, repeats: Sequence[Reading] = ()) -> AcceptResult:
    """Propose the changes that adopting the results and their repeats would make."""
    baseline, readings = adoption.baseline, adoption.readings
    options, past_cautions = _learn(adoption)
    proposal = propose(baseline, adoption.text, [*readings, *repeats], adoption.rules, options)
    unknown = (
        caution for each in readings for caution in unknowns(each.run.environment, baseline.run.environment)
    )
    own = (caution for reading in (*readings, baseline) for caution in reading.cautions)
    disturbed = disturbed_cautions(proposal.adopted, [*readings, *repeats], baseline.kind, proposal.text)
    cautions = (*own, *merged(unknown), *past_cautions, *disturbed)
    return AcceptResult(baseline.path, baseline.kind, adoption.text, proposal, cautions)


def _learn(adoption: Adoption) -> tuple[AdoptionOptions, list[Caution]]:
    """Return the options with margins learned from past runs, and cautions about these runs."""
    request, options = adoption.request, adoption.options
    if not request.past:
        if request.false_alarms is not None:
            raise UsageError(
                "--false-alarms requires --learn-margins", advice="add --learn-margins with past runs"
            )
        return options, []
    rate = check_false_alarms(request.false_alarms)
    baseline, readings = adoption.baseline, adoption.readings
    require_place_for_margins(baseline, "--learn-margins")
    past = read_past("--learn-margins", request.past, readings, [baseline.path], request.kind, request.axes)
    measured = learn_from(past, readings, baseline, options, rate)
    return structs.replace(options, past=measured), [*past.cautions, *past.tell_apart()]
