"""How a run measures: everything that a case needs besides its own axes, as kept in the run file for resuming and reproducing."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.disk import LARGEST, fault_of_file
from torchstone.core.errors import InputError, UsageError, printable
from torchstone.core.records import Case, Provenance, Run
from torchstone.core.run_settings import STRATEGIES, Settings
from torchstone.core.text.redaction import was_redacted
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import DEFAULT_SCENARIOS, PORTABLE, Probe
from torchstone.measure.targets import LARGEST_SOURCE
from torchstone.suites import BUILT_IN
from torchstone.worker.protocol.jobs import CaseAxes, CountPlan, MeasureJob, MeasureOptions

__all__ = [
    "Settings",
    "case_file",
    "check_artifacts",
    "make_job",
    "measures_itself",
    "provenance_of",
    "settings_of_run",
]


def settings_of_run(run: Run, path: str) -> Settings:
    """The settings that a run file holds; a file that was not measured by torchstone has none to go on with."""
    settings = run.settings
    if not settings.sources:
        raise InputError(
            "it was not measured by 'torchstone run', so there is nothing to measure it again with",
            path=path,
            line=1,
            column="settings",
        )
    if settings.pairing:
        command = settings.pairing.get("command")
        raise InputError(
            "it was measured by 'torchstone ab', beside another side, so it cannot be measured again alone",
            path=path,
            line=1,
            column="settings",
            advice=f"both sides again: {command or 'torchstone ab'}",
        )
    if settings.rest:
        unknown = ", ".join(map(printable, settings.rest))
        raise InputError(
            f"settings that this torchstone does not know: {unknown}", path=path, line=1, column="settings"
        )
    _check_options(settings, path)
    _check_parts(run, settings, path)
    return settings


def _check_options(settings: Settings, path: str) -> None:
    """Refuse options whose values the run file does not hold."""
    for name, value in settings.options.items():
        if was_redacted(value):
            raise InputError(
                f"the value of the option {name} was not kept, because it has credentials in it",
                path=path,
                line=1,
                column="settings",
                advice="measure it with a new 'torchstone run'",
            )


def _check_parts(run: Run, settings: Settings, path: str) -> None:
    """Refuse sources, rounds and folders that cannot be meant: a run file may come from anywhere."""
    for suite in {case.suite: None for case in run.plan} | settings.sources:
        if problem := _fault_of_source(settings.sources.get(suite, BenchmarkSource())):
            raise InputError(
                f"the suite {suite}: {problem}", path=path, line=1, column=f"settings.sources.{suite}"
            )
    for case in run.plan:
        if problem := _fault_of_round(case):
            raise InputError(f"{printable(case.id)}: {problem}", path=path, line=1, column="plan")
    for name in ("folder", "save_outputs", "compare_outputs", "save_artifacts", "load_artifacts"):
        folder = getattr(settings, name)
        if "\0" in folder or (os.path.exists(folder) and not os.path.isdir(folder)):
            raise InputError(f"not a folder: {folder}", path=path, line=1, column=f"settings.{name}")
    for name, texts in (("imports", settings.imports), ("imported", settings.imported)):
        if any("\0" in text for text in texts):
            raise InputError("NUL in the name of a module", path=path, line=1, column=f"settings.{name}")


def _fault_of_round(case: Case) -> str:
    """The axis of a scaling case that cannot be meant, with what was expected; empty for all other cases."""
    if case.probe != Probe.SCALING:
        return ""
    axes = dict(case.variant.further)
    ranks, bucket = axes.get("ranks", "1"), axes.get("bucket_mb", "1")
    if axes.get("strategy") not in STRATEGIES:
        return f"strategy={axes.get('strategy')}, expected one of {', '.join(STRATEGIES)}"
    if not (re.fullmatch("[0-9]{1,5}", ranks) and 1 <= int(ranks) <= 65_536):
        return f"ranks={ranks}, expected a number from 1 to 65536"
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?(e[-+]?[0-9]{1,2})?", bucket) or float(bucket) <= 0:
        return f"bucket_mb={bucket}, expected a number above 0"
    return ""


def _fault_of_source(source: BenchmarkSource) -> str:
    """Why benchmarks cannot come from there; what a file names must be a file, not a device or a pipe that never ends."""
    if not source.kind or not source.name:
        return "the source has no kind or no name"
    match source.kind:
        case "suite" if source.name not in BUILT_IN:
            return f"there is no suite {source.name}; there are {', '.join(BUILT_IN)}"
        case "suite" | "package":
            return ""
        case "file":
            place = source.path
            fault = fault_of_file(place, LARGEST_SOURCE) if place else "no path"
            return f"{place}: {fault}" if fault else ""
        case kind:
            return f"unknown source kind '{kind}': expected suite, file or package"


def measures_itself(settings: Settings, case: Case) -> bool:
    """Whether a case is counted work that measures itself."""
    return case.probe == Probe.INSTRUCTIONS and f"{case.suite}::{case.benchmark}" in settings.self_measured


def provenance_of(run: Run, case: Case) -> Provenance | None:
    """Where a case of a run is measured, as far as the environment says so."""
    environment = run.environment
    host, devices = environment.machine.get("host"), environment.accelerators or ()
    on_device = len(devices) == 1 and not case.variant.device.startswith("cpu")
    uuid = devices[0].get("uuid") if on_device else None
    found = Provenance(str(host or ""), device_uuid=str(uuid or ""), shard=run.settings.shard)
    return None if found == Provenance() else found


def make_job(case: Case, settings: Settings, start: str) -> MeasureJob:
    """What a worker is told to measure one case."""
    variant = case.variant
    return MeasureJob(
        source=settings.sources[case.suite],
        benchmark=case.benchmark,
        probe=case.probe,
        axes=CaseAxes(
            variant.device,
            variant.backend,
            variant.mode,
            variant.dtype,
            variant.dynamic,
            variant.batch_size,
            settings.size or "full",
            settings.compile_mode,
            bool(settings.fullgraph),
            settings.options or None,
        ),
        folder=settings.folder or ".",
        imports=tuple(settings.imports),
        options=MeasureOptions(
            settings.threads,
            settings.compile_threads,
            settings.repeat,
            settings.precision,
            settings.budget,
            case_file(settings.save_outputs, case, "pt"),
            case_file(settings.compare_outputs, case, "pt"),
            settings.batch_invariant,
        ),
        start=start,
        cache=settings.cache,
        # Whoever measures times needs a worker whose clock is right: no simulated one.
        counting=CountPlan(
            "cpu_time" if measures_itself(settings, case) else settings.counter or "",
            settings.repeat,
            settings.profile,
        ),
    )


def check_artifacts(settings: Settings, cases: Sequence[Case]) -> None:
    """Refuse to load compile artifacts for cases of which there are none: better now than after their cold and warm starts."""
    if not settings.load_artifacts or PORTABLE not in (settings.scenarios or DEFAULT_SCENARIOS):
        return
    loading = [case for case in cases if case.probe == Probe.COMPILE_CACHE]
    paths = {case: case_file(settings.load_artifacts, case, "artifacts") for case in loading}
    faults = {case: fault for case, path in paths.items() if (fault := fault_of_file(path, LARGEST))}
    for case, fault in faults.items():
        place = printable(f"{paths[case]}: {fault} (for {case.id})", 1000)
        raise UsageError(
            f"no compile artifacts to load for {len(faults)} of {count_of(len(loading), 'case')}: {place}",
            advice="artifacts belong to one case: save them first, with --save-artifacts and otherwise the same options",
        )


def case_file(folder: str, case: Case, ending: str) -> str:
    """Where something of a case is kept: a name people recognise, and a hash that makes it unique; empty where there is no folder."""
    if not folder:
        return ""
    plain = re.sub(r"[^\w.-]+", "_", case.benchmark)[:80]
    return os.path.join(folder, f"{plain}-{hashlib.sha256(case.id.encode()).hexdigest()[:10]}.{ending}")
