"""A process that opens a store several times keeps the locks of its connections."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from comparison_files import passed, times, write_run
from stored_runs import opened, recorded, run_of
from torchstone.store.reading_runs import list_runs


def test_a_store_that_is_opened_again_is_not_taken_for_closed_by_other_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "history.db")
    with opened(path) as first:
        recorded(first, run_of(1))
        with opened(path, creates=False) as second:
            assert len(list_runs(second)) == 1
        other = write_run(tmp_path, "other.jsonl", [passed("net", times(1.0))])
        command = [
            sys.executable,
            "-m",
            "torchstone",
            "record",
            other,
            "--store",
            path,
            "--revision",
            "other",
        ]
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
        assert (tmp_path / "history.db-wal").exists()  # the last one to close a store removes its log
        assert len(list_runs(first)) == 2
