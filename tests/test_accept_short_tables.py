"""Baselines that ``accept`` starts: few digits, only what rules judge, and the evidence behind noisy numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import torchstone as ts
from comparison_files import case_of, passed, write_run
from conftest import Command, WriteFile
from sample_files import read_as
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Measurement, Outcome, Reading, run_of
from torchstone.core.vocabulary import METRICS, Verdict
from torchstone.gate.rules import RuleBook

START = ("--baseline", "e.csv", "--add-new", "--yes")
THREE = MeasurementDetails(start="fork", trials=(1, 1, 1))


def timed(name: str, speedups: tuple[float, ...], latencies: tuple[float, ...]) -> Outcome:
    details = MeasurementDetails(start="fork", trials=(1,) * len(speedups))
    counts = MeasurementDetails(trials=(1,) * len(speedups))
    return passed(
        name,
        Measurement("speedup", speedups, details),
        Measurement("abs_latency", latencies, details),
        Measurement("eager_latency", latencies, details),
        Measurement("graph_breaks", (1,) * len(speedups), counts),
    )


OLD = timed("a", (1.5, 1.53, 1.56), (3.0, 3.0, 3.3))


def test_a_new_table_has_four_digits_spreads_trials_and_only_what_is_judged(
    torchstone: Command, tmp_path: Path
) -> None:
    run = write_run(tmp_path, "run.jsonl", [OLD, timed("b", (1.23456789,), (0.000123456,))])
    assert torchstone("accept", run, *START).code == 0
    assert Path("e.csv").read_text() == (
        "name,speedup,speedup_spread,abs_latency,abs_latency_spread,graph_breaks,trials\n"
        "a,1.53,0.02,3.097,0.055,1,3\n"
        "b,1.235,,0.0001235,,1,1\n"
    )
    ran = torchstone("check", run, "--baseline", "e.csv", "--policy", "lenient")
    assert (ran.code, "regression" in ran.out) == (0, False)
    assert "nothing to change" in torchstone("accept", run, "--baseline", "e.csv", "--yes").out


def test_what_is_asked_for_is_in_the_table_though_no_rule_judges_it(
    torchstone: Command, tmp_path: Path
) -> None:
    run = write_run(tmp_path, "run.jsonl", [OLD])
    assert torchstone("accept", run, *START, "--metric", "eager_latency").code == 0
    assert Path("e.csv").read_text() == (
        "name,eager_latency,eager_latency_spread,trials\na,3.096840346369101,0.055,3\n"
    )


def test_numbers_of_files_that_state_no_trials_have_no_evidence(
    torchstone: Command, write: WriteFile
) -> None:
    write("r.csv", "dev,name,batch_size,speedup,abs_latency\ncpu,a,1,1.234567,3.3\n")
    assert torchstone("accept", "r.csv", *START).code == 0
    assert Path("e.csv").read_text() == "name,speedup,abs_latency\na,1.235,3.3\n"


def test_a_changed_number_brings_its_evidence_and_nothing_else_changes(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    text = (
        "# why: see the wiki\r\n"
        "name,abs_latency,abs_latency_spread,speedup,speedup_spread,trials\r\n"
        '"a", 3.000 ,0.0550,1.53,0.02,5\r\n'
        "b,7.0,0.01,2.00,0.01,5\r\n"
    )
    write("e.csv", text)
    slower = timed("a", (1.5, 1.53, 1.56), (4.0, 4.04, 4.08))
    run = write_run(tmp_path, "run.jsonl", [slower])
    assert torchstone("accept", run, "--baseline", "e.csv", "--yes").code == 0
    with open("e.csv", newline="") as file:
        changed = file.read()
    assert changed == text.replace('"a", 3.000 ,0.0550,1.53,0.02,5', '"a", 4.04 ,0.0099,1.53,0.02,3')
    both = write_run(tmp_path, "both.jsonl", [timed("a", (9.0, 9.09), (1.0, 1.01))])
    assert torchstone("accept", both, "--baseline", "e.csv", "--yes").code == 0
    assert '"a", 1.005 ,0.007,9.045,0.007,2\n' in Path("e.csv").read_text()


def test_a_changed_number_without_evidence_loses_that_of_the_old_one(
    torchstone: Command, write: WriteFile
) -> None:
    write("e.csv", "name,speedup,speedup_spread,trials\na,1.53,0.02,5\n")
    write("r.csv", "dev,name,batch_size,speedup\ncpu,a,1,2.345678\n")
    assert torchstone("accept", "r.csv", "--baseline", "e.csv", "--yes").code == 0
    assert Path("e.csv").read_text() == "name,speedup,speedup_spread,trials\na,2.346,,\n"


def test_a_row_is_added_to_such_a_table_in_the_same_form(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("e.csv", "name,speedup,speedup_spread,trials\na,1.53,0.02,5\n")
    run = write_run(tmp_path, "run.jsonl", [OLD, timed("b", (1.23456, 1.23456), (1.0, 1.0))])
    assert torchstone("accept", run, *START).code == 0
    assert Path("e.csv").read_text().splitlines()[1:] == ["a,1.53,0.02,5", "b,1.235,0,2"]


def test_tables_of_others_keep_their_precision(torchstone: Command, write: WriteFile, tmp_path: Path) -> None:
    write("e.csv", "name,speedup\na,1.1\n")
    run = write_run(
        tmp_path, "run.jsonl", [timed("a", (1.5345678,), (1.0,)), timed("b", (1.2345678,), (1.0,))]
    )
    assert torchstone("accept", run, *START).code == 0
    assert Path("e.csv").read_text() == "name,speedup\na,1.534568\nb,1.2345678\n"


def test_instruction_counts_of_a_new_table_are_exact(torchstone: Command, write: WriteFile) -> None:
    write("r.csv", "add,instruction_count,123456789\n")
    assert torchstone("accept", "r.csv", *START).code == 0
    assert Path("e.csv").read_text() == "add,instruction_count,123456789,0.015\n"


def test_a_run_file_as_baseline_keeps_spread_and_trials_of_a_changed_number(
    torchstone: Command, tmp_path: Path
) -> None:
    base = write_run(tmp_path, "base.jsonl", [OLD])
    run = write_run(tmp_path, "run.jsonl", [timed("a", (1.5, 1.53, 1.56), (6.0, 6.0, 6.6))])
    assert torchstone("accept", run, "--baseline", base, "--yes").code == 0
    (outcome,) = read_as("run", Path(base).read_text()).run.outcomes
    speedup, latency = outcome.measurements[:2]
    assert speedup == OLD.measurements[0]
    assert latency.samples == pytest.approx((6.193681,))
    assert latency.details is not None
    assert (latency.details.trials, latency.details.spread_trials) == ((), 3)
    assert latency.details.spread == pytest.approx(0.055, abs=0.001)


def test_what_such_a_table_states_is_read() -> None:
    text = "name,speedup,speedup_spread,graph_breaks,trials\na,1.5,0.012,3,5\nb,1.5,,3,\n"
    first, second = read_as("expected", text).run.outcomes
    assert first.measurements[0].details == MeasurementDetails(spread=0.012, spread_trials=5)
    assert first.measurements[1].details is None
    assert second.measurements[0].details is None


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("name,speedup,speedup_spread\na,1.5,x\n", "speedup_spread", "'x' is not a number"),
        ("name,speedup,speedup_spread\na,1.5,nan\n", "speedup_spread", "not a finite number"),
        ("name,speedup,speedup_spread\na,1.5,-0.1\n", "speedup_spread", "negative"),
        ("name,speedup,speedup_spread\na,1.5,1e9\n", "speedup_spread", "too large"),
        ("name,speedup,speedup_spread\na,,0.1\n", "speedup_spread", "a spread without a value"),
        (
            "name,speedup,abs_latency_spread\na,1,0.1\n",
            "abs_latency_spread",
            "without a column 'abs_latency'",
        ),
        ("name,graph_breaks,graph_breaks_spread\na,1,0.1\n", "graph_breaks_spread", "does not vary"),
        ("name,speedup,trials\na,1.5,0\n", "trials", "no trials"),
        ("name,speedup,trials\na,1.5,2.5\n", "trials", "not a whole number"),
        ("name,speedup,trials\na,1.5,many\n", "trials", "is not a number"),
        ("name,speedup,speedup_spread,trials\na,1.5,0.1,1\n", "speedup_spread", "a spread of one trial"),
        ("name,trials\na,3\n", "name", "no column of expected values"),
    ],
)
def test_bad_evidence_is_refused_with_its_place(
    text: str, column: str, problem: str, torchstone: Command, write: WriteFile
) -> None:
    write("r.csv", "dev,name,batch_size,speedup\ncpu,a,1,2.5\n")
    for command in ("check", "accept"):
        ran = torchstone(command, "r.csv", "--baseline", write("e.csv", text))
        assert (ran.code, ran.out) == (2, "")
        assert f"column {column}: " in ran.err
        assert problem in ran.err
        assert ran.err.startswith("error: e.csv:")


JUDGED = {
    probe: [
        name
        for name, metric in METRICS.items()
        if probe in metric.probes and name != "accuracy" and not RuleBook().ignores(name, Case("a", probe))
    ]
    for probe in ("performance", "compile_cache", "instructions")
}


@st.composite
def measured_cases(draw: st.DrawFn) -> Outcome:
    probe = draw(st.sampled_from(list(JUDGED)))
    trials = draw(st.integers(1, 3))
    numbers = []
    for name in draw(st.sets(st.sampled_from(JUDGED[probe]), min_size=1)):
        whole = METRICS[name].unit in {"calls", "graphs", "breaks", "frames", "compiles", "instructions"}
        values = st.integers(1, 10**12) if whole else st.floats(1e-9, 1e12)
        samples = draw(st.lists(values, min_size=trials, max_size=trials))
        samples = samples[:1] * trials if whole else samples
        numbers.append(Measurement(name, tuple(samples), MeasurementDetails("fork", trials=(1,) * trials)))
    return Outcome(case_of("a", probe), "pass", tuple(numbers))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(outcome=measured_cases())
def test_what_was_just_accepted_is_green(outcome: Outcome, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("accepted")
    results = Reading("run.jsonl", "run", run_of("run.jsonl", (outcome,)), (2,))
    proposal = ts.accept(results, str(folder / "e.csv"), add_new=True)
    if not proposal.adopted:
        return
    proposal.write()
    judged = ts.check(results, baselines=str(folder / "e.csv"))
    # Trials that differ by orders of magnitude decide nothing, but are never worse or better than their own mean.
    allowed = {Verdict.PASS, Verdict.INVALID, Verdict.INCONCLUSIVE}
    if all(len(each.trials) == 1 for each in outcome.measurements):
        allowed -= {Verdict.INCONCLUSIVE}
    wrong = [row for row in judged.rows if row.verdict not in allowed]
    assert not wrong
    assert not ts.accept(results, str(folder / "e.csv")).adopted
