"""The closed list of cautions about an outcome, with their wording. Standard library only: workers give cautions by kind.

A wording is a template: ``{pairs}`` is a number or a name of the caution, with an optional format after a colon. ``:count row`` is a
count with its noun: ``1 row``, ``2 rows``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypedDict


class CautionKind(StrEnum):
    """What a caution is about."""

    RECORDED = "recorded"
    NOT_MEASURED = "not_measured"
    LEFT_OUT = "left_out"
    RECOMPILED_WHILE_TIMED = "recompiled_while_timed"
    INPUTS_CHANGED = "inputs_changed"
    BUSY_MACHINE = "busy_machine"
    COMPILES_ITSELF = "compiles_itself"
    NO_PEAK_MEMORY = "no_peak_memory"
    FEW_PAIRS = "few_pairs"
    NO_REFERENCE = "no_reference"
    PASSED_DESPITE_MISMATCH = "passed_despite_mismatch"
    OUTPUTS_NOT_SAVED = "outputs_not_saved"
    LOOK_UPS_NOT_LISTED = "look_ups_not_listed"
    THREADS_NOT_COUNTED = "threads_not_counted"
    PROCESSES_NOT_COUNTED = "processes_not_counted"
    UNUSED_PARAMETERS = "unused_parameters"
    NO_COMMUNICATION_PROFILE = "no_communication_profile"
    TRIAL_FAILED = "trial_failed"


class CautionMessage(TypedDict):
    """A caution as a worker sends it."""

    kind: str
    numbers: dict[str, int | float]
    names: dict[str, str]


def caution_message(kind: CautionKind, **values: str | float) -> CautionMessage:
    """A caution of some kind with its numbers and names, as a worker sends it."""
    numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
    names = {name: value for name, value in values.items() if isinstance(value, str)}
    return {"kind": kind.value, "numbers": numbers, "names": names}


class Wording(NamedTuple):
    """How a kind of caution reads, and what to do about it.

    ``details`` are names that may differ between trials, ranks and cases without changing what the caution means: those of the first are shown.
    """

    text: str
    advice: str = ""
    details: tuple[str, ...] = ()


_K = CautionKind
WORDING = {
    _K.RECORDED: Wording("{text}"),
    _K.NOT_MEASURED: Wording("{metric} could not be measured"),
    _K.LEFT_OUT: Wording("{metric} is left out: {why}", details=("why",)),
    _K.RECOMPILED_WHILE_TIMED: Wording(
        "it was compiled again while it was timed, so some samples hold compile time"
    ),
    _K.INPUTS_CHANGED: Wording(
        "the model changes its inputs, so that not every call was timed on the same values"
    ),
    _K.BUSY_MACHINE: Wording(
        "other work took the processor away {rate:.0f} times a second, for {share:.0%} of the time it was timed: times are "
        "longer than on a quiet machine, the speedup may be off",
        "stop that or use fewer threads",
    ),
    _K.COMPILES_ITSELF: Wording("the model compiles parts of itself, so that eager is not eager throughout"),
    _K.NO_PEAK_MEMORY: Wording("peak memory cannot be read for {device} on this system"),
    _K.FEW_PAIRS: Wording("only {pairs} pairs of calls were timed: too few for an interval"),
    _K.NO_REFERENCE: Wording("compared by cosine similarity only: no float64 reference ({why})"),
    _K.PASSED_DESPITE_MISMATCH: Wording(
        "passed although {mismatch} (in {wrong} of {runs:count run}): {why}", details=("mismatch",)
    ),
    _K.OUTPUTS_NOT_SAVED: Wording("the outputs could not be kept: {problem}", details=("problem",)),
    _K.LOOK_UPS_NOT_LISTED: Wording("{more} more look-ups in caches are not listed"),
    _K.THREADS_NOT_COUNTED: Wording("it started threads, whose work is not counted"),
    _K.PROCESSES_NOT_COUNTED: Wording("it started processes: what these do is not in its count"),
    _K.UNUSED_PARAMETERS: Wording(
        "{parameters} parameters get no gradient, so DDP looks for these in every iteration"
    ),
    _K.NO_COMMUNICATION_PROFILE: Wording("torch's profiler does not show communication: {why}"),
    _K.TRIAL_FAILED: Wording(
        "of {trials} trials the last ended as {status}; the numbers are of those before"
    ),
}
"""What each kind says."""
