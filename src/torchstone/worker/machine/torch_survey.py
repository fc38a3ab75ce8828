"""Survey what only torch knows: devices, backends, collectives, and the environment."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch._dynamo

from torchstone.worker.machine.recorded_environment import probe_environment
from torchstone.worker.probes.device import find_problem, list_devices
from torchstone.worker.protocol.jobs import NO_COMPILER, CompileTrial, SurveyJob
from torchstone.worker.protocol.replies import SurveyReply
from torchstone.worker.ranks.collectives import find_collectives
from torchstone.worker.worker_environment import OWN

LONGEST_REASON = 300


def survey_torch(job: SurveyJob, reply: SurveyReply, default_threads: int | None) -> SurveyReply:
    """Return the reply with devices, backends, collectives and the environment added.

    ``default_threads`` is the number of threads that torch itself would use, if this process has changed it.
    """
    if threads := job.threads or default_threads:
        torch.set_num_threads(threads)
    names = job.devices or tuple(list_devices()[-1:])
    devices = {name: find_problem(name) for name in names}
    backends = list_backends()
    usable = [name for name, problem in devices.items() if not problem]
    # The environment describes an accelerator if there is one, whatever the order in which devices were named.
    accelerators = [name for name in usable if name.partition(":")[0] != "cpu"]
    device = next(iter((*accelerators, *usable)), "cpu")
    return replace(
        reply,
        devices=devices,
        available=tuple(list_devices()),
        backends=tuple(backends),
        collectives=find_collectives(names[0]) if job.scaling and not devices[names[0]] else None,
        refused=_try_compile(job.compile, backends) if job.compile else {},
        environment=probe_environment(job.libraries, device, own=OWN),
    )


def list_backends() -> list[str]:
    """Return all names that ``torch.compile`` accepts as a backend here, and our name for none."""
    return [*torch._dynamo.list_backends(exclude_tags=()), NO_COMPILER]


def _try_compile(trial: CompileTrial, known: list[str]) -> dict[str, str]:
    """Return, by backend, why ``torch.compile`` rejects the mode or an option; it does so before it compiles."""
    refused = {}
    for backend in trial.backends:
        if backend in known and backend != NO_COMPILER:
            try:
                torch.compile(_identity, backend=backend, mode=trial.mode, options=trial.options)
            except Exception as error:  # noqa: BLE001  (whatever torch raises is the reason)
                refused[backend] = str(error).partition("\n")[0][:LONGEST_REASON]
    return refused


def _identity(value: object) -> object:
    return value
