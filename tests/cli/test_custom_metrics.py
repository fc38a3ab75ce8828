"""Metrics that benchmarks report themselves, through the commands: run, trials, check, compare, accept, report, export, list."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import torchstone as public
from conftest import Command
from torchstone.core.records import Outcome
from torchstone.measure.executors.fake import FakeExecutor, Script
from torchstone.measure.executors.selection import using_executor
from torchstone.worker.protocol.jobs import MeasureJob
from torchstone.worker.protocol.replies import (
    BenchmarkFound,
    CaseDetails,
    CaseReply,
    Measured,
    MeasuredDetails,
)

RATE = MeasuredDetails(better="higher", unit="1/s", reported="result")
COUNT = MeasuredDetails(better="equal", reported="build")
DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = Path(__file__).parents[2] / "examples" / "bench_tokens.py"


def reports(rate: float, parameters: int = 100, details: MeasuredDetails = RATE) -> Script:
    """A worker whose benchmark reports a rate and a count."""
    measured = (
        Measured("speedup", (1.5,), MeasuredDetails(pairs=20, interval=(1.49, 1.51), confidence=0.95)),
        Measured("tokens_per_second", (rate, rate * 1.01, rate * 0.99), details),
        Measured("parameters", (parameters,), COUNT),
    )
    yield CaseReply("pass", measured, CaseDetails(duration=1.0))
    return 0


Runner = Callable[..., str]


@pytest.fixture
def measured(torchstone: Command, tmp_path: Path) -> Runner:
    """Measure with the fake executor, into a file of this name."""
    (tmp_path / "bench_it.py").write_text("")

    def run(name: str, *rates: float, parameters: int = 100, details: MeasuredDetails = RATE) -> str:
        waiting = iter(rates)

        def script(_: MeasureJob) -> Script:
            return reports(next(waiting), parameters, details)

        found = BenchmarkFound("decode", 4, modes=("inference",), metrics="count_tokens")
        arguments = ("--probe", "performance", "--trials", str(len(rates)), "-o", name)
        with using_executor(FakeExecutor(script, [found])):
            assert torchstone("run", "bench_it.py", *arguments).code == 0
        return name

    return run


def outcome_in(path: Path) -> Outcome:
    return public.read(path).outcomes[0]


def test_the_run_file_keeps_every_trial_with_unit_and_direction(measured: Runner, tmp_path: Path) -> None:
    measured("run.jsonl", 1000.0, 1100.0, 900.0)
    rate = next(m for m in outcome_in(tmp_path / "run.jsonl").measurements if m.metric == "tokens_per_second")
    assert [len(trial) for trial in rate.trials] == [3, 3, 3]
    assert rate.details is not None
    assert (rate.details.better, rate.details.unit, rate.details.reported) == ("higher", "1/s", "result")
    assert rate.details.interval is not None
    assert rate.details.interval[0] < 1000 < rate.details.interval[1]


def test_check_judges_it_by_its_direction_without_a_rule(torchstone: Command, measured: Runner) -> None:
    base = measured("base.jsonl", 1000.0)
    slower, faster = measured("slower.jsonl", 800.0), measured("faster.jsonl", 1500.0)
    red = torchstone("check", slower, "--baseline", base)
    assert red.code == 1
    assert "tokens_per_second: 800 1/s, expected 1,000 1/s (-20.0%; 99% interval" in " ".join(red.out.split())
    assert "at least 0.87 x expected" in red.out
    better = torchstone("check", faster, "--baseline", base)
    assert "regression" not in better.out
    assert "improved 1" in better.out


def test_a_metric_that_must_be_equal_is_judged_as_a_count(torchstone: Command, measured: Runner) -> None:
    base, other = measured("base.jsonl", 1000.0), measured("other.jsonl", 1000.0, parameters=101)
    red = torchstone("check", other, "--baseline", base)
    assert red.code == 1
    assert "parameters: 101, expected 100 (+1.0%)" in red.out
    assert "exactly as expected" in red.out


def test_a_rule_of_the_user_applies_and_knows_the_direction(torchstone: Command, measured: Runner) -> None:
    base, slower = measured("base.jsonl", 1000.0), measured("slower.jsonl", 800.0)
    check = ("check", slower, "--baseline", base, "--rule")
    assert torchstone(*check, "tokens_per_second=ratio_floor:0.7").code == 0
    assert torchstone(*check, "tokens_per_second=ignore").code == 0
    by_margin = torchstone(*check, "tokens_per_second=margin:0.1")
    assert by_margin.code == 1
    assert "regression" in by_margin.out


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (MeasuredDetails(better="lower", unit="1/s", reported="result"), "with lower as better"),
        (MeasuredDetails(better="higher", unit="tokens/s", reported="result"), "measured in tokens/s"),
    ],
)
def test_another_unit_or_direction_is_not_comparable(
    torchstone: Command, measured: Runner, other: MeasuredDetails, why: str
) -> None:
    base, new = measured("base.jsonl", 1000.0), measured("new.jsonl", 1000.0, details=other)
    found = torchstone("check", new, "--baseline", base)
    assert found.code == 1
    assert "inconclusive" in found.out
    assert why in " ".join(found.out.split())


def test_compare_knows_unit_and_direction(torchstone: Command, measured: Runner) -> None:
    base = measured("base.jsonl", 1000.0, 1001.0, 1002.0, 1001.0, 1000.0)
    new = measured("new.jsonl", 500.0, 501.0, 502.0, 501.0, 500.0)
    found = torchstone("compare", base, new)
    assert found.code == 1
    assert "tokens_per_second: 500.8 1/s, was 1001 1/s" in " ".join(found.out.split())
    assert "regression" in found.out
    assert "regression" not in torchstone("compare", new, base).out


def test_a_table_of_expected_values_states_the_definition(
    torchstone: Command, measured: Runner, tmp_path: Path
) -> None:
    run, slower = measured("run.jsonl", 1000.0), measured("slower.jsonl", 800.0)
    assert torchstone("accept", run, "--baseline", "expected.csv", "--add-new", "--yes").code == 0
    header, row = (tmp_path / "expected.csv").read_text().splitlines()
    assert header.endswith("tokens_per_second:higher:1/s,parameters:equal")
    assert row.endswith(",100")
    assert torchstone("check", run, "--baseline", "expected.csv").code == 0
    assert torchstone("check", slower, "--baseline", "expected.csv").code == 1
    shown = torchstone("accept", slower, "--baseline", "expected.csv", "--yes")
    assert "800 1/s" in shown.out
    assert torchstone("check", slower, "--baseline", "expected.csv").code == 0


def test_a_table_states_the_spread_of_its_trials(
    torchstone: Command, measured: Runner, tmp_path: Path
) -> None:
    run, slower = measured("run.jsonl", 990.0, 1000.0, 1010.0), measured("slower.jsonl", 800.0, 808.0, 792.0)
    assert torchstone("accept", run, "--baseline", "expected.csv", "--add-new", "--yes").code == 0
    header, row = (line.split(",") for line in (tmp_path / "expected.csv").read_text().splitlines())
    stated = dict(zip(header, row, strict=True))
    assert stated["tokens_per_second:higher:1/s"] == "1000"
    assert stated["tokens_per_second_spread"] == "0.01"
    assert stated["trials"] == "3"
    assert "parameters_spread" not in stated
    check = ("check", "--baseline", "expected.csv", "--metric", "tokens_per_second")
    assert torchstone(*check, run).code == 0
    assert torchstone(*check, slower).code == 1
    assert torchstone("accept", slower, "--baseline", "expected.csv", "--yes").code == 0
    _, row = (line.split(",") for line in (tmp_path / "expected.csv").read_text().splitlines())
    stated = dict(zip(header, row, strict=True))
    assert (stated["tokens_per_second:higher:1/s"], stated["tokens_per_second_spread"]) == ("800", "0.01")
    assert torchstone(*check, slower).code == 0


def test_a_spread_of_a_metric_that_must_be_equal_is_refused(
    torchstone: Command, measured: Runner, tmp_path: Path
) -> None:
    (tmp_path / "expected.csv").write_text("name,parameters:equal,parameters_spread\ndecode,100,0.1\n")
    found = torchstone("check", measured("run.jsonl", 1000.0), "--baseline", "expected.csv")
    assert found.code == 2
    assert "expected.csv:1: column parameters_spread: parameters does not vary by chance" in found.err


def test_a_negative_number_that_must_be_equal_is_compared_exactly(
    torchstone: Command, measured: Runner
) -> None:
    values = {"base": -3, "same": -3, "other": -2}
    base, same, other = (measured(f"{name}.jsonl", 1000.0, parameters=n) for name, n in values.items())
    assert torchstone("check", same, "--baseline", base, "--metric", "parameters").code == 0
    red = torchstone("check", other, "--baseline", base, "--metric", "parameters")
    assert red.code == 1
    assert "parameters: -2, expected -3" in red.out


def test_a_run_file_with_two_definitions_of_a_metric_is_refused(
    torchstone: Command, measured: Runner, tmp_path: Path
) -> None:
    path = tmp_path / measured("run.jsonl", 1000.0)
    head, outcome, end = path.read_text().splitlines()
    first = json.loads(head)
    case = first["plan"][0]
    other = {**case, "variant": {**case["variant"], "dtype": "float16"}}
    second = json.loads(outcome.replace('"unit":"1/s"', '"unit":"1/ms"'))
    second["outcome"]["case"] = other
    first["plan"].append(other)
    path.write_text("\n".join([json.dumps(first), outcome, json.dumps(second), end.replace("1", "2"), ""]))
    found = torchstone("report", "run.jsonl", "-o", "page.html")
    assert found.code == 2
    assert (
        "run.jsonl:3: column outcome.measurements[1].details.unit: tokens_per_second has the unit 1/ms; "
        "another case of this benchmark has 1/s"
    ) in " ".join(found.err.split())


def test_a_case_that_redefines_a_metric_of_the_run_fails(torchstone: Command, tmp_path: Path) -> None:
    (tmp_path / "bench_it.py").write_text("")
    units = iter(("1/s", "1/ms"))

    def script(_: MeasureJob) -> Script:
        return reports(1000.0, details=MeasuredDetails(better="higher", unit=next(units), reported="result"))

    found = BenchmarkFound("decode", 4, modes=("inference",), metrics="count_tokens")
    axes = ("--probe", "performance", "--dtype", "float32,bfloat16")
    with using_executor(FakeExecutor(script, [found])):
        ran = torchstone("run", "bench_it.py", *axes, "-o", "run.jsonl")
    assert ran.code == 1
    first, second = public.read(tmp_path / "run.jsonl").outcomes
    assert (first.status, second.status, second.measurements) == ("pass", "fail_to_run", ())
    assert second.failure is not None
    assert "tokens_per_second has the unit 1/ms; another case" in second.failure.message


def test_a_column_without_a_definition_is_refused(
    torchstone: Command, measured: Runner, tmp_path: Path
) -> None:
    (tmp_path / "expected.csv").write_text("name,tokens_per_second\ndecode,1000\n")
    found = torchstone("check", measured("run.jsonl", 1000.0), "--baseline", "expected.csv")
    assert found.code == 2
    assert "expected.csv:1: column tokens_per_second: not a known metric" in found.err
    assert "NAME:higher:UNIT" in found.err


def test_the_definition_survives_the_benchmark_database(torchstone: Command, measured: Runner) -> None:
    run, slower = measured("run.jsonl", 1000.0), measured("slower.jsonl", 800.0)
    assert torchstone("export", run, "--to", "v3", "-o", "run.json", "--lossy").code == 0
    found = torchstone("check", slower, "--baseline", "run.json", "--metric", "tokens_per_second")
    assert found.code == 1
    assert "tokens_per_second: 800 1/s, expected 1,000 1/s" in found.out


def test_the_page_has_a_column_and_a_meaning(torchstone: Command, measured: Runner, tmp_path: Path) -> None:
    assert torchstone("report", measured("run.jsonl", 1000.0), "-o", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "1,000 1/s" in page
    assert "reported by the benchmark itself; higher is better [1/s]" in page


@pytest.mark.parametrize(
    ("name", "details", "problem"),
    [
        ("speedup", RATE, "torchstone has a metric of this name"),
        ("a b", RATE, "expected a name"),
        ("rate", {"better": "sideways", "reported": "call"}, "expected one of higher, lower, equal"),
        ("rate", {"better": "higher", "reported": "call", "unit": "a\nb"}, "expected a text on one line"),
        ("rate", {"better": "higher"}, "expected better and reported together"),
    ],
)
def test_an_invalid_definition_from_a_worker_fails_its_case(
    torchstone: Command, tmp_path: Path, name: str, details: MeasuredDetails | dict[str, str], problem: str
) -> None:
    stated = details if isinstance(details, dict) else {"better": "higher", "reported": "call"}
    sent = {"metric": name, "samples": [1.0], "extra": stated}

    def script(_: MeasureJob) -> Script:
        yield {"result": {"status": "pass", "measurements": [sent], "extra": {}}}
        return 0

    (tmp_path / "bench_it.py").write_text("")
    with using_executor(FakeExecutor(script, [BenchmarkFound("decode", 4, modes=("inference",))])):
        torchstone("run", "bench_it.py", "--probe", "performance", "-o", "run.jsonl")
    outcome = outcome_in(tmp_path / "run.jsonl")
    assert outcome.status == "worker_died"
    assert outcome.failure is not None
    assert problem in outcome.failure.message


@pytest.mark.slow
def test_the_example_is_measured_listed_and_resumed(torchstone: Command, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    assert json.loads(torchstone("list", "bench_tokens.py", "--json").out)[0]["metrics"] == "count_tokens"
    run = ("run", "bench_tokens.py", "--probe", "performance", "--repeat", "3", "--trials", "2")
    assert torchstone(*run, "-o", "run.jsonl").code == 0
    found = {each.metric: each for each in outcome_in(tmp_path / "run.jsonl").measurements}
    assert len(found["tokens_per_second"].trials) == 2
    assert len(found["expert_share"].samples) == 6
    assert found["parameters"].trial_values[0] == found["parameters"].trial_values[1]
    lines = (tmp_path / "run.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "killed.jsonl").write_text(lines[0])
    assert torchstone("run", "--resume", "killed.jsonl").code == 0
    again = {each.metric for each in outcome_in(tmp_path / "killed.jsonl").measurements}
    assert again == set(found)


@pytest.mark.slow
def test_the_example_of_the_docs_reports_its_metrics(torchstone: Command, tmp_path: Path) -> None:
    section = (DOCS / "run.md").read_text().split("## Metrics of your own")[1]
    (tmp_path / "bench_gated.py").write_text(section.split("```python\n")[1].split("```")[0])
    ran = torchstone("run", "bench_gated.py", "--repeat", "3", "--fullgraph", "-o", "run.jsonl")
    assert ran.code == 0
    timed, checked = public.read(tmp_path / "run.jsonl").outcomes
    own = {m.metric: m.details.better for m in timed.measurements if m.details and m.details.better}
    assert own == {"gate_share": "equal", "rows_per_second": "higher", "parameters": "equal"}
    assert timed.value("graph_breaks") == 0
    assert "gate_share" not in {m.metric for m in checked.measurements}
