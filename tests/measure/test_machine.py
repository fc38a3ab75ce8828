"""Machines of many kinds, each as a small folder with its ``/proc`` and ``/sys``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torchstone.worker.machine import hardware

Machine = Callable[[dict[str, str]], Path]
CPU = "sys/devices/system/cpu"


@pytest.fixture
def files(tmp_path: Path) -> Machine:
    def call(contents: dict[str, str]) -> Path:
        for name, text in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return call


def test_a_machine_that_tells_nothing_is_no_error(tmp_path: Path) -> None:
    found = hardware.read_machine(tmp_path)
    assert found.cpu.governor is None
    assert found.cores.quota is None
    assert found.container is None
    assert hardware.memory_left(tmp_path) is None
    assert hardware.swap_used(tmp_path) is None
    assert hardware.read_randomized(tmp_path) is None


def test_the_processor_is_named_and_told_from_others_of_the_same_name(files: Machine) -> None:
    cpuinfo = "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 17\nmodel name : AMD EPYC\nflags : fpu hypervisor\n\nmodel : 9\n"
    root = files({"proc/cpuinfo": cpuinfo, "sys/class/dmi/id/sys_vendor": "Amazon EC2\n"})
    assert hardware.read_cpu_model(root) == "AMD EPYC"
    assert hardware.read_cpu_family(root) == "AuthenticAMD 25.17"
    assert hardware.read_virtual_machine(root) == "Amazon EC2"


def test_an_arm_processor_is_known_by_its_part(files: Machine) -> None:
    root = files({"proc/cpuinfo": "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd4f\n"})
    assert hardware.read_cpu_family(root) == "0x41 0xd4f"
    assert hardware.read_virtual_machine(root) is None


def test_the_governor_is_that_of_all_cores(files: Machine) -> None:
    root = files({f"{CPU}/cpu{n}/cpufreq/scaling_governor": "performance\n" for n in range(2)})
    assert hardware.read_governor(root) == "performance"
    files({f"{CPU}/cpu2/cpufreq/scaling_governor": "powersave\n", f"{CPU}/cpuidle/x": ""})
    assert hardware.read_governor(root) == "performance, powersave"


@pytest.mark.parametrize(
    ("name", "text", "on"),
    [
        ("intel_pstate/no_turbo", "0\n", True),
        ("intel_pstate/no_turbo", "1\n", False),
        ("cpufreq/boost", "1\n", True),
        ("cpufreq/boost", "0\n", False),
        ("cpufreq/boost", "", None),
    ],
)
def test_turbo_is_read_from_whichever_switch_there_is(
    name: str, text: str, on: bool | None, files: Machine
) -> None:
    assert hardware.read_turbo(files({f"{CPU}/{name}": text})) is on


def test_threads_of_one_core_are_one_physical_core(files: Machine) -> None:
    siblings = {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}
    root = files({f"{CPU}/cpu{n}/topology/thread_siblings_list": f"{s}\n" for n, s in siblings.items()})
    assert hardware.read_cores(root).physical == 2


@pytest.mark.parametrize(
    ("contents", "cores"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2.5),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
            },
            2.0,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/box\n",
                "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "150000\n",
                "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
            },
            1.5,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "nonsense\n"}, None),
    ],
)
def test_the_quota_is_that_of_the_group_and_of_all_around_it(
    contents: dict[str, str], cores: float | None, files: Machine
) -> None:
    assert hardware.cpu_quota(files(contents)) == cores


def test_the_memory_that_is_left_is_the_least_of_machine_and_limits(files: Machine) -> None:
    root = files(
        {
            "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 800 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n",
            "proc/self/cgroup": "0::/box\n",
            "sys/fs/cgroup/box/memory.max": "500000\n",
            "sys/fs/cgroup/box/memory.current": "400000\n",
            "sys/fs/cgroup/box/memory.stat": "anon 5\ninactive_file 300000\n",
        }
    )
    assert hardware.memory_left(root) == 400_000
    assert hardware.memory_limit(root) == 500_000
    assert hardware.swap_used(root) == 6 * 1024


def test_a_limit_beyond_all_memory_is_none(files: Machine) -> None:
    root = files(
        {
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        }
    )
    assert hardware.memory_limit(root) is None


def test_times_throttled_are_counted(files: Machine) -> None:
    root = files({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "usage_usec 9\nnr_throttled 17\n"})
    assert hardware.times_throttled(root) == 17


@pytest.mark.parametrize(
    ("chosen", "personality", "random"),
    [("2", "00000000", True), ("0", "00000000", False), ("2", "00040000", False), ("2", "odd", True)],
)
def test_the_layout_is_random_unless_kernel_or_process_say_otherwise(
    chosen: str, personality: str, random: bool, files: Machine
) -> None:
    root = files({"proc/sys/kernel/randomize_va_space": chosen, "proc/self/personality": personality})
    assert hardware.read_randomized(root) is random


@pytest.mark.parametrize(
    ("name", "kind"), [(".dockerenv", "docker"), ("run/.containerenv", "podman"), ("etc/hosts", None)]
)
def test_a_container_leaves_its_mark(name: str, kind: str | None, files: Machine) -> None:
    assert hardware.read_container(files({name: ""})) == kind
