"""What makes a run the same run, a revision the same revision, and a measurement a point of a series."""

from __future__ import annotations

import hashlib
import re

import msgspec

from torchstone.core.details.measurement_details import NO_DETAILS
from torchstone.core.records import Case, Measurement, Outcome, Reading, Revision, Run
from torchstone.core.run_settings import Environment

_ENCODER = msgspec.json.Encoder(order="deterministic")
_SHORT = 12
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)-")
_DAY = re.compile(r"(?<!\d)(20\d\d)[-_.]?([01]\d)[-_.]?([0-3]\d)(?!\d)")
_COMMIT = re.compile(
    r"(?<![0-9A-Za-z])(?=[0-9a-f]*\d)(?=[0-9]*[a-f]|[0-9]{40}\b)[0-9a-f]{7,40}(?![0-9A-Za-z])"
)


def digest_run(reading: Reading, revision: str) -> str:
    """Return a hash of what a run is: its content, revision and environment; of a run file also its id.

    The name of a file is no part of it, nor whether the run has finished.
    """
    run = reading.run
    name = run.id if reading.kind == "run" else ""
    facts = (name, revision, run.environment.to_mapping(), run.plan, run.outcomes, run.controls)
    return hashlib.sha256(_ENCODER.encode(facts)).hexdigest()


def digest_plan(run: Run) -> str:
    """Return a hash of the planned cases."""
    names = sorted({case.id for case in run.plan})
    return hashlib.sha256(_ENCODER.encode(names)).hexdigest()[:_SHORT]


def digest_environment(environment: Environment) -> str:
    """Return a hash of all facts about an environment."""
    return hashlib.sha256(_ENCODER.encode(environment.to_mapping())).hexdigest()


def name_revision(revision: Revision, run: Run) -> str:
    """Return the name of a revision: its commit, else its label; empty if it states neither.

    Uncommitted changes make a revision of their own, which no other run has: nobody knows whether two such trees are equal.
    """
    if revision.commit and revision.dirty:
        own = hashlib.sha256(_ENCODER.encode((run.id, run.environment.to_mapping()))).hexdigest()[:8]
        return f"{revision.commit}-dirty-{own}"
    return revision.commit or revision.label


def find_revision(path: str) -> str:
    """Return the revision that the name of a file or of its folders states: a commit, else a day; empty if there is none.

    >>> find_revision("nightly/2026-11-17/perf.csv"), find_revision("perf_3f2a9c1d.csv"), find_revision("amp_bf16_a100.csv")
    ('2026-11-17', '3f2a9c1d', '')
    """
    for part in reversed(path.replace("\\", "/").split("/")):
        if (found := _COMMIT.search(part)) and not _DAY.search(found[0]):
            return found[0]
        if day := find_day(part):
            return day
    return ""


def find_day(text: str) -> str:
    """Return the first date in a text, as ``2026-11-17``; empty if there is none."""
    for year, month, day in _DAY.findall(text):
        if 1 <= int(month) <= 12 and 1 <= int(day) <= 31:
            return f"{year}-{month}-{day}"
    return ""


def find_time(reading: Reading) -> str | None:
    """Return when a run was measured: the time in its id, else the day in the path of its file; None if neither states it."""
    if reading.kind == "run" and (found := _TIME.match(reading.run.id)):
        year, month, day, hour, minute, second = found.groups()
        return f"{year}-{month}-{day}T{hour}:{minute}:{second}Z"
    day = find_day(reading.path)
    return f"{day}T00:00:00Z" if day else None


def method_of(measurement: Measurement) -> tuple[str, str, str, str]:
    """Return counter, way of starting, cache state and definition of a measurement."""
    details = measurement.details or NO_DETAILS
    definition = " ".join(filter(None, (details.definition, details.benchmark_version)))
    return details.counter, details.start, details.cache, definition


def renamed(case: Case, new: str) -> Case:
    """Return the case of another benchmark with the same axes and probe."""
    return msgspec.structs.replace(case, benchmark=new)


def machine_stated(outcome: Outcome) -> str:
    """Return the class of machines that an outcome states itself; empty if it states none."""
    return outcome.provenance.machine_class if outcome.provenance else ""


def name_detection(series_id: int | None, case_id: int, machine_id: int, branch: str) -> str:
    """Return the unique name of a series in which changes are looked for; without ``series_id``, of the statuses of a case."""
    return f"status/{case_id}/{machine_id}/{branch}" if series_id is None else f"series/{series_id}/{branch}"
