"""A regression on purpose: every graph that dynamo captures is walked so many times before it is compiled, and nothing is done with it."""

from __future__ import annotations

import os
from typing import Any

from torch._dynamo.output_graph import OutputGraph

WALKS = int(os.environ.get("TORCHSTONE_INJECTED_WALKS", "0"))

_compile: Any = OutputGraph.call_user_compiler


def _look(value: object) -> None:
    """Do nothing with it."""


def call_user_compiler(self: Any, module: Any, *rest: Any, **named: Any) -> Any:  # noqa: ANN401  (torch's own)
    """Walk the graph, then compile it."""
    for _ in range(WALKS):
        for node in module.graph.nodes:
            _look(node.args)
    return _compile(self, module, *rest, **named)


setattr(OutputGraph, "call_user_compiler", call_user_compiler)  # noqa: B010  (torch's own has another signature)
