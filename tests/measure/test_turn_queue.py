"""Who may use a device: one worker alone while it is timed, the others together, in the order in which they asked."""

from __future__ import annotations

from torchstone.measure.devices.turn_queue import TurnQueue


def queue_of(*requests: tuple[int, str, bool]) -> TurnQueue:
    queue = TurnQueue()
    for worker, device, alone in requests:
        assert queue.want(worker, device, alone=alone)
    return queue


def test_only_one_worker_is_timed_at_a_time_on_a_device() -> None:
    queue = queue_of((1, "cuda:0", True), (2, "cuda:0", True))
    assert queue.give() == [1]
    assert queue.give() == []
    queue.end(1)
    assert queue.give() == [2]


def test_workers_are_timed_on_different_devices_at_once() -> None:
    assert queue_of((1, "cuda:0", True), (2, "cuda:1", True)).give() == [1, 2]


def test_cuda_is_its_first_device() -> None:
    assert queue_of((1, "cuda", True), (2, "cuda:0", True), (3, "cuda:1", True)).give() == [1, 3]


def test_nobody_is_timed_on_an_accelerator_while_somebody_is_timed_on_the_cpu() -> None:
    queue = queue_of((1, "cpu", True), (2, "cuda:0", True), (3, "cuda:1", True))
    assert queue.give() == [1]
    queue.end(1)
    assert queue.give() == [2, 3]


def test_workers_that_are_not_timed_use_a_device_together() -> None:
    assert queue_of((1, "cuda:0", False), (2, "cuda:0", False)).give() == [1, 2]


def test_a_worker_is_timed_only_when_nobody_else_uses_its_device() -> None:
    queue = queue_of((1, "cuda:0", False), (2, "cuda:0", True), (3, "cuda:1", False))
    assert queue.give() == [1, 3]
    queue.end(1)
    assert queue.give() == [2]


def test_nobody_overtakes_a_worker_that_waits_to_be_timed() -> None:
    queue = queue_of((1, "cuda:0", False))
    assert queue.give() == [1]
    queue.want(2, "cuda:0", alone=True)
    queue.want(3, "cuda:0", alone=False)
    assert queue.give() == []
    queue.end(1)
    assert queue.give() == [2]
    queue.end(2)
    assert queue.give() == [3]


def test_a_worker_asks_once() -> None:
    queue = queue_of((1, "cuda:0", True))
    assert not queue.want(1, "cuda:0", alone=True)
    queue.give()
    assert not queue.want(1, "cuda:0", alone=False)


def test_ending_a_turn_that_was_not_given_leaves_the_request() -> None:
    queue = queue_of((1, "cuda:0", True), (2, "cuda:0", True))
    queue.give()
    queue.end(2)  # a model wrote this to the channel
    queue.end(1)
    assert queue.give() == [2]


def test_a_worker_that_is_gone_neither_keeps_its_turn_nor_its_place() -> None:
    queue = queue_of((1, "cuda:0", True), (2, "cuda:0", True), (3, "cuda:0", True))
    queue.give()
    queue.forget(2)
    queue.forget(1)
    assert queue.give() == [3]
