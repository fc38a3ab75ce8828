"""``torchstone record`` and ``torchstone store``: what is recorded, as which revision, and what bad input says."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import torchstone as public
from conftest import Command, Ran
from stored_runs import new_database, opened, rows_of, run_of
from torchstone.core.records import Run
from torchstone.core.run_file import encode_run
from torchstone.measure.executors.fake import FakeExecutor, passes
from torchstone.measure.executors.selection import using_executor
from torchstone.store.database import connection
from torchstone.worker.protocol.replies import BenchmarkFound

STORE = ".torchstone/history.db"
ACCURACY = "dev,name,batch_size,accuracy\ncpu,net,1,pass\ncpu,mlp,1,fail_accuracy\n"


def write_runs(folder: Path, *runs: Run) -> list[str]:
    for number, run in enumerate(runs):
        (folder / f"run{number}.jsonl").write_text(encode_run(run))
    return [f"run{number}.jsonl" for number in range(len(runs))]


def revisions(store: str = STORE) -> list[str]:
    return [each.revision for each in public.HistoryStore(store).runs()]


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    ran = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def commits(folder: Path, count: int) -> list[str]:
    """A repository with some commits, oldest first."""
    git(folder, "init", "-q")
    for number in range(count):
        git(folder, "commit", "-q", "--allow-empty", "-m", str(number))
    return git(folder, "rev-list", "--reverse", "HEAD").split()


def refuse(ran: Ran, *told: str) -> None:
    assert ran.code == 2, ran.out + ran.err
    assert all(each in ran.err for each in told), ran.err


def test_a_run_is_recorded_once_and_can_be_queried(torchstone: Command, tmp_path: Path) -> None:
    files = write_runs(tmp_path, run_of(1), run_of(2))
    ran = torchstone("record", *files)
    assert ran.out.splitlines()[-1] == f"2 runs recorded in {STORE}: 6 new points"
    assert torchstone("record", *files).out.splitlines()[-1] == f"2 already recorded in {STORE}: 0 new points"
    (series,) = public.series("net", metrics="abs_latency")
    assert [point.revision for point in series.points] == [f"{number:040x}" for number in (1, 2)]
    frame = public.series(metrics="abs_latency").to_frame()
    assert list(frame["benchmark"]) == ["net", "net", "mlp", "mlp"]
    assert public.HistoryStore(STORE).read(1).run == run_of(1)


def test_a_csv_takes_its_revision_from_the_option_or_from_its_name(
    torchstone: Command, tmp_path: Path
) -> None:
    for folder, name in (
        (".", "accuracy.csv"),
        ("3f2a9c1d", "accuracy.csv"),
        ("nightly/2026-11-17", "accuracy.csv"),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(ACCURACY)
    assert torchstone("record", "accuracy.csv", "--revision", "v1").code == 0
    assert torchstone("record", "3f2a9c1d/accuracy.csv", "nightly").code == 0
    assert revisions() == ["v1", "3f2a9c1d", "2026-11-17"]
    (tmp_path / "acc_r17_cpu.csv").write_text(ACCURACY)
    assert torchstone("record", "acc_r17_cpu.csv", "--revision-from", "acc_(r\\d+)_").code == 0
    assert revisions()[-1] == "r17"


def test_a_run_without_a_revision_is_refused_and_no_store_is_made(
    torchstone: Command, tmp_path: Path
) -> None:
    (tmp_path / "accuracy.csv").write_text(ACCURACY)
    refuse(torchstone("record", "accuracy.csv"), "accuracy.csv: it states no revision", "--revision")
    assert not (tmp_path / ".torchstone").exists()
    refuse(torchstone("record", "accuracy.csv", "--revision-from", "x(.*)"), "x(.*) matches nothing")
    refuse(torchstone("record", "accuracy.csv", "--revision-from", "("), "no regular expression")


def test_records_of_the_benchmark_database_have_their_commit(torchstone: Command, tmp_path: Path) -> None:
    record = {
        "timestamp": 1763000000,
        "head_sha": "c" * 40,
        "head_branch": "main",
        "benchmark": {"name": "TorchInductor", "mode": "inference", "dtype": "float32"},
        "model": {"name": "net", "type": "OSS"},
        "metric": {"name": "abs_latency", "benchmark_values": [1.5, 1.6]},
    }
    (tmp_path / "v3.json").write_text(json.dumps([record]))
    assert torchstone("record", "v3.json").code == 0
    (run,) = public.HistoryStore(STORE).runs()
    assert (run.revision, run.branch, run.points) == ("c" * 40, "main", 1)


def test_a_folder_is_recorded_whole_without_files_that_are_no_results(
    torchstone: Command, tmp_path: Path
) -> None:
    (tmp_path / "all" / "deep").mkdir(parents=True)
    for number in (2, 10, 1):
        (tmp_path / "all" / "deep" / f"run{number}.jsonl").write_text(encode_run(run_of(number)))
    (tmp_path / "all" / "notes.json").write_text('{"a": 1}')
    ran = torchstone("record", "all")
    assert "notes.json is not a result file, and is ignored" in ran.err
    assert revisions() == [f"{number:040x}" for number in (1, 2, 10)]
    (tmp_path / "none").mkdir()
    refuse(torchstone("record", "none"), "no results in this folder")


def test_a_bad_file_among_good_ones_leaves_nothing_behind(torchstone: Command, tmp_path: Path) -> None:
    files = write_runs(tmp_path, run_of(1))
    (tmp_path / "bad.jsonl").write_text(encode_run(run_of(2)).replace('"status":"pass"', '"status":1'))
    refuse(torchstone("record", *files, "bad.jsonl"), "bad.jsonl:2")
    assert not (tmp_path / STORE).exists()


def test_load_keeps_whole_thousands_before_a_bad_file(
    torchstone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchstone.api.keeping.record.AT_ONCE", 2)
    files = write_runs(tmp_path, *(run_of(number) for number in range(1, 6)))
    (tmp_path / "run4.jsonl").write_text("{")
    refuse(torchstone("store", "load", *files), "run4.jsonl")
    assert len(revisions()) == 4
    (tmp_path / "run4.jsonl").write_text(encode_run(run_of(5)))
    ran = torchstone("store", "load", *files)
    assert ran.out.splitlines()[-1] == f"1 run recorded, 4 already recorded in {STORE}: 3 new points"


def test_the_order_of_commits_is_that_of_git_and_unknown_ones_are_told(
    torchstone: Command, tmp_path: Path
) -> None:
    first, second, third = commits(tmp_path, 3)
    files = write_runs(
        tmp_path, *(run_of(n, commit=c) for n, c in enumerate((third, first, "d" * 40, second)))
    )
    ran = torchstone("record", *files)
    assert "the repository does not know dddddddddddd" in ran.err
    assert revisions() == [first, second, third, "d" * 40]
    ran = torchstone("record", files[0], "--revision", "HEAD~1")
    assert (ran.code, revisions().count(second)) == (0, 2)


def test_a_repository_whose_history_was_rewritten_is_told(torchstone: Command, tmp_path: Path) -> None:
    _, second = commits(tmp_path, 2)
    (file,) = write_runs(tmp_path, run_of(1, commit=second))
    torchstone("record", file)
    subprocess.run(["rm", "-rf", ".git"], cwd=tmp_path, check=True)
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "squashed")
    squashed = git(tmp_path, "rev-parse", "HEAD")
    (file,) = write_runs(tmp_path, run_of(2, commit=squashed))
    ran = torchstone("record", file)
    assert (ran.code, "its history was rewritten" in ran.err) == (0, True)
    assert revisions() == [second, squashed]


def test_in_a_shallow_clone_the_order_is_that_of_recording(torchstone: Command, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    first, second = commits(tmp_path / "whole", 2)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{tmp_path}/whole", "clone")
    os.chdir(tmp_path / "clone")
    files = write_runs(tmp_path / "clone", run_of(2, commit=second), run_of(1, commit=first))
    ran = torchstone("record", *files)
    assert (ran.code, ran.err) == (0, "")
    assert revisions() == [second, first]


def test_a_clock_in_the_future_is_told_and_does_not_decide_the_order(
    torchstone: Command, tmp_path: Path
) -> None:
    ahead = (datetime.now(UTC) + timedelta(days=9)).strftime("%Y%m%d")
    files = write_runs(tmp_path, run_of(1, day=ahead), run_of(2))
    ran = torchstone("record", *files)
    assert "which is in the future" in ran.err
    assert revisions() == [f"{number:040x}" for number in (1, 2)]


def test_the_store_is_named_by_option_variable_or_configuration(
    torchstone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = write_runs(tmp_path, run_of(1))
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "torchstone.toml").write_text('[store]\nlocation = "of-config.db"\n')
    assert torchstone("record", file, "--config", "ci/torchstone.toml").code == 0
    monkeypatch.setenv("TORCHSTONE_STORE", "of-variable.db")
    assert torchstone("record", file).code == 0
    assert torchstone("record", file, "--store", "of-option.db").code == 0
    assert all((tmp_path / name).exists() for name in ("ci/of-config.db", "of-variable.db", "of-option.db"))
    (tmp_path / "torchstone.toml").write_text("[store]\npath = 'x'\n")
    monkeypatch.delenv("TORCHSTONE_STORE")
    refuse(
        torchstone("record", file), "torchstone.toml:2: column path: unknown key; expected one of location"
    )


def test_check_records_what_it_judged(torchstone: Command, tmp_path: Path) -> None:
    (file,) = write_runs(tmp_path, run_of(1))
    plain = torchstone("check", file, "--rule", "abs_latency=ceiling:100")
    ran = torchstone("check", file, "--rule", "abs_latency=ceiling:100", "--record")
    assert (ran.code, ran.out) == (plain.code, plain.out)
    assert "1 run recorded" in ran.err
    assert len(revisions()) == 1


def test_run_records_what_it_measured_and_is_refused_before_if_it_cannot(
    torchstone: Command, tmp_path: Path
) -> None:
    (tmp_path / "bench_it.py").write_text("")
    benchmark = BenchmarkFound("it", 4, modes=("inference",))
    measured = ("run", "bench_it.py", "--probe", "performance", "--record")
    with using_executor(FakeExecutor(lambda _: passes(), [benchmark])):
        refuse(torchstone(*measured, "--output", "a.jsonl"), "the run has no revision", "--label")
        (tmp_path / "no.db").write_text("this is a text")
        refuse(torchstone(*measured, "--store", "no.db", "--label", "x"), "no.db: this is no SQLite database")
        assert not (tmp_path / "a.jsonl").exists()
        ran = torchstone(*measured, "--label", "mine", "--output", "b.jsonl")
    assert (ran.code, revisions()) == (0, ["mine"])
    assert "1 run recorded" in ran.err


def test_what_is_no_store_is_refused_and_left_as_it_is(torchstone: Command, tmp_path: Path) -> None:
    (file,) = write_runs(tmp_path, run_of(1))
    (tmp_path / "text.db").write_text("hello")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE mine (a)")
    other.close()
    before = {name: (tmp_path / name).read_bytes() for name in ("text.db", "other.db")}
    for command in (("record", file), ("store", "info"), ("store", "verify")):
        refuse(torchstone(*command, "--store", "text.db"), "text.db: this is no SQLite database")
        refuse(torchstone(*command, "--store", "other.db"), "other.db: this SQLite database is no store")
        refuse(torchstone(*command, "--store", "."), "this is a folder")
        refuse(
            torchstone(*command, "--store", "mysql://me:geheim@host/x"),
            "no such kind of store",
            "mysql://***@host/x",
        )
    refuse(torchstone("store", "info"), "there is no store", "torchstone record")
    assert before == {name: (tmp_path / name).read_bytes() for name in before}
    assert not (tmp_path / STORE).exists()


def test_a_store_that_is_locked_for_long_says_so(
    torchstone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: str
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.2)
    (file, other) = write_runs(tmp_path, run_of(1), run_of(2))
    for place in (STORE, new_database(postgres)):
        assert torchstone("record", file, "--store", place).code == 0
        with opened(place) as holder, holder.writing():
            refuse(
                torchstone("record", other, "--store", place),
                "another process has been writing to it for 0.2 s",
            )
            assert torchstone("store", "info", "--store", place).code == 0
        assert torchstone("record", other, "--store", place).code == 0


def start(arguments: Sequence[str], folder: Path, *, largest: int | None = None) -> Ran:
    """Runs a command in a process of its own, which may not ignore permissions, and may have a limit on the size of files."""

    def limit() -> None:
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    as_others = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_others, sys.executable, "-m", "torchstone", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_a_full_disk_is_told_and_nothing_is_half_written(torchstone: Command, tmp_path: Path) -> None:
    files = write_runs(tmp_path, *(run_of(number) for number in range(1, 40)))
    assert torchstone("record", files[0]).code == 0
    with opened(STORE) as database:
        before = rows_of(database)
    refuse(start(["record", *files], tmp_path, largest=100_000), "full")
    with opened(STORE) as database:
        assert rows_of(database) == before
    assert torchstone("store", "verify").code == 0
    assert torchstone("record", *files).code == 0


def test_a_store_that_cannot_be_written_can_be_read(torchstone: Command, tmp_path: Path) -> None:
    first, second = write_runs(tmp_path, run_of(1), run_of(2))
    assert torchstone("record", first, "--store", "kept/history.db").code == 0
    kept = tmp_path / "kept"
    for path in (kept / "history.db", kept):
        path.chmod(0o444 if path.is_file() else 0o555)
    refuse(
        start(["record", second, "--store", "kept/history.db"], tmp_path),
        "kept/history.db: ",
        "permissions",
    )
    ran = start(["store", "info", "--store", "kept/history.db"], tmp_path)
    assert (ran.code, "1 run" in ran.out) == (0, True), ran.err
    kept.chmod(0o755)


def test_a_password_is_never_shown(torchstone: Command, tmp_path: Path, postgres: str) -> None:
    (file,) = write_runs(tmp_path, run_of(1))
    place = new_database(postgres)
    wrong = place.replace("correct-horse", "wrong-horse")
    refuse(
        torchstone("record", file, "--store", wrong),
        "password authentication failed",
        "check the user and the password",
    )
    for url in (
        "postgresql://me:secret@127.0.0.1:1/x",
        "postgresql://me:se@cret@127.0.0.1:1/x",
        "postgresql://me:se/cret@h/x",
    ):
        refuse(torchstone("record", file, "--store", url))
        said = torchstone("record", file, "--store", url).err
        assert "secret" not in said
        assert "cret" not in said
    commands = (("record", file), ("store", "info"), ("store", "copy", "copy.db"))
    shown = [torchstone(*command, "--store", place) for command in commands]
    assert [ran.code for ran in shown] == [0, 0, 0]
    assert "correct-horse" not in repr(shown)
    assert b"correct-horse" not in (tmp_path / "copy.db").read_bytes()
    refuse(
        torchstone("store", "info", "--store", new_database(postgres)), "there is no store in this database"
    )


def test_runs_are_pinned_removed_renamed_and_pruned(torchstone: Command, tmp_path: Path) -> None:
    torchstone("record", *write_runs(tmp_path, run_of(1), run_of(2)))
    assert torchstone("store", "pin", "1", "--reason", "release").code == 0
    listed = torchstone("store", "info", "--runs").out
    assert "2 runs (1 pinned, 0 unfinished)" in listed
    assert "release" in listed
    refuse(torchstone("store", "remove", "1"), "is pinned (release)", "--release")
    would = torchstone("store", "prune", "--days", "0").out
    assert "would remove" in would
    assert "nothing was changed" in would
    assert "removed" in torchstone("store", "prune", "--days", "0", "--apply").out
    assert torchstone("store", "rename", "net", "network").out == "renamed net to network: 1 case\n"
    refuse(torchstone("store", "rename", "nett", "x"), "no such benchmark")
    assert torchstone("store", "pin", "1", "--release").code == 0
    assert torchstone("store", "remove", "1").code == 0
    refuse(torchstone("store", "remove", "1"), "no such run")
    assert "is valid: 1 run" in torchstone("store", "verify").out


def test_verify_exits_with_1_if_something_is_wrong(torchstone: Command, tmp_path: Path) -> None:
    torchstone("record", *write_runs(tmp_path, run_of(1)))
    with opened(STORE) as database:
        database.execute("DELETE FROM points WHERE series_id = 1")
    ran = torchstone("store", "verify")
    assert (ran.code, "3 points recorded, 2 are here" in ran.out) == (1, True)
