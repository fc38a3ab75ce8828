"""Which rounds are planned, and what the reports of their ranks add up to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.details.round_details import RoundDetails, RoundSettings
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Measurement, Outcome, Variant
from torchstone.measure.case_end import WorkerEnd
from torchstone.measure.hosts.host_job import find_differences, name_hosts
from torchstone.measure.plan import Axes, Listing, Selection, plan_cases
from torchstone.measure.procedures.rank_reports import (
    Host,
    conclude,
    find_fault,
    find_stragglers,
    read_host,
    with_efficiency,
)
from torchstone.measure.procedures.rounds import (
    RankCapacity,
    Sweep,
    axes_of,
    default_ranks,
    hosts_for,
    plan_sweep,
)
from torchstone.measure.procedures.scaling_procedure import HostGroup, ScalingProcedure, answer_for, make_part
from torchstone.worker.protocol.jobs import CaseAxes, MeasureJob, RoundPart, RoundPlan
from torchstone.worker.protocol.rank_report import RankReport, decode_report, write_report
from torchstone.worker.protocol.replies import CaseDetails
from torchstone.worker.protocol.source_message import SourceMessage
from torchstone.worker.ranks.progress import Progress

CASE = Case(
    "net",
    "scaling",
    "s",
    Variant("cpu", "none", "training", "float32", None, 4, axes_of("ddp", 2, "gloo", 25.0)),
)
PASSED = Outcome(CASE, "pass", details=OutcomeDetails(duration=2.0))
FAILED = Outcome(CASE, "fail_to_run", details=OutcomeDetails(duration=2.0))
FAILED_RANKS = WorkerEnd(FAILED, CaseDetails(exits={"1": -9, "0": -15}))


def report(rank: int, host: str = "a", **more: object) -> RankReport:
    own = {"rank": rank, "local_rank": rank, "host": host, "device": "cpu", "status": "pass"}
    told = {**own, "samples": [0.1, 0.2, 0.3], "peak": 2_000_000_000, "own": [], "communication": [], **more}
    return decode_report(told, rank)


def failure(rank: int, cause: str, status: str = "fail_to_run", iteration: int = 3) -> RankReport:
    told = {"message": f"{cause} of {rank}", "traceback": "T", "phase": "run", "iteration": iteration}
    return decode_report({"rank": rank, "status": status, "cause": cause, **told}, rank)


JOB = MeasureJob(
    SourceMessage("suite", "s"), "net", "scaling", CaseAxes("cpu", "none", "training", "float32")
)
PLAN = RoundPlan("ddp", 2, timeout=5.0)


def round_of(outcome: Outcome) -> RoundDetails:
    assert outcome.details is not None
    assert outcome.details.scaling is not None
    return outcome.details.scaling


# --- the sweep


def test_a_sweep_begins_without_a_strategy_and_grows_by_whole_hosts_in_the_end() -> None:
    rounds = [dict(each) for each in plan_sweep(Sweep(collective="nccl"), RankCapacity(2, 8, "cuda device"))]
    assert [(each["strategy"], int(each["ranks"])) for each in rounds] == [
        ("none", 1), ("ddp", 1), ("ddp", 2), ("ddp", 4), ("ddp", 8), ("ddp", 16),
    ]  # fmt: skip
    assert "collective" not in rounds[0]
    assert rounds[1]["bucket_mb"] == "25"
    assert rounds[1]["collective"] == "nccl"


def test_every_bucket_size_is_a_round_and_only_ddp_has_buckets() -> None:
    sweep = Sweep((2,), ("ddp", "fsdp"), (1.0, 2.5), "gloo")
    rounds = [dict(each) for each in plan_sweep(sweep, RankCapacity(1, 2, "core"))]
    assert [each.get("bucket_mb") for each in rounds] == ["1", "2.5", None]


@given(st.integers(1, 5), st.integers(1, 20))
def test_default_ranks_are_within_the_room_and_use_all_of_it(hosts: int, ranks: int) -> None:
    room = RankCapacity(hosts, ranks, "device")
    counts = default_ranks(room)
    assert counts[0] == 1
    assert counts[-1] == hosts * ranks
    assert list(counts) == sorted(set(counts))
    for count in counts:
        used, local = hosts_for(count, room)
        assert used * local == count
        assert used <= hosts


@pytest.mark.parametrize(
    ("count", "message"),
    [(9, "only 8 cuda devices available"), (3, "")],
)
def test_more_ranks_than_devices_are_refused(count: int, message: str) -> None:
    room = RankCapacity(1, 8, "cuda device")
    if not message:
        assert plan_sweep(Sweep((count,), ("fsdp",)), room)
        return
    with pytest.raises(UsageError, match=message):
        plan_sweep(Sweep((count,)), room)


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        (Sweep(strategies=("none", "fsdp"), buckets=(5.0,)), "--bucket-mb needs the strategy ddp"),
        (Sweep((2,), ("none",)), "--ranks cannot be used with --strategy none"),
    ],
)
def test_what_no_round_would_look_at_is_refused(sweep: Sweep, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_sweep(sweep, RankCapacity(1, 8, "core"))


def test_part_of_a_second_host_is_refused() -> None:
    with pytest.raises(UsageError, match="whole hosts"):
        plan_sweep(Sweep((12,)), RankCapacity(2, 8, "cuda device"))


def test_scaling_trains_without_a_compiler_unless_one_is_named() -> None:
    rounds = (axes_of("none", 1),)
    listings = [
        Listing("s", "net", 4, modes=("training", "inference")),
        Listing("s", "still", modes=("inference",)),
    ]
    (case,) = plan_cases(listings, Axes(("scaling",), ("cpu",), rounds=rounds), Selection())
    assert (case.benchmark, case.variant.mode, case.variant.backend) == ("net", "training", "none")
    axes = Axes(("scaling",), ("cpu",), rounds=rounds, scaled_backends=("inductor",))
    assert plan_cases(listings, axes, Selection())[0].variant.backend == "inductor"


def test_what_cannot_be_trained_is_an_error_that_says_so() -> None:
    axes = Axes(("scaling",), ("cpu",), rounds=(axes_of("none", 1),))
    with pytest.raises(UsageError, match="can be trained"):
        plan_cases([Listing("s", "still", modes=("inference",))], axes, Selection())


def test_a_benchmark_made_for_scaling_needs_no_probe() -> None:
    listing = Listing("s", "net", 4, modes=("training",), probes=("scaling",))
    cases = plan_cases([listing], Axes((), ("cpu",), rounds=(axes_of("none", 1),)), Selection())
    assert [case.probe for case in cases] == ["scaling"]


# --- what came of a round


def test_a_round_has_the_samples_of_all_ranks_and_what_follows_from_them() -> None:
    host = Host("a", (0, 1), (report(0), report(1, samples=[0.2, 0.2, 0.4])))
    outcome = conclude(CASE, [host], PASSED, RoundSettings(5))
    assert outcome.status == "pass"
    times = outcome.measurements[0]
    assert times.samples == (0.1, 0.2, 0.3, 0.2, 0.2, 0.4)
    assert times.facts() == {"ranks": (3, 3)}
    assert outcome.value("examples_per_second") == pytest.approx(4 * 2 / 0.2)
    assert outcome.value("iteration_time_p75") == pytest.approx(0.275)
    assert outcome.value("peak_memory") == 2.0
    assert outcome.value("communication_share") is None
    assert round_of(outcome).round == RoundSettings(5, hosts=("a",), iterations=3)


def test_communication_is_that_of_the_middle_rank_and_stragglers_have_names() -> None:
    ranks = [report(rank, own=[0.1] * 10, communication=[0.5] * 10) for rank in range(3)]
    ranks.append(report(3, "b", own=[0.2] * 10, communication=[0.1] * 10))
    outcome = conclude(
        CASE,
        [Host("a", (0, 1, 2), tuple(ranks[:3])), Host("b", (3,), tuple(ranks[3:]))],
        PASSED,
        RoundSettings(),
    )
    assert outcome.value("communication_share") == pytest.approx(50)
    assert outcome.value("rank_spread") == pytest.approx(100)
    assert list(round_of(outcome).stragglers) == [
        "rank 3 on b: its own work takes 100% longer than that of the median rank"
    ]


def test_a_rank_that_is_slow_now_and_then_is_no_straggler() -> None:
    often = [0.5, 0.1] * 5
    assert not find_stragglers([report(0, own=[0.11] * 10), report(1, own=often)])
    assert find_stragglers([report(0, own=[0.11] * 10), report(1, own=[0.5] * 10)])
    tiny = [
        report(0, own=[0.0001] * 10),
        report(1, own=[0.001] * 10),
    ]  # ten times as much, of an iteration of 0.2 s
    assert not find_stragglers(tiny)


@pytest.mark.parametrize(
    ("hosts", "status", "where", "message"),
    [
        ([Host("a", (0, 1), (failure(0, "lost"), failure(1, "own", "OOM")))], "OOM", (1, "a"), "own of 1"),
        ([Host("a", (0, 1), (failure(0, "lost"),), {1: Progress("run", 6)}, {1: -9})], "worker_died", (1, "a"), "ended by SIGKILL in iteration 7"),
        ([Host("a", (0, 1), (failure(0, "lost"),), {1: Progress()}, {1: 7})], "worker_died", (1, "a"), "exited with code 7 while loading, without a report"),
        ([Host("a", (0, 1), (failure(0, "waited", "timeout"),), {1: Progress("run", 6)})], "timeout", (1, "a"), "hangs in iteration 7: rank 0 waited for it until waited of 0"),
        ([Host("a", (0,), (failure(0, "waited", "timeout"),)), Host("b", (1,), lost=True)], "worker_died", (None, "b"), "lost: it no longer answers (it had rank 1)"),
        ([Host("a", (0,), (failure(0, "own"),)), Host("b", (1,), lost=True)], "fail_to_run", (0, "a"), "own of 0"),
        ([Host("a", (0, 1), (failure(0, "waited", "timeout", 4), failure(1, "waited", "timeout", 3)))], "timeout", (1, "a"), "waited of 1"),
        ([Host("a", (0, 1), (), {}, {}, "did not finish within 9 s")], "fail_to_run", (0, "a"), "did not finish within 9 s"),
    ],
)  # fmt: skip
def test_the_fault_is_with_whoever_died_or_failed_first(
    hosts: list[Host], status: str, where: tuple[int | None, str], message: str
) -> None:
    found = find_fault(hosts, FAILED)
    assert found[:4] == (status, *where, message)


def test_a_failure_names_the_rank_and_its_host() -> None:
    host = Host("node7", (0, 1), (failure(0, "lost"), failure(1, "own", "OOM")))
    outcome = conclude(CASE, [host], FAILED, RoundSettings())
    assert outcome.status == "OOM"
    assert outcome.failure is not None
    assert outcome.failure.message == "rank 1 on node7: own of 1"
    assert outcome.failure.traceback == "T"
    assert round_of(outcome) == RoundDetails(RoundSettings(hosts=("node7",)))


def test_reports_and_progress_are_read_from_the_folder_of_the_round(tmp_path: Path) -> None:
    write_report(str(tmp_path), report(0))
    (tmp_path / "rank-1.json").write_text('{"rank": 1, "st')  # the disk was full
    (tmp_path / "progress-1").write_text("run 12            ")
    host = read_host("a", str(tmp_path), (0, 1), FAILED_RANKS)
    assert [each.rank for each in host.reports] == [0]
    assert host.progress[1] == Progress("run", 12)
    assert host.progress[0] == Progress("load", 0)
    assert host.exits == {1: -9}  # the other was ended by torchrun


def test_another_host_answers_with_all_that_it_knows(tmp_path: Path) -> None:
    write_report(str(tmp_path), report(1, "b"))
    part = make_part(JOB, RoundPart("id", PLAN, 2, 1), 1, "b", str(tmp_path)).round
    assert part is not None
    answer = json.loads(json.dumps(answer_for(part, FAILED_RANKS)))

    class Line:
        def own_address(self) -> str:
            return "10.0.0.1"

        def order(self, number: int, job: dict[str, Any]) -> None:
            self.ordered = number, job

        def collect(self, number: int, hosts: int, patience: float) -> dict[int, dict[str, Any] | None]:
            assert (number, hosts, patience) == (1, 2, 15.0)
            return {1: answer}

        def free_port(self) -> int:
            return 5

    line = Line()
    host_group = HostGroup(RankCapacity(2, 1, "rank"), ["a", "b"], line)
    procedure = ScalingProcedure(CASE, JOB, PLAN, lambda: str(tmp_path), host_group)
    job = procedure.next_job()
    assert job is not None
    assert job.round is not None
    assert job.round.endpoint == "10.0.0.1:5"
    assert line.ordered[1]["round"]["hosts"] == 2
    assert procedure.next_job() is None
    write_report(str(tmp_path), report(0))
    procedure.take(WorkerEnd(PASSED))
    assert procedure.outcome().status == "pass"
    assert procedure.outcome().measurements[0].facts() == {"ranks": (3, 3)}


@pytest.mark.parametrize(
    ("lost", "differences", "status", "message"),
    [
        ({1}, {}, "worker_died", "host b: lost in an earlier round"),
        (set(), {1: "other software"}, "infra_error", "rank 1 on b: other software"),
    ],
)
def test_a_round_that_needs_a_host_which_cannot_take_part_ends_before_it_begins(
    lost: set[int], differences: dict[int, str], status: str, message: str
) -> None:
    host_group = HostGroup(RankCapacity(2, 1, "rank"), ["a", "b"], None, differences)
    host_group.lost = lost
    procedure = ScalingProcedure(CASE, JOB, PLAN, lambda: "", host_group)
    assert procedure.next_job() is None
    assert procedure.outcome().status == status
    assert procedure.outcome().failure is not None
    assert procedure.outcome().failure.message == message  # type: ignore[union-attr]


def test_a_round_for_more_hosts_than_there_are_does_not_begin() -> None:
    case = structs.replace(CASE, variant=structs.replace(CASE.variant, further=axes_of("ddp", 16, "gloo")))
    procedure = ScalingProcedure(case, JOB, PLAN, lambda: "", HostGroup(RankCapacity(1, 8, "rank"), ["a"]))
    assert procedure.next_job() is None
    assert procedure.outcome().status == "infra_error"
    assert "needs 2 hosts, but there is 1" in str(procedure.outcome().failure)


# --- efficiency


def measured(strategy: str, ranks: int, per_second: float, bucket: float | None = None) -> Outcome:
    axes = axes_of(strategy, ranks, bucket=bucket)
    variant = Variant("cpu", "none", "training", "float32", None, 4, axes)
    return Outcome(
        Case("net", "scaling", "s", variant), "pass", (Measurement("examples_per_second", (per_second,)),)
    )


def test_efficiency_is_against_the_smallest_round_without_a_strategy() -> None:
    plain, one, two = measured("none", 1, 100), measured("ddp", 1, 90), measured("ddp", 2, 150)
    plan = [plain.case, one.case, two.case]
    assert with_efficiency(plain, [], plan).value("scaling_efficiency") == 100
    assert with_efficiency(one, [plain], plan).value("scaling_efficiency") == pytest.approx(90)
    assert with_efficiency(two, [plain, one], plan).value("scaling_efficiency") == pytest.approx(75)
    assert with_efficiency(two, [plain, one], [two.case]).value("scaling_efficiency") == 100


@pytest.mark.parametrize("smallest", [[], [Outcome(measured("none", 1, 1).case, "OOM")]])
def test_there_is_no_efficiency_against_a_round_that_failed_or_is_still_to_come(
    smallest: list[Outcome],
) -> None:
    two = measured("ddp", 2, 150)
    assert (
        with_efficiency(two, smallest, [measured("none", 1, 1).case, two.case]).value("scaling_efficiency")
        is None
    )


def test_there_is_no_efficiency_where_several_rounds_are_the_smallest() -> None:
    one, other = measured("ddp", 2, 150, bucket=1.0), measured("ddp", 2, 140, bucket=25.0)
    assert with_efficiency(other, [one], [one.case, other.case]).value("scaling_efficiency") is None


# --- hosts


def test_hosts_with_the_same_name_are_told_apart_by_address() -> None:
    told = [{"host": "vm", "address": "10.0.0.1"}, {"host": "vm", "address": "10.0.0.2"}, {"host": "x"}]
    assert name_hosts(told) == ["vm (10.0.0.1)", "vm (10.0.0.2)", "x"]


def test_what_differs_between_hosts_is_told_with_both_versions() -> None:
    hosts = [
        {"software": {"torch": "2.13", "python": "3.11"}},
        {"software": {"torch": "2.12", "python": "3.11"}},
    ]
    assert find_differences(hosts, ["a", "b"]) == {
        1: "other software than on the first host: torch is 2.12, and 2.13 on a"
    }


def test_cautions_of_ranks_are_merged() -> None:
    unused = [
        {"kind": "unused_parameters", "numbers": {"parameters": count}, "names": {}} for count in (2, 3)
    ]
    reports = (report(0, cautions=unused[:1]), report(1, cautions=unused[1:]))
    outcome = conclude(CASE, [Host("a", (0, 1), reports)], PASSED, RoundSettings())
    (caution,) = outcome.cautions
    assert caution.text.startswith("2 to 3 parameters get no gradient")
