"""Recording brings the changes up to date, also what an interrupted command left undone."""

from __future__ import annotations

from pathlib import Path

import torchstone
from comparison_files import case_of
from conftest import Command
from stored_runs import opened, recorded, run_of
from torchstone.core.records import Outcome, Run
from torchstone.core.run_file import encode_run
from torchstone.history.detect_changes import is_stale


def failing(number: int) -> Run:
    """One run of many; the case fails from the 10th on."""
    return run_of(number, [Outcome(case_of("net"), "timeout" if number >= 10 else "pass")])


def write_runs(folder: Path, *numbers: int) -> list[str]:
    paths = [str(folder / f"run{number}.jsonl") for number in numbers]
    for number, path in zip(numbers, paths, strict=True):
        Path(path).write_text(encode_run(failing(number)))
    return paths


def test_record_says_what_became_of_the_changes(torchstone: Command, tmp_path: Path) -> None:
    torchstone("record", *write_runs(tmp_path, *range(1, 10)))
    ran = torchstone("record", *write_runs(tmp_path, 10))
    assert "1 run recorded in .torchstone/history.db: 0 new points; changes: 1 found" in ran.out
    ran = torchstone("record", *write_runs(tmp_path, 11))
    assert "changes:" not in ran.out
    assert " 1 change" in torchstone("store", "info").out


def test_the_result_of_record_has_the_changes(tmp_path: Path) -> None:
    store = torchstone.HistoryStore(tmp_path / "history.db")
    result = store.load(write_runs(tmp_path, *range(1, 12)), repository=str(tmp_path))
    assert result.update.changes.looked_at == 1
    assert len(result.update.changes.found) == 1
    assert store.record(write_runs(tmp_path, 11), repository=str(tmp_path)).update.changes.looked_at == 0


def test_what_an_interrupted_command_left_undone_is_done_by_the_next(tmp_path: Path) -> None:
    place = str(tmp_path / "history.db")
    with opened(place) as database:
        recorded(database, *(failing(number) for number in range(1, 12)))
        assert is_stale(database)
    store = torchstone.HistoryStore(place)
    result = store.record(write_runs(tmp_path, 11), repository=str(tmp_path))
    assert "1 already recorded" in result.summary
    assert "changes: 1 found" in result.summary
    with opened(place) as database:
        assert not is_stale(database)


def test_removing_and_renaming_bring_the_changes_up_to_date(tmp_path: Path) -> None:
    store = torchstone.HistoryStore(tmp_path / "history.db")
    store.load(write_runs(tmp_path, *range(1, 12)), repository=str(tmp_path))
    store.rename("net", "network")
    assert store.info().counts["changes"] == 1
    for number in (10, 11):
        store.remove(f"{number:040x}")
    assert store.info().counts["changes"] == 0
    assert store.verify().is_valid
