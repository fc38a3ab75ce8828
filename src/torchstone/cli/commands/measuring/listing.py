"""``torchstone list``: list suites, probes and benchmarks, and whether they run on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.util import find_spec

from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import Option
from torchstone.cli.terminal.output import write_data
from torchstone.cli.terminal.run_display import make_display
from torchstone.cli.terminal.tables import print_table
from torchstone.core.text.safe_text import escape_json
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import PROBES
from torchstone.measure.plan import Listing
from torchstone.measure.session import Session
from torchstone.measure.targets import list_built_in, read_listings, resolve_targets
from torchstone.measure.worker_messages import source_messages
from torchstone.suites import BUILT_IN, load_suite
from torchstone.worker.benchmark_sources import list_packages
from torchstone.worker.protocol.jobs import SurveyJob

OPTIONS = (Option("--json", "as_json", "", "Print as JSON."),)


def list_all(targets: tuple[str, ...], *, as_json: bool) -> int:
    """List suites and probes, or the benchmarks of TARGETS.

    \b
    Examples:
      torchstone list
      torchstone list huggingface
      torchstone list bench_mine.py
    """
    if targets:
        return _list_benchmarks(targets, as_json=as_json)
    suites = [
        [name, str(len(list_built_in(name))), _state(name), load_suite(name).description] for name in BUILT_IN
    ]
    suites += [[name, "", _state_of(["torch"]), "from an installed package"] for name in list_packages()]
    probes = [[probe.value, _state_of(["torch"]), meaning] for probe, meaning in PROBES.items()]
    if as_json:
        _print_json(
            {
                "suites": _records(suites, "name", "benchmarks", "runs_here", "description"),
                "probes": _records(probes, "name", "runs_here", "description"),
            }
        )
        return 0
    print_table(["suite", "benchmarks", "runs here", "description"], suites, title="Suites")
    print()
    print_table(["probe", "runs here", "description"], probes, title="Probes")
    return 0


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


def _list_benchmarks(targets: tuple[str, ...], *, as_json: bool) -> int:
    resolved = resolve_targets(targets)
    foreign = [source for source in resolved.sources.values() if source.kind != "suite"]
    listings: list[Listing] = []
    broken: tuple[str, ...] = ()
    for name, source in resolved.sources.items():
        if source.kind == "suite":
            listings += list_built_in(name)
    if foreign:
        display = make_display()
        with Session("spawn", "cold", display.say) as session, display.busy("reading the files"):
            session.start_workers([])
            job = SurveyJob(sources=source_messages(foreign), torch=False)
            found = session.survey_targets(resolved, job, keeps_going=True)
            listings += read_listings(found.survey.sources)
            broken = found.broken
    rows = [
        [each.suite, each.name, str(each.batch_size or ""), ", ".join(each.modes) or "counted", each.metrics]
        for each in listings
    ]
    if as_json:
        _print_json(_records(rows, "suite", "name", "batch_size", "modes", "metrics"))
    else:
        shown = 5 if any(each.metrics for each in listings) else 4
        head = ["suite", "benchmark", "batch", "modes", "own metrics"][:shown]
        print_table(head, [row[:shown] for row in rows], title=count_of(len(rows), "benchmark"))
    return 1 if broken else 0


def _records(rows: list[list[str]], *names: str) -> list[dict[str, str]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def _print_json(value: object) -> None:
    write_data(escape_json(json.dumps(value, indent=2)) + "\n")


list_command = make_command("list", list_all, OPTIONS, "[TARGETS]...", required=False, bare=True)
