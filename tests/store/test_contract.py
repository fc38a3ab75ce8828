"""What every store does, whichever database holds it: these tests run on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from comparison_files import case_of, counts, failed, passed, times
from stored_runs import (
    EPYC,
    make_older,
    new_database,
    one_number,
    opened,
    recorded,
    rows_of,
    run_of,
    to_record,
)
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import InputError, TorchstoneError, UsageError
from torchstone.core.records import Case, Measurement, Outcome, Provenance
from torchstone.store.database.connection import Database
from torchstone.store.database.migrations import NEWEST, migrate, version_of
from torchstone.store.database.opening import connect
from torchstone.store.database.schema import OF_RUNS
from torchstone.store.ordering import History
from torchstone.store.queries import SeriesQuery, find_series
from torchstone.store.reading_runs import find_run, list_runs, read_run
from torchstone.store.recent import RecentPoints, read_recent
from torchstone.store.record_runs import RecordEffect, record_runs
from torchstone.store.upkeep.copying import copy
from torchstone.store.upkeep.describing import describe
from torchstone.store.upkeep.renaming import rename
from torchstone.store.upkeep.retention import pin, prune, remove
from torchstone.store.upkeep.verifying import verify


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a new store."""
    if request.param == "sqlite":
        return str(tmp_path / "history.db")
    server: str = request.getfixturevalue("postgres")
    return new_database(server)


@pytest.fixture
def store(location: str) -> Any:  # noqa: ANN401  (a generator of a store)
    with opened(location) as database:
        yield database


def values_of(database: Database, case: str, metric: str = "abs_latency", **query: Any) -> list[Any]:  # noqa: ANN401  (any part of a query)
    (series,) = find_series(database, SeriesQuery((case,), (metric,), **query))
    return series.values


def test_a_store_without_runs_has_no_series(store: Database) -> None:
    assert list(find_series(store, SeriesQuery())) == []
    assert read_recent(store, ()) == RecentPoints((), {})


def test_a_run_that_is_recorded_twice_is_in_the_store_once(store: Database) -> None:
    (first,) = recorded(store, run_of(1))
    before = rows_of(store)
    (again,) = recorded(store, run_of(1))
    assert (first.effect, again.effect) == (RecordEffect.RECORDED, RecordEffect.KNOWN)
    assert again.run_id == first.run_id
    assert rows_of(store) == before


def test_equal_numbers_of_another_revision_are_another_point(store: Database) -> None:
    outcomes = (passed("net", counts("graph_breaks", 3)),)
    recorded(store, run_of(1, outcomes), run_of(2, outcomes))
    assert values_of(store, "net", "graph_breaks") == [3.0, 3.0]


def test_two_runs_of_one_revision_and_environment_are_trials(store: Database) -> None:
    first, second = recorded(store, run_of(1, commit="a" * 40), run_of(2, commit="a" * 40))
    elsewhere = structs.replace(EPYC_AT_HOME, id="20261118T203103-000003")
    (third,) = recorded(store, elsewhere)
    assert (first.attempt, second.attempt, third.attempt) == (1, 2, 1)
    assert len(values_of(store, "net")) == 3


EPYC_AT_HOME = run_of(
    3, commit="a" * 40, environment={**EPYC, "machine": {"cpu": {"model": "EPYC"}, "host": "home"}}
)


def test_a_run_that_had_not_finished_is_completed_and_keeps_its_number_and_pin(store: Database) -> None:
    whole = run_of(2)
    part = structs.replace(whole, outcomes=whole.outcomes[:1], finished=False)
    recorded(store, run_of(1))
    (first,) = recorded(store, part)
    assert store.query("SELECT case_id FROM outcomes WHERE status_id IS NULL") != []
    pin(store, str(first.run_id), "release")
    (done,) = recorded(store, whole)
    assert (done.effect, done.run_id, done.attempt) == (RecordEffect.COMPLETED, first.run_id, first.attempt)
    kept = find_run(store, whole.id)
    assert (kept.finished, kept.pinned, kept.outcomes) == (True, "release", 3)
    assert read_run(store, kept).run == whole
    assert verify(store).is_valid


def test_an_older_copy_of_a_run_takes_nothing_back(store: Database) -> None:
    whole = structs.replace(run_of(1), finished=False)
    recorded(store, whole)
    before = rows_of(store)
    (again,) = recorded(store, structs.replace(whole, outcomes=whole.outcomes[:1]))
    assert again.effect is RecordEffect.KNOWN
    assert rows_of(store) == before


def test_a_run_comes_back_as_it_was_recorded(store: Database) -> None:
    odd = Outcome(
        Case("odd", "performance", "smoke"),
        "pass",
        (
            Measurement(
                "abs_latency", (1, 2.5, 2**70), MeasurementDetails(trials=(1, 2), start="fork", cache="cold")
            ),
            Measurement("graph_breaks", (2**60, 7)),
            Measurement("tokens", (3,), MeasurementDetails(better="higher", unit="1/s")),
        ),
        repro="torchstone repro",
        provenance=Provenance(host="a", machine_class="big"),
    )
    run = run_of(1, (*run_of(1).outcomes, odd))
    run = structs.replace(run, controls=(passed("control", times(1.0)),))
    recorded(store, run)
    assert read_run(store, find_run(store, run.id)).run == run


def test_the_way_of_measuring_is_part_of_a_series_and_the_version_of_torch_is_not(store: Database) -> None:
    def measured(cache: str) -> Outcome:
        return passed("net", Measurement("abs_latency", (1.0,), MeasurementDetails(cache=cache)))

    newer = {**EPYC, "versions": {"torch": "2.14.0"}}
    recorded(
        store,
        run_of(1, [measured("cold")]),
        run_of(2, [measured("cold")], environment=newer),
        run_of(3, [measured("warm")]),
    )
    found = list(find_series(store, SeriesQuery(("net",), ("abs_latency",))))
    assert [(each.key.cache, [point.torch for point in each.points]) for each in found] == [
        ("cold", ["2.13.0", "2.14.0"]),
        ("warm", ["2.13.0"]),
    ]


def test_another_class_of_machines_is_another_series(store: Database) -> None:
    gpu = {**EPYC, "accelerators": [{"name": "H200"}]}
    on_gpu = one_number("net", 1.0, device="cuda")
    on_cpu = one_number("net", 2.0, device="cpu")
    recorded(store, run_of(1, [on_gpu, on_cpu], environment=gpu))
    found = {each.key.machine: each.values for each in find_series(store, SeriesQuery((), ("abs_latency",)))}
    assert found == {"H200": [1.0], "EPYC": [2.0]}


def test_statuses_are_a_series_too(store: Database) -> None:
    recorded(store, run_of(1), run_of(2, [passed("bad", times(1.0))]))
    assert values_of(store, "bad", "accuracy") == ["timeout", "pass"]


def test_revisions_are_in_the_order_of_git_whatever_was_recorded_first(store: Database) -> None:
    history = History({"a" * 40: 1, "b" * 40: 2, "c" * 40: 3}, is_there=True)
    for number, letter in enumerate("cab"):
        run = run_of(number, [one_number("net", float(ord(letter)))], commit=letter * 40)
        record_runs(store, to_record(run), history)
    assert values_of(store, "net") == [97.0, 98.0, 99.0]


def test_a_revision_unknown_to_git_stands_behind_those_recorded_before(store: Database) -> None:
    history = History({"a" * 40: 1, "b" * 40: 2}, is_there=True)
    for number, (letter, value) in enumerate((("b", 2.0), ("d", 3.0), ("a", 1.0))):
        run = run_of(number, [one_number("net", value)], commit=letter * 40)
        record_runs(store, to_record(run), history)
    assert values_of(store, "net") == [1.0, 2.0, 3.0]


def test_commits_of_a_rewritten_history_continue_that_of_the_store_in_their_own_order(
    store: Database,
) -> None:
    old = History({"a" * 40: 100, "b" * 40: 101}, is_there=True)
    new = History({"c" * 40: 5, "d" * 40: 6, "e" * 40: 7}, is_there=True)
    for number, (letter, history) in enumerate((("a", old), ("b", old), ("d", new), ("e", new), ("c", new))):
        run = run_of(number, [one_number("net", float(number))], commit=letter * 40)
        record_runs(store, to_record(run), history)
    assert values_of(store, "net") == [0.0, 1.0, 4.0, 2.0, 3.0]


def test_every_dirty_tree_is_a_revision_of_its_own(store: Database) -> None:
    dirty = [run_of(number, commit="a" * 40, dirty=True) for number in (1, 2)]
    found = recorded(store, run_of(3, commit="a" * 40), *dirty)
    assert len({each.revision for each in found}) == 3
    assert recorded(store, dirty[0])[0].effect is RecordEffect.KNOWN


def test_an_error_in_one_run_leaves_nothing_of_the_others(store: Database) -> None:
    recorded(store, run_of(1))
    before = rows_of(store)
    twice = run_of(3, [passed("net", times(1.0)), passed("net", times(1.0))])
    with pytest.raises(TorchstoneError):
        recorded(store, run_of(2), twice)
    assert rows_of(store) == before
    recorded(store, run_of(2))
    assert verify(store).is_valid


def test_series_can_be_limited_to_a_branch_a_day_and_the_last_points(store: Database) -> None:
    recorded(
        store,
        run_of(1, [one_number("net", 1.0)], day="20261101"),
        run_of(2, [one_number("net", 2.0)], day="20261102", branch="other"),
        run_of(3, [one_number("net", 3.0)], day="20261103"),
    )
    assert values_of(store, "net", branch="main") == [1.0, 3.0]
    assert values_of(store, "net", since="2026-11-02") == [2.0, 3.0]
    assert values_of(store, "net", last=2) == [2.0, 3.0]
    with pytest.raises(UsageError, match="did you mean 'net'"):
        list(find_series(store, SeriesQuery(("nett",))))


def test_pruning_tells_what_it_would_remove_and_changes_nothing(store: Database) -> None:
    recorded(store, run_of(1), run_of(2))
    before = rows_of(store)
    found = prune(store, 90, now=datetime(2027, 6, 1, tzinfo=UTC))
    assert (found.runs, found.samples, found.is_applied) == (2, 6, False)
    raw = sum(len(row[-1]) for table in ("samples", "run_details") for row in before[table])
    assert found.bytes == raw
    assert rows_of(store) == before


def test_pruning_removes_raw_data_and_keeps_values_statuses_and_pinned_runs(store: Database) -> None:
    runs = [run_of(number) for number in (1, 2)]
    recorded(store, *runs)
    values = [
        values_of(store, name, metric) for name, metric in (("net", "abs_latency"), ("bad", "accuracy"))
    ]
    pin(store, runs[1].id, "baseline")
    done = prune(store, 90, applies=True, now=datetime(2027, 6, 1, tzinfo=UTC))
    assert (done.runs, done.kept, done.is_applied) == (1, 1, True)
    assert values == [
        values_of(store, name, metric) for name, metric in (("net", "abs_latency"), ("bad", "accuracy"))
    ]
    assert read_run(store, find_run(store, runs[1].id)).run == runs[1]
    pruned = read_run(store, find_run(store, runs[0].id)).run
    assert pruned.plan == runs[0].plan
    assert [each.status for each in pruned.outcomes] == ["pass", "pass", "timeout"]
    (latency, breaks), whole = pruned.outcomes[0].measurements, runs[0].outcomes[0].measurements[0]
    assert latency.samples == (whole.value,)
    assert latency.details
    assert latency.details.spread_trials == len(whole.trials)
    assert breaks.samples == (1,)
    assert pruned.outcomes[2].failure
    assert "30 s" in pruned.outcomes[2].failure.message
    assert verify(store).is_valid
    assert prune(store, 90, now=datetime(2027, 6, 1, tzinfo=UTC)).runs == 0


def test_a_run_of_the_future_is_pruned_by_the_day_it_was_recorded(store: Database) -> None:
    recorded(store, run_of(1, day="20991231"))
    assert prune(store, 90, now=datetime(2027, 6, 1, tzinfo=UTC)).runs == 1


def test_a_removed_run_leaves_the_store_as_if_it_had_never_been(store: Database) -> None:
    recorded(store, run_of(1))
    before = rows_of(store)
    own = passed("own", times(3.0, seed=5), case=case_of("own", dtype="float16"))
    (second,) = recorded(store, run_of(2, (*run_of(2).outcomes, own)))
    remove(store, str(second.run_id))
    assert rows_of(store) == before
    assert verify(store).is_valid


def test_a_pinned_run_is_not_removed_until_it_is_released(store: Database) -> None:
    (run,) = recorded(store, run_of(1))
    pin(store, str(run.run_id), "release")
    with pytest.raises(UsageError, match="release"):
        remove(store, str(run.run_id))
    pin(store, str(run.run_id), None)
    remove(store, str(run.run_id))
    assert list_runs(store) == []


def test_a_name_that_means_several_runs_is_refused_with_their_numbers(store: Database) -> None:
    recorded(store, run_of(1, commit="a" * 40), run_of(2, commit="a" * 40))
    with pytest.raises(UsageError, match="name one by its number: 1, 2"):
        find_run(store, "a" * 8)
    with pytest.raises(UsageError, match="no such run"):
        find_run(store, "b" * 8)


def test_a_renamed_benchmark_keeps_its_history_and_files_with_the_old_name_continue_it(
    store: Database,
) -> None:
    recorded(store, run_of(1, [one_number("old", 1.0)]), run_of(2, [one_number("old", 2.0)]))
    rename(store, "old", "new")
    recorded(store, run_of(3, [one_number("old", 3.0)]), run_of(4, [one_number("new", 4.0)]))
    assert values_of(store, "new") == [1.0, 2.0, 3.0, 4.0]
    assert [
        each.run.outcomes[0].case.benchmark for each in (read_run(store, run) for run in list_runs(store))
    ] == ["new"] * 4
    rename(store, "new", "newer")
    assert values_of(store, "newer") == [1.0, 2.0, 3.0, 4.0]
    rename(store, "newer", "old")
    recorded(store, run_of(5, [one_number("old", 5.0)]))
    assert values_of(store, "old") == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert verify(store).is_valid


def test_a_rename_joins_series_that_are_already_under_the_new_name(store: Database) -> None:
    recorded(store, run_of(1), run_of(2, [passed("renamed", times(2.0, seed=9))]))
    before = read_run(store, list_runs(store)[0]).run.outcomes[0].measurements
    done = rename(store, "smoke::net", "renamed")
    assert (done.cases, done.joined) == (1, 1)
    assert len(values_of(store, "renamed")) == 2
    assert read_run(store, list_runs(store)[0]).run.outcomes[0].measurements == before
    assert verify(store).is_valid


def test_two_benchmarks_of_one_run_are_not_renamed_into_one(store: Database) -> None:
    recorded(store, run_of(1))
    before = rows_of(store)
    with pytest.raises(UsageError, match="two benchmarks"):
        rename(store, "net", "mlp")
    assert rows_of(store) == before


def test_a_copy_has_every_row_of_every_table(store: Database, tmp_path: Path, postgres: str) -> None:
    recorded(store, run_of(1), run_of(2), structs.replace(run_of(3), finished=False))
    rename(store, "mlp", "net2")
    pin(store, "1", "kept")
    whole = rows_of(store)
    for number, target in enumerate((str(tmp_path / "copy.db"), new_database(postgres))):
        with opened(target) as copied:
            copy(store, copied)
            assert rows_of(copied) == whole, number
            assert describe(copied).id == describe(store).id
            assert verify(copied).is_valid
            recorded(copied, run_of(4))
            assert verify(copied).is_valid


def test_a_store_with_runs_is_not_overwritten_by_a_copy(store: Database, tmp_path: Path) -> None:
    recorded(store, run_of(1))
    with opened(str(tmp_path / "other.db")) as other:
        recorded(other, run_of(2))
        before = rows_of(other)
        with pytest.raises(InputError, match="has runs already"):
            copy(store, other)
        assert rows_of(other) == before


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("DELETE FROM points WHERE run_id = 1 AND series_id = 1", "recorded, 2 are here"),
        ("DELETE FROM outcomes WHERE run_id = 1 AND case_id = 1", "recorded, 2 are here"),
        (
            "UPDATE samples SET data = run_details.data FROM run_details WHERE samples.run_id = 1",
            "cannot be decoded",
        ),
        ("UPDATE run_details SET data = samples.data FROM samples", "cannot be decoded"),
        ("UPDATE points SET run_id = 99 WHERE run_id = 1", "run_id is unknown"),
    ],
)
def test_verify_finds_what_is_missing_or_damaged(store: Database, damage: str, told: str) -> None:
    recorded(store, run_of(1), run_of(2))
    assert verify(store).problems == ()
    if store.dialect == "sqlite":
        store.execute("PRAGMA foreign_keys = OFF")
    store.execute(damage)
    assert told in " ".join(verify(store).problems)


def test_a_store_of_a_newer_version_is_refused_and_unchanged(location: str) -> None:
    with opened(location) as database:
        recorded(database, run_of(1))
        database.execute(
            "INSERT INTO migrations (number, name, applied_at) VALUES (?, 'later', '')", (NEWEST + 1,)
        )
    for creates in (True, False):
        with pytest.raises(InputError, match=f"a store of version {NEWEST + 1}"):
            connect(location, creates=creates)


def test_a_store_of_an_older_version_is_brought_up_to_date_with_all_its_rows(location: str) -> None:
    with opened(location) as database:
        recorded(database, run_of(1))
        before = rows_of(database)
        make_older(database)
    with opened(location, creates=False) as database:
        assert version_of(database) == NEWEST
        assert rows_of(database) == before
        assert database.query("SELECT count(*) FROM v_series") == [(3,)]
        migrate(database)


def test_the_views_tell_the_newest_points_and_the_failures(store: Database) -> None:
    history = History({f"{number:040x}": number for number in (1, 2)}, is_there=True)
    for number in (2, 1):
        record_runs(
            store, to_record(run_of(number, [one_number("net", float(number)), failed("bad")])), history
        )
    assert store.query("SELECT benchmark, metric, value, torch FROM v_latest") == [
        ("net", "abs_latency", 2.0, "2.13.0")
    ]
    assert store.query("SELECT value FROM v_series ORDER BY position") == [(1.0,), (2.0,)]
    assert (
        store.query("SELECT status, message FROM v_outcomes WHERE benchmark = 'bad'")
        == [("timeout", "ended after 30 s")] * 2
    )
    assert [row[0] for row in store.query("SELECT revision FROM v_runs ORDER BY position")] == [
        f"{n:040x}" for n in (1, 2)
    ]


def test_summaries_only_keeps_neither_samples_nor_details(store: Database) -> None:
    record_runs(store, to_record(run_of(1)), keeps_raw=False)
    assert rows_of(store)["samples"] == rows_of(store)["run_details"] == []
    assert len(values_of(store, "net")) == 1
    assert verify(store).is_valid


def test_what_belongs_to_runs_is_all_that_names_a_run(store: Database) -> None:
    recorded(store, run_of(1))
    named = {table for table, rows in rows_of(store).items() if rows} - {"migrations"}
    assert {*OF_RUNS} <= named | {"run_details"}
