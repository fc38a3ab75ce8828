"""The policy ``upstream`` decides as the original scripts did, on every recorded case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Command, Ran, WriteFile

GOLDEN = Path(__file__).parent / "golden"


def cases(kind: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted((GOLDEN / kind).glob("*.json"))]


def judge(torchstone: Command, actual: str, expected: str) -> tuple[Ran, dict[str, Any]]:
    ran = torchstone(
        "check", "--policy", "upstream", "--actual", actual, "--expected", expected, "--format", "json"
    )
    return ran, json.loads(ran.out)


def labels(report: dict[str, Any]) -> dict[str, str]:
    assert len({row["name"] for row in report["rows"]}) == len(report["rows"])
    return {row["name"]: row["label"] for row in report["rows"]}


def test_there_are_forty_cases_of_each_kind() -> None:
    assert [len(cases(kind)) for kind in ("accuracy", "memory", "ddp_diff")] == [40, 40, 40]


@pytest.mark.parametrize("path", cases("accuracy"))
def test_accuracy_gate_decides_as_the_original(path: Path, torchstone: Command, write: WriteFile) -> None:
    golden = json.loads(path.read_text())
    actual, expected = (
        write("actual.csv", golden["actual_csv"]),
        write(golden["expected_path"], golden["expected_csv"]),
    )
    ran, report = judge(torchstone, actual, expected)
    assert labels(report) == golden["verdicts"]
    assert ran.code == report["exit_code"] == golden["exit_code"]


@pytest.mark.parametrize("path", cases("memory"))
def test_memory_gate_decides_as_the_original(path: Path, torchstone: Command, write: WriteFile) -> None:
    golden = json.loads(path.read_text())
    actual, expected = (
        write("actual.csv", golden["actual_csv"]),
        write("expected.csv", golden["expected_csv"]),
    )
    ran, report = judge(torchstone, actual, expected)
    assert labels(report) == golden["verdicts"]
    assert ran.code == report["exit_code"] == golden["exit_code"]


@pytest.mark.parametrize("path", cases("ddp_diff"))
def test_ddp_reports_are_compared_as_the_original_does(
    path: Path, torchstone: Command, write: WriteFile
) -> None:
    golden = json.loads(path.read_text())
    actual = write("test.json", json.dumps(golden["test_json"]))
    expected = write("baseline.json", json.dumps(golden["baseline_json"]))
    ran, report = judge(torchstone, actual, expected)
    assert report["ddp_rows"] == golden["rows"]
    assert report["header_keys"] == golden["header_keys"]
    assert ran.code == golden["exit_code"]
