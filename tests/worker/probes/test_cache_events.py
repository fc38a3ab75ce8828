"""What torch's caches say of themselves, as torch says it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from torch._dynamo import utils
from torch._inductor.async_compile import AsyncCompile, CompiledTritonKernels
from torch._inductor.codecache import CodeCacheFuture
from torch._logging._internal import trace_structured

from torchstone.worker.probes.compiler import cache_events
from torchstone.worker.probes.compiler.cache_events import CacheEvents, listening, read_look_ups


def say(name: str, told: dict[str, Any] | None = None) -> None:
    """A record of torch's structured trace, by torch's own way of writing one."""
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "json"},
        payload_fn=lambda: json.dumps(told or {}),
    )


def told(name: str, told: dict[str, Any], frame: int = 0) -> tuple[dict[str, Any], str]:
    return {"artifact": {"name": name}, "frame_id": frame, "frame_compile_id": 0}, json.dumps(told)


def test_what_torch_traces_while_listening_is_heard_and_nothing_after() -> None:
    with listening() as events:
        say(
            "fx_graph_cache_miss",
            {"key": "k1", "components": ["[h1] gm: graph: code", "[h2] inputs[0]: meta"]},
        )
        say("aotautograd_cache_bypass", {"cache_bypass_reason": "no lambdas"})
        say("fx_graph_cache_hash", {"key": "not a look-up"})
        say("dynamo_graph")
        trace_structured("dynamo_start", metadata_fn=lambda: {"stack": []})
    say("fx_graph_cache_hit", {"key": "k1"})
    assert [(each.cache, each.state) for each in events.seen] == [
        ("fx_graph", "miss"),
        ("aot_autograd", "bypass"),
    ]
    miss, bypass = events.seen
    assert (miss.key, miss.reason) == ("k1", "")
    assert miss.parts == {"gm": "h1 graph: code", "inputs[0]": "h2 meta"}
    assert (bypass.key, bypass.reason, bypass.parts) == ("", "no lambdas", {})


def test_listening_leaves_torchs_logging_as_it_was() -> None:
    names = ("torch.__trace", "torch._inductor.codecache", "torch._functorch._aot_autograd.autograd_cache")

    def handlers() -> list[list[logging.Handler]]:
        return [list(logging.getLogger(name).handlers) for name in names]

    def fail_while_listening() -> None:
        with listening():
            assert all(
                len(ours) == len(before) + 1 for ours, before in zip(handlers(), at_first, strict=True)
            )
            raise ValueError("the model")

    at_first = handlers()
    with pytest.raises(ValueError, match="the model"):
        fail_while_listening()
    assert handlers() == at_first


def test_a_graph_is_known_by_its_frame_and_how_often_that_was_compiled() -> None:
    events = CacheEvents()
    events.add({"artifact": {"name": "fx_graph_cache_hit"}, "frame_id": 3, "frame_compile_id": 1}, "{}")
    events.add({"artifact": {"name": "fx_graph_cache_hit"}}, "")
    assert [each.graph for each in events.seen] == ["3/1", "?/0"]


def test_a_warning_that_something_cannot_be_saved_belongs_to_the_last_miss() -> None:
    with listening() as events:
        say("aotautograd_cache_miss", {"key": "a"})
        say("fx_graph_cache_miss", {"key": "b"})
        try:
            raise TypeError("cannot pickle a lock")
        except TypeError:
            logging.getLogger("torch._functorch._aot_autograd.autograd_cache").warning(
                "cannot be serialised", exc_info=True
            )
        logging.getLogger("torch._inductor.codecache").info("all is well")
    assert [each.unsaved for each in events.seen] == ["cannot be serialised: cannot pickle a lock", ""]


def test_a_hit_is_not_blamed_for_a_warning() -> None:
    events = CacheEvents()
    events.add_unsaved("fx_graph", "nobody asked")
    events.add(*told("fx_graph_cache_hit", {"key": "k"}))
    events.add_unsaved("fx_graph", "too late")
    assert [each.unsaved for each in events.seen] == [""]


@pytest.mark.parametrize("payload", ["{", "[]", "null", '"text"', '{"components": 7, "key": 7}'])
def test_records_that_make_no_sense_do_not_disturb_the_compiler(payload: str) -> None:
    with listening() as events:
        trace_structured(
            "artifact",
            metadata_fn=lambda: {"name": "fx_graph_cache_miss", "encoding": "json"},
            payload_fn=lambda: payload,
        )
        say("fx_graph_cache_hit", {"key": "k"})
    assert events.seen[-1].state == "hit"


def test_more_look_ups_than_anyone_reads_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_events, "MOST_EVENTS", 3)
    events = CacheEvents()
    for frame in range(5):
        events.add(*told("fx_graph_cache_miss", {"key": str(frame)}, frame))
    assert ([each.key for each in events.seen], events.more) == (["0", "1", "2"], 2)


def test_a_huge_key_is_cut_but_its_parts_stay_comparable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_events, "MOST_TEXT", 50)
    events = CacheEvents()
    for _ in range(2):
        events.add(
            *told("fx_graph_cache_miss", {"key": "k" * 9999, "components": [f"[h1] gm: {'x' * 99_999}"]})
        )
    first, second = events.seen
    assert len(first.key) == cache_events.LONGEST_NAME
    assert len(first.parts["gm"]) == cache_events.LONGEST_PART + len("h1 ")
    assert second.parts == {"gm": "h1 "}


@pytest.fixture
def counters() -> Iterator[None]:
    utils.counters.clear()
    yield
    utils.counters.clear()


@pytest.mark.usefixtures("counters")
def test_look_ups_are_counted_by_cache_and_by_what_came_of_them() -> None:
    assert read_look_ups() == {}
    utils.counters["inductor"].update(fxgraph_cache_hit=3, fxgraph_cache_miss=1, pattern_matcher_count=9)
    utils.counters["aot_autograd"].update(autograd_cache_bypass=2, autograd_cache_saved=5)
    utils.counters["dynamo_cache"].update(dynamo_cache_hit=1)
    assert read_look_ups() == {
        "aot_autograd": {"hit": 0, "miss": 0, "bypass": 2},
        "fx_graph": {"hit": 3, "miss": 1, "bypass": 0},
        "precompile": {"hit": 1, "miss": 0, "bypass": 0},
    }


@pytest.mark.usefixtures("counters")
def test_torch_counts_every_look_up_of_a_kernel_as_a_miss_and_those_that_hit_are_not_misses() -> None:
    kernels = AsyncCompile()
    CompiledTritonKernels._cache[CompiledTritonKernels.key("known")] = CodeCacheFuture()
    with patch.object(AsyncCompile, "use_process_pool", return_value=True):
        kernels.triton("kernel", "known")
    assert utils.counters["inductor"]["async_compile_cache_miss"] == 1  # that is torch's way
    assert read_look_ups() == {"kernel": {"hit": 1, "miss": 0, "bypass": 0}}


@pytest.mark.usefixtures("counters")
def test_what_is_found_and_cannot_be_used_is_a_miss() -> None:
    utils.counters["aot_autograd"].update(autograd_cache_guard_miss=1, autograd_cache_miss=1)
    assert read_look_ups() == {"aot_autograd": {"hit": 0, "miss": 2, "bypass": 0}}
