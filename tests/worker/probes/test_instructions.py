"""The instructions probe with the counters that need nothing installed: what is counted, what is kept, and what is said when nothing can be."""

from __future__ import annotations

import functools
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_steps import TORCH_WARNINGS, Recorder, cautions_in

from torchstone.define.counted import Counted, CountedFunction
from torchstone.worker.probes.counting.counted_work import WARM_UP_ITERATIONS, counting_compiler
from torchstone.worker.probes.instructions import measure_instructions
from torchstone.worker.probes.reply import PhaseClock, Result, Stopped
from torchstone.worker.protocol.jobs import CountPlan
from torchstone.worker.protocol.replies import Measured, MeasuredDetails

pytestmark = TORCH_WARNINGS


def count(counted: Counted, counter: str = "python", **plan: Any) -> Result:  # noqa: ANN401
    result = Result()
    measure_instructions(counted, CountPlan(counter, **plan), PhaseClock(Recorder(), result), result)
    return result


def stopped(counted: Counted, counter: str = "python") -> Stopped:
    with pytest.raises(Stopped) as caught:
        count(counted, counter)
    return caught.value


def adding(times: int) -> Callable[[], Any]:
    def add(x: torch.Tensor) -> torch.Tensor:
        for _ in range(times):
            x = x + 1
        return x

    return lambda: torch.compile(add, backend="eager")(torch.ones(3))


def compiling(times: int = 5) -> CountedFunction:
    return CountedFunction(lambda: (torch.compiler.reset, adding(times)), "adding", counts="compile")


def steps() -> Counted:
    def work() -> None:
        for number in range(100):
            abs(number)

    return CountedFunction(lambda: work, "steps")


def test_all_of_the_work_is_counted_and_every_iteration_kept() -> None:
    result = count(steps(), iterations=4)
    (measurement,) = result.measurements
    assert measurement.metric == "python_calls"
    assert measurement.extra == MeasuredDetails(counter="python")
    assert len(measurement.samples) == 4
    assert len(set(measurement.samples)) == 1  # exact
    assert 100 <= measurement.samples[0] <= 110


@pytest.mark.slow
def test_only_what_the_compiler_does_is_counted_and_more_to_compile_costs_more() -> None:
    few, many = (count(compiling(times)).measurements[0] for times in (5, 50))
    assert few.metric == "compile_time_python_calls"
    assert len(few.samples) == 3
    assert max(few.samples) - min(few.samples) <= 0.001 * min(few.samples)
    assert min(many.samples) > 2 * min(few.samples)


def test_work_beside_the_compiler_is_not_counted() -> None:
    def busy() -> Any:  # noqa: ANN401
        compile_and_add = adding(5)

        def work() -> None:
            compile_and_add()
            for number in range(100_000):
                abs(number)

        return torch.compiler.reset, work

    plain = count(compiling(5)).measurements[0].samples
    beside = count(CountedFunction(busy, "busy", counts="compile")).measurements[0].samples
    assert min(beside) == pytest.approx(min(plain), rel=0.02)


def test_a_compiler_that_has_nothing_to_do_is_an_error_that_says_what_is_missing() -> None:
    never_reset = CountedFunction(lambda: adding(3), "never_reset", counts="compile")
    end = stopped(never_reset)
    assert end.status == "fail_to_run"
    assert "torch.compiler.reset()" in end.message


def test_processor_time_is_a_metric_of_its_own() -> None:
    (measurement,) = count(steps(), "cpu_time").measurements
    assert measurement.metric == "cpu_seconds"
    assert len(measurement.samples) == 5


def test_a_counter_that_this_process_cannot_have_is_not_available() -> None:
    end = stopped(steps(), "simulated")
    assert end.status == "not_available"
    assert "not executed by valgrind" in end.message


def test_a_device_that_is_not_there_is_not_available() -> None:
    end = stopped(CountedFunction(lambda: int, "elsewhere", device="nowhere"))
    assert end.status == "not_available"
    assert "it runs on nowhere" in end.message


def test_a_device_that_torch_was_only_built_for_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def current_accelerator(check_available: bool = False) -> torch.device | None:
        return None if check_available else torch.device("cuda")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", current_accelerator)
    assert stopped(CountedFunction(lambda: int, "it", device="cuda")).status == "not_available"


class Lacking(Counted):
    def missing(self) -> str:
        return "torch is too old"

    def work(self) -> None:
        raise AssertionError("it must not be tried")


def test_what_the_installed_torch_cannot_run_says_why() -> None:
    end = stopped(Lacking())
    assert (end.status, end.message) == ("not_available", "torch is too old")


class Elsewhere(Counted):
    in_children = True

    def work(self) -> None:
        raise AssertionError("it must not be tried")


def test_work_of_other_processes_needs_a_counter_that_sees_them() -> None:
    assert "processes that it starts" in stopped(Elsewhere()).message


class Measuring(Counted):
    """Measures itself."""

    def work(self) -> None:
        self.number = 7

    def measured(self) -> dict[str, float]:
        return {"import_time_us": self.number}


def test_what_work_measures_itself_is_kept_instead_of_a_count() -> None:
    result = count(Measuring(), iterations=2)
    assert result.measurements == [Measured("import_time_us", (7, 7))]


@pytest.mark.slow
def test_the_collector_is_off_while_the_compiler_is_counted_and_on_otherwise() -> None:
    seen: dict[str, set[bool]] = {"all": set(), "compile": set()}

    def noting(counts: str) -> Any:  # noqa: ANN401
        compile_and_add = adding(2)

        def work() -> None:
            seen[counts].add(gc.isenabled())
            compile_and_add()

        return torch.compiler.reset, work

    for counts in seen:
        counted = CountedFunction(functools.partial(noting, counts), "noting", counts=counts)
        count(counted)
    assert False in seen["compile"]
    assert seen["all"] == {True}
    assert gc.isenabled()


def test_failures_end_with_their_phase_and_finish_is_still_called() -> None:
    finished = []

    class Failing(Counted):
        fails_in = "work"
        tries = 0

        def prepare_once(self) -> None:
            if self.fails_in == "prepare_once":
                raise ValueError("no model")

        def work(self) -> None:
            self.tries += 1
            if self.fails_in == "work" or self.tries > WARM_UP_ITERATIONS:
                raise ValueError("no luck")

        def finish(self) -> None:
            finished.append(self.fails_in)

    for fails_in, status, phase in (
        ("prepare_once", "model_fail_to_load", "load"),
        ("work", "warmup_failed", "compile"),
        ("later", "fail_to_run", "run"),
    ):
        result = Result()
        clock = PhaseClock(Recorder(), result)
        clock.enter("load")
        with pytest.raises(Stopped) as caught:
            measure_instructions(Failing(fails_in=fails_in), CountPlan("python"), clock, result)
        assert (caught.value.status, clock.phase) == (status, phase)
    assert finished == ["prepare_once", "work", "later"]


def test_threads_that_are_started_are_cautioned_about() -> None:
    ends = threading.Event()

    def starting() -> Any:  # noqa: ANN401
        return lambda: threading.Thread(target=ends.wait, daemon=True).start()

    result = count(CountedFunction(starting, "starting"))
    ends.set()
    assert cautions_in(result) == ["it started threads, whose work is not counted"]


def test_processes_that_are_started_are_cautioned_about() -> None:
    command = [sys.executable, "-c", "sum(range(1_000_000))"]

    def starting() -> Any:  # noqa: ANN401
        return lambda: subprocess.run(command, check=True)

    result = count(CountedFunction(starting, "starting"), iterations=1)
    assert cautions_in(result) == ["it started processes, whose work is not counted"]
    assert count(steps()).cautions == []


def test_torch_is_left_as_it_was() -> None:
    counter = torch._dynamo.utils.CompileTimeInstructionCounter
    before = counter.__dict__["record"]
    with pytest.raises(ValueError, match="inside"), counting_compiler(lambda: None, lambda: None):
        raise ValueError("inside")
    assert counter.__dict__["record"] is before


def test_a_profile_adds_up_and_names_phases_functions_and_stacks() -> None:
    profile = count(compiling(20), profile=True).details.profile
    assert profile is not None
    assert (profile["counter"], profile["unit"]) == ("python", "calls")
    assert sum(profile["phases"].values()) == profile["total"]
    assert set(profile["phases"]) >= {"dynamo", "guards"}
    of_phase = dict.fromkeys(profile["phases"], 0)
    for phase, _, _, amount in profile["functions"]:
        of_phase[phase] += amount
    assert of_phase == profile["phases"]
    stacks = profile["stacks"]
    assert total_of(stacks["tree"]) == stacks["total"]
    assert stacks["total"] == pytest.approx(profile["total"], rel=0.02)


def total_of(node: list[Any]) -> int:
    _, own, below = node
    return int(own) + sum(map(total_of, below))


@pytest.mark.slow
def test_a_profile_of_training_names_aot_autograd_and_the_partitioner() -> None:
    def build() -> Any:  # noqa: ANN401
        weight = torch.ones(4, 4, requires_grad=True)
        function = torch.compile(lambda x: torch.sin(x @ weight).sum(), backend="aot_eager_decomp_partition")
        return torch.compiler.reset, lambda: function(torch.ones(4, 4))

    profile = count(CountedFunction(build, "training", counts="compile"), profile=True).details.profile
    assert profile is not None
    assert set(profile["phases"]) >= {"dynamo", "guards", "aot_autograd", "partitioner"}
