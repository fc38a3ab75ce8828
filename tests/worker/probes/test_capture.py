"""What torch.compile says about its own work, and that it is said of the right lines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from probe_steps import TORCH_WARNINGS
from torch import Tensor, nn
from torch._dynamo import graph_break, utils

from torchstone.worker.probes.compiler.capture import LONGEST_REASON, Capture, read_capture, reset_capture

pytestmark = TORCH_WARNINGS


def captured(
    function: Callable[..., Any],
    inputs: Sequence[tuple[Any, ...]] = ((torch.ones(3),),),
    backend: str = "eager",
) -> Capture:
    """What is captured of a function when it is compiled and called with each of the inputs."""
    torch.set_num_threads(1)
    reset_capture()
    compiled = torch.compile(function, backend=backend)
    for args in inputs:
        compiled(*args)
    return read_capture()


def line_of(function: Callable[..., Any], text: str) -> str:
    """The file and line of the one line of a function that has a text in it."""
    lines, first = inspect.getsourcelines(function)
    (number,) = (number for number, line in enumerate(lines) if text in line)
    return f"{__file__}:{first + number}"


def whole(x: Tensor) -> Tensor:
    return (x + 1) * 2


def broken_twice(x: Tensor) -> Tensor:
    x = x + 1
    graph_break()
    x = x * 2
    print("", end="")  # noqa: T201  (which no compiler can put into a graph)
    return x - 1


def broken_below(x: Tensor) -> Tensor:
    return broken_twice(x) + 1


def broken_in_a_loop(x: Tensor) -> Tensor:
    for _ in range(3):
        x = x + 1
        graph_break()
    return x


def branching(x: Tensor) -> Tensor:
    if x.sum() > 0:  # only known when it runs
        return x + 1
    return x - 1


@torch.compiler.disable  # type: ignore[untyped-decorator]
def left_out(x: Tensor) -> Tensor:
    return x + 1


def leaving_out(x: Tensor) -> Tensor:
    result: Tensor = left_out(x * 2) * 3
    return result


def test_function_without_a_break_is_one_graph() -> None:
    found = captured(whole)
    assert found.counts == {
        "calls_captured": 2,
        "unique_graphs": 1,
        "graph_breaks": 0,
        "unique_graph_breaks": 0,
        "fallbacks_to_eager": 0,
        "autograd_captures": 0,
        "autograd_compiles": 0,
        "cudagraph_skips": 0,
        "recompiles": 0,
    }
    assert (found.graph_breaks, found.recompile_reasons) == ([], [])


def test_counts_are_torch_s_own() -> None:
    found = captured(broken_twice)
    stats, breaks, frames = (utils.counters[name] for name in ("stats", "graph_break", "frames"))
    assert found.counts["calls_captured"] == stats["calls_captured"] == 3
    assert found.counts["unique_graphs"] == stats["unique_graphs"] == 3
    assert found.counts["graph_breaks"] == sum(breaks.values()) == 2
    assert found.counts["unique_graph_breaks"] == len(breaks) == 2
    assert found.counts["fallbacks_to_eager"] == frames["total"] - frames["ok"] == 0


def test_breaks_have_a_reason_a_place_and_the_line_there() -> None:
    breaks = {entry.place: entry for entry in captured(broken_twice).graph_breaks}
    assert breaks.keys() == {line_of(broken_twice, "graph_break()"), line_of(broken_twice, "print")}
    first = breaks[line_of(broken_twice, "graph_break()")]
    assert (first.count, first.source) == (1, "graph_break()")
    assert "graph_break()" in first.reason
    assert breaks[line_of(broken_twice, "print")].source.startswith('print("", end="")')


def test_break_is_placed_where_it_happens_not_where_it_is_called_from() -> None:
    places = [entry.place for entry in captured(broken_below).graph_breaks]
    assert set(places) == {line_of(broken_twice, "graph_break()"), line_of(broken_twice, "print")}


def test_break_inside_torch_is_placed_at_the_line_that_called_torch() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(Breaking())

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.net(x)
            return result

    (entry,) = captured(Model()).graph_breaks[:1]
    assert entry.place == line_of(Breaking.forward, "graph_break()")
    stack = utils.graph_break_reasons[0].user_stack
    assert any("torch/nn/modules/container.py" in frame.filename for frame in stack)


class Breaking(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        graph_break()
        return x + 1


def test_branch_on_data_is_a_reason_though_torch_does_not_count_it() -> None:
    found = captured(branching)
    assert found.counts["graph_breaks"] == sum(utils.counters["graph_break"].values())
    (entry,) = found.graph_breaks
    assert entry.place == line_of(branching, "if x.sum()")


def test_frame_that_is_left_to_eager_as_a_whole_has_a_reason_too() -> None:
    found = captured(broken_in_a_loop)
    assert found.counts["fallbacks_to_eager"] == 1
    assert found.counts["unique_graphs"] == 0
    (entry,) = found.graph_breaks
    assert entry.place == line_of(broken_in_a_loop, "graph_break()")
    assert entry.reason.startswith("left to eager as a whole: ")
    assert entry.fallback is True


def test_reasons_have_no_addresses_which_would_differ_in_every_process() -> None:
    (entry,) = captured(leaving_out).graph_breaks
    assert "<function left_out>" in entry.reason
    assert "0x" not in entry.reason


def test_repeated_break_is_listed_once_with_its_count() -> None:
    found = captured(lambda x: broken_twice(broken_twice(x)))
    counts = {entry.place: entry.count for entry in found.graph_breaks}
    assert sum(counts.values()) == found.counts["graph_breaks"]
    assert len(counts) == 2


def test_long_reasons_are_cut() -> None:
    name = "x" * 3 * LONGEST_REASON

    def model(x: Tensor) -> Tensor:
        graph_break(msg=name)
        return x + 1

    (entry,) = captured(model).graph_breaks
    assert len(entry.reason) == LONGEST_REASON + 4


def test_recompiles_are_counted_with_their_reasons() -> None:
    found = captured(whole, [(torch.ones(size),) for size in (3, 4, 5)] + [(torch.ones(2, 2),)])
    # Once for any size, when a second one came, and once for another number of dimensions.
    assert found.counts["recompiles"] == 2
    assert found.counts["unique_graphs"] == 3
    assert len(found.recompile_reasons) == 2
    assert "size mismatch at index 0. expected 3, actual 4" in found.recompile_reasons[0]
    assert "rank mismatch. expected 1, actual 2" in found.recompile_reasons[1]


def test_continuation_after_a_break_is_no_recompile() -> None:
    assert captured(broken_twice).counts["recompiles"] == 0


def test_reason_to_recompile_is_kept_if_the_backward_is_compiled_too() -> None:
    reset_capture()
    net = nn.Linear(3, 3)
    compiled = torch.compile(net, backend="aot_eager", dynamic=False)
    for size in (2, 4):
        compiled(torch.ones(size, 3)).sum().backward()
    found = read_capture()
    assert found.counts["recompiles"] == 1
    assert "expected 2, actual 4" in found.recompile_reasons[0]


def test_giving_up_after_too_many_recompiles_is_told() -> None:
    def model(x: Tensor, text: str) -> Tensor:
        return x + len(text)

    found = captured(model, [(torch.ones(3), "a" * length) for length in range(12)])
    assert found.counts["fallbacks_to_eager"] == 1
    (entry,) = found.graph_breaks
    assert "recompile limit" in entry.reason


def test_compile_seconds_are_those_of_forward_and_backward() -> None:
    net = nn.Linear(3, 3)
    reset_capture()
    torch.compile(net, backend="aot_eager")(torch.ones(2, 3)).sum().backward()
    timers = utils.compilation_time_metrics
    forward, backward = timers["_compile.compile_inner"], timers["backward._backward_impl"]
    assert read_capture().seconds == pytest.approx(sum(forward) + sum(backward))
    assert sum(backward) > 0


def test_names_that_torch_used_before_are_not_counted_twice() -> None:
    reset_capture()
    timers = utils.compilation_time_metrics
    timers["entire_frame_compile"] = [1.0, 2.0]
    timers["entire_backward_compile"] = [0.5]
    assert read_capture().seconds == 3.5
    timers["_compile.compile_inner"] = [1.0, 2.5]
    assert read_capture().seconds == 4.0
    reset_capture()
    assert read_capture().seconds == 0.0


def test_reset_forgets_everything() -> None:
    captured(broken_twice)
    reset_capture()
    found = read_capture()
    assert set(found.counts.values()) == {0}
    assert (found.graph_breaks, found.recompile_reasons, found.seconds) == ([], [], 0.0)


def test_anything_that_was_compiled_since_is_noticed() -> None:
    before = captured(whole)
    assert not read_capture().has_compiled_since(before)
    torch.compile(broken_in_a_loop, backend="eager")(torch.ones(3))
    assert read_capture().has_compiled_since(before)
