"""The sentences of hints about where the time of a call went."""

from __future__ import annotations

from collections.abc import Callable

from torchstone.analyze.call_time.time_hints import Hint, HintKind
from torchstone.core.text.units import count_of, format_share

_TF32 = "torch.set_float32_matmul_precision('high')"
_CUDA_GRAPHS = "CUDA graphs would help (--compile-mode reduce-overhead)"


def describe_hint(hint: Hint) -> str:
    """Return the sentence of a hint."""
    return _SENTENCES[hint.kind](hint)


def _float32_products(hint: Hint) -> str:
    run = "runs" if hint.count == 1 else "run"
    dtype = hint.names.get("dtype", "")
    what = (
        f"{_products(hint.count)} {run} in float32 although the model is {dtype}, {_share(hint)} of the time"
    )
    parts = [what]
    if "attention" in hint.names:
        parts.append("attention is decomposed (math) under torch.compile, eager uses a fused kernel")
    if "eager" in hint.names:
        parts.append("they do in eager too")
    if "tf32" in hint.names:
        parts.append(f"TF32 is off ({_TF32} allows it)")
    return f"{parts[0]}: {'; '.join(parts[1:])}." if len(parts) > 1 else f"{parts[0]}."


def _attention_decomposed(hint: Hint) -> str:
    return (
        "Attention is decomposed (math) under torch.compile: no fused kernel runs, where eager launches "
        f"{hint.count:,} ({_share(hint)} of its time)."
    )


def _tf32_off(hint: Hint) -> str:
    return (
        f"{_products(hint.count)} in float32 take {_share(hint)} of the time, and TF32 is off: "
        f"if its accuracy suffices, allow it ({_TF32})."
    )


def _graph_breaks(hint: Hint) -> str:
    graphs = int(hint.names.get("graphs", "0") or 0)
    place = f"; the most frequent one is at {hint.names['place']}" if hint.names.get("place") else ""
    verb = "splits" if hint.count == 1 else "split"
    into = f" {verb} the model into {count_of(graphs, 'graph')}" if graphs else " in the model"
    return f"{count_of(hint.count, 'graph break')}{into}{place}."


def _fallbacks(hint: Hint) -> str:
    return f"torch.compile left {count_of(hint.count, 'frame')} to eager as a whole."


def _recompiled(hint: Hint) -> str:
    times = "once" if hint.count == 1 else f"{hint.count:,} times"
    reason = f", first because {hint.names['reason']}" if hint.names.get("reason") else ""
    return f"Recompiled {times}{reason}."


def _host_bound(hint: Hint) -> str:
    helps = "" if hint.names.get("cuda_graphs") == "on" else f": {_CUDA_GRAPHS}"
    return (
        f"Host-bound: the device works {_share(hint)} of a compiled call, which launches "
        f"{count_of(hint.count, 'kernel')}{helps}."
    )


def _eager_host_bound(hint: Hint) -> str:
    return (
        f"Eager is host-bound: the device works {_share(hint)} of a call. So the speedup by the wall clock depends "
        "on how fast the host launches kernels."
    )


def _cuda_graphs_skipped(hint: Hint) -> str:
    return f"CUDA graphs were skipped {hint.count:,} times: TORCH_LOGS=perf_hints says why."


def _transfers(hint: Hint) -> str:
    return f"{count_of(hint.count, 'copy')} between host and device: {_share(hint)} of the device's time."


def _overhead(hint: Hint) -> str:
    return (
        f"Guards, wrappers and views around the work take {_share(hint)} of a compiled call: it is too short for "
        "torch.compile to gain much."
    )


def _products(count: int) -> str:
    return "1 matrix product" if count == 1 else f"{count:,} matrix products"


def _share(hint: Hint) -> str:
    return format_share(round(hint.share, 2))


_SENTENCES: dict[HintKind, Callable[[Hint], str]] = {
    HintKind.FLOAT32_PRODUCTS: _float32_products,
    HintKind.ATTENTION_DECOMPOSED: _attention_decomposed,
    HintKind.TF32_OFF: _tf32_off,
    HintKind.GRAPH_BREAKS: _graph_breaks,
    HintKind.FALLBACKS: _fallbacks,
    HintKind.RECOMPILED: _recompiled,
    HintKind.HOST_BOUND: _host_bound,
    HintKind.EAGER_HOST_BOUND: _eager_host_bound,
    HintKind.CUDA_GRAPHS_SKIPPED: _cuda_graphs_skipped,
    HintKind.TRANSFERS: _transfers,
    HintKind.OVERHEAD: _overhead,
}
