"""Leave the device to others while this worker compiles.

The exception is benchmarks with which the compiler chooses its kernels.

torch tells when a compilation begins and ends. What a compiled model does between two compilations uses the device:
its calls, the kernels that it tries on its first call, and the recording of CUDA graphs.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from torchstone.worker.probes.reply import PhaseClock

_BENCHMARKS = ("benchmark_gpu", "benchmark_gpu_with_cuda_graph", "benchmark_many_gpu")
_ASKS = "_torchstone_asks"


class CompilingApart:
    """Pauses and resumes the use of the device by the compiler's own events."""

    def __init__(self, clock: PhaseClock) -> None:
        self._clock = clock
        self._paused = False
        self.waited = 0.0

    def begin(self, event: Any = None) -> None:  # noqa: ANN401  (torch's record, which older versions do not give)
        """Leave the device to others, unless what begins is the recording of CUDA graphs."""
        if "CUDAGRAPH" not in str(getattr(event, "callback_trigger", "")):
            self._paused = self._clock.pause_device()

    def end(self, event: Any = None) -> None:  # noqa: ANN401, ARG002  (as above)
        """Use the device again."""
        if self._paused:
            self._paused = False
            self._clock.resume_device()

    def benchmark(self, measure: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  (the compiler's own function)
        """Call one of the compiler's benchmarks once the device is free; ``waited`` sums up the seconds until then."""
        before = self._clock.waited
        with self._clock.using_device():
            self.waited += self._clock.waited - before
            return measure(*args, **kwargs)


_current: list[CompilingApart] = []


def watch_compiler(clock: PhaseClock) -> CompilingApart | None:
    """Pause the use of the device whenever torch compiles; None if the device is not shared."""
    if not clock.shares_device:
        return None
    apart = CompilingApart(clock)
    _current[:] = [apart]
    _wrap_benchmarks()
    watch_again()
    return apart


def watch_again() -> None:
    """Register for the compiler's events again: a reset of the compiler forgets who wants to know."""
    handler = _compile_events() if _current else None
    if handler is None:
        return
    for apart in _current:
        if apart.begin not in handler.start_callbacks:
            handler.start_callbacks.append(apart.begin)
            handler.end_callbacks.append(apart.end)


def _compile_events() -> Any:  # noqa: ANN401  (torch's own record of who wants to know)
    """Return where torch keeps its callbacks; None if this torch has none: then the device is held while compiling, too."""
    with contextlib.suppress(ImportError):
        handler: Any = getattr(import_module("torch._dynamo.callback"), "callback_handler", None)
        return handler if hasattr(handler, "start_callbacks") and hasattr(handler, "end_callbacks") else None
    return None


def waited_in_benchmarks() -> float:
    """Return the seconds for which the compiler's benchmarks waited: torch's timers count them as compiling."""
    return sum(apart.waited for apart in _current)


def _wrap_benchmarks() -> None:
    """Make the compiler's benchmarks ask for the device."""
    with contextlib.suppress(ImportError):
        _wrap_benchmarks_of(import_module("torch._inductor.runtime.benchmarking"))


def _wrap_benchmarks_of(module: ModuleType) -> None:
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
    for kind in kinds:
        for name in _BENCHMARKS:
            own = vars(kind).get(name)
            if callable(own) and not hasattr(own, _ASKS):
                setattr(kind, name, _asking(own))


def _asking(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def ask(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  (the compiler's own function)
        return _current[-1].benchmark(own, *args, **kwargs) if _current else own(*args, **kwargs)

    setattr(ask, _ASKS, True)
    return ask
