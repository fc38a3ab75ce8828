"""Imports point one way, and heavy libraries stay where they belong."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import torchstone

ROOT = Path(torchstone.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# From the bottom up: a module imports from its own package and from layers below, never from a neighbour.
LAYERS: list[set[str]] = [
    {"clock", "redaction", "safe_text", "suggestions", "units"},
    {"errors", "known_variables"},
    {"vocabulary", "disk", "fingerprint"},
    {"model"},
    {"run_settings"},
    {"codec", "toml_file"},
    {"upstream"},
    {"config"},
    {"define"},
    {"counting", "benchmark_base"},
    {"suites"},
    {"analyze", "formats"},
    {"probes"},
    {"measure"},
    {"results"},
    {"conversion", "baseline", "quarantine"},
    {"baseline_edit"},
    {"gate", "store"},
    {"adoption"},
    {"additions"},
    {"report", "proposal"},
    {"serve"},
    {"cli"},
]
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}

ONLY_IN: dict[str, set[str]] = {
    "click": {"cli"},
    "rich": {"cli"},
    "torch": {"measure", "probes", "suites"},
    "numpy": {"analyze"},
    "sqlite3": {"store"},
}

# A worker's process is its own: it has its standard streams, its way out, and the environment it was given.
READS_ENVIRONMENT = {
    "config.py",
    "measure/asking.py",
    "measure/environment.py",
    "measure/job.py",
    "measure/rank.py",
    "measure/surroundings.py",
    "suites/preparation.py",
}
HAS_ITS_OWN_PROCESS = {
    "measure/keeper.py",
    "measure/rank.py",
    "measure/worker.py",
    "measure/zygote.py",
    "probes/callgrind.py",
}

# What a worker imports where only torch is installed: nothing but the standard library, torch, and each other.
IN_WORKERS = {
    "fingerprint.py",
    "measure/accelerators.py",
    "measure/asking.py",
    "measure/channel.py",
    "measure/environment.py",
    "measure/keeper.py",
    "measure/kinship.py",
    "measure/machine.py",
    "measure/scratch.py",
    "known_variables.py",
    "redaction.py",
}


def part_of(path: Path) -> str:
    """The layer's word for a module: the package right below torchstone, or the module itself."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "torchstone":
                yield from (f"torchstone.{alias.name}" for alias in node.names if alias.name in LEVEL)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downwards(path: Path) -> None:
    part = part_of(path)
    if part in {"__init__", "__main__"}:
        return
    assert part in LEVEL, f"give '{part}' a place in LAYERS"
    for name in imports_of(path):
        if name.startswith("torchstone."):
            other = name.split(".")[1]
            if other != part:
                assert LEVEL[other] < LEVEL[part], f"{part} imports {other}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_libraries_stay_where_they_belong(path: Path) -> None:
    for name in imports_of(path):
        top = name.split(".")[0]
        if top in ONLY_IN:
            assert part_of(path) in ONLY_IN[top], f"{path.name} imports {top}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_command_line_prints_and_exits_and_only_config_reads_the_environment(path: Path) -> None:
    part, name = part_of(path), path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"print", "exit", "input"}
        ):
            assert part == "cli"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called = f"{node.value.id}.{node.attr}"
            if called in {"os._exit", "sys.stdout", "sys.stderr"}:
                assert part == "cli" or name in HAS_ITS_OWN_PROCESS
            assert called != "sys.exit" or part == "cli"
            assert called not in {"os.environ", "os.getenv"} or name in READS_ENVIRONMENT


@pytest.mark.parametrize("name", sorted(IN_WORKERS))
def test_what_runs_in_workers_needs_nothing_but_torch(name: str) -> None:
    for imported in imports_of(ROOT / name):
        top, *below = imported.split(".")
        if top == "torchstone":
            assert "/".join(below) + ".py" in IN_WORKERS | {"errors.py", "safe_text.py"}, imported
        else:
            assert top == "torch" or top in sys.stdlib_module_names, imported


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_are_short_and_say_what_they_do(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 450
    assert ast.get_docstring(ast.parse(text))


def test_functions_are_short_enough_to_see_whole() -> None:
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.end_lineno
    )
    assert lengths[int(0.9 * len(lengths))] <= 35
