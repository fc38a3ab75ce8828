"""Torch's timers lie within one another; the phases made of them do not overlap, and add up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo import utils

from torchstone.worker.probes.compiler.compile_phases import read_phases

NAMES = {
    "frame": "_compile.compile_inner",
    "backward": "backward._backward_impl",
    "guards": "build_guards",
    "backend": "OutputGraph.call_user_compiler",
    "inductor": "compile_fx_inner",
    "module": "GraphLowering.compile_to_module",
    "native": "PyCodeCache.load_by_key_path",
    "loading": "AOTAutogradCache.inductor_load",
}


@pytest.fixture(autouse=True)
def timers() -> Iterator[None]:
    forget()
    yield
    forget()


def forget() -> None:
    utils.compilation_time_metrics.clear()
    utils.counters.clear()


def phases(**seconds: float | list[float]) -> dict[str, float]:
    """What is made of these timers; those that are zero in all are left out."""
    forget()
    for name, each in seconds.items():
        utils.compilation_time_metrics[NAMES[name]] = each if isinstance(each, list) else [each]
    return {name: value for name, value in read_phases().items() if value > 1e-9}


def test_a_cold_start() -> None:
    found = phases(frame=[6, 4], guards=1, backend=7, inductor=5, module=4, native=3)
    assert found == pytest.approx(
        {"dynamo": 2, "guards": 1, "aot_autograd": 2, "inductor": 1, "codegen": 1, "native": 3}
    )


def test_a_cold_start_of_training_compiles_the_backward_pass_outside_the_frame() -> None:
    found = phases(frame=10, guards=1, backend=7, backward=6, inductor=[5, 4], module=[4, 3], native=[3, 2])
    assert found == pytest.approx(
        {"dynamo": 2, "guards": 1, "aot_autograd": 4, "inductor": 2, "codegen": 2, "native": 5}
    )


def test_a_warm_start_reads_graphs_back_within_the_backend() -> None:
    found = phases(frame=4, guards=1, backend=2, loading=1)
    assert found == pytest.approx({"dynamo": 1, "guards": 1, "aot_autograd": 1, "loading": 1})


def test_what_is_read_back_and_compiled_natively_again_is_not_counted_twice() -> None:
    found = phases(frame=8, guards=1, backend=6, loading=5, native=4)
    assert found == pytest.approx({"dynamo": 1, "guards": 1, "aot_autograd": 1, "loading": 1, "native": 4})


def test_what_inductors_own_cache_reads_back_and_compiles_natively_again_is_not_counted_twice() -> None:
    # AOT autograd's cache was bypassed, inductor's had the graph: nothing is written, and the native compiler runs within inductor's time.
    found = phases(frame=8, guards=1, backend=6, inductor=4, native=3)
    assert found == pytest.approx({"dynamo": 1, "guards": 1, "aot_autograd": 2, "inductor": 1, "native": 3})


def test_a_whole_package_is_read_back_by_dynamo() -> None:
    utils.compilation_time_metrics.update(
        {NAMES["frame"]: [6.0], NAMES["loading"]: [5.0], NAMES["native"]: [4.0]}
    )
    utils.counters["dynamo_cache"]["dynamo_cache_hit"] = 1
    found = {name: value for name, value in read_phases().items() if value}
    assert found == pytest.approx({"dynamo": 1, "loading": 1, "native": 4})


def test_nothing_compiled_is_nothing_spent() -> None:
    assert phases() == {}


def test_older_names_of_timers_are_known() -> None:
    utils.compilation_time_metrics.update(
        {
            "entire_frame_compile": [3.0],
            "backend_compile": [2.0],
            "inductor_compile": [1.0],
            "code_gen": [0.5],
        }
    )
    found = {name: value for name, value in read_phases().items() if value}
    assert found == pytest.approx({"dynamo": 1, "aot_autograd": 1, "inductor": 0.5, "codegen": 0.5})


part = st.floats(min_value=0, max_value=100)


@given(
    st.fixed_dictionaries(dict.fromkeys(("dynamo", "guards", "aot", "inductor", "codegen", "loading"), part)),
    part,
    part,
    part,
)
def test_however_timers_lie_within_one_another_the_phases_add_up(
    own: dict[str, float], in_module: float, in_loading: float, in_inductor: float
) -> None:
    module = own["codegen"] + in_module
    inductor = own["inductor"] + in_inductor + module
    loading = own["loading"] + in_loading
    backend = own["aot"] + loading + inductor
    frame = own["dynamo"] + own["guards"] + backend
    native = in_module + in_loading + in_inductor
    found = phases(
        frame=frame,
        guards=own["guards"],
        backend=backend,
        inductor=inductor,
        module=module,
        native=native,
        loading=loading,
    )
    assert sum(found.values()) == pytest.approx(frame, abs=1e-6)
    assert found.get("guards", 0.0) == pytest.approx(own["guards"], abs=1e-6)
    assert found.get("native", 0.0) == pytest.approx(native, abs=1e-6)


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, part)))
def test_no_phase_is_negative_whatever_the_timers_say(seconds: dict[str, float]) -> None:
    assert all(value >= 0 for value in phases(**seconds).values())
