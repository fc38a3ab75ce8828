"""List the suites that come with torchstone; others come from files and entry points."""

from __future__ import annotations

from importlib import import_module

from torchstone.define.benchmarks import Suite

BUILT_IN = {
    "smoke": "torchstone.suites.smoke",
    "huggingface": "torchstone.suites.huggingface",
    "huggingface_llm": "torchstone.suites.huggingface.llm",
    "timm": "torchstone.suites.timm",
    "torchbench": "torchstone.suites.torchbench",
    "compile_time": "torchstone.suites.compile_time",
    "scaling": "torchstone.suites.scaling",
}
ENTRY_POINTS = "torchstone.suites"


def load_suite(name: str) -> Suite:
    """Load a suite that comes with torchstone. Its module imports only the standard library."""
    suite: Suite = import_module(BUILT_IN[name]).SUITE
    return suite
