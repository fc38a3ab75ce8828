"""Call the parts of the worker that import torch.

They are loaded here, by name; the zygote preloads them.

Importing torch takes seconds, and a process that has imported it cannot always be forked. So a worker imports
torch only when it has its job, and a keeper that is not a zygote never does. Each function below loads the module
it calls; tests/test_architecture.py counts these modules as imports.
"""

from __future__ import annotations

from importlib import import_module

from torchstone.define.benchmarks import Benchmark
from torchstone.define.counted import Counted
from torchstone.worker.probes.reply import Exchange, PhaseClock, Result
from torchstone.worker.protocol.jobs import CaseAxes, MeasureJob, RoundPlan, SurveyJob, TorchSettings
from torchstone.worker.protocol.rank_report import RankReport
from torchstone.worker.protocol.replies import SurveyReply
from torchstone.worker.ranks.progress import TellProgress


def run_case(
    benchmark: Benchmark | Counted, job: MeasureJob, clock: PhaseClock, result: Result, exchange: Exchange
) -> None:
    """Measure one case, and add to ``result``."""
    import_module("torchstone.worker.probes.run_case").run_case(benchmark, job, clock, result, exchange)


def apply_torch_settings(settings: TorchSettings) -> None:
    """Apply the settings of torch that a job chose to this process."""
    import_module("torchstone.worker.probes.compiler.torch_settings").apply_torch_settings(settings)


def train_rank(
    benchmark: Benchmark, axes: CaseAxes, plan: RoundPlan, rank: int, tell_progress: TellProgress
) -> RankReport:
    """Train one rank of a round, and return its report."""
    scaling = import_module("torchstone.worker.probes.scaling")
    report: RankReport = scaling.train_rank(benchmark, axes, plan, rank, tell_progress)
    return report


def survey_torch(job: SurveyJob, reply: SurveyReply, default_threads: int | None) -> SurveyReply:
    """Add to a survey what only torch knows: devices, backends, collectives, and the environment."""
    torch_survey = import_module("torchstone.worker.machine.torch_survey")
    complete: SurveyReply = torch_survey.survey_torch(job, reply, default_threads)
    return complete
