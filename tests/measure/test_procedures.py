"""The procedure of a case: which workers it takes, with which folders, and what their ends add up to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from torchstone.core.details.compile_cache_details import CacheDetails, ScenarioResult
from torchstone.core.records import Case, Failure, Measurement, Outcome, Variant
from torchstone.core.vocabulary import SCENARIOS
from torchstone.measure.case_end import WorkerEnd
from torchstone.measure.procedures.compile_cache_procedure import CacheProcedure
from torchstone.measure.procedures.procedure import SingleProcedure
from torchstone.worker.protocol.jobs import CaseAxes, MeasureJob, Scenario
from torchstone.worker.protocol.replies import CaseDetails
from torchstone.worker.protocol.source_message import SourceMessage
from torchstone.worker.worker_environment import CaseFolders

CASE = Case("it", "compile_cache", "bench", Variant("cpu", "inductor", "inference", "float32"))
AXES = CaseAxes("cpu", "inductor", "inference", "float32")
JOB = MeasureJob(SourceMessage(), "it", "compile_cache", AXES, start="fork")
CACHE = "TORCHINDUCTOR_CACHE_DIR"


@pytest.fixture
def folders(tmp_path: Path) -> CaseFolders:
    template = tmp_path / "template"
    (template / "cache").mkdir(parents=True)
    (template / "cache" / "isa.so").write_bytes(b"probe")
    return CaseFolders(str(tmp_path / "scratch"), 3, str(template))


def ended(seconds: float, status: str = "pass", message: str = "", **report: Any) -> WorkerEnd:  # noqa: ANN401  (fields of CaseDetails)
    """How a worker ended that took so many seconds to compile."""
    failure = Failure("compile", message) if status != "pass" else None
    offers = {"offers": {"portable": "", "precompile": ""}}
    outcome = Outcome(CASE, status, (Measurement("compile_seconds", (seconds,)),), failure)
    return WorkerEnd(outcome, CaseDetails(**offers | report))


def look_ups(hit: int = 0, miss: int = 0, bypass: int = 0) -> dict[str, dict[str, int]]:
    return {"fx_graph": {"hit": hit, "miss": miss, "bypass": bypass}}


def samples(outcome: Outcome) -> dict[str, Any]:
    return {each.metric: each.samples for each in outcome.measurements}


def found_in(outcome: Outcome) -> CacheDetails:
    assert outcome.details is not None
    assert outcome.details.compile_cache is not None
    return outcome.details.compile_cache


def scenario_of(job: MeasureJob) -> Scenario:
    assert job.scenario is not None
    return job.scenario


def cache_of(job: MeasureJob) -> str:
    assert job.environment is not None
    return job.environment[CACHE]


def run(procedure: CacheProcedure, ends: dict[str, list[WorkerEnd]]) -> tuple[list[str], list[MeasureJob]]:
    """Take the procedure to its end; each worker ends as said for its scenario, in the order of the repeats."""
    steps, jobs = [], []
    while (job := procedure.next_job()) is not None:
        scenario = procedure.step().partition(" ")[0].rstrip(",")
        steps.append(procedure.step())
        jobs.append(job)
        if path := scenario_of(job).save:
            Path(path).write_bytes(b"artifacts")
        (Path(cache_of(job)) / f"{len(jobs)}.so").write_bytes(b"12345")
        procedure.take(ends[scenario].pop(0))
    return steps, jobs


def test_a_single_job_is_done_once_and_its_end_is_the_case() -> None:
    procedure = SingleProcedure(JOB)
    assert procedure.next_job() == JOB
    assert procedure.next_job() is None
    with pytest.raises(RuntimeError, match="has not ended yet"):
        procedure.outcome()
    outcome = Outcome(CASE, "pass")
    procedure.take(WorkerEnd(outcome))
    assert (procedure.outcome(), procedure.step()) == (outcome, "")


def test_every_repeat_has_every_scenario_and_folders_of_its_own(folders: CaseFolders) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "warm", "portable"), repeats=2)
    steps, jobs = run(
        procedure,
        {"cold": [ended(10), ended(10)], "warm": [ended(2), ended(4)], "portable": [ended(5), ended(5)]},
    )
    assert steps == ["cold 1/2", "warm 1/2", "portable 1/2", "cold 2/2", "warm 2/2", "portable 2/2"]
    caches = [cache_of(job) for job in jobs]
    assert caches[0] == caches[1]
    assert caches[3] == caches[4]
    assert len(set(caches)) == 4
    for cold, warm, portable in (jobs[:3], jobs[3:]):
        assert scenario_of(warm).expected == scenario_of(portable).expected == scenario_of(cold).keep
        assert scenario_of(portable).load == scenario_of(cold).save
    kept = [scenario_of(job).keep for job in (jobs[0], jobs[3])]
    assert len(set(kept)) == 2
    assert not any(Path(cache).exists() for cache in caches)


def test_savings_are_of_the_sums_with_an_interval_over_repeats(folders: CaseFolders) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "warm"), repeats=2)
    run(procedure, {"cold": [ended(10), ended(30)], "warm": [ended(2), ended(6)]})
    outcome = procedure.outcome()
    assert outcome.status == "pass"
    assert samples(outcome)["cold_compile_seconds"] == (10, 30)
    assert samples(outcome)["warm_compile_seconds"] == (2, 6)
    assert samples(outcome)["warm_saved"] == pytest.approx((80,))
    (saved,) = [each for each in outcome.measurements if each.metric == "warm_saved"]
    assert saved.facts()["repeats"] == 2
    assert saved.facts()["interval"] == pytest.approx((80, 80))
    assert not any(metric.startswith("portable") for metric in samples(outcome))


def test_what_a_cache_holds_beyond_the_template_is_counted(folders: CaseFolders) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "warm", "portable"))
    run(procedure, {"cold": [ended(10)], "warm": [ended(2)], "portable": [ended(5)]})
    found = samples(procedure.outcome())
    assert (found["cold_cache_files"], found["cold_cache_bytes"]) == ((1,), (5,))
    assert (found["warm_cache_files"], found["warm_cache_bytes"]) == ((2,), (10,))
    assert (found["portable_cache_files"], found["portable_cache_bytes"]) == ((1,), (5,))


def test_hit_rates_are_those_of_all_look_ups(folders: CaseFolders) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "warm"), repeats=2)
    cold = [ended(10, look_ups=look_ups(miss=4), events=[]) for _ in range(2)]
    both = look_ups(hit=2) | {"aot_autograd": {"hit": 1, "miss": 0, "bypass": 1}}
    warm = [
        ended(2, look_ups=both, events=[]),
        ended(2, look_ups=look_ups(hit=1, miss=2, bypass=1), events=[]),
    ]
    run(procedure, {"cold": cold, "warm": warm})
    outcome = procedure.outcome()
    found = samples(outcome)
    assert found["cold_hit_rate"] == (0, 0)
    assert found["warm_hit_rate"] == (75, 25)
    assert (found["warm_cache_hit"], found["warm_cache_miss"]) == ((3, 1), (0, 2))
    assert found["warm_cache_bypass"] == (1, 1)
    assert found_in(outcome).caches["warm"]["fx_graph"] == {"hit": 3, "miss": 2, "bypass": 1}


def test_nothing_looked_up_has_no_hit_rate(folders: CaseFolders) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold",))
    run(procedure, {"cold": [ended(1, look_ups={}, events=[])]})
    assert "cold_hit_rate" not in samples(procedure.outcome())


def test_a_cold_start_that_fails_ends_the_case(folders: CaseFolders) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "warm"), repeats=3)
    steps, _ = run(procedure, {"cold": [ended(10), ended(1, "OOM", "too large")], "warm": [ended(2)]})
    assert steps == ["cold 1/3", "warm 1/3", "cold 2/3"]
    outcome = procedure.outcome()
    assert outcome.status == "OOM"
    assert outcome.failure == Failure("compile", "in the cold scenario: too large")


def test_another_scenario_that_fails_leaves_the_rest_to_be_measured_and_the_first_failure_counts(
    folders: CaseFolders,
) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "warm", "portable"), repeats=2)
    steps, _ = run(
        procedure,
        {
            "cold": [ended(10), ended(10)],
            "warm": [ended(1, "fail_accuracy", "differs"), ended(1)],
            "portable": [
                ended(5),
                WorkerEnd(Outcome(CASE, "worker_died", failure=Failure("compile", "crashed"))),
            ],
        },
    )
    assert len(steps) == 6
    outcome = procedure.outcome()
    assert outcome.status == "fail_accuracy"
    assert outcome.failure is not None
    assert outcome.failure.message == "in the warm scenario: differs"
    assert found_in(outcome).scenarios == {
        "cold": ScenarioResult("pass"),
        "warm": ScenarioResult("fail_accuracy", "differs"),
        "portable": ScenarioResult("worker_died", "crashed"),
    }
    found = samples(outcome)
    assert found["warm_saved"] == pytest.approx((90,))
    assert found["portable_compile_seconds"] == (5,)
    assert "portable_saved" not in found  # of two repeats only one was measured


def test_a_scenario_that_torch_lacks_is_not_available_with_the_reason(folders: CaseFolders) -> None:
    offers = {"portable": "", "precompile": "torch 2.2 has no such thing"}
    procedure = CacheProcedure(CASE, JOB, folders, tuple(SCENARIOS))
    cold = ended(10, offers=offers, unsaved="nothing was recorded")
    steps, _ = run(procedure, {"cold": [cold], "warm": [ended(2, offers=offers)]})
    assert steps == ["cold", "warm"]
    outcome = procedure.outcome()
    assert outcome.status == "pass"
    scenarios = found_in(outcome).scenarios
    assert scenarios["portable"] == ScenarioResult("not available", "nothing was recorded")
    assert scenarios["precompile"] == ScenarioResult("not available", "torch 2.2 has no such thing")


def test_precompiling_is_prepared_once_for_all_repeats(folders: CaseFolders) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "precompile"), repeats=2)
    steps, jobs = run(
        procedure,
        {"cold": [ended(10), ended(10)], "precompile": [ended(9), ended(1), ended(1)]},
    )
    assert steps == ["cold 1/2", "precompile, made ready 1/2", "precompile 1/2", "cold 2/2", "precompile 2/2"]
    saved = scenario_of(jobs[1]).save
    assert [scenario_of(jobs[2]).load, scenario_of(jobs[4]).load] == [saved, saved]
    assert scenario_of(jobs[1]).precompile is True
    found = samples(procedure.outcome())
    assert found["precompile_compile_seconds"] == (1, 1)  # without what the preparation took
    assert found["precompile_saved"] == pytest.approx((90,))


def test_what_cannot_be_precompiled_is_not_available(folders: CaseFolders) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "precompile"))
    run(procedure, {"cold": [ended(10)], "precompile": [ended(9, "fail_to_run", "no closures")]})
    outcome = procedure.outcome()
    assert outcome.status == "pass"
    assert "no closures" in found_in(outcome).scenarios["precompile"].reason


def test_artifacts_of_the_user_are_loaded_instead_of_our_own(folders: CaseFolders) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "portable"), load_from="/their/artifacts")
    cold = ended(10, unsaved="never mind")
    _, (first, second) = run(procedure, {"cold": [cold], "portable": [ended(5)]})
    assert scenario_of(first).save == ""
    assert scenario_of(second).load == "/their/artifacts"


def test_artifacts_are_kept_where_the_user_says(folders: CaseFolders, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "portable"), save_to=kept)
    _, (first, second) = run(procedure, {"cold": [ended(10)], "portable": [ended(5)]})
    assert scenario_of(first).save == scenario_of(second).load == kept


def test_a_folder_that_cannot_be_made_ends_the_case_and_names_the_scenario(
    folders: CaseFolders, tmp_path: Path
) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold", "warm", "portable"))
    assert procedure.next_job() is not None
    (tmp_path / "scratch" / "case-3" / "repeat-1" / "portable").write_bytes(b"in the way")
    procedure.take(ended(10))
    assert procedure.next_job() is not None
    procedure.take(ended(2))
    assert procedure.next_job() is None
    outcome = procedure.outcome()
    assert outcome.status == "fail_to_run"
    assert outcome.failure is not None
    assert outcome.failure.message.startswith("in the portable scenario: ")
    assert samples(outcome)["warm_saved"] == pytest.approx((80,))
    assert found_in(outcome).scenarios["portable"].status == "fail_to_run"


def test_a_case_that_cannot_even_begin_has_an_outcome(tmp_path: Path) -> None:
    (tmp_path / "scratch").write_bytes(b"not a folder")
    procedure = CacheProcedure(CASE, JOB, CaseFolders(str(tmp_path / "scratch"), 1, str(tmp_path)))
    assert procedure.next_job() is None
    outcome = procedure.outcome()
    assert outcome.status == "fail_to_run"
    assert outcome.failure is not None
    assert outcome.failure.message.startswith("in the cold scenario: ")


@pytest.mark.parametrize("seconds", [12.5, None])
def test_one_off_probing_is_reported_apart_where_it_is_known(
    folders: CaseFolders, seconds: float | None
) -> None:
    procedure = CacheProcedure(CASE, JOB, folders, ("cold",), probing_seconds=seconds)
    run(procedure, {"cold": [ended(10)]})
    outcome = procedure.outcome()
    assert found_in(outcome).probing_seconds == seconds
    assert samples(outcome)["cold_compile_seconds"] == (10,)
