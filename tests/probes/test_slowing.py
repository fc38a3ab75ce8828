"""Work that is added to a call: real, after the call, and about as much as was asked for."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from torchstone.probes import slowing
from torchstone.probes.slowing import slow_down


def count_steps(call: object) -> int:
    """How often the line of the added work's loop is executed while a call runs."""
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal steps
        if frame.f_code is slowing._work.__code__:
            steps += event == "line"
            return trace
        return trace if event == "call" else None

    assert callable(call)
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        call()
    finally:
        sys.settrace(None)
    return steps


def busy() -> int:
    return sum(range(20_000))


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_work_is_really_done_and_is_more_for_a_larger_share(share: float) -> None:
    slowed, more = slow_down(busy, share, lambda: None), slow_down(busy, 20 * share, lambda: None)
    assert 0 < 3 * count_steps(slowed) < count_steps(more)


def test_the_result_is_that_of_the_call_and_the_device_is_waited_for_between() -> None:
    order: list[str] = []

    def call() -> str:
        order.append("call")
        return "result"

    slowed = slow_down(call, 0.1, lambda: order.append("synchronized"))
    order.clear()
    assert slowed() == "result"
    assert order == ["call", "synchronized"]
