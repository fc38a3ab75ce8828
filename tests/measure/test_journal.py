"""The run file while it is written: every finished case is in it, whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from live_processes import read_run
from torchstone.codec import encode_run
from torchstone.errors import InputError, UsageError
from torchstone.measure.journal import create_journal, reopen_journal
from torchstone.model import Case, Failure, Outcome, Run, Variant

CASES = tuple(
    Case(name, "performance", "bench", Variant("cpu", "eager", "inference", "float32"))
    for name in ("one", "zwölf", "🔥")
)
RUN = Run("id", CASES, (), settings={"sources": {}}, finished=False)
OUTCOMES = [Outcome(case, "pass", failure=Failure("load", "größer als 🔥\n")) for case in CASES]


def test_every_outcome_is_in_the_file_as_soon_as_it_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"
    journal = create_journal(str(path), RUN)
    for number, outcome in enumerate(OUTCOMES):
        journal.append(outcome)
        run = read_run(path).run
        assert run.outcomes == tuple(OUTCOMES[: number + 1])
        assert not run.finished
    journal.finish()
    journal.close()
    journal.close()
    assert read_run(path).run.finished


def test_a_file_that_was_torn_anywhere_is_read_and_goes_on_where_it_was_whole(tmp_path: Path) -> None:
    whole = encode_run(Run("id", CASES, tuple(OUTCOMES), settings={"sources": {}}, finished=False)).encode()
    head = whole.index(b"\n") + 1
    for length in range(head, len(whole) + 1, 7):
        path = tmp_path / f"{length}.jsonl"
        path.write_bytes(whole[:length])
        assert read_run(path).run.plan == CASES
        journal, reading = reopen_journal(str(path))
        for outcome in OUTCOMES[len(reading.run.outcomes) :]:
            journal.append(outcome)
        journal.finish()
        journal.close()
        assert read_run(path).run.outcomes == tuple(OUTCOMES)


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("precious")
    with pytest.raises(UsageError, match="is there already"):
        create_journal(str(path), RUN)
    assert path.read_text() == "precious"


def test_nobody_else_can_write_a_file_that_is_being_written(tmp_path: Path) -> None:
    path = str(tmp_path / "run.jsonl")
    journal = create_journal(path, RUN)
    with pytest.raises(UsageError, match="another run is writing"):
        reopen_journal(path)
    journal.close()
    reopen_journal(path)[0].close()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="no folder can be made there"):
        create_journal(str(tmp_path / "file" / "run.jsonl"), RUN)
    with pytest.raises(InputError, match="cannot be created"):
        create_journal("/proc/run.jsonl", RUN)
    with pytest.raises(InputError, match="a folder, expected a regular file"):
        reopen_journal(str(tmp_path))


def test_a_plan_that_could_not_be_read_again_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    strange = Case("two\nlines", "performance", "bench")
    with pytest.raises(UsageError, match="cannot be kept in a run file"):
        create_journal(str(tmp_path / "run.jsonl"), Run("id", (strange,), ()))
    assert not list(tmp_path.iterdir())


FULL = """
import resource, sys
from test_journal import OUTCOMES, RUN
from torchstone.errors import InputError
from torchstone.measure.journal import create_journal
limit = int(sys.argv[2])
try:
    if limit < 100:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    journal = create_journal(sys.argv[1], RUN)
    journal.append(OUTCOMES[0])
    limit = __import__("os").path.getsize(sys.argv[1]) + limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    journal.append(OUTCOMES[1])
except InputError as error:
    print(error)
"""


def fill_disk(path: Path, room: int) -> str:
    """What is said when only so many bytes more may be written."""
    folders = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(room)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([folders, os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


def test_a_full_disk_leaves_whole_lines_and_a_command_to_go_on_with(tmp_path: Path) -> None:
    path = tmp_path / "my run.jsonl"
    said = fill_disk(path, 100)
    assert "cannot be written: file too large" in said
    assert f"torchstone run --resume '{path}'" in said
    assert path.read_bytes().endswith(b"\n")
    assert read_run(path).run.outcomes == (OUTCOMES[0],)


def test_a_disk_too_full_for_the_head_leaves_nothing(tmp_path: Path) -> None:
    assert "cannot be written" in fill_disk(tmp_path / "run.jsonl", 10)
    assert not list(tmp_path.iterdir())
