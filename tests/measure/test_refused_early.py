"""What a run refuses before it measures anything: a file that was edited in between, options that torch does not take, durations of nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Command

BENCHMARKS = """
import torch, torchstone

@torchstone.benchmark(parameters={"width": [4, 8]})
def linear(width):
    return torch.nn.Linear(width, width), (torch.ones(2, width),)
"""
QUICK = ("--probe", "performance", "--backend", "eager", "--repeat", "3", "--threads", "1")


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    path = tmp_path / "bench_a.py"
    path.write_text(BENCHMARKS)
    return path


def test_a_run_is_not_finished_with_a_file_that_was_edited_since(
    torchstone: Command, bench: Path, tmp_path: Path
) -> None:
    assert torchstone("run", "bench_a.py", *QUICK, "-o", "run.jsonl").code == 0
    run_file = tmp_path / "run.jsonl"
    lines = run_file.read_text().splitlines(keepends=True)
    interrupted = "".join(lines[:2])
    run_file.write_text(interrupted)
    bench.write_text(BENCHMARKS.replace("ones(2", "ones(3"))
    refused = torchstone("run", "--resume", "run.jsonl")
    assert refused.code == 2
    assert "bench_a.py has changed since the run" in refused.err
    assert run_file.read_text() == interrupted
    bench.write_text(BENCHMARKS)
    assert torchstone("run", "--resume", "run.jsonl", "--jobs", "1").code == 0
    assert len(run_file.read_text().splitlines()) == len(lines)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--compile-mode", "fastest"], "Unrecognized mode=fastest"),
        (["--option", "no_such_option=1"], "no_such_option"),
    ],
)
def test_what_torch_compile_does_not_take_is_refused_before_any_case(
    torchstone: Command, bench: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    refused = torchstone("run", bench.name, "--start", "spawn", *options, "-o", "run.jsonl")
    assert refused.code == 2
    assert said in refused.err
    assert not (tmp_path / "run.jsonl").exists()


def test_durations_without_a_shard_are_refused(torchstone: Command, bench: Path) -> None:
    refused = torchstone("run", bench.name, "--durations", "gone.jsonl")
    assert refused.code == 2
    assert "--durations requires --shard" in refused.err


def test_a_file_that_knows_no_durations_is_refused(torchstone: Command, bench: Path, tmp_path: Path) -> None:
    (tmp_path / "expected.csv").write_text("name,accuracy\nlinear,pass\n")
    refused = torchstone("run", bench.name, "--shard", "1/2", "--durations", "expected.csv")
    assert refused.code == 2
    assert "the file has no durations" in refused.err


@pytest.mark.slow
def test_a_file_that_never_ends_importing_is_given_up_after_half_a_minute(
    torchstone: Command, tmp_path: Path
) -> None:
    (tmp_path / "bench_loop.py").write_text("while True: pass\n")
    refused = torchstone("run", "bench_loop.py", "--timeout", "1", "--start", "spawn")
    assert refused.code == 2
    assert "bench_loop.py:1: the worker did not answer within 30 s" in refused.err
