"""The nodes of the graphs that dynamo captures, with the module and the line of the model that each comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchstone.worker.probes.subject import Target
from torchstone.worker.probes.time_profile.generated_code import KernelCall
from torchstone.worker.probes.time_profile.origins import LaunchOrigin, generalise
from torchstone.worker.probes.time_profile.source_places import innermost_place, read_line


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The operator of a node, and the module and the line it comes from."""

    operator: str
    module: str
    place: str


def capture_nodes(
    model: Callable[..., Any], target: Target, run: Callable[[Callable[..., Any]], object]
) -> dict[str, NodePlace]:
    """Capture the model's graphs once more, without compiling them, and return their nodes by name.

    A name that means different places in several graphs is left out.
    """
    found: dict[str, NodePlace | None] = {}

    def keep(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        for node in graph.graph.nodes:
            place = _place_of(node)
            if place and found.setdefault(node.name, place) != place:
                found[node.name] = None
        return graph.forward

    torch._dynamo.reset()
    run(torch.compile(model, backend=keep, dynamic=target.dynamic, fullgraph=target.fullgraph))
    return {name: place for name, place in found.items() if place}


def _place_of(node: torch.fx.Node) -> NodePlace | None:
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    module = generalise(str(modules[-1][0])) if modules else ""
    place = innermost_place(node.stack_trace or "")
    if not module and not place:
        return None
    operator = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return NodePlace(str(operator), module, place)


def kernel_origins(
    calls: Sequence[KernelCall], nodes: Mapping[str, NodePlace]
) -> dict[str, list[LaunchOrigin]]:
    """Return where the calls of each kernel come from, in order: the latest node of the graph that a kernel computes is its result."""
    found: dict[str, list[LaunchOrigin]] = {}
    order = {name: number for number, name in enumerate(nodes)}
    reached = -1
    for number, call in enumerate(calls):
        known = [name for name in call.nodes if name in nodes]
        last = max(known, key=order.__getitem__, default="")
        if not call.nodes:  # inductor's C++ code does not say
            last = _likely_node(call.name, calls[number + 1 :], nodes, order, reached)
        origin = LaunchOrigin(call.operators)
        if last:
            reached = max(reached, order[last])
            of_node = nodes[last]
            origin = LaunchOrigin(call.operators, of_node.module, of_node.place, read_line(of_node.place))
        found.setdefault(f"aten::{call.name}" if call.is_extern else call.name, []).append(origin)
    return found


def _likely_node(
    kernel: str,
    following: Sequence[KernelCall],
    nodes: Mapping[str, NodePlace],
    order: Mapping[str, int],
    reached: int,
) -> str:
    """Return the last node before those of the next kernel whose operator is part of this kernel's name; empty if there is none."""
    later = next((each.nodes for each in following if each.nodes), ())
    end = max((order[name] for name in later if name in order), default=len(order))
    names = list(order)[reached + 1 : end]
    return next(
        (name for name in reversed(names) if nodes[name].operator in kernel and nodes[name].operator), ""
    )
