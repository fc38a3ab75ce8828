"""A session: the scratch folder, the launcher of workers, and the survey of what can be measured."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import UsageError
from torchstone.core.records import Case
from torchstone.core.run_settings import name_choices
from torchstone.core.vocabulary import DEFAULT_SCENARIOS, Probe
from torchstone.measure.devices.placement import DevicePlacement
from torchstone.measure.executors.protocol import (
    CannotMeasureError,
    Launcher,
    LauncherRequest,
    OutOfTimeError,
)
from torchstone.measure.executors.selection import current_executor
from torchstone.measure.measuring import Settings, case_file, make_job
from torchstone.measure.procedures.compile_cache_procedure import Account, CacheProcedure
from torchstone.measure.procedures.procedure import Procedure, SingleProcedure
from torchstone.measure.procedures.rounds import RankCapacity
from torchstone.measure.procedures.scaling_procedure import HostGroup, ScalingProcedure, plan_of
from torchstone.measure.procedures.trials import TrialsProcedure
from torchstone.measure.simulation import SimulationLauncher, counting_folder, start_simulation
from torchstone.measure.supervisor import Supervisor, Watcher, WorkerLimits
from torchstone.measure.survey_replies import (
    Answer,
    NoAnswerError,
    no_answer_error,
    raise_errors,
    source_error,
    split_broken,
    wait_for_answer,
)
from torchstone.measure.targets import Targets, leave_out_empty
from torchstone.measure.torch_loading import torch_loading_error, torch_missing_error
from torchstone.measure.worker_messages import source_messages
from torchstone.worker import worker_environment
from torchstone.worker.cache_template import is_filled, read_probing_seconds
from torchstone.worker.process_tree import ignoring_interrupts, terminated_as_interrupted
from torchstone.worker.protocol.jobs import MeasureJob, PrimeJob, SurveyJob
from torchstone.worker.protocol.keeper_messages import KeeperBroken, KeeperSetup
from torchstone.worker.protocol.replies import ErrorReply, SurveyReply
from torchstone.worker.scratch import make_scratch, sweep
from torchstone.worker.worker_environment import World

SURVEY_TIMEOUT = 600.0
LEAST_SURVEY_TIMEOUT = 30.0


@dataclass(frozen=True)
class TargetsSurvey:
    """The survey of a command's targets, and one error line for each file that cannot be imported."""

    survey: SurveyReply
    broken: tuple[str, ...] = ()


class Session:
    """Starts workers for one command, and leaves nothing behind. ``tell`` receives messages for the user.

    After ``deadline``, on the monotonic clock, preparing raises OutOfTimeError.
    """

    def __init__(
        self, start: str, cache: str, tell: Callable[[str], None], world: World = worker_environment.HERE
    ) -> None:
        self._executor = current_executor()
        self._start = start
        self.world = world
        self._keeps_cache = cache == "warm"
        self._tell = tell
        self.deadline = math.inf
        self._launcher: Launcher | None = None
        self._is_primed = False
        self._sources: list[BenchmarkSource] = []
        self._simulated_template = ""
        self.cautions: list[Caution] = []
        self.trusts_artifacts = False
        self.host_group = HostGroup(RankCapacity(1, 1, ""), (socket.gethostname(),))

    def __enter__(self) -> Session:
        with contextlib.ExitStack() as stack:
            stack.enter_context(terminated_as_interrupted())
            self.template = worker_environment.template_folder(world=self.world)
            sweep()
            self._scratch = make_scratch()
            self._signals = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ignoring_interrupts():
            if self._launcher is not None:
                self._launcher.close()
            self._scratch.remove()
        self._signals.close()

    @property
    def scratch(self) -> str:
        """Return the folder for caches and temporary files of this session."""
        return self._scratch.path

    @property
    def launcher(self) -> Launcher:
        """Return the launcher of workers."""
        if self._launcher is None:
            raise RuntimeError("the session has not been started")
        return self._launcher

    def start_workers(self, sources: Sequence[BenchmarkSource], devices: Sequence[str] = ()) -> None:
        """Prepare to start workers for these sources and devices: by forking, if possible and allowed."""
        variables = worker_environment.worker_variables(self.template, self.world)
        has_fork = sys.platform.startswith("linux")
        if self._start == "fork" and not has_fork:
            raise UsageError("--start fork works on Linux only", advice="leave it out, or use --start spawn")
        if self._start != "spawn" and has_fork:
            # The zygote does not import a user's file, which may print, hang, crash, or start threads.
            shared = self._sources = [source for source in sources if not source.is_file]
            problem = self._start_keeper("fork", variables, shared, devices)
            if not problem:
                return
            if self._start == "fork":
                raise CannotMeasureError(f"workers cannot be forked: {problem}", advice="try --start spawn")
            self.cautions.append(make_caution(CautionKind.WORKERS_SPAWNED, problem=problem))
        self._start_keeper("spawn", variables)

    def switch_to_spawn(self) -> None:
        """Spawn workers from now on, because the other side's cannot be forked; call ``start_workers`` again."""
        if self._launcher is not None:
            self._end_launcher(self._launcher)
        self._start = "spawn"

    def _end_launcher(self, launcher: Launcher) -> None:
        """Kill everything that was started; a keeper removes the scratch folder when it exits."""
        launcher.close()
        self._launcher = None
        self._scratch.remove()
        self._scratch = make_scratch()

    def _start_keeper(
        self,
        start: str,
        variables: Mapping[str, str],
        sources: Sequence[BenchmarkSource] = (),
        devices: Sequence[str] = (),
    ) -> str:
        """Start the launcher; return why it cannot be used, empty if it can."""
        log_path = os.path.join(self.scratch, "keeper.log")
        lock = self._scratch.lock
        setup = KeeperSetup(
            self.template, self.scratch, lock, self._temporary(), source_messages(sources), tuple(devices)
        )
        request = LauncherRequest(start, variables, setup, log_path, self.world.python, (lock,))
        keeper = self._executor.open(request)
        self._launcher = SimulationLauncher(keeper)  # from here on, the session closes it
        reply = keeper.wait_until_ready(self._at_most(SURVEY_TIMEOUT))
        if isinstance(reply, KeeperBroken):
            self._check_time()
            raise self._loading_error(reply, log_path)
        self.cautions += [make_caution(CautionKind.STARTING_WORKERS, note=note) for note in reply.notes]
        if reply.blocked:
            self._end_launcher(keeper)
        return reply.blocked

    def _at_most(self, seconds: float) -> float:
        """Return how long to wait: this long, but not beyond the deadline."""
        return max(0.0, min(seconds, self.deadline - time.monotonic()))

    def _check_time(self) -> None:
        """Raise OutOfTimeError after the deadline."""
        if time.monotonic() >= self.deadline:
            raise OutOfTimeError("the time for preparing is spent")

    def _temporary(self) -> str:
        """Return a folder for temporary files that belong to no case."""
        folder = os.path.join(self.scratch, "tmp")
        os.makedirs(folder, exist_ok=True)
        return folder

    def _loading_error(self, reply: KeeperBroken, log_path: str) -> CannotMeasureError:
        if reply.torch_missing:
            return torch_missing_error(self.world.python)
        output = ""
        with contextlib.suppress(OSError), open(log_path, errors="replace") as file:
            output = file.read()
        return torch_loading_error(reply.broken, output, self.world.python)

    def renew(self) -> Callable[[], None]:
        """Fork later workers from a new process; the returned function waits until it is ready."""
        return self.launcher.renew()

    def survey(self, job: SurveyJob, timeout: float = SURVEY_TIMEOUT) -> SurveyReply:
        """Survey what can be measured; raise the first error of a source."""
        found = self._run_survey(job, timeout)
        raise_errors(found.sources)
        return found

    def survey_targets(
        self,
        targets: Targets,
        job: SurveyJob,
        timeout: float = SURVEY_TIMEOUT,
        *,
        keeps_going: bool = False,
    ) -> TargetsSurvey:
        """Survey the targets of a command; report files that are skipped because they define no benchmark.

        With ``keeps_going``, also report files that cannot be imported, if there are others; they are in ``broken``.
        """
        found = self._run_survey(
            replace(job, sources=job.sources or source_messages(targets.sources.values())), timeout
        )
        sources, empty = leave_out_empty(targets, found.sources)
        sources, errors = split_broken(sources, keeps_going=keeps_going and targets.may_skip)
        broken = tuple(f"{error.place}: {error.message}" for error in errors)
        for each in sorted((*targets.skipped, *empty), key=lambda skipped: skipped.path):
            self._tell(each.line)
        for line in broken:
            self._tell(f"error: {line}")
        return TargetsSurvey(replace(found, sources=tuple(sources)), broken)

    def _run_survey(self, job: SurveyJob, timeout: float) -> SurveyReply:
        """Return a worker's survey.

        Its timeout is that of a case, but always long enough to load torch.
        """
        patience = min(SURVEY_TIMEOUT, max(LEAST_SURVEY_TIMEOUT, timeout))
        answer = self._ask(replace(job, temporary=self._temporary()), patience)
        if isinstance(answer, SurveyReply):
            if tuple(found.source for found in answer.sources) != job.sources:
                raise CannotMeasureError("the worker's survey is about other sources than requested")
            if job.torch and (answer.environment is None or not answer.devices):
                raise CannotMeasureError("the worker's survey lacks the environment or the devices")
            return answer
        if not isinstance(answer, ErrorReply):
            raise CannotMeasureError("the worker's reply is not a survey")
        if answer.torch_missing:
            raise torch_missing_error(self.world.python)
        if answer.is_of_torch:
            raise torch_loading_error(answer.message, answer.traceback, self.world.python)
        raise source_error(answer)

    def _ask(self, job: SurveyJob | PrimeJob, patience: float) -> Answer:
        try:
            return wait_for_answer(self.launcher.launch(job), self.launcher, self._at_most(patience))
        except NoAnswerError as silent:
            self._check_time()
            raise no_answer_error(silent) from None

    def preload(self, libraries: Sequence[str]) -> None:
        """Import libraries once, before workers are forked, if they allow it."""
        if libraries:
            self.launcher.preload(libraries)

    def needs_priming(self, case: Case) -> bool:
        """Return whether the cache template has to be filled before this case."""
        device = case.variant.device.partition(":")[0]
        is_compiled = device == "cpu" and case.variant.backend != "none"
        return is_compiled and not self._is_primed and not is_filled(self.template)

    def prime(self, case: Case) -> None:
        """Fill the cache template before the first case that needs it, unless a zygote has: else that case would take longer."""
        if not self.needs_priming(case):
            return
        self._is_primed = True
        job = PrimeJob(self.template, self._temporary())
        try:
            patience = self._at_most(SURVEY_TIMEOUT)
            answer = wait_for_answer(self.launcher.launch(job), self.launcher, patience)
            problem = answer.message if isinstance(answer, ErrorReply) else ""
        except NoAnswerError as silent:
            problem = silent.problem
        if problem:
            caution = make_caution(CautionKind.STARTING_WORKERS, note=f"no warm-up compile: {problem}")
            self._tell(f"caution: {caution}")

    def _start_simulation(self) -> str:
        """Prepare to start workers under valgrind, once; return the template of their caches."""
        launcher = self.launcher
        if not isinstance(launcher, SimulationLauncher):
            raise CannotMeasureError("the simulated counter works on Linux only")
        if launcher.simulated is None:
            self._tell("loading torch under valgrind, which takes about half a minute")
            launcher.simulated, self._simulated_template = start_simulation(self.scratch, self._sources)
        return self._simulated_template

    def _counting_job(self, job: MeasureJob, number: int) -> MeasureJob:
        """Return a counting job with its own cache; simulated workers use another template."""
        template = self._start_simulation() if job.is_simulated else self.template
        environment = worker_environment.make_case_folder(self.scratch, number, template, None)
        counting = replace(job.counting, folder=counting_folder(self.scratch))
        return replace(job, counting=counting, environment=environment)

    def _scaling_procedure(self, case: Case, job: MeasureJob, settings: Settings, number: int) -> Procedure:
        kept = self._kept_cache(settings)
        folder = worker_environment.make_case_folder(self.scratch, number, self.template, kept)
        threads = {"OMP_NUM_THREADS": str(settings.rank_threads)} if settings.rank_threads else {}
        job = replace(
            job,
            options=replace(job.options, threads=settings.rank_threads),
            environment=folder | threads | self.host_group.variables,
        )
        folders = worker_environment.CaseFolders(self.scratch, number, self.template)
        return ScalingProcedure(
            case, job, plan_of(case, settings), lambda: folders.make("round"), self.host_group
        )

    def _kept_cache(self, settings: Settings) -> str | None:
        """Return the warm cache for these settings; None if caches are cold."""
        return worker_environment.warm_cache_folder(name_choices(settings)) if self._keeps_cache else None

    def supervisor(self, settings: Settings, limits: WorkerLimits, watcher: Watcher) -> Supervisor:
        """Return a supervisor whose workers measure with these settings."""
        placement = DevicePlacement(limits.places)

        def procedure(case: Case, number: int) -> Procedure:
            if (settings.trials or 1) == 1:
                return one_trial(case, number)

            def begin() -> Procedure:
                self._remove_folder(
                    number
                )  # with the caches of the previous trial: every compile starts cold
                return one_trial(case, number)

            return TrialsProcedure(begin, settings.trials or 1)

        def one_trial(case: Case, number: int) -> Procedure:
            self.prime(case)
            device = placement.place(number, case)
            job = make_job(case, settings, self.launcher.start, device, shared=limits.jobs > 1)
            if case.probe == Probe.INSTRUCTIONS:
                return SingleProcedure(self._counting_job(job, number))
            if case.probe == Probe.SCALING:
                return self._scaling_procedure(case, job, settings, number)
            if case.probe == Probe.COMPILE_CACHE:
                return CacheProcedure(
                    case,
                    job,
                    worker_environment.CaseFolders(self.scratch, number, self.template),
                    settings.scenarios or DEFAULT_SCENARIOS,
                    settings.repeat or 1,
                    case_file(settings.load_artifacts, case, "artifacts"),
                    case_file(settings.save_artifacts, case, "artifacts"),
                    read_probing_seconds(self.template),
                    Account(worker_environment.made_here_folder(), self.trusts_artifacts),
                )
            environment = worker_environment.make_case_folder(
                self.scratch, number, self.template, self._kept_cache(settings)
            )
            if case.probe == Probe.ACCURACY:
                environment |= worker_environment.DETERMINISTIC
            return SingleProcedure(replace(job, environment=environment))

        def cleanup(number: int) -> None:
            placement.remove(number)
            self._remove_folder(number)

        return Supervisor(self.launcher, limits, procedure, cleanup, watcher, placement)

    def _remove_folder(self, number: int) -> None:
        """Remove the folder of a case, with its caches."""
        with contextlib.suppress(OSError):
            worker_environment.remove_case_folder(self.scratch, number)
