"""From facts to findings."""

from __future__ import annotations

import pytest
from msgspec import structs

from torchstone.measure.doctor.diagnosis import Finding, Level, can_measure, diagnose
from torchstone.measure.doctor.facts import GIB, Accelerator, MachineFacts, Noise, TorchFacts
from torchstone.worker.probes.counting.perf_events import CounterProblem

H200 = Accelerator(0, "NVIDIA H200", memory=140 * GIB, persistence=True, clock_max=1980, clock_set=True)
ALL_COUNTERS: dict[str, CounterProblem | None] = dict.fromkeys(
    ("hardware", "simulated", "python", "cpu_time")
)
NO_HARDWARE = ALL_COUNTERS | {
    "hardware": CounterProblem("perf_event_paranoid is 4", "sudo sysctl kernel.perf_event_paranoid=2")
}
CALM = MachineFacts(
    python="python3",
    torch=TorchFacts("2.13.0", 1.2),
    compiler="g++ 12",
    cpu="EPYC",
    cores=16,
    load=0.0,
    stolen=0.0,
    governor="performance",
    turbo=False,
    smt=False,
    memory_left=64 * GIB,
    swap_used=0,
    disk_folder="/caches",
    disk_left=100 * GIB,
    peak_can_be_reset=True,
    can_fork=True,
    counters=ALL_COUNTERS,
    counter="hardware",
    clock_step=3e-8,
    clock_source="tsc",
    randomized=True,
    accelerators=(H200,),
    noise=Noise(200, 0.001, 0.004),
)


def findings_with(**facts: object) -> list[Finding]:
    return [finding for finding in diagnose(structs.replace(CALM, **facts)) if finding.level is not Level.OK]


def test_a_calm_machine_has_nothing_to_say_against_it() -> None:
    assert findings_with() == []
    assert can_measure(CALM)


@pytest.mark.parametrize(
    ("facts", "level", "what"),
    [
        ({"torch": TorchFacts(missing=True)}, "problem", "torch is not installed"),
        (
            {"torch": TorchFacts(error="OSError: libcudart")},
            "problem",
            "cannot be imported: OSError: libcudart",
        ),
        ({"compiler": None}, "problem", "no C++ compiler"),
        ({"compiler_error": "Python.h: No such file"}, "problem", "does not work: Python.h"),
        ({"governor": "powersave"}, "problem", "the frequency governor is powersave"),
        ({"turbo": True, "turbo_switch": "/sys/x/no_turbo"}, "note", "turbo is on"),
        ({"smt": True}, "note", "two threads share each core"),
        ({"cores": 2}, "note", "2 cores of EPYC"),
        ({"cores": 1, "cpu": None}, "note", "1 core"),
        (
            {"load": 0.3, "busiest": ("make (process 7)",)},
            "note",
            "0.3 of 16 cores; mostly make (process 7)",
        ),
        ({"load": 2.0}, "problem", "other processes use 2.0 of 16 cores"),
        ({"stolen": 0.05}, "problem", "the hypervisor withheld 5 %"),
        ({"quota": 2.5}, "note", "CPU quota of 2.5 cores"),
        ({"quota": 2.0, "throttled": 4100}, "problem", "was throttled 4,100 times"),
        ({"virtual_machine": "unnamed"}, "note", "this is a virtual machine"),
        ({"memory_left": GIB}, "problem", "only 1.0 GiB of memory left"),
        ({"memory_left": 4 * GIB}, "note", "only 4.0 GiB of memory left"),
        ({"swap_used": GIB}, "note", "1.0 GiB of swap"),
        ({"disk_left": GIB // 2}, "problem", "only 0.5 GiB left for caches in /caches"),
        ({"disk_left": 2 * GIB}, "note", "only 2.0 GiB left"),
        ({"peak_can_be_reset": False}, "note", "peak memory of a process cannot be reset"),
        ({"can_fork": False, "system": "Darwin"}, "note", "workers are spawned on Darwin"),
        (
            {"counters": NO_HARDWARE, "counter": "simulated"},
            "note",
            "the hardware counter cannot be used: perf_event_paranoid is 4",
        ),
        ({"clock_source": "hpet"}, "note", "the clock resolution is 30 ns (hpet)"),
        ({"clock_step": 1e-3}, "note", "the clock resolution is 1,000,000 ns"),
        ({"randomized": False}, "note", "layout is not randomised"),
        ({"noise": Noise(200, 0.01, 0.05)}, "note", "vary by about 5 %"),
        ({"noise": Noise(200, 0.02, 0.42)}, "problem", "vary by about 42 %"),
        (
            {"accelerators": (structs.replace(H200, usable=False),) * 8},
            "note",
            "this torch cannot use NVIDIA H200",
        ),
        (
            {"accelerators": (structs.replace(H200, processes=("a", "b", "c", "d")),)},
            "problem",
            "in use by a, b, c and 1 more",
        ),
        ({"accelerators": (structs.replace(H200, slowed=("too hot",)),)}, "problem", "is throttled: too hot"),
        ({"accelerators": (structs.replace(H200, persistence=False),)}, "note", "persistence mode off"),
        ({"accelerators": (structs.replace(H200, clock_set=False),)}, "note", "not locked (up to 1980 MHz)"),
    ],
)
def test_what_disturbs_measuring_is_found_and_explained(
    facts: dict[str, object], level: str, what: str
) -> None:
    (finding,) = findings_with(**facts)
    assert finding.level == level
    assert what in finding.what
    assert finding.why.endswith(".")


@pytest.mark.parametrize(
    "facts",
    [
        {"governor": "powersave"},
        {"turbo": True, "turbo_switch": "/sys/x/no_turbo"},
        {"compiler": None},
        {"torch": TorchFacts(missing=True)},
        {"quota": 2.0, "throttled": 9},
        {"noise": Noise(9, 0.2, 0.5)},
    ],
)
def test_a_finding_that_can_be_mended_says_how(facts: dict[str, object]) -> None:
    assert all(finding.advice for finding in findings_with(**facts))


def test_turbo_is_turned_off_by_the_switch_that_is_there() -> None:
    (intel,) = findings_with(turbo=True, turbo_switch="/sys/intel_pstate/no_turbo")
    (other,) = findings_with(turbo=True, turbo_switch="/sys/cpufreq/boost")
    assert intel.advice == "echo 1 | sudo tee /sys/intel_pstate/no_turbo"
    assert other.advice == "echo 0 | sudo tee /sys/cpufreq/boost"


def test_noise_that_nothing_inside_explains_is_put_down_to_the_host() -> None:
    noise, _ = findings_with(noise=Noise(200, 0.02, 0.42), virtual_machine="KVM")
    assert "the cause is probably the host" in noise.why


def counters_with(counter: str, **problems: CounterProblem) -> list[Finding]:
    facts = structs.replace(CALM, counters=ALL_COUNTERS | problems, counter=counter)
    return [finding for finding in diagnose(facts) if finding.topic == "counters"]


def test_the_counter_that_is_taken_is_named_with_the_others_that_are_there() -> None:
    (finding,) = counters_with("hardware")
    assert finding.level is Level.OK
    assert (
        finding.what
        == "the instructions probe uses the hardware counter; on request: simulated, python, cpu_time"
    )


def test_a_counter_that_would_be_taken_is_missed_with_what_to_do() -> None:
    hardware, taken = counters_with(
        "simulated", hardware=CounterProblem("no permission", "sudo sysctl kernel.x=2")
    )
    assert hardware.level is Level.NOTE
    assert hardware.advice == "sudo sysctl kernel.x=2"
    assert "50 times as long" in hardware.why
    assert "on request: python, cpu_time" in taken.what


def test_valgrind_is_missed_only_where_nothing_else_counts_but_never_passed_over() -> None:
    missing = CounterProblem("valgrind is not installed", "apt-get install valgrind")
    (finding,) = counters_with("hardware", simulated=missing)
    assert finding.level is Level.OK
    assert finding.what.endswith(
        "; not available: simulated (valgrind is not installed: apt-get install valgrind)"
    )
    *missed, taken = counters_with("python", hardware=CounterProblem("offers no counters"), simulated=missing)
    assert [finding.level for finding in missed] == [Level.NOTE, Level.NOTE]
    assert missed[1].advice == "apt-get install valgrind"
    assert all("does not count C++ code" in finding.why for finding in missed)
    assert taken.what == "the instructions probe uses the python counter; on request: cpu_time"


def test_devices_that_are_hidden_while_others_are_not_are_no_finding() -> None:
    busy = structs.replace(H200, usable=False, processes=("training (process 7)",))
    assert findings_with(accelerators=(H200, busy)) == []


def test_without_torch_an_accelerator_is_not_called_unusable() -> None:
    devices = (structs.replace(H200, usable=False),)
    found = findings_with(torch=TorchFacts(missing=True), accelerators=devices)
    assert [finding.topic for finding in found] == ["torch"]
    assert not can_measure(structs.replace(CALM, torch=TorchFacts(missing=True)))


def test_a_machine_of_which_nothing_is_known_gets_findings_too() -> None:
    found = diagnose(MachineFacts(system="Darwin"))
    assert {finding.level for finding in found} == set(Level)
