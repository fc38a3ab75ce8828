"""What torch's profiler reports of small calls with streams, copies, CUDA graphs and waits, in the compact form that tests read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from torchstone.worker.probes.device_time.recording import profile_events


def record_events(device: str) -> dict[str, Any]:
    """Return what the profiler reports of several small calls, in a compact form: names once, times from the first event."""
    recorded: dict[str, Any] = {
        "torch": torch.__version__,
        "device": torch.get_device_module(device).get_device_name(),
        "calls": {},
    }
    for name, run in SmallCalls(device).named().items():
        run()
        torch.accelerator.synchronize()
        profile_events(run, device)  # the first session of a process is slower
        began = time.time_ns()
        events = profile_events(run, device)
        recorded["calls"][name] = {"window": [0, time.time_ns() - began], **compact(events, began)}
    return recorded


def compact(events: list[Any], began: int) -> dict[str, Any]:
    """Return names, activity types and the numbers of each event."""
    names: dict[str, int] = {}
    rows = []
    for event in events:
        kind = event.activity_type() if hasattr(event, "activity_type") else ""
        key = json.dumps([event.name()[:120], str(event.device_type()).rpartition(".")[2], kind])
        rows.append(
            [
                names.setdefault(key, len(names)),
                event.start_ns() - began,
                event.duration_ns(),
                event.device_index(),
                event.device_resource_id(),
                event.correlation_id(),
                event.linked_correlation_id(),
            ]
        )
    return {"names": [json.loads(key) for key in names], "events": rows}


class SmallCalls:
    """Calls of a few kernels each; every one waits for the device at its end."""

    def __init__(self, device: str) -> None:
        half = torch.bfloat16
        self.layer = nn.TransformerEncoderLayer(
            256, 4, 512, batch_first=True, device=device, dtype=half
        ).eval()
        self.inputs = torch.randn(8, 64, 256, device=device, dtype=half)
        self.plain = torch.compile(self.layer)
        self.graphed = torch.compile(self.layer, mode="reduce-overhead")
        self.module: Any = torch.get_device_module(device)
        self.streams = [self.module.Stream(), self.module.Stream()]
        self.big = torch.randn(2048, 2048, device=device, dtype=half)
        self.pinned = torch.randn(1 << 20, pin_memory=True)
        self.device = device

    def named(self) -> dict[str, Callable[[], None]]:
        """Return the calls by name, compiled and warm."""
        for _ in range(5):
            self.compiled()
            self.cuda_graph()
        names = ("eager", "compiled", "cuda_graph", "two_streams", "copies", "waits", "nothing")
        return {name: getattr(self, name) for name in names}

    def _run(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        with torch.inference_mode():
            for _ in range(3):
                torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
                function(self.inputs)
        self.nothing()

    def eager(self) -> None:
        """Call an eager layer."""
        self._run(self.layer)

    def compiled(self) -> None:
        """Call a compiled layer."""
        self._run(self.plain)

    def cuda_graph(self) -> None:
        """Call a layer that is replayed as a CUDA graph."""
        self._run(self.graphed)

    def two_streams(self) -> None:
        """Multiply on two streams, so that kernels overlap."""
        for stream in self.streams:
            with self.module.stream(stream):
                for _ in range(4):
                    self.big @ self.big
        self.nothing()

    def copies(self) -> None:
        """Copy to the device and back, and fill memory there."""
        there = self.pinned.to(self.device, non_blocking=True)
        there.zero_()
        there.cpu()
        self.nothing()

    def waits(self) -> None:
        """Wait for the device in the middle."""
        for _ in range(3):
            (self.big @ self.big).sum().item()
        self.nothing()

    def nothing(self) -> None:
        """Only wait for the device."""
        torch.accelerator.synchronize()
