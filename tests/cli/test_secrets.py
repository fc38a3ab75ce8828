"""Credentials that come in from anywhere are in no file, no report and no output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

SECRET = "hunter2geheim"  # noqa: S105
URL = f"https://user:{SECRET}@example.com/simple"
SIGNED = f"https://example.com/model.pt?n=1&X-Amz-Signature={SECRET}&token={SECRET}"
VARIABLES = {
    "PYTORCH_INDEX_URL": URL,
    "TORCH_HUB_PASS": SECRET,
    "PYTORCH_TOKEN_2": SECRET,
    "TORCH_ACCESSKEY": SECRET,
    "TORCH_AUTH_HEADER": f"Bearer {SECRET}",
    "TRITON_PWD": SECRET,
    "TORCH_HOME": URL,
}
BENCHMARKS = f"""
import sys
import torch
import torchstone

@torchstone.benchmark
def talks():
    print("fetching {URL}")
    print("x" * 30_000 + " {SIGNED}", file=sys.stderr)
    return torch.nn.Linear(2, 2), (torch.ones(2, 2),)

@torchstone.benchmark
def breaks():
    print("fetching {URL}")
    raise RuntimeError("cannot fetch {URL} nor {SIGNED}")
"""
STYLES = ("text", "markdown", "junit", "json", "github")


class Checkout(NamedTuple):
    folder: Path
    printed: dict[str, str]

    def run(self, *arguments: str) -> int:
        ran = subprocess.run(
            [sys.executable, "-m", "torchstone", *arguments],
            cwd=self.folder,
            env={**os.environ, **VARIABLES},
            capture_output=True,
            text=True,
            check=False,
        )
        self.printed[" ".join(arguments).replace(SECRET, "...")] = ran.stdout + ran.stderr
        return ran.returncode


pytestmark = pytest.mark.slow  # torch is loaded twice: only real workers show what they leave in a file


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A folder in which all kinds of commands were run while secrets were all around."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "bench_talking.py").write_text(BENCHMARKS)
    for command in (["init", "-q"], ["remote", "add", "origin", URL]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    there = Checkout(folder, {})
    measured = ("bench_talking.py", "--backend", "eager", "--probe", "performance", "--repeat", "5")
    assert there.run("run", *measured, "--label", URL, "-o", "run.jsonl", "--csv", "csv", "--v3", "v3") == 1
    assert there.run("repro", "run.jsonl", "breaks") == 1
    assert there.run("run", URL) == 2
    assert there.run("run", "bench_talking.py", "--option", URL) == 2
    assert there.run("ab", "bench_talking.py", "--b", f"TORCH_HUB_PASS={SECRET}") == 2
    reports = [word for style in STYLES for word in ("--report", f"{style}=check.{style}")]
    # Busy machines disturb the times, which leaves them undecided; secrets are the same in all reports.
    assert there.run("check", "run.jsonl", "--baseline", "run.jsonl", "--policy", "lenient", *reports) == 0
    reports = [word for style in STYLES for word in ("--report", f"{style}=compare.{style}")]
    assert there.run("compare", "run.jsonl", "run.jsonl", *reports) in {0, 1}
    (folder / "results.csv").write_text("name,accuracy\nmlp,fail_accuracy\n")
    (folder / "expected.csv").write_text("name,accuracy\nmlp,pass\n")
    for style in STYLES:
        told = ("--kind", "expected", "--set", f"suite={URL}", "--format", style)
        assert there.run("check", "results.csv", "--baseline", "expected.csv", *told) == 1
    assert there.run("check", "run.jsonl", "--baseline", "run.jsonl", "--set", f"suite={URL}") == 2
    assert there.run("report", "run.jsonl", "-o", "report.html") in {0, 1}
    assert there.run("quarantine", "add", "breaks", "--reason", f"see {URL}") == 0
    return there


def test_no_file_and_no_output_has_a_secret_in_it(checkout: Checkout) -> None:
    files = [path for path in checkout.folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    texts = {path.name: path.read_text(errors="replace") for path in files if not path.match("*.py*")}
    wanted = {f"{command}.{style}" for command in ("check", "compare") for style in STYLES}
    assert {"run.jsonl", "report.html", *wanted} <= texts.keys()
    assert len(texts) > len(wanted) + 3  # files for other tools, and the quarantine
    found = {name for name, text in {**texts, **checkout.printed}.items() if SECRET in text}
    assert found == set()


def test_what_is_hidden_is_said_to_be(checkout: Checkout) -> None:
    head, *lines = map(json.loads, (checkout.folder / "run.jsonl").read_text().splitlines())
    variables = head["environment"]["variables"]
    assert {name for name in VARIABLES if variables[name] == "(hidden)"} == VARIABLES.keys() - {"TORCH_HOME"}
    assert variables["TORCH_HOME"] == "https://***@example.com/simple"
    assert head["revision"]["label"] == "https://***@example.com/simple"
    outcomes = {line["outcome"]["case"]["benchmark"]: line["outcome"] for line in lines[:-1]}
    failure = outcomes["breaks"]["failure"]
    for text in (failure["message"], failure["traceback"]):
        assert "https://***@example.com/simple" in text
        assert "X-Amz-Signature=***&token=***" in text
    assert "fetching https://***@example.com/simple" in failure["log"]
    assert "X-Amz-Signature=***" in outcomes["talks"]["details"]["log"]


def test_environments_with_hidden_values_are_compared_with_a_caution(checkout: Checkout) -> None:
    told = "TORCH_HUB_PASS and TRITON_PWD are set in both environments, but their values are hidden: they may differ"
    for report in ("check.markdown", "compare.markdown"):
        assert told in (checkout.folder / report).read_text().replace("\\", "")
    assert told in checkout.printed["repro run.jsonl breaks"]
