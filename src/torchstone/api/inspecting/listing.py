"""``list_benchmarks``: what can be measured: suites, probes, and the benchmarks of targets."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from msgspec import Struct

from torchstone.api.measuring.events import EventWatcher, OnEvent, RunWatcher
from torchstone.api.requests import Texts, make_request
from torchstone.api.showing import show_html, show_text
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import PROBES
from torchstone.measure.plan import Listing
from torchstone.measure.session import Session
from torchstone.measure.targets import Targets, list_built_in, read_listings, resolve_targets
from torchstone.measure.worker_messages import source_messages
from torchstone.reporting.views.result_table import ResultTable
from torchstone.suites import BUILT_IN, load_suite
from torchstone.worker.benchmark_sources import list_packages
from torchstone.worker.protocol.jobs import SurveyJob


class ListRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The targets whose benchmarks to list; without any, the suites and probes."""

    targets: tuple[str, ...] = ()


class SuiteInfo(Struct, frozen=True):
    """A suite: how many benchmarks it has, if that is known, and whether it runs here, or why not."""

    name: str
    benchmarks: str
    runs_here: str
    description: str


class ProbeInfo(Struct, frozen=True):
    """A probe, and whether it runs here, or why not."""

    name: str
    runs_here: str
    description: str


class BenchmarkInfo(Struct, frozen=True):
    """A benchmark: its batch size, if it has one, its modes, and the function of its own metrics."""

    suite: str
    name: str
    batch_size: str
    modes: str
    metrics: str


class ListResult(Struct, frozen=True):
    """What can be measured: the benchmarks of targets, or all suites and probes. ``broken`` are files that could not be imported."""

    suites: tuple[SuiteInfo, ...] = ()
    probes: tuple[ProbeInfo, ...] = ()
    benchmarks: tuple[BenchmarkInfo, ...] = ()
    broken: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 1 if a file could not be imported, else 0."""
        return int(bool(self.broken))

    @property
    def tables(self) -> tuple[ResultTable, ...]:
        """The suites and the probes as tables; or one of the benchmarks."""
        if self.suites:
            return (
                ResultTable(
                    "Suites",
                    ("suite", "benchmarks", "runs here", "description"),
                    [(each.name, each.benchmarks, each.runs_here, each.description) for each in self.suites],
                ),
                ResultTable(
                    "Probes",
                    ("probe", "runs here", "description"),
                    [(each.name, each.runs_here, each.description) for each in self.probes],
                ),
            )
        shown = 5 if any(each.metrics for each in self.benchmarks) else 4
        rows = [
            (each.suite, each.name, each.batch_size, each.modes, each.metrics)[:shown]
            for each in self.benchmarks
        ]
        header = ("suite", "benchmark", "batch", "modes", "own metrics")[:shown]
        return (ResultTable(count_of(len(rows), "benchmark"), header, rows),)

    def __str__(self) -> str:
        return "\n\n".join(show_text(table).rstrip("\n") for table in self.tables)

    def _repr_html_(self) -> str:
        return "".join(map(show_html, self.tables))


def list_benchmarks(targets: Texts = (), *, on_event: OnEvent | None = None) -> ListResult:
    """List the benchmarks of targets, or all suites and probes, as ``torchstone list`` does.

    [each.name for each in torchstone.list_benchmarks("bench_mine.py").benchmarks]
    """
    watcher = EventWatcher(on_event)
    return list_as_requested(make_request(ListRequest, {"targets": targets}), watcher)


def list_as_requested(request: ListRequest, watcher: RunWatcher) -> ListResult:
    """List as requested."""
    if request.targets:
        return _list_targets(resolve_targets(request.targets), watcher)
    suites = [
        SuiteInfo(name, str(len(list_built_in(name))), _state(name), load_suite(name).description)
        for name in BUILT_IN
    ]
    suites += [
        SuiteInfo(name, "", _state_of(["torch"]), "from an installed package") for name in list_packages()
    ]
    probes = tuple(ProbeInfo(probe.value, _state_of(["torch"]), meaning) for probe, meaning in PROBES.items())
    return ListResult(tuple(suites), probes)


def _state(name: str) -> str:
    """Return whether the libraries of a suite are installed. Import errors show only when it is measured."""
    return _state_of(["torch", *load_suite(name).libraries])


def _state_of(libraries: Iterable[str]) -> str:
    """Return whether these libraries are installed, and name each missing package once."""
    packages = dict.fromkeys(library.partition(".")[0] for library in libraries)
    missing = [package for package in packages if not _is_installed(package)]
    return "yes" if not missing else f"no: {' and '.join(missing)} not installed"


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _list_targets(resolved: Targets, watcher: RunWatcher) -> ListResult:
    """Return the benchmarks of targets; files are read by a worker."""
    foreign = [source for source in resolved.sources.values() if source.kind != "suite"]
    listings: list[Listing] = []
    broken: tuple[str, ...] = ()
    for name, source in resolved.sources.items():
        if source.kind == "suite":
            listings += list_built_in(name)
    if foreign:
        with Session("spawn", "cold", watcher.say) as session, watcher.busy("reading the files"):
            session.start_workers([])
            job = SurveyJob(sources=source_messages(foreign), torch=False)
            found = session.survey_targets(resolved, job, keeps_going=True)
            listings += read_listings(found.survey.sources)
            broken = found.broken
    benchmarks = tuple(
        BenchmarkInfo(
            each.suite,
            each.name,
            str(each.batch_size or ""),
            ", ".join(each.modes) or "counted",
            each.metrics,
        )
        for each in listings
    )
    return ListResult(benchmarks=benchmarks, broken=broken)
