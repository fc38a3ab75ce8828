"""Benchmarks that make trouble for whoever measures them: they crash, hang, flood, lie, and leave things behind."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

import torch

import torchstone
from torchstone.worker.probes.warm_up import WARM_UP_CALLS

Built = tuple[Callable[[torch.Tensor], torch.Tensor], tuple[torch.Tensor]]

FIRST_CALL = {"eager": 1, "compile": WARM_UP_CALLS + 1, "run": 2 * WARM_UP_CALLS + 1}


class UnspeakableError(Exception):
    """Cannot be pickled, and does not even say what it is."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def __str__(self) -> str:
        raise ValueError("there is nothing to say")


def when(at: str, trouble: Callable[[], object]) -> Built:
    """A model that makes trouble in one phase, where both sides are the same function."""
    if at == "load":
        trouble()
    calls = 0

    def model(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == FIRST_CALL.get(at):
            trouble()
        return x + 1

    return model, (torch.ones(4),)


@torchstone.benchmark
def good() -> Built:
    return when("never", int)


@torchstone.benchmark(parameters={"at": ["load", "eager", "compile", "run"]})
def segfault(at: str) -> Built:
    return when(at, lambda: ctypes.string_at(0))


@torchstone.benchmark(parameters={"at": ["load", "run"]})
def killed(at: str) -> Built:
    return when(at, lambda: os.kill(os.getpid(), signal.SIGKILL))


@torchstone.benchmark(parameters={"at": ["load", "compile"]})
def leaves(at: str) -> Built:
    return when(at, lambda: os._exit(3))


@torchstone.benchmark(parameters={"at": ["load", "eager", "compile"]})
def exits(at: str) -> Built:
    return when(at, lambda: sys.exit("enough"))


@torchstone.benchmark(parameters={"at": ["load", "eager", "run"]})
def interrupts(at: str) -> Built:
    def interrupt() -> NoReturn:
        raise KeyboardInterrupt

    return when(at, interrupt)


@torchstone.benchmark(parameters={"at": ["load", "eager", "compile"]})
def raises(at: str) -> Built:
    def complain() -> NoReturn:
        raise UnspeakableError

    return when(at, complain)


@torchstone.benchmark(parameters={"at": ["load", "eager", "compile"]})
def out_of_memory(at: str) -> Built:
    def complain() -> NoReturn:
        raise MemoryError("no more")

    return when(at, complain)


@torchstone.benchmark
def unsupported() -> Built:
    raise NotImplementedError("not for this device")


@torchstone.benchmark
def speaks_in_surrogates() -> Built:
    raise ValueError("\udcff\ud800 is not text")


@torchstone.benchmark(parameters={"at": ["load", "run"]})
def hangs_in_python(at: str) -> Built:
    def spin_forever() -> None:
        while True:
            pass

    return when(at, spin_forever)


@torchstone.benchmark(parameters={"how": ["lock", "pause", "sleep"]})
def hangs_in_c(how: str) -> Built:
    def wait_forever() -> None:
        if how == "lock":
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        holding_the_interpreter = ctypes.PyDLL(None)
        while True:
            holding_the_interpreter.pause() if how == "pause" else holding_the_interpreter.sleep(1000)

    return when("eager", wait_forever)


@torchstone.benchmark
def hangs_with_a_child() -> Built:
    def wait_forever() -> None:
        subprocess.Popen(["sleep", "1001"], start_new_session=True)
        subprocess.run(["sleep", "1002"], check=False)

    return when("eager", wait_forever)


@torchstone.benchmark
def floods() -> Built:
    def flood() -> None:
        line = "x" * 1023 + "\n"
        for _ in range(50 * 1024):
            sys.stdout.write(line)

    return when("eager", flood)


@torchstone.benchmark
def prints() -> Built:
    def speak() -> None:
        sys.stdout.write("said aloud\n")
        sys.stderr.write("said aside\n")
        os.write(1, b"not utf-8: \xff\xfe\n")

    return when("eager", speak)


@torchstone.benchmark
def prints_and_fails() -> Built:
    sys.stdout.write("last words\n")
    raise ValueError("no")


def own_descriptors() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]


@torchstone.benchmark
def writes_everywhere() -> Built:
    def write() -> None:
        for descriptor in own_descriptors():
            for garbage in (b"garbage", b'\n{"result": 3}\n{"phase": []}\n[[[\n', b"\xff\x00" * 1000, b"["):
                try:
                    os.write(descriptor, garbage)
                except OSError:
                    continue

    return when("eager", write)


@torchstone.benchmark
def answers_nonsense() -> Built:
    def answer() -> NoReturn:
        for descriptor in own_descriptors():
            try:
                os.write(descriptor, b'\n{"result": {"status": "pass", "measurements": 7}}\n')
            except OSError:
                continue
        os._exit(0)

    return when("eager", answer)


@torchstone.benchmark
def floods_the_channel() -> Built:
    def flood() -> None:
        sockets = [socket.socket(fileno=os.dup(each)) for each in own_descriptors() if is_socket(each)]
        while True:
            for each in sockets:
                each.sendall(b"x" * (1 << 20))

    return when("eager", flood)


def is_socket(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except FileNotFoundError:  # what the folder was listed with
        return False


@torchstone.benchmark(parameters={"then": ["return", "hang"]})
def closes_the_channel(then: str) -> Built:
    def close() -> None:
        for descriptor in own_descriptors():
            if is_socket(descriptor):
                os.close(descriptor)
        if then == "hang":
            time.sleep(1000)

    return when("eager", close)


@torchstone.benchmark
def closes_its_output() -> Built:
    def close() -> None:
        os.close(1)
        os.close(2)
        time.sleep(0.5)

    return when("eager", close)


@torchstone.benchmark(parameters={"how": ["child", "session", "daemon"]})
def leaves_a_child(how: str) -> Built:
    def leave() -> None:
        if how == "daemon" and os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            os.execvp("sleep", ["sleep", "1003"])  # noqa: S606
        if how != "daemon":
            subprocess.Popen(["sleep", "1003"], start_new_session=how == "session")

    return when("eager", leave)


@torchstone.benchmark
def kills_its_parent() -> Built:
    def kill() -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)

    return when("eager", kill)


@torchstone.benchmark(parameters={"whom": ["itself", "parent", "parent_and_goes_on"]})
def stops(whom: str) -> Built:
    def stop() -> None:
        os.kill(os.getpid() if whom == "itself" else os.getppid(), signal.SIGSTOP)
        if whom != "parent_and_goes_on":
            time.sleep(1000)

    return when("eager", stop)


@torchstone.benchmark
def holds_its_parent() -> Built:
    """A debugger's hold on the parent, by a process in a session of its own: a signal to continue does not loosen it."""

    def hold() -> None:
        parent = os.getppid()
        if os.fork() == 0:
            os.setsid()
            if ctypes.CDLL(None).ptrace(16, parent, None, None):  # PTRACE_ATTACH
                os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(1000)
        time.sleep(1000)

    return when("eager", hold)


@torchstone.benchmark
def allocates() -> Built:
    kept: list[torch.Tensor] = []

    def allocate() -> None:
        for _ in range(60):
            kept.append(torch.ones(16 << 20, dtype=torch.float32))
            time.sleep(0.05)

    return when("eager", allocate)


@torchstone.benchmark
def shares_memory_with_forks() -> Built:
    block = torch.ones(70_000_000)

    def fork() -> None:
        children = []
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                time.sleep(1000)
            children.append(pid)
        time.sleep(1.5)
        resident = sum(resident_pages(pid) for pid in children) * os.sysconf("SC_PAGE_SIZE")
        assert resident > 10 * 4 * len(block), resident
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    return when("eager", fork)


def resident_pages(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1])


@torchstone.benchmark
def leaves_a_thread() -> Built:
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return when("never", int)
