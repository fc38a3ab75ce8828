"""Load benchmarks in the worker: from a built-in suite, a user's file, or a suite of an installed package."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from types import ModuleType

from torchstone.core.text.safe_text import summarise_error
from torchstone.define import benchmark_base
from torchstone.define.benchmarks import Benchmark, DefinitionError, Suite, take_defined
from torchstone.define.counted import Counted, take_counted
from torchstone.suites import BUILT_IN, ENTRY_POINTS, load_suite
from torchstone.worker import pr_time_files
from torchstone.worker.failures import is_torch_missing
from torchstone.worker.protocol.replies import ErrorReply
from torchstone.worker.protocol.source_message import SourceMessage

__all__ = [
    "EmptySourceError",
    "SourceError",
    "find_measured",
    "import_modules",
    "list_packages",
    "load_source",
    "prepare",
]

NOTHING_DEFINED = "no benchmark is defined in it"

default_threads: int | None = (
    None  # torch's own default, recorded by a zygote before it reduces itself to one thread
)


class SourceError(Exception):
    """Raised for a source that cannot be used: what is wrong and where, for its author."""

    def __init__(
        self, message: str, path: str = "", line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.path, self.line, self.column = message, path, line, column

    def reply(self) -> ErrorReply:
        """Return the error as a reply to the parent."""
        missing = is_torch_missing(self)
        return ErrorReply(self.message, self.path, self.line, self.column, torch_missing=missing)


class EmptySourceError(SourceError):
    """Raised for a file that defines no benchmark: ``why``, and what to do about it."""

    def __init__(self, why: str, advice: str, path: str) -> None:
        super().__init__(f"{why}: {advice}" if advice else why, path)
        self.why = why


def load_source(source: SourceMessage, wanted: str = "") -> Suite:
    """Load the suite of a source. If only one benchmark is ``wanted``, others may be left out."""
    if source.is_file:
        return _load_file(source.path, source.name, wanted)
    if source.kind == "package":
        return _load_package(source.name)
    return load_suite(source.name)


def find_measured(source: SourceMessage, name: str, probe: str) -> Benchmark | Counted:
    """Return a benchmark by name; for the instructions probe, counted work of this name takes precedence."""
    suite = load_source(source, name)
    work: Sequence[Counted] = suite.counted() if probe == "instructions" else ()
    found: list[Benchmark | Counted] = [*work, *suite.collect()]
    for each in found:
        if each.name == name:
            return each
    raise SourceError(f"there is no benchmark '{name}' in {suite.name} (any more)", source.path)


def import_modules(names: Sequence[str], folder: str) -> None:
    """Import the modules of --import, such as a backend or a device; the user's folder is searched too."""
    if names and folder not in sys.path:
        sys.path.append(folder)
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            raise SourceError(f"--import {name}: {_describe_error(error)}") from error


def prepare(suite: Suite) -> list[str]:
    """Import what a suite needs; return the problems. Models that need a missing library report it again."""
    problems = []
    try:
        if suite.prepare:
            suite.prepare()
        for library in suite.libraries:
            importlib.import_module(library)
    except Exception as error:  # noqa: BLE001  (a broken library is a reason, not a crash)
        problems.append(f"{type(error).__name__}: {error}")
    return problems


def _load_file(path: str, name: str, wanted: str = "") -> Suite:
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    take_defined()
    take_counted()
    pr_time_files.provide_benchmark_base()
    module = _import_file(path, name)
    defined, work = take_defined(), take_counted()
    is_original = pr_time_files.is_written_for(module)
    if is_original:
        work += _list_original(module, path, wanted)
    if not defined and not work:
        why, advice = NOTHING_DEFINED, ""
        if is_original:
            why += f": {pr_time_files.why_empty(module, path)}"
        else:
            advice = "decorate a function with @torchstone.benchmark, or with @torchstone.counted to count its instructions"
        raise EmptySourceError(why, advice, path)
    _refuse_duplicates([*(each.name for each in defined), *(each.name for each in work)], path)
    return Suite(name, f"the benchmarks in {path}", lambda: defined, counted=lambda: work)


def _import_file(path: str, name: str) -> ModuleType:
    if name == benchmark_base.NAME:
        raise SourceError(
            "this is the module that benchmark files import, and torchstone has its own: name the benchmark files, or their folder",
            path,
        )
    present = sys.modules.get(name)
    if present is not None and getattr(present, "__file__", "") != path:
        raise SourceError(f"its name hides the module {name}, which is in use here: rename the file", path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SourceError("not a Python file", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise SourceError(
            f"syntax error: {error.msg}", error.filename or path, error.lineno, error.offset
        ) from error
    except DefinitionError as error:
        raise SourceError(str(error), *_place(error, path)) from error
    except BaseException as error:
        raise SourceError(f"importing it raised {_describe_error(error)}", *_place(error, path)) from error
    return module


def _list_original(module: ModuleType, path: str, wanted: str) -> list[Counted]:
    """Return what a file written for ``pr_time_benchmarks`` measures, by running its main()."""
    try:
        return pr_time_files.list_counted(module, path, wanted)
    except DefinitionError as error:
        raise SourceError(str(error), *_place(error, path)) from error
    except BaseException as error:
        raise SourceError(
            f"running its main() raised {_describe_error(error)}", *_place(error, path)
        ) from error


def _refuse_duplicates(names: Sequence[str], path: str) -> None:
    """Refuse two benchmarks with the same name, from two decorators or from a decorator and main()."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SourceError(f"{twice} is defined twice: give one of the two another name", path)


def _load_package(name: str) -> Suite:
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            try:
                suite = entry.load()
            except BaseException as error:
                raise SourceError(
                    f"the suite {name} of {entry.value} cannot be loaded: {_describe_error(error)}"
                ) from error
            if not isinstance(suite, Suite):
                raise SourceError(f"{entry.value} is a {type(suite).__name__}, not a torchstone.Suite")
            return suite
    raise SourceError(f"no installed package offers a suite '{name}'")


def list_packages() -> list[str]:
    """Return the names of the suites of installed packages, without loading them."""
    return sorted({entry.name for entry in metadata.entry_points(group=ENTRY_POINTS)} - set(BUILT_IN))


def _describe_error(error: BaseException) -> str:
    try:
        text = summarise_error(str(error))
    except Exception:  # noqa: BLE001  (an exception may fail even at this)
        text = "(its message cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place(error: BaseException, path: str) -> tuple[str, int | None]:
    """Return the file, and the innermost line of it that led to the error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return (path, frames[-1].lineno) if frames else (path, None)
