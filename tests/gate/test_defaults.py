"""The default criteria: docs/gate.md states what the gate judges by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchstone.core.records import Case, Measurement
from torchstone.gate.blocking_policy import Policy
from torchstone.gate.criteria import CompareSettings
from torchstone.gate.defaults import USUAL_ALPHA, noise_of
from torchstone.gate.rules import RuleBook

PAGE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text()
ROWS = {
    "`speedup`, `compression_ratio`": ("speedup", "compression_ratio"),
    "latencies, compile times, iteration times": (
        "abs_latency",
        "compile_seconds",
        "compilation_latency",
        "iteration_time",
        "cold_compile_seconds",
        "seconds",
    ),
    "memory": ("dynamo_peak_mem", "peak_memory", "bytes"),
    "`cpu_seconds`, `import_time_us`": ("cpu_seconds", "import_time_us"),
    "instruction counts": ("instruction_count",),
    "a metric without a rule": ("nobody_knows_it",),
}


def stated(row: str) -> tuple[str, str]:
    found = re.search(rf"^\| {re.escape(row)} \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
    assert found, row
    return found[1], found[2]


@pytest.mark.parametrize("row", ROWS)
def test_the_table_of_defaults_is_what_the_gate_judges_by(row: str) -> None:
    margin, noise = stated(row)
    settings = CompareSettings(Policy(), RuleBook())
    for metric in ROWS[row]:
        criteria = settings.criteria_of_metric(metric, Case("a", "performance"))
        found = settings.criteria_of(criteria, Measurement(metric, (100,)))
        share = 1 - found.limits[0] if criteria.better == "higher" else found.margin
        assert f"{100 * share:.3g} %" == margin.partition(" (")[0], metric
        if "exact" not in noise:
            assert f"{100 * (noise_of(metric) or 0):.3g} %" == noise, metric


def test_the_significance_level_is_the_one_on_the_page() -> None:
    assert f"Alpha is {100 * USUAL_ALPHA:g} %" in PAGE
