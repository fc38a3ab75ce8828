"""Resolve the targets of a command line to sources, and list the benchmarks they define."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import re
from collections.abc import Collection, Sequence

from msgspec import Struct

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.disk import fault_of_file
from torchstone.core.errors import InputError, UsageError, printable
from torchstone.core.records import Variant
from torchstone.core.text.suggestions import ask_whether_meant, did_you_mean, find_similar
from torchstone.define.benchmark_base import NAME as BENCHMARK_BASE
from torchstone.measure.plan import Listing
from torchstone.suites import BUILT_IN, load_suite
from torchstone.worker.benchmark_sources import NOTHING_DEFINED, list_packages
from torchstone.worker.protocol.replies import BenchmarkFound, CountedFound, SourceFound
from torchstone.worker.survey import describe, describe_counted

LARGEST_SOURCE = 64 << 20
FILE_PATTERN = re.compile(r"bench_.*\.py\Z")
_SHORT_HASH = 16


_NEVER_MEASURED = {
    "__init__": "it only makes the folder a package",
    BENCHMARK_BASE: "torchstone has its own, which the files beside it import",
}
"""Why files with these names are skipped if there are others."""


class Skipped(Struct, frozen=True):
    """A file that is skipped, and why."""

    path: str
    why: str

    @property
    def line(self) -> str:
        """Return a one-line message."""
        below = os.path.relpath(self.path)
        return f"skipped {printable(self.path if below.startswith(os.pardir) else below)}: {self.why}"


class Targets(Struct, frozen=True):
    """The sources of the benchmarks, by suite, and the names that were given exactly.

    ``skipped`` are files that are not imported. With ``may_skip``, a file that defines no benchmark is skipped too; otherwise it
    is an error.
    """

    sources: dict[str, BenchmarkSource]
    names: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    may_skip: bool = False


def resolve_targets(targets: Sequence[str], elsewhere: Collection[str] = ()) -> Targets:
    """Resolve suites, files and folders, each optionally with ``::NAME`` for one benchmark.

    ``elsewhere`` are files that need not exist here.
    """
    places = {
        place: _sources_at(place, elsewhere) for place in (target.partition("::")[0] for target in targets)
    }
    files = {source.path for found in places.values() for source in found if source.is_file}
    may_skip = len(files) > 1 or any(map(os.path.isdir, places))
    listed = {source.path for place in filter(os.path.isdir, places) for source in places[place]}
    skipped = {path: why for path in sorted(files) if may_skip and (why := _why_skipped(path, listed))}
    sources: dict[str, BenchmarkSource] = {}
    names, whole = [], set()
    for target in targets:
        place, _, name = target.partition("::")
        found = [source for source in places[place] if source.path not in skipped]
        for source in found:
            _add_source(sources, source)
        suites = [source.name for source in found]
        if name:
            names += [f"{suite}::{name}" for suite in suites]
        else:
            whole |= set(suites)
    left_out = tuple(Skipped(*each) for each in skipped.items())
    if targets and not sources:
        raise nothing_defined(left_out)
    if names:
        names += [f"{suite}::*" for suite in sorted(whole)]
    return Targets(sources, tuple(names), left_out, may_skip)


def _add_source(sources: dict[str, BenchmarkSource], source: BenchmarkSource) -> None:
    if source.is_file and source.name in BUILT_IN:
        raise UsageError(
            f"{source.path}: the name {source.name} is taken by a built-in suite",
            advice="rename the file",
        )
    before = sources.setdefault(source.name, source)
    if before != source:
        raise UsageError(
            f"{before.path or before.name} and {source.path or source.name} would both be the suite {source.name}",
            advice="rename one of the two files, or measure them in two runs",
        )


def nothing_defined(skipped: Sequence[Skipped]) -> UsageError:
    """Return the error for files that define no benchmark."""
    return UsageError(
        "none of these files defines a benchmark", advice="; ".join(each.line for each in skipped)
    )


def _sources_at(place: str, elsewhere: Collection[str] = ()) -> list[BenchmarkSource]:
    if place in elsewhere:
        return [BenchmarkSource("file", _suite_of(place), os.path.abspath(place))]
    if place in BUILT_IN:
        return [BenchmarkSource("suite", place)]
    if os.path.isdir(place):
        return _files_below(place)
    if place.endswith(".py") or os.sep in place:
        return [_file(place)]
    if place in list_packages():
        return [BenchmarkSource("package", place)]
    if os.path.exists(place):
        advice = "targets are suites, *.py files and folders; for results use 'torchstone compare' or 'torchstone check', to continue a run file 'torchstone run --resume'"
        raise UsageError(f"{place} is not a file of benchmarks", advice=advice)
    known = [*BUILT_IN, *list_packages()]
    hint = did_you_mean(place, known) or ask_whether_meant(_similar_file(place))
    raise UsageError(
        f"no such suite, file or folder: '{place}'", advice=f"{hint}the suites are {', '.join(known)}"
    )


def _similar_file(path: str) -> str:
    """Return the Python file or folder in the same folder with the most similar name; empty if none is similar."""
    folder, wanted = os.path.split(path)
    try:
        names = sorted(os.listdir(folder or os.curdir))
    except OSError:
        return ""
    by_stem = {
        name.removesuffix(".py"): os.path.join(folder, name)
        for name in names
        if name.endswith(".py") or (name[0] not in "._" and os.path.isdir(os.path.join(folder, name)))
    }
    similar = find_similar(wanted.removesuffix(".py"), by_stem)
    return by_stem[similar[0]] if similar else ""


def _file(path: str) -> BenchmarkSource:
    if not os.path.exists(path):
        raise InputError("no such file", path=path, advice=ask_whether_meant(_similar_file(path)).strip())
    if not path.endswith(".py"):
        raise InputError("expected a Python file with benchmarks, such as bench_mine.py", path=path)
    if fault := fault_of_file(path, LARGEST_SOURCE):
        raise InputError(fault, path=path)
    return BenchmarkSource("file", _suite_of(path), os.path.abspath(path), hash_file(path))


def _suite_of(path: str) -> str:
    return os.path.basename(path).removesuffix(".py")


def hash_file(path: str) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal; empty if it is not a readable regular file."""
    if fault_of_file(path, LARGEST_SOURCE):
        return ""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def same_hash(recorded: str, present: str) -> bool:
    """Return whether a recorded hash matches the current one; earlier versions recorded only its beginning."""
    return present == recorded or (len(recorded) == _SHORT_HASH and present.startswith(recorded))


def _files_below(folder: str) -> list[BenchmarkSource]:
    """Return the benchmark files of a folder: ``bench_*.py`` at any depth, and its own files for ``benchmark_base``.

    If no file is named ``bench_*.py``, return all its ``*.py``. Hidden folders and virtual environments are skipped.
    """
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [
            each
            for each in sorted(folders)
            if not each.startswith((".", "__"))
            and not os.path.exists(os.path.join(where, each, "pyvenv.cfg"))
        ]
        found += [os.path.join(where, name) for name in sorted(names) if FILE_PATTERN.match(name)]
    own = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".py")]
    if found:
        own = [path for path in own if path not in found and BENCHMARK_BASE in (_imports(path) or ())]
    if not found and not own:
        raise InputError("no Python file (*.py) in this folder", path=folder)
    return [_file(path) for path in (*found, *own)]


def _why_skipped(path: str, listed: Collection[str]) -> str:
    """Return why a file is skipped without importing it; empty if it may define a benchmark. ``listed`` are files found in a folder."""
    folder, name = os.path.split(path)
    if why := _NEVER_MEASURED.get(name.removesuffix(".py")):
        return why
    if path not in listed or FILE_PATTERN.match(name):
        return ""
    imports = _imports(path)
    beside = {
        os.path.basename(each).removesuffix(".py") for each in listed if os.path.dirname(each) == folder
    }
    if imports is None or imports & {"torchstone", BENCHMARK_BASE, *beside}:
        return ""
    return NOTHING_DEFINED  # it imports nothing that could define a benchmark


def _imports(path: str) -> set[str] | None:
    """Return the modules that a file imports; None if it cannot be parsed, which is reported when it is imported."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(importlib.util.decode_source(file.read()), path)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module} if node.module else {each.name for each in node.names}
    return {name.partition(".")[0] for name in found}


def list_built_in(suite: str) -> list[Listing]:
    """Return the benchmarks of a built-in suite, without torch."""
    loaded = load_suite(suite)
    models = [_listing(suite, describe(each)) for each in loaded.collect()]
    return models + [_counted_listing(suite, describe_counted(each)) for each in loaded.counted()]


def _counted_listing(suite: str, found: CountedFound) -> Listing:
    """Return the listing of counted work, with its own axes."""
    device = found.device.partition(":")[0]
    variant = Variant(device, found.backend, found.mode, dynamic=found.dynamic)
    return Listing(suite, found.name, counted=variant, measures_itself=found.measures_itself)


def libraries_of(sources: Sequence[BenchmarkSource]) -> list[str]:
    """Return the libraries of built-in suites, whose versions belong to the environment."""
    built_in = [source.name for source in sources if source.kind == "suite"]
    return sorted({library for name in built_in for library in load_suite(name).libraries})


def leave_out_empty(
    targets: Targets, sources: Sequence[SourceFound]
) -> tuple[list[SourceFound], list[Skipped]]:
    """Split surveyed sources into those with benchmarks and skipped files without, if files may be skipped."""
    if not targets.may_skip:
        return list(sources), []
    kept = [found for found in sources if not found.empty]
    empty = [Skipped(found.source.path, found.empty) for found in sources if found.empty]
    if not kept and all(source.is_file for source in targets.sources.values()):
        raise nothing_defined([*targets.skipped, *empty])
    return kept, empty


def read_listings(sources: Sequence[SourceFound]) -> list[Listing]:
    """Convert surveyed sources to listings."""
    listings = []
    for found in sources:
        suite = found.source.name
        listings += [_listing(suite, each) for each in found.benchmarks]
        listings += [_counted_listing(suite, each) for each in found.counted]
    return listings


def _listing(suite: str, found: BenchmarkFound) -> Listing:
    return Listing(
        suite,
        found.name,
        found.batch_size,
        found.accuracy_batch_size,
        found.modes,
        found.takes,
        probes=found.probes,
        metrics=found.metrics,
        dashboard_batch_size=found.dashboard_batch_size,
    )
