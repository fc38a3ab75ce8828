"""Counters that need nothing installed, and the way all of them are used."""

from __future__ import annotations

import sys

import pytest

from torchstone.core.vocabulary import COUNTERS
from torchstone.worker.probes.counting.counters import CpuTimeCounter, PythonCounter, open_counter, place_of


def square(number: int) -> int:
    return number * number


def test_python_calls_are_counted_exactly_and_only_between_start_and_stop() -> None:
    counter = PythonCounter()
    counter.begin()
    square(1)
    for _ in range(2):
        counter.start()
        for number in range(10):
            square(number)
        counter.stop()
        square(1)
    assert counter.end() == {"python_calls": 20}


def test_calls_of_functions_in_c_are_calls_too() -> None:
    counter = PythonCounter()
    counter.begin()
    counter.start()
    sorted([3, 1, 2])
    len("abc")
    counter.stop()
    assert counter.end() == {"python_calls": 2}


def test_an_iteration_forgets_the_one_before() -> None:
    counter = PythonCounter()
    for times in (5, 3):
        counter.begin()
        counter.start()
        for number in range(times):
            square(number)
        counter.stop()
        assert counter.end() == {"python_calls": times}


def test_a_lap_names_functions_and_their_files_and_leaves_out_our_own() -> None:
    counter = PythonCounter()
    counter.begin()
    counter.start()
    square(1)
    square(2)
    counter.stop()
    lap = counter.lap()
    assert lap.functions == {("test_counters.py", "square"): 2}
    assert lap.amount == 2
    counter.start()
    counter.stop()
    assert counter.lap().amount == 0


def test_processor_time_is_in_seconds_and_grows() -> None:
    counter = CpuTimeCounter()
    counter.begin()
    counter.start()
    sum(number * number for number in range(200_000))
    counter.stop()
    counted = counter.end()
    assert list(counted) == ["cpu_seconds"]
    assert 0 < counted["cpu_seconds"] < 60


def test_functions_have_the_same_place_in_every_process() -> None:
    assert place_of("<function f at 0x7f4fa23582c0>") == ("", "<function f>")
    assert place_of(pytest.raises.__code__)[0].startswith("_pytest/")
    assert place_of(sys.modules["json"].dumps.__code__) == ("json/__init__.py", "dumps")


def test_every_counter_of_the_vocabulary_is_known(tmp_path: object) -> None:
    for name in ("python", "cpu_time"):
        assert open_counter(name, str(tmp_path)).name == name
    assert set(COUNTERS) == {"hardware", "simulated", "python", "cpu_time"}
