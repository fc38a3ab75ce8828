"""The rules of triage: what people may decide, and what the data decides by itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from change_samples import change
from torchstone.core.errors import UsageError
from torchstone.history.change_records import (
    Cause,
    ChangeGroup,
    SeriesChange,
    TriageEvent,
    TriageState,
)
from torchstone.history.triage.triage_rules import (
    ChangeHistory,
    Decision,
    check_decision,
    check_fixed,
    find_interval,
    index_changes,
    is_back,
    is_open_regression,
    parse_state,
    settle,
)

S = TriageState
OPEN, CLOSED = (S.NEW, S.ACKNOWLEDGED, S.INVESTIGATING), (S.EXPECTED, S.FIXED, S.NOISE, S.MACHINE, S.WONTFIX)


def event(number: int, state: TriageState, **facts: object) -> TriageEvent:
    return structs.replace(
        TriageEvent(id=number, group=1, state=state, at=f"2026-11-{number:02}T00:00:00Z"), **facts
    )


def group(
    number: int, *changes: SeriesChange, events: Sequence[TriageEvent] = (), cause: Cause = Cause.CODE
) -> ChangeGroup:
    return ChangeGroup(
        id=number,
        name="g",
        branch="main",
        cause=cause,
        opened_at="2026-11-01T00:00:00Z",
        changes=tuple(structs.replace(each, group=number) for each in changes),
        state=events[-1].state if events else S.NEW,
        events=tuple(events),
    )


def decide(
    groups: Sequence[ChangeGroup], newest: int, known: Sequence[SeriesChange] = ()
) -> list[tuple[int, TriageState]]:
    """What the data decides about these groups if each position up to the newest has one point; until nothing more follows."""
    changes = [each for one in groups for each in one.changes] + list(known)
    current = {each.id: each for each in groups}
    found = []
    for _ in range(5):
        history = ChangeHistory(
            list(current.values()),
            index_changes(changes),
            lambda first, last, _: (
                (last.first_new.position if last else newest + 1) - first.first_new.position
            ),
        )
        decisions = list(settle(history))
        for number, decision in decisions:
            assert decision.is_automatic
            assert decision.reason
            found.append((number, decision.state))
            new = TriageEvent(
                id=99,
                group=number,
                state=decision.state,
                at="2026-12-01",
                is_automatic=True,
                duplicate_of=decision.duplicate_of,
            )
            before = current[number]
            current[number] = structs.replace(before, state=decision.state, events=(*before.events, new))
        if not decisions:
            return found
    raise AssertionError("the rules never come to an end")


class TestPeople:
    @pytest.mark.parametrize("before", OPEN)
    @pytest.mark.parametrize("after", [*OPEN[1:], *CLOSED])
    def test_an_open_group_can_become_anything(self, before: TriageState, after: TriageState) -> None:
        one = group(1, change(1, 20, 1.0, 1.2), events=[event(1, before)] if before is not S.NEW else [])
        if before is not after:
            check_decision(one, Decision(state=after, reason="because"))

    @pytest.mark.parametrize("before", CLOSED)
    @pytest.mark.parametrize("after", CLOSED)
    def test_a_closed_group_is_opened_before_it_is_closed_in_another_way(
        self, before: TriageState, after: TriageState
    ) -> None:
        one = group(1, change(1, 20, 1.0, 1.2), events=[event(1, before)])
        if before is not after:
            with pytest.raises(UsageError, match="torchstone triage set 1 new"):
                check_decision(one, Decision(state=after, reason="because"))
        for opened in OPEN:
            check_decision(one, Decision(state=opened))

    def test_an_open_group_cannot_become_new_again(self) -> None:
        one = group(1, change(1, 20, 1.0, 1.2), events=[event(1, S.ACKNOWLEDGED)])
        with pytest.raises(UsageError, match="open already"):
            check_decision(one, Decision(state=S.NEW))

    def test_expected_needs_a_reason(self) -> None:
        with pytest.raises(UsageError, match="needs a reason"):
            check_decision(group(1, change(1, 20, 1.0, 1.2)), Decision(state=S.EXPECTED, reason=" "))

    def test_the_same_state_again_has_to_say_something_new(self) -> None:
        one = group(1, change(1, 20, 1.0, 1.2), events=[event(1, S.ACKNOWLEDGED)])
        with pytest.raises(UsageError, match="acknowledged already"):
            check_decision(one, Decision(state=S.ACKNOWLEDGED))
        check_decision(one, Decision(state=S.ACKNOWLEDGED, owner="ada"))

    def test_a_duplicate_names_another_group_that_is_none_itself(self) -> None:
        one, two = group(1, change(1, 20, 1.0, 1.2)), group(2, change(2, 20, 1.0, 1.2))
        three = group(3, change(3, 20, 1.0, 1.2), events=[event(1, S.DUPLICATE, duplicate_of=2)])
        check_decision(one, Decision(state=S.DUPLICATE, duplicate_of=2), two)
        for other, told in ((None, "--of GROUP"), (one, "of itself"), (three, "--of 2")):
            with pytest.raises(UsageError, match=told):
                check_decision(
                    one, Decision(state=S.DUPLICATE, duplicate_of=other.id if other else None), other
                )
        with pytest.raises(UsageError, match="only a duplicate"):
            check_decision(one, Decision(state=S.NOISE, duplicate_of=2), two)

    def test_an_unknown_state_is_an_error_that_suggests_one(self) -> None:
        with pytest.raises(UsageError, match="did you mean 'acknowledged'"):
            parse_state("acknowleged")

    def test_fixed_is_refused_unless_the_newest_points_are_back(self) -> None:
        one = group(1, change(1, 20, 1.0, 1.2), change(2, 20, "pass", "timeout", name="mlp"))
        latency, status = one.changes
        check_fixed(one, [(latency, [1.2, 1.01, 1.02]), (status, ["timeout", "pass", "pass"])])
        for values in ([1.2, 1.19, 1.21], [1.0, 1.0, 1.2], []):
            with pytest.raises(
                UsageError, match=r"not fixed yet: 1 series not back at the old level \(net\)"
            ):
                check_fixed(one, [(latency, values), (status, ["pass"])])
        with pytest.raises(UsageError, match="no regression"):
            check_fixed(group(2, change(3, 20, 1.2, 1.0)), [])


def test_a_value_is_back_if_it_is_nearer_to_the_old_level() -> None:
    doubled = change(1, 20, 1.0, 4.0)
    assert is_back(doubled, 1.9)  # half the way of the logarithm is 2.0
    assert not is_back(doubled, 2.1)
    failing = change(2, 20, "pass", "timeout")
    assert is_back(failing, "pass_due_to_skip")
    assert not is_back(failing, "fail_accuracy")


class TestData:
    REGRESSION = change(1, 20, 1.0, 1.2)
    BACK = change(2, 30, 1.2, 1.0)

    def test_a_group_closes_when_its_level_has_been_back_for_ten_points(self) -> None:
        one = group(1, self.REGRESSION)
        assert decide([one], 38, [self.BACK]) == []
        assert decide([one], 39, [self.BACK]) == [(1, S.FIXED)]
        assert decide([one], 90) == []

    def test_the_group_of_the_fix_goes_with_it(self) -> None:
        one, cure = group(1, self.REGRESSION), group(2, self.BACK)
        assert decide([one, cure], 60) == [(1, S.FIXED), (2, S.DUPLICATE)]
        assert decide([one, group(2, self.BACK, change(5, 30, 2.0, 1.0, name="mlp"))], 60) == [(1, S.FIXED)]

    def test_one_fix_of_two_groups_goes_with_both(self) -> None:
        one, two = group(1, self.REGRESSION), group(2, change(3, 25, 2.0, 3.0, name="mlp"))
        cure = group(3, self.BACK, change(4, 30, 3.0, 2.0, name="mlp"))
        assert decide([one, two, cure], 60) == [(1, S.FIXED), (2, S.FIXED), (3, S.DUPLICATE)]

    def test_the_interval_of_a_group_is_what_its_changes_share(self) -> None:
        apart = [change(1, 20, 1.0, 1.2), change(2, 23, 1.0, 1.2, name="mlp")]
        assert [end.position for end in find_interval(apart)] == [19, 23]
        wide = structs.replace(apart[0], last_old=structs.replace(apart[0].last_old, position=12))
        assert [end.position for end in find_interval([wide, change(3, 18, 1.0, 1.2, name="mlp")])] == [
            17,
            18,
        ]

    def test_all_members_must_be_back(self) -> None:
        one = group(1, self.REGRESSION, change(3, 20, 1.0, 1.2, name="mlp"))
        assert decide([one], 60, [self.BACK]) == []
        assert decide([one], 60, [self.BACK, change(4, 40, 1.2, 1.0, name="mlp")]) == [(1, S.FIXED)]

    def test_going_back_half_the_way_is_not_back(self) -> None:
        assert decide([group(1, change(1, 20, 1.0, 2.0))], 60, [change(2, 30, 2.0, 1.6)]) == []

    @pytest.mark.parametrize("state", [S.ACKNOWLEDGED, S.INVESTIGATING])
    def test_what_somebody_looks_at_closes_too(self, state: TriageState) -> None:
        assert decide([group(1, self.REGRESSION, events=[event(1, state)])], 60, [self.BACK]) == [
            (1, S.FIXED)
        ]

    @pytest.mark.parametrize("state", CLOSED)
    def test_what_is_closed_stays_as_it_is(self, state: TriageState) -> None:
        assert decide([group(1, self.REGRESSION, events=[event(1, state)])], 60, [self.BACK]) == []

    def test_a_status_group_closes_although_single_points_fail(self) -> None:
        one = group(1, change(1, 20, "pass", "timeout"))
        flake = change(3, 35, "pass", "timeout", is_provisional=True)
        assert decide([one], 45, [change(2, 30, "timeout", "pass"), flake]) == [(1, S.FIXED)]

    def test_a_relapse_opens_the_fixed_group_and_is_its_duplicate(self) -> None:
        fixed = group(1, self.REGRESSION, events=[event(1, S.FIXED, is_automatic=True)])
        again = group(2, change(3, 50, 1.0, 1.19))
        assert decide([fixed, again], 60, [self.BACK]) == [(2, S.DUPLICATE), (1, S.NEW)]

    def test_a_history_recorded_at_once_ends_in_the_same_states(self) -> None:
        again = group(2, change(3, 50, 1.0, 1.19))
        found = decide([group(1, self.REGRESSION), again], 60, [self.BACK])
        assert found == [(1, S.FIXED), (2, S.DUPLICATE), (1, S.NEW)]

    def test_a_relapse_that_came_back_closes_the_group_once_more(self) -> None:
        events = [event(1, S.FIXED), event(2, S.NEW, is_automatic=True)]
        reopened = group(1, self.REGRESSION, events=events)
        again = group(2, change(3, 50, 1.0, 1.19), events=[event(3, S.DUPLICATE, duplicate_of=1)])
        assert decide([reopened, again], 75, [self.BACK]) == []
        assert decide([reopened, again], 75, [self.BACK, change(4, 60, 1.19, 1.0)]) == [(1, S.FIXED)]

    def test_the_same_level_long_after_is_another_cause(self) -> None:
        fixed = group(1, self.REGRESSION, events=[event(1, S.FIXED)])
        later = group(2, change(3, 200, 1.0, 1.19))
        assert decide([fixed, later], 210, [self.BACK]) == []

    def test_a_provisional_change_is_no_relapse_yet(self) -> None:
        fixed = group(1, self.REGRESSION, events=[event(1, S.FIXED)])
        again = group(2, change(3, 50, 1.0, 1.19, is_provisional=True))
        assert decide([fixed, again], 52, [self.BACK]) == []

    def test_a_group_with_something_else_in_it_is_no_relapse(self) -> None:
        fixed = group(1, self.REGRESSION, events=[event(1, S.FIXED)])
        more = group(2, change(3, 50, 1.0, 1.19), change(4, 50, 1.0, 1.3, name="mlp"))
        assert decide([fixed, more], 60, [self.BACK]) == []

    def test_the_shift_of_a_machine_is_put_aside(self) -> None:
        shifted = group(1, self.REGRESSION, cause=Cause.MACHINE)
        assert not is_open_regression(shifted)
        assert decide([shifted], 30) == [(1, S.MACHINE)]

    def test_what_is_not_found_any_more_is_noise(self) -> None:
        gone = group(1, change(1, 20, 1.0, 1.2, is_vanished=True), events=[event(1, S.ACKNOWLEDGED)])
        assert decide([gone], 60) == [(1, S.NOISE)]
        by_hand = [event(1, S.NOISE, is_automatic=True), event(2, S.NEW)]
        assert decide([structs.replace(gone, state=S.NEW, events=tuple(by_hand))], 60) == []
