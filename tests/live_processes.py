"""Real processes for tests: finding them by a mark in their environment, starting the command, and waiting for what it does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.records import Case, Outcome, Reading, Variant
from torchstone.core.run_file import decode_run
from torchstone.measure.measuring import Settings
from torchstone.measure.session import Session
from torchstone.measure.supervisor import WorkerLimits

MARK = "TORCHSTONE_TEST_MARK"
PATIENCE = 300.0


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Waits generously: the machine may be busy with other tests."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.05)


def marked_processes(mark: str) -> dict[int, str]:
    """The living processes that inherited this mark, with their command lines."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            folder = Path("/proc") / entry
            try:
                is_marked = wanted in (folder / "environ").read_bytes().split(b"\0")
                is_gone = (folder / "stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
                if is_marked and not is_gone:
                    found[int(entry)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


def expect_no_process(mark: str) -> None:
    """Everything that was started with this mark ends by itself, soon."""
    wait_until(lambda: not marked_processes(mark), f"processes are left: {marked_processes(mark)}")


def start_torchstone(
    folder: Path, *arguments: str, mark: str = "", env: Mapping[str, str] = MappingProxyType({})
) -> subprocess.Popen[str]:
    """Starts the command in a folder, as a process of its own that can be killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "torchstone", *arguments],
        cwd=folder,
        env={**os.environ, MARK: mark, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_torchstone(folder: Path, *arguments: str, mark: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    with start_torchstone(folder, *arguments, mark=mark) as process:
        out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def count_outcomes(path: Path) -> int:
    """How many outcomes are on disk at this moment."""
    return path.read_text().count('"kind":"outcome"') if path.exists() else 0


def read_run(path: Path) -> Reading:
    """A run file, as every other command reads it."""
    return decode_run(str(path), path.read_text())


class Onlooker:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def started(self, case: Case) -> None:
        self.seen.append((case.benchmark, "start"))

    def entered(self, case: Case, phase: str) -> None:
        self.seen.append((case.benchmark, phase))

    def tick(self) -> None:
        pass


class Bench(NamedTuple):
    """Measures benchmarks of a file in workers of one session, whose processes all have one mark."""

    session: Session
    mark: str
    watcher: Onlooker

    def measure(
        self,
        path: Path,
        names: Sequence[str],
        *,
        timeout: float = PATIENCE,
        memory: int | None = None,
        jobs: int = 1,
        probe: str = "performance",
        backend: str = "none",
    ) -> dict[str, Outcome]:
        """The outcome of each benchmark, in the order in which they came."""
        variant = Variant("cpu", backend, "inference", "float32")
        cases = [Case(name, probe, path.stem, variant) for name in names]
        settings = Settings(
            sources={path.stem: BenchmarkSource("file", path.stem, str(path))}, threads=1, repeat=20
        )
        supervisor = self.session.supervisor(settings, WorkerLimits(timeout, memory, jobs), self.watcher)
        outcomes = list(supervisor.execute(cases))
        assert sorted(outcome.case.benchmark for outcome in outcomes) == sorted(names)
        return {outcome.case.benchmark: outcome for outcome in outcomes}

    def count_left(self, command: str) -> int:
        """How many processes with this command are left of what the workers have started."""
        return sum(command in each for each in marked_processes(self.mark).values())
