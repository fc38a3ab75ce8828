"""A terminal of 80 columns: tables fit without broken words, and a step that takes long stays on its line."""

from __future__ import annotations

import sys
from pathlib import Path

import pexpect

from comparison_files import case_of, counts, passed, times, write_run
from conftest import start_on_terminal
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Measurement, Outcome

STEP = "loading torch for A (rev=a-branch-with-a-long-name), and then some more that does not fit into a line"


def measured(name: str, seed: int) -> list[Outcome]:
    speedup = Measurement("speedup", (1.112,), MeasurementDetails(interval=(1.078, 1.147), confidence=0.95))
    compiled = Measurement("compile_seconds", (8.092,))
    peak = Measurement("dynamo_peak_mem", (0.3846,))
    return [
        passed(name, times(1.0, seed=seed), speedup, compiled, peak, counts("graph_breaks", 1)),
        passed(name, compiled, case=case_of(name, "accuracy")),
    ]


def test_the_summary_of_a_run_fits_80_columns_without_broken_words(tmp_path: Path) -> None:
    write_run(tmp_path, "run.jsonl", [*measured("attention", 1), *measured("graph_break", 2)])
    terminal = start_on_terminal(tmp_path, "show", "run.jsonl")
    terminal.expect(pexpect.EOF)
    lines = [" ".join(line.split()) for line in str(terminal.before).splitlines()]
    assert any(line.startswith("accuracy 2/2 (100%)") for line in lines), lines
    assert any(line.startswith("performance 2/2 (100%) 1.112x") and "0.3846 GB" in line for line in lines)
    assert all(len(line.rstrip()) <= 80 for line in str(terminal.before).splitlines())


def test_a_step_that_takes_long_is_replaced_in_its_line_instead_of_filling_the_screen(tmp_path: Path) -> None:
    script = (
        "import time\n"
        "from torchstone.cli.options.shared import show_progress\n"
        f"with show_progress({STEP!r}):\n    time.sleep(1.3)\n"
    )
    terminal = pexpect.spawn(
        sys.executable, ["-c", script], cwd=str(tmp_path), encoding="utf-8", timeout=60, dimensions=(24, 80)
    )
    terminal.expect(pexpect.EOF)
    shown = str(terminal.before).split("\r")
    (step,) = [each for each in shown if each.startswith("loading")]
    assert step.endswith("… ... 1 s")
    assert len(step) < 80
