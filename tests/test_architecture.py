"""Imports point one way, and heavy libraries stay where they belong."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import torchstone

ROOT = Path(torchstone.__file__).parent
TREES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}

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


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "torchstone":
                yield from (f"torchstone.{alias.name}" for alias in node.names if alias.name in LEVEL)


def test_every_module_has_a_place_in_the_layers() -> None:
    parts = {part_of(path) for path in TREES} - {"__init__", "__main__"}
    assert parts <= set(LEVEL)


def test_imports_point_downwards() -> None:
    found = [
        f"{name_of(path)} imports {name}"
        for path in TREES
        if (part := part_of(path)) in LEVEL
        for name in imports_of(path)
        if name.startswith("torchstone.")
        and (other := name.split(".")[1]) != part
        and LEVEL[other] >= LEVEL[part]
    ]
    assert found == []


def test_heavy_libraries_stay_where_they_belong() -> None:
    found = [
        f"{name_of(path)} imports {name}"
        for path in TREES
        for name in imports_of(path)
        if part_of(path) not in ONLY_IN.get(name.split(".")[0], {part_of(path)})
    ]
    assert found == []


def forbidden_in(path: Path) -> Iterator[str]:
    """What a module may not use to print, exit, or read the environment."""
    part, name = part_of(path), name_of(path)
    if part != "cli":
        yield from () if name in HAS_ITS_OWN_PROCESS else ("os._exit", "sys.stdout", "sys.stderr")
        yield from ("print", "exit", "input", "sys.exit")
    if name not in READS_ENVIRONMENT:
        yield from ("os.environ", "os.getenv")


def used_in(path: Path) -> Iterator[tuple[int, str]]:
    """The functions that a module calls by name, and the attributes of modules that it uses, each with its line."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{node.value.id}.{node.attr}"


def test_only_the_command_line_prints_and_exits_and_only_config_reads_the_environment() -> None:
    found = [
        f"{name_of(path)}:{line} uses {used}"
        for path in TREES
        for forbidden in [set(forbidden_in(path))]
        for line, used in used_in(path)
        if used in forbidden
    ]
    assert found == []


def test_what_runs_in_workers_needs_nothing_but_torch() -> None:
    own = {"torchstone." + name.removesuffix(".py").replace("/", ".") for name in IN_WORKERS}
    allowed = own | {"torchstone.errors", "torchstone.safe_text"}
    found = [
        f"{name} imports {imported}"
        for name in sorted(IN_WORKERS)
        for imported in imports_of(ROOT / name)
        if imported not in allowed and imported.split(".")[0] not in {"torch", *sys.stdlib_module_names}
    ]
    assert found == []


def test_modules_are_short_and_say_what_they_do() -> None:
    long = [name_of(path) for path in TREES if path.read_text().count("\n") > 450]
    silent = [name_of(path) for path, tree in TREES.items() if not ast.get_docstring(tree)]
    assert (long, silent) == ([], [])


def test_functions_are_short_enough_to_see_whole() -> None:
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.end_lineno
    )
    assert lengths[int(0.9 * len(lengths))] <= 35
