"""What torch.compile said while it captured a model: graph breaks and reasons for compiling again."""

from __future__ import annotations

from msgspec import Struct, ValidationError, convert, to_builtins

from torchstone.core.run_settings import JsonObject
from torchstone.core.text.redaction import redact_values


class GraphBreak(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One reason that capture had to stop, at one place in the model's code, and how often it did."""

    reason: str
    place: str = ""
    source: str = ""
    count: int = 1


class CaptureDetails(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Why capture stopped, and why code was compiled again."""

    graph_breaks: tuple[GraphBreak, ...] = ()
    recompile_reasons: tuple[str, ...] = ()


def take_capture(extra: JsonObject) -> tuple[CaptureDetails | None, JsonObject]:
    """The capture that a worker, or a file of format 1, states in ``extra``, and the rest; what has not the form of one stays in the rest.

    >>> take_capture({"recompile_reasons": ["size"], "graph_breaks": "many"})
    (CaptureDetails(graph_breaks=(), recompile_reasons=('size',)), {'graph_breaks': 'many'})
    """
    found: JsonObject = {}
    for name in CaptureDetails.__struct_fields__:
        if name in extra:
            try:
                convert({name: extra[name]}, CaptureDetails)
            except ValidationError:
                continue
            found[name] = extra[name]
    if not found:
        return None, extra
    details = convert(found, CaptureDetails)
    return details, {key: value for key, value in extra.items() if key not in found}


def redact_capture(details: CaptureDetails | None) -> CaptureDetails | None:
    """The same without the credentials of URLs."""
    return details and convert(redact_values(to_builtins(details)), CaptureDetails)
