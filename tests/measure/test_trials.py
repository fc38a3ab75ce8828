"""A case in several trials: a process for each, one outcome of all."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from live_processes import run_torchstone
from stated_facts import measurement_of
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import make_caution, recorded
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome
from torchstone.formats import read_file
from torchstone.measure.procedures.trials import join_trials

CASE = Case("net", "performance")
BENCH = """
import json, os, torch, torchstone

@torchstone.benchmark
def noting():
    with open("pids.txt", "a") as file:
        file.write(json.dumps([os.getpid(), sorted(os.listdir(os.environ["TORCHINDUCTOR_CACHE_DIR"]))]) + "\\n")
    return torch.nn.Linear(4, 4), (torch.ones(2, 4),)

@torchstone.benchmark
def dying():
    with open("dying.txt", "a") as file:
        file.write("x")
    if os.path.getsize("dying.txt") == 2:
        os._exit(7)
    return torch.nn.Linear(4, 4), (torch.ones(2, 4),)
"""


def passed(**metrics: list[float]) -> Outcome:
    measurements = tuple(Measurement(name, tuple(samples)) for name, samples in metrics.items())
    return Outcome(CASE, "pass", measurements, details=OutcomeDetails(duration=1.5, phases={"run": 1.0}))


def test_the_samples_of_all_trials_are_kept_and_which_trial_they_are_of() -> None:
    joined = join_trials([passed(abs_latency=[1.0, 3.0, 2.0]), passed(abs_latency=[5.0])])
    (latency,) = joined.measurements
    assert latency.trials == ((1.0, 3.0, 2.0), (5.0,))
    assert latency.trial_values == (2.0, 5.0)
    assert joined.details == OutcomeDetails(duration=3.0, phases={"run": 2.0})


def test_one_trial_is_left_as_it_is() -> None:
    alone = passed(abs_latency=[1.0])
    assert join_trials([alone]) is alone


@pytest.mark.parametrize("status", ["pas", "a", ""])
def test_a_status_that_is_only_a_part_of_pass_has_not_passed(status: str) -> None:
    last = structs.replace(passed(abs_latency=[9.0]), status=status)
    joined = join_trials([passed(abs_latency=[1.0]), passed(abs_latency=[2.0]), last])
    assert joined.measurements[0].samples == (1.0, 2.0)
    assert joined.status == status


def test_cautions_of_trials_that_differ_only_in_counts_are_one() -> None:
    busy = [
        make_caution(CautionKind.BUSY_MACHINE, rate=rate, share=share)
        for rate, share in ((20, 0.12), (7, 0.31))
    ]
    trials = [
        structs.replace(passed(abs_latency=[1.0]), cautions=(each,)) for each in (*busy, recorded("another"))
    ]
    first, second = join_trials(trials).cautions
    assert (first.numbers, second.text) == ({"rate": (7, 20), "share": (0.12, 0.31)}, "another")
    assert "took the processor away 7 to 20 times a second, for 12 to 31% of the time" in first.text


def test_a_metric_that_a_trial_lacks_is_left_out() -> None:
    joined = join_trials([passed(abs_latency=[1.0], speedup=[2.0]), passed(abs_latency=[1.0])])
    assert [each.metric for each in joined.measurements] == ["abs_latency"]


def test_a_trial_that_fails_is_the_cases_status_and_what_was_measured_before_is_kept() -> None:
    failed = Outcome(
        CASE, "timeout", failure=Failure("run", "too long"), details=OutcomeDetails(duration=9.0)
    )
    joined = join_trials([passed(abs_latency=[1.0]), passed(abs_latency=[2.0]), failed])
    assert (joined.status, joined.failure) == ("timeout", failed.failure)
    assert joined.measurements[0].trial_values == (1.0, 2.0)
    assert "the last of 3 trials ended with timeout" in joined.cautions[0].text


@given(st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=9))
def test_the_interval_over_trials_holds_the_value(values: list[float]) -> None:
    trials = [
        Outcome(
            CASE, "pass", (Measurement("speedup", (value,), MeasurementDetails(interval=(0, 9), pairs=20)),)
        )
        for value in values
    ]
    (speedup,) = join_trials(trials).measurements
    assert speedup.details
    assert speedup.details.interval
    low, high = speedup.details.interval
    assert 0 <= low <= speedup.value <= high < math.inf
    assert speedup.details.pairs is None


@pytest.mark.parametrize("trials", [["x"], [1, 1], [3, 0], "2,1", None, [True, 2]])
def test_what_says_nothing_that_fits_about_trials_is_one_trial(trials: object) -> None:
    found = measurement_of("abs_latency", (1.0, 2.0, 4.0), {"trials": trials})
    assert found.trials == ((1.0, 2.0, 4.0),)


@pytest.mark.slow
def test_every_trial_is_a_process_of_its_own_with_a_cold_cache(tmp_path: Path) -> None:
    (tmp_path / "bench_mine.py").write_text(BENCH)
    done = run_torchstone(
        tmp_path,
        "run",
        "bench_mine.py",
        "--probe",
        "performance",
        "--trials",
        "3",
        "--repeat",
        "20",
        "-o",
        "r.jsonl",
    )
    assert done.returncode == 1, done.stderr  # for one of the two fails
    notes = [json.loads(line) for line in (tmp_path / "pids.txt").read_text().splitlines()][-3:]
    assert len({pid for pid, _ in notes}) == 3
    assert len({tuple(files) for _, files in notes}) == 1
    outcomes = {each.case.benchmark: each for each in read_file(str(tmp_path / "r.jsonl")).run.outcomes}
    assert all(len(each.trials) == 3 for each in outcomes["noting"].measurements)
    assert outcomes["dying"].status == "worker_died"
    assert all(len(each.trials) == 1 for each in outcomes["dying"].measurements)
