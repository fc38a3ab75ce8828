"""A process that is killed, and several that write at once: a run is in the store whole, or not at all."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from comparison_files import counts, passed, times
from stored_runs import make_older, new_database, opened, recorded, rows_of, run_of
from torchstone.core.records import Run
from torchstone.core.run_file import encode_run
from torchstone.history.detect_changes import is_stale
from torchstone.history.stored_changes import read_changes
from torchstone.store.database.migrations import NEWEST, version_of
from torchstone.store.queries import SeriesQuery, find_series
from torchstone.store.reading_runs import list_runs
from torchstone.store.upkeep.copying import copy
from torchstone.store.upkeep.verifying import verify

TORCHSTONE = (sys.executable, "-m", "torchstone")
CASES = 60
STEP = 13
"""From this run on, every other case is slower."""


def large_run(number: int) -> Run:
    """A run whose recording takes a while, and many pages; some of its series have a change."""
    return run_of(
        number,
        [
            passed(
                f"net{n}",
                times((1.0 + n) * (1.5 if is_slower(number, n) else 1.0), seed=number * CASES + n, trials=2),
                counts("graph_breaks", 1),
            )
            for n in range(CASES)
        ],
    )


def is_slower(number: int, case: int) -> bool:
    """Whether a run is one after a change of this case."""
    return number >= STEP and case % 2 == 0


def write_files(folder: Path, numbers: Sequence[int]) -> list[str]:
    for number in numbers:
        (folder / f"run{number}.jsonl").write_text(encode_run(large_run(number)))
    return [f"run{number}.jsonl" for number in numbers]


def kill_during(arguments: Sequence[str], folder: Path, after: float) -> bool:
    """Starts a command and kills it after a while; returns whether it had not ended by itself."""
    process = subprocess.Popen(
        [*TORCHSTONE, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    assert process.stderr
    with process.stderr:
        said = process.stderr.read()
    code = process.wait()
    assert code in {0, -signal.SIGKILL}, said
    return code != 0


def expect_whole_runs(place: str) -> int:
    """Asserts that the store is valid, and returns the number of its runs."""
    with opened(place) as database:
        found = verify(database)
        assert found.is_valid, found.problems
        assert all(run.outcomes == CASES and run.points == 2 * CASES for run in list_runs(database))
        return found.runs


def time_of(arguments: Sequence[str], folder: Path) -> float:
    """Runs a command to its end, and returns the seconds it took: when to kill the next ones depends on it."""
    start = time.monotonic()
    subprocess.run([*TORCHSTONE, *arguments], cwd=folder, check=True, capture_output=True)
    return time.monotonic() - start


def kill_often(folder: Path, place: str, tries: int, seed: int) -> None:
    """Kills each of the commands that write at random moments; afterwards each does its work when it is left alone."""
    chance = random.Random(seed)  # noqa: S311  (moments, not secrets)
    files = write_files(folder, range(tries + 2))
    takes = time_of(["record", files[0], "--store", place], folder)
    for number in range(1, tries + 1):
        before = expect_whole_runs(place)
        kill_during(["record", files[number], "--store", place], folder, takes * chance.uniform(0.3, 1.1))
        assert expect_whole_runs(place) - before in {0, 1}
    record_all(files, folder, place)
    expected = changes_of(place)
    assert len(expected) >= CASES // 2
    with opened(place) as database:
        whole = rows_of(database)
    for number in range(tries):
        target = f"copy{number}.db"
        kill_during(["store", "copy", target, "--store", place], folder, takes * chance.uniform(0.3, 1.3))
        if (folder / target).exists():
            with opened(str(folder / target)) as copied:
                assert verify(copied).is_valid
                assert rows_of(copied) == whole or not list_runs(copied)
    kill_while_pruning(folder, place, tries, takes, chance)
    for _ in range(tries):
        downgrade(place)
        kill_during(["store", "info", "--store", place], folder, takes * chance.uniform(0.3, 1.1))
        with opened(place) as database:
            assert version_of(database) == NEWEST
            assert rows_of(database)["points"] == whole["points"]
    record_all(files, folder, place)
    assert changes_of(place) == expected


def kill_while_pruning(folder: Path, place: str, tries: int, takes: float, chance: random.Random) -> None:
    """Kills commands that prune; what they leave is all raw data, or what they keep when they are left alone."""
    prune = ["store", "prune", "--days", "0", "--apply", "--store", place]
    with opened(place) as database:
        before = rows_of(database)
    seen = []
    for _ in range(tries):
        kill_during(prune, folder, takes * chance.uniform(0.3, 1.1))
        expect_whole_runs(place)
        with opened(place) as database:
            kept = rows_of(database)
        seen.append(kept["samples"])
        assert kept["points"] == before["points"]
        assert kept["changes"] == before["changes"]
    subprocess.run([*TORCHSTONE, *prune], cwd=folder, check=True, capture_output=True)
    with opened(place) as database:
        pruned = rows_of(database)["samples"]
    assert 0 < len(pruned) < len(before["samples"])  # near changes, they are kept
    assert all(samples in (before["samples"], pruned) for samples in seen)


def record_all(files: Sequence[str], folder: Path, place: str) -> None:
    """Records all files, those that are there already, too: whatever a killed command left undone is done."""
    subprocess.run(
        [*TORCHSTONE, "record", *files, "--store", place], cwd=folder, check=True, capture_output=True
    )
    assert expect_whole_runs(place) == len(files)
    with opened(place) as database:
        assert not is_stale(database)


def changes_of(place: str) -> list[tuple[object, ...]]:
    """What was found in a store, whenever it was found."""
    with opened(place) as database:
        return sorted(
            (
                each.series.case.id,
                each.metric.name,
                each.first_new.revision,
                each.last_old.revision,
                each.direction,
                each.is_provisional,
            )
            for each in read_changes(database)
        )


def downgrade(place: str) -> None:
    """Makes the store one of version 1, so that the next command has to migrate it."""
    with opened(place) as database, database.writing():
        make_older(database)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_100_killed_commands_leave_a_valid_store_with_whole_runs(
    tmp_path: Path, postgres: str, kind: str
) -> None:
    kill_often(
        tmp_path, str(tmp_path / "history.db") if kind == "sqlite" else new_database(postgres), 25, seed=2
    )


KILLED_INSIDE = """
import os, signal, sys
from torchstone.store.database.opening import connect
from torchstone.store.database import {database} as home
place, kind, number = sys.argv[1:4]
database = connect(place)
count = 0
def counted(name):
    real = getattr(database, name)
    def call(*given):
        global count
        count += 1
        if count == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given)
    return call
for name in ("insert", "execute", "execute_many"):
    setattr(database, name, counted(name))
if kind == "record":
    from stored_runs import recorded
    from test_kills import large_run
    recorded(database, large_run(2))
elif kind == "prune":
    from torchstone.store.upkeep.retention import prune
    prune(database, 0, applies=True)
elif kind == "remove":
    from torchstone.store.upkeep.retention import remove
    remove(database, "1")
elif kind == "detect":
    from torchstone.history.update import bring_up_to_date
    bring_up_to_date(database)
elif kind == "migrate":
    from torchstone.store.database.migrations import migrate
    migrate(database)
print("ended after", count)
"""


@pytest.mark.parametrize("kind", ["record", "prune", "remove", "detect"])
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_process_killed_between_any_two_statements_changes_nothing(
    tmp_path: Path, kind: str, database: str, request: pytest.FixtureRequest
) -> None:
    place = str(tmp_path / "history.db")
    if database == "postgres":
        place = new_database(request.getfixturevalue("postgres"))
    with opened(place) as store:
        recorded(store, large_run(1))
        before = rows_of(store)
    program = KILLED_INSIDE.format(database=database)
    paths = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    deaths = 0
    for number in (2, 5, 9999):
        ran = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path[:0] = {paths}\n{program}",
                place,
                kind,
                str(number),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode == 0:
            break
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        deaths += 1
        with opened(place) as store:
            assert rows_of(store) == before
            assert verify(store).is_valid
    assert deaths >= 1
    with opened(place) as store:
        assert rows_of(store) != before
        assert verify(store).is_valid


WRITER = """
import sys
from stored_runs import opened, recorded, run_of
first, last = map(int, sys.argv[2:4])
for number in range(first, last):
    with opened(sys.argv[1]) as database:
        recorded(database, run_of(number))
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_writers_and_a_reader_at_once_lose_nothing(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    place = str(tmp_path / "history.db")
    if kind == "postgres":
        place = new_database(request.getfixturevalue("postgres"))
    each, path = 15, str(Path(__file__).parent.parent)
    writers = [  # the store does not exist yet: both may create it
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path.insert(0, {path!r})\n{WRITER}",
                place,
                str(first),
                str(first + each),
            ],
            stderr=subprocess.PIPE,
        )
        for first in (1, 1001)
    ]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        with opened(place) as database, database.reading():
            series = list(find_series(database, SeriesQuery((), ("abs_latency",))))
            found = sum(map(len, series))
            assert found == 2 * len(list_runs(database))
            assert found >= seen
            seen = found
    for writer in writers:
        assert writer.stderr
        with writer.stderr:
            assert writer.wait() == 0, writer.stderr.read()
    with opened(place) as database:
        assert len(list_runs(database)) == 2 * each
        assert verify(database).is_valid


def test_a_copy_that_fails_on_its_way_leaves_an_empty_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(str(tmp_path / "a.db")) as source, opened(str(tmp_path / "b.db")) as target:
        recorded(source, large_run(1))

        def stop(*_: object) -> list[object]:
            raise KeyboardInterrupt

        monkeypatch.setattr("torchstone.store.upkeep.copying._compare", stop)
        with pytest.raises(KeyboardInterrupt):
            copy(source, target)
        assert list_runs(target) == []
        assert verify(target).is_valid
