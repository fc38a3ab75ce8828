"""What there is to measure: the targets of a command line, as sources and the benchmarks they define."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct, convert

from torchstone.counting import describe_counted
from torchstone.disk import fault_of_file
from torchstone.errors import InputError, UsageError
from torchstone.measure.plan import Listing
from torchstone.measure.sources import Source, list_packages
from torchstone.model import Variant
from torchstone.suites import BUILT_IN, load_suite

LARGEST_SOURCE = 64 << 20
FILE_PATTERN = re.compile(r"bench_.*\.py\Z")


class Targets(Struct, frozen=True):
    """Where the wanted benchmarks come from, by suite, and the ones that were named exactly."""

    sources: dict[str, Source]
    names: tuple[str, ...] = ()


def resolve_targets(targets: Sequence[str]) -> Targets:
    """Suites, files, folders of ``bench_*.py``, and any of these with ``::NAME`` for one benchmark."""
    sources: dict[str, Source] = {}
    names, whole = [], set()
    for target in targets:
        place, _, name = target.partition("::")
        found = _sources_at(place)
        for source in found:
            before = sources.setdefault(source["name"], source)
            if before != source:
                raise UsageError(
                    f"{before.get('path', before['name'])} and {source.get('path', source['name'])} would both be the suite {source['name']}",
                    advice="rename one of the two files, or measure them in two runs",
                )
        suites = [source["name"] for source in found]
        if name:
            names += [f"{suite}::{name}" for suite in suites]
        else:
            whole |= set(suites)
    if names:
        names += [f"{suite}::*" for suite in sorted(whole)]
    return Targets(sources, tuple(names))


def _sources_at(place: str) -> list[Source]:
    if place in BUILT_IN:
        return [{"kind": "suite", "name": place}]
    if os.path.isdir(place):
        return _files_below(place)
    if place.endswith(".py") or os.sep in place:
        return [_file(place)]
    if place in list_packages():
        return [{"kind": "package", "name": place}]
    if os.path.exists(place):
        advice = "measured are suites, files *.py and folders; 'torchstone compare' and 'torchstone check' take results, 'torchstone run --resume' goes on with a run file"
        raise UsageError(f"{place} is no file of benchmarks", advice=advice)
    known = [*BUILT_IN, *list_packages()]
    close = get_close_matches(place, known, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    raise UsageError(
        f"there is no suite, file or folder '{place}'", advice=f"{hint}the suites are {', '.join(known)}"
    )


def _file(path: str) -> Source:
    if not os.path.exists(path):
        raise InputError("no such file", path=path)
    if not path.endswith(".py"):
        raise InputError("expected a Python file with benchmarks in it, such as bench_mine.py", path=path)
    if fault := fault_of_file(path, LARGEST_SOURCE):
        raise InputError(fault, path=path)
    name = os.path.basename(path).removesuffix(".py")
    if name in BUILT_IN:
        raise UsageError(f"{path} would be a second suite {name}", advice="rename the file")
    return {"kind": "file", "name": name, "path": os.path.abspath(path), "hash": hash_file(path)}


def hash_file(path: str) -> str:
    """What changes when a file is edited; empty where it cannot be read, or is no regular file."""
    if fault_of_file(path, LARGEST_SOURCE):
        return ""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        return ""


def _files_below(folder: str) -> list[Source]:
    """The files in a folder and below; folders that are hidden, or hold an installed Python, have nothing of the user's."""
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [
            each
            for each in sorted(folders)
            if not each.startswith((".", "__"))
            and not os.path.exists(os.path.join(where, each, "pyvenv.cfg"))
        ]
        found += [os.path.join(where, name) for name in sorted(names) if FILE_PATTERN.match(name)]
    if not found:
        raise InputError("there is no bench_*.py in this folder", path=folder)
    return [_file(path) for path in found]


def list_built_in(suite: str) -> list[Listing]:
    """The benchmarks of one of our suites, which can be listed without torch."""
    loaded = load_suite(suite)
    models = [
        Listing(
            suite,
            each.name,
            each.batch_size,
            each.accuracy_batch_size,
            each.modes,
            each.takes,
            probes=each.probes,
        )
        for each in loaded.collect()
    ]
    return models + [_counted_listing(suite, describe_counted(each)) for each in loaded.counted()]


def _counted_listing(suite: str, told: dict[str, Any]) -> Listing:
    """Counted work as a listing: what it says of itself are its axes."""
    device = str(told["device"]).partition(":")[0]
    dynamic = told["dynamic"] if isinstance(told["dynamic"], bool) else None
    variant = Variant(device, str(told["backend"] or ""), str(told["mode"] or ""), dynamic=dynamic)
    return Listing(suite, told["name"], counted=variant, measures_itself=bool(told.get("measures_itself")))


def libraries_of(sources: Sequence[Source]) -> list[str]:
    """The libraries of our own suites among these, whose versions belong to the environment."""
    built_in = [source["name"] for source in sources if source["kind"] == "suite"]
    return sorted({library for name in built_in for library in load_suite(name).libraries})


def read_listings(sources: Sequence[dict[str, Any]]) -> list[Listing]:
    """What a survey found, as listings."""
    return [
        listing
        for found in sources
        for suite in [found["source"]["name"]]
        for listing in (
            *(convert({"suite": suite, **benchmark}, Listing) for benchmark in found["benchmarks"]),
            *(_counted_listing(suite, each) for each in found.get("counted", [])),
        )
    ]
