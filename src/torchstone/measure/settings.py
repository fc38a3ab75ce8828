"""How a run measures: everything that a case needs besides its own axes, as kept in the run file for resuming and reproducing."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

import msgspec

from torchstone.errors import InputError
from torchstone.model import Case, Run
from torchstone.redaction import was_redacted
from torchstone.vocabulary import Probe

STARTS = ("auto", "fork", "spawn")
CACHES = ("cold", "warm")


class Settings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a run was asked for. ``sources`` says, by suite, where its benchmarks come from; ``folder`` is where paths start.

    ``imported`` are the user's own modules that the sources and ``imports`` import, each with the SHA-256 of its content.
    ``ranks`` to ``rank_threads`` are those of the scaling probe, ``rank_threads`` filled in by the machine where nobody says it.
    ``layout`` is what rounds were planned for: how many hosts, and ranks on each. ``self_measured`` names counted work, as ``suite::name``, that measures itself.
    ``pairing`` is what 'torchstone ab' notes: which side this was, what makes it that side, and how the two were compared.
    """

    sources: dict[str, dict[str, str]] = {}
    folder: str = ""
    imports: tuple[str, ...] = ()
    imported: dict[str, str] = {}
    start: str = "auto"
    cache: str = "cold"
    threads: int | None = None
    compile_threads: int | None = None
    jobs: int | None = None
    timeout: float = 1800.0
    memory_limit: int | None = None
    repeat: int | None = None
    trials: int | None = None
    precision: float | None = None
    budget: float | None = None
    size: str = "full"
    compile_mode: str | None = None
    fullgraph: bool = False
    options: dict[str, Any] = {}
    save_outputs: str = ""
    compare_outputs: str = ""
    batch_invariant: bool = False
    scenarios: tuple[str, ...] = ()
    save_artifacts: str = ""
    load_artifacts: str = ""
    counter: str = ""
    profile: bool = False
    pairing: dict[str, Any] = {}
    ranks: tuple[int, ...] = ()
    strategies: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    collective: str = ""
    collective_timeout: float | None = None
    warm_up: int | None = None
    rank_threads: int | None = None
    layout: tuple[int, int] | None = None
    self_measured: tuple[str, ...] = ()

    def leaves_measuring_to(self, case: Case) -> bool:
        """Whether a case is counted work that measures itself."""
        return case.probe == Probe.INSTRUCTIONS and f"{case.suite}::{case.benchmark}" in self.self_measured


def settings_of_run(run: Run, path: str) -> Settings:
    """The settings that a run file holds; a file that was not measured by torchstone has none to go on with."""
    if not run.settings.get("sources"):
        raise InputError(
            "it was not measured by 'torchstone run', so there is nothing to measure it again with",
            path=path,
            line=1,
            column="settings",
        )
    if run.settings.get("pairing"):
        raise InputError(
            "it was measured by 'torchstone ab', beside another side, so it cannot be measured again alone",
            path=path,
            line=1,
            column="settings",
            advice=f"both sides again: {run.settings['pairing'].get('command', 'torchstone ab')}",
        )
    try:
        settings = msgspec.convert(run.settings, Settings)
    except msgspec.ValidationError as error:
        raise InputError(f"settings that this torchstone does not know: {error}", path=path, line=1) from None
    for name, value in settings.options.items():
        if was_redacted(value):
            raise InputError(
                f"the value of the option {name} was not kept, for it has credentials in it",
                path=path,
                line=1,
                column="settings",
                advice="measure it with a new 'torchstone run'",
            )
    for case in run.plan:
        if not {"kind", "name"} <= settings.sources.get(case.suite, {}).keys():
            raise InputError(
                f"nothing says where the suite {case.suite} comes from", path=path, line=1, column="settings"
            )
    return settings


def make_job(case: Case, settings: Settings, start: str) -> dict[str, Any]:
    """What a worker is told to measure one case."""
    variant = case.variant
    return {
        "job": "measure",
        "source": settings.sources[case.suite],
        "folder": settings.folder or ".",
        "imports": list(settings.imports),
        "benchmark": case.benchmark,
        "probe": case.probe,
        "variant": {
            "device": variant.device,
            "backend": variant.backend,
            "mode": variant.mode,
            "dtype": variant.dtype,
            "dynamic": variant.dynamic,
            "batch_size": variant.batch_size,
            "size": settings.size,
            "compile_mode": settings.compile_mode,
            "fullgraph": settings.fullgraph,
            "options": settings.options or None,
        },
        "settings": {
            "threads": settings.threads,
            "compile_threads": settings.compile_threads,
            "repeat": settings.repeat,
            "precision": settings.precision,
            "budget": settings.budget,
            "save_outputs": case_file(settings.save_outputs, case, "pt"),
            "compare_outputs": case_file(settings.compare_outputs, case, "pt"),
            "batch_invariant": settings.batch_invariant,
        },
        "identity": {"start": start, "cache": settings.cache},
        "counting": {
            # Whoever measures times needs a worker whose clock is right: no simulated one.
            "counter": "cpu_time" if settings.leaves_measuring_to(case) else settings.counter,
            "iterations": settings.repeat,
            "profile": settings.profile,
        },
    }


def case_file(folder: str, case: Case, ending: str) -> str:
    """Where something of a case is kept: a name people recognise, and a hash that makes it unique; empty where there is no folder."""
    if not folder:
        return ""
    plain = re.sub(r"[^\w.-]+", "_", case.benchmark)[:80]
    return os.path.join(folder, f"{plain}-{hashlib.sha256(case.id.encode()).hexdigest()[:10]}.{ending}")
