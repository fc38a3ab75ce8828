"""The default criteria: docs/gate.md states what the gate judges by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchstone.core.records import Case, Measurement
from torchstone.gate.blocking_policy import Policy
from torchstone.gate.criteria import CompareSettings
from torchstone.gate.defaults import DEFAULTS, noise_of
from torchstone.gate.rules import RuleBook

DOCS = Path(__file__).parents[2] / "docs"
SOURCES = Path(__file__).parents[2] / "src" / "torchstone"
PAGE = (DOCS / "gate.md").read_text()
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
    assert re.search(rf"^\| `check`.* \| {100 * DEFAULTS.alpha:g} % \| all rows", PAGE, re.MULTILINE)
    assert re.search(rf"^\| `ab` \| {100 * DEFAULTS.pair_alpha:g} % \| each case", PAGE, re.MULTILINE)
    assert stated("pairs of `ab`")[0] == f"{100 * DEFAULTS.pair_margin:g} %"
    assert stated("savings of compile time, scaling efficiency")[0] == f"{DEFAULTS.points:g} points"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_no_other_page_repeats_the_default_limits(page: Path) -> None:
    if page.name == "gate.md":
        return
    prose = re.sub(r"^(    .*|\|.*|```.*?^```)$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    limits = {DEFAULTS.gain_floor, DEFAULTS.time_ceiling, DEFAULTS.device_ceiling, DEFAULTS.rate_floor}
    assert not re.search(rf"({'|'.join(map(re.escape, map(str, limits)))}) ?x", prose)
    assert not re.search(rf"default[^.]*\b{100 * DEFAULTS.pair_alpha:g} ?%", prose)


def test_no_other_module_repeats_the_default_limits() -> None:
    """The numbers of a rule are in the record of defaults, which every default rule takes them from."""
    source = (SOURCES / "gate" / "defaults.py").read_text()
    _, rules = source.split("DEFAULTS = DefaultCriteria()")
    assert not re.search(r"(ratio|usual|tolerance)=[\d.]", rules)
    for path in SOURCES.rglob("*.py"):
        if path.name != "defaults.py":
            assert not re.search(r"\b(alpha|margin)\b[^=\n]*= 0\.\d*[1-9]", path.read_text()), path
