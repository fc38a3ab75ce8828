"""Find the counters that work on this machine, and choose the default. Standard library only."""

from __future__ import annotations

import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence

from torchstone.worker.machine.external_programs import first_line
from torchstone.worker.probes.counting import perf_events

LEAST_VALGRIND = (3, 15)  # older versions of callgrind lack required features
_VERSION = re.compile(r"valgrind-(\d+(?:\.\d+)*)")


def find_counters() -> dict[str, str]:
    """Return all counters, best first, each with why it cannot be used and, after "; ", what to do; empty if it can."""
    return {
        "hardware": perf_events.find_problem(),
        "simulated": find_valgrind_problem(),
        "python": "",
        "cpu_time": "",
    }


def choose_counter(problems: Mapping[str, str]) -> str:
    """Return the best usable counter.

    >>> choose_counter({"hardware": "no permission", "simulated": "", "python": "", "cpu_time": ""})
    'simulated'
    """
    return next((counter for counter, problem in problems.items() if not problem), "cpu_time")


def valgrind_version() -> tuple[int, ...] | None:
    """Return the version of the installed valgrind; None if there is none."""
    found = _VERSION.match(first_line(["valgrind", "--version"]))
    return tuple(map(int, found[1].split("."))) if found else None


def find_valgrind_problem() -> str:
    """Return why callgrind cannot count here and, after "; ", what to do; empty if it can."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return f"it needs Linux on x86_64, and this is {platform.system()} on {platform.machine()}"
    if shutil.which("valgrind") is None:
        return "valgrind is not installed; apt-get install valgrind"
    found, least = valgrind_version(), _dotted(LEAST_VALGRIND)
    if found is None:
        return "valgrind is installed, but does not run; see what valgrind --version says"
    if found < LEAST_VALGRIND:
        return f"valgrind {_dotted(found)} is older than {least}; install a newer one, such as by apt-get install valgrind"
    return ""


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
