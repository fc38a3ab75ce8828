"""Metrics that a benchmark reports itself, measured with the real compiler: which calls count, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from probe_steps import TORCH_WARNINGS, Ended, Recorder, linear, measure
from torch import Tensor, nn

import torchstone
from torchstone.define import custom_metrics
from torchstone.define.counted import CountedFunction
from torchstone.worker.probes import timing
from torchstone.worker.probes.instructions import measure_instructions
from torchstone.worker.probes.reply import PhaseClock, Result
from torchstone.worker.probes.reported_metrics import MetricCollector
from torchstone.worker.protocol.jobs import CountPlan

pytestmark = TORCH_WARNINGS
PAIRS = 3


@pytest.fixture(autouse=True)
def _nothing_left_over() -> Iterator[None]:
    yield
    assert not custom_metrics._recording
    assert not custom_metrics.take_reports()


class Reporting(nn.Module):
    """A model that reports a constant and a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear(x)
        torchstone.metric("rows", x.shape[0], better="higher", unit="rows")
        torchstone.metric("largest", result.max(), better="equal")
        return result


class CountingCalls(nn.Module):
    """A model that reports how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        torchstone.metric("calls", self.calls, better="lower")
        return x + 1


def reporting() -> Any:  # noqa: ANN401  (a model and its inputs)
    return Reporting(), (torch.randn(8, 4),)


def calling(report: Callable[[], None]) -> Callable[[], Any]:
    """A builder of a model that makes this call, which the compiler leaves alone."""

    def model(x: Tensor) -> Tensor:
        report()
        return x + 1

    return lambda: (model, (torch.ones(3),))


def perform(build: Callable[..., Any], **axes: Any) -> Ended:  # noqa: ANN401  (axes differ in type)
    ended = measure(build, "performance", settings={"repeat": PAIRS}, **axes)
    assert (ended.status, ended.error) == ("pass", None)
    return ended


def refused(build: Callable[..., Any], **axes: Any) -> str:  # noqa: ANN401  (axes differ in type)
    """Return why the case fails; it must be because of its metrics."""
    ended = measure(build, "performance", settings={"repeat": PAIRS}, **axes)
    assert ended.status in {"warmup_failed", "fail_to_run"}
    assert isinstance(ended.error, custom_metrics.MetricError)
    return str(ended.error)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_compiled_calls_report_without_a_graph_break_or_a_recompile(backend: str, mode: str) -> None:
    ended = perform(reporting, backend=backend, mode=mode, fullgraph=True)
    assert ended.samples("rows") == (8,) * PAIRS
    assert len(ended.samples("largest")) == PAIRS
    assert (ended.value("graph_breaks"), ended.value("recompiles")) == (0, 0)
    assert ended.extra_of("rows") == {"better": "higher", "unit": "rows", "reported": "call"}
    assert ended.extra_of("largest") == {"better": "equal", "reported": "call"}


def test_the_model_is_captured_as_without_reports() -> None:
    def report_a_constant() -> None:
        torchstone.metric("size", 3, better="equal")

    silent, loud = perform(calling(lambda: None)), perform(calling(report_a_constant))
    for count in ("calls_captured", "unique_graphs", "graph_breaks", "recompiles"):
        assert loud.value(count) == silent.value(count)


def test_neither_the_warm_up_nor_the_choice_of_blocks_counts() -> None:
    ended = perform(lambda: (CountingCalls(), (torch.ones(3),)))
    assert (
        min(ended.samples("calls")) > 10
    )  # five warm-up calls of each side, and those that choose the blocks
    assert list(ended.samples("calls")) == sorted(ended.samples("calls"))


def test_a_metric_of_the_warm_up_alone_is_not_measured() -> None:
    reported: list[int] = []

    def report_once() -> None:
        if not reported:
            torchstone.metric("first", 1, better="lower")
        reported.append(1)

    left_alone: Any = torch.compiler.disable(report_once)  # type: ignore[no-untyped-call]
    ended = perform(calling(left_alone))
    assert "first" not in ended.metrics
    caution = "first was reported during the warm-up only, which does not count; report it in every call"
    assert caution in ended.cautions


def test_a_number_of_the_build_is_one_sample() -> None:
    def build() -> Any:  # noqa: ANN401
        torchstone.metric("parameters", 15, better="equal")
        return linear()

    ended = perform(build)
    assert ended.samples("parameters") == (15,)
    assert ended.extra_of("parameters") == {"better": "equal", "reported": "build"}


def test_calls_replace_what_the_build_reported() -> None:
    def build() -> Any:  # noqa: ANN401
        model, args = reporting()
        model(*args)
        return model, args

    ended = perform(build)
    assert len(ended.samples("rows")) == PAIRS
    assert ended.extra_of("rows")["reported"] == "call"


def test_a_function_turns_results_and_times_into_metrics() -> None:
    def metrics(result: Tensor, seconds: float) -> dict[str, tuple[float, str, str]]:
        torchstone.metric("rows", len(result), better="equal")
        return {"rows_per_second": (len(result) / seconds, "higher", "1/s")}

    ended = perform(linear, metrics=metrics)
    times = ended.samples("abs_latency")
    assert ended.samples("rows_per_second") == pytest.approx([8 / (each / 1000) for each in times])
    assert ended.samples("rows") == (8,) * PAIRS
    assert ended.extra_of("rows_per_second") == {"better": "higher", "unit": "1/s", "reported": "result"}


def test_a_function_of_the_result_alone_gets_nothing_else() -> None:
    ended = perform(linear, metrics=lambda result: {"total": (result.sum(), "equal")})
    assert len(set(ended.samples("total"))) == 1


def test_samples_of_blocks_that_were_too_short_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    too_short = iter([True])
    monkeypatch.setattr(timing.Pairs, "are_too_short", lambda _: next(too_short, False))
    assert len(perform(reporting).samples("rows")) == PAIRS


def test_a_block_of_several_calls_is_one_sample_their_mean() -> None:
    collector = MetricCollector()
    with collector.recording():
        values = iter([1, 2, 6])
        call = collector.watch(lambda: torchstone.metric("n", next(values), better="lower"))
        for _ in range(3):
            call()
        collector.end_block(1.0)
    result = Result()
    collector.add_to(result)
    assert [each.samples for each in result.measurements] == [(3.0,)]


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (("speedup", 1.0, "higher", ""), "torchstone has a metric of this name"),
        (("dynamo_compilation_latency", 1.0, "lower", ""), "torchstone has a metric of this name"),
        (("batch_size", 1.0, "lower", ""), "a column of this name"),
        (("tokens per second", 1.0, "higher", ""), "expected a name of at most 60 letters"),
        (("a:b", 1.0, "higher", ""), "expected a name"),
        (("x" * 61, 1.0, "higher", ""), "expected a name"),
        ((3, 1.0, "higher", ""), "expected a name"),
        (("m", math.nan, "higher", ""), "expected a finite number, found nan"),
        (("m", math.inf, "higher", ""), "expected a finite number, found inf"),
        (("m", 10**400, "higher", ""), "expected a finite number"),
        (("m", "12", "higher", ""), "expected a number, found '12'"),
        (("m", True, "higher", ""), "expected a number, found True"),
        (("m", None, "higher", ""), "expected a number, found None"),
        (("m", torch.ones(3), "higher", ""), "expected one number, found a Tensor"),
        (("m", 1.0, "bigger", ""), "better='bigger': expected 'higher', 'lower' or 'equal'"),
        (("m", 1.0, "higher", "a\nb"), "expected a text on one line"),
        (("m", 1.0, "higher", 7), "unit=7: expected a text"),
    ],
)
def test_an_invalid_report_fails_the_case_and_says_why(
    report: tuple[Any, Any, Any, Any], message: str
) -> None:
    name, value, better, unit = report
    assert message in refused(
        lambda: (torch.relu, (torch.ones(2),)), metrics=lambda _: {name: (value, better, unit)}
    )


def test_an_invalid_report_of_the_model_fails_its_first_call() -> None:
    build = calling(lambda: torchstone.metric("speedup", 2, better="higher"))
    assert "torchstone has a metric of this name" in refused(build)


def test_a_metric_has_one_definition() -> None:
    def two_units(_: Tensor) -> None:
        torchstone.metric("m", 1, better="lower", unit="s")
        torchstone.metric("m", 1, better="lower", unit="ms")

    def two_directions(_: Tensor) -> None:
        torchstone.metric("m", 1, better="lower")
        torchstone.metric("m", 1, better="higher")

    assert "unit='ms', but it was 's' before" in refused(linear, metrics=two_units)
    assert "better='higher', but it was 'lower' before" in refused(linear, metrics=two_directions)


def test_thousands_of_names_are_refused() -> None:
    many = {f"m{number}": (number, "lower") for number in range(5000)}
    assert "more than 100 metrics of its own" in refused(linear, metrics=lambda _: many)


@pytest.mark.parametrize("returned", [3, ["tokens"], {"m": 3}, {"m": (1,)}])
def test_a_function_that_returns_something_else_fails_the_case(returned: object) -> None:
    assert "metrics=" in refused(linear, metrics=lambda _: returned)


def test_outside_a_measurement_it_does_nothing_eager_or_compiled() -> None:
    model, args = reporting()
    torchstone.metric("speedup", None, better="sideways")  # type: ignore[arg-type]
    compiled: Any = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.equal(model(*args), compiled(*args))
    assert custom_metrics.take_reports() == []


def test_other_probes_of_a_model_keep_none() -> None:
    ended = measure(reporting, "accuracy")
    assert ended.status == "pass"
    assert "rows" not in ended.metrics
    assert ended.value("recompiles") == 0


def test_counted_work_reports_once_for_each_counted_iteration() -> None:
    numbers = iter(range(100))
    work = CountedFunction(lambda: lambda: torchstone.metric("n", next(numbers), better="lower"), "work")
    result, collector = Result(), MetricCollector()
    with collector.recording():
        measure_instructions(
            work, CountPlan("python", iterations=4), PhaseClock(Recorder(), result), result, collector
        )
    counted, own = sorted(result.measurements, key=lambda each: each.metric != "python_calls")
    assert counted.metric == "python_calls"
    first = own.samples[0]
    assert first > 0  # the warm-up reported before
    assert own.samples == tuple(first + number for number in range(4))
