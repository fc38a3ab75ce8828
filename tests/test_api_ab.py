"""``ab`` and ``selftest`` from Python: requests, results that show themselves, and one real comparison."""

from __future__ import annotations

import json
import shlex
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchstone
from torchstone.api.measuring.ab_request import AbRequest, command_of
from torchstone.api.measuring.selftest import SelftestResult
from torchstone.cli.options.ab_options import OPTIONS
from torchstone.cli.options.plain import parse_plainly
from torchstone.cli.options.requests import make_request
from torchstone.measure.ab.contest import AbSettings
from torchstone.measure.ab.self_comparison import SelfComparison

BENCHMARKS = """
import os, torch, torchstone

@torchstone.benchmark
def steps():
    def model(x):
        for _ in range(int(os.environ.get("STEPS", "50"))):
            x = torch.sin(x)
        return x
    return model, (torch.ones(64),)
"""
WORDS = st.sampled_from(["one", "other"])
TEXTS = st.lists(WORDS, unique=True, max_size=2).map(tuple)
SHARES = st.sampled_from([0.5, 0.02, 0.0025, 0.07, 0.123456])
FIELDS = {
    "targets": st.lists(WORDS, min_size=1, max_size=2).map(tuple),
    "a": TEXTS,
    "b": TEXTS,
    "bench_from": st.sampled_from(["", "a", "b", "worktree"]),
    "metric": st.sampled_from(["latency", "compile"]),
    "margin": SHARES,
    "alpha": SHARES,
    "budget": st.none() | st.sampled_from([0.5, 90.0, 1e6]),
    "min_trials": st.integers(1, 20),
    "seed": st.none() | st.integers(0, 2**31),
    "recompile": st.booleans(),
    "policy": st.sampled_from(["strict", "upstream"]),
    "block": st.lists(st.sampled_from(["missing", "same"]), unique=True).map(tuple),
    "allow": st.lists(st.sampled_from(["regression", "new"]), unique=True).map(tuple),
    "quarantines": TEXTS,
    "platforms": TEXTS,
    "as_of": st.none() | st.dates(date(2000, 1, 1), date(2100, 1, 1)),
    "config": st.none() | WORDS,
    "devices": TEXTS,
    "backends": TEXTS,
    "modes": TEXTS,
    "dtypes": TEXTS,
    "dynamics": st.lists(st.sampled_from([None, True, False]), unique=True).map(tuple),
    "batch_sizes": st.lists(st.integers(1, 512), unique=True, max_size=2).map(tuple),
    "size": st.sampled_from(["full", "small"]),
    "compile_mode": st.none() | WORDS,
    "compile_options": st.lists(st.tuples(WORDS, WORDS), max_size=2).map(tuple),
    "fullgraph": st.booleans(),
    "preset": st.sampled_from(["", "dashboard", "my own"]),
    "tf32": st.none() | st.booleans(),
    "half_reductions": st.none() | st.booleans(),
    "cuda_graphs": st.none() | st.booleans(),
    "labels": st.none() | st.booleans(),
    "batch_set": st.sampled_from(["", "own", "dashboard"]),
    "filters": TEXTS,
    "exclusions": TEXTS,
    "only": TEXTS,
    "threads": st.none() | st.integers(1, 64),
    "compile_threads": st.none() | st.integers(1, 64),
    "timeout": st.none() | st.sampled_from([0.25, 1800.0]),
    "memory_limit": st.none() | st.integers(1, 2**40),
    "start": st.sampled_from(["auto", "fork", "spawn"]),
    "imports": TEXTS,
}


@given(st.builds(AbRequest, **FIELDS))
def test_the_command_that_measures_again_asks_for_the_same(request: AbRequest) -> None:
    words = shlex.split(command_of(request))
    assert words[:2] == ["torchstone", "ab"]
    parsed = parse_plainly(words[2:], OPTIONS)
    assert parsed is not None
    targets, values = parsed
    assert make_request(AbRequest, OPTIONS, values, targets=targets) == request


def test_a_random_request_covers_every_field_that_a_command_repeats() -> None:
    not_repeated = {"strict", "output_a", "output_b"}
    assert {*FIELDS} == {*AbRequest.__struct_fields__} - not_repeated


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench_it.py").write_text(BENCHMARKS)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"targets": ()}, "no targets given"),
        ({"margin": 0.0}, "--margin 0: expected a share"),
        ({"alpha": 2.0}, "--alpha 2: expected a share"),
        ({"budget": 0.0}, "--budget 0"),
        ({"seed": -1}, "--seed -1"),
        ({"min_trials": 0}, "--min-trials 0"),
        ({"metric": "speed"}, "--metric speed: expected latency, wall or compile"),
        ({"policy": "lax"}, "--policy lax"),
        ({"bench_from": "c", "a": "rev=HEAD"}, "--bench-from c: expected a, b or worktree"),
        ({"bench_from": "b"}, "--bench-from: both sides use the working tree"),
        ({"block": "slow"}, "slow: no such verdict"),
        ({"block": "same", "allow": "same"}, "block and allow both name same"),
        ({"quarantines": "absent.toml"}, "absent.toml"),
        ({"a": "speed=1"}, "--a speed=1: expected one of"),
        ({"b": {"backend": "eager"}, "backends": "inductor"}, "--backend applies to both sides"),
        ({"output_a": "bench_it.py"}, "bench_it.py already exists"),
        ({"speed": 9}, "unknown argument 'speed'"),
    ],
)
def test_what_cannot_be_meant_is_an_error_before_anything_starts(
    folder: Path, options: dict[str, object], problem: str
) -> None:
    with pytest.raises(torchstone.TorchstoneError) as raised:
        torchstone.ab(**{"targets": "bench_it.py", **options})  # type: ignore[arg-type]
    assert problem in str(raised.value)
    assert [path.name for path in folder.iterdir()] == ["bench_it.py"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"targets": ()}, "no targets given"),
        ({"slow_downs": [0.05, 1.5]}, "--slow-down 1.5"),
        ({"repeat": 0}, "--repeat 0"),
        ({"targets": "bench_none.py"}, "bench_none.py"),
        ({"a": "rev=main"}, "unknown argument 'a'"),
    ],
)
def test_a_self_test_that_cannot_be_meant_is_an_error(
    folder: Path, options: dict[str, object], problem: str
) -> None:
    with pytest.raises(torchstone.TorchstoneError) as raised:
        torchstone.selftest(**{"targets": "bench_it.py", **options})  # type: ignore[arg-type]
    assert problem in str(raised.value)


def tried(slow_down: float, verdict: str, pairs: int = 9, reason: str = "") -> SelfComparison:
    return SelfComparison("net[x]::performance", slow_down, verdict, pairs, 20.0, 1.1, 1.05, 1.2, reason)


def test_a_self_test_shows_itself_and_counts_false_alarms(tmp_path: Path) -> None:
    found = SelftestResult(AbSettings(), (tried(0.0, "same"), tried(0.05, "regression")))
    assert (found.exit_code, found.passed) == (0, True)
    assert "false alarms: 0 of 1" in str(found)
    assert "5% slower: 1 of 1 detected" in found._repr_html_()
    assert [record["verdict"] for record in found.to_dicts()] == ["same", "regression"]
    found.write(tmp_path / "self.json")
    told = json.loads((tmp_path / "self.json").read_text())
    assert [each["tries"] for each in told["scores"]] == [1, 1]
    assert (
        str(tried(0.05, "regression")) == "net  5% slower: regression  +10.0% [+5.0%, +20.0%]  9 pairs, 20 s"
    )
    wrong = SelftestResult(AbSettings(), (tried(0.0, "regression"),) * 9)
    assert (wrong.exit_code, wrong.passed) == (1, False)


def test_a_self_test_that_measured_nothing_says_so() -> None:
    found = SelftestResult(AbSettings(), (tried(0.0, "inconclusive", 0, "A failed: no model"),))
    assert found.exit_code == 3
    assert "nothing could be measured: A failed: no model" in str(found)
    assert SelftestResult(AbSettings(), ()).exit_code == 3


@pytest.mark.slow
def test_a_side_with_more_work_is_a_regression_and_the_result_shows_itself(folder: Path) -> None:
    events: list[object] = []
    result = torchstone.ab(
        "bench_it.py",
        b={"env:STEPS": 400},
        backends="none",
        devices="cpu",
        margin=0.5,
        budget=600,
        output_a="a.jsonl",
        output_b=Path("b.jsonl"),
        on_event=events.append,
    )
    assert (result.passed, result.exit_code, result.headline) == (False, 1, "1 regression")
    assert result.paths == ("a.jsonl", "b.jsonl")
    (case,) = result.cases
    assert case.effect is not None
    assert case.effect.low > 1.5
    (record,) = result.to_dicts()
    assert (record["verdict"], record["blocks"], record["ratio"]) == ("regression", True, case.effect.ratio)
    assert "FAIL: 1 regression" in str(result)
    assert "1 regression" in result._repr_html_()
    assert "FAIL: 1 regression" in result.render("html")
    assert json.loads(result.render("json"))["exit_code"] == 1
    names = [type(event).__name__ for event in events]
    assert names.index("Preparing") < names.index("Planned") < names.index("PairMeasured")
    last = [event for event in events if isinstance(event, torchstone.PairMeasured)][-1]
    assert (last.verdict, last.pairs) == ("regression", case.pairs)
    assert all(str(event) for event in events)
    again = torchstone.compare("a.jsonl", "b.jsonl", alpha=0.0025).to_dicts()
    assert [row["ratio"] for row in again] == [record["ratio"]]
