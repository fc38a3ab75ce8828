"""What a rank does by itself: which layers are sharded, what of a profile is communication, and what its own end means."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from torchstone.worker.probes.device import Device
from torchstone.worker.probes.device_time.busy_time import union
from torchstone.worker.probes.reply import Stopped
from torchstone.worker.probes.scaling import find_layers, read_profile
from torchstone.worker.ranks.rank import describe_failure


def test_layers_are_found_in_lists_and_in_sequences_of_one_kind_and_only_the_outermost() -> None:
    inner = nn.ModuleDict({"parts": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])})
    model = nn.ModuleDict(
        {
            "blocks": nn.ModuleList([inner, nn.Linear(2, 2)]),
            "same": nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
            "mixed": nn.Sequential(nn.Linear(2, 2), nn.ReLU()),
            "empty": nn.ModuleList([nn.ReLU(), nn.ReLU()]),
        }
    )
    layers = find_layers(model)
    same = model["same"]
    assert isinstance(same, nn.Sequential)
    assert [id(each) for each in layers] == [id(each) for each in (*model["blocks"], *same)]  # type: ignore[misc]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=12))
def test_time_that_overlaps_counts_once(given_spans: list[tuple[int, int]]) -> None:
    spans = [(float(start), float(start + length)) for start, length in given_spans]
    covered = {moment for start, length in given_spans for moment in range(start, start + length)}
    assert union(spans) == len(covered)


def event(name: str, start: float, end: float, *, on_host: bool = True) -> SimpleNamespace:
    kind = torch.autograd.DeviceType.CPU if on_host else torch.autograd.DeviceType.CUDA  # type: ignore[attr-defined]
    return SimpleNamespace(name=name, device_type=kind, time_range=SimpleNamespace(start=start, end=end))


def test_on_a_cpu_communication_is_what_the_threads_of_gloo_do() -> None:
    events = [
        event("torchstone iteration", 0, 9),
        event("gloo:all_reduce", 2, 5),
        event("c10d::allreduce_", 1, 2),
    ]
    assert read_profile(events, Device("cpu")) == ([(0, 9)], [(2, 5)])


def test_on_an_accelerator_communication_is_what_its_kernels_do() -> None:
    events = [
        event("torchstone iteration", 0, 9),
        event("torchstone iteration", 0, 9, on_host=False),
        event("nccl:all_reduce", 2, 3),
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 4, 8, on_host=False),
    ]
    assert read_profile(events, Device("cuda")) == ([(0, 9)], [(4, 8)])


@pytest.mark.parametrize(
    ("error", "status", "cause"),
    [
        (RuntimeError("Timed out waiting 5000ms for recv operation to complete"), "timeout", "waited"),
        (RuntimeError("[gloo] Connection closed by peer [127.0.0.1]:3"), "worker_died", "lost"),
        (ValueError("timed out, says the model"), "fail_to_run", "own"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "fail_to_run", "own"),
        (torch.OutOfMemoryError("out of memory"), "OOM", "own"),
        (Stopped("fail_to_run", error=RuntimeError("Timed out waiting 5ms")), "timeout", "waited"),
        (Stopped("model_fail_to_load", "nothing to train"), "model_fail_to_load", "own"),
    ],
)
def test_a_rank_says_whether_the_fault_is_its_own(error: BaseException, status: str, cause: str) -> None:
    told = describe_failure(error, 2, "run", 3)
    assert (told.rank, told.status, told.cause, told.iteration) == (2, status, cause, 3)
