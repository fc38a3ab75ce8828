"""The run file while it is written: every finished case is in it, whatever happens."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from live_processes import read_run
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Failure, Outcome, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import Settings
from torchstone.measure.executors.protocol import CannotMeasureError
from torchstone.measure.journal import Journal, create_journal, reopen_journal
from torchstone.measure.previous_file import set_aside
from torchstone.measure.runner import repro_command

CASES = tuple(
    Case(name, "performance", "bench", Variant("cpu", "eager", "inference", "float32"))
    for name in ("one", "zwölf", "🔥")
)
RUN = Run("id", CASES, (), settings=Settings(rest={"sources": {}}), finished=False)
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
    whole = encode_run(
        Run("id", CASES, tuple(OUTCOMES), settings=Settings(rest={"sources": {}}), finished=False)
    ).encode()
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
    with pytest.raises(UsageError, match="already exists"):
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
    with pytest.raises(InputError, match="cannot create the folder"):
        create_journal(str(tmp_path / "file" / "run.jsonl"), RUN)
    with pytest.raises(InputError, match="cannot be created"):
        create_journal("/proc/run.jsonl", RUN)
    with pytest.raises(InputError, match="a folder, expected a regular file"):
        reopen_journal(str(tmp_path))


def test_a_plan_that_could_not_be_read_again_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    strange = Case("two\nlines", "performance", "bench")
    with pytest.raises(UsageError, match="cannot be written to a run file"):
        create_journal(str(tmp_path / "run.jsonl"), Run("id", (strange,), ()))
    assert not list(tmp_path.iterdir())


FULL = """
import resource, sys
from test_journal import OUTCOMES, RUN
from torchstone.core.errors import InputError
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


def remove(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace(path: Path) -> None:
    (path.parent / "copy").write_bytes(path.read_bytes()[:-1] + b" ")
    (path.parent / "copy").rename(path)


def replace_by_link(path: Path) -> None:
    (path.parent / "precious").write_text("precious\n")
    path.unlink()
    path.symlink_to("precious")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def truncate(path: Path) -> None:
    os.truncate(path, 10)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"#")


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"another program\n")


DAMAGES: dict[Callable[[Path], None], str] = {
    remove: "was removed or renamed",
    rename: "was removed or renamed",
    replace: "was replaced by another file",
    replace_by_link: "was replaced by another file",
    replace_by_folder: "was replaced by a folder",
    truncate: "was truncated from",
    overwrite: "another program overwrote {path} during the run",
    append: "another program wrote to {path} during the run",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("after", [0, 1, 2, 3, 4])
def test_a_file_that_is_taken_away_is_noticed_and_everything_is_in_a_new_one(
    damage: Callable[[Path], None], after: int, tmp_path: Path
) -> None:
    """``after`` so many outcomes; 4 is after the end."""
    path = tmp_path / "run.jsonl"
    told: list[str] = []
    (tmp_path / "run-rescued.jsonl").write_text("of an earlier run")
    journal = create_journal(str(path), RUN, "", told.append)
    steps = [*(lambda each=each: journal.append(each) for each in OUTCOMES), journal.finish, journal.close]
    for number, step in enumerate(steps):
        if number == after:
            damage(path)
            left = path.read_bytes() if path.is_file() else None
        step()
    new = tmp_path / "run-rescued-2.jsonl"
    assert journal.path == str(new)
    assert journal.loss
    assert (journal.loss.path, journal.loss.new_path) == (str(path), str(new))
    assert DAMAGES[damage].format(path=path) in journal.loss.problem
    assert [journal.loss.text] == told
    run = read_run(new).run
    assert run.finished
    assert run.plan == CASES
    assert run.outcomes == tuple(OUTCOMES)
    assert (path.read_bytes() if path.is_file() else None) == left  # nothing more was written there


def test_a_file_that_was_only_touched_or_linked_to_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    journal = create_journal(str(path), RUN)
    os.utime(path, (1, 1))
    journal.append(OUTCOMES[0])
    path.rename(tmp_path / "moved.jsonl")
    path.symlink_to("moved.jsonl")
    journal.append(OUTCOMES[1])
    journal.close()
    assert journal.loss is None
    assert read_run(path).run.outcomes == tuple(OUTCOMES[:2])


@pytest.mark.parametrize("is_copy", [True, False], ids=["copied", "renumbered"])
def test_a_file_that_only_looks_replaced_is_written_on(
    is_copy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy with the same text; and a file system whose files have another number each time somebody looks."""
    path = tmp_path / "run.jsonl"
    journal = create_journal(str(path), RUN)
    if not is_copy:
        monkeypatch.setattr(os.path, "samestat", lambda _one, _other: False)
    for outcome in OUTCOMES:
        if is_copy:
            shutil.copyfile(path, tmp_path / "copy")
            (tmp_path / "copy").rename(path)
        journal.append(outcome)
    with pytest.raises(UsageError, match="another run is writing"):
        reopen_journal(str(path))
    journal.finish()
    journal.close()
    assert journal.loss is None
    assert os.listdir(tmp_path) == ["run.jsonl"]
    assert read_run(path).run.outcomes == tuple(OUTCOMES)


def test_a_copy_that_another_run_writes_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    journal = create_journal(str(path), RUN)
    shutil.copyfile(path, tmp_path / "copy")
    (tmp_path / "copy").rename(path)
    other, _ = reopen_journal(str(path))
    journal.append(OUTCOMES[0])
    other.append(OUTCOMES[1])
    journal.close()
    other.close()
    assert journal.path == str(tmp_path / "run-rescued.jsonl")
    assert read_run(path).run.outcomes == (OUTCOMES[1],)


def test_ctrl_c_does_not_disturb_the_rescue_from_a_disk_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = []
    tell = lambda _: handlers.append(signal.getsignal(signal.SIGINT))  # noqa: E731
    journal = create_journal(str(tmp_path / "run.jsonl"), RUN, "", tell)

    def fail(_handle: int, _data: bytes) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("torchstone.measure.journal.write_whole", fail)
    journal.append(OUTCOMES[0])
    assert handlers == [signal.SIG_IGN]
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    journal.close()
    assert read_run(tmp_path / "run-rescued.jsonl").run.outcomes == (OUTCOMES[0],)


def test_a_file_is_read_whole_where_the_system_gives_only_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does with files over 2 GiB."""
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda handle, size, place: read(handle, min(size, 7), place))
    path = tmp_path / "run.jsonl"
    journal = create_journal(str(path), RUN)
    journal.append(OUTCOMES[0])
    journal.secure(thoroughly=True)
    assert journal.loss is None
    path.unlink()
    journal.append(OUTCOMES[1])
    overwrite(tmp_path / "run-rescued.jsonl")
    journal.append(OUTCOMES[2])
    journal.close()
    assert read_run(tmp_path / "run-rescued-rescued.jsonl").run.outcomes == tuple(OUTCOMES)


def test_a_run_whose_folder_is_removed_goes_on_in_the_working_folder_or_among_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    for folder in (here, temporary):
        folder.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    journal = create_journal("runs/run.jsonl", RUN)
    shutil.rmtree("runs")
    journal.append(OUTCOMES[0])
    assert journal.path == "run-rescued.jsonl"
    assert journal.loss
    assert "together with its folder" in journal.loss.problem
    shutil.rmtree(here)
    journal.append(OUTCOMES[1])
    assert journal.path == str(temporary / "run-rescued-rescued.jsonl")
    assert journal.loss.path == "runs/run.jsonl"
    journal.append(OUTCOMES[2])
    journal.close()
    assert read_run(Path(journal.path)).run.outcomes == tuple(OUTCOMES)


def test_a_resumed_run_that_loses_its_file_keeps_what_was_in_it_and_its_commands_name_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = create_journal("run.jsonl", RUN)
    journal.append(structs.replace(OUTCOMES[0], repro=repro_command(journal.path, CASES[0])))
    journal.close()
    journal, _ = reopen_journal("run.jsonl")
    os.unlink("run.jsonl")
    journal.secure()
    journal.append(structs.replace(OUTCOMES[1], repro=repro_command(journal.path, CASES[1])))
    assert journal.loss
    with pytest.raises(UsageError, match="another run is writing"):
        reopen_journal("run-rescued.jsonl")
    journal.close()
    journal, reading = reopen_journal("run-rescued.jsonl")
    journal.close()
    assert [each.repro for each in reading.run.outcomes] == [
        repro_command("run-rescued.jsonl", case) for case in CASES[:2]
    ]


def test_a_file_that_is_not_ours_is_not_discarded(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    create_journal(str(path), RUN).discard()
    assert not path.exists()
    journal = create_journal(str(path), RUN)
    replace(path)
    journal.discard()
    assert path.exists()


def test_a_run_that_can_write_nowhere_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path / "runs")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    journal = create_journal("run.jsonl", RUN)
    shutil.rmtree(tmp_path / "runs")
    with pytest.raises(CannotMeasureError, match="removed or replaced during the run, and no replacement"):
        journal.append(OUTCOMES[0])


def replacing(path: Path) -> Journal:
    """A journal of a new run in place of a finished one."""
    journal = create_journal(str(path), RUN)
    for outcome in OUTCOMES:
        journal.append(outcome)
    journal.finish()
    journal.close()
    previous = set_aside(str(path))
    journal = create_journal(str(path), RUN)
    journal.previous = previous
    return journal


def test_a_replaced_file_is_kept_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path, aside = tmp_path / "run.jsonl", tmp_path / "run-before.jsonl"
    journal = replacing(path)
    assert read_run(aside).run.outcomes == tuple(OUTCOMES)
    journal.append(OUTCOMES[0])
    assert aside.exists()
    for outcome in OUTCOMES[1:]:
        journal.append(outcome)
    journal.finish()
    assert not aside.exists()
    journal.close()
    assert read_run(path).run.finished


def test_a_replaced_file_is_put_back_if_the_new_one_has_no_outcome(tmp_path: Path) -> None:
    path, aside = tmp_path / "run.jsonl", tmp_path / "run-before.jsonl"
    journal = replacing(path)
    journal.close()
    assert journal.has_put_back
    assert read_run(path).run.outcomes == tuple(OUTCOMES)
    assert not aside.exists()


def test_a_replaced_file_stays_beside_an_interrupted_one(tmp_path: Path) -> None:
    path, aside = tmp_path / "run.jsonl", tmp_path / "run-before.jsonl"
    journal = replacing(path)
    journal.append(OUTCOMES[0])
    journal.close()
    assert not journal.has_put_back
    assert len(read_run(path).run.outcomes) == 1
    assert read_run(aside).run.outcomes == tuple(OUTCOMES)
    further = set_aside(str(path))
    assert further
    assert Path(further.aside).name == "run-before-2.jsonl"


def test_a_file_that_another_run_is_writing_is_not_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    journal = create_journal(str(path), RUN)
    with pytest.raises(UsageError, match="another run is writing"):
        set_aside(str(path))
    journal.close()
    assert path.exists()
