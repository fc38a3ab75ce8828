"""The public Python API: one function per capability, from a request to a result.

Nothing here prints or exits.

Names are loaded on first use, so that importing torchstone stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchstone.api.explaining.explain import ExplainResult, explain
    from torchstone.api.explaining.explain_time import TimeExplainResult
    from torchstone.api.files.convert import ConvertResult, convert
    from torchstone.api.files.read import read
    from torchstone.api.files.report import ReportResult, report
    from torchstone.api.files.show_run import ShowResult, show
    from torchstone.api.inspecting.doctor import DoctorResult, doctor
    from torchstone.api.inspecting.listing import ListResult, list_benchmarks
    from torchstone.api.judging.accept import AcceptResult, accept
    from torchstone.api.judging.check import CheckResult, check
    from torchstone.api.judging.compare import CompareResult, compare
    from torchstone.api.keeping.changes import ChangesResult, changes
    from torchstone.api.keeping.flaky import FlakyResult, QuarantineSuggestions, flaky, suggest_quarantine
    from torchstone.api.keeping.history_store import HistoryStore
    from torchstone.api.keeping.record import RecordResult, record
    from torchstone.api.keeping.series import SeriesResult, series
    from torchstone.api.keeping.triage import GroupResult, Triage, TriageResult
    from torchstone.api.measuring.ab import ab
    from torchstone.api.measuring.ab_result import AbResult
    from torchstone.api.measuring.cachebench import CachebenchResult, cachebench
    from torchstone.api.measuring.events import (
        CaseMeasured,
        CaseStarted,
        Notice,
        PairMeasured,
        PhaseEntered,
        Planned,
        Prepared,
        Preparing,
        SelfCompared,
    )
    from torchstone.api.measuring.pr_time import PrTimeResult, pr_time
    from torchstone.api.measuring.run import MeasuredRun, plan, run, stream
    from torchstone.api.measuring.selftest import SelftestResult, selftest
    from torchstone.api.quarantine.quarantine_list import Quarantine
    from torchstone.api.quarantine.quarantine_review import QuarantineReview
    from torchstone.api.repeating.repro import ReproResult, repro
    from torchstone.api.results import RunResult
    from torchstone.api.script import main
    from torchstone.core.cautions import Caution
    from torchstone.core.errors import InputError, TorchstoneError, UsageError
    from torchstone.core.quarantine_entries import QuarantineEntry
    from torchstone.core.records import Case, Measurement, Outcome, Reading, Run

_HOMES = {
    "torchstone.api.measuring.run": ("MeasuredRun", "plan", "run", "stream"),
    "torchstone.api.measuring.ab": ("ab",),
    "torchstone.api.measuring.ab_result": ("AbResult",),
    "torchstone.api.inspecting.listing": ("ListResult", "list_benchmarks"),
    "torchstone.api.repeating.repro": ("ReproResult", "repro"),
    "torchstone.api.measuring.selftest": ("SelftestResult", "selftest"),
    "torchstone.api.measuring.cachebench": ("CachebenchResult", "cachebench"),
    "torchstone.api.measuring.pr_time": ("PrTimeResult", "pr_time"),
    "torchstone.api.script": ("main",),
    "torchstone.api.measuring.events": (
        "CaseMeasured",
        "CaseStarted",
        "Notice",
        "PairMeasured",
        "PhaseEntered",
        "Planned",
        "Prepared",
        "Preparing",
        "SelfCompared",
    ),
    "torchstone.core.records": ("Case", "Measurement", "Outcome", "Reading", "Run"),
    "torchstone.api.files.convert": ("ConvertResult", "convert"),
    "torchstone.api.files.read": ("read",),
    "torchstone.api.files.report": ("ReportResult", "report"),
    "torchstone.api.files.show_run": ("ShowResult", "show"),
    "torchstone.api.judging.accept": ("AcceptResult", "accept"),
    "torchstone.api.judging.check": ("CheckResult", "check"),
    "torchstone.api.judging.compare": ("CompareResult", "compare"),
    "torchstone.api.explaining.explain": ("ExplainResult", "explain"),
    "torchstone.api.explaining.explain_time": ("TimeExplainResult",),
    "torchstone.api.keeping.changes": ("ChangesResult", "changes"),
    "torchstone.api.keeping.triage": ("GroupResult", "Triage", "TriageResult"),
    "torchstone.api.keeping.flaky": (
        "FlakyResult",
        "QuarantineSuggestions",
        "flaky",
        "suggest_quarantine",
    ),
    "torchstone.api.keeping.record": ("RecordResult", "record"),
    "torchstone.api.keeping.series": ("SeriesResult", "series"),
    "torchstone.api.keeping.history_store": ("HistoryStore",),
    "torchstone.api.inspecting.doctor": ("DoctorResult", "doctor"),
    "torchstone.api.quarantine.quarantine_list": ("Quarantine",),
    "torchstone.api.quarantine.quarantine_review": ("QuarantineReview",),
    "torchstone.api.results": ("RunResult",),
    "torchstone.core.cautions": ("Caution",),
    "torchstone.core.quarantine_entries": ("QuarantineEntry",),
    "torchstone.core.errors": ("InputError", "TorchstoneError", "UsageError"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AbResult",
    "AcceptResult",
    "CachebenchResult",
    "Case",
    "CaseMeasured",
    "CaseStarted",
    "Caution",
    "ChangesResult",
    "CheckResult",
    "CompareResult",
    "ConvertResult",
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
    "TimeExplainResult",
    "TorchstoneError",
    "Triage",
    "TriageResult",
    "UsageError",
    "ab",
    "accept",
    "cachebench",
    "changes",
    "check",
    "compare",
    "convert",
    "doctor",
    "explain",
    "flaky",
    "list_benchmarks",
    "main",
    "plan",
    "pr_time",
    "read",
    "record",
    "report",
    "repro",
    "run",
    "selftest",
    "series",
    "show",
    "stream",
    "suggest_quarantine",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  (a function or a class)
    if name not in _HOME_OF:
        raise AttributeError(f"module 'torchstone.api' has no attribute '{name}'")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
