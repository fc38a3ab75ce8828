"""Changes that begin with another driver, image or release of torch are told from those of the code."""

from __future__ import annotations

from made_changes import change_of
from torchstone.history.causes.environment_causes import (
    EnvironmentChange,
    RunEnvironment,
    find_environment_changes,
    find_routine,
)

NEW_DRIVER = ({"driver": "550.54", "torch": "2.13.0"}, {"driver": "560.35", "torch": "2.13.0"})
SAME = ({"driver": "550.54", "torch": "2.13.0"},) * 2


def test_a_new_driver_where_all_members_begin_is_their_cause() -> None:
    changes = [change_of(50, f"net{number}", versions=NEW_DRIVER) for number in range(4)]
    (found,) = find_environment_changes(changes)
    assert found == EnvironmentChange("driver", "550.54", "560.35")
    assert str(found) == "driver 550.54 -> 560.35"


def test_a_member_that_noise_moved_may_begin_elsewhere() -> None:
    changes = [change_of(50, f"net{number}", versions=NEW_DRIVER) for number in range(6)]
    assert find_environment_changes([*changes, change_of(51, "late", reach=2, versions=SAME)])
    assert not find_environment_changes([*changes, change_of(51, "exact", versions=SAME)])


def test_a_machine_that_kept_its_driver_and_moved_shows_that_the_code_did_it() -> None:
    changes = [change_of(50, f"net{number}", versions=NEW_DRIVER) for number in range(9)]
    assert not find_environment_changes([*changes, change_of(50, "a", machine="H200", versions=SAME)])


def test_unknown_versions_are_no_cause() -> None:
    assert not find_environment_changes([change_of(50, versions=({}, {"driver": "560.35"}))])
    assert not find_environment_changes([change_of(50)])


def test_a_new_release_of_torch_is_a_cause_and_another_nightly_is_none() -> None:
    release = change_of(50, versions=({"torch": "2.12.1"}, {"torch": "2.13.0"}))
    nightly = change_of(
        50, versions=({"torch": "2.14.0.dev20261117+cpu"}, {"torch": "2.14.0.dev20261118+cpu"})
    )
    built = change_of(50, versions=({"torch": "2.14.0a0+gitabc"}, {"torch": "2.14.0a0+gitdef"}))
    assert [str(each) for each in find_environment_changes([release])] == ["torch 2.12.1 -> 2.13.0"]
    assert not find_environment_changes([nightly])
    assert not find_environment_changes([built])


def test_what_changes_every_night_is_routine() -> None:
    runs = [
        RunEnvironment(torch=f"2.13.{night}", driver="550" if night < 30 else "560") for night in range(60)
    ]
    assert find_routine(runs) == {"torch"}
    release = change_of(50, versions=({"torch": "2.13.1"}, {"torch": "2.13.2"}))
    assert not find_environment_changes([release], find_routine(runs))


def test_a_few_changes_of_an_image_are_not_routine() -> None:
    assert not find_routine(RunEnvironment(image=str(night // 3)) for night in range(12))
