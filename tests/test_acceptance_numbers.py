"""What benchmarks/gpu_acceptance.py says of given steps: numbers beside what is wanted, and which steps are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from acceptance_numbers import COLD_MODELS, PAIR_MODELS, PROCESSES, SPEEDUP_MODELS, Step, summarise

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "gpu_acceptance.py"
HINT = "24 matrix products run in float32 although the model is bfloat16: attention is decomposed (math) under torch.compile"


def speedups(number: int, factor: float = 1.0) -> Step:
    """The device speedups that one process measured."""
    values = {f"{model}.device_speedup": 1.3 * factor for model in SPEEDUP_MODELS}
    intervals = {name: (value * 0.996, value * 1.004) for name, value in values.items()}
    condition = "quiet" if number < PROCESSES // 2 else "busy"
    return Step("speedups", condition, 40.0, values, intervals)


def complete() -> list[Step]:
    """All steps of a machine on which everything is as wanted."""
    return [
        Step("speedups", "warm-up", 90.0, {"T5Small.device_speedup": 9.0}),
        *(speedups(number, 1 + number / 2000) for number in range(PROCESSES)),
        Step("preset", "", 31.0, {"BertForMaskedLM": 6.55, "T5Small": 5.01}),
        Step("cold", "", 77.0, dict.fromkeys(COLD_MODELS, 1.3)),
        *(Step("pairs", "same", 41.0, text=model, verdict="same") for model in PAIR_MODELS),
        *(Step("pairs", "slower", 20.0, text="T5Small", verdict="regression") for _ in range(9)),
        Step("pairs", "slower", 60.0, text="T5Small", verdict="inconclusive"),
        Step("explain", "", 30.0, text=HINT),
    ]


def judge(steps: list[Step]) -> dict[str, bool | None]:
    """Whether each number is as wanted, by the beginning of its line."""
    return {each.found[:20]: each.holds for each in summarise(steps, 10)}


def test_everything_is_as_wanted() -> None:
    assert set(judge(complete()).values()) == {True}


def test_nothing_measured_is_not_known_and_no_zero_is_a_success() -> None:
    assert set(judge([]).values()) == {None}


@pytest.mark.parametrize(
    ("worse", "line"),
    [
        (speedups(7, 1.02), "T5Small: device speed"[:20]),
        (Step("preset", "", 31.0, {"BertForMaskedLM": 7.1, "T5Small": 5.01}), "BertForMaskedLM compiled"[:20]),
        (Step("cold", "", 86.0), "5 models, cold, defa"),
        (Step("pairs", "same", 30.0, text="T5Small", verdict="improvement"), "1 false alarms in 5 "),
        (Step("pairs", "same", 61.0, text="T5Small", verdict="same"), "4 of 5 are decided w"),
        (Step("pairs", "slower", 60.0, text="T5Small", verdict="same"), "5 % more work of the"),
        (Step("explain", "", 30.0, text="Recompiled once."), "explain: Recompiled "),
    ],
)  # fmt: skip
def test_one_step_that_is_worse_is_seen(worse: Step, line: str) -> None:
    steps = complete()
    if worse.part == "speedups":
        steps = [each for each in steps if each.values.get("T5Small.device_speedup") != 1.3 * (1 + 7 / 2000)]
    if worse.name == "slower":
        steps = [each for each in steps if each.verdict != "inconclusive"]
        steps.append(Step("pairs", "slower", 60.0, text="T5Small", verdict="inconclusive"))
    judged = judge([*steps, worse])
    assert judged[line] is False, judged


def test_missing_processes_are_not_judged() -> None:
    steps = [each for each in complete() if each.name != "busy"]
    judged = judge(steps)
    assert judged["T5Small: device speed"[:20]] is None
    assert judged["12 of 12 intervals h"] is None


def test_the_command_prints_the_numbers_of_a_file_and_leaves_out_a_torn_line(tmp_path: Path) -> None:
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in complete())
    (tmp_path / "acceptance.jsonl").write_bytes(lines + b'{"part":"cold","na')
    ran = subprocess.run(
        [sys.executable, SCRIPT, "summary", "--results", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "a line that cannot be read is left out" in ran.stdout
    assert "6.55 ms (wanted: 5.89 to 6.91 ms on an H200): as wanted" in ran.stdout


def test_a_step_that_does_not_fit_is_left_for_the_next_call(tmp_path: Path) -> None:
    """Nothing is measured: every step is longer than the limit."""
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--results", tmp_path, "--limit", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3, ran.stdout + ran.stderr
    assert "run this again to go on" in ran.stdout
    assert not (tmp_path / "acceptance.jsonl").exists()
