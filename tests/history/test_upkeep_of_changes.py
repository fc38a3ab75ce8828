"""What upkeep does with changes: pruning keeps what is near them, verify finds what is wrong, copies have them."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from comparison_files import case_of, passed, times
from stored_runs import new_database, opened, recorded, rows_of, run_of
from torchstone.core.records import Outcome
from torchstone.history.detect_changes import update_changes
from torchstone.history.stored_changes import ChangeQuery, read_changes
from torchstone.store.database.connection import Database
from torchstone.store.reading_runs import find_run, read_run
from torchstone.store.upkeep.copying import copy
from torchstone.store.upkeep.describing import describe
from torchstone.store.upkeep.kept_around import AROUND
from torchstone.store.upkeep.retention import prune
from torchstone.store.upkeep.verifying import verify

LATER = datetime(2028, 6, 1, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:  # noqa: ANN401  (a generator of a store)
    """100 runs; net is slower from the 51st on, bad fails from the 91st on, flat stays."""
    place = str(tmp_path / "history.db")
    if request.param == "postgres":
        place = new_database(request.getfixturevalue("postgres"))
    chance = random.Random(1)  # noqa: S311  (noise, not secrets)
    with opened(place) as database:
        runs = [
            run_of(
                number,
                [
                    passed(
                        "net",
                        times((1.2 if number > 50 else 1.0) * math.exp(chance.gauss(0, 0.01)), seed=number),
                    ),
                    passed("flat", times(math.exp(chance.gauss(0, 0.01)), seed=number)),
                    Outcome(case_of("bad"), "timeout" if number > 90 else "pass"),
                ],
            )
            for number in range(1, 101)
        ]
        recorded(database, *runs)
        update_changes(database)
        yield database


def samples_of(database: Database, name: str) -> set[int]:
    rows = database.query(
        "SELECT d.run_id FROM samples d JOIN series s ON s.id = d.series_id JOIN cases c ON c.id = s.case_id WHERE c.benchmark = ?",
        (name,),
    )
    return {run_id for (run_id,) in rows}


def test_pruning_keeps_twenty_points_on_each_side_of_a_change(store: Database) -> None:
    found = {each.series.case.benchmark for each in read_changes(store)}
    assert found == {"net", "bad"}
    planned = prune(store, 90, now=LATER)
    assert (planned.samples, planned.around, planned.is_applied) == (160, 40, False)
    done = prune(store, 90, applies=True, now=LATER)
    assert (done.samples, done.bytes, done.around) == (planned.samples, planned.bytes, planned.around)
    assert samples_of(store, "net") == set(range(51 - AROUND, 51 + AROUND))
    assert samples_of(store, "flat") == set()
    details = {run_id for (run_id,) in store.query("SELECT run_id FROM run_details")}
    assert details == set(range(91 - AROUND, 101))
    assert verify(store).is_valid
    assert prune(store, 90, now=LATER).samples == 0
    for number in (1, 51, 70, 90):
        run = read_run(store, find_run(store, f"{number:040x}")).run
        assert [len(each.measurements) for each in run.outcomes] == [1, 1, 0]
        net = run.outcomes[0].measurements[0]
        assert (len(net.samples) > 1) == (number in {51, 70})


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "UPDATE changes SET first_new_run_id = last_old_run_id, last_old_run_id = first_new_run_id",
            "ends before it begins",
        ),
        ("UPDATE changes SET earliest = latest + 1", "earliest position is behind"),
        ("UPDATE changes SET before = NULL, new_status = old_status", "without a level"),
        ("UPDATE changes SET new_status = old_status", "two statuses that are none, or equal"),
        ("UPDATE changes SET certainty = 2", "certainty is none"),
        ("UPDATE changes SET direction = 'up'", "direction is none"),
        ("UPDATE detections SET branch = 'other'", "of a run on another branch"),
        ("UPDATE points SET value = NULL WHERE run_id = 51", "at a run that has no point"),
        ("UPDATE outcomes SET status_id = NULL WHERE run_id = 91", "at a run that has no status"),
    ],
)
def test_verify_finds_a_change_that_cannot_be(store: Database, statement: str, told: str) -> None:
    assert verify(store).is_valid
    store.execute(statement)
    assert any(told in each for each in verify(store).problems)


def test_a_copy_has_the_changes(store: Database, tmp_path: Path) -> None:
    with opened(str(tmp_path / "copy.db")) as target:
        copy(store, target)
        assert rows_of(target) == rows_of(store)
        assert read_changes(target) == read_changes(store)
        assert verify(target).is_valid
        recorded(target, run_of(101))
        update_changes(target)
    assert describe(store).counts["changes"] == 2


def test_the_view_of_changes_has_what_the_records_have(store: Database) -> None:
    rows = store.query(
        "SELECT change_id, case_name, metric, last_old_revision, first_new_revision, direction FROM v_changes ORDER BY change_id"
    )
    expected = [
        (
            each.id,
            each.series.case.id,
            each.metric.name,
            each.last_old.revision,
            each.first_new.revision,
            each.direction.value,
        )
        for each in sorted(read_changes(store), key=lambda each: each.id)
    ]
    assert rows == expected


def test_changes_are_chosen_by_case_metric_branch_day_and_certainty(store: Database) -> None:
    def names(**query: Any) -> list[str]:  # noqa: ANN401  (any part of a query)
        return [each.series.case.benchmark for each in read_changes(store, ChangeQuery(**query))]

    assert names() == ["net", "bad"]
    assert names(cases=("b*",)) == ["bad"]
    assert names(metrics=("abs_latency",)) == ["net"]
    assert names(branch="other") == []
    assert names(since="2027-01-01") == []
    assert names(certainty=1.1) == []
    assert len(names(ids=(1,))) == 1
