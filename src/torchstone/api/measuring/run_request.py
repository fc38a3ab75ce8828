"""The request of ``run``, and the part of it that ``ab`` and ``selftest`` share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypedDict

from msgspec import Struct

from torchstone.api.requests import Path, Sources, Texts
from torchstone.api.sources import Input


class CaseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cases to measure, and settings of their workers. Times are in seconds, sizes in bytes; None means the default.

    ``preset`` names a set of options, which options given beside it override.
    """

    targets: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    dynamics: tuple[bool | None, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    size: str = "full"
    compile_mode: str | None = None
    compile_options: tuple[tuple[str, str], ...] = ()
    fullgraph: bool = False
    preset: str = ""
    tf32: bool | None = None
    half_reductions: bool | None = None
    cuda_graphs: bool | None = None
    labels: bool | None = None
    batch_set: str = ""
    filters: tuple[str, ...] = ()
    exclusions: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    threads: int | None = None
    compile_threads: int | None = None
    timeout: float | None = None
    memory_limit: int | None = None
    start: str = "auto"
    imports: tuple[str, ...] = ()


class CaseOptions(TypedDict, total=False):
    """Options that ``run``, ``ab`` and ``selftest`` share, explained in docs/run.md."""

    devices: Texts
    backends: Texts
    modes: Texts
    dtypes: Texts
    dynamics: bool | Collection[bool | None]
    batch_sizes: int | Collection[int]
    size: str
    compile_mode: str
    compile_options: Mapping[str, object]
    fullgraph: bool
    preset: str
    tf32: bool
    half_reductions: bool
    cuda_graphs: bool
    labels: bool
    batch_set: str
    filters: Texts
    exclusions: Texts
    only: Texts
    threads: int
    compile_threads: int
    timeout: float
    memory_limit: int
    start: str
    imports: Texts


class RunRequest(CaseRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Targets and settings of a run. Times are in seconds, sizes in bytes, shares between 0 and 1; None means the default.

    ``csv``, ``v3`` and ``ddp_json`` name further files to write; ``resume`` is a run file to finish, with its own settings.
    With ``baselines``, the results are judged by a ``policy``; with ``decide``, what is red or undecided is measured again for up to ``decide_within`` seconds.
    ``store`` is that of the baseline ``history``.
    """

    probes: tuple[str, ...] = ()
    shard: tuple[int, int] | None = None
    durations: tuple[Input, ...] = ()
    repeat: int | None = None
    trials: int | None = None
    precision: float | None = None
    budget: float | None = None
    jobs: int | None = None
    cache: str = "cold"
    save_outputs: str = ""
    compare_outputs: str = ""
    batch_invariant: bool = False
    scenarios: tuple[str, ...] = ()
    save_artifacts: str = ""
    load_artifacts: str = ""
    counter: str = ""
    profile: bool = False
    ranks: tuple[int, ...] = ()
    strategies: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    collective: str = ""
    collective_timeout: float | None = None
    warm_up: int | None = None
    output: str = ""
    force: bool = False
    csv: str = ""
    raw_cells: bool = False
    ddp_json: str = ""
    v3: str = ""
    label: str = ""
    resume: str = ""
    trust: bool = False
    baselines: tuple[Input, ...] = ()
    policy: str = ""
    decide: bool = False
    decide_within: float | None = None
    store: str = ""


class RunOptions(CaseOptions, total=False):
    """Options of ``run``, ``stream`` and ``plan``, explained in docs/run.md."""

    probes: Texts
    shard: tuple[int, int]
    durations: Sources
    repeat: int
    trials: int
    precision: float
    budget: float
    jobs: int
    cache: str
    save_outputs: Path
    compare_outputs: Path
    batch_invariant: bool
    scenarios: Texts
    save_artifacts: Path
    load_artifacts: Path
    counter: str
    profile: bool
    ranks: int | Collection[int]
    strategies: Texts
    buckets: float | Collection[float]
    collective: str
    collective_timeout: float
    warm_up: int
    output: Path
    force: bool
    csv: Path
    raw_cells: bool
    ddp_json: Path
    v3: Path
    label: str
    resume: Path
    trust: bool
    baselines: Sources
    policy: str
    decide: bool
    decide_within: float
    store: str


RESUMABLE = frozenset(
    {"resume", "trust", "csv", "raw_cells", "v3", "ddp_json", "jobs", "timeout", "memory_limit"}
    | {"baselines", "policy", "decide", "decide_within", "store"}
)
"""Fields that may be set when a run is resumed; all others are in its file."""
