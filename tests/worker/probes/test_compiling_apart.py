"""A worker that shares its device asks before it uses it, and leaves it to others while it compiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from probe_steps import Recorder, linear
from torch import Tensor, nn

from torchstone.define.benchmarks import Benchmark
from torchstone.worker.probes.compiler import compiling_apart
from torchstone.worker.probes.compiler.compiling_apart import CompilingApart, watch_compiler
from torchstone.worker.probes.reply import PhaseClock, Result
from torchstone.worker.probes.run_case import run_case
from torchstone.worker.protocol.jobs import CaseAxes, MeasureJob, MeasureOptions
from torchstone.worker.protocol.source_message import SourceMessage

WAIT, RELEASE = "wait for device", "release device"


@pytest.fixture(autouse=True)
def _nobody_watches_later() -> Any:  # noqa: ANN401  (a generator)
    yield
    compiling_apart._current.clear()
    torch._dynamo.reset()


def sharing(probe: str = "performance") -> tuple[Recorder, Result]:
    torch.set_num_threads(1)
    recorder, result = Recorder(), Result()
    clock = PhaseClock(recorder, result, shares_device=True)
    job = MeasureJob(
        SourceMessage(),
        "it",
        probe,
        CaseAxes("cpu", "eager", "inference", "float32"),
        options=MeasureOptions(repeat=3),
    )
    clock.enter("load")
    run_case(Benchmark("it", linear), job, clock, result)
    clock.leave()
    return recorder, result


def uses_of(heard: list[str]) -> list[str]:
    """What was heard, without phases."""
    return [each for each in heard if each in {WAIT, RELEASE, "wait", "end"}]


@pytest.mark.parametrize("probe", ["performance", "accuracy"])
def test_every_use_of_the_device_is_asked_for_and_ended(probe: str) -> None:
    recorder, result = sharing(probe=probe)
    assert result.status == "pass"
    heard = uses_of(recorder.heard)
    assert heard[0::2] == [WAIT if each == RELEASE else "wait" for each in heard[1::2]]
    assert heard.count(WAIT) == heard.count(RELEASE) > 2


def test_the_device_is_free_while_the_model_is_compiled_and_asked_for_to_run_it() -> None:
    heard: list[str] = []

    def compile_graph(graph: torch.fx.GraphModule, _inputs: list[Tensor]) -> Any:  # noqa: ANN401  (a compiled graph)
        heard.append("compiled after " + uses_of(recorder.heard)[-1])

        def run(*args: Any) -> Any:  # noqa: ANN401  (as above)
            heard.append("called after " + uses_of(recorder.heard)[-1])
            return graph(*args)

        return run

    recorder = Recorder()
    clock = PhaseClock(recorder, Result(), shares_device=True)
    clock.enter("compile")
    torch._dynamo.reset()
    watch_compiler(clock)
    with clock.using_device(), torch.no_grad():
        torch.compile(nn.Linear(4, 3), backend=compile_graph)(torch.randn(2, 4))
    assert heard == [f"compiled after {RELEASE}", f"called after {WAIT}"]
    assert uses_of(recorder.heard) == [WAIT, RELEASE, WAIT, RELEASE]


def test_the_turn_to_time_is_asked_for_without_holding_the_device() -> None:
    recorder, _ = sharing()
    heard = uses_of(recorder.heard)
    turn = heard.index("wait")
    assert heard[turn - 1] == RELEASE
    assert heard[turn + 1] == "end"


def test_compiling_while_timed_keeps_the_turn() -> None:
    recorder = Recorder()
    clock = PhaseClock(recorder, Result(), shares_device=True)
    clock.enter("run")
    apart = CompilingApart(clock)
    with clock.turn():
        apart.begin()
        apart.end()
    assert uses_of(recorder.heard) == ["wait", "end"]


def test_a_device_that_is_not_shared_is_not_asked_for() -> None:
    recorder = Recorder()
    clock = PhaseClock(recorder, Result())
    clock.enter("load")
    assert watch_compiler(clock) is None
    with clock.using_device():
        pass
    assert uses_of(recorder.heard) == []


class SlowDevice(Recorder):
    """Every wait for the device takes ten seconds."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__()
        self._clock = clock

    def wait_for_device(self) -> None:
        super().wait_for_device()
        self._clock[0] += 10


def test_waiting_for_the_device_counts_as_neither_phase_nor_compile_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("torchstone.worker.probes.reply.monotonic", lambda: now[0])
    result = Result()
    clock = PhaseClock(SlowDevice(now), result, shares_device=True)
    clock.enter("compile")
    apart = CompilingApart(clock)
    now[0] += 1
    with clock.using_device():
        apart.begin()
        assert apart.benchmark(lambda: "fastest") == "fastest"
        apart.end()
    clock.leave()
    assert result.details.phases == {"compile": 1}
    assert clock.waited == 30
    assert apart.waited == 10


def test_the_benchmarks_of_the_compiler_ask_for_the_device() -> None:
    from torch._inductor.runtime.benchmarking import Benchmarker  # noqa: PLC0415  (loads the compiler)

    recorder = Recorder()
    clock = PhaseClock(recorder, Result(), shares_device=True)
    clock.enter("compile")
    watch_compiler(clock)
    with pytest.raises(NotImplementedError):
        Benchmarker().benchmark_gpu(lambda: None)
    assert uses_of(recorder.heard) == [WAIT, RELEASE]


def test_a_torch_without_callbacks_keeps_the_device_while_it_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiling_apart, "_compile_events", lambda: None)
    recorder, result = sharing()
    assert result.status == "pass"
    assert (
        uses_of(recorder.heard).count(WAIT) == 4
    )  # to choose the device, to build, to run eagerly, and compiled
