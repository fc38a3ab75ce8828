"""torchstone: continuous benchmarking for PyTorch and ``torch.compile``.

The flow, every arrow one typed function (the ones marked ``*`` are still to come):

    collect(suites, selection)      -> list[Case]          what there is to measure *
    plan(cases, settings)           -> Plan                what will be measured, in which order *
    execute(plan)                   -> Iterator[Outcome]   one isolated worker per case *
    read_file(path)                 -> Reading             a run, or what is expected, from any file
    merge(readings)                 -> Results             shards as one, the same case twice refused
    judge(results, baseline, conditions) -> Judgement      the gate; also decides the exit code
    propose(baseline, text, readings, ...) -> Proposal     what accepting the results would change
    render_*(report)                -> str                 terminal, Markdown, JUnit, JSON, GitHub

Nothing here imports torch: a gate works on any machine, and answers at once.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
