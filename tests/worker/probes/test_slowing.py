"""Work that is added to a call: real, after the call, and as much as was asked for."""

from __future__ import annotations

import time

import pytest

from torchstone.worker.probes import slowing
from torchstone.worker.probes.slowing import slow_down


class Clock:
    """A clock that goes on by ten whenever it is read."""

    def __init__(self) -> None:
        self.now = 0
        self.reads = 0

    def __call__(self) -> int:
        self.now += 10
        self.reads += 1
        return self.now


@pytest.mark.parametrize(
    ("took", "share", "reads"), [(1000, 0.0, 1), (1000, 0.05, 5), (4000, 0.05, 20), (1000, 0.5, 50)]
)
def test_the_work_takes_its_share_of_what_the_call_took(
    took: int, share: float, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(slowing, "perf_counter_ns", clock)

    def call() -> None:
        clock.now += took - 10

    slow_down(call, share, lambda: None)()
    assert clock.reads == 2 + reads


def test_the_processor_is_really_kept_busy() -> None:
    slowed = slow_down(lambda: time.sleep(0.2), 1.0, lambda: None)
    before = time.thread_time()
    slowed()
    assert (
        time.thread_time() - before > 0.002
    )  # sleeping takes a hundredth of that, however busy the machine is


def test_the_result_is_that_of_the_call_and_the_device_is_waited_for_between() -> None:
    order: list[str] = []

    def call() -> str:
        order.append("call")
        return "result"

    slowed = slow_down(call, 0.1, lambda: order.append("synchronized"))
    assert slowed() == "result"
    assert order == ["call", "synchronized"]
