"""Changes in a store: found as runs are recorded, the same as by one look at everything."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from comparison_files import case_of, counts
from stored_runs import make_older, new_database, one_number, opened, recorded, run_of, to_record
from torchstone.analyze.changepoints import find_changes
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Measurement, Outcome
from torchstone.history.change_records import Direction, SeriesChange
from torchstone.history.change_rows import ChangesUpdate
from torchstone.history.detect_changes import is_stale, update_changes
from torchstone.history.stored_changes import ChangeQuery, read_changes
from torchstone.store.database.connection import Database
from torchstone.store.database.migrations import migrate
from torchstone.store.ordering import History
from torchstone.store.record_runs import record_runs
from torchstone.store.upkeep.renaming import rename
from torchstone.store.upkeep.retention import remove
from torchstone.store.upkeep.verifying import verify


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:  # noqa: ANN401  (a generator of a store)
    place = str(tmp_path / "history.db")
    if request.param == "postgres":
        place = new_database(request.getfixturevalue("postgres"))
    with opened(place) as database:
        yield database


@pytest.fixture
def small(tmp_path: Path) -> Any:  # noqa: ANN401  (a generator of a store)
    with opened(str(tmp_path / "history.db")) as database:
        yield database


def noise(points: int, seed: int = 0) -> list[float]:
    chance = random.Random(seed)  # noqa: S311  (noise, not secrets)
    return [math.exp(chance.gauss(0, 0.01)) for _ in range(points)]


def stepped(points: int, at: int, factor: float, seed: int = 0) -> list[float]:
    return [value * (factor if n >= at else 1.0) for n, value in enumerate(noise(points, seed))]


def record_values(database: Database, values: Sequence[float | None], first: int = 1, **stated: Any) -> None:  # noqa: ANN401  (of the run)
    """Records one run for each value; None is a run without the case."""
    runs = [
        run_of(
            number, [one_number("net", value)] if value is not None else [one_number("other", 1.0)], **stated
        )
        for number, value in enumerate(values, start=first)
    ]
    recorded(database, *runs)


def of_net(database: Database, **query: Any) -> list[SeriesChange]:  # noqa: ANN401  (any part of a query)
    return read_changes(database, ChangeQuery(("net",), ("abs_latency",), **query))


def revision(number: int) -> str:
    return f"{number:040x}"


def facts_of(database: Database) -> list[tuple[Any, ...]]:
    """What is known of all changes, without what depends on when they were found."""
    return sorted(
        (
            each.series.case.id,
            each.metric.name,
            each.branch,
            each.last_old.revision,
            each.first_new.revision,
            each.earliest,
            each.latest,
            each.direction,
            each.before,
            each.after,
            each.certainty,
            each.is_provisional,
        )
        for each in read_changes(database)
    )


def test_a_step_is_a_change_between_two_revisions(store: Database) -> None:
    record_values(store, stepped(60, 30, 1.1))
    assert is_stale(store)
    update = update_changes(store)
    (change,) = of_net(store)
    assert update == ChangesUpdate(2, (change.id,))
    assert (change.last_old.revision, change.first_new.revision) == (revision(30), revision(31))
    assert change.direction is Direction.REGRESSION
    assert change.ratio == pytest.approx(1.1, rel=0.01)
    assert not change.is_provisional
    assert change.group is None
    assert not is_stale(store)
    assert update_changes(store) == ChangesUpdate()
    assert verify(store).is_valid


def test_a_faster_benchmark_and_a_higher_speedup_are_improvements(small: Database) -> None:
    values = stepped(60, 30, 0.9)
    runs = [
        run_of(n, [one_number("net", value), one_number("ratio", 1 / value, "speedup")])
        for n, value in enumerate(values, start=1)
    ]
    recorded(small, *runs)
    update_changes(small)
    ways = {each.metric.name: each.direction for each in read_changes(small)}
    assert ways == {"abs_latency": Direction.IMPROVEMENT, "speedup": Direction.IMPROVEMENT}


def test_a_status_that_fails_is_a_change_at_once_and_provisional_until_the_next_run(store: Database) -> None:
    def run(number: int, status: str) -> Any:  # noqa: ANN401  (a run)
        return run_of(number, [Outcome(case_of("net"), status)])

    recorded(store, *(run(n, "pass") for n in range(1, 30)))
    update_changes(store)
    recorded(store, run(30, "timeout"))
    update_changes(store)
    (fresh,) = read_changes(store)
    assert (fresh.before, fresh.after, fresh.is_provisional) == ("pass", "timeout", True)
    assert fresh.direction is Direction.REGRESSION
    assert fresh.metric.name == "accuracy"
    recorded(store, run(31, "timeout"))
    update_changes(store)
    (sure,) = read_changes(store)
    assert (sure.id, sure.is_provisional) == (fresh.id, False)
    recorded(
        store, run(32, "not_available"), run(33, "OOM"), run(34, "OOM"), run(35, "pass"), run(36, "pass")
    )
    update_changes(store)
    ways = [(each.before, each.after, each.direction) for each in read_changes(store)]
    assert ways == [
        ("pass", "timeout", Direction.REGRESSION),
        ("timeout", "OOM", Direction.NEUTRAL),
        ("OOM", "pass", Direction.IMPROVEMENT),
    ]


def test_one_more_graph_break_is_a_change_of_that_revision_exactly(small: Database) -> None:
    runs = [
        run_of(n, [Outcome(case_of("net"), "pass", (counts("graph_breaks", 2 if n < 20 else 3),))])
        for n in range(1, 24)
    ]
    recorded(small, *runs)
    update_changes(small)
    (change,) = read_changes(small)
    assert (change.before, change.after) == (2.0, 3.0)
    assert change.first_new.revision == revision(20)


def test_the_interval_of_a_change_spans_the_gap_before_it(small: Database) -> None:
    values: list[float | None] = list(stepped(60, 30, 1.2))
    values[26:30] = [None] * 4
    record_values(small, values)
    update_changes(small)
    (change,) = of_net(small)
    assert (change.last_old.revision, change.first_new.revision) == (revision(26), revision(31))


def test_trials_of_one_revision_are_on_one_side_of_a_change(small: Database) -> None:
    values = stepped(60, 30, 1.2)
    record_values(small, values)
    recorded(small, *(run_of(100 + n, [one_number("net", 1.2)], commit=revision(31)) for n in range(3)))
    update_changes(small)
    (change,) = of_net(small)
    assert (change.last_old.revision, change.first_new.revision) == (revision(30), revision(31))


def test_branches_have_changes_of_their_own(small: Database) -> None:
    record_values(small, stepped(40, 20, 1.2))
    record_values(small, noise(40, 7), first=101, branch="release")
    update_changes(small)
    assert [each.branch for each in of_net(small)] == ["main"]
    assert of_net(small, branch="release") == []


def test_a_change_that_moves_keeps_its_id(small: Database) -> None:
    values = stepped(60, 40, 1.05)
    ids, places = set(), set()
    for number, value in enumerate(values, start=1):
        record_values(small, [value], first=number)
        update_changes(small)
        for change in of_net(small):
            if abs(int(change.first_new.revision, 16) - 41) < 5:
                ids.add(change.id)
                places.add(change.first_new.revision)
    assert len(ids) == 1


def decide(database: Database, change: SeriesChange, *, is_automatic: int = 0) -> None:
    database.insert(
        "change_groups", ("id", "name", "branch", "cause", "opened_at"), [(1, "g", "main", "code", "2026")]
    )
    database.execute("UPDATE changes SET group_id = 1 WHERE id = ?", (change.id,))
    row = (1, 1, "acknowledged", "", "", "", "", "2026", is_automatic, None)
    names = (
        "id",
        "group_id",
        "state",
        "reason",
        "link",
        "owner",
        "author",
        "at",
        "is_automatic",
        "duplicate_of",
    )
    database.insert("triage_events", names, [row])


@pytest.mark.parametrize("is_decided", [True, False])
def test_a_change_that_vanishes_is_removed_unless_somebody_decided_about_it(
    small: Database, is_decided: bool
) -> None:
    recorded(small, *(run_of(n, [Outcome(case_of("net"), "pass")]) for n in range(1, 30)))
    recorded(small, run_of(30, [Outcome(case_of("net"), "timeout")]))
    update_changes(small)
    (fresh,) = read_changes(small)
    decide(small, fresh, is_automatic=int(not is_decided))
    recorded(small, run_of(31, [Outcome(case_of("net"), "pass")]))
    assert update_changes(small).vanished == (fresh.id,)
    assert read_changes(small) == []
    kept = read_changes(small, ChangeQuery(with_vanished=True))
    assert [(each.id, each.is_vanished) for each in kept] == ([(fresh.id, True)] if is_decided else [])
    assert verify(small).is_valid
    recorded(small, *(run_of(n, [Outcome(case_of("net"), "timeout")]) for n in (32, 33)))
    update_changes(small)
    (new,) = read_changes(small)
    assert not new.is_vanished
    assert new.id >= fresh.id


def test_runs_recorded_late_take_their_place(store: Database) -> None:
    commits = [revision(n) for n in range(1, 61)]
    history = History({commit: n for n, commit in enumerate(commits, start=1)}, is_there=True)
    runs = [run_of(n, [one_number("net", value)]) for n, value in enumerate(stepped(60, 30, 1.1), start=1)]
    late = list(range(20, 32))
    record_runs(store, to_record(*(run for n, run in enumerate(runs) if n not in late)), history)
    update_changes(store)
    (wide,) = of_net(store)
    assert (wide.last_old.revision, wide.first_new.revision) == (revision(20), revision(33))
    for number in reversed(late):
        record_runs(store, to_record(runs[number]), history)
        update_changes(store)
    (narrow,) = of_net(store)
    assert narrow.id == wide.id
    assert (narrow.last_old.revision, narrow.first_new.revision) == (revision(30), revision(31))


def test_a_removed_run_leaves_its_changes_to_its_neighbours(store: Database) -> None:
    record_values(store, stepped(60, 30, 1.1))
    update_changes(store)
    (before,) = of_net(store)
    for name in (revision(31), revision(30)):
        remove(store, name)
        assert verify(store).is_valid
    update_changes(store)
    (after,) = of_net(store)
    assert after.id == before.id
    assert (after.last_old.revision, after.first_new.revision) == (revision(29), revision(32))
    for number in range(32, 61):
        remove(store, revision(number))
    update_changes(store)
    assert of_net(store) == []
    for run in store.query("SELECT name FROM runs"):
        remove(store, run[0])
    update_changes(store)
    assert store.query("SELECT count(*) FROM detections") == [(0,)]
    assert verify(store).is_valid


def test_a_renamed_benchmark_keeps_its_changes(store: Database) -> None:
    record_values(store, stepped(60, 30, 1.1))
    update_changes(store)
    (before,) = of_net(store)
    recorded(
        store,
        *(run_of(n, [one_number("new_net", 1.1 * value)]) for n, value in enumerate(noise(20, 3), start=61)),
    )
    update_changes(store)
    rename(store, "net", "new_net")
    assert verify(store).is_valid
    update_changes(store)
    (after,) = read_changes(store, ChangeQuery(metrics=("abs_latency",)))
    assert (after.id, after.series.case.benchmark) == (before.id, "new_net")
    assert store.query("SELECT point_count FROM detections WHERE series_id IS NOT NULL") == [(80,)]


def test_a_run_that_is_completed_keeps_the_changes(small: Database) -> None:
    recorded(small, *(run_of(n, [Outcome(case_of("net"), "pass")]) for n in range(1, 30)))
    failed = [Outcome(case_of("net"), "timeout")]
    planned = [*failed, one_number("other", 1.0)]
    recorded(small, run_of(30, failed, finished=False, planned=planned))
    update_changes(small)
    (before,) = read_changes(small)
    recorded(small, run_of(30, planned, planned=planned))
    update_changes(small)
    (after,) = read_changes(small)
    assert (after.id, after.first_new.revision) == (before.id, revision(30))


def test_the_changes_of_an_older_store_are_found_by_the_next_update(store: Database) -> None:
    record_values(store, stepped(60, 30, 1.1))
    with store.writing():
        make_older(store)
    migrate(store)
    update_changes(store)
    assert len(of_net(store)) == 1


@pytest.mark.parametrize("points", [700, 1100])
def test_a_long_series_is_never_read_as_a_whole_again(small: Database, points: int) -> None:
    values = [
        a * b for a, b in zip(stepped(points, points // 2, 1.05), stepped(points, 100, 1.1, 1), strict=True)
    ]
    record_values(small, values[:-60])
    update_changes(small)
    for number in range(points - 59, points + 1):
        record_values(small, [values[number - 1]], first=number)
        update_changes(small)
    update_changes(small, thorough=True)
    expected = [each.index for each in find_changes(values)]
    assert [int(each.first_new.revision, 16) - 1 for each in of_net(small)] == expected
    ((text,),) = small.query("SELECT decided FROM detections WHERE series_id IS NOT NULL")
    assert '"needed_from":256' in text or '"needed_from":512' in text or '"needed_from":768' in text


LEVELS = st.lists(
    st.tuples(st.integers(3, 60), st.sampled_from([1.0, 1.02, 1.1, 2.0])), min_size=1, max_size=5
)


@given(LEVELS, st.integers(0, 1000), st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_recording_runs_one_by_one_gives_the_changes_of_all_at_once(
    tmp_path_factory: pytest.TempPathFactory,
    levels: list[tuple[int, float]],
    seed: int,
    chance: random.Random,
) -> None:
    values = [level for count, level in levels for _ in range(count)]
    values = [value * wobble for value, wobble in zip(values, noise(len(values), seed), strict=True)]
    runs = [
        run_of(
            number,
            [
                one_number("net", value),
                Outcome(case_of("exact"), "pass", (counts("graph_breaks", int(4 * value / 1.05)),)),
                Outcome(case_of("flaky"), chance.choice(["pass", "pass", "pass", "timeout"])),
            ],
        )
        for number, value in enumerate(values, start=1)
    ]
    folder = tmp_path_factory.mktemp("stores")
    with opened(str(folder / "one.db")) as one, opened(str(folder / "all.db")) as all_at_once:
        at = 0
        while at < len(runs):
            count = chance.randint(1, 5)
            recorded(one, *runs[at : at + count])
            update_changes(one)
            at += count
        update_changes(one, thorough=True)
        recorded(all_at_once, *runs)
        update_changes(all_at_once)
        assert facts_of(one) == facts_of(all_at_once)
        assert verify(one).is_valid


def test_a_step_of_a_long_quiet_series_is_seen_at_once(small: Database) -> None:
    values = stepped(230, 220, 1.2)
    record_values(small, values[:200])
    update_changes(small)
    ((before,),) = small.query("SELECT decided FROM detections WHERE series_id IS NOT NULL")
    assert '"is_quiet":true' in before
    closely = 0
    for number in range(201, 231):
        record_values(small, [values[number - 1]], first=number)
        update_changes(small)
        ((now,),) = small.query("SELECT decided FROM detections WHERE series_id IS NOT NULL")
        closely += '"pending"' not in now
        if number >= 221 + 1:
            expected = [each.index for each in find_changes(values[:number])]
            assert [int(each.first_new.revision, 16) - 1 for each in of_net(small)] == expected
    assert 10 <= closely < 20  # after the step always, before it rarely


def test_a_share_of_many_samples_is_a_pass_rate(small: Database) -> None:
    chance = random.Random(3)  # noqa: S311  (noise, not secrets)
    shares = MeasurementDetails(unit="share", better="higher", trials=())

    def run(number: int) -> Any:  # noqa: ANN401  (a run)
        passing = sum(chance.random() < (0.95 if number <= 30 else 0.7) for _ in range(200))
        return run_of(
            number,
            [Outcome(case_of("net"), "pass", (Measurement("passing", (passing / 200,) * 200, shares),))],
        )

    recorded(small, *(run(number) for number in range(1, 61)))
    update_changes(small)
    (change,) = read_changes(small, ChangeQuery(metrics=("passing",)))
    assert change.first_new.revision == revision(31)
    assert change.direction is Direction.REGRESSION
    assert change.before == pytest.approx(0.95, abs=0.02)
    assert change.after == pytest.approx(0.7, abs=0.04)
