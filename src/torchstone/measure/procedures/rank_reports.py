"""What the ranks of a round left in its folder, and the one outcome that all of it adds up to."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, ValidationError, convert, structs

from torchstone.analyze.scaling_curves import percentile
from torchstone.core.cautions import Caution, merged
from torchstone.core.records import RANKS, Case, Failure, Measurement, Outcome
from torchstone.core.vocabulary import PASSED, PERCENTILES
from torchstone.measure.launcher import describe_exit
from torchstone.worker.ranks.progress import Progress, read_progress

_STRAGGLES, _NEARLY_ALWAYS = 0.10, 0.9
_GIGA = 1e9
_RATE = "examples_per_second"


class Host(Struct, frozen=True):
    """One host's part in a round: who it is, which ranks it had, what it says of them; ``lost`` if it does not say anything.

    ``exits`` are of ranks that ended by themselves: torchrun ends the others with SIGTERM.
    """

    name: str
    ranks: tuple[int, ...]
    reports: tuple[dict[str, Any], ...] = ()
    progress: dict[int, Progress] = {}
    exits: dict[int, int] = {}
    problem: str = ""
    lost: bool = False


def read_host(name: str, folder: str, ranks: Sequence[int], outcome: Outcome) -> Host:
    """What is known on this host of its part: the reports of its ranks, and how those ended that left none."""
    reports = []
    for rank in ranks:
        with (
            contextlib.suppress(OSError, ValueError),
            open(os.path.join(folder, f"rank-{rank}.json")) as file,
        ):
            reports.append(json.load(file))
    extra = outcome.extra or {}
    exits = {int(rank): int(code) for rank, code in extra.get("exits", {}).items() if code != -signal.SIGTERM}
    problem = str(extra.get("unmet", ""))
    if outcome.status not in {PASSED, "fail_to_run"} and not problem and outcome.failure:
        problem = outcome.failure.message
    return Host(
        name,
        tuple(ranks),
        tuple(reports),
        {rank: read_progress(folder, rank) for rank in ranks},
        exits,
        problem,
    )


def conclude(case: Case, hosts: Sequence[Host], local: Outcome, told: Mapping[str, Any]) -> Outcome:
    """The outcome of a round: measurements of all ranks, or the rank and host at fault."""
    reports = sorted((each for host in hosts for each in host.reports), key=lambda each: each["rank"])
    wanted = sum(len(host.ranks) for host in hosts)
    extra = {key: value for key, value in (local.extra or {}).items() if key not in {"exits", "unmet"}}
    extra["round"] = {**told, "hosts": [host.name for host in hosts]}
    if len(reports) == wanted and all(each["status"] == PASSED for each in reports):
        return _passed(case, reports, extra)
    status, rank, host, message, trace = find_fault(hosts, local)
    where = f"rank {rank} on {host}" if rank is not None else f"host {host}"
    phase = next((each.get("phase", "") for each in reports if each["rank"] == rank), "run")
    log = local.failure.log if local.failure else str(extra.pop("log", ""))
    failure = Failure(phase, f"{where}: {message}", trace, log)
    return Outcome(case, status, failure=failure, extra=extra)


Fault = tuple[str, int | None, str, str, str]
"""Status, rank (None for a whole host), host, message, traceback."""


def find_fault(hosts: Sequence[Host], local: Outcome) -> Fault:
    """Who is at fault: whoever died or raised something of its own, before those that only noticed that another was gone."""
    failed = [(host, each) for host in hosts for each in host.reports if each["status"] != PASSED]
    own = [(host, each) for host, each in failed if each.get("cause") == "own"]
    for host in hosts:
        for rank, code in host.exits.items():
            if code < 0 and rank not in {each["rank"] for each in host.reports}:
                at = host.progress.get(rank, Progress())
                return "worker_died", rank, host.name, f"{describe_exit(code)} {at}", ""
    if own:
        host, first = min(own, key=lambda each: each[1].get("iteration", 0))
        return first["status"], first["rank"], host.name, first["message"], first.get("traceback", "")
    for host in hosts:
        if host.lost:
            ranks = ", ".join(map(str, host.ranks))
            return (
                "worker_died",
                None,
                host.name,
                f"lost: it does not answer any more (it had rank {ranks})",
                "",
            )
    return _find_silent(hosts, failed, local)


def _find_silent(
    hosts: Sequence[Host], failed: Sequence[tuple[Host, dict[str, Any]]], local: Outcome
) -> Fault:
    """Nobody says that the fault is his own: the one that hangs is the one that has come least far, and says nothing."""
    told = {each["rank"] for host in hosts for each in host.reports}
    silent = [
        (host.progress.get(rank, Progress()).iteration, rank, host)
        for host in hosts
        for rank in host.ranks
        if rank not in told
    ]
    waited = next((each for _, each in failed), None)
    if silent:
        _, rank, host = min(silent, key=lambda each: each[:2])
        at = host.progress.get(rank, Progress())
        if code := host.exits.get(rank):
            return "worker_died", rank, host.name, f"{describe_exit(code)} {at}, without a report", ""
        if waited:
            message = f"hangs {at}: rank {waited['rank']} waited for it until {waited['message']}"
            return "timeout", rank, host.name, message, waited.get("traceback", "")
        status = local.status if local.status != PASSED else "worker_died"
        return status, rank, host.name, host.problem or f"ended {at} without a report", ""
    host, first = min(failed, key=lambda each: each[1].get("iteration", 0))
    return first["status"], first["rank"], host.name, first["message"], first.get("traceback", "")


def _passed(case: Case, reports: Sequence[dict[str, Any]], extra: dict[str, Any]) -> Outcome:
    samples = [sample for each in reports for sample in each["samples"]]
    examples = (case.variant.batch_size or 1) * len(reports)
    found = [
        Measurement("iteration_time", tuple(samples), {RANKS: [len(each["samples"]) for each in reports]}),
        Measurement("examples_per_second", (examples / statistics.median(samples),)),
    ]
    for level in PERCENTILES:
        at = percentile(samples, level)
        found.append(Measurement(f"iteration_time_p{level}", (at,)))
        found.append(Measurement(f"examples_per_second_p{level}", (examples / at,)))
    found += _of_communication(reports)
    if peaks := tuple(each["peak"] / _GIGA for each in reports if each.get("peak")):
        found.append(Measurement("peak_memory", peaks))
    extra["round"]["iterations"] = len(reports[0]["samples"])
    extra["ranks"] = [_describe(each) for each in reports]
    if stragglers := find_stragglers(reports):
        extra["stragglers"] = stragglers
    cautions = merged(caution for each in reports for caution in _cautions(each))
    return Outcome(case, PASSED, tuple(found), extra=extra, cautions=cautions)


def _cautions(report: Mapping[str, Any]) -> list[Caution]:
    """The cautions of a rank; a report shares its process with the model, and may hold anything."""
    try:
        return convert(report.get("cautions", []), list[Caution])
    except ValidationError:
        return []


def _of_communication(reports: Sequence[dict[str, Any]]) -> list[Measurement]:
    if len(reports) < 2 or not all(each.get("own") and each.get("communication") for each in reports):
        return []
    shares = [statistics.median(each["communication"]) for each in reports]
    found = [Measurement("communication_share", (100 * statistics.median(shares),))]
    own = [statistics.median(each["own"]) for each in reports]
    if middle := statistics.median_low(own):
        found.append(Measurement("rank_spread", (100 * (max(own) / middle - 1),)))
    return found


def find_stragglers(reports: Sequence[dict[str, Any]]) -> list[str]:
    """The ranks for which all others wait.

    Their own work takes a tenth longer than that of the middle rank, in nearly every iteration, and that is a tenth of an iteration.
    """
    if len(reports) < 2 or not all(each.get("own") for each in reports):
        return []
    middle = [statistics.median_low(own) for own in zip(*(each["own"] for each in reports), strict=False)]
    found = []
    for each in reports:
        ratios = [own / usual for own, usual in zip(each["own"], middle, strict=False) if usual]
        more = statistics.median(ratios) - 1 if ratios else 0.0
        costs = (statistics.median(each["own"]) - statistics.median(middle)) / statistics.median(
            each["samples"]
        )
        if min(more, costs) > _STRAGGLES and sum(map((1.0).__lt__, ratios)) >= _NEARLY_ALWAYS * len(ratios):
            found.append(
                f"rank {each['rank']} on {each['host']}: its own work takes {more:.0%} longer "
                "than that of the middle rank"
            )
    return found


def _describe(report: Mapping[str, Any]) -> dict[str, Any]:
    told = {key: report[key] for key in ("rank", "host", "local_rank", "device")}
    told["median"] = statistics.median(report["samples"])
    for key, scale in (("own", 1.0), ("communication", 100.0)):
        if report.get(key):
            told[key] = statistics.median(report[key]) * scale
    if report.get("peak"):
        told["peak"] = report["peak"] / _GIGA
    return told


def with_efficiency(outcome: Outcome, done: Sequence[Outcome], plan: Sequence[Case]) -> Outcome:
    """An outcome with its efficiency against the smallest round that is planned of the same benchmark; without it where that failed, or there are several."""
    family = [case for case in plan if _family(case) == _family(outcome.case)] or [outcome.case]
    smallest = min(family, key=_size)
    if sum(_size(case) == _size(smallest) for case in family) > 1:
        return outcome
    base = next((each.value(_RATE) for each in (*done, outcome) if each.case == smallest), None)
    own = outcome.value(_RATE)
    if outcome.status != PASSED or not isinstance(own, int | float) or not isinstance(base, int | float):
        return outcome
    share = 100 * own / base * ranks_in(smallest) / ranks_in(outcome.case)
    told = Measurement("scaling_efficiency", (share,))
    return structs.replace(outcome, measurements=(*outcome.measurements, told))


def _family(case: Case) -> tuple[object, ...]:
    further = {key: value for key, value in case.variant.further if key not in _OF_A_ROUND}
    plain = structs.replace(case.variant, further=tuple(further.items()))
    return case.suite, case.benchmark, plain


_OF_A_ROUND = {"bucket_mb", "collective", "ranks", "strategy"}


def _size(case: Case) -> tuple[int, bool]:
    return ranks_in(case), dict(case.variant.further).get("strategy") != "none"


def ranks_in(case: Case) -> int:
    """How many ranks a round has."""
    text = dict(case.variant.further).get("ranks", "1")
    return int(text) if text.isdecimal() else 1
