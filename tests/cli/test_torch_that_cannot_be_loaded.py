"""A torch that cannot be loaded: a short message in words, and the whole error in a log."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conftest import Command
from torchstone.measure.doctor.inspection import ask_torch

# torch 2.13 then raises a ValueError of seven lines and 1.5 kB, which begins with an empty line.
TYPO = "typo"
SUMMARY = (
    "ValueError: Invalid log settings: typo, must be a comma separated list of fully qualified module names"
)
FILE = "import torch\nimport torchstone\n@torchstone.benchmark\ndef m(): ...\n"


@pytest.fixture(autouse=True)
def misspelt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCH_LOGS", TYPO)
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_run_says_shortly_what_is_wrong_and_where_the_whole_error_is(
    torchstone: Command, tmp_path: Path, start: str
) -> None:
    (tmp_path / "bench_a.py").write_text(FILE)
    ran = torchstone("run", "bench_a.py", "--start", start)
    assert ran.code == 3
    _, message, advice = ran.err.splitlines()
    assert message.startswith(f"error: torch cannot be loaded: {SUMMARY}")
    assert len(message) < 250
    assert "\\n" not in ran.err
    log = tmp_path / "cache" / "torch-error.log"
    assert advice == f"  the full error is in {log}"
    assert "Traceback (most recent call last)" in log.read_text()
    assert "\nValid settings:\nall, " in log.read_text()


def test_a_file_that_is_listed_says_it_shortly_too(torchstone: Command, tmp_path: Path) -> None:
    (tmp_path / "bench_a.py").write_text(FILE)
    ran = torchstone("list", "bench_a.py")
    assert ran.code == 2
    assert f"bench_a.py:1: importing it raised {SUMMARY}" in ran.err
    assert "\\n" not in ran.err
    assert max(map(len, ran.err.splitlines())) < 350


def test_the_doctor_says_what_is_wrong_not_the_last_line_of_it() -> None:
    found, _ = ask_torch(sys.executable)
    assert found.error.startswith(SUMMARY)
    assert len(found.error) < 250
