"""Devices: out of memory in every disguise, peaks, and devices that are not there."""

from __future__ import annotations

import os

import pytest
import torch

from torchstone.worker.failures import is_out_of_memory
from torchstone.worker.machine.missing_device import explain
from torchstone.worker.probes.device import Device, find_problem, list_devices
from torchstone.worker.probes.subject import seed_everything


class Unspeakable(Exception):  # noqa: N818  (only its silence matters)
    def __str__(self) -> str:
        raise ValueError("there is nothing to say")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"),
        RuntimeError("MPS backend out of memory (MPS allocated: 9.06 GB)"),
        RuntimeError("XPU out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("HIP out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_out_of_memory_is_recognised_on_every_device(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        RuntimeError("out of resource: shared memory, Required: 163840, Hardware limit: 101376"),
        ValueError("this example is out of memory of man"),
        KeyError("out of memory"),
        Unspeakable(),
    ],
)
def test_other_errors_are_not_out_of_memory(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_out_of_memory_is_recognised_behind_other_errors() -> None:
    cause = RuntimeError("compiling failed")
    cause.__cause__ = MemoryError()
    assert is_out_of_memory(cause)
    context = ValueError("cleaning up failed")
    context.__context__ = torch.OutOfMemoryError("no room")
    assert is_out_of_memory(context)
    inner = RuntimeError("backend failed")
    inner.inner_exception = MemoryError()  # type: ignore[attr-defined]  # as dynamo does
    assert is_out_of_memory(inner)


def test_errors_that_refer_to_each_other_have_an_end() -> None:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__context__, other.__context__ = other, one
    assert not is_out_of_memory(one)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("cpu", ""),
        ("meta", "nothing can be measured on the meta device"),
        ("toaster", "torch knows no device 'toaster'"),
    ],
)
def test_problem_with_a_device_is_told(name: str, problem: str) -> None:
    assert find_problem(name) == problem


@pytest.mark.parametrize("name", ["cuda", "xpu", "mps"])
def test_device_that_is_not_here_is_told(name: str) -> None:
    if name not in list_devices():
        assert find_problem(name).startswith(f"no {name} device is available here")


@pytest.mark.parametrize(
    ("kind", "is_built", "variables", "why", "remedy"),
    [
        ("cuda", False, {"CUDA_VISIBLE_DEVICES": ""}, "was built without cuda", "install a torch"),
        ("cuda", True, {"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES hides all", "unset CUDA_VISIBLE"),
        ("cuda", True, {"HIP_VISIBLE_DEVICES": "-1"}, "HIP_VISIBLE_DEVICES hides all", "unset HIP_VISIBLE"),
        ("xpu", True, {"ZE_AFFINITY_MASK": " "}, "ZE_AFFINITY_MASK hides all", "unset ZE_AFFINITY_MASK"),
        ("cuda", True, {"CUDA_VISIBLE_DEVICES": "7"}, "", "CUDA_VISIBLE_DEVICES is set, and may name others"),
        ("mps", True, {"CUDA_VISIBLE_DEVICES": ""}, "", "check the driver"),
    ],
)  # fmt: skip
def test_why_a_device_is_missing_is_told_with_what_to_do(
    kind: str, is_built: bool, variables: dict[str, str], why: str, remedy: str
) -> None:
    said = explain(kind, is_built, variables)
    assert why in said[0]
    assert bool(said[0]) == bool(why)
    assert remedy in said[1]


def test_cpu_is_always_there_and_needs_no_waiting() -> None:
    assert list_devices()[0] == "cpu"
    cpu = Device("cpu")
    cpu.activate()
    cpu.synchronize()


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="not on this system")
def test_peak_of_a_process_is_forgotten_and_grows_again() -> None:
    cpu = Device("cpu")
    big = torch.ones(200 * 2**18)
    assert cpu.reset_peak()
    with_big = cpu.peak_bytes()
    del big
    assert cpu.reset_peak()
    without = cpu.peak_bytes()
    assert with_big is not None
    assert without is not None
    assert 150 * 2**20 < with_big - without < 300 * 2**20


def test_seed_is_the_same_for_all_sources_of_random_numbers() -> None:
    import random  # noqa: PLC0415

    import numpy  # noqa: PLC0415

    def draw() -> tuple[float, float, float]:
        seed_everything()
        return random.random(), torch.rand(()).item(), float(numpy.random.rand())  # noqa: S311

    assert draw() == draw()


@pytest.mark.parametrize(
    ("name", "place"), [("cpu", ""), ("cuda:3", "cuda:3"), ("privateuseone", "privateuseone")]
)
def test_a_device_says_which_one_it_is_as_far_as_torch_knows(name: str, place: str) -> None:
    assert Device(name).place == place
