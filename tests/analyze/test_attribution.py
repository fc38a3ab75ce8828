"""Differences between two profiles: nothing is lost, nothing is invented, and a profile that is none is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_samples import profile, sample_profile, stacks
from torchstone.analyze.attribution import Attribution, Frame, Step, compare, trace
from torchstone.analyze.profiles import REST, Profile, read_profile
from torchstone.core.errors import InputError


def read(stated: object) -> Profile:
    return read_profile(stated, "run.jsonl", 7)


def compared(base: object, new: object) -> Attribution:
    return compare(read(base), read(new))


def frames_of(root: Frame) -> list[Frame]:
    frames = [root]
    for frame in frames:
        frames.extend(frame.below.values())
    return frames


BEFORE = profile(
    [
        ["dynamo", "libpython", "eval", 700],
        ["inductor", "libpython", "eval", 200],
        ["inductor", "libc", "malloc", 50],
        ["guards", "libtorch", "check", 50],
    ]
)
AFTER = profile(
    [
        ["inductor", "libpython", "eval", 320],
        ["dynamo", "libpython", "eval", 670],
        ["inductor", "libc", "malloc", 50],
        ["inductor", "libpython", "hash", 10],
    ]
)


class TestPhases:
    def test_phases_are_in_the_compilers_order_with_their_part_of_the_change(self) -> None:
        found = compared(BEFORE, AFTER)
        assert (found.total.base, found.total.new, found.total.change) == (1000, 1050, 50)
        assert [(p.phase, p.base, p.new, p.share) for p in found.phases] == [
            ("dynamo", 700, 670, -0.6),
            ("guards", 50, 0, -1.0),
            ("inductor", 250, 380, 2.6),
        ]

    def test_without_a_change_there_are_no_parts_of_it(self) -> None:
        assert {phase.share for phase in compared(BEFORE, BEFORE).phases} == {None}

    def test_a_phase_that_nobody_knows_comes_last_and_what_is_missing_to_the_total_is_the_rest(self) -> None:
        stated = {"counter": "python", "unit": "calls", "total": 100, "phases": {"magic": 30, "other": 50}}
        assert [(p.phase, p.new) for p in compared(stated, stated).phases] == [
            ("other", 50),
            ("magic", 30),
            (REST, 20),
        ]

    def test_a_share_is_of_what_it_was_and_of_nothing_there_is_none(self) -> None:
        found = compared(profile([["dynamo", "", "f", 0]]), profile([["dynamo", "", "f", 5]]))
        assert found.total.relative is None
        assert compared(BEFORE, AFTER).total.relative == pytest.approx(0.05)


class TestFunctions:
    def test_the_largest_change_is_first_whatever_its_direction(self) -> None:
        changes = [(f.phase, f.function, f.change) for f in compared(BEFORE, AFTER).changed]
        assert changes == [
            ("inductor", "eval", 120),
            ("guards", "check", -50),
            ("dynamo", "eval", -30),
            ("inductor", "hash", 10),
        ]

    def test_a_function_that_stands_twice_is_counted_once(self) -> None:
        twice = profile([["dynamo", "a", "f", 3], ["dynamo", "a", "f", 4]])
        assert [f.base for f in compared(twice, twice).functions] == [7]

    def test_what_is_missing_to_a_phase_is_its_rest(self) -> None:
        stated = BEFORE | {"functions": [["dynamo", "libpython", "eval", 600]]}
        found = {(f.phase, f.function): f.new for f in compared(stated, stated).functions}
        assert found == {
            ("dynamo", "eval"): 600,
            ("dynamo", REST): 100,
            ("inductor", REST): 250,
            ("guards", REST): 50,
        }

    def test_a_profile_without_functions_can_be_set_against_one_that_has_them(self) -> None:
        found = compared({key: BEFORE[key] for key in BEFORE if key != "functions"}, AFTER)
        assert sum(f.base for f in found.functions) == 1000
        assert (found.by_function.base, found.by_function.new) == (1000, 1050)

    def test_a_function_that_may_be_in_the_rest_of_the_other_side_is_neither_new_nor_gone(self) -> None:
        base = profile([["dynamo", "l", "f", 900], ["dynamo", "l", "g", 50], ["dynamo", "", REST, 300]])
        new = profile(
            [
                *(["dynamo", "l", "f", 900], ["dynamo", "l", "h", 52], ["dynamo", "l", "really_new", 200]),
                ["dynamo", "", REST, 310],
            ]
        )
        found = compared(base, new)
        assert [(f.function, f.base, f.new) for f in found.changed] == [
            ("really_new", 0, 200),
            (REST, 350, 362),
        ]
        assert sum(f.change for f in found.functions) == found.total.change

    def test_where_all_functions_are_named_a_small_one_can_be_gone(self) -> None:
        base = profile([["dynamo", "l", "f", 900], ["dynamo", "l", "g", 5]])
        new = profile([["dynamo", "l", "f", 900], ["inductor", "", REST, 3]])
        assert ("g", 5, 0) in [(f.function, f.base, f.new) for f in compared(base, new).changed]

    def test_the_tree_is_phase_library_function(self) -> None:
        root = compared(BEFORE, AFTER).by_function
        assert list(root.below) == ["dynamo", "guards", "inductor"]
        assert {name: frame.new for name, frame in root.below["inductor"].below.items()} == {
            "libpython": 330,
            "libc": 50,
        }
        assert root.below["inductor"].below["libpython"].below["eval"].change == 120

    def test_without_functions_the_tree_has_the_phases(self) -> None:
        stated = {"counter": "cpu_time", "unit": "s", "total": 2.5, "phases": {"dynamo": 1.5, "other": 1.0}}
        root = compared(stated, stated).by_function
        assert {name: frame.new for name, frame in root.below.items()} == {"dynamo": 1.5, "other": 1.0}
        assert root.new == 2.5


class TestStacks:
    def test_frames_of_one_name_under_one_parent_are_one(self) -> None:
        base = BEFORE | {
            "stacks": stacks(["work", 1, [["f", 2, []], ["g", 3, []], ["f", 4, [["h", 1, []]]]]])
        }
        new = AFTER | {"stacks": stacks(["work", 1, [["f", 5, [["h", 9, []]]]]])}
        root = compared(base, new).by_stack
        assert root
        assert (root.base, root.new) == (11, 15)
        assert {name: (frame.base, frame.new) for name, frame in root.below.items()} == {
            "f": (7, 14),
            "g": (3, 0),
        }

    def test_stacks_of_one_side_or_of_two_units_are_no_difference(self) -> None:
        tree = stacks(["work", 1, []])
        assert compared(BEFORE, AFTER | {"stacks": tree}).by_stack is None
        assert (
            compared(BEFORE | {"stacks": tree | {"unit": "bytes"}}, AFTER | {"stacks": tree}).by_stack is None
        )

    def test_stacks_deeper_than_python_allows_to_recurse_are_no_trouble(self) -> None:
        tree: list[Any] = ["leaf", 1, []]
        for number in range(5_000):
            tree = [f"f{number}", 0, [tree]]
        other: list[Any] = ["leaf", 3, []]
        for number in range(5_000):
            other = [f"f{number}", 0, [other]]
        root = compared(BEFORE | {"stacks": stacks(tree)}, AFTER | {"stacks": stacks(other)}).by_stack
        assert root
        assert root.change == 2
        steps = trace(root)
        assert steps[-1].frame.name == "leaf"
        assert len(steps) + sum(step.passed for step in steps) == 5_001


def told(steps: list[Step]) -> list[tuple[int, str, int | float]]:
    return [(step.level, step.frame.name, step.frame.change) for step in steps]


class TestTrace:
    def make(self, base: list[Any], new: list[Any]) -> list[Step]:
        root = compared(BEFORE | {"stacks": stacks(base)}, AFTER | {"stacks": stacks(new)}).by_stack
        assert root
        return trace(root)

    def test_the_way_ends_at_the_lowest_frame_that_has_most_of_the_change(self) -> None:
        base = ["work", 1, [["a", 1, [["b", 10, [["x", 1, []], ["y", 1, []]]]]], ["c", 5, []]]]
        new = ["work", 1, [["a", 1, [["b", 110, [["x", 3, []], ["y", 2, []]]]]], ["c", 9, []]]]
        assert told(self.make(base, new)) == [(0, "work", 107), (1, "a", 103), (2, "b", 103)]

    def test_where_it_splits_each_large_part_is_followed(self) -> None:
        base = ["work", 1, []]
        new = ["work", 1, [["a", 0, [["deep", 60, []]]], ["b", 40, []], ["small", 1, []]]]
        assert told(self.make(base, new)) == [
            (0, "work", 101),
            (1, "a", 60),
            (2, "deep", 60),
            (1, "b", 40),
        ]

    def test_changes_that_cancel_out_are_both_followed(self) -> None:
        base = ["work", 1, [["a", 50, []]]]
        new = ["work", 1, [["b", 50, []]]]
        assert told(self.make(base, new)) == [(0, "work", 0), (1, "a", -50), (1, "b", 50)]

    def test_without_a_change_there_is_no_way(self) -> None:
        assert self.make(["work", 1, [["a", 5, []]]], ["work", 1, [["a", 5, []]]]) == []

    def test_of_many_frames_that_only_pass_the_change_on_most_are_left_out(self) -> None:
        base: list[Any] = ["end", 1, []]
        new: list[Any] = ["end", 11, [["left", 100, []], ["right", 100, []]]]
        for number in range(20):
            base, new = [f"f{number}", 1, [base]], [f"f{number}", 1, [new]]
        steps = self.make(base, new)
        assert [(step.level, step.frame.name, step.passed) for step in steps] == [
            (0, "f19", 0),
            (1, "f18", 0),
            (2, "f0", 17),
            (3, "end", 0),
            (4, "left", 0),
            (4, "right", 0),
        ]


NAMES = st.sampled_from(["f", "g", "<h>", "i", ""])
COSTS = st.lists(
    st.tuples(st.sampled_from(["dynamo", "inductor", "odd"]), NAMES, NAMES, st.integers(0, 10**12)).map(list),
    max_size=12,
)
TREES = st.recursive(
    st.tuples(NAMES, st.integers(0, 10**9), st.just([])).map(list),
    lambda below: st.tuples(NAMES, st.integers(0, 10**9), st.lists(below, max_size=4)).map(list),
    max_leaves=20,
)


def added(tree: list[Any]) -> int:
    return int(tree[1]) + sum(map(added, tree[2]))


@given(COSTS, COSTS, TREES, TREES)
def test_the_parts_add_up_to_the_whole(
    before: list[list[Any]], after: list[list[Any]], base_tree: list[Any], new_tree: list[Any]
) -> None:
    base = profile(before, stacks=stacks(base_tree))
    new = profile(after, stacks=stacks(new_tree))
    found = compared(base, new)
    assert sum(phase.change for phase in found.phases) == found.total.change == new["total"] - base["total"]
    assert sum(function.change for function in found.functions) == found.total.change
    assert (found.by_function.base, found.by_function.new) == (base["total"], new["total"])
    assert found.by_stack
    assert (found.by_stack.base, found.by_stack.new) == (added(base_tree), added(new_tree))
    for frame in [*frames_of(found.by_function), *frames_of(found.by_stack)]:
        assert sum(below.base for below in frame.below.values()) <= frame.base
        assert sum(below.new for below in frame.below.values()) <= frame.new


class TestBadProfiles:
    @pytest.mark.parametrize(
        ("change", "column", "problem"),
        [
            ({"counter": None}, "counter", "expected a word"),
            ({"counter": "two\nlines"}, "counter", "expected a word"),
            ({"unit": 7}, "unit", "expected a word, found 7"),
            ({"total": "many"}, "total", "expected a number from 0 on, found 'many'"),
            ({"total": True}, "total", "expected a number"),
            ({"total": -1}, "total", "expected a number from 0 on, found -1"),
            ({"total": float("nan")}, "total", "expected a number"),
            ({"total": 10**400}, "total", "expected a number"),
            ({"total": 10}, "phases", "add up to 1,000, which is more than the total, 10"),
            ({"phases": None}, "phases", "expected an object, found None"),
            ({"phases": {"dynamo": []}}, "phases.dynamo", "expected a number from 0 on, found list"),
            ({"functions": {}}, "functions", "expected a list, found dict"),
            (
                {"functions": [["dynamo", "f", 1]]},
                "functions[0]",
                "expected [phase, library, function, cost]",
            ),
            ({"functions": [["dynamo", "l", 3, 1]]}, "functions[0]", "expected a name, found 3"),
            ({"functions": [["dynamo", "l", "f", "1"]]}, "functions[0]", "expected a number"),
            ({"functions": [["dynamo", "l", "f", 900]]}, "functions", "more than the phase dynamo, 700"),
            ({"functions": [["odd", "l", "f", 9]]}, "functions", "more than the phase odd, 0"),
            ({"stacks": []}, "stacks", "expected an object"),
            ({"stacks": {"tree": ["a", 1, []]}}, "stacks.unit", "expected a word"),
            ({"stacks": {"unit": "calls"}}, "stacks.tree", "expected [name, own, [children]], found None"),
            ({"stacks": {"unit": "calls", "tree": ["a", 1, [["b", 1]]]}}, "stacks.tree", "found list"),
            ({"stacks": {"unit": "calls", "tree": ["a", -1, []]}}, "stacks.tree", "found -1"),
            ({"stacks": {"unit": "calls", "tree": [1, 1, []]}}, "stacks.tree", "expected a name, found 1"),
        ],
    )
    def test_what_is_wrong_and_where_is_said(self, change: dict[str, Any], column: str, problem: str) -> None:
        with pytest.raises(InputError) as raised:
            read(BEFORE | change)
        assert raised.value.column == f"outcome.details.profile.{column}"
        assert str(raised.value).startswith("run.jsonl:7: ")
        assert problem in str(raised.value)
        assert "--probe instructions --profile" in str(raised.value)

    @pytest.mark.parametrize("stated", [[], "profile", 3, True])
    def test_what_is_no_object_is_no_profile(self, stated: object) -> None:
        with pytest.raises(InputError, match="expected a profile, found"):
            read(stated)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda below: (
                st.lists(below, max_size=4)
                | st.dictionaries(st.sampled_from([*BEFORE, "stacks", "tree", "x"]), below, max_size=5)
            ),
            max_leaves=20,
        )
    )
    def test_anything_else_is_refused_or_read(self, stated: object) -> None:
        try:
            found = read(stated)
        except InputError:
            return
        assert compare(found, found).total.change == 0

    def test_a_real_one_is_read(self) -> None:
        found = read(sample_profile(changed=True))
        assert found.counter == "simulated"
        assert found.stacks
        assert found.total == sum(found.phases.values())
