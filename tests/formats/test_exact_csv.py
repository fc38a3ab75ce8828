"""What `torchstone run --csv` and `--v3` write: the original's columns to the letter, and nothing that vanishes."""

from __future__ import annotations

import json

import pytest

from torchstone.core.records import Case, Failure, Measurement, Outcome, Revision, Run, Variant
from torchstone.core.run_settings import environment_from
from torchstone.core.vocabulary import Probe
from torchstone.formats import FORMATS
from torchstone.formats.torch.results_csv import write_exactly

STATS = (
    "calls_captured,unique_graphs,graph_breaks,unique_graph_breaks,fallbacks_to_eager,"
    "autograd_captures,autograd_compiles,cudagraph_skips"
)
VARIANT = Variant("cpu", "inductor", "inference", "float32", batch_size=4)


def timed(name: str) -> Outcome:
    numbers = {
        "speedup": 1.23456789,
        "abs_latency": 2.0,
        "eager_latency": 2.5,
        "graph_breaks": 0,
        "recompiles": 1,
    }
    measurements = tuple(Measurement(metric, (value,)) for metric, value in numbers.items())
    return Outcome(Case(name, "performance", "smoke", VARIANT), "pass", measurements)


def failed(name: str, probe: str, status: str) -> Outcome:
    return Outcome(Case(name, probe, "smoke", VARIANT), status, failure=Failure("compile", "gone"))


def run_with(*outcomes: Outcome) -> Run:
    environment = {
        "machine": {"cpu": {"model": "EPYC"}, "cores": {"logical": 2}, "memory": {"total": 8e9}},
        "device": "cpu",
        "accelerators": [],
        "versions": {"torch": "2.13.0"},
        "fingerprint": "abc",
    }
    revision = Revision("c0ffee", "main", dirty=False)
    return Run(
        "run", tuple(each.case for each in outcomes), outcomes, revision, environment_from(environment)
    )


def test_a_performance_file_has_the_originals_columns_and_six_decimals() -> None:
    header, row = write_exactly(run_with(timed("mlp")), Probe.PERFORMANCE).splitlines()
    assert header == (
        "dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio,eager_peak_mem,dynamo_peak_mem,"
        + STATS
    )
    assert row == "cpu,mlp,4,1.234568,2.000000,,,,,,,0,,,,,"


def test_an_accuracy_file_has_the_originals_columns() -> None:
    passed = Outcome(Case("mlp", "accuracy", "smoke", VARIANT), "pass", (Measurement("graph_breaks", (2,)),))
    header, row = write_exactly(run_with(passed), Probe.ACCURACY).splitlines()
    assert header == f"dev,name,batch_size,accuracy,{STATS},compilation_latency"
    assert row == "cpu,mlp,4,pass,,,2,,,,,,"


def test_a_failed_case_has_the_originals_form() -> None:
    run = run_with(failed("a", "performance", "worker_died"), failed("b", "accuracy", "timeout"))
    assert write_exactly(run, Probe.PERFORMANCE).splitlines()[1].startswith("cpu,a,0,0.0,0.0,0,")
    assert write_exactly(run, Probe.ACCURACY).splitlines()[1].startswith("cpu,b,0,timeout,0,")


def test_such_a_file_is_read_with_the_axes_of_its_name() -> None:
    text = write_exactly(run_with(timed("mlp"), failed("lstm", "performance", "OOM")), Probe.PERFORMANCE)
    reading = FORMATS["performance"].read("inductor_smoke_float32_inference_cpu_performance.csv", text)
    assert [outcome.status for outcome in reading.run.outcomes] == ["pass", "failed"]
    assert reading.run.plan[0] == Case("mlp", "performance", "smoke", VARIANT)


@pytest.mark.parametrize("status", ["worker_died", "timeout", "OOM"])
def test_a_case_that_failed_before_it_was_timed_has_a_record_in_v3(status: str) -> None:
    (record,) = map(
        json.loads, FORMATS["v3"].write(run_with(failed("a", "performance", status))).splitlines()
    )
    assert record["metric"] == {"name": "speedup", "benchmark_values": [0.0]}


def test_v3_records_say_where_and_what_was_measured() -> None:
    record = json.loads(FORMATS["v3"].write(run_with(timed("mlp"))).splitlines()[0])
    assert record["head_sha"] == "c0ffee"
    assert record["dependencies"] == {"torch": {"version": "2.13.0"}}
    assert record["runners"] == [
        {
            "name": "cpu",
            "type": "EPYC",
            "cpu_info": "EPYC",
            "cpu_count": 2,
            "avail_mem_in_gb": 8,
            "extra_info": {"fingerprint": "abc"},
        }
    ]
