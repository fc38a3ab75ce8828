"""Files of other benchmark tools, from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conftest import Command, WriteFile
from sample_files import CANONICAL, DATA, TOOLS

PARTS = sorted(path.name for path in DATA.glob("*.json"))


@pytest.mark.parametrize("name", PARTS)
def test_every_sample_can_be_imported_judged_and_shown(
    name: str, torchstone: Command, tmp_path: Path
) -> None:
    path = str(DATA / name)
    assert torchstone("import", path, "--output", "run.jsonl").code == 0
    assert torchstone("check", path, "--baseline", "run.jsonl", "--policy", "lenient").code == 0
    assert torchstone("report", path).code == 0
    assert "performance" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "hyperfine"])
def test_times_of_two_machines_are_not_compared(tool: str, torchstone: Command, write: WriteFile) -> None:
    write("here.json", CANONICAL[tool])
    write("there.json", CANONICAL[tool].replace("AMD EPYC", "another one"))
    ran = torchstone("check", "here.json", "--baseline", "there.json")
    assert "cpu is AMD EPYC, was another one" in " ".join(ran.out.split())
    assert "inconclusive" in ran.out
    ran = torchstone("check", "here.json", "--baseline", "there.json", "--cross-environment")
    assert ran.code == 0


def test_a_time_that_has_grown_is_a_regression(torchstone: Command, write: WriteFile) -> None:
    write("old.json", CANONICAL["hyperfine"])
    results = json.loads(CANONICAL["hyperfine"])
    results["results"][1]["times"] = [0.03, 0.031, 0.032]
    write("new.json", json.dumps(results))
    ran = torchstone("check", "new.json", "--baseline", "old.json")
    assert ran.code == 1
    assert "regression   sleep 0.02 (n 2)" in ran.out
    assert re.search(
        r"seconds: 0\.03\d+ s, expected 0\.023\d* s \(\+3\d\.\d%; 99% interval", " ".join(ran.out.split())
    )


def test_a_benchmark_that_asv_cannot_measure_any_more_is_missing(
    torchstone: Command, write: WriteFile
) -> None:
    old = CANONICAL["asv"].replace('"bench.track_nan": [[NaN]', '"bench.track_nan": [[7]')
    ran = torchstone(
        "check",
        write("new.json", CANONICAL["asv"]),
        "--baseline",
        write("old.json", old),
        "--rule",
        "tracked_value=count:higher",
    )
    assert ran.code == 1
    assert "missing      bench.track_nan" in ran.out


def test_a_time_of_zero_is_no_measurement_but_a_tracked_number_may_be_anything(
    torchstone: Command, write: WriteFile
) -> None:
    zero = write("zero.json", json.dumps({"results": [{"command": "true", "times": [0.0, 0.0]}]}))
    ran = torchstone("check", zero, "--baseline", zero)
    assert ran.code == 1
    assert "0 is not a possible value" in ran.out
    tracked = write("tracked.json", CANONICAL["asv"].replace("[[42]", "[[-42]"))
    assert torchstone("check", tracked, "--baseline", tracked).code == 0


def test_a_broken_file_is_one_message_with_its_place(torchstone: Command, write: WriteFile) -> None:
    path = write("cut.json", CANONICAL["pytest-benchmark"][:3000])
    ran = torchstone("import", path)
    assert (ran.code, ran.out) == (2, "")
    line = CANONICAL["pytest-benchmark"][:3000].count("\n") + 1
    assert ran.err.startswith(f"error: {path}:{line}:")
    assert "Traceback" not in ran.err
