"""torchstone: continuous benchmarking for PyTorch and ``torch.compile``.

The flow, every arrow one typed function:

    resolve_targets(targets)        -> Targets             suites and files: where benchmarks come from
    plan_cases(listings, axes, selection) -> list[Case]    what will be measured, in which order
    Supervisor.execute(cases)       -> Iterator[Outcome]   parent: one isolated worker per case
        run_case(benchmark, job, ...)                      child: the only code that imports torch
    Journal.append(outcome)                                one JSON line, on disk before the next case starts
    read_file(path)                 -> Reading             a run, or what is expected, from any file
    merge(readings)                 -> Results             shards as one, the same case twice refused
    judge(results, baseline, conditions) -> Judgement      the gate; also decides the exit code
    propose(baseline, text, readings, ...) -> Proposal     what accepting the results would change
    render_*(report)                -> str                 terminal, Markdown, JUnit, JSON, GitHub

The parent never imports torch: a gate works on any machine, and answers at once.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchstone.define.benchmarks import Benchmark, Check, Suite, Work, benchmark
    from torchstone.define.counted import Counted, counted

__version__ = "0.1.0"

__all__ = ["Benchmark", "Check", "Counted", "Suite", "Work", "__version__", "benchmark", "counted"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  (what a benchmark file needs, loaded only when it asks)
    if name in __all__:
        from torchstone.define import benchmarks  # noqa: PLC0415  (keeps 'import torchstone' fast)
        from torchstone.define import counted as counted_work  # noqa: PLC0415  (keeps 'import torchstone' fast)

        return getattr(counted_work if name in {"Counted", "counted"} else benchmarks, name)
    raise AttributeError(f"module 'torchstone' has no attribute '{name}'")
