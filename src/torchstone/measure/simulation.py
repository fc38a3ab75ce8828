"""Start workers under valgrind, for the simulated counter.

They are forked from their own zygote, which loads torch under valgrind once.

Everything that makes counts vary is fixed: Python's hash seed, clocks and random numbers (worker.repeatable), one thread, the
allocator, variables of the shell or CI job, and the instruction set (valgrind does not execute AVX-512). Valgrind itself uses
the same addresses every time. Such workers compile other code than the machine's processor would get, so their caches start
from their own template.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Sequence

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.measure.executors.local import KeeperLauncher
from torchstone.measure.executors.protocol import CannotMeasureError, Launcher, problem_of
from torchstone.measure.executors.worker_handle import Worker
from torchstone.measure.torch_loading import torch_loading_error
from torchstone.measure.worker_messages import source_messages
from torchstone.worker import worker_environment
from torchstone.worker.cache_template import is_filled
from torchstone.worker.probes.counting.available import find_valgrind_problem
from torchstone.worker.protocol.jobs import Job, MeasureJob
from torchstone.worker.protocol.keeper_messages import KeeperSetup

READY_TIMEOUT = 1200.0
PROCESSOR = {"ATEN_CPU_CAPABILITY": "avx2", "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3"}
"""The instruction sets that valgrind can execute, for torch's own kernels and for compiled ones."""
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""The defaults of the C library's allocator, without dynamic adjustment."""
AMBIENT = re.compile(
    r"(_|PWD|OLDPWD|SHLVL|COLUMNS|LINES|TERM|TERM_.*|PS\d|LS_COLORS|MAIL|LOGNAME|USER|HOSTNAME|DISPLAY|EDITOR|PAGER|INVOCATION_ID|JOURNAL_STREAM"
    r"|(SSH|XDG|DBUS|TMUX|STY|VSCODE|GITHUB|GITLAB|RUNNER|BUILDKITE|CIRCLE|JENKINS|BUILD|CI)(_.*)?)\Z"
)
"""Variables of a shell, a terminal or a CI job: irrelevant to the work, but their length shifts the memory layout."""
COMMAND = (
    "valgrind",
    "--tool=callgrind",
    "-q",
    "--vgdb=no",  # no debugger is attached; it would leave files behind
    "--instr-atstart=no",  # not instrumented until counting starts, which is several times as fast
    "--collect-atstart=no",
    "--dump-line=no",
    "--compress-pos=no",
    "--trace-children=no",  # compilers run natively, and are not counted
)
"""The valgrind command; its output file is added."""


def counting_folder(scratch: str) -> str:
    """Create and return the folder for valgrind's output."""
    folder = os.path.join(scratch, "counted")
    os.makedirs(folder, exist_ok=True)
    return folder


def start_simulation(scratch: str, sources: Sequence[BenchmarkSource]) -> tuple[KeeperLauncher, str]:
    """Return a launcher of simulated workers, and the template of their caches. Takes half a minute, the first time a minute."""
    if problem := find_valgrind_problem():
        raise CannotMeasureError(
            f"the simulated counter cannot be used: {problem.reason}", advice=problem.advice
        )
    template = worker_environment.template_folder("simulated")
    inherited = worker_environment.worker_variables(template)
    variables = {name: value for name, value in inherited.items() if not AMBIENT.match(name)}
    variables |= PROCESSOR | ALLOCATOR
    setup = KeeperSetup(template, sources=source_messages(sources), devices=("cpu",), repeatable=True)
    log = os.path.join(scratch, "simulation.log")
    _fill_template(variables, setup, log)
    out = os.path.join(counting_folder(scratch), "callgrind.%p")
    keeper = KeeperLauncher("fork", variables, setup, log, before=(*COMMAND, f"--callgrind-out-file={out}"))
    try:
        _require_ready(keeper, log, "under valgrind")
    except BaseException:
        keeper.close()
        raise
    return keeper, template


def _fill_template(variables: dict[str, str], setup: KeeperSetup, log: str) -> None:
    """Probe the compiler and precompile its headers in a process that is not simulated, which is much faster."""
    if is_filled(setup.template):
        return
    plain = KeeperLauncher("fork", variables, setup, log)
    with contextlib.closing(plain):
        _require_ready(plain, log, "before valgrind is started")


def _require_ready(keeper: KeeperLauncher, log: str, when: str) -> None:
    if problem := problem_of(keeper.wait_until_ready(READY_TIMEOUT)):
        output = ""
        with contextlib.suppress(OSError), open(log, errors="replace") as file:
            output = file.read()
        raise torch_loading_error(str(problem), output, sys.executable, f" {when}")


class SimulationLauncher:
    """Starts simulated workers for simulated counting, once ``simulated`` is set, and ordinary ones for all other jobs."""

    def __init__(self, ordinary: Launcher) -> None:
        self._ordinary = ordinary
        self.simulated: Launcher | None = None
        self.start = ordinary.start

    def launch(self, job: Job) -> Worker:
        """Start a worker with its job."""
        return (self.simulated if is_simulated(job) and self.simulated else self._ordinary).launch(job)

    def renew(self) -> Callable[[], None]:
        """Fork ordinary workers from a new process; the returned function waits until it is ready."""
        return self._ordinary.renew()

    def preload(self, libraries: Sequence[str]) -> str:
        """Import these once for all ordinary workers."""
        return self._ordinary.preload(libraries)

    def poll(self) -> None:
        """Record which workers have exited."""
        self._ordinary.poll()
        if self.simulated is not None:
            self.simulated.poll()

    def close(self) -> None:
        """Kill everything that was started."""
        if self.simulated is not None:
            self.simulated.close()
        self._ordinary.close()


def is_simulated(job: Job) -> bool:
    """Return whether a job counts by simulation."""
    return isinstance(job, MeasureJob) and job.is_simulated
