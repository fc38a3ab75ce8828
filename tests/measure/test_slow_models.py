"""Compile time of models whose calls take long and scatter: torch's timers see it, the difference of calls does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Command
from live_processes import read_run
from stated_facts import facts_of

# Every other call sleeps, so that five calls of one side and five of the other differ by more than compiling takes.
SLEEPY = """
import itertools, time
import torch, torchstone

naps = itertools.cycle([0.02, 0.6])

@torch.library.custom_op("sleepy::nap", mutates_args=())
def nap(x: torch.Tensor) -> torch.Tensor:
    time.sleep(next(naps))
    return x.clone()

@nap.register_fake
def _(x):
    return torch.empty_like(x)

class Sleepy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return nap(self.linear(x)).relu()

@torchstone.benchmark
def sleepy():
    return Sleepy(), (torch.ones(2, 8),)

@torchstone.benchmark
def never_compiled():
    torch._dynamo.config.disable = True  # as TORCHDYNAMO_DISABLE=1 does
    return Sleepy(), (torch.ones(2, 8),)
"""
OPTIONS = ("--device", "cpu", "--backend", "aot_eager", "--threads", "1", "--jobs", "1")


@pytest.fixture
def sleepy(tmp_path: Path) -> str:
    (tmp_path / "bench_sleepy.py").write_text(SLEEPY)
    return "bench_sleepy.py"


@pytest.mark.slow
def test_compile_seconds_are_right_where_calls_drown_the_difference(
    torchstone: Command, sleepy: str, tmp_path: Path
) -> None:
    done = torchstone(
        *("run", sleepy, "--only", "sleepy", "--probe", "performance", "--repeat", "3", *OPTIONS),
        *("-o", "run.jsonl"),
    )
    assert done.code == 0, done.err
    (outcome,) = read_run(tmp_path / "run.jsonl").run.outcomes
    assert outcome.value("compilation_latency") is None
    seconds = outcome.value("compile_seconds")
    assert isinstance(seconds, float)
    phases = facts_of(outcome)["phases"]
    assert 0 < seconds < phases["compile"] - 1.2  # five calls slept for 1.24 s or more
    assert "compilation_latency is left out: five compiled calls minus five eager calls is" in done.out
    assert f"compile {seconds:.3g} s" in done.out
    assert (
        json.dumps(outcome.why_left_out("compilation_latency"))[1:-1] in (tmp_path / "run.jsonl").read_text()
    )


@pytest.mark.slow
def test_cold_compile_seconds_of_a_slow_model_are_those_of_its_phases(
    torchstone: Command, sleepy: str, tmp_path: Path
) -> None:
    done = torchstone(
        *("run", sleepy, "--only", "sleepy", "--probe", "compile_cache", "--scenario", "cold,warm", *OPTIONS),
        *("-o", "run.jsonl"),
    )
    assert done.code == 0, done.err
    (outcome,) = read_run(tmp_path / "run.jsonl").run.outcomes
    for scenario in ("cold", "warm"):
        found = {each.metric: each for each in outcome.measurements if each.metric.startswith(scenario)}
        phases = ("dynamo", "guards", "aot_autograd", "inductor", "codegen", "native", "loading")
        parts = sum(found[f"{scenario}_{phase}_seconds"].value for phase in phases)
        whole = found[f"{scenario}_compile_seconds"]
        assert whole.value == pytest.approx(parts, rel=0.05)
        assert whole.facts()["definition"] == "torch_timers"
    assert torchstone("export", "run.jsonl", "--to", "cachebench", "--lossy", "-o", "c.json").code == 0
    cold, warm, saved = (
        r["metric"]["benchmark_values"] for r in json.loads((tmp_path / "c.json").read_text())
    )
    assert min(cold + warm) > 0
    assert saved == [pytest.approx(100 * (1 - warm[0] / cold[0]))]


@pytest.mark.slow
def test_a_start_in_which_nothing_is_compiled_does_not_pass(
    torchstone: Command, sleepy: str, tmp_path: Path
) -> None:
    done = torchstone(
        *("run", sleepy, "--only", "never_compiled", "--probe", "compile_cache", "--scenario", "cold,warm"),
        *(*OPTIONS, "-o", "run.jsonl"),
    )
    assert done.code == 1, done.err
    (outcome,) = read_run(tmp_path / "run.jsonl").run.outcomes
    assert outcome.status == "fail_to_run"
    assert outcome.failure
    assert "torch's timers recorded no compilation in 5 calls" in outcome.failure.message
