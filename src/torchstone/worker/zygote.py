"""The zygote: a process that has torch loaded and one tiny graph compiled, and forks a worker whenever the parent asks.

Forking is only safe from a process with one thread that has touched no device: an OpenMP pool or a device
context does not survive it. So the tiny graph is first compiled in a child, which fills the compiler's caches
with as many threads as it likes, and the number of threads is checked before the first fork. If there is more
than one, the parent spawns its workers instead. If torch was built for an accelerator, importing its compiler
already touches the device (measured with torch 2.11 for CUDA): then the zygote does not import the compiler,
and compiles nothing itself.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence

from torchstone.worker import benchmark_sources
from torchstone.worker.benchmark_sources import SourceError, load_source, prepare
from torchstone.worker.cache_template import compile_tiny_graph, fill, is_filled
from torchstone.worker.failures import is_torch_missing
from torchstone.worker.forking import has_hung_up, open_control, serve, tell
from torchstone.worker.machine.clock import monotonic
from torchstone.worker.process_tree import adopt_orphans, die_with_parent, dying_with_parent, kill_children
from torchstone.worker.protocol.keeper_messages import KeeperBroken, KeeperReady, KeeperSetup
from torchstone.worker.protocol.source_message import SourceMessage
from torchstone.worker.repeatable import make_repeatable
from torchstone.worker.worker import run_worker
from torchstone.worker.worker_environment import enter

_WATCHING = 0.005
_PATIENCE = 5.0
_FIRST = ("torch", "torch._dynamo", "torchstone.worker.probes.run_case")
_COMPILER = ("torch._inductor.compile_fx", "torch._inductor.codecache", "torch._functorch.aot_autograd")


def main() -> None:
    """Load everything, report that, then fork workers on request until the parent is gone."""
    control, setup = open_control(int(sys.argv[1]))
    if setup.repeatable:
        make_repeatable()
    with dying_with_parent():
        reply = None if has_hung_up(control) else preload(setup)
    if reply is not None:
        tell(control, reply)
    serve(control, run_worker, setup, _preload_libraries)


def preload(setup: KeeperSetup) -> KeeperReady | KeeperBroken:
    """Import torch and the suites' libraries, and compile a tiny graph; the reply says why this process cannot fork, if so."""
    started = monotonic()
    try:
        _import_all(_FIRST)
        import torch  # noqa: PLC0415  (the keeper starts without torch)

        touches_device = torch.accelerator.current_accelerator() is not None
        if not touches_device:
            _import_all(_COMPILER)  # its headers go into the present TMPDIR, which is in the template
        if setup.temporary:
            enter({"TMPDIR": setup.temporary})
    except Exception as error:  # noqa: BLE001  (nothing works without torch; the parent reports it)
        traceback.print_exc()  # the whole traceback goes to the log
        return KeeperBroken(f"{type(error).__name__}: {error}", is_torch_missing(error))
    benchmark_sources.default_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    notes = [note for source in setup.sources for note in _prepare_source(source)]
    _stop_tqdm_monitor()
    wants_cpu = "cpu" in setup.devices or not (setup.devices or touches_device)
    if wants_cpu and (problem := _warm_up(setup.template, here=not touches_device)):
        notes.append(f"no warm-up compile: {problem}")
    return KeeperReady(monotonic() - started, _why_not_fork(), tuple(notes))


def _prepare_source(source: SourceMessage) -> list[str]:
    """Import what a suite needs, and return the problems. Other packages' code is tried in a child first: it may crash."""

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


def _stop_tqdm_monitor() -> None:
    """Keep tqdm, if it is loaded, from starting its monitor thread."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is not None:
        tqdm.tqdm.monitor_interval = 0


def _warm_up(template: str, *, here: bool) -> str:
    """Compile a tiny graph: in a child, unless the template is filled; then here, which does the lazy imports."""
    if not is_filled(template) and (code := _in_child(lambda: fill(template, compile_tiny_graph))):
        return f"compiling a tiny graph failed in a child (exit code {code})"
    if here:
        try:
            compile_tiny_graph()
        except Exception as error:  # noqa: BLE001  (reported to the parent)
            return f"{type(error).__name__}: {error}"
    return ""


def _in_child(work: Callable[[], object]) -> int:
    """Run a function in a forked child, and return its exit code. If this process is killed, the child's processes end too."""
    zygote, pid = os.getpid(), os.fork()
    if pid == 0:
        _run_watched(work, zygote)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run_watched(work: Callable[[], object], zygote: int) -> None:
    """Do the work in a child, and kill it and the compilers it started as soon as the zygote is gone.

    A zygote is killed by a signal, so it cannot do this itself.
    """
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
    except BaseException:  # noqa: BLE001  (the exit code reports the failure, the log has the traceback)
        traceback.print_exc()
    finally:
        os._exit(code if 0 <= code < 256 else 1)


def _why_not_fork() -> str:
    """Return why this process cannot be forked safely; empty if it can."""
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
    """Import libraries that a user's file needs, if a trial in a child shows that the process can still be forked."""

    def attempt() -> None:
        for name in names:
            with contextlib.suppress(
                ImportError
            ):  # some modules exist only after another one has created them
                importlib.import_module(name)
        if problem := _why_not_fork():
            raise RuntimeError(problem)

    if _in_child(attempt):
        return "not preloaded"
    try:
        attempt()
    except Exception as error:  # noqa: BLE001  (it may fail here although it worked in the child; workers will import it)
        return f"{type(error).__name__}: {error}"
    _stop_tqdm_monitor()
    return ""


if __name__ == "__main__":
    main()
