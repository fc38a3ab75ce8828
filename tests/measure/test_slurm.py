"""A real Slurm of two nodes on this machine, and a run that srun starts on both of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from live_processes import MARK, expect_no_process, read_run, wait_until
from torchstone.core.records import Outcome

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "scancel")
MISSING = [name for name in PROGRAMS if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(MISSING), reason=f"no Slurm here: {', '.join(MISSING)} missing (Debian: slurm-wlm munge)"
    ),
    pytest.mark.skipif(os.getuid() != 0, reason="a Slurm of one's own needs root"),
]

LONGEST = 3600.0
"""Seconds for a job: only one that hangs takes so long."""

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
MpiDefault=none
SlurmctldPort={ports[0]}
NodeName=red NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 State=UNKNOWN
NodeName=blue NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 State=UNKNOWN
PartitionName=main Nodes=red,blue Default=YES State=UP
"""


def find_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which srun finds the cluster; its daemons run in the foreground, and end with the test."""
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(256))
    key.chmod(0o600)
    own = {name: f"{folder}/munge.{name}" for name in ("socket", "pid", "log", "seed")}
    munged = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={own['socket']}"]
    munged += [f"--pid-file={own['pid']}", f"--log-file={own['log']}", f"--seed-file={own['seed']}"]
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=socket.gethostname().split(".")[0], folder=folder, ports=find_ports(3)))
    env = {**os.environ, "SLURM_CONF": str(conf), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    commands = [
        munged,
        ["slurmctld", "-D", "-c"],
        ["slurmd", "-D", "-N", "red"],
        ["slurmd", "-D", "-N", "blue"],
    ]
    with contextlib.ExitStack() as stack:
        for command in commands:
            process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(_end, process)
            time.sleep(0.5)
        wait_until(lambda: _count_idle(env) == 2, "two idle nodes")
        yield env


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _count_idle(env: dict[str, str]) -> int:
    done = subprocess.run(
        ["sinfo", "-h", "-N", "-o", "%T"], env=env, capture_output=True, text=True, check=False
    )
    return done.stdout.split().count("idle")


def run_with_srun(
    slurm: dict[str, str], folder: Path, *tasks: str, ranks: str, mark: str
) -> tuple[Outcome, ...]:
    """Run a model in a job, and return its outcomes. A slow machine only takes longer: nothing here is about time.

    The port is a free one, because the usual one follows from the job's number: another Slurm on this machine has the same.
    """
    command = ["srun", *tasks, sys.executable, "-m", "torchstone", "run", "scaling::mlp", "--device", "cpu"]
    command += [
        "--ranks",
        ranks,
        "--strategy",
        "ddp",
        "--repeat",
        "3",
        "--collective-timeout",
        "20m",
        "-o",
        "r.jsonl",
    ]
    (port,) = find_ports(1)
    done = subprocess.run(
        command,
        cwd=folder,
        env={**slurm, MARK: mark, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return read_run(folder / "r.jsonl").run.outcomes


def test_srun_on_two_nodes_is_one_run_and_both_are_named(slurm: dict[str, str], tmp_path: Path) -> None:
    one, two = run_with_srun(slurm, tmp_path, "-N2", "-n2", ranks="1,2", mark="slurm-two")
    assert (one.status, two.status) == ("pass", "pass")
    first, second = (each.details.scaling for each in (one, two) if each.details)
    assert first is not None
    assert first.round is not None
    assert second is not None
    assert second.round is not None
    assert len(first.round.hosts) == 1
    assert sorted(second.round.hosts) == ["blue", "red"]
    assert [each.rank for each in second.ranks] == [0, 1]
    expect_no_process("slurm-two")


def test_two_tasks_on_one_node_are_one_run(slurm: dict[str, str], tmp_path: Path) -> None:
    (outcome,) = run_with_srun(slurm, tmp_path, "-N1", "-n2", ranks="2", mark="slurm-tasks")
    assert outcome.status == "pass"
    assert outcome.measurements[0].facts() == {"ranks": (3, 3)}
