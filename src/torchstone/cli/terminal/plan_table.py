"""Print the plan of a run as a table."""

from __future__ import annotations

from torchstone.cli.terminal.tables import print_table
from torchstone.core.records import Run
from torchstone.core.text.units import count_of
from torchstone.reporting.dialects.case_label import round_words


def print_plan(run: Run) -> None:
    """Print the cases that would be measured."""
    rows = []
    for case in run.plan:
        axes = case.variant.axes()
        size = axes.pop("batch_size", "")
        words = round_words(case)
        if words:
            axes = {axis: value for axis, value in axes.items() if axis not in {"ranks", "strategy"}}
            axes |= {"bucket_mb": f"{axes['bucket_mb']} MB"} if "bucket_mb" in axes else {}
        rows.append([case.suite, case.benchmark, case.probe, size, " ".join([*axes.values(), words]).strip()])
    print_table(
        ["suite", "benchmark", "probe", "batch", "variant"],
        rows,
        title=f"{count_of(len(run.plan), 'case')} would be measured",
    )
