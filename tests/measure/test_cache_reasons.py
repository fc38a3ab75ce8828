"""Why a cache did not serve a graph: torch's own words, or what is different since the cold start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from torchstone.core.details.compile_cache_details import CacheMiss
from torchstone.measure.procedures.cache_misses import LONGEST_VALUE, find_native_miss, find_reasons
from torchstone.worker.protocol.replies import CacheLookUp


def event(state: str, cache: str = "fx_graph", graph: str = "0/0", **found: Any) -> CacheLookUp:  # noqa: ANN401  (fields of CacheLookUp)
    return replace(CacheLookUp(cache, state, graph, "k", "", "", {}), **found)


def reason_of(cold: list[CacheLookUp], now: CacheLookUp, scenario: str = "warm") -> str:
    (found,) = find_reasons(scenario, 1, cold, [now])
    return found.reason


def test_what_was_found_needs_no_reason() -> None:
    assert find_reasons("warm", 1, [event("miss")], [event("hit")]) == []


def test_torchs_own_reason_is_handed_on_for_every_graph() -> None:
    events = [
        event("bypass", "aot_autograd", "0/0", reason="no lambdas"),
        event("hit"),
        event("bypass", "aot_autograd", "1/0", reason="no torchbind"),
    ]
    assert find_reasons("portable", 2, events, events) == [
        CacheMiss(reason, "portable", 2, graph, "aot_autograd", "bypass")
        for graph, reason in (("0/0", "no lambdas"), ("1/0", "no torchbind"))
    ]


def test_what_the_cold_start_could_not_save_is_told_with_its_reason() -> None:
    assert reason_of([event("miss", unsaved="cannot pickle it")], event("miss")).endswith(
        "the cold start could not save it: cannot pickle it"
    )
    assert "refused it" in reason_of([event("bypass", reason="refused it")], event("miss"))


@pytest.mark.parametrize(
    ("scenario", "why"), [("warm", "torch did not save it"), ("portable", "not among the artifacts")]
)
def test_a_miss_under_the_same_key(scenario: str, why: str) -> None:
    reason = reason_of([event("miss")], event("miss"), scenario)
    assert reason.startswith("nothing was found under the same key")
    assert why in reason


def test_a_changed_part_of_the_key_is_named_with_both_values() -> None:
    cold = event("miss", key="a", parts={"gm": "h1 one", "config[x]": "h2 True", "same": "h3 3"})
    now = event("miss", key="b", parts={"gm": "h1 one", "config[x]": "h9 False", "same": "h3 3"})
    assert reason_of([cold], now) == "its key is another one: config[x] was True, is False"


def test_parts_that_are_new_or_gone_are_absent_on_the_other_side() -> None:
    cold = event("miss", key="a", parts={"old": "h 1"})
    now = event("miss", key="b", parts={"new": "h 2"})
    assert reason_of([cold], now) == "its key is another one: old was 1, is absent; new was absent, is 2"


def test_many_changed_parts_are_counted() -> None:
    cold = event("miss", key="a", parts={str(number): "h 0" for number in range(5)})
    now = event("miss", key="b", parts={str(number): "h 1" for number in range(5)})
    assert reason_of([cold], now).endswith("2 was 0, is 1; and 2 more")


def test_a_long_part_is_shown_where_it_differs() -> None:
    beginning, end = "x = y\n  " * 100, "; the rest" * 100
    cold = event("miss", key="a", parts={"gm": f"h {beginning}mul(x, 41){end}"})
    now = event("miss", key="b", parts={"gm": f"h {beginning}mul(x, 42){end}"})
    reason = reason_of([cold], now)
    assert "mul(x, 41)" in reason
    assert "mul(x, 42)" in reason
    assert "\n" not in reason
    assert len(reason) < 2 * LONGEST_VALUE + 100


def test_a_part_that_differs_only_beyond_what_is_kept_is_still_named() -> None:
    cold = event("miss", key="a", parts={"gm": "h1 " + "x" * 300})
    now = event("miss", key="b", parts={"gm": "h2 " + "x" * 300})
    assert "its key is another one: gm was xxx" in reason_of([cold], now)


def test_a_key_that_torch_does_not_take_apart() -> None:
    assert "torch does not say in which part" in reason_of([event("miss", key="a")], event("miss", key="b"))


def test_look_ups_of_one_graph_are_compared_in_their_order() -> None:
    cold = [event("miss", key="forward"), event("miss", key="backward")]
    now = [event("hit", key="forward"), event("miss", key="backward")]
    (found,) = find_reasons("warm", 1, cold, now)
    assert "same key" in found.reason


def test_a_look_up_that_the_cold_start_did_not_make() -> None:
    assert "no such look-up" in reason_of([event("miss", graph="0/0")], event("miss", graph="1/0"))
    assert "no such look-up" in reason_of([event("miss", "aot_autograd")], event("miss", "fx_graph"))


# The native compiler

SERVED = [event("bypass", "aot_autograd"), event("hit")]


def test_compiling_natively_again_what_a_cache_had_is_told() -> None:
    found = find_native_miss("warm", 1, SERVED, 2.0, 1.5)
    assert found is not None
    assert (found.scenario, found.repeat, found.cache, found.state) == ("warm", 1, "native", "miss")
    assert "in 1.5 s (cold: 2.0 s)" in found.reason
    assert (
        find_native_miss("warm", 1, [], 2.0, 1.5) is not None
    )  # a whole package, of which no graph was looked up


@pytest.mark.parametrize(("cold", "now"), [(2.0, 0.0), (0.1, 0.1), (10.0, 4.0)])
def test_little_native_compiling_is_not_worth_a_word(cold: float, now: float) -> None:
    assert find_native_miss("warm", 1, SERVED, cold, now) is None


@pytest.mark.parametrize("anew", [event("miss"), event("miss", "aot_autograd"), event("bypass")])
def test_a_graph_that_was_compiled_anew_explains_the_native_compiler(anew: CacheLookUp) -> None:
    assert find_native_miss("warm", 1, [*SERVED, anew], 2.0, 2.0) is None
