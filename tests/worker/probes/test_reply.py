"""What a probe tells the parent: measurements that are numbers, phases and how long they took, and how a case ended."""

from __future__ import annotations

import math

import pytest
from probe_steps import Recorder

from torchstone.worker.probes import reply
from torchstone.worker.probes.reply import PhaseClock, Result, Stopped, ending_as, tell
from torchstone.worker.protocol.caution_message import CautionMessage
from torchstone.worker.protocol.replies import CaseDetails, Measured, MeasuredDetails


@pytest.mark.parametrize("samples", [math.nan, math.inf, -math.inf, [1.0, math.nan], []])
def test_sample_that_is_no_number_is_no_measurement(samples: float | list[float]) -> None:
    result = Result()
    result.add("speedup", samples, pairs=3)
    assert result.measurements == []
    assert result.details == CaseDetails()
    assert result.cautions == [CautionMessage("not_measured", {}, {"metric": "speedup"})]


def test_measurement_is_added_as_it_is() -> None:
    result = Result()
    result.add("graph_breaks", 0)
    result.add("abs_latency", [1.5, 2.5], block=7)
    assert result.measurements == [
        Measured("graph_breaks", (0,)),
        Measured("abs_latency", (1.5, 2.5), MeasuredDetails(block=7)),
    ]


class Clock:
    """Goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(reply, "monotonic", clock.monotonic)
    return clock


def test_phases_are_told_and_their_time_is_kept(seconds: Clock) -> None:
    recorder, result = Recorder(), Result()
    clock = PhaseClock(recorder, result)
    seconds.now += 5  # before the first phase
    for phase, length in (("load", 2), ("eager", 3), ("load", 4)):
        clock.enter(phase)
        assert clock.phase == phase
        seconds.now += length
    clock.leave()
    seconds.now += 6
    clock.leave()
    assert clock.phase == ""
    assert recorder.heard == ["load", "eager", "load"]
    assert result.details.phases == {"load": 6, "eager": 3}


def test_waiting_for_the_turn_is_in_no_phase(seconds: Clock) -> None:
    class Slow(Recorder):
        def wait_for_turn(self) -> None:
            super().wait_for_turn()
            seconds.now += 50

    recorder, result = Slow(), Result()
    clock = PhaseClock(recorder, result)
    clock.enter("run")
    seconds.now += 1
    with clock.turn():
        assert clock.phase == "run"
        seconds.now += 2
    clock.leave()
    assert recorder.heard == ["run", "wait", "run", "end"]
    assert result.details.phases == {"run": 3}


def test_turn_ends_with_an_error_too() -> None:
    recorder = Recorder()
    clock = PhaseClock(recorder, Result())
    clock.enter("run")
    with pytest.raises(ValueError, match="no"), clock.turn():
        raise ValueError("no")
    assert recorder.heard[-1] == "end"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("a"), "failed"),
        (MemoryError(), "full"),
        (SystemExit(3), "failed"),
        (Stopped("as it was"), "as it was"),
    ],
)
def test_error_becomes_the_status_of_its_place(error: BaseException, status: str) -> None:
    with (
        pytest.raises(Stopped) as caught,
        ending_as("failed", "full", lambda each: isinstance(each, MemoryError)),
    ):
        raise error
    assert caught.value.status == status
    assert caught.value.error in {error, None}


def test_interruption_by_the_keyboard_is_no_status() -> None:
    with pytest.raises(KeyboardInterrupt), ending_as("failed", "full", lambda _: False):
        raise KeyboardInterrupt


def test_error_is_told_in_one_piece_even_if_it_says_nothing() -> None:
    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert tell(ValueError(" what \n")) == "ValueError: what"
    assert tell(ValueError()) == "ValueError"
    assert tell(Mute()) == "Mute: (its message cannot be shown)"
