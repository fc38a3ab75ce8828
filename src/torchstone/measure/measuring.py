"""The settings of a run, checked before they are used again, and the jobs made from them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.disk import LARGEST, fault_of_file
from torchstone.core.errors import InputError, UsageError, printable
from torchstone.core.records import Case, Provenance, Run
from torchstone.core.run_settings import GRAPHICS, STRATEGIES, Settings, find_unused_choices
from torchstone.core.text.redaction import was_redacted
from torchstone.core.text.units import count_of, some_of
from torchstone.core.vocabulary import DEFAULT_SCENARIOS, PORTABLE, Probe
from torchstone.measure.targets import LARGEST_SOURCE
from torchstone.measure.worker_messages import source_message
from torchstone.suites import BUILT_IN
from torchstone.worker.protocol.jobs import CaseAxes, CountPlan, MeasureJob, MeasureOptions, TorchSettings

__all__ = [
    "Settings",
    "case_file",
    "check_artifacts",
    "find_setting_cautions",
    "make_job",
    "measures_itself",
    "provenance_of",
    "settings_of_run",
]


def settings_of_run(run: Run, path: str) -> Settings:
    """Return the settings of a run file, to measure it again; raise InputError if that is not possible."""
    settings = run.settings
    if not settings.sources:
        raise InputError(
            "it was not measured by 'torchstone run', so it cannot be measured again",
            path=path,
            line=1,
            column="settings",
        )
    if settings.pairing:
        raise InputError(
            "it was measured by 'torchstone ab' as one of two sides, so it cannot be measured again alone",
            path=path,
            line=1,
            column="settings",
            advice=f"measure both sides again: {settings.pairing.command or 'torchstone ab'}",
        )
    if settings.rest:
        unknown = ", ".join(map(printable, settings.rest))
        raise InputError(f"unknown settings: {unknown}", path=path, line=1, column="settings")
    _check_options(settings, path)
    _check_parts(run, settings, path)
    return settings


def _check_options(settings: Settings, path: str) -> None:
    """Raise InputError if the value of an option was not saved."""
    for name, value in settings.options.items():
        if was_redacted(value):
            raise InputError(
                f"the value of the option {name} was not saved, because it contains credentials",
                path=path,
                line=1,
                column="settings",
                advice="measure it with a new 'torchstone run'",
            )


def _check_parts(run: Run, settings: Settings, path: str) -> None:
    """Raise InputError for invalid sources, rounds and folders: a run file may come from anywhere."""
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
    """Return the invalid axis of a scaling case, with the expected value; empty if there is none."""
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
    """Return why a source cannot be used; a path must be a regular file, not a device or a pipe that never ends."""
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
    """Return whether a case is counted work that measures itself."""
    return case.probe == Probe.INSTRUCTIONS and f"{case.suite}::{case.benchmark}" in settings.self_measured


def find_setting_cautions(
    settings: Settings, cases: Sequence[Case], unlabelled: Sequence[str]
) -> list[Caution]:
    """Say which options override the preset, and which settings of torch have no effect. ``unlabelled`` are benchmarks that cannot be given labels."""
    found = []
    if settings.overrides:
        options = ", ".join(settings.overrides)
        found.append(make_caution(CautionKind.PRESET_OVERRIDDEN, options=options, preset=settings.preset))
    for device in dict.fromkeys(case.variant.device for case in cases):
        if unused := find_unused_choices(settings, device):
            names = ", ".join(unused)
            found.append(make_caution(CautionKind.SETTINGS_NOT_USED, device=device, names=names))
    if settings.labels and unlabelled:
        names = some_of(unlabelled)
        found.append(make_caution(CautionKind.LABELS_NOT_TAKEN, benchmarks=len(unlabelled), names=names))
    return found


def provenance_of(run: Run, case: Case) -> Provenance | None:
    """Return where a case is measured, as far as the environment is known."""
    environment = run.environment
    host, devices = environment.machine.get("host"), environment.accelerators or ()
    on_device = len(devices) == 1 and not case.variant.device.startswith("cpu")
    uuid = devices[0].get("uuid") if on_device else None
    found = Provenance(str(host or ""), device_uuid=str(uuid or ""), shard=run.settings.shard)
    return None if found == Provenance() else found


def make_job(
    case: Case, settings: Settings, start: str, device: str = "", *, shared: bool = False
) -> MeasureJob:
    """Return the job that measures one case, on the device of its plan or another one of its kind.

    If the device is ``shared`` with other workers, its worker asks before it uses an accelerator.
    """
    variant = case.variant
    return MeasureJob(
        source=source_message(settings.sources[case.suite]),
        benchmark=case.benchmark,
        probe=case.probe,
        axes=CaseAxes(
            device or variant.device,
            variant.backend,
            variant.mode,
            variant.dtype,
            variant.dynamic,
            variant.batch_size,
            settings.size or "full",
            settings.compile_mode,
            bool(settings.fullgraph),
            settings.options or None,
            bool(settings.labels),
        ),
        folder=settings.folder or ".",
        imports=tuple(settings.imports),
        options=MeasureOptions(
            settings.threads,
            settings.compile_threads,
            settings.repeat or (settings.pairs if case.probe == Probe.PERFORMANCE else None),
            settings.precision,
            settings.budget,
            case_file(settings.save_outputs, case, "pt"),
            case_file(settings.compare_outputs, case, "pt"),
            settings.batch_invariant,
            settings.profile and case.probe == Probe.PERFORMANCE,
        ),
        start=start,
        cache=settings.cache,
        # A benchmark that measures times needs a real clock: no simulated worker.
        counting=CountPlan(
            "cpu_time" if measures_itself(settings, case) else settings.counter or "",
            settings.repeat,
            settings.profile,
        ),
        torch=_torch_settings(case, settings),
        shares_device=shared and not variant.device.startswith("cpu"),
    )


def _torch_settings(case: Case, settings: Settings) -> TorchSettings:
    """Return the chosen settings of torch, as far as they apply: the accuracy probe always calculates in full precision."""
    if case.variant.device.partition(":")[0] != GRAPHICS:
        return TorchSettings()
    if case.probe == Probe.ACCURACY:
        return TorchSettings(cuda_graphs=settings.cuda_graphs)
    return TorchSettings(settings.tf32, settings.half_reductions, settings.cuda_graphs)


def check_artifacts(settings: Settings, cases: Sequence[Case]) -> None:
    """Raise UsageError if compile artifacts to load are missing: now, not after the cold and warm starts."""
    if not settings.load_artifacts or PORTABLE not in (settings.scenarios or DEFAULT_SCENARIOS):
        return
    loading = [case for case in cases if case.probe == Probe.COMPILE_CACHE]
    paths = {case: case_file(settings.load_artifacts, case, "artifacts") for case in loading}
    faults = {case: fault for case, path in paths.items() if (fault := fault_of_file(path, LARGEST))}
    for case, fault in faults.items():
        place = printable(f"{paths[case]}: {fault} (for {case.id})", 1000)
        raise UsageError(
            f"no compile artifacts to load for {len(faults)} of {count_of(len(loading), 'case')}: {place}",
            advice="artifacts belong to one case: save them first, with --save-artifacts and the same other options",
        )


def case_file(folder: str, case: Case, ending: str) -> str:
    """Return the path for a file of a case: a recognisable name and a unique hash; empty without a folder."""
    if not folder:
        return ""
    plain = re.sub(r"[^\w.-]+", "_", case.benchmark)[:80]
    return os.path.join(folder, f"{plain}-{hashlib.sha256(case.id.encode()).hexdigest()[:10]}.{ending}")
