"""Find what makes measurements noisy or metrics unavailable on a machine, with advice: facts -> findings.

Pure functions of the facts, which ``measure.doctor.inspection`` collects.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from torchstone.measure.doctor.facts import GIB, Accelerator, MachineFacts, Noise

_CALM_LOAD = 0.1  # cores
_GOOD_FOR = {
    "hardware": "It counts every instruction, without slowing anything down.",
    "simulated": "It counts every instruction without a hardware counter.",
}
_LESS_GOOD = {
    "simulated": "The simulated counter takes about 50 times as long.",
    "python": "The python counter does not count C++ code.",
    "cpu_time": "CPU time is not a count, and as noisy as any time.",
}


class Level(StrEnum):
    """How much a finding matters."""

    PROBLEM = "problem"
    NOTE = "note"
    OK = "ok"


class Finding(Struct, frozen=True):
    """One finding: what it is, why it matters, and what to do about it."""

    topic: str
    level: Level
    what: str
    why: str = ""
    advice: str = ""


def diagnose(facts: MachineFacts) -> tuple[Finding, ...]:
    """Return all findings, in a fixed order of topics. Unknown facts are skipped."""
    topics = (_torch, _compiler, _accelerators, _noise, _load, _cores, _quota, _clocks, _virtual_machine)
    further = (_memory, _swap, _disk, _peak_memory, _start, _counters, _timer, _layout)
    return tuple(finding for topic in (*topics, *further) for finding in topic(facts))


def can_measure(facts: MachineFacts) -> bool:
    """Return whether anything can be measured."""
    return facts.torch.version is not None


def _problem(topic: str, what: str, why: str, advice: str = "") -> Finding:
    return Finding(topic, Level.PROBLEM, what, why, advice)


def _note(topic: str, what: str, why: str, advice: str = "") -> Finding:
    return Finding(topic, Level.NOTE, what, why, advice)


def _ok(topic: str, what: str) -> Finding:
    return Finding(topic, Level.OK, what)


def _torch(facts: MachineFacts) -> Iterator[Finding]:
    torch = facts.torch
    if torch.version is not None:
        yield _ok("torch", f"torch {torch.version}, imported in {torch.seconds:.1f} s")
    elif torch.missing:
        yield _problem(
            "torch",
            f"torch is not installed for {facts.python}",
            "Nothing can be measured without it. Checking, accepting and converting results still work.",
            "pip install torch, or run torchstone with a Python that has it",
        )
    else:
        yield _problem(
            "torch",
            f"torch cannot be imported: {torch.error}",
            "Nothing can be measured.",
            f"see the error: {facts.python} -P -c 'import torch'",
        )


def _compiler(facts: MachineFacts) -> Iterator[Finding]:
    why = "inductor needs it for CPU kernels, and Triton for its launchers: compiled cases will fail."
    if facts.compiler is None:
        advice = "apt install g++, or set CXX; the backends eager and aot_eager do not need it"
        yield _problem("compiler", "no C++ compiler found", why, advice)
    elif facts.compiler_error:
        what = f"the C++ compiler does not work: {facts.compiler_error}"
        missing = "Python.h" in facts.compiler_error
        advice = (
            "install Python's headers, such as apt install python3-dev"
            if missing
            else "repair it, or set CXX"
        )
        yield _problem("compiler", what, why, advice)
    else:
        yield _ok("compiler", f"C++ compiler: {facts.compiler}")


def _accelerators(facts: MachineFacts) -> Iterator[Finding]:
    usable = [device for device in facts.accelerators if device.usable]  # others may be hidden deliberately
    if not facts.accelerators:
        yield _ok("accelerator", "no accelerator: cases run on the CPU")
    elif not usable and can_measure(facts):
        yield _note(
            "accelerator",
            f"this torch cannot use {facts.accelerators[0].name}",
            "Cases run on the CPU only.",
            "install a torch build for it, and check CUDA_VISIBLE_DEVICES",
        )
    for device in usable:
        topic = f"accelerator {device.index}"
        found = list(_accelerator(topic, device))
        yield from found
        if not any(finding.level is Level.PROBLEM for finding in found):
            memory = f", {device.memory / GIB:.0f} GiB" if device.memory else ""
            yield _ok(topic, f"{device.name}{memory}")


def _accelerator(topic: str, device: Accelerator) -> Iterator[Finding]:
    if device.processes:
        yield _problem(
            topic,
            f"{device.name} is in use by {_named(device.processes)}",
            "Processes on one device take turns, and share its memory and power.",
            "wait until they end, or select another device with CUDA_VISIBLE_DEVICES",
        )
    if device.slowed:
        yield _problem(
            topic,
            f"{device.name} is throttled: {', '.join(device.slowed)}",
            "Its clock is below the set frequency, and will change while cases are measured.",
            "check cooling and power: nvidia-smi -q -d PERFORMANCE",
        )
    if device.persistence is False:
        yield _note(
            topic,
            f"{device.name} has persistence mode off",
            "Its driver is initialised again for every worker, which adds to the start-up time.",
            "sudo nvidia-smi --persistence-mode=1",
        )
    if device.clock_max and not device.clock_set:
        yield _note(
            topic,
            f"the clock of {device.name} is not locked (up to {device.clock_max} MHz)",
            "It changes with load and temperature, and affects launch-bound cases.",
            f"sudo nvidia-smi --lock-gpu-clocks={device.clock_max * 3 // 4}; afterwards --reset-gpu-clocks",
        )


def _noise(facts: MachineFacts) -> Iterator[Finding]:
    noise = facts.noise
    if noise is None:
        return
    what = f"this machine's timings vary by about {_percent(noise.p95)}"
    why = (
        f"Of {noise.repeats} repeats of fixed work, half are within {_percent(noise.median)} of the median, and "
        f"95 % within {_percent(noise.p95)}."
    )
    if noise.p95 <= Noise.CALM:
        yield _ok("noise", f"{what} ({_percent(noise.median)} for half of the repeats)")
    elif noise.p95 <= Noise.WILD:
        yield _note("noise", what, f"{why} Ratios of interleaved steps vary less.")
    else:
        outside = facts.virtual_machine is not None and facts.load is not None and facts.load < _CALM_LOAD
        cause = " Nothing inside this machine explains it; the cause is probably the host." if outside else ""
        advice = "fix the other findings; then measure more repeats, and prefer ratios to times"
        yield _problem("noise", what, f"{why} A smaller change of a time means nothing.{cause}", advice)


def _load(facts: MachineFacts) -> Iterator[Finding]:
    why = "They compete with the measured work at times: the most common cause of noise."
    if facts.stolen is not None and facts.stolen > 0.01:
        what = f"the hypervisor withheld {_percent(facts.stolen)} of the CPU time"
        yield _problem(
            "load",
            what,
            "Other virtual machines on the same host are busy.",
            "use a dedicated host, if possible",
        )
    if facts.load is None:
        return
    if facts.load < _CALM_LOAD:
        yield _ok("load", "no other process uses the CPU")
        return
    busiest = f"; mostly {_named(facts.busiest)}" if facts.busiest else ""
    what = f"other processes use {facts.load:.1f} of {facts.cores:g} cores{busiest}"
    level = Level.PROBLEM if facts.load >= 0.5 else Level.NOTE
    yield Finding("load", level, what, why, "stop them, or measure when they have finished")


def _cores(facts: MachineFacts) -> Iterator[Finding]:
    named = f" of {facts.cpu}" if facts.cpu else ""
    what = f"{facts.cores:g} {'core' if facts.cores == 1 else 'cores'}{named}"
    if facts.cores <= 2:
        why = (
            "Other processes share the cores with the measured work, and parallel compiling disturbs timing."
        )
        yield _note("cores", what, why, "measure with one thread, and run nothing else")
    else:
        yield _ok("cores", what)
    if facts.smt:
        yield _note(
            "cores",
            "two threads share each core (SMT)",
            "Work on one thread of a core slows down the other.",
            "echo off | sudo tee /sys/devices/system/cpu/smt/control, or pin workers to whole cores",
        )


def _quota(facts: MachineFacts) -> Iterator[Finding]:
    if facts.quota is None:
        return
    throttled = f", and was throttled {facts.throttled:,} times" if facts.throttled else ""
    yield Finding(
        "quota",
        Level.PROBLEM if facts.throttled else Level.NOTE,
        f"this container has a CPU quota of {facts.quota:g} cores{throttled}",
        "A container that has used its quota is paused for the rest of each tenth of a second.",
        "give it whole cores instead: docker run --cpuset-cpus=0-3, or the static CPU manager policy",
    )


def _clocks(facts: MachineFacts) -> Iterator[Finding]:
    if facts.governor == "performance":
        yield _ok("governor", "the frequency governor is performance")
    elif facts.governor is not None:
        yield _problem(
            "governor",
            f"the frequency governor is {facts.governor}",
            "The clock follows the load, so the first and short measurements are slower.",
            "sudo cpupower frequency-set --governor performance",
        )
    if facts.turbo:
        off = "1" if facts.turbo_switch.endswith("no_turbo") else "0"
        yield _note(
            "turbo",
            "turbo is on",
            "The clock depends on temperature and on the number of busy cores.",
            f"echo {off} | sudo tee {facts.turbo_switch}",
        )


def _virtual_machine(facts: MachineFacts) -> Iterator[Finding]:
    if facts.virtual_machine is None:
        return
    named = "" if facts.virtual_machine == "unnamed" else f" ({facts.virtual_machine})"
    clock = " Governor and turbo cannot be read from inside." if facts.governor is None else ""
    yield _note(
        "machine",
        f"this is a virtual machine{named}",
        f"It shares caches, memory bandwidth and clock with other machines on the host.{clock}",
        "compare only runs of one machine, close in time; a dedicated host is less noisy",
    )


def _memory(facts: MachineFacts) -> Iterator[Finding]:
    if facts.memory_left is None:
        return
    what = f"{facts.memory_left / GIB:.1f} GiB of memory left"
    why = "A worker that needs more is killed, and the case ends as worker_died."
    if facts.memory_left < 2 * GIB:
        yield _problem("memory", f"only {what}", why, "free some, or measure smaller models")
    elif facts.memory_left < 6 * GIB:
        yield _note("memory", f"only {what}", why, "measure one case at a time")
    else:
        yield _ok("memory", what)


def _swap(facts: MachineFacts) -> Iterator[Finding]:
    if facts.swap_used is not None and facts.swap_used > GIB // 16:
        yield _note(
            "swap",
            f"{facts.swap_used / GIB:.1f} GiB of swap are in use",
            "Steps that read memory back from disk are much slower.",
            "sudo swapoff -a, or free memory",
        )


def _disk(facts: MachineFacts) -> Iterator[Finding]:
    if facts.disk_left is None:
        return
    what = f"{facts.disk_left / GIB:.1f} GiB left for caches in {facts.disk_folder}"
    why = "Compile caches are stored there; one precompiled header takes 150 MB."
    if facts.disk_left < GIB:
        yield _problem("disk", f"only {what}", why, "free some, or set TMPDIR to a larger disk")
    elif facts.disk_left < 5 * GIB:
        yield _note("disk", f"only {what}", why, "free some, or set TMPDIR to a larger disk")
    else:
        yield _ok("disk", what)


def _peak_memory(facts: MachineFacts) -> Iterator[Finding]:
    if facts.peak_can_be_reset:
        yield _ok("peak memory", "the peak memory of a process can be reset, and so measured, on the CPU too")
    else:
        why = "Otherwise, peak memory on the CPU includes everything before the measurement: no compression_ratio there."
        advice = "" if facts.system != "Linux" else "allow writing to /proc/self/clear_refs in this container"
        yield _note("peak memory", "the peak memory of a process cannot be reset", why, advice)


def _start(facts: MachineFacts) -> Iterator[Finding]:
    if facts.can_fork:
        yield _ok("start", "workers can be forked from a process that has imported torch")
    else:
        why = (
            "Every worker imports torch itself, which takes seconds; they can be forked safely only on Linux."
        )
        yield _note("start", f"workers are spawned on {facts.system}", why)


def _counters(facts: MachineFacts) -> Iterator[Finding]:
    """Report the default counter, the other available ones, and why the rest is not; only better ones are notes."""
    taken, order = facts.counter, list(facts.counters)
    if not taken:
        return
    others = [counter for counter, problem in facts.counters.items() if not problem and counter != taken]
    what = f"the instructions probe uses the {taken} counter"
    what += f"; on request: {', '.join(others)}" if others else ""
    for counter, problem in facts.counters.items():
        if not problem:
            continue
        if order.index(counter) < order.index(taken):
            matters = f"{_GOOD_FOR.get(counter, '')} {_LESS_GOOD.get(taken, '')}".strip()
            yield _note(
                "counters", f"the {counter} counter cannot be used: {problem.reason}", matters, problem.advice
            )
        else:
            what += (
                f"; not available: {counter} ({': '.join(filter(None, (problem.reason, problem.advice)))})"
            )
    yield _ok("counters", what)


def _timer(facts: MachineFacts) -> Iterator[Finding]:
    slow = facts.clock_source not in {
        None,
        "tsc",
        "kvm-clock",
        "arch_sys_counter",
        "hyperv_clocksource_tsc_page",
    }
    source = f" ({facts.clock_source})" if facts.clock_source else ""
    what = f"the clock resolution is {1e9 * facts.clock_step:,.0f} ns{source}"
    if slow or facts.clock_step > 1e-6:
        why = "Reading it is slow, or its resolution is low: short steps are timed inaccurately."
        yield _note("clock", what, why, "boot with clocksource=tsc" if facts.system == "Linux" else "")
    else:
        yield _ok("clock", what)


def _layout(facts: MachineFacts) -> Iterator[Finding]:
    if facts.randomized is False:
        yield _note(
            "layout",
            "address space layout is not randomised",
            "All workers get the same memory layout, so its effect does not average out.",
            "sudo sysctl kernel.randomize_va_space=2, and do not use setarch -R",
        )


def _named(names: tuple[str, ...]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
