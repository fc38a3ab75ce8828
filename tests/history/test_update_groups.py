"""Groups in a store: opened, extended and removed as runs are recorded; with the cause that the data shows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stored_runs import EPYC, new_database, one_number, opened, recorded, run_of
from torchstone.core.errors import UsageError
from torchstone.core.records import Outcome
from torchstone.history.causes.stored_groups import find_group, read_groups
from torchstone.history.causes.update_groups import GroupsUpdate, update_groups
from torchstone.history.change_records import Cause, ChangeGroup
from torchstone.history.stored_changes import read_changes
from torchstone.history.update import bring_up_to_date
from torchstone.store.database.connection import Database

OTHER = {"machine": {"cpu": {"model": "Xeon"}}, "versions": {"torch": "2.13.0"}}
CASES = 12


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


class Steps:
    """Latencies of some cases, with a per cent of noise: from a run on, some of them take so many times as long."""

    def __init__(self, *steps: tuple[int, Iterable[int], float], cases: int = CASES) -> None:
        self._chance = random.Random(7)  # noqa: S311  (noise, not secrets)
        self._steps = [(at, set(which), factor) for at, which, factor in steps]
        self._cases = cases

    def outcomes(self, run: int) -> list[Outcome]:
        found = []
        for case in range(self._cases):
            level = 10.0
            for at, which, factor in self._steps:
                level *= factor if run >= at and case in which else 1.0
            found.append(one_number(f"net{case}", level * (1 + self._chance.gauss(0, 0.01))))
        return found

    def record(
        self,
        database: Database,
        runs: Iterable[int],
        environment: Mapping[str, Any] = EPYC,
        day: str = "20261118",
    ) -> None:
        found = [
            run_of(number, self.outcomes(number), commit=f"{number:040x}", environment=environment, day=day)
            for number in runs
        ]
        recorded(database, *found)
        bring_up_to_date(database)


def members_of(group: ChangeGroup) -> set[str]:
    return {each.series.case.benchmark for each in group.changes}


def nets(numbers: Sequence[int]) -> set[str]:
    return {f"net{number}" for number in numbers}


def test_two_causes_are_two_groups_with_their_names(store: Database) -> None:
    steps = Steps((30, range(4), 1.2), (45, range(6, 12), 0.8))
    steps.record(store, range(1, 61))
    first, second = read_groups(store)
    assert members_of(first) == nets(range(4))
    assert members_of(second) == nets(range(6, 12))
    assert first.name == "inductor on cpu: latency, 4 cases"
    assert (first.cause, first.branch, first.state.value) == (Cause.CODE, "main", "new")
    assert all(each.group == first.id for each in first.changes)


def test_a_group_keeps_its_number_as_members_come(store: Database) -> None:
    steps = Steps((30, range(1, 5), 1.2))
    steps.record(store, range(1, 31))
    seen: set[int] = set()
    for night in range(31, 46):
        steps.record(store, [night])
        seen |= {group.id for group in read_groups(store) if "net1" in members_of(group)}
    (group,) = [group for group in read_groups(store) if "net1" in members_of(group)]
    assert seen == {group.id}
    assert members_of(group) == nets(range(1, 5))
    assert update_groups(store) == GroupsUpdate()


def test_grouping_step_by_step_finds_the_same_members_as_at_once(tmp_path: Path) -> None:
    plan = (30, range(5), 1.15), (36, range(5, 12), 1.1), (52, range(3), 0.7)
    with opened(str(tmp_path / "once.db")) as once, opened(str(tmp_path / "steps.db")) as stepwise:
        Steps(*plan).record(once, range(1, 71))
        steps = Steps(*plan)
        for first in range(1, 71, 7):
            steps.record(stepwise, range(first, first + 7))
        bring_up_to_date(stepwise, thorough=True)
        assert [members_of(each) for each in read_groups(stepwise)] == [
            members_of(each) for each in read_groups(once)
        ]


def test_a_group_that_somebody_decided_about_is_kept_without_members(store: Database) -> None:
    steps = Steps((30, range(4), 1.2), (45, range(6, 12), 0.8))
    steps.record(store, range(1, 61))
    first, second = read_groups(store)
    with store.writing():
        columns = ("id", "group_id", "state", "reason", "link", "owner", "author", "at", "is_automatic")
        store.insert("triage_events", columns, [(1, first.id, "noise", "", "", "", "me", "2026-11-19", 0)])
        store.execute("DELETE FROM changes")
    assert update_groups(store).removed == (second.id,)
    (kept,) = read_groups(store)
    assert (kept.id, kept.name, kept.state.value, kept.changes) == (
        first.id,
        first.name[:-9] + ", 0 cases",
        "noise",
        (),
    )


def test_a_number_is_never_given_twice(small: Database) -> None:
    steps = Steps((30, range(4), 1.2))
    steps.record(small, range(1, 51))
    (group,) = read_groups(small)
    with small.writing():
        small.execute("DELETE FROM changes")
    update_groups(small)
    assert not read_groups(small)
    with small.writing():
        small.execute("UPDATE detections SET point_count = -1")
    bring_up_to_date(small)
    (again,) = read_groups(small)
    assert again.id > group.id


def test_a_machine_that_shifts_is_one_event(small: Database) -> None:
    here, there = Steps((40, range(CASES), 1.1)), Steps()
    for first in range(1, 61, 10):
        here.record(small, range(first, first + 10))
        there.record(small, range(first, first + 10), OTHER, day="20261119")
    (group,) = read_groups(small)
    assert group.cause is Cause.MACHINE
    assert group.name == f"all of EPYC; inductor on cpu: latency, {CASES} cases"


def test_results_that_do_not_state_their_machine_are_those_of_one(small: Database) -> None:
    Steps((40, range(CASES), 1.1)).record(small, range(1, 61), environment={})
    (group,) = read_groups(small)
    assert group.cause is Cause.MACHINE
    assert group.name == f"a whole machine; inductor on cpu: latency, {CASES} cases"


def test_code_that_slows_everything_on_all_machines_is_no_shift_of_a_machine(small: Database) -> None:
    here, there = Steps((40, range(CASES), 1.1)), Steps((40, range(CASES), 1.1))
    for first in range(1, 61, 10):
        here.record(small, range(first, first + 10))
        there.record(small, range(first, first + 10), OTHER, day="20261119")
    assert {group.cause for group in read_groups(small)} == {Cause.CODE}


def test_a_new_driver_is_the_cause_of_what_begins_with_it(small: Database) -> None:
    steps = Steps((40, range(5), 1.2))
    older, newer = (
        {**EPYC, "accelerators": [{"name": "H200", "driver": each}]} for each in ("550.54", "560.35")
    )
    steps.record(small, range(1, 40), older)
    steps.record(small, range(40, 60), newer)
    (group,) = read_groups(small)
    assert group.cause is Cause.ENVIRONMENT
    assert group.name == "driver 550.54 -> 560.35; inductor on cpu: latency, 5 cases"


def test_a_wrong_number_is_an_error_that_says_which_there_are(small: Database) -> None:
    with pytest.raises(UsageError, match="9: no such group of changes") as raised:
        find_group(small, "9")
    assert "no groups" in str(raised.value.advice)
    Steps((30, range(4), 1.2)).record(small, range(1, 51))
    (group,) = read_groups(small)
    assert find_group(small, str(group.id)) == group
    with pytest.raises(UsageError) as raised:
        find_group(small, "main")
    assert raised.value.advice == "expected the number of a group: 1"


def test_every_change_is_in_a_group(small: Database) -> None:
    chance = random.Random(3)  # noqa: S311  (noise, not secrets)
    steps = Steps(*((chance.randrange(10, 90), chance.sample(range(CASES), 3), 1.3) for _ in range(8)))
    for first in range(1, 101, 20):
        steps.record(small, range(first, first + 20))
    grouped = {each.id for group in read_groups(small) for each in group.changes}
    assert grouped == {each.id for each in read_changes(small)}
