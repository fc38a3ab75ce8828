"""The two sides of an A/B measurement: their code, settings and environment, and where their workers run."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from msgspec import structs

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Run
from torchstone.measure.ab.benchmark_files import Borrowed, SideFolder, give_files
from torchstone.measure.ab.changed_files import Changes, find_changes
from torchstone.measure.ab.side_spec import SideSpec
from torchstone.measure.ab.worktrees import Worktree, check_out, find_commit, sweep_worktrees
from torchstone.measure.measuring import make_job, settings_of_run
from torchstone.measure.runner import PlanRequest, prepare_run
from torchstone.measure.session import Session
from torchstone.worker import worker_environment
from torchstone.worker.cache_template import is_filled
from torchstone.worker.machine.external_programs import ask
from torchstone.worker.process_tree import ignoring_interrupts
from torchstone.worker.protocol.jobs import CodeTree, MeasureJob, PairPart
from torchstone.worker.scratch import Scratch, make_scratch
from torchstone.worker.worker_environment import World

Step = Callable[[str], AbstractContextManager[None]]
"""Encloses a step of the preparation, and shows it."""
OLDEST_PYTHON = (3, 11)
_PYTHON_TIMEOUT = 60.0
_ABOUT_PYTHON = """
import importlib.util, json, platform, sys
from importlib import metadata
try:
    torch = metadata.version("torch")
except metadata.PackageNotFoundError:
    torch = "unknown" if importlib.util.find_spec("torch") else ""
print(json.dumps({"version": platform.python_version(), "tuple": sys.version_info[:2], "torch": torch}))
"""


def find_python(place: str, option: str) -> World:
    """Find the interpreter of a file, virtual environment or command; raise UsageError if workers cannot run in it."""
    inside = [os.path.join(place, "bin", "python"), os.path.join(place, "Scripts", "python.exe")]
    named = (
        next((path for path in inside if os.path.exists(path)), "")
        if os.path.isdir(place)
        else shutil.which(place)
    )
    if not named:
        raise UsageError(f"{option} python={place}: no such interpreter or virtual environment")
    python = os.path.abspath(named)
    answer = ask([python, "-I", "-c", _ABOUT_PYTHON], _PYTHON_TIMEOUT)
    try:
        about = json.loads(answer.out)
    except ValueError:
        message = (answer.err.strip() or answer.out.strip()).rpartition("\n")[2]
        raise UsageError(
            f"{option} python={place}: it does not start: {message or 'no error message'}"
        ) from None
    if tuple(about["tuple"]) < OLDEST_PYTHON:
        raise UsageError(
            f"{option} python={place}: it is Python {about['version']}", advice="workers need 3.11 or later"
        )
    if not about["torch"]:
        raise UsageError(
            f"{option} python={place}: torch is not installed",
            advice=f"install it: {python} -m pip install torch",
        )
    return World(python, about["version"], about["torch"])


def no_step(_what: str) -> AbstractContextManager[None]:
    """Show nothing."""
    return contextlib.nullcontext()


class Side:
    """One side: its session and the jobs of its workers.

    ``code`` is the repository and where this side's code is, if the sides differ in code.
    """

    def __init__(
        self,
        name: str,
        spec: SideSpec,
        request: PlanRequest,
        session: Session,
        tree: Worktree | None,
        code: CodeTree | None = None,
    ) -> None:
        self.name = name
        self.spec = spec
        self.session = session
        self.tree = tree
        self._code = code
        self._request = request
        self.run = Run("", (), ())
        self.borrowed: tuple[Borrowed, ...] = ()
        self.loading_seconds = 0.0

    @property
    def title(self) -> str:
        """Return what makes it this side, as given: ``rev=HEAD~1``."""
        return " ".join(self.spec.texts) or "working tree"

    @property
    def benchmark_files(self) -> list[str]:
        """Return the real paths of the benchmark files."""
        sources = self._request.targets.sources.values()
        return [os.path.realpath(source.path) for source in sources if source.is_file]

    def load(self, step: Step = no_step, why_again: str = "") -> Run:
        """Load torch, survey, and plan what this side measures; ``step`` shows each of these."""
        began = time.monotonic()
        again = f" again, {why_again}" if why_again else f" ({self.title})"
        with step(f"loading torch for {self.name}{again}{self._first_time()}"):
            sources = list(self._request.targets.sources.values())
            self.session.start_workers(sources, self._request.axes.devices)
        self.loading_seconds = time.monotonic() - began
        with step(f"importing the benchmarks of {self.name}"):
            self.run = prepare_run(self._request, self.session)
        self._settings = settings_of_run(
            structs.replace(self.run, settings=structs.replace(self.run.settings, pairing=None)), ""
        )
        return self.run

    def _first_time(self) -> str:
        """Return what else happens when torch is loaded for the first time on a machine."""
        on_cpu = not self._request.axes.devices or "cpu" in self._request.axes.devices
        is_first = on_cpu and self._request.settings.start != "spawn" and not is_filled(self.session.template)
        return "; the first time here takes longer" if is_first else ""

    def job(self, case: Case, number: int, cores: Sequence[int], *, fresh: bool) -> MeasureJob:
        """Return the job of a worker of this side; it reuses this side's compile cache of the case, unless ``fresh``."""
        self.session.prime(case)
        folder = os.path.join(self.session.scratch, f"case-{number}")
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        environment = (
            worker_environment.make_case_folder(self.session.scratch, number, self.session.template, None)
            if not os.path.exists(folder)
            else {
                "TMPDIR": os.path.join(folder, "tmp"),
                **worker_environment.cache_variables(os.path.join(folder, "cache")),
            }
        )
        job = make_job(case, self._settings, self.session.launcher.start)
        pair = PairPart(cores=tuple(cores), tree=self._code)
        return replace(job, environment=environment, pair=pair)

    def forget(self, number: int) -> None:
        """Remove the compile cache of a case."""
        worker_environment.remove_case_folder(self.session.scratch, number)


@contextlib.contextmanager
def open_sides(
    specs: Sequence[SideSpec],
    request: PlanRequest,
    tell: Callable[[str], None],
    step: Step = no_step,
    deadline: float = math.inf,
    bench_from: str = "",
) -> Iterator[tuple[Side, Side]]:
    """Open A and B with their worktree, interpreter and variables, and clean up afterwards.

    Sides at the same commit share a worktree, so that equal files have equal paths. ``step`` shows what takes time; ``bench_from``
    says where benchmark files are taken from. Preparing raises OutOfTimeError after ``deadline``.
    """
    with _closed_undisturbed() as stack:
        sweep_worktrees(os.curdir)
        scratch = stack.enter_context(_scratch())
        folder = scratch.path
        trees: dict[str, Worktree] = {}
        revision = next((spec.revision for spec in specs if spec.revision), "")
        root = find_commit(revision)[0] if revision else ""
        folders = []
        for name, spec in zip("AB", specs, strict=True):
            tree = None
            if spec.revision:
                _, commit = find_commit(spec.revision)
                if commit not in trees:
                    with step(f"checking out {spec.revision} for {name}"):
                        trees[commit] = stack.enter_context(check_out(spec.revision, scratch, deadline))
                tree = trees[commit]
            folders.append(SideFolder(name, spec, tree, folder))
        sides = []
        files = give_files(request.settings.sources, folders, bench_from)
        for each, (sources, borrowed) in zip(folders, files, strict=True):
            name, spec, tree = each.name, each.spec, each.tree
            world = _world(name, spec, tree, folder, root)
            own = _request(spec, request, tree, sources)
            session = stack.enter_context(Session(request.settings.start, "cold", tell, world))
            session.deadline = deadline
            code = CodeTree(root, tree.path if tree else root) if root else None
            sides.append(Side(name, spec, own, session, tree, code))
            sides[-1].borrowed = tuple(borrowed)
        yield sides[0], sides[1]


def changes_between(sides: Sequence[Side]) -> Changes:
    """Return the files that differ between the code of two sides; none if both use the same folder."""
    tree = next((side.tree for side in sides if side.tree), None)
    if tree is None:
        return Changes()
    commits = [side.tree.commit if side.tree else "" for side in sides]
    specs = [structs.replace(side.spec, revision="", texts=()) for side in sides]
    benchmarks = {
        os.path.relpath(path, folder)
        for side in sides
        for path in side.benchmark_files
        for folder in (tree.root, tree.path, side.tree.path if side.tree else tree.root)
    }
    return find_changes(tree.root, commits[0], commits[1], benchmarks, are_all=specs[0] == specs[1])


def sides_to_spawn(sides: Sequence[Side]) -> list[Side]:
    """Return the sides that fork workers while the other cannot: forked and spawned processes differ, which would bias the result."""
    starts = {side.session.launcher.start for side in sides}
    return [side for side in sides if side.session.launcher.start == "fork"] if len(starts) > 1 else []


@contextlib.contextmanager
def _closed_undisturbed() -> Iterator[contextlib.ExitStack]:
    """Close everything that was opened, even if Ctrl-C is pressed repeatedly."""
    stack = contextlib.ExitStack()
    try:
        yield stack
    finally:
        with ignoring_interrupts():
            stack.close()


@contextlib.contextmanager
def _scratch() -> Iterator[Scratch]:
    scratch = make_scratch()
    try:
        yield scratch
    finally:
        scratch.remove()


def _world(name: str, spec: SideSpec, tree: Worktree | None, folder: str, root: str = "") -> World:
    """Return where the workers of a side run.

    Other code and interpreters import torchstone through a folder with only a link to it, because the installed folder also
    contains this environment's torch. ``root`` is the repository whose working tree is compared with a revision.
    """
    root = tree.path if tree else root
    world = find_python(spec.python, f"--{name.lower()}") if spec.python else World()
    variables = dict(spec.variables)
    path: tuple[str, ...] | None = None
    given = variables.pop("PYTHONPATH", None)
    if spec.python or root or given is not None:
        link = os.path.join(folder, "link")
        if not os.path.isdir(link):
            os.makedirs(link)
            os.symlink(worker_environment.PACKAGE, os.path.join(link, "torchstone"))
        inherited = () if spec.python else worker_environment.inherited_path()
        further = inherited if given is None else tuple(given.split(os.pathsep))
        code = (root, os.path.join(root, "src")) if root else ()
        path = (link, *code, *((tree.place(each) for each in further) if tree else further))
    if spec.python:
        programs = variables.get("PATH", worker_environment.inherited_programs())
        variables["PATH"] = os.pathsep.join((os.path.dirname(world.python), programs))
    return World(world.python, world.version, world.torch, tuple(variables.items()), path)


def _request(
    spec: SideSpec, request: PlanRequest, tree: Worktree | None, sources: dict[str, BenchmarkSource]
) -> PlanRequest:
    """Return the request of this side: the same benchmarks, from these sources, with its compile options."""
    settings, axes = structs.replace(request.settings, sources=sources), request.axes
    if tree:
        folder = tree.place(settings.folder or os.getcwd())
        if not os.path.isdir(folder):
            raise InputError(f"this folder is not in the revision {spec.revision}", path=os.getcwd())
        settings = structs.replace(settings, folder=folder)
    if spec.compile_mode or spec.options:
        settings = structs.replace(
            settings, compile_mode=spec.compile_mode or None, options=dict(spec.options)
        )
    if spec.backend:
        axes = structs.replace(axes, backends=(spec.backend,))
    targets = structs.replace(request.targets, sources=settings.sources)
    return structs.replace(request, settings=settings, axes=axes, targets=targets)


def choose_cores(device: str, threads: int) -> list[int]:
    """Choose the cores that both sides are timed on: one per thread, the last ones, because the first handles most interrupts.

    Empty for an accelerator, whose driver has its own threads.
    """
    if device.partition(":")[0] != "cpu" or not sys.platform.startswith("linux"):
        return []
    return sorted(os.sched_getaffinity(0))[-threads:]
