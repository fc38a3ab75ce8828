"""Changes of one cause are one group, of two causes two; a group stays itself when members come or move."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from made_changes import change_of
from torchstone.core.records import Case, Variant
from torchstone.history.causes.group_changes import Grouped, group_changes, make_range
from torchstone.history.causes.group_names import find_varying, name_group
from torchstone.history.change_records import Direction, SeriesChange

SOME_CHANGES = st.lists(
    st.builds(
        lambda at, gap, reach, case, metric: change_of(at, f"net{case}", metric, reach=reach, after=at - gap),
        st.integers(20, 60),
        st.integers(1, 6),
        st.integers(0, 5),
        st.integers(0, 9),
        st.sampled_from(["abs_latency", "compile_seconds", "dynamo_peak_mem"]),
    ),
    max_size=25,
)


def numbers_of(groups: Sequence[Grouped]) -> list[set[int]]:
    return [{each.id for each in group.changes} for group in groups]


def named(groups: Sequence[Grouped], first: int = 1) -> list[SeriesChange]:
    """The members with the number of their group, as a store has them after grouping."""
    found = []
    following = max((group.number or 0 for group in groups), default=0) + 1
    for group in groups:
        number = group.number
        if number is None:
            number, following = max(following, first), max(following, first) + 1
        found += [structs.replace(each, group=number) for each in group.changes]
    return found


def test_changes_that_begin_together_are_one_group() -> None:
    changes = [change_of(50, f"net{number}") for number in range(12)]
    (group,) = group_changes(changes)
    assert len(group.changes) == 12
    assert group.number is None


def test_a_gap_in_the_data_belongs_to_the_change() -> None:
    changes = [change_of(50, "a"), change_of(52, "b", after=45), change_of(51, "c", after=40)]
    assert len(group_changes(changes)) == 1


def test_two_causes_one_revision_apart_are_two_groups() -> None:
    first = [change_of(50, f"a{number}") for number in range(6)]
    second = [change_of(51, f"b{number}") for number in range(4)]
    assert numbers_of(group_changes([*second, *first])) == [
        {each.id for each in first},
        {each.id for each in second},
    ]


def test_one_case_beside_forty_belongs_to_them_and_beside_another_one_it_does_not() -> None:
    stray = change_of(51, "stray")
    assert len(group_changes([*(change_of(50, f"net{number}") for number in range(40)), stray])) == 1
    assert len(group_changes([change_of(50, "net"), stray])) == 2


def test_noise_around_two_causes_leaves_two_groups() -> None:
    chance = random.Random(1)  # noqa: S311  (noise, not secrets)
    first = [change_of(50 + chance.choice([-1, 0, 0, 1]), f"a{number}", reach=3) for number in range(15)]
    second = [change_of(58 + chance.choice([-1, 0, 0, 1]), f"b{number}", reach=3) for number in range(10)]
    assert numbers_of(group_changes([*first, *second])) == [
        {each.id for each in first},
        {each.id for each in second},
    ]


def test_one_wide_interval_joins_no_causes() -> None:
    first = [change_of(30, f"a{number}") for number in range(3)]
    second = [change_of(60, f"b{number}") for number in range(3)]
    wide = change_of(70, "w", after=20)
    groups = group_changes([*first, wide, *second])
    assert len(groups) == 2
    assert sorted(len(group.changes) for group in groups) == [3, 4]


def test_better_and_worse_that_begin_together_have_one_cause() -> None:
    worse = change_of(50, "a")
    better = change_of(50, "b", then=8.0, direction=Direction.IMPROVEMENT)
    assert len(group_changes([worse, better])) == 1


def test_branches_have_groups_of_their_own() -> None:
    assert len(group_changes([change_of(50, "a"), change_of(50, "b", branch="release")])) == 2


def test_a_group_goes_on_when_members_come_and_move() -> None:
    old = [change_of(50, f"a{number}", reach=2, group=7) for number in range(3)]
    moved = structs.replace(old[0], first_new=change_of(51).first_new, last_old=change_of(51).last_old)
    new = [change_of(50, f"b{number}", reach=1) for number in range(5)]
    (group,) = group_changes([moved, *old[1:], *new])
    assert group.number == 7


def test_of_two_groups_with_one_cause_the_larger_goes_on() -> None:
    small, large = change_of(50, "a", group=3), [change_of(50, f"b{number}", group=9) for number in range(3)]
    (group,) = group_changes([small, *large])
    assert group.number == 9


def test_a_change_never_leaves_a_group_that_somebody_decided_about() -> None:
    decided = [change_of(50, f"a{number}", group=3) for number in range(3)]
    stray = change_of(57, "stray", group=3)
    others = [change_of(57, f"b{number}") for number in range(5)]
    groups = group_changes([*decided, stray, *others], decided={3})
    assert {group.number: len(group.changes) for group in groups} == {3: 4, None: 5}


def test_a_decided_group_takes_in_changes_that_begin_with_it() -> None:
    decided = [change_of(50, f"a{number}", group=3) for number in range(3)]
    (group,) = group_changes([*decided, change_of(51, "late", reach=2)], decided={3})
    assert group.number == 3
    assert len(group.changes) == 4


def test_two_decided_groups_stay_two() -> None:
    groups = group_changes([change_of(50, "a", group=3), change_of(50, "b", group=4)], decided={3, 4})
    assert [group.number for group in groups] == [3, 4]


@given(SOME_CHANGES, st.randoms(use_true_random=False))
def test_the_order_of_changes_does_not_matter(changes: list[SeriesChange], chance: random.Random) -> None:
    shuffled = list(changes)
    chance.shuffle(shuffled)
    assert group_changes(shuffled) == group_changes(changes)


@given(SOME_CHANGES)
def test_every_change_is_in_one_group_and_grouping_again_changes_nothing(changes: list[SeriesChange]) -> None:
    groups = group_changes(changes)
    assert sorted(each.id for group in groups for each in group.changes) == sorted(
        each.id for each in changes
    )
    again = group_changes(named(groups))
    assert numbers_of(again) == numbers_of(groups)
    assert all(group.number is not None for group in again)


@given(SOME_CHANGES, SOME_CHANGES)
def test_members_follow_from_the_changes_and_not_from_what_was_known_before(
    first: list[SeriesChange], later: list[SeriesChange]
) -> None:
    step_by_step = group_changes([*named(group_changes(first)), *later])
    assert numbers_of(step_by_step) == numbers_of(group_changes([*first, *later]))
    known = [group.number for group in step_by_step if group.number is not None]
    assert len(known) == len(set(known))


@given(SOME_CHANGES)
def test_members_of_a_group_share_a_possible_cause(changes: list[SeriesChange]) -> None:
    for group in group_changes(changes):
        spans = [
            make_range(
                each.earliest, each.last_old.position, each.first_new.position, each.latest, is_exact=False
            ).span
            for each in group.changes
        ]
        assert max(first for first, _ in spans) <= min(last for _, last in spans)


def test_counts_and_statuses_have_no_cause_beyond_their_range() -> None:
    late = change_of(51, "late", "graph_breaks", before=0, then=3)
    assert len(group_changes([*(change_of(50, f"net{number}") for number in range(9)), late])) == 2


def of(benchmark: str, **axes: str) -> Case:
    known = {"backend": "inductor", "device": "cpu", "mode": "inference", **axes}
    return Case(benchmark, "performance", known.pop("suite", "huggingface"), Variant(**known))  # type: ignore[arg-type]


def test_a_group_is_named_by_what_its_members_share() -> None:
    nets = [change_of(50, of(name), "compile_seconds") for name in ("bert", "gpt2", "t5")]
    assert name_group(nets, ()) == "inductor on cpu: compile time"
    assert name_group(nets, ("suite", "mode")) == "huggingface, inductor on cpu, inference: compile time"
    assert name_group(nets[:1]) == "bert, inductor on cpu, inference: compile time"


def test_a_name_says_only_what_all_members_share() -> None:
    changes = [
        change_of(50, of("bert"), "compile_seconds"),
        change_of(50, of("gpt2", device="cuda"), "abs_latency"),
    ]
    assert name_group(changes) == "huggingface, inductor, inference: compile time and latency"
    assert name_group([*changes, change_of(50, of("gpt2", backend="eager"), "device_latency")], ()) == (
        "different cases: times"
    )


def test_axes_that_are_the_same_everywhere_are_left_out() -> None:
    assert find_varying([of("bert"), of("gpt2", device="cuda")]) == {"benchmark", "device"}
