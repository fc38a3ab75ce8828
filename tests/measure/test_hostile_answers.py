"""Whatever a worker answers, its own case ends with a status, the run file can be read, and all other cases are measured."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import random
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_answers import as_line, hostile

from live_processes import Onlooker
from torchstone.cli.commands.measuring.repro import show
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.details.round_details import RoundSettings
from torchstone.core.errors import TorchstoneError
from torchstone.core.records import Case, Outcome, Run, Variant
from torchstone.core.run_file import decode_run, encode_run
from torchstone.measure.ab import pair as turns
from torchstone.measure.ab.contest import AbSettings, Contest
from torchstone.measure.ab.pair import PairWorker, measure_pair
from torchstone.measure.executors.fake import FakeExecutor, FakeLauncher, Script, Step, passes, survey_reply
from torchstone.measure.executors.selection import using_executor
from torchstone.measure.measuring import Settings, make_job
from torchstone.measure.plan import Axes, Selection
from torchstone.measure.procedures.rank_reports import Host, conclude, decode_host, with_efficiency
from torchstone.measure.procedures.rounds import axes_of
from torchstone.measure.runner import PlanRequest, prepare_run
from torchstone.measure.session import Session
from torchstone.measure.supervisor import WorkerLimits
from torchstone.measure.targets import Targets
from torchstone.worker.probes.counting.call_tree import DEEPEST as DEEPEST_CALLS
from torchstone.worker.probes.reply import Result
from torchstone.worker.protocol.codec import to_json
from torchstone.worker.protocol.jobs import Job, MakeCalls, MeasureJob, Order, SurveyJob
from torchstone.worker.protocol.keeper_messages import decode_keeper_reply
from torchstone.worker.protocol.rank_report import report_path
from torchstone.worker.protocol.replies import (
    BenchmarkFound,
    CaseDetails,
    CaseReply,
    TurnReady,
    TurnTaken,
    TurnWanted,
    decode_reply,
)
from torchstone.worker.worker import make_reply

FEW = 100
MANY = 10_000
SOURCE = BenchmarkSource("file", "bench", "/nowhere/bench.py")
RESULT: dict[str, Any] = {
    "status": "pass",
    "measurements": [
        {
            "metric": "speedup",
            "samples": [1.5],
            "extra": {
                "pairs": 20,
                "stopped": "precision",
                "interval": [1.4, 1.6],
                "confidence": 0.95,
                "method": "m",
            },
        },
        {"metric": "abs_latency", "samples": [1.5, 2, 2.5], "extra": {"block": 3}},
        {"metric": "compile_seconds", "samples": [3.5], "extra": {"start": "fork", "cache": "cold"}},
        {"metric": "instruction_count", "samples": [123456], "extra": {"counter": "hardware"}},
    ],
    "extra": {
        "duration": 3.25,
        "phases": {"load": 0.5, "run": 2},
        "left_out": {"compilation_latency": "too short"},
        "accuracy": {"tolerance": 0.001, "cosine": False},
        "graph_breaks": [{"reason": "print", "count": 2, "place": "a.py:3", "source": "print(x)"}],
        "recompile_reasons": ["size mismatch"],
        "category": "c",
        "description": "d",
        "profile": {"phases": {"dynamo": 5}},
        "code": {"from_elsewhere": [], "imported": ["a.py"]},
    },
    "failure": {"phase": "run", "message": "boom", "traceback": "Traceback ..."},
    "cautions": [{"kind": "busy_machine", "numbers": {"rate": 12.5, "share": 0.25}, "names": {}}],
}
EVENT = {
    "cache": "fx_graph",
    "state": "miss",
    "graph": "0/0",
    "key": "k",
    "reason": "",
    "unsaved": "",
    "parts": {"a": "h v"},
}
CACHED: dict[str, Any] = {
    "status": "pass",
    "measurements": [
        {"metric": "compile_seconds", "samples": [3.5]},
        {"metric": "native_seconds", "samples": [1.5]},
        {"metric": "first_result_seconds", "samples": [4.5]},
    ],
    "extra": {
        "phases": {"load": 0.5},
        "offers": {"portable": "", "precompile": ""},
        "look_ups": {
            "fx_graph": {"hit": 1, "miss": 2, "bypass": 0},
            "triton": {"hit": 1, "miss": 0, "bypass": 0},
        },
        "events": [EVENT, {**EVENT, "state": "bypass", "reason": "no cache"}],
        "artifacts": {"bytes": 5, "inductor": 1},
        "unsaved": "nothing recorded",
    },
    "cautions": [{"kind": "look_ups_not_listed", "numbers": {"more": 2}, "names": {}}],
}
RANK: dict[str, Any] = {
    "rank": 0, "local_rank": 0, "host": "a", "device": "cpu", "status": "pass", "samples": [0.1, 0.2, 0.3],
    "peak": 2_000_000_000, "own": [0.1, 0.1], "communication": [0.5, 0.5], "cautions": [{"kind": "unused_parameters", "numbers": {"parameters": 2}, "names": {}}],
}  # fmt: skip
FAILED_RANK: dict[str, Any] = {
    "rank": 0, "status": "fail_to_run", "cause": "own", "phase": "run", "iteration": 3, "message": "m", "traceback": "t",
}  # fmt: skip


def case_of(probe: str, benchmark: str = "it", further: tuple[tuple[str, str], ...] = ()) -> Case:
    return Case(benchmark, probe, "bench", Variant("cpu", "none", "inference", "float32", None, 4, further))


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[Outcome]]]:
    """Measures cases in workers that are scripts, with everything else as in a run."""
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "kept"))
    script: list[Callable[[MeasureJob], Script]] = []
    with (
        using_executor(FakeExecutor(lambda job: script[-1](job))),  # noqa: PLW0108  (the last one, at that time)
        Session("fork", "cold", lambda _: None) as session,
    ):
        os.makedirs(os.path.join(session.template, "cache"))
        session.start_workers([])

        def call(answer: Callable[[MeasureJob], Script], *cases: Case, **settings: Any) -> list[Outcome]:  # noqa: ANN401  (as the record has them)
            script.append(answer)
            told = Settings({"bench": SOURCE}, threads=1, **settings)
            supervisor = session.supervisor(told, WorkerLimits(60.0), Onlooker())
            outcomes = list(supervisor.execute(cases))
            assert {outcome.case for outcome in outcomes} == set(cases)
            return outcomes

        yield call


def answering(*messages: Any) -> Callable[[MeasureJob], Script]:  # noqa: ANN401  (any JSON)
    """Workers that send these, whatever their job is; the benchmark ``good`` is measured as it should be."""

    def answer(job: MeasureJob) -> Script:
        if job.benchmark == "good":
            yield from passes()
            return 0
        yield TurnWanted()
        for message in messages:
            yield as_line(message)
        return 0

    return answer


def read_back(outcomes: list[Outcome]) -> list[Outcome]:
    """Outcomes as they are read from the run file that they are written to."""
    cases = tuple(outcome.case for outcome in outcomes)
    return list(decode_run("run.jsonl", encode_run(Run("id", cases, tuple(outcomes)))).run.outcomes)


def result_with(**extra: object) -> dict[str, Any]:
    return {"result": {**RESULT, "failure": None, "extra": extra}}


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (result_with(cautions=5), "result.extra: unknown field 'cautions'"),
        ({"result": {**RESULT, "cautions": 5}}, "result.cautions: expected a list, found 5"),
        ({"result": {**RESULT, "cautions": [5]}}, "result.cautions[0]: expected an object, found 5"),
        (result_with(graph_breaks=[1]), "result.extra.graph_breaks[0]: expected an object, found 1"),
        (result_with(phases=5), "result.extra.phases: expected an object, found 5"),
        (result_with(other=5), "result.extra: unknown field 'other'"),
        ({"result": {"status": "pass"}}, "result: the field 'measurements' is missing"),
        ({"result": 5}, "result: expected an object, found 5"),
        ({"error": 5}, "error: expected an object, found 5"),
    ],
)
@pytest.mark.parametrize("trials", [1, 2])
def test_an_answer_that_does_not_fit_ends_its_own_case_and_no_other(
    measure: Callable[..., list[Outcome]],
    message: Any,  # noqa: ANN401  (any JSON)
    problem: str,
    trials: int,
) -> None:
    bad, good = measure(
        answering(message), case_of("performance"), case_of("performance", "good"), trials=trials
    )
    assert bad.status == "worker_died"
    assert bad.failure is not None
    assert bad.failure.message.startswith("the worker's reply is invalid")
    assert problem in bad.failure.message
    assert good.status == "pass"
    assert read_back([bad, good])[0].status == "worker_died"


@pytest.mark.parametrize(
    "extra", [{"offers": 5}, {"phases": 5}, {"look_ups": {"x": 5}}, {"events": [5]}, {"artifacts": []}]
)
def test_a_scenario_whose_answer_does_not_fit_fails(
    measure: Callable[..., list[Outcome]], extra: dict[str, Any]
) -> None:
    answer = {"result": {**CACHED, "extra": extra}}
    (outcome,) = measure(answering(answer), case_of("compile_cache"))
    assert outcome.status == "worker_died"
    assert outcome.failure is not None
    assert outcome.failure.message.startswith("in the cold scenario: the worker's reply is invalid")
    assert next(iter(extra)) in outcome.failure.message


def test_the_deepest_call_tree_of_a_profile_arrives(measure: Callable[..., list[Outcome]]) -> None:
    tree: list[Any] = ["leaf", 1, []]
    for _ in range(DEEPEST_CALLS + 1):
        tree = ["call", 1, [tree]]
    profile = {"counter": "python", "unit": "calls", "stacks": {"unit": "calls", "tree": tree}}
    result = Result("pass", details=CaseDetails(profile=profile))
    (outcome,) = read_back(
        measure(answering({"result": to_json(make_reply(result, None))}), case_of("instructions"))
    )
    assert outcome.status == "pass"
    assert outcome.details is not None
    assert outcome.details.profile == profile


def round_with(*reports: Any) -> Callable[[MeasureJob], Script]:  # noqa: ANN401  (any JSON)
    """A round whose ranks leave these reports."""

    def answer(job: MeasureJob) -> Script:
        assert job.round is not None
        for rank, report in enumerate(reports):
            Path(report_path(job.round.files, rank)).write_bytes(as_line(report))
        yield CaseReply("pass", (), CaseDetails(duration=1.0))
        return 0

    return answer


ROUND = case_of("scaling", further=axes_of("ddp", 2, "gloo"))


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        ({}, "the report of rank 1: the field 'rank' is missing"),
        ([5], "the report of rank 1: expected an object, found a list of 1"),
        (
            {**RANK, "rank": 1, "samples": [0.0]},
            "the report of rank 1.samples[0]: expected at least 1e-09, found 0.0",
        ),
        ({**RANK, "rank": 1, "samples": []}, "samples: expected at least one"),
        (RANK, "it states rank 0"),
    ],
)
def test_a_rank_whose_report_does_not_fit_is_at_fault(
    measure: Callable[..., list[Outcome]],
    report: Any,  # noqa: ANN401  (any JSON)
    problem: str,
) -> None:
    (outcome,) = measure(round_with(RANK, report), ROUND)
    assert outcome.status == "worker_died"
    assert outcome.failure is not None
    assert outcome.failure.message.startswith("rank 1 on ")
    assert problem in outcome.failure.message


def play(answers: list[Callable[[], Script]], monkeypatch: pytest.MonkeyPatch, seed: int = 1) -> Contest:
    """One pair of workers that are scripts, and the contest after it."""
    monkeypatch.setattr(turns, "LONGEST_PAIR", 0.0)
    case = case_of("performance")
    job = make_job(case, Settings({"bench": SOURCE}), "fork")

    def starter(answer: Callable[[], Script]) -> Callable[[], PairWorker]:
        return lambda: PairWorker(case, FakeLauncher("fork", lambda _: answer()), job, WorkerLimits(60.0))

    starts = [starter(answer) for answer in answers]
    played = measure_pair(starts, random.Random(seed), case, Onlooker())  # noqa: S311
    contest = Contest(case, (case, case), 0, AbSettings())
    contest.take(played)
    read_back([contest.outcome(0, "")])
    read_back([contest.outcome(1, "")])
    assert contest.effect is None or math.isfinite(contest.effect.ratio)
    return contest


def player(ready: Any, took: Any, result: Any) -> Callable[[], Script]:  # noqa: ANN401  (any JSON)
    """A worker of a pair that says this when it is ready, after each turn and in the end; it waits for an order wherever the parent understands it."""

    def say(message: Any) -> Generator[Step, Order | None, Order | None]:  # noqa: ANN401  (any JSON)
        reply = decode_reply(json.loads(as_line(message))) if isinstance(message, dict) else None
        if isinstance(reply, TurnReady | TurnTaken):
            return (yield reply)
        yield as_line(message)
        return None

    def script() -> Script:
        order = yield from say(ready)
        while isinstance(order, MakeCalls) and order.go:
            order = yield from say(took)
        yield as_line(result)
        return 0

    return script


GOOD_PLAYER = player({"each": 1e6}, {"took": 1e6}, {"result": {**RESULT, "failure": None}})


@pytest.mark.parametrize(
    "ready",
    [{"each": 0.001, "from_elsewhere": 5}, {"each": 1e-320}, {"each": 1e300}, {"each": True}, {"each": None}],
)
def test_a_worker_of_a_pair_whose_answer_does_not_fit_fails_alone(
    ready: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = play([GOOD_PLAYER, player(ready, None, None)], monkeypatch)
    assert contest.outcome(0, "").status == "pass"
    contest.take(turns.PairResult(((), ()), contest._last))  # type: ignore[arg-type]
    assert contest.verdict == "regression"
    assert "B failed: worker_died: the worker's reply is invalid" in contest.reason


def survey_with(messages: Callable[[SurveyJob], list[Any]]) -> FakeExecutor:
    """Workers that answer a survey with these messages."""

    class Surveyed(FakeExecutor):
        def _answer(self, job: Job) -> Script:
            if not isinstance(job, SurveyJob):
                return super()._answer(job)
            return self._lines(job)

        def _lines(self, job: SurveyJob) -> Script:
            for message in messages(job):
                yield as_line(message)
            return 0

    return Surveyed(lambda _: passes())


REQUEST = PlanRequest(
    Targets({"bench": SOURCE}),
    Axes(("performance",), ()),
    Selection(),
    Settings({"bench": SOURCE}),
)


def plan_with(messages: Callable[[SurveyJob], list[Any]]) -> Run:
    """What is planned after a survey that was answered so."""
    with using_executor(survey_with(messages)), Session("fork", "cold", lambda _: None) as session:
        session.start_workers([])
        return prepare_run(REQUEST, session)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"survey": 5}, "survey: expected an object, found 5"),
        ({"survey": {}}, "survey: the field 'sources' is missing"),
        ({"error": 5}, "error: expected an object, found 5"),
        ({"error": {"message": "", "is_of_torch": 1}}, "error.is_of_torch: expected true or false, found 1"),
    ],
)
def test_a_survey_that_does_not_fit_is_an_error_of_the_file_that_was_being_imported(
    message: Any,  # noqa: ANN401  (any JSON)
    problem: str,
) -> None:
    with pytest.raises(TorchstoneError) as raised:
        plan_with(lambda _: [{"looking_at": SOURCE.path}, message])
    assert str(raised.value).startswith("/nowhere/bench.py: the worker's reply is invalid")
    assert problem in str(raised.value)


def test_a_speedup_of_nothing_is_shown(
    measure: Callable[..., list[Outcome]], capsys: pytest.CaptureFixture[str]
) -> None:
    measured = {"metric": "speedup", "samples": [0.0], "extra": {"interval": [0.5, 1.5]}}
    answer = {"result": {"status": "pass", "measurements": [measured], "extra": {}}}
    (outcome,) = measure(answering(answer), case_of("performance"))
    show(outcome)
    assert "0.0x (0.5 to 1.5)" in capsys.readouterr().out


# --- and whatever else a model may think of


def each_seed(count: int) -> Iterator[random.Random]:
    for seed in range(count):
        yield random.Random(seed)  # noqa: S311


counts = pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])


@counts
def test_any_answer_of_trials_becomes_outcomes_that_can_be_written_read_and_shown(
    measure: Callable[..., list[Outcome]], count: int
) -> None:
    statuses = set()
    for chance in each_seed(count):
        answer = lambda job, chance=chance: answering(hostile(chance, {"result": RESULT}))(job)  # noqa: E731
        (outcome,) = measure(answer, case_of("performance"), trials=chance.choice((1, 2, 3)))
        (again,) = read_back([outcome])
        assert again.status == outcome.status
        statuses.add(outcome.status)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            show(outcome)
    assert {"pass", "worker_died"} <= statuses


@counts
def test_any_answers_of_scenarios_add_up_to_an_outcome(
    measure: Callable[..., list[Outcome]], count: int
) -> None:
    statuses = set()
    for chance in each_seed(count):

        def answer(job: MeasureJob, chance: random.Random = chance) -> Script:
            assert job.scenario is not None
            if job.scenario.save:
                Path(job.scenario.save).write_bytes(b"artifacts")
            real = {"result": CACHED}
            yield as_line(real if chance.random() < 0.5 else hostile(chance, real))
            return 0

        scenarios = ("cold", "warm", "portable", "precompile")
        (outcome,) = measure(
            answer, case_of("compile_cache"), scenarios=scenarios, repeat=chance.choice((1, 2))
        )
        read_back([outcome])
        statuses.add(outcome.status)
    assert {"pass", "worker_died"} <= statuses


@counts
def test_any_reports_of_ranks_add_up_to_an_outcome(measure: Callable[..., list[Outcome]], count: int) -> None:
    statuses = set()
    done: list[Outcome] = []
    for chance in each_seed(count):
        kinds = [chance.choice((RANK, RANK, FAILED_RANK)) | {"rank": rank} for rank in (0, 1)]
        reports = [each if chance.random() < 0.5 else hostile(chance, each) for each in kinds]
        (outcome,) = measure(round_with(*reports), ROUND)
        read_back([with_efficiency(outcome, done[-1:], [ROUND])])
        statuses.add(outcome.status)
        done.append(outcome)
        answer = hostile(
            chance, {"reports": [kinds[1]], "progress": {"1": ["run", 3]}, "exits": {"1": -9}, "problem": ""}
        )
        here = Host("a", (0,), ())
        read_back(
            [
                conclude(
                    ROUND,
                    [here, decode_host(json.loads(as_line(answer)), "b", (1,))],
                    outcome,
                    RoundSettings(),
                )
            ]
        )
    assert {"pass", "worker_died", "fail_to_run"} <= statuses


@counts
def test_any_answers_of_a_pair_come_to_an_end(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = set()
    for seed, chance in enumerate(each_seed(count)):
        real = {"each": 1e6, "from_elsewhere": [], "imported": ["a.py"]}
        ready = real if chance.random() < 0.5 else hostile(chance, real)
        took: Any = {"took": chance.choice((1e-6, 1e6, 1e18))}
        took = took if chance.random() < 0.5 else hostile(chance, took)
        result = hostile(chance, {"result": {**RESULT, "failure": None}})
        contest = play([GOOD_PLAYER, player(ready, took, result)], monkeypatch, seed)
        ends.add(contest.pairs)
    assert ends == {0, 1}


@counts
def test_any_survey_is_planned_or_refused(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path))
    found = (
        BenchmarkFound("one", 4, 2, ("inference", "training"), ("batch_size",)),
        BenchmarkFound("two", 8, modes=("inference",)),
    )
    ends = set()
    with Session("fork", "cold", lambda _: None) as template:  # what does not change is looked for once
        monkeypatch.setattr(
            "torchstone.worker.worker_environment.template_folder", lambda **_: template.template
        )
        for chance in each_seed(count):

            def messages(job: SurveyJob, chance: random.Random = chance) -> list[Any]:
                real = {"survey": to_json(survey_reply(job, found))}
                return [{"looking_at": SOURCE.path}, hostile(chance, real)]

            try:
                run = plan_with(messages)
            except TorchstoneError as error:
                ends.add(type(error).__name__)
                continue
            ends.add("planned")
            assert decode_run("run.jsonl", encode_run(run)).run.plan == run.plan
    assert {"planned", "InputError"} <= ends


@counts
def test_any_message_of_a_keeper_is_understood_or_passed_over(count: int) -> None:
    for chance in each_seed(count):
        real = chance.choice(
            ({"ready": 1.0, "notes": []}, {"broken": "x"}, {"exited": 5, "status": 0}, {"started": 7})
        )
        message = hostile(chance, real)
        if isinstance(message, dict):
            decode_keeper_reply(message)
