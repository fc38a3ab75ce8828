"""Run files of format 1, as torchstone wrote them, stay readable; what is read is written back as the present format."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.details.compile_cache_details import CacheMiss, ScenarioResult
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_details import AccuracyDetails, OutcomeDetails
from torchstone.core.details.round_details import RoundSettings
from torchstone.core.environments import fingerprint
from torchstone.core.errors import UsageError
from torchstone.core.records import Outcome, Run
from torchstone.core.run_file import FORMAT, decode_run, encode_run
from torchstone.core.vocabulary import Probe
from torchstone.gate.criteria import Criteria, criteria_of_run
from torchstone.measure.journal import reopen_journal

FOLDER = Path(__file__).parent / "run_files" / "format_1"
NAMES = ("ab_a", "ab_b", "failed", "probes", "rounds", "trials")


def read(name: str) -> Run:
    path = FOLDER / f"{name}.jsonl"
    reading = decode_run(path.name, path.read_text())
    assert reading.cautions == ()
    return reading.run


def outcome_of(run: Run, probe: Probe) -> Outcome:
    return next(outcome for outcome in run.outcomes if outcome.case.probe == probe)


def test_every_file_of_the_fixture_is_read() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(NAMES)
    assert all('"format":1' in (FOLDER / f"{name}.jsonl").read_text() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_back_is_of_the_present_format_and_says_the_same(name: str) -> None:
    run = read(name)
    text = encode_run(run)
    assert json.loads(text.partition("\n")[0])["format"] == FORMAT
    assert decode_run("again.jsonl", text).run == run


@pytest.mark.parametrize("name", NAMES)
def test_the_environment_has_the_fingerprint_that_it_had(name: str) -> None:
    environment = read(name).environment
    assert fingerprint(environment) == environment.fingerprint
    assert environment.versions["torch"] == "2.13.0+cpu"
    assert environment.rest == {}


def test_all_probes() -> None:
    run = read("probes")
    assert (run.settings.repeat, run.settings.counter, run.settings.threads) == (5, "python", 2)
    assert run.settings.sources == {"smoke": BenchmarkSource("suite", "smoke")}
    assert run.settings.rest == {}
    assert outcome_of(run, Probe.PERFORMANCE).value("eager_peak_mem") == 0.314937344
    assert outcome_of(run, Probe.ACCURACY).value("calls_captured") == 6
    cold = outcome_of(run, Probe.COMPILE_CACHE).measurements[0]
    assert (cold.metric, cold.trial_values[:2]) == ("cold_compile_seconds", (3.24077577, 3.171593513))
    assert outcome_of(run, Probe.INSTRUCTIONS).value("compile_time_python_calls") == 789582


def test_cautions_are_shown_as_they_were() -> None:
    first, second = outcome_of(read("probes"), Probe.PERFORMANCE).cautions
    assert {first.kind, second.kind} == {CautionKind.RECORDED}
    assert first.text.startswith("other work took the processor away 257 times a second, for 51% of the time")
    assert second.text == "only 5 pairs of calls were timed: too few for an interval"


def test_trials() -> None:
    measured = {each.metric: each for each in outcome_of(read("trials"), Probe.PERFORMANCE).measurements}
    assert [len(trial) for trial in measured["abs_latency"].trials] == [5, 5]


def test_rounds() -> None:
    run = read("rounds")
    assert (run.settings.layout, run.settings.ranks, run.settings.collective) == ((1, 2), (1, 2), "gloo")
    assert run.settings.rank_threads == 1
    assert run.outcomes[2].value("examples_per_second") == 314.4628501032685


def test_a_failure() -> None:
    passed, failed = read("failed").outcomes
    assert (passed.status, failed.status) == ("pass", "eager_fail_to_run")
    assert failed.failure is not None
    assert passed.capture is not None
    (graph_break,) = passed.capture.graph_breaks
    assert (graph_break.count, graph_break.source) == (1, "torch._dynamo.graph_break()")
    assert "graph_breaks" not in (passed.extra or {})
    assert (failed.failure.phase, failed.failure.message) == ("load", "ValueError: no weights")


def test_both_sides_of_a_comparison() -> None:
    a, b = read("ab_a"), read("ab_b")
    assert a.settings.pairing is not None
    assert b.settings.pairing is not None
    assert (a.settings.pairing.side, b.settings.pairing.side) == ("A", "B")
    assert a.settings.pairing.session == b.settings.pairing.session
    assert criteria_of_run(a.settings, "abs_latency") == Criteria(0.02, 0.0025, "lower", is_alone=True)
    assert criteria_of_run(a.settings, "speedup") is None
    assert len(a.outcomes[0].measurements[0].trials) == len(b.outcomes[0].measurements[0].trials) == 2


def test_details_that_are_stated_in_extra_become_fields() -> None:
    stated = {"counter": "python", "trials": [1, 1], "interval": "wide", "note": "cold"}
    measured = {"metric": "speedup", "samples": [1.25, 1.5], "extra": stated}
    case = {"benchmark": "a", "probe": "performance"}
    head = {"kind": "run", "format": 1, "id": "r", "plan": [case]}
    outcome = {"case": case, "status": "pass", "measurements": [measured]}
    lines = (head, {"kind": "outcome", "outcome": outcome}, {"kind": "end", "outcomes": 1})
    run = decode_run("r.jsonl", "".join(json.dumps(line) + "\n" for line in lines)).run
    (found,) = run.outcomes[0].measurements
    assert found.details == MeasurementDetails(counter="python", trials=(1, 1))
    assert found.trials == ((1.25,), (1.5,))
    assert found.extra == {"interval": "wide", "note": "cold"}
    assert decode_run("r.jsonl", encode_run(run)).run == run


@pytest.mark.parametrize("cut", [0, 100])
def test_a_resumed_file_becomes_one_of_the_present_format(tmp_path: Path, cut: int) -> None:
    head, *outcomes = (FOLDER / "trials.jsonl").read_text().splitlines(keepends=True)
    assert len(outcomes) >= 2
    path = tmp_path / "cut.jsonl"
    path.write_text(head + outcomes[0] + outcomes[1][:cut])
    before = decode_run(str(path), path.read_text()).run
    journal, reading = reopen_journal(str(path))
    journal.close()
    assert reading.run == before
    assert json.loads(path.read_text().partition("\n")[0])["format"] == FORMAT
    assert decode_run(str(path), path.read_text()).run == before
    with closing(reopen_journal(str(path))[0]), pytest.raises(UsageError, match="another run is writing"):
        reopen_journal(str(path))


def test_a_finished_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    path.write_text(text := (FOLDER / "trials.jsonl").read_text())
    journal, reading = reopen_journal(str(path))
    journal.close()
    assert reading.run.finished
    assert path.read_text() == text


@pytest.mark.parametrize("name", NAMES)
def test_everything_that_torchstone_recorded_of_an_outcome_is_a_field(name: str) -> None:
    lines = map(json.loads, (FOLDER / f"{name}.jsonl").read_text().splitlines()[1:-1])
    for outcome, line in zip(read(name).outcomes, lines, strict=True):
        recorded = {
            key: value
            for key, value in line["outcome"]["extra"].items()
            if key not in {"cautions", "graph_breaks", "recompile_reasons"} and value != ""
        }
        assert outcome.extra is None
        assert json.loads(json.dumps(outcome.facts())) == recorded


def test_details_of_probes() -> None:
    run = read("probes")
    accuracy, cache = (outcome_of(run, probe).details for probe in (Probe.ACCURACY, Probe.COMPILE_CACHE))
    assert accuracy is not None
    assert accuracy.accuracy == AccuracyDetails(0.0001, cosine=False, reference="float64")
    assert cache is not None
    assert cache.compile_cache is not None
    assert cache.compile_cache.scenarios["warm"] == ScenarioResult("pass")
    assert cache.compile_cache.probing_seconds == 89.051
    first = cache.compile_cache.not_warm[0]
    reason = "what inductor wrote was compiled again, in 1.9 s (cold: 2.0 s): it is not among what was saved"
    assert first == CacheMiss(reason, "portable", 1, "all", "native", "miss")
    rounds = read("rounds").outcomes[2].details
    assert rounds is not None
    assert rounds.scaling is not None
    assert isinstance(rounds.scaling.round, RoundSettings)
    assert [rank.rank for rank in rounds.scaling.ranks] == [0, 1]


def test_facts_of_an_outcome_that_have_no_field_or_another_form_stay_in_extra() -> None:
    case = {"benchmark": "a", "probe": "performance"}
    stated = {"duration": 2, "phases": "many", "ranks": [{"rank": 0}, 5], "mine": {"a": 1}, "log": "hello"}
    head = {"kind": "run", "format": 2, "id": "r", "plan": [case]}
    outcome = {"case": case, "status": "pass", "extra": stated}
    lines = (head, {"kind": "outcome", "outcome": outcome}, {"kind": "end", "outcomes": 1})
    run = decode_run("r.jsonl", "".join(json.dumps(line) + "\n" for line in lines)).run
    (found,) = run.outcomes
    assert found.details == OutcomeDetails(duration=2.0, log="hello")
    assert found.extra == {"phases": "many", "ranks": [{"rank": 0}, 5], "mine": {"a": 1}}
    assert decode_run("r.jsonl", encode_run(run)).run == run
