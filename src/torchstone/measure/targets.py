"""What there is to measure: the targets of a command line, as sources and the benchmarks they define."""

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
from torchstone.worker.protocol.replies import BenchmarkFound, CountedFound, SourceFound
from torchstone.worker.sources import NOTHING_DEFINED, list_packages
from torchstone.worker.survey import describe, describe_counted

LARGEST_SOURCE = 64 << 20
FILE_PATTERN = re.compile(r"bench_.*\.py\Z")
_SHORT_HASH = 16


_NEVER_MEASURED = {
    "__init__": "it only makes the folder a package",
    BENCHMARK_BASE: "torchstone has its own, which the files beside it import",
}
"""Why files of these names are left out where there are others."""


class Skipped(Struct, frozen=True):
    """A file that is left out, and why."""

    path: str
    why: str

    @property
    def line(self) -> str:
        """One line that says so."""
        below = os.path.relpath(self.path)
        return f"skipped {printable(self.path if below.startswith(os.pardir) else below)}: {self.why}"


class Targets(Struct, frozen=True):
    """Where the wanted benchmarks come from, by suite, and the ones that were named exactly.

    ``skipped`` are files that are not even imported. With ``may_skip`` a file that defines no benchmark is left out too; it is an error where no other file was meant.
    """

    sources: dict[str, BenchmarkSource]
    names: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    may_skip: bool = False


def resolve_targets(targets: Sequence[str]) -> Targets:
    """Suites, files, folders, and any of these with ``::NAME`` for one benchmark."""
    places = {place: _sources_at(place) for place in (target.partition("::")[0] for target in targets)}
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
    """The error for files of which none defines a benchmark."""
    return UsageError(
        "none of these files defines a benchmark", advice="; ".join(each.line for each in skipped)
    )


def _sources_at(place: str) -> list[BenchmarkSource]:
    if place in BUILT_IN:
        return [BenchmarkSource("suite", place)]
    if os.path.isdir(place):
        return _files_below(place)
    if place.endswith(".py") or os.sep in place:
        return [_file(place)]
    if place in list_packages():
        return [BenchmarkSource("package", place)]
    if os.path.exists(place):
        advice = "measured are suites, files *.py and folders; 'torchstone compare' and 'torchstone check' take results, 'torchstone run --resume' goes on with a run file"
        raise UsageError(f"{place} is no file of benchmarks", advice=advice)
    known = [*BUILT_IN, *list_packages()]
    hint = did_you_mean(place, known) or ask_whether_meant(_similar_file(place))
    raise UsageError(
        f"there is no suite, file or folder '{place}'", advice=f"{hint}the suites are {', '.join(known)}"
    )


def _similar_file(path: str) -> str:
    """The Python file or folder whose name is most like the last part of this path, in the same folder; empty if none is like it."""
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
        raise InputError("expected a Python file with benchmarks in it, such as bench_mine.py", path=path)
    if fault := fault_of_file(path, LARGEST_SOURCE):
        raise InputError(fault, path=path)
    name = os.path.basename(path).removesuffix(".py")
    return BenchmarkSource("file", name, os.path.abspath(path), hash_file(path))


def hash_file(path: str) -> str:
    """The SHA-256 of a file's content, in hexadecimal; empty where there is no regular file that can be read."""
    if fault_of_file(path, LARGEST_SOURCE):
        return ""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def same_hash(recorded: str, present: str) -> bool:
    """Whether a recorded hash is that of the present content; runs of earlier versions recorded only its beginning."""
    return present == recorded or (len(recorded) == _SHORT_HASH and present.startswith(recorded))


def _files_below(folder: str) -> list[BenchmarkSource]:
    """The benchmark files of a folder: ``bench_*.py`` in it and below, and its own files for ``benchmark_base``; where no file is named so, all its ``*.py``.

    Folders that are hidden, or hold an installed Python, have nothing of the user's.
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
        raise InputError("there is no Python file (*.py) in this folder", path=folder)
    return [_file(path) for path in (*found, *own)]


def _why_skipped(path: str, listed: Collection[str]) -> str:
    """Why a file is left out without being imported; empty where it may define a benchmark. ``listed`` are files that nobody named: they are in a folder."""
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
    return NOTHING_DEFINED  # it imports neither torchstone nor what else could define one


def _imports(path: str) -> set[str] | None:
    """The names of the modules that a file imports; None where it cannot be read as Python, which whoever imports it will say."""
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
    """The benchmarks of one of our suites, which can be listed without torch."""
    loaded = load_suite(suite)
    models = [_listing(suite, describe(each)) for each in loaded.collect()]
    return models + [_counted_listing(suite, describe_counted(each)) for each in loaded.counted()]


def _counted_listing(suite: str, found: CountedFound) -> Listing:
    """Counted work as a listing: what it says of itself are its axes."""
    device = found.device.partition(":")[0]
    variant = Variant(device, found.backend, found.mode, dynamic=found.dynamic)
    return Listing(suite, found.name, counted=variant, measures_itself=found.measures_itself)


def libraries_of(sources: Sequence[BenchmarkSource]) -> list[str]:
    """The libraries of our own suites among these, whose versions belong to the environment."""
    built_in = [source.name for source in sources if source.kind == "suite"]
    return sorted({library for name in built_in for library in load_suite(name).libraries})


def leave_out_empty(
    targets: Targets, sources: Sequence[SourceFound]
) -> tuple[list[SourceFound], list[Skipped]]:
    """What a survey found, less the files that define no benchmark where these may be left out, and these."""
    if not targets.may_skip:
        return list(sources), []
    kept = [found for found in sources if not found.empty]
    empty = [Skipped(found.source.path, found.empty) for found in sources if found.empty]
    if not kept and all(source.is_file for source in targets.sources.values()):
        raise nothing_defined([*targets.skipped, *empty])
    return kept, empty


def read_listings(sources: Sequence[SourceFound]) -> list[Listing]:
    """What a survey found, as listings."""
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
    )
