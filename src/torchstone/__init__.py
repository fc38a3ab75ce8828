"""torchstone: continuous benchmarking for PyTorch and ``torch.compile``.

The flow, every arrow one typed function (the ones marked ``*`` are still to come):

    collect(suites, selection)      -> list[Case]          what there is to measure *
    plan(cases, settings)           -> Plan                what will be measured, in which order *
    execute(plan)                   -> Iterator[Outcome]   one isolated worker per case *
    formats.read_results(paths)     -> Results             what somebody measured, from any file
    formats.read_baseline(path)     -> Baseline            what is expected, from any file
    judge(results, baselines, policy, ...) -> Judgement    the gate; also decides the exit code
    propose(baseline, readings)     -> Proposal            what accepting the results would change
    render_*(report)                -> str                 terminal, Markdown, JUnit, JSON, GitHub

Nothing here imports torch: a gate works on any machine, and answers at once.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
