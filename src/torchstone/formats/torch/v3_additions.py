"""Facts that a v3 record has no field for, and comparisons need: stated in the benchmark's ``extra_info``.

Their names start with ``torchstone_``: the probe (where it does not follow from the records), the status of a case that failed,
the sizes of trials, and how workers were started and caches filled. Values are texts, as everywhere in ``extra_info``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Outcome
from torchstone.core.vocabulary import COMPILE_SECONDS, FAILED, METRICS, PASSED, Probe

OURS = "torchstone_"


def written_name(metric: str, probe: str) -> str:
    """Return the name of a metric in records of a probe."""
    return "compilation_latency" if metric == COMPILE_SECONDS and probe == Probe.ACCURACY else metric


def is_of_performance(metric: str) -> bool:
    """Return whether only the performance probe has this metric."""
    return metric in METRICS and METRICS[metric].probes == (Probe.PERFORMANCE,)


def guess_probe(status: str, metrics: Iterable[str]) -> str:
    """Return the probe that a case's records imply, if they do not state it."""
    if status:
        return Probe.ACCURACY.value
    known = [METRICS[metric] for metric in metrics if metric in METRICS]
    return str(known[0].probes[0]) if known else Probe.PERFORMANCE.value


def cases_stating_probe(outcomes: Sequence[Outcome]) -> set[Case]:
    """Return the cases whose probe does not follow from their records."""
    alike: dict[Case, list[Outcome]] = {}
    for outcome in outcomes:
        alike.setdefault(structs.replace(outcome.case, probe=""), []).append(outcome)
    return {outcome.case for group in alike.values() if not _is_implied(group) for outcome in group}


def _is_implied(outcomes: Sequence[Outcome]) -> bool:
    """Return whether the probes of cases that differ in nothing else follow from their records."""
    by_probe = {outcome.case.probe: outcome for outcome in outcomes}
    if len(outcomes) == 1:
        outcome = outcomes[0]
        status = outcome.status if outcome.case.probe == Probe.ACCURACY else ""
        return outcome.case.probe in {"", guess_probe(status, _names(outcome))}
    if len(outcomes) > 2 or set(by_probe) != {Probe.ACCURACY.value, Probe.PERFORMANCE.value}:
        return False
    accuracy, performance = by_probe[Probe.ACCURACY.value], by_probe[Probe.PERFORMANCE.value]
    names = _names(performance) or ["speedup"]  # as a case that failed is written
    return (
        bool(accuracy.status)
        and "speedup" in names
        and all(map(is_of_performance, names))
        and not any(map(is_of_performance, _names(accuracy)))
    )


def _names(outcome: Outcome) -> list[str]:
    return [written_name(each.metric, outcome.case.probe) for each in outcome.measurements]


def facts_of_case(outcome: Outcome, *, states_probe: bool) -> dict[str, str]:
    """Return the probe of a case, if it has to be stated, and the status of one that failed."""
    status = (
        "" if outcome.case.probe == Probe.ACCURACY or outcome.status in {PASSED, FAILED} else outcome.status
    )
    facts = {"probe": outcome.case.probe if states_probe else "", "status": status}
    return {OURS + name: fact for name, fact in facts.items() if fact}


def facts_of_measurement(details: MeasurementDetails) -> dict[str, str]:
    """Return how a measurement was taken, as far as the database has no field for it."""
    facts = {"start": details.start, "cache": details.cache, "trials": ",".join(map(str, details.trials))}
    return {OURS + name: fact for name, fact in facts.items() if fact}


def read_sizes(text: str) -> tuple[int, ...]:
    """Return the sizes of trials, such as ``20,20``; empty if the text is anything else."""
    sizes = text.split(",")
    is_valid = all(size.isascii() and size.isdigit() and len(size) < 10 and int(size) for size in sizes)
    return tuple(map(int, sizes)) if is_valid else ()


def state(facts: Mapping[str, object]) -> dict[str, object]:
    """Return the field of a record that states facts about the benchmark."""
    return {"benchmark": {"extra_info": dict(facts)}} if facts else {}
