"""Measure a benchmark in this process, as a worker would, with a reporter that only remembers; and backends that do wrong on purpose."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import register_backend

from torchstone.define.benchmarks import Benchmark, Check
from torchstone.measure.worker_messages import caution_of
from torchstone.worker.probes import accuracy
from torchstone.worker.probes.reply import PhaseClock, Result, Stopped
from torchstone.worker.probes.run_case import run_case
from torchstone.worker.protocol.codec import to_json
from torchstone.worker.protocol.jobs import CaseAxes, MeasureJob, MeasureOptions
from torchstone.worker.protocol.source_message import SourceMessage

TORCH_WARNINGS = [
    # torch itself still uses what torch has deprecated.
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    # The compiler looks at every tensor's gradient, and itself hides what torch says to that.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    pytest.mark.usefixtures("quiet_machine"),
]
"""For ``pytestmark``: warnings that are none of our business, and other work that is none either."""

QUICK = {"repeat": 3}
Graph = torch.fx.GraphModule
Compiled = Callable[..., Any]


@dataclass
class Recorder:
    """The way to the parent, with nobody at the other end."""

    heard: list[str] = field(default_factory=list)

    def enter(self, phase: str) -> None:
        self.heard.append(phase)

    def wait_for_turn(self) -> None:
        self.heard.append("wait")

    def end_turn(self) -> None:
        self.heard.append("end")

    def wait_for_device(self) -> None:
        self.heard.append("wait for device")

    def release_device(self) -> None:
        self.heard.append("release device")


def cautions_in(result: Result) -> list[str]:
    """What a worker's cautions say, as the parent shows them."""
    return [caution_of(message).text for message in result.cautions]


@dataclass
class Ended:
    """How a case ended."""

    status: str
    message: str
    error: BaseException | None
    result: Result
    heard: list[str]

    @property
    def cautions(self) -> list[str]:
        return cautions_in(self.result)

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = self.details["accuracy"]
        return found

    @property
    def details(self) -> dict[str, Any]:
        return to_json(self.result.details)

    @property
    def metrics(self) -> list[str]:
        return [each.metric for each in self.result.measurements]

    def samples(self, metric: str) -> tuple[float, ...]:
        return next(each.samples for each in self.result.measurements if each.metric == metric)

    def value(self, metric: str) -> float:
        (value,) = self.samples(metric)
        return value

    def extra_of(self, metric: str) -> dict[str, Any]:
        found = next(each.extra for each in self.result.measurements if each.metric == metric)
        return to_json(found) if found else {}


def measure(
    build: Callable[..., Any],
    probe: str = "accuracy",
    *,
    check: Check | None = None,
    metrics: Callable[..., Any] | None = None,
    settings: dict[str, Any] | None = None,
    identity: dict[str, str] | None = None,
    **variant: Any,  # noqa: ANN401  (axes differ in type)
) -> Ended:
    """Measure one case; an error that no probe has turned into a status is raised."""
    torch.set_num_threads(1)
    torch.compiler.reset()
    recorder, result = Recorder(), Result()
    clock = PhaseClock(recorder, result)
    axes = {"device": "cpu", "backend": "eager", "mode": "inference", "dtype": "float32"} | variant
    options = MeasureOptions(**(settings or QUICK))
    start, cache = ((identity or {}).get(name, "") for name in ("start", "cache"))
    job = MeasureJob(
        SourceMessage(), "it", probe, CaseAxes(**axes), options=options, start=start, cache=cache
    )
    rule = (lambda *_: check) if check else None
    ended = Ended("", "", None, result, recorder.heard)
    try:
        run_case(Benchmark("it", build, check=rule, metrics=metrics), job, clock, result)
        ended.status, ended.message = result.status, result.message
    except Stopped as stop:
        ended.status, ended.message, ended.error = stop.status, stop.message, stop.error
    clock.leave()
    return ended


def linear() -> tuple[nn.Module, tuple[Tensor]]:
    """The smallest model there is, with inputs for it."""
    return nn.Linear(4, 3), (torch.randn(8, 4),)


def only(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[], Any]:  # noqa: ANN401  (any inputs)
    """A builder that returns these; every run then uses the same model."""
    return lambda: (model, args, kwargs)


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which no compiler may look into."""
    left_out: Callable[..., Any] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return left_out


def changing(change: Callable[[Tensor], Any]) -> Callable[[Graph, list[Tensor]], Compiled]:
    """A backend whose graphs return something else than they should: every floating-point output changed."""

    def compile_graph(graph: Graph, inputs: list[Tensor]) -> Compiled:
        def run(*args: Any) -> Any:  # noqa: ANN401  (whatever the graph takes and returns)
            return tuple(
                change(each) if isinstance(each, Tensor) and each.is_floating_point() else each
                for each in graph(*args)
            )

        return run

    return compile_graph


def raising(error: Callable[[], BaseException]) -> Callable[[Graph, list[Tensor]], Compiled]:
    """A backend that compiles, and fails when what it made is called."""

    def compile_graph(graph: Graph, inputs: list[Tensor]) -> Compiled:
        def run(*args: Any) -> Any:  # noqa: ANN401
            raise error()

        return run

    return compile_graph


def refusing(error: Callable[[], BaseException]) -> Callable[[Graph, list[Tensor]], Compiled]:
    """A backend that fails to compile."""

    def compile_graph(graph: Graph, inputs: list[Tensor]) -> Compiled:
        raise error()

    return compile_graph


def no_memory() -> RuntimeError:
    """What torch raises when the machine itself is out of memory."""
    return RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)"
    )


class Wrong(torch.autograd.Function):
    """Nothing forward, one and a half times too much backward."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:  # noqa: ANN401
        return x.clone()

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> Tensor:  # noqa: ANN401
        return gradients[0] * 1.5


def wrong_gradients(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    """A backend with right results and gradients that are off by half."""
    turn: Callable[[Tensor], Tensor] = Wrong.apply

    def run(*args: Any) -> Any:  # noqa: ANN401
        return tuple(turn(each) if each.requires_grad else each for each in graph(*args))

    return run


def passes(build: Callable[..., Any], **axes: Any) -> Ended:  # noqa: ANN401  (axes differ in type)
    """Measured, passed, with a float64 reference, and without a caution."""
    ended = measure(build, **axes)
    assert (ended.status, ended.message, ended.error) == ("pass", "", None)
    assert ended.told["reference"] == "float64"
    assert ended.cautions == []
    return ended


def trained_values(build: Callable[..., Any], check: Check | None = None, **axes: Any) -> dict[str, Any]:  # noqa: ANN401
    """What training compares of a model, by name."""
    kept: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        judge = accuracy._judge

        def keep_and_judge(comparison: Any, eager: dict[str, Any], *others: Any) -> None:  # noqa: ANN401
            kept.append(eager)
            judge(comparison, eager, *others)

        patch.setattr(accuracy, "_judge", keep_and_judge)
        assert measure(build, mode="training", check=check, **axes).status == "pass"
    return kept[0]


class ModelOutput(OrderedDict[str, Any]):
    """As transformers has them: a dict whose values are attributes too, and torch does not know how to take it apart."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name in self:
            return self[name]
        raise AttributeError(name)


register_backend(changing(lambda tensor: tensor + 1), "wrong_by_one")
register_backend(refusing(lambda: RuntimeError("cannot compile")), "refusing")
