"""``torchstone cachebench``: PyTorch's options, PyTorch's records, and a model that fails makes itself heard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Command
from live_processes import read_run
from torchstone.api.measuring.cachebench import MODELS, find_free_name


def test_records_are_the_originals_and_the_run_file_lies_beside_them(
    torchstone: Command, tmp_path: Path
) -> None:
    output = tmp_path / "cache.json"
    done = torchstone(
        "cachebench",
        "--benchmark=huggingface",
        "-m",
        "DistilBertForMaskedLM",
        "--mode=inference",
        "--device=cpu",
        "--size=small",
        "--threads=1",
        "--output",
        str(output),
    )
    assert done.code == 0, done.err
    records = json.loads(output.read_text())
    assert [record["metric"]["name"] for record in records] == [
        "Cold compile time (s)",
        "Warm compile time (s)",
        "Speedup (%)",
    ]
    for record in records:
        assert record["benchmark"] == {
            "name": "TorchCache Benchmark",
            "mode": "inference",
            "extra_info": {"is_dynamic": False, "device": "cpu", "definition": "torch_timers"},
        }
        assert record["model"] == {
            "name": "DistilBertForMaskedLM",
            "backend": "inductor",
            "origins": ["huggingface"],
        }
    cold, warm, saved = (record["metric"]["benchmark_values"] for record in records)
    assert saved == [pytest.approx(100 * (1 - warm[0] / cold[0]))]
    (outcome,) = read_run(tmp_path / "cache.jsonl").run.outcomes
    assert outcome.case.variant.dtype == "bfloat16"
    assert outcome.value("warm_hit_rate") == 100
    assert outcome.value("portable_compile_seconds") is None
    judged = torchstone("check", str(output), "--baseline", str(output))
    assert judged.code == 0, judged.out + judged.err


def test_models_that_fail_are_reported_and_make_the_exit_code_1(torchstone: Command, tmp_path: Path) -> None:
    output = tmp_path / "cache.json"
    done = torchstone(
        "cachebench", "--benchmark=torchbench", "--mode=inference", "--device=cpu", "--output", str(output)
    )
    assert done.code == 1
    assert not output.exists()
    assert "no model passed" in done.err
    run = read_run(tmp_path / "cache.jsonl").run
    assert {case.benchmark for case in run.plan} == set(MODELS["torchbench"])
    assert all(
        "pytorch/benchmark" in (outcome.failure.message if outcome.failure else "")
        for outcome in run.outcomes
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--benchmark is missing"),
        (["--benchmark=huggingface"], "--output is missing"),
        (["--benchmark=timm", "--output=x.json"], "timm"),
        (["--benchmark=huggingface", "--output=x.json", "--repeat=10"], "expected 1 to 9"),
        (["--benchmark=huggingface", "--output=x.json", "--fast"], "--fast"),
        (["--benchmark=huggingface", "--output=x.json", "-m", "Bart"], "no benchmark matches"),
        (["--benchmark=huggingface", "--output=x.json", "BertForMaskedLM"], "BertForMaskedLM"),
    ],
)
def test_bad_usage_is_refused_before_anything_is_measured(
    torchstone: Command, tmp_path: Path, arguments: list[str], said: str
) -> None:
    placed = [each.replace("=x.json", f"={tmp_path / 'x.json'}") for each in arguments]
    done = torchstone("cachebench", *placed)
    assert done.code == 2
    assert said in done.err
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_run_file_is_left_alone(tmp_path: Path) -> None:
    first = find_free_name(str(tmp_path / "a.json"))
    assert first == str(tmp_path / "a.jsonl")
    Path(first).touch()
    assert find_free_name(str(tmp_path / "a.json")) == str(tmp_path / "a-2.jsonl")
