"""Find the counters that work on this machine, and choose the default.

Standard library only.
"""

from __future__ import annotations

import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence

from torchstone.worker.machine.external_programs import first_line
from torchstone.worker.probes.counting import perf_events
from torchstone.worker.probes.counting.perf_events import CounterProblem

LEAST_VALGRIND = (3, 15)  # older versions of callgrind lack required features
_VERSION = re.compile(r"valgrind-(\d+(?:\.\d+)*)")


def find_counters() -> dict[str, CounterProblem | None]:
    """Return all counters, best first, each with the problem that prevents its use, if any."""
    return {
        "hardware": perf_events.find_problem(),
        "simulated": find_valgrind_problem(),
        "python": None,
        "cpu_time": None,
    }


def choose_counter(problems: Mapping[str, CounterProblem | None]) -> str:
    """Return the best usable counter.

    >>> choose_counter({"hardware": CounterProblem("no permission"), "simulated": None, "python": None})
    'simulated'
    """
    return next((counter for counter, problem in problems.items() if problem is None), "cpu_time")


def valgrind_version() -> tuple[int, ...] | None:
    """Return the version of the installed valgrind; None if there is none."""
    found = _VERSION.match(first_line(["valgrind", "--version"]))
    return tuple(map(int, found[1].split("."))) if found else None


def find_valgrind_problem() -> CounterProblem | None:
    """Return why callgrind cannot count here; None if it can."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return CounterProblem(
            f"it needs Linux on x86_64, and this is {platform.system()} on {platform.machine()}"
        )
    if shutil.which("valgrind") is None:
        return CounterProblem("valgrind is not installed", "apt-get install valgrind")
    found, least = valgrind_version(), _dotted(LEAST_VALGRIND)
    if found is None:
        return CounterProblem("valgrind is installed, but does not run", "see what valgrind --version says")
    if found < LEAST_VALGRIND:
        return CounterProblem(
            f"valgrind {_dotted(found)} is older than {least}",
            "install a newer one, such as by apt-get install valgrind",
        )
    return None


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
