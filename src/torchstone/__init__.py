"""torchstone: continuous benchmarking for PyTorch and ``torch.compile``.

The data flow; every arrow is one typed function:

    resolve_targets(targets)        -> Targets             find suites and files with benchmarks
    plan_cases(listings, axes, selection) -> list[Case]    plan the cases and their order
    Supervisor.execute(cases)       -> Iterator[Outcome]   parent: measure each case in its own worker process
        run_case(benchmark, job, ...)                      worker: the only code that imports torch
    Journal.append(outcome)                                write one JSON line, before the next case starts
    read_file(path)                 -> Reading             read a run or expected values from any file
    merge(readings)                 -> Results             merge shards; a case must not occur twice
    weigh(base, new)                -> Comparison          compute effect, interval and certainty
    judge(comparison, rule, policy, metric) -> Ruling      decide on a verdict, and whether it blocks
    propose(baseline, text, readings, ...) -> Proposal     find the changes that accepting results would make
    render_*(report)                -> str                 render as text, Markdown, JUnit, JSON, GitHub

The parent process never imports torch, so that a check runs on any machine, and starts fast.
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
        ChangesResult,
        CheckResult,
        CompareResult,
        ConvertResult,
        DoctorResult,
        ExplainResult,
        FlakyResult,
        GroupResult,
        HistoryStore,
        InputError,
        ListResult,
        MeasuredRun,
        Measurement,
        Notice,
        Outcome,
        PairMeasured,
        PhaseEntered,
        Planned,
        Prepared,
        Preparing,
        PrTimeResult,
        Quarantine,
        QuarantineEntry,
        QuarantineReview,
        QuarantineSuggestions,
        Reading,
        RecordResult,
        ReportResult,
        ReproResult,
        Run,
        RunResult,
        SelfCompared,
        SelftestResult,
        SeriesResult,
        ShowResult,
        TimeExplainResult,
        TorchstoneError,
        Triage,
        TriageResult,
        UsageError,
        ab,
        accept,
        cachebench,
        changes,
        check,
        compare,
        convert,
        doctor,
        explain,
        flaky,
        list_benchmarks,
        main,
        plan,
        pr_time,
        read,
        record,
        report,
        repro,
        run,
        selftest,
        series,
        show,
        stream,
        suggest_quarantine,
    )
    from torchstone.dashboard.serving import serve
    from torchstone.dashboard.static_site import SiteResult, make_site
    from torchstone.define.benchmarks import Benchmark, Check, Suite, Work, benchmark
    from torchstone.define.counted import Counted, counted
    from torchstone.define.custom_metrics import metric
    from torchstone.integrations.notify import NotifyResult, notify

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
    "ChangesResult",
    "Check",
    "CheckResult",
    "CompareResult",
    "ConvertResult",
    "Counted",
    "DoctorResult",
    "ExplainResult",
    "FlakyResult",
    "GroupResult",
    "HistoryStore",
    "InputError",
    "ListResult",
    "MeasuredRun",
    "Measurement",
    "Notice",
    "NotifyResult",
    "Outcome",
    "PairMeasured",
    "PhaseEntered",
    "Planned",
    "PrTimeResult",
    "Prepared",
    "Preparing",
    "Quarantine",
    "QuarantineEntry",
    "QuarantineReview",
    "QuarantineSuggestions",
    "Reading",
    "RecordResult",
    "ReportResult",
    "ReproResult",
    "Run",
    "RunResult",
    "SelfCompared",
    "SelftestResult",
    "SeriesResult",
    "ShowResult",
    "SiteResult",
    "Suite",
    "TimeExplainResult",
    "TorchstoneError",
    "Triage",
    "TriageResult",
    "UsageError",
    "Work",
    "__version__",
    "ab",
    "accept",
    "benchmark",
    "cachebench",
    "changes",
    "check",
    "compare",
    "convert",
    "counted",
    "doctor",
    "explain",
    "flaky",
    "list_benchmarks",
    "main",
    "make_site",
    "metric",
    "notify",
    "plan",
    "pr_time",
    "read",
    "record",
    "report",
    "repro",
    "run",
    "selftest",
    "series",
    "serve",
    "show",
    "stream",
    "suggest_quarantine",
]

_DEFINING = {
    **dict.fromkeys(("Benchmark", "Check", "Suite", "Work", "benchmark"), "torchstone.define.benchmarks"),
    **dict.fromkeys(("Counted", "counted"), "torchstone.define.counted"),
    "metric": "torchstone.define.custom_metrics",
    **dict.fromkeys(("NotifyResult", "notify"), "torchstone.integrations.notify"),
}
_SHOWING = {
    **dict.fromkeys(("SiteResult", "make_site"), "torchstone.dashboard.static_site"),
    "serve": "torchstone.dashboard.serving",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  (a function or a class, loaded on first use)
    if name not in __all__:
        raise AttributeError(f"module 'torchstone' has no attribute '{name}'")
    if name in _DEFINING:
        # torch.compile does not look into this function: once a file defines benchmarks, ``metric`` is a plain name.
        globals()["metric"] = import_module(_DEFINING["metric"]).metric
    return getattr(import_module((_DEFINING | _SHOWING).get(name, "torchstone.api")), name)


def __dir__() -> list[str]:
    return __all__
