"""Split compile time into phases that add up, from torch's nested timers."""

from __future__ import annotations

from torch._dynamo import utils

# torch's timers by phase; names of newer versions first.
_TIMERS = {
    "frame": ("_compile.compile_inner", "entire_frame_compile"),
    "backward": ("backward._backward_impl", "entire_backward_compile"),
    "guards": ("build_guards",),
    "backend": ("OutputGraph.call_user_compiler", "backend_compile"),
    "inductor": ("compile_fx_inner", "inductor_compile"),
    "module": ("GraphLowering.compile_to_module", "code_gen"),
    "native": ("PyCodeCache.load_by_key_path",),
    "loading": ("AOTAutogradCache.inductor_load",),
}


def read_phases() -> dict[str, float]:
    """Return seconds by phase since the timers were cleared; they do not overlap, and add up to dynamo's total.

    ``native`` is the C++ or Triton compiler and loading its output; ``loading`` is reading a compiled graph
    from the cache.
    """
    spent = {part: _seconds(names) for part, names in _TIMERS.items()}
    frame = _positive(spent["frame"] - spent["backend"] - spent["guards"])
    behind = _positive(spent["backend"] + spent["backward"] - spent["inductor"])
    inductor = _positive(spent["inductor"] - spent["module"])
    # dynamo loads whole packages, backends load graphs.
    if utils.counters["dynamo_cache"]["dynamo_cache_hit"]:
        frame, behind = _take_out(spent["loading"], frame, behind)
    else:
        behind, frame = _take_out(spent["loading"], behind, frame)
    # A graph from the cache may need native compilation: that time is part of loading, not of code generation.
    codegen, loading, inductor = _take_out(spent["native"], spent["module"], spent["loading"], inductor)
    return {
        "dynamo": frame,
        "guards": spent["guards"],
        "aot_autograd": behind,
        "inductor": inductor,
        "codegen": codegen,
        "native": spent["native"],
        "loading": loading,
    }


def _take_out(amount: float, *parts: float) -> list[float]:
    """Subtract an amount from nested parts: from the first as far as possible, then from the next."""
    left = []
    for part in parts:
        taken = min(amount, part)
        amount -= taken
        left.append(part - taken)
    return left


def _seconds(names: tuple[str, ...]) -> float:
    timers = utils.compilation_time_metrics
    return float(sum(next((timers[name] for name in names if name in timers), ())))


def _positive(seconds: float) -> float:
    return max(0.0, seconds)
