"""Where the time of a call goes: what a worker records of both sides, and how it finds the lines of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from probe_steps import TORCH_WARNINGS, Ended, measure, only
from torch import Tensor, nn

from torchstone.worker.probes.time_profile import taking
from torchstone.worker.probes.time_profile.folding import MOST_INTERVALS, MOST_KERNELS, sum_up
from torchstone.worker.probes.time_profile.generated_code import (
    KernelCall,
    naming_native_kernels,
    read_wrapper,
)
from torchstone.worker.probes.time_profile.graph_nodes import NodePlace, kernel_origins
from torchstone.worker.probes.time_profile.origins import LaunchOrigin, generalise
from torchstone.worker.probes.time_profile.recorded_call import HostOperator, ProfilerError, Recording
from torchstone.worker.probes.time_profile.source_places import innermost_place, is_of_user, shorten
from torchstone.worker.probes.time_profile.work_of_call import (
    WorkSpan,
    assign_origins,
    least_disturbed,
    list_work,
)

pytestmark = TORCH_WARNINGS

WRAPPER = """
        # Topologically Sorted Source Nodes: [linear, gelu], Original ATen: [aten.addmm, aten.gelu]
        stream0 = get_raw_stream(0)
        triton_poi_fused_addmm_gelu_0.run(buf1, arg1_1, 4096, stream=stream0)
        # Topologically Sorted Source Nodes: [linear_1], Original ATen: [aten.addmm]
        extern_kernels.addmm(arg1_1, buf1, arg0_1, alpha=1, beta=1, out=buf2)
        cpp_fused_relu_1(buf2)
        # Unsorted Source Nodes: [out], Original ATen: []
        buf5 = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(buf2, buf3, buf4)
"""


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 16)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.relu(self.project(inputs))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs


class TwoLines(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 16)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.first(inputs))
        return torch.relu(self.second(hidden))


def two_lines() -> Any:  # noqa: ANN401
    return TwoLines(), (torch.randn(4, 16),)


def network() -> Any:  # noqa: ANN401
    return Network(), (torch.randn(4, 16),)


def profiled(**axes: Any) -> Ended:  # noqa: ANN401
    return measure(network, "performance", settings={"repeat": 3, "profile": True}, **axes)


# A real call


def test_both_sides_of_a_call_have_operators_with_module_and_line() -> None:
    ended = profiled()
    found = ended.details["time_profile"]
    assert (ended.status, found["device"], found["model_dtype"]) == ("pass", "cpu", "float32")
    for side in ("eager", "compiled"):
        rows = found[side]["kernels"]
        products = [row for row in rows if row["name"] == "aten::addmm"]
        assert [(row["family"], row["count"], row["dtype"]) for row in products] == [
            ("matrix products", 2, "float32")
        ]
        assert found[side]["busy"] == pytest.approx(sum(row["milliseconds"] for row in rows), rel=0.01)
        assert found[side]["wall"] > 0
        assert len(found[side]["timeline"]) == found[side]["launches"]
    (product,) = (row for row in found["eager"]["kernels"] if row["name"] == "aten::addmm")
    assert product["module"] == "layers.*.project"
    assert Path(product["place"].rpartition(":")[0]).name == "test_time_profile.py"
    assert product["source"] == "return torch.relu(self.project(inputs))"


def test_what_was_compiled_earlier_in_the_process_hides_no_line() -> None:
    torch.compile(nn.Linear(8, 8))(torch.randn(2, 8))  # as a zygote does, to warm the compiler up
    ended = measure(two_lines, "performance", settings={"repeat": 3, "profile": True}, backend="inductor")
    rows = ended.details["time_profile"]["compiled"]["kernels"]
    products = [row for row in rows if row["name"] == "aten::addmm"]
    assert {row["module"]: row["source"] for row in products} == {
        "first": "hidden = torch.relu(self.first(inputs))",
        "second": "return torch.relu(self.second(hidden))",
    }


def test_the_wrappers_of_compiled_code_are_not_at_the_line_where_the_function_begins() -> None:
    rows = profiled(backend="inductor").details["time_profile"]["compiled"]["kernels"]
    (graph,) = (row for row in rows if row["name"] == "CompiledFxGraph")
    assert (graph["module"], graph.get("place", "")) == ("Network", "")


def test_what_a_compiled_function_does_is_not_at_the_line_where_it_begins() -> None:
    ended = measure(two_lines, "performance", settings={"repeat": 3, "profile": True}, backend="eager")
    rows = ended.details["time_profile"]["compiled"]["kernels"]
    (product,) = (row for row in rows if row["name"] == "aten::addmm")
    assert (product["count"], product.get("place", "")) == (2, "")


def test_the_profile_is_taken_after_timing_in_a_phase_of_its_own() -> None:
    ended = profiled()
    phases = [phase for phase in ended.heard if phase not in {"wait", "end"}]
    assert phases[-1] == "profile"
    assert ended.heard.index("profile") > ended.heard.index("run")
    assert ended.heard[-1] == "end"  # it has the device to itself


def test_without_the_option_nothing_is_profiled() -> None:
    ended = measure(network, "performance", settings={"repeat": 3})
    assert "time_profile" not in ended.details or ended.details["time_profile"] is None
    assert "profile" not in ended.heard


def test_nothing_compiled_has_one_side() -> None:
    found = profiled(backend="none").details["time_profile"]
    assert (bool(found["eager"]), found["compiled"]) == (True, None)


def test_training_is_profiled_with_its_backward_pass() -> None:
    rows = profiled(mode="training").details["time_profile"]["eager"]["kernels"]
    assert any(row["name"] == "aten::mm" for row in rows)


def test_a_profiler_that_fails_is_a_caution_and_the_times_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Recording:
        raise ProfilerError("this torch was built without its profiler (kineto)")

    monkeypatch.setattr(taking, "record_call", fail)
    ended = profiled()
    assert ended.status == "pass"
    assert "speedup" in ended.metrics
    assert any(
        "the time profile was not taken" in caution and "kineto" in caution for caution in ended.cautions
    )


def test_a_profiler_without_events_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "record_call", lambda *_, **__: Recording(1_000, (), (), ()))
    ended = profiled()
    assert (
        ended.details["time_profile"]["eager"]["problem"]
        == "torch's profiler returned no operators of the call"
    )
    assert any("returned no operators" in caution for caution in ended.cautions)


def test_a_model_that_cannot_be_traced_again_still_has_a_profile() -> None:
    calls = []

    def once(inputs: Tensor) -> Tensor:
        calls.append(1)
        return inputs + len(calls)

    ended = measure(only(once, torch.randn(4)), "performance", settings={"repeat": 3, "profile": True})
    assert ended.details["time_profile"]["compiled"]["launches"] > 0


# Work


def operator(name: str, start: int, end: int, thread: int = 1, correlation: int = 0) -> HostOperator:
    return HostOperator(name, start, end, thread, correlation, "")


def test_an_operator_has_the_time_that_none_inside_it_has() -> None:
    host = (
        operator("aten::linear", 0, 100),
        operator("aten::addmm", 10, 90),
        operator("aten::copy_", 20, 50),
        operator("aten::relu", 100, 110),
        operator("aten::mm", 0, 40, thread=2),
    )
    found = list_work(Recording(110, host, ()), on_cpu=True)
    assert [(each.name, each.own, each.stream, each.wraps) for each in found] == [
        ("aten::linear", 20, 0, True),  # hands its work to addmm
        ("aten::addmm", 50, 0, False),
        ("aten::copy_", 30, 0, False),
        ("aten::relu", 10, 0, False),
        ("aten::mm", 40, 1, False),
    ]


def span(name: str, own: int, operator: int = 0, start: int = 0) -> WorkSpan:
    return WorkSpan(name, start, start + own, 0, own, operator)


def test_the_shortest_time_of_each_operator_counts_if_all_calls_did_the_same() -> None:
    calls = [[span("a", 5), span("b", 9)], [span("a", 7), span("b", 3)]]
    assert [each.own for each in least_disturbed(calls)] == [5, 3]
    assert [each.own for each in least_disturbed([*calls, [span("c", 11)]])] == [7, 3]


def test_the_nth_launch_of_a_kernel_comes_from_the_nth_place() -> None:
    work = [span("gemm", 1), span("softmax", 1), span("gemm", 1)]
    known = [span("gemm", 9, 1), span("softmax", 9, 2), span("gemm", 9, 3)]
    origins = {number: LaunchOrigin(place=f"model.py:{number}") for number in (1, 2, 3)}
    found = assign_origins(work, known, origins, {})
    assert [each.place for each in found] == ["model.py:1", "model.py:2", "model.py:3"]


def test_launches_that_cannot_be_told_apart_have_no_place() -> None:
    found = assign_origins([span("gemm", 1)], [span("gemm", 1, 1)] * 2, {1: LaunchOrigin(place="x.py:1")}, {})
    assert found == [LaunchOrigin()]


def test_two_kernels_of_one_operator_are_one_call_of_the_generated_code() -> None:
    known = [span("gemm", 1, 1), span("splitk", 1, 1), span("gemm", 1, 2), span("splitk", 1, 2)]
    origins = {1: LaunchOrigin("aten::addmm"), 2: LaunchOrigin("aten::addmm")}
    stated = {"aten::addmm": [LaunchOrigin(place="a.py:1"), LaunchOrigin(place="a.py:2")]}
    found = assign_origins(known, known, origins, stated)
    assert [each.place for each in found] == ["a.py:1", "a.py:1", "a.py:2", "a.py:2"]


def test_what_is_recorded_is_bounded_and_adds_up() -> None:
    work = [span(f"kernel_{number}", 1000 + number, start=number * 10_000) for number in range(5_000)]
    found = sum_up(work, [LaunchOrigin()] * len(work), 10**9, on_cpu=False)
    assert len(found.kernels) == MOST_KERNELS + 1  # and the rest of its family
    assert (found.folded, len(found.timeline)) == (5_000 - MOST_KERNELS, MOST_INTERVALS)
    assert sum(row.count for row in found.kernels) == found.launches == 5_000
    assert sum(row.milliseconds for row in found.kernels) == pytest.approx(found.busy)


def test_streams_that_overlap_are_busy_once() -> None:
    work = [WorkSpan("a", 0, 1_000_000, 1, 1_000_000, 0), WorkSpan("b", 500_000, 1_500_000, 2, 1_000_000, 0)]
    found = sum_up(work, [LaunchOrigin()] * 2, 2_000_000, on_cpu=False)
    assert (found.busy, found.wall) == (1.5, 2.0)


# Generated code


def test_wrapper_code_says_which_nodes_a_kernel_computes() -> None:
    assert read_wrapper(WRAPPER) == [
        KernelCall("triton_poi_fused_addmm_gelu_0", False, ("linear", "gelu"), "aten.addmm, aten.gelu"),
        KernelCall("addmm", True, ("linear_1",), "aten.addmm"),
        KernelCall("cpp_fused_relu_1", False, (), ""),
        KernelCall("_scaled_dot_product_flash_attention_for_cpu", True, ("out",), ""),
    ]


def test_a_kernel_comes_from_the_latest_node_that_it_computes() -> None:
    nodes = {
        "linear": NodePlace("linear", "layers.*.first", "m.py:1"),
        "gelu": NodePlace("gelu", "layers.*", "m.py:2"),
        "linear_1": NodePlace("linear", "layers.*.second", "m.py:3"),
        "relu": NodePlace("relu", "layers.*", "m.py:4"),
        "out": NodePlace("scaled_dot_product_attention", "attention", "m.py:5"),
    }
    found = kernel_origins(read_wrapper(WRAPPER), nodes)
    assert {name: [each.place for each in origins] for name, origins in found.items()} == {
        "triton_poi_fused_addmm_gelu_0": ["m.py:2"],
        "aten::addmm": ["m.py:3"],
        "cpp_fused_relu_1": ["m.py:4"],  # its code does not say: between its neighbours, and of this name
        "aten::_scaled_dot_product_flash_attention_for_cpu": ["m.py:5"],
    }


def test_native_kernels_have_their_name_only_while_recording() -> None:
    module = type(torch)("generated")
    kernel = vars(module)["cpp_fused_relu_0"] = lambda value: value + 1
    with naming_native_kernels([module]):
        assert vars(module)["cpp_fused_relu_0"] is not kernel
        assert vars(module)["cpp_fused_relu_0"](1) == 2
    assert vars(module)["cpp_fused_relu_0"] is kernel


# Places


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("L['self'].encoder.layer[3].attention", "encoder.layer.*.attention"),
        ("encoder.layer.11.output.dense", "encoder.layer.*.output.dense"),
        ("L['self']", ""),
        ("0.weight", "*.weight"),
        ("conv2d_1", "conv2d_1"),
    ],
)
def test_layers_of_one_kind_are_one_module(path: str, expected: str) -> None:
    assert generalise(path) == expected


def test_code_of_torch_python_and_the_compiler_is_not_the_models() -> None:
    assert is_of_user(shorten(__file__))
    assert not is_of_user(shorten(torch.nn.functional.__file__))
    assert not is_of_user("contextlib.py")
    assert not is_of_user("/cache/torchinductor_me/ab/cabc.py")
    assert not is_of_user("<string>")


def test_the_innermost_line_of_the_model_is_the_place() -> None:
    stack = (
        f'File "{__file__}", line 1, in forward\n  x\n'
        f'File "{torch.nn.functional.__file__}", line 9, in linear\n  y\n'
    )
    assert innermost_place(stack) == f"{shorten(__file__)}:1"
    assert innermost_place("") == ""
