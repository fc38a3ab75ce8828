"""Imports point one way, heavy libraries stay where they belong, and the code stays small enough to read."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import torchstone

ROOT = Path(torchstone.__file__).parent
MODULES = {
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}

# From the bottom up: a module imports from its own package and from packages below, never from a neighbour.
LAYERS: list[set[str]] = [
    {"core"},
    {"define"},
    {"suites", "analyze"},
    {"worker"},
    {"formats"},
    {"gate", "store"},
    {"baselines"},
    {"measure", "reporting"},
    {"history"},
    {"api"},
    {"dashboard", "integrations"},
    {"cli"},
]
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}

ONLY_IN: dict[str, set[str]] = {
    "click": {"cli"},
    "rich": {"cli"},
    "torch": {"worker", "suites"},
    "numpy": {"analyze"},
    "sqlite3": {"store"},
    "psycopg": {"store"},
    "starlette": {"dashboard"},
    "uvicorn": {"dashboard"},
}

READS_ENVIRONMENT = {
    "core.config",
    "measure.hosts.host_job",
    "suites.model_preparation",
    "worker.machine.external_programs",
    "worker.machine.missing_device",
    "worker.machine.recorded_environment",
    "worker.ranks.rank",
    "worker.worker_environment",
}

# A worker's process is its own: it has its standard streams and its way out.
HAS_ITS_OWN_PROCESS = {
    "worker.forking",
    "worker.probes.counting.callgrind_output",
    "worker.ranks.rank",
    "worker.worker",
    "worker.zygote",
}

# A run on several hosts meets the others in a store of torch.distributed; every other run is free of torch.
MEETS_OTHER_HOSTS = {"measure.hosts.network"}

# What a suite's models come from: installed by the user, imported only when one of them is measured.
MODEL_LIBRARIES = {"timm", "torchbenchmark", "torchvision", "transformers"}

LONGEST_MODULE = 400
LONGEST_FIRST_LINE = 120
LONGEST_FUNCTION = 60
LONGEST_FUNCTION_OF_NINE_IN_TEN = 25
LARGEST_PACKAGE = 15

# dict[str, Any], also by its alias. What remains is JSON and TOML whose shape is not ours: facts of a machine, options of
# torch.compile, keys of other tools and later versions, foreign files before they are read into records.
MOST_UNTYPED_OBJECTS = 40

# Imports of torchstone inside functions: each saves a command milliseconds at its start, and says so.
MOST_LATE_IMPORTS = 15

# Module names that occur in several packages and mean the same there: how files are converted, what is quarantined, and
# the models of a suite. Besides these, a command and the API function that it calls have the same name.
SAME_MEANING = {"convert", "quarantine", "models"}


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Yield every module that is imported, early or late; one of ours by its whole name.

    A module of ours that is only named, by a string, counts too: it is loaded with import_module. Names after
    "-m" do not count: they start another process.
    """
    programs = {id(after) for node in ast.walk(tree) for after in _after_dash_m(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in programs:
            package, _, name = node.value.partition(".")
            if package == "torchstone" and name in MODULES:
                yield node.value
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = node.module.removeprefix("torchstone").removeprefix(".")
            for alias in node.names:
                inner = f"{below}.{alias.name}".removeprefix(".")
                is_module = node.module.split(".")[0] == "torchstone" and inner in MODULES
                yield f"torchstone.{inner}" if is_module else node.module


def _after_dash_m(node: ast.AST) -> Iterator[ast.expr]:
    parts = getattr(node, "elts", None) or getattr(node, "args", None)
    for before, after in pairwise(parts if isinstance(parts, list) else []):
        if isinstance(before, ast.Constant) and before.value == "-m":
            yield after


@cache
def own_imports(name: str) -> frozenset[str]:
    """The modules of torchstone that a module imports, early or late."""
    found = (each.removeprefix("torchstone.") for each in imports_of(tree_of(name)))
    return frozenset(each for each in found if each in MODULES and each != name)


def package_of(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


def reachable(start: str) -> set[str]:
    """All that a module imports, directly or not."""
    found: set[str] = set()
    todo = list(own_imports(start))
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            todo += own_imports(name)
    return found


def test_imports_point_downwards() -> None:
    wrong = []
    for name in MODULES:
        if (package := package_of(name)) in {"__init__", "__main__"}:
            continue
        assert package in LEVEL, f"give '{package}' a place in LAYERS"
        for other in own_imports(name):
            above = package_of(other)
            if above not in {package, "__init__"} and LEVEL[above] >= LEVEL[package]:
                wrong.append(f"{name} imports {other}")
    assert not wrong


def test_no_import_leads_back_to_where_it_came_from() -> None:
    assert not [name for name in MODULES if name in reachable(name)]


def test_heavy_libraries_stay_where_they_belong() -> None:
    wrong = []
    for name in MODULES:
        for imported in imports_of(tree_of(name)):
            top = imported.split(".")[0]
            if top in ONLY_IN and package_of(name) not in ONLY_IN[top] and name not in MEETS_OTHER_HOSTS:
                wrong.append(f"{name} imports {imported}")
    assert not wrong


def test_workers_need_nothing_but_torch_and_the_models_library() -> None:
    entries = [name for name in MODULES if package_of(name) in {"worker", "suites", "define"}]
    wrong = []
    for name in {each for entry in entries for each in (entry, *reachable(entry))}:
        for imported in imports_of(tree_of(name)):
            top = imported.split(".")[0]
            if top not in {"torch", "torchstone", *MODEL_LIBRARIES} and top not in sys.stdlib_module_names:
                wrong.append(f"{name} imports {imported}")
    assert not wrong


def test_only_the_command_line_prints_and_exits_and_few_read_the_environment() -> None:
    wrong = []
    for name in MODULES:
        is_cli = package_of(name) == "cli"
        for node in ast.walk(tree_of(name)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                said = node.func.id
                is_wrong = said in {"print", "exit", "input"} and not is_cli
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                said = f"{node.value.id}.{node.attr}"
                is_wrong = (
                    (said == "sys.exit" and not is_cli)
                    or (said in {"os.environ", "os.getenv"} and name not in READS_ENVIRONMENT)
                    or (
                        said in {"os._exit", "sys.stdout", "sys.stderr"}
                        and not is_cli
                        and name not in HAS_ITS_OWN_PROCESS
                    )
                )
            else:
                continue
            if is_wrong:
                wrong.append(f"{name}: {said}")
    assert not wrong


def test_modules_are_short_and_say_what_they_do() -> None:
    assert not [name for name in MODULES if not ast.get_docstring(tree_of(name))]
    assert not [name for name, path in MODULES.items() if path.read_text().count("\n") > LONGEST_MODULE]


def test_the_first_line_of_a_module_is_one_sentence_that_no_other_module_begins_with() -> None:
    first = {name: (ast.get_docstring(tree_of(name)) or "").partition("\n")[0] for name in MODULES}
    assert not {name: line for name, line in first.items() if len(line) > LONGEST_FIRST_LINE}
    assert not {name: line for name, line in first.items() if not re.fullmatch(r"(?:[^.]|\.(?! ))+\.", line)}
    assert not [line for line, count in Counter(first.values()).items() if count > 1]


def test_functions_are_short_enough_to_see_whole() -> None:
    lengths = sorted(
        (node.end_lineno - node.lineno + 1, f"{name}.{node.name}")
        for name in MODULES
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    )
    assert not [each for each in lengths if each[0] > LONGEST_FUNCTION]
    assert lengths[int(0.9 * len(lengths))][0] <= LONGEST_FUNCTION_OF_NINE_IN_TEN


def test_packages_show_at_a_glance_what_they_do() -> None:
    sizes = Counter(name.rpartition(".")[0] for name, path in MODULES.items() if path.name != "__init__.py")
    assert not {name: size for name, size in sizes.items() if size > LARGEST_PACKAGE}


def test_few_values_are_dictionaries_of_anything() -> None:
    lines = [
        f"{path}:{number}"
        for path in MODULES.values()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if "dict[str, Any]" in line or "JsonObject" in line
    ]
    assert len(lines) <= MOST_UNTYPED_OBJECTS, lines


def test_every_noqa_has_its_reason() -> None:
    without = [
        f"{path}:{number}"
        for path in MODULES.values()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if "# noqa" in line and not re.search(r"# noqa: [A-Z0-9, ]+ +\(.+\)", line)
    ]
    assert not without


def test_no_class_name_occurs_twice() -> None:
    names = Counter(
        node.name for name in MODULES for node in ast.walk(tree_of(name)) if isinstance(node, ast.ClassDef)
    )
    assert not {name for name, count in names.items() if count > 1}


def test_a_module_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for name, path in MODULES.items():
        if path.name not in {"__init__.py", "__main__.py"}:
            places.setdefault(path.stem, []).append(package_of(name))
    shared = {stem: sorted(found) for stem, found in places.items() if len(found) > 1}
    assert not {stem for stem, found in shared.items() if found != ["api", "cli"]} - SAME_MEANING


def test_late_imports_are_few_and_have_their_reason() -> None:
    """An import under ``if TYPE_CHECKING`` is not inside a function; ruff's PLC0415 demands the noqa with its reason."""
    late = {
        f"{name}:{node.lineno}"
        for name in MODULES
        for function in ast.walk(tree_of(name))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom) and any(_are_ours(imports_of(node)))
    }
    assert len(late) <= MOST_LATE_IMPORTS, sorted(late)


def _are_ours(imported: Iterator[str]) -> Iterator[bool]:
    return (each.split(".")[0] == "torchstone" for each in imported)


def test_everything_is_annotated() -> None:
    """Every parameter and every result; mypy, which is strict, checks that the annotations hold."""
    without = [
        f"{name}.{node.name}"
        for name in MODULES
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_annotated(node)
    ]
    assert not without


def _is_annotated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return function.returns is not None and all(
        each.annotation is not None for each in named if each.arg not in {"self", "cls"}
    )
