"""Find code that measuring a run file again would execute, and which of it the user must trust first.

A run file may come from anywhere. ``list_executed`` collects facts without importing anything; ``find_untrusted`` decides from
these facts alone.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.errors import printable
from torchstone.core.records import Case
from torchstone.core.run_settings import name_choices
from torchstone.core.text.redaction import redact
from torchstone.core.vocabulary import Probe
from torchstone.measure.code.git import ask_git
from torchstone.measure.code.locating import extends_torch, is_installed_suite, locate
from torchstone.measure.measuring import Settings, case_file
from torchstone.measure.targets import hash_file, same_hash
from torchstone.worker.probes.compiler.own_artifacts import is_cache_made_here, is_made_here
from torchstone.worker.worker_environment import is_in_packages, made_here_folder, warm_cache_folder

CHANGED = "changed since the run"
OUTSIDE = "outside this folder and its repository"
NO_HASH = "the run recorded no hash of it"
RELATIVE = "not an absolute path, so it is ambiguous"
NOT_A_FILE = "not a regular file"
NOT_INSTALLED = "no installed package offers it"
FOREIGN_ARTIFACTS = "not created on this machine; loading it can execute code"
PROGRAM = "not a number or boolean, so it may name a program to run"
INSTALLED = "installed, but it registers no backend or device with torch"
NOT_FOUND = "not found, so it is not known what importing it would execute"

# Text options of torch.compile from which torch executes or loads nothing.
_HARMLESS_TEXTS = frozenset(
    {
        "max_autotune_gemm_backends",
        "max_autotune_conv_backends",
        "max_autotune_gemm_search_space",
        "max_autotune_flex_search_space",
        "cpu_backend",
        "cuda_backend",
        "xpu_backend",
        "triton.descriptive_names",
    }
)


class ExecutedItem(Struct, frozen=True):
    """One item that would be executed.

    ``what`` describes it. ``places`` are real paths that must be below a trusted folder; ``recorded`` is its hash in the run, ``present``
    its current one, None if it has no hash. ``problem`` is a reason not to trust it in any case.
    """

    what: str
    places: tuple[str, ...] = ()
    recorded: str | None = None
    present: str | None = None
    problem: str = ""


class UntrustedItem(Struct, frozen=True):
    """One item that is executed only with the user's consent, and why."""

    what: str
    reason: str


def find_untrusted(executed: Iterable[ExecutedItem], roots: Collection[str]) -> list[UntrustedItem]:
    """Return the items that need consent: those that are changed, or not below one of these folders."""
    reasons = ((each.what, _reason(each, roots)) for each in executed)
    return list(dict.fromkeys(UntrustedItem(what, reason) for what, reason in reasons if reason))


def _reason(each: ExecutedItem, roots: Collection[str]) -> str:
    if each.problem:
        return each.problem
    if not all(any(is_below(place, root) for root in roots) for place in each.places):
        return OUTSIDE
    if each.present is None:
        return ""
    if not each.recorded:
        return NO_HASH
    return "" if same_hash(each.recorded, each.present) else CHANGED


def is_below(path: str, folder: str) -> bool:
    """Return whether a real path is a folder, or below it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def trusted_roots() -> list[str]:
    """Return the current folder, and the top of its git repository, if any."""
    top = ask_git(["rev-parse", "--show-toplevel"]).out.strip()
    return list(dict.fromkeys(os.path.realpath(each) for each in (os.getcwd(), top) if each))


def list_executed(settings: Settings, suites: Collection[str]) -> Iterator[ExecutedItem]:
    """Yield what measuring these suites again would execute, according to the settings of a run. Imports nothing."""
    if folder := settings.folder:
        problem = "" if os.path.isabs(folder) else RELATIVE
        yield ExecutedItem(
            f"the folder {_shown(folder)} and everything in it", (os.path.realpath(folder),), problem=problem
        )
    for suite in sorted(suites):
        yield from _of_source(settings.sources[suite])
    for path, recorded in settings.imported.items():
        yield _file(f"the module {_shown(path)}", path, recorded)
    for name in settings.imports:
        yield from _of_module(name, settings)
    yield from _of_folders(settings)
    for name, value in settings.options.items():
        if not _is_harmless(name, value):
            yield ExecutedItem(
                f"the option {_shown(name)}={_shown(str(value))} of torch.compile", problem=PROGRAM
            )


def _of_source(source: BenchmarkSource) -> Iterator[ExecutedItem]:
    """Yield the code of a source. A source that is neither a file nor a package is a built-in suite."""
    if source.is_file:
        yield _file(f"the file {_shown(source.path)}", source.path, source.hash)
    elif source.kind == "package" and not is_installed_suite(source.name):
        yield ExecutedItem(f"the suite {_shown(source.name)} of another package", problem=NOT_INSTALLED)


def _of_module(name: str, settings: Settings) -> Iterator[ExecutedItem]:
    """Yield the files of an ``--import`` module that the run has not recorded; installed modules also execute code on import."""
    recorded = {os.path.realpath(path) for path in settings.imported}
    found = locate(name, settings.folder or os.getcwd())
    if not found.is_complete:
        yield ExecutedItem(f"the module {_shown(name)}", problem=NOT_FOUND)
    elif found.is_installed:
        place = found.files[-1]
        trusted = extends_torch(name) or (place in recorded and not is_in_packages(place))
        problem = "" if trusted else INSTALLED
        yield ExecutedItem(f"the module {_shown(name)} ({_shown(place)})", problem=problem)
        return
    for path in found.files:
        if path not in recorded:
            yield _file(f"the module {_shown(name)} ({_shown(path)})", path, "")


def _of_folders(settings: Settings) -> Iterator[ExecutedItem]:
    """Yield the folders that would be written to, and the warm cache, whose compiled code would be loaded."""
    for folder in (settings.save_outputs, settings.save_artifacts):
        if folder:
            problem = "" if os.path.isabs(folder) else RELATIVE
            yield ExecutedItem(
                f"writing to the folder {_shown(folder)}", (os.path.realpath(folder),), problem=problem
            )
    cache = warm_cache_folder(name_choices(settings))
    if (
        settings.cache == "warm"
        and os.path.lexists(cache)
        and not is_cache_made_here(cache, made_here_folder())
    ):
        yield ExecutedItem(f"the warm cache {_shown(cache)}", problem=FOREIGN_ARTIFACTS)


def _file(what: str, path: str, recorded: str) -> ExecutedItem:
    """Return a file of code. It can import modules beside it, so its folder must be trusted too, both as named and as resolved."""
    if not os.path.isabs(path):
        return ExecutedItem(what, problem=RELATIVE)
    real = os.path.realpath(path)
    places = (real, os.path.realpath(os.path.dirname(path)))
    if not os.path.lexists(path):
        return ExecutedItem(what, places)  # nothing to execute: the worker reports it
    if not os.path.isfile(real):
        return ExecutedItem(what, problem=NOT_A_FILE)
    return ExecutedItem(what, places, recorded, hash_file(real))


def _is_harmless(name: str, value: Any) -> bool:  # noqa: ANN401  (any JSON value)
    return value is None or isinstance(value, bool | int | float) or name in _HARMLESS_TEXTS


def find_artifacts(settings: Settings, cases: Sequence[Case], made_here: str) -> Iterator[ExecutedItem]:
    """Yield artifacts that these cases would load and that were not created on this machine, according to ``made_here``."""
    for case in cases:
        path = case_file(settings.load_artifacts, case, "artifacts")
        if not path or case.probe != Probe.COMPILE_CACHE or not os.path.lexists(path):
            continue
        what = f"the compile artifacts {_shown(path)}"
        if not os.path.isfile(path):
            yield ExecutedItem(what, problem=NOT_A_FILE)
            continue
        with open(path, "rb") as file:
            if not is_made_here(made_here, file.read()):
                yield ExecutedItem(what, problem=FOREIGN_ARTIFACTS)


def record_imported(files: Iterable[str], settings: Settings) -> dict[str, str]:
    """Return the hashes of the user's own modules that a survey imported, without the benchmark files themselves."""
    folder = os.path.realpath(settings.folder or os.getcwd())
    roots = {folder, *trusted_roots()}
    sources = {os.path.realpath(source.path) for source in settings.sources.values() if source.path}
    roots |= {os.path.dirname(path) for path in sources}
    real = {os.path.realpath(file) for file in files} - sources
    own = sorted(path for path in real if any(is_below(path, root) for root in roots))
    return {path: found for path in own if (found := hash_file(path))}


def _shown(text: str) -> str:
    return printable(redact(text), 300)
