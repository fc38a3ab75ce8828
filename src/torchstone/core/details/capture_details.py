"""Graph breaks and recompilations that torch.compile reported."""

from __future__ import annotations

from msgspec import Struct


class GraphBreak(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One reason for graph breaks at one place in the model's code, and how often it occurred.

    ``fallback`` marks frames that ran uncompiled as a whole.
    """

    reason: str
    place: str = ""
    source: str = ""
    count: int = 1
    fallback: bool = False


class CaptureDetails(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Reasons for graph breaks and for recompilations."""

    graph_breaks: tuple[GraphBreak, ...] = ()
    recompile_reasons: tuple[str, ...] = ()
