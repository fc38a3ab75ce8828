"""torchstone: continuous benchmarking for PyTorch and ``torch.compile``.

The flow, every arrow one typed function:

    resolve_targets(targets)        -> Targets             suites and files: where benchmarks come from
    plan_cases(listings, axes, selection) -> list[Case]    what will be measured, in which order
    Supervisor.execute(cases)       -> Iterator[Outcome]   parent: one isolated worker per case
        run_case(benchmark, job, ...)                      child: the only code that imports torch
    Journal.append(outcome)                                one JSON line, on disk before the next case starts
    read_file(path)                 -> Reading             a run, or what is expected, from any file
    merge(readings)                 -> Results             shards as one, the same case twice refused
    weigh(base, new)                -> Comparison          effect, interval, certainty: no judgement
    judge(comparison, rule, policy, metric) -> Ruling      the gate: a verdict, and whether it blocks
    propose(baseline, text, readings, ...) -> Proposal     what accepting the results would change
    render_*(report)                -> str                 terminal, Markdown, JUnit, JSON, GitHub

The parent never imports torch: a gate works on any machine, and answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchstone.api import (
        AbResult,
        AcceptResult,
        CachebenchResult,
        Case,
        CaseMeasured,
        CaseStarted,
        Caution,
        CheckResult,
        CompareResult,
        ConvertResult,
        DoctorResult,
        ExplainResult,
        InputError,
        MeasuredRun,
        Measurement,
        Notice,
        Outcome,
        PairMeasured,
        PhaseEntered,
        Planned,
        Preparing,
        PrTimeResult,
        Reading,
        ReportResult,
        Run,
        RunResult,
        SelfCompared,
        SelftestResult,
        TorchstoneError,
        UsageError,
        ab,
        accept,
        cachebench,
        check,
        compare,
        convert,
        doctor,
        explain,
        main,
        plan,
        pr_time,
        read,
        report,
        run,
        selftest,
        stream,
    )
    from torchstone.define.benchmarks import Benchmark, Check, Suite, Work, benchmark
    from torchstone.define.counted import Counted, counted

__version__ = "0.1.0"

__all__ = [
    "AbResult",
    "AcceptResult",
    "Benchmark",
    "CachebenchResult",
    "Case",
    "CaseMeasured",
    "CaseStarted",
    "Caution",
    "Check",
    "CheckResult",
    "CompareResult",
    "ConvertResult",
    "Counted",
    "DoctorResult",
    "ExplainResult",
    "InputError",
    "MeasuredRun",
    "Measurement",
    "Notice",
    "Outcome",
    "PairMeasured",
    "PhaseEntered",
    "Planned",
    "PrTimeResult",
    "Preparing",
    "Reading",
    "ReportResult",
    "Run",
    "RunResult",
    "SelfCompared",
    "SelftestResult",
    "Suite",
    "TorchstoneError",
    "UsageError",
    "Work",
    "__version__",
    "ab",
    "accept",
    "benchmark",
    "cachebench",
    "check",
    "compare",
    "convert",
    "counted",
    "doctor",
    "explain",
    "main",
    "plan",
    "pr_time",
    "read",
    "report",
    "run",
    "selftest",
    "stream",
]

_DEFINING = {
    **dict.fromkeys(("Benchmark", "Check", "Suite", "Work", "benchmark"), "torchstone.define.benchmarks"),
    **dict.fromkeys(("Counted", "counted"), "torchstone.define.counted"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  (a function or a class; loaded only when it is asked for)
    if name not in __all__:
        raise AttributeError(f"module 'torchstone' has no attribute '{name}'")
    return getattr(import_module(_DEFINING.get(name, "torchstone.api")), name)


def __dir__() -> list[str]:
    return __all__
