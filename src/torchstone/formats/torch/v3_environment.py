"""Convert between a run's environment and the machine fields of a v3 record."""

from __future__ import annotations

from torchstone.core.environments import PRESET, stated_preset
from torchstone.core.records import Revision, Run
from torchstone.core.run_settings import Environment
from torchstone.core.text.safe_text import is_plain
from torchstone.formats.json_text import Fields
from torchstone.formats.torch.json_objects import non_empty, object_at, text_at


def read_environment(record: Fields) -> Environment:
    """Return machine and libraries of a record as a run's environment."""
    runners = record.value.get("runners")
    runner = runners[0] if isinstance(runners, list) and len(runners) == 1 else {}
    runner = runner if isinstance(runner, dict) else {}
    more, cpu, gpu = object_at(runner, "extra_info"), text_at(runner, "cpu_info"), text_at(runner, "gpu_info")
    python = text_at(more, "python")
    versions = {
        name: version
        for name, stated in object_at(record.value, "dependencies").items()
        if isinstance(stated, dict) and (version := text_at(stated, "version"))
    }
    machine = {"architecture": text_at(more, "architecture"), "cpu": {"model": cpu} if cpu else {}}
    threads, preset = text_at(more, "threads"), text_at(more, PRESET)
    return Environment(
        non_empty(machine),
        accelerators=({"name": gpu},) if gpu else None,
        software={"python": {"version": python}} if python else {},
        versions=versions,
        chosen={PRESET: preset} if preset else {},
        threads=int(threads) if threads.isascii() and threads.isdigit() and len(threads) < 9 else None,
    )


def read_revision(record: Fields) -> Revision:
    """Return commit and branch of a record."""
    commit, branch = (text_at(record.value, key) for key in ("head_sha", "head_branch"))
    return Revision(commit if is_plain(commit) else "", branch if is_plain(branch) else "")


def describe_run(run: Run) -> dict[str, object]:
    """Return the fields that all records of a run share: revision, machine and library versions."""
    versions = {name: {"version": version} for name, version in run.environment.versions.items()}
    return non_empty(
        {
            "head_sha": run.revision.commit,
            "head_branch": run.revision.branch,
            "runners": _describe_machine(run.environment) or "",
            "dependencies": versions,
        }
    )


def _describe_machine(environment: Environment) -> list[dict[str, object]]:
    """Describe the machine in the database's terms: its name is the device type, its type the device model."""
    machine, software, devices = environment.machine, environment.software, environment.accelerators or ()
    first = devices[0] if devices else {}
    cpu = object_at(machine, "cpu").get("model")
    more = {
        "fingerprint": environment.fingerprint,
        "host": machine.get("host"),
        "os": machine.get("os"),
        "architecture": machine.get("architecture"),
        "driver": first.get("driver"),
        "python": object_at(software, "python").get("version"),
        "compiler": software.get("compiler"),
        "threads": environment.threads,
        **stated_preset(environment),
    }
    described = {
        "name": (environment.device or "").partition(":")[0],
        "type": first.get("name") or cpu,
        "cpu_info": cpu,
        "cpu_count": object_at(machine, "cores").get("logical"),
        "avail_mem_in_gb": _gigabytes(object_at(machine, "memory").get("total")),
        "gpu_info": first.get("name"),
        "gpu_count": len(devices) or None,
        "avail_gpu_mem_in_gb": _gigabytes(first.get("memory")),
        "extra_info": {name: str(value) for name, value in non_empty(more).items()},
    }
    stated = non_empty(described)
    return [stated] if stated else []


def _gigabytes(value: object) -> int | None:
    return round(value / 10**9) if isinstance(value, int | float) else None
