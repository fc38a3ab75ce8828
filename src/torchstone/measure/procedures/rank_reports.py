"""Read what the ranks of a round left in its folder, and combine it into one outcome."""

from __future__ import annotations

import json
import signal
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct, structs

from torchstone.analyze.scaling_curves import percentile
from torchstone.core.cautions import merged
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_details import NO_OUTCOME_DETAILS, OutcomeDetails
from torchstone.core.details.round_details import RankDetails, RoundDetails, RoundSettings
from torchstone.core.records import Case, Failure, Measurement, Outcome
from torchstone.core.vocabulary import PASSED, PERCENTILES
from torchstone.measure.case_end import WorkerEnd
from torchstone.measure.executors.protocol import describe_exit
from torchstone.measure.worker_messages import caution_of
from torchstone.worker.protocol.codec import Count, MalformedError, from_json, to_json
from torchstone.worker.protocol.rank_report import RankReport, decode_report, report_path
from torchstone.worker.ranks.progress import Progress, read_progress

_STRAGGLES, _NEARLY_ALWAYS = 0.10, 0.9
_GIGA = 1e9
_RATE = "examples_per_second"


class Host(Struct, frozen=True):
    """One host's part in a round: its name, its ranks, and what it reports about them; ``lost`` if it no longer answers.

    ``exits`` are the exit codes of ranks that ended by themselves: torchrun ends the others with SIGTERM.
    """

    name: str
    ranks: tuple[int, ...]
    reports: tuple[RankReport, ...] = ()
    progress: dict[int, Progress] = {}
    exits: dict[int, int] = {}
    problem: str = ""
    lost: bool = False


def read_host(name: str, folder: str, ranks: Sequence[int], end: WorkerEnd) -> Host:
    """Return this host's part of a round: the reports of its ranks, and the exit codes of ranks without one."""
    found = [_read_report(folder, rank) for rank in ranks]
    outcome, report = end.outcome, end.report
    exits = {int(rank): code for rank, code in (report.exits or {}).items() if code != -signal.SIGTERM}
    problem = report.unmet or ""
    if outcome.status not in {PASSED, "fail_to_run"} and not problem and outcome.failure:
        problem = outcome.failure.message
    return Host(
        name,
        tuple(ranks),
        tuple(each for each in found if each is not None),
        {rank: read_progress(folder, rank) for rank in ranks},
        exits,
        problem,
    )


def _read_report(folder: str, rank: int) -> RankReport | None:
    """Return the report of a rank; None if it left none. A report that is not valid counts as the rank's own failure."""
    try:
        with open(report_path(folder, rank), "rb") as file:
            return decode_report(json.load(file), rank)
    except MalformedError as error:
        message = f"its report is not valid; something else may have written to it: {error}"
        return RankReport(rank, "worker_died", cause="own", phase="run", message=message)
    except (OSError, ValueError, RecursionError):  # missing or incomplete
        return None


@dataclass(frozen=True)
class _HostAnswer:
    """Another host's report on its part of a round."""

    reports: tuple[RankReport, ...] = ()
    progress: dict[str, tuple[str, Count]] | None = None
    exits: dict[str, int] | None = None
    problem: str = ""


def encode_host(host: Host) -> dict[str, object]:
    """Encode what a host reports to host 0 about its part."""
    progress = {str(rank): (at.phase, at.iteration) for rank, at in host.progress.items()}
    exits = {str(rank): code for rank, code in host.exits.items()}
    return to_json(_HostAnswer(host.reports, progress, exits, host.problem))


def decode_host(answer: object, name: str, ranks: tuple[int, ...]) -> Host:
    """Decode what another host reports about its ranks. An answer that is not valid is that host's fault."""
    try:
        told = from_json(_HostAnswer, answer, "the answer")
    except MalformedError as error:
        return Host(name, ranks, problem=f"its answer is not valid: {error}")
    reports = tuple({report.rank: report for report in told.reports if report.rank in ranks}.values())
    progress = {rank: Progress(*(told.progress or {}).get(str(rank), ())) for rank in ranks}
    exits = {rank: code for rank in ranks if (code := (told.exits or {}).get(str(rank))) is not None}
    return Host(name, ranks, reports, progress, exits, told.problem)


def conclude(case: Case, hosts: Sequence[Host], local: Outcome, settings: RoundSettings) -> Outcome:
    """Return the outcome of a round: measurements of all ranks, or the rank and host at fault."""
    reports = sorted((each for host in hosts for each in host.reports), key=lambda each: each.rank)
    wanted = sum(len(host.ranks) for host in hosts)
    details = local.details or NO_OUTCOME_DETAILS
    settings = structs.replace(settings, hosts=tuple(host.name for host in hosts))
    if len(reports) == wanted and all(each.status == PASSED for each in reports):
        settings = structs.replace(settings, iterations=len(reports[0].samples))
        return _passed(case, reports, details, settings)
    status, rank, host, message, trace = find_fault(hosts, local)
    where = f"rank {rank} on {host}" if rank is not None else f"host {host}"
    phase = next((each.phase for each in reports if each.rank == rank), "run")
    failure = Failure(
        phase, f"{where}: {message}", trace, local.failure.log if local.failure else details.log
    )
    details = structs.replace(details, log="", scaling=RoundDetails(settings))
    return Outcome(case, status, failure=failure, details=details)


Fault = tuple[str, int | None, str, str, str]
"""Status, rank (None for a whole host), host, message, traceback."""


def find_fault(hosts: Sequence[Host], local: Outcome) -> Fault:
    """Find the rank or host at fault. One that died or failed by itself comes before one that only noticed that another was gone."""
    failed = [(host, each) for host in hosts for each in host.reports if each.status != PASSED]
    own = [(host, each) for host, each in failed if each.cause == "own"]
    for host in hosts:
        for rank, code in host.exits.items():
            if code < 0 and rank not in {each.rank for each in host.reports}:
                at = host.progress.get(rank, Progress())
                return "worker_died", rank, host.name, f"{describe_exit(code)} {at}", ""
    if own:
        host, first = min(own, key=lambda each: each[1].iteration)
        return first.status, first.rank, host.name, first.message, first.traceback
    for host in hosts:
        if host.lost:
            ranks = ", ".join(map(str, host.ranks))
            return (
                "worker_died",
                None,
                host.name,
                f"lost: it no longer answers (it had rank {ranks})",
                "",
            )
    return _find_silent(hosts, failed, local)


def _find_silent(hosts: Sequence[Host], failed: Sequence[tuple[Host, RankReport]], local: Outcome) -> Fault:
    """Find the fault if no rank reports its own: of the ranks without a report, blame the one that made the least progress."""
    told = {each.rank for host in hosts for each in host.reports}
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
            message = f"hangs {at}: rank {waited.rank} waited for it until {waited.message}"
            return "timeout", rank, host.name, message, waited.traceback
        status = local.status if local.status != PASSED else "worker_died"
        return status, rank, host.name, host.problem or f"ended {at} without a report", ""
    host, first = min(failed, key=lambda each: each[1].iteration)
    return first.status, first.rank, host.name, first.message, first.traceback


def _passed(
    case: Case, reports: Sequence[RankReport], details: OutcomeDetails, settings: RoundSettings
) -> Outcome:
    samples = [sample for each in reports for sample in each.samples]
    examples = (case.variant.batch_size or 1) * len(reports)
    found = [
        Measurement(
            "iteration_time",
            tuple(samples),
            MeasurementDetails(ranks=tuple(len(each.samples) for each in reports)),
        ),
        Measurement("examples_per_second", (examples / statistics.median(samples),)),
    ]
    for level in PERCENTILES:
        at = percentile(samples, level)
        found.append(Measurement(f"iteration_time_p{level}", (at,)))
        found.append(Measurement(f"examples_per_second_p{level}", (examples / at,)))
    found += _of_communication(reports)
    if peaks := tuple(each.peak / _GIGA for each in reports if each.peak):
        found.append(Measurement("peak_memory", peaks))
    of_round = RoundDetails(settings, tuple(map(_describe, reports)), tuple(find_stragglers(reports)))
    cautions = merged(caution_of(message) for each in reports for message in each.cautions)
    details = structs.replace(details, scaling=of_round)
    return Outcome(case, PASSED, tuple(found), cautions=cautions, details=details)


def _of_communication(reports: Sequence[RankReport]) -> list[Measurement]:
    if len(reports) < 2 or not all(each.own and each.communication for each in reports):
        return []
    shares = [statistics.median(each.communication) for each in reports]
    found = [Measurement("communication_share", (100 * statistics.median(shares),))]
    own = [statistics.median(each.own) for each in reports]
    if middle := statistics.median_low(own):
        found.append(Measurement("rank_spread", (100 * (max(own) / middle - 1),)))
    return found


def find_stragglers(reports: Sequence[RankReport]) -> list[str]:
    """Describe the ranks that all others wait for.

    The own work of such a rank is slower than that of the median rank in nearly every iteration, typically by more than 10 %,
    and the difference is more than 10 % of an iteration.
    """
    if len(reports) < 2 or not all(each.own for each in reports):
        return []
    middle = [statistics.median_low(own) for own in zip(*(each.own for each in reports), strict=False)]
    found = []
    for each in reports:
        ratios = [own / usual for own, usual in zip(each.own, middle, strict=False) if usual]
        more = statistics.median(ratios) - 1 if ratios else 0.0
        costs = (statistics.median(each.own) - statistics.median(middle)) / statistics.median(each.samples)
        if min(more, costs) > _STRAGGLES and sum(map((1.0).__lt__, ratios)) >= _NEARLY_ALWAYS * len(ratios):
            found.append(
                f"rank {each.rank} on {each.host}: its own work takes {more:.0%} longer "
                "than that of the median rank"
            )
    return found


def _describe(report: RankReport) -> RankDetails:
    return RankDetails(
        report.rank,
        report.host,
        report.local_rank,
        report.device,
        statistics.median(report.samples),
        own=statistics.median(report.own) if report.own else None,
        communication=100 * statistics.median(report.communication) if report.communication else None,
        peak=report.peak / _GIGA if report.peak else None,
    )


def with_efficiency(outcome: Outcome, done: Sequence[Outcome], plan: Sequence[Case]) -> Outcome:
    """Add the efficiency relative to the smallest planned round of the same benchmark, unless that round failed or is not unique."""
    family = [case for case in plan if _family(case) == _family(outcome.case)] or [outcome.case]
    smallest = min(family, key=_size)
    if sum(_size(case) == _size(smallest) for case in family) > 1:
        return outcome
    base = next((each.value(_RATE) for each in (*done, outcome) if each.case == smallest), None)
    own = outcome.value(_RATE)
    if outcome.status != PASSED or not isinstance(own, int | float) or not isinstance(base, int | float):
        return outcome
    if base <= 0:  # a run file that is resumed may say anything
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
    """Return the number of ranks in a round."""
    text = dict(case.variant.further).get("ranks", "1")
    return int(text) if text.isdecimal() else 1
