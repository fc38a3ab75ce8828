"""DDP reports: as the original's diff has them under the policy ``upstream``, and matched by what they are otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Command, WriteFile

GOLDEN = Path(__file__).parent.parent / "golden" / "ddp_diff"
CASES = [pytest.param(path, id=path.stem) for path in sorted(GOLDEN.glob("*.json"))]


def test_there_are_forty_recorded_cases() -> None:
    assert len(CASES) == 40


@pytest.mark.parametrize("path", CASES)
def test_the_policy_upstream_prints_what_the_original_diff_prints(
    path: Path, torchstone: Command, write: WriteFile
) -> None:
    golden = json.loads(path.read_text())
    files = [write(f"{side}.json", json.dumps(golden[f"{side}_json"])) for side in ("baseline", "test")]
    ran = torchstone("compare", *files, "--policy", "upstream", "--format", "json")
    report = json.loads(ran.out)
    assert report["ddp_rows"] == golden["rows"]
    assert report["header_keys"] == golden["header_keys"]
    assert ran.code == report["exit_code"] == golden["exit_code"]


def report_of(*models: tuple[str, int, float]) -> str:
    """A report with a round without DDP and one on two ranks for each model, batch size and time."""
    results: list[dict[str, Any]] = [
        {
            "model": model,
            "batch_size": size,
            "result": [
                {"ranks": [0], "measurements": [seconds, seconds * 1.01]},
                {"ranks": [0, 1], "measurements": [seconds, seconds * 1.02]},
            ],
        }
        for model, size, seconds in models
    ]
    return json.dumps({"pytorch_version": "2.9.0", "benchmark_results": results})


def test_rounds_are_matched_by_model_batch_size_and_ranks_unless_asked(
    torchstone: Command, write: WriteFile
) -> None:
    base = write("base.json", report_of(("resnet50", 32, 0.2), ("resnet101", 32, 0.4)))
    new = write("new.json", report_of(("resnet101", 32, 0.4), ("resnet50", 32, 0.1)))
    found = json.loads(torchstone("compare", base, new, "--format", "json").out)
    changes = {row["model"]: row["percentiles"]["75"]["change_pct"] for row in found["ddp_rows"]}
    assert changes == {"resnet101": 0.0, "resnet50": 50.0}
    original = torchstone("compare", base, new, "--format", "json", "--policy", "upstream")
    assert json.loads(original.out)["ddp_rows"] == []


def test_one_report_a_side_is_one_trial_with_the_usual_noise(torchstone: Command, write: WriteFile) -> None:
    base = write("base.json", report_of(("resnet50", 32, 0.2)))
    new = write("new.json", report_of(("resnet50", 32, 0.22)))
    ran = torchstone("compare", base, new)
    assert ran.code == 1
    assert ran.out.startswith("UNDECIDED")
    assert "resnet50" in ran.out.split("75th percentile")[1]


def test_several_reports_a_side_are_trials(torchstone: Command, write: WriteFile) -> None:
    base, new = (
        [write(f"{side}{n}.json", report_of(("resnet50", 32, level * (1 + n / 100)))) for n in range(3)]
        for side, level in (("base", 0.2), ("new", 0.4))
    )
    more = [word for n in (1, 2) for word in ("--base", base[n], "--new", new[n])]
    ran = torchstone("compare", base[0], new[0], *more, "--format", "json")
    assert {row["verdict"] for row in json.loads(ran.out)["rows"]} == {"regression"}
    refused = torchstone("compare", base[0], new[0], *more, "--policy", "upstream")
    assert "can compare only two DDP reports" in refused.err


def test_a_selection_chooses_rounds_too_and_the_original_knows_none(
    torchstone: Command, write: WriteFile
) -> None:
    report = report_of(("resnet50", 32, 0.2), ("resnet101", 32, 0.4))
    files = write("base.json", report), write("new.json", report)
    found = json.loads(torchstone("compare", *files, "--only", "resnet50", "--format", "json").out)
    assert {row["model"] for row in found["ddp_rows"]} == {"resnet50"}
    refused = torchstone("compare", *files, "--policy", "upstream", "--only", "resnet50", "--margin", "5%")
    assert refused.code == 2
    assert "--margin and --only cannot be used with --policy upstream" in refused.err
