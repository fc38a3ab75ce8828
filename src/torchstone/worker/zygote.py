"""The zygote: a process that has torch loaded and one tiny graph compiled, and forks a worker whenever the parent asks.

A fork is only safe from a process with one thread that has touched no device: an OpenMP pool or a device context does not survive it. So the
tiny graph is first compiled in a child that is thrown away (which fills the compiler's caches, with whatever threads that takes), and the thread count
is checked before the first fork. If it is not one, the parent is told, and spawns its workers instead. Where torch was built for an accelerator,
importing its compiler already touches the device (measured with torch 2.11 for CUDA): there the zygote stops short of that, and compiles nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.worker import sources
from torchstone.worker.cache_template import compile_tiny_graph, fill, is_filled
from torchstone.worker.failures import is_torch_missing
from torchstone.worker.keeper import has_hung_up, open_line, serve, tell
from torchstone.worker.machine.clock import monotonic
from torchstone.worker.process_tree import adopt_orphans, die_with_parent, dying_with_parent, kill_children
from torchstone.worker.protocol.keeper_messages import KeeperBroken, KeeperReady, KeeperSetup
from torchstone.worker.sources import SourceError, load_source, prepare
from torchstone.worker.worker import run_worker
from torchstone.worker.worker_environment import enter

_WATCHING = 0.005
_PATIENCE = 5.0
_FIRST = ("torch", "torch._dynamo", "torchstone.worker.probes.run_case")
_COMPILER = ("torch._inductor.compile_fx", "torch._inductor.codecache", "torch._functorch.aot_autograd")


def main() -> None:
    """Load everything, say so, then fork on request until the parent hangs up."""
    control, setup = open_line(int(sys.argv[1]))
    if setup.repeatable:
        from torchstone.worker.repeatable import repeat_itself  # noqa: PLC0415  (only where counts are simulated)

        repeat_itself()
    with dying_with_parent():
        reply = None if has_hung_up(control) else preload(setup)
    if reply is not None:
        tell(control, reply)
    serve(control, run_worker, setup, _preload_libraries)


def preload(setup: KeeperSetup) -> KeeperReady | KeeperBroken:
    """Import torch and the suites' libraries and compile a tiny graph; the reply says what stands in the way of forking."""
    started = monotonic()
    try:
        _import_all(_FIRST)
        import torch  # noqa: PLC0415  (the keeper starts without torch)

        touches_device = torch.accelerator.current_accelerator() is not None
        if not touches_device:
            _import_all(_COMPILER)  # which keeps headers where TMPDIR is at this moment: in the template
        if setup.temporary:
            enter({"TMPDIR": setup.temporary})
    except Exception as error:  # noqa: BLE001  (without torch nothing works, and the parent says so)
        traceback.print_exc()  # the log has the whole of it
        return KeeperBroken(f"{type(error).__name__}: {error}", is_torch_missing(error))
    sources.default_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    notes = [note for source in setup.sources for note in _prepare_source(source)]
    _quieten()
    wants_cpu = "cpu" in setup.devices or not (setup.devices or touches_device)
    if wants_cpu and (problem := _warm_up(setup.template, here=not touches_device)):
        notes.append(f"no warm-up compile: {problem}")
    return KeeperReady(monotonic() - started, _why_not_fork(), tuple(notes))


def _prepare_source(source: BenchmarkSource) -> list[str]:
    """Import what a suite needs. Code that is not ours goes first into a child: it may take the process down that runs it."""

    def attempt() -> list[str]:
        return prepare(load_source(source))

    if source.kind == "package" and (code := _in_child(attempt)):
        return [f"{source.name} is not preloaded: loading it failed in a child (exit code {code})"]
    try:
        return attempt()
    except SourceError as error:
        return [error.message]


def _import_all(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)


def _quieten() -> None:
    """Keep tqdm from starting its monitor thread, if some library has loaded it."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is not None:
        tqdm.tqdm.monitor_interval = 0


def _warm_up(template: str, *, here: bool) -> str:
    """Compile a tiny graph in a child, unless the template says that it was done, then here, which pays for lazy imports."""
    if not is_filled(template) and (code := _in_child(lambda: fill(template, compile_tiny_graph))):
        return f"compiling a tiny graph failed in a child (exit code {code})"
    if here:
        try:
            compile_tiny_graph()
        except Exception as error:  # noqa: BLE001  (reported to the parent)
            return f"{type(error).__name__}: {error}"
    return ""


def _in_child(work: Callable[[], object]) -> int:
    """Run something in a forked child, and give its exit code; should this process be killed meanwhile, all that the child has started ends, too."""
    zygote, pid = os.getpid(), os.fork()
    if pid == 0:
        _watch_over(work, zygote)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _watch_over(work: Callable[[], object], zygote: int) -> None:
    """Have a child do the work, and end it and the compilers that it leaves behind as soon as the zygote is gone: it dies by a signal, and can end nobody."""
    code = 1
    try:
        adopt_orphans()
        watcher, pid = os.getpid(), os.fork()
        if pid == 0:
            die_with_parent(watcher)
            work()
            os._exit(0)
        while os.getppid() == zygote:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                break
            time.sleep(_WATCHING)
        kill_children(_PATIENCE)
    except BaseException:  # noqa: BLE001  (the exit code says that it failed, the log says how)
        traceback.print_exc()
    finally:
        os._exit(code if 0 <= code < 256 else 1)


def _why_not_fork() -> str:
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"{threads} threads are running after the imports"
    import torch  # noqa: PLC0415  (the keeper starts without torch)

    accelerator = torch.accelerator.current_accelerator()
    module = getattr(torch, accelerator.type, None) if accelerator else None
    is_initialized = getattr(module, "is_initialized", None)
    if is_initialized is not None and is_initialized():
        return f"the imports have initialised {accelerator}"
    return ""


def _preload_libraries(names: Sequence[str]) -> str:
    """Import libraries that a user's file needs, if a child has shown that this leaves the process fit for forking."""

    def attempt() -> None:
        for name in names:
            with contextlib.suppress(ImportError):  # some modules are no files, but made by others
                importlib.import_module(name)
        if problem := _why_not_fork():
            raise RuntimeError(problem)

    if _in_child(attempt):
        return "not preloaded"
    try:
        attempt()
    except Exception as error:  # noqa: BLE001  (what went well in the child can still fail here; workers will import it)
        return f"{type(error).__name__}: {error}"
    _quieten()
    return ""


if __name__ == "__main__":
    main()
