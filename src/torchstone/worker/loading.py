"""Load the benchmark of a job, after applying the job's threads, caches and variables to this process."""

from __future__ import annotations

import contextlib
import os

from torchstone.define.benchmarks import Benchmark
from torchstone.define.counted import Counted
from torchstone.worker import worker_environment
from torchstone.worker.benchmark_sources import find_measured, import_modules, load_source, prepare
from torchstone.worker.protocol.jobs import MeasureJob
from torchstone.worker.torch_code import apply_torch_settings


def load_measured(job: MeasureJob) -> Benchmark | Counted:
    """Apply the settings of a job to this process, and return its benchmark."""
    with contextlib.suppress(OSError):
        os.chdir(job.folder)
    _apply_settings(job)
    import_modules(job.imports, job.folder)
    if not job.source.is_file:
        prepare(load_source(job.source))
    return find_measured(job.source, job.benchmark, job.probe)


def _apply_settings(job: MeasureJob) -> None:
    """Set the threads and caches of this case; the process it was forked from has one thread and the template's caches."""
    import torch  # noqa: PLC0415  (importing this module must not load torch)
    import torch._inductor.codecache  # noqa: PLC0415  (chooses the folder of its precompiled headers when imported)
    import torch._inductor.config as inductor  # noqa: PLC0415  (importing this module must not load torch)

    worker_environment.enter(job.environment or {})
    if job.options.threads:
        torch.set_num_threads(job.options.threads)
    inductor.compile_threads = job.options.compile_threads or 1
    apply_torch_settings(job.torch)
