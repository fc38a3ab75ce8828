"""What inductor's generated code says about its kernels: the nodes of the graph that each call of a kernel computes.

The wrapper code has a comment before most calls: ``# Topologically Sorted Source Nodes: [x, linear], Original ATen: [aten.mm]``.
On a CPU its kernels are plain functions, which the profiler does not see: they are given a name while it records.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

_NODES = re.compile(
    r"^\s*# (?:Topologically Sorted |Unsorted )?Source Nodes: \[(.*?)\](?:, Original ATen: \[(.*?)\])?"
)
_CALL = re.compile(
    r"^\s+(?:\w+ = )?(?:(?P<generated>(?:triton|cpp)_\w+)(?:\.run)?\(|extern_kernels\.(?P<extern>\w+)\(|torch\.ops\.aten\.(?P<aten>\w+)\.)"
)
LONGEST_OPERATORS = 200


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One call of a kernel in generated code: its name, the nodes of the graph it computes, and their operators."""

    name: str
    is_extern: bool
    nodes: tuple[str, ...]
    operators: str


def read_wrapper(text: str) -> list[KernelCall]:
    """Return the calls of kernels in the wrapper code of one graph, in order.

    >>> read_wrapper('''
    ...     # Topologically Sorted Source Nodes: [h], Original ATen: [aten.relu]
    ...     triton_poi_fused_relu_0.run(arg0_1, buf0, 64, stream=stream0)
    ... ''')
    [KernelCall(name='triton_poi_fused_relu_0', is_extern=False, nodes=('h',), operators='aten.relu')]
    """
    calls = []
    nodes: tuple[str, ...] = ()
    operators = ""
    for line in text.splitlines():
        if stated := _NODES.match(line):
            nodes = tuple(filter(None, (each.strip() for each in stated[1].split(","))))
            operators = (stated[2] or "")[:LONGEST_OPERATORS]
        elif called := _CALL.match(line):
            extern = called["extern"] or called["aten"] or ""
            calls.append(KernelCall(called["generated"] or extern, bool(extern), nodes, operators))
            nodes, operators = (), ""
    return calls


def loaded_wrappers() -> list[ModuleType]:
    """Return the modules of generated code in this process, the latest last."""
    from torch._inductor.codecache import PyCodeCache  # noqa: PLC0415  (slow to import, and only there if something was compiled)

    return [each for each in getattr(PyCodeCache, "modules", ()) if isinstance(each, ModuleType)]


def read_generated(files: Iterable[str]) -> list[KernelCall]:
    """Return the calls of all wrappers, by their files; one that cannot be read has none."""
    calls: list[KernelCall] = []
    for each in files:
        with contextlib.suppress(OSError, UnicodeDecodeError), open(each) as file:
            calls += read_wrapper(file.read())
    return calls


@contextlib.contextmanager
def naming_native_kernels(wrappers: Iterable[ModuleType]) -> Iterator[None]:
    """Let the profiler see inductor's C++ kernels under their names."""
    replaced: list[tuple[ModuleType, str, Any]] = []
    try:
        for wrapper in wrappers:
            for name, kernel in list(vars(wrapper).items()):
                if name.startswith("cpp_fused") and callable(kernel):
                    replaced.append((wrapper, name, kernel))
                    setattr(wrapper, name, _named(name, kernel))
        yield
    finally:
        for wrapper, name, kernel in replaced:
            setattr(wrapper, name, kernel)


def _named(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:  # noqa: ANN401  (a kernel's own arguments)
        with torch.profiler.record_function(name):
            return kernel(*arguments)

    return run
