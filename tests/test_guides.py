"""The tutorial, the CI workflow and the troubleshooting page: their commands work, and what they quote is printed."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from page_walks import PageCommand, PageFile, first_not_printed, read_steps
from torchstone.cli.group import torchstone as group

ROOT = Path(__file__).parent.parent
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
TROUBLESHOOTING = (ROOT / "docs" / "troubleshooting.md").read_text()
WORKFLOW = ROOT / "examples" / "ci" / "github.yml"
STEPS = read_steps(TUTORIAL)
MODELS = [step for step in STEPS if isinstance(step, PageFile) and step.name == "model.py"]
(BENCH,) = [step for step in STEPS if isinstance(step, PageFile) and step.name == "bench_mine.py"]


def environment(**more: str) -> dict[str, str]:
    """What a reader's shell has: this torchstone first, a name for git, 80 columns."""
    person = {
        f"GIT_{who}_{what}": "reader@example.com"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **person, "PATH": path, "COLUMNS": "80", **more}


def in_shell(line: str, folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-c", line], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


def unknown_options(line: str) -> list[str]:
    """The options of a torchstone command line that do not exist."""
    command: click.Command = group
    known = {"--version"}
    for word in shlex.split(line)[1:]:
        if not isinstance(command, click.Group) or word.startswith("-"):
            break
        found = command.get_command(click.Context(command), word)
        assert found, line
        command = found
    known |= {flag for parameter in command.params for flag in parameter.opts}
    words = [word for word in shlex.split(line) if re.match(r"--?[a-z]", word)]
    return [word for word in words if word.partition("=")[0] not in known]


def test_lines_match_whatever_their_numbers_are() -> None:
    printed = "[1/2] pass a 1.2x (1.1 to 1.3), compile 980 ms\n\n2 cases in 3 s\nrun file: a.jsonl\n"
    assert not first_not_printed(("[1/2] pass a   0.9x, compile 1.1 s", "...", "run file: a.jsonl"), printed)
    assert first_not_printed(("[1/2] pass a 0.9x, compile 1.1 s", "run file: a.jsonl"), printed)
    assert first_not_printed(("...", "run file: b.jsonl"), printed) == "run file: b.jsonl"
    assert first_not_printed(("run file: a.jsonl", "...", "2 cases in 3 s"), printed)


def test_only_times_may_be_undecided_instead() -> None:
    undecided = "UNDECIDED: 4 of 17 rows (4 need more trials)\n"
    assert not first_not_printed(("PASS: 2 cases judged",), undecided)
    assert first_not_printed(("PASS: 2 cases judged",), "FAIL: 1 of 2 cases is red\n")
    assert first_not_printed(("FAIL: 1 of 2 cases is red",), undecided)
    said = "FAIL: 1 regression (margin 2%, alpha 0.25%) in 1:41; policy strict blocks red rows: exit code 1"
    assert not first_not_printed((said,), "UNDECIDED: 1 inconclusive (margin 2%, alpha 0.25%) in 1:59\n")
    assert first_not_printed((said,), "PASS: 1 same (margin 2%, alpha 0.25%) in 1:41; policy strict\n")
    verdict = "[1/1] a inference  regression  +7.8% [+3.1%, +11.0%]  10 pairs"
    assert not first_not_printed((verdict,), "[1/1] a inference  inconclusive\n\ninconclusive  a\n")
    assert first_not_printed((verdict,), "[1/1] a inference  improvement  -7.8% [-9%, -3%]  10 pairs\n")


def test_the_tutorial_is_short_and_its_commands_exist() -> None:
    assert len(TUTORIAL.splitlines()) <= 240
    lines = [step.line for step in STEPS if isinstance(step, PageCommand)]
    assert len(lines) > 10
    assert not [line for line in lines if line.startswith("torchstone") and unknown_options(line)]


@pytest.mark.slow
def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    variables = environment(TORCHSTONE_CACHE=str(tmp_path / "kept"))
    folder = tmp_path / "mine"
    folder.mkdir()
    for step in STEPS:
        if isinstance(step, PageFile):
            (folder / step.name).write_text(step.text)
            continue
        ran = in_shell(step.line, folder, variables)
        told = f"$ {step.line}\n{ran.stdout}\n{ran.stderr}"
        assert not first_not_printed(step.shown, ran.stdout), told
        blocks = re.search(r"^(FAIL|UNDECIDED|regression|inconclusive)\b", ran.stdout, re.MULTILINE)
        assert ran.returncode == (1 if blocks else 0), told
    assert (folder / "report.html").exists()
    assert (folder / "compare.html").exists()


@pytest.mark.slow
def test_the_tutorial_installs_the_command(tmp_path: Path) -> None:
    """Without torch and without the network: what it needs is there already."""
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(tmp_path), str(ROOT)], check=True)
    assert "pip install '/path/to/torchstone[torch]'" in TUTORIAL
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "bin" / "torchstone"), "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("torchstone, version ")


def read_workflow() -> Any:  # noqa: ANN401  (whatever YAML holds)
    return pytest.importorskip("yaml").safe_load(WORKFLOW.read_text())


def torchstone_lines(script: str) -> list[str]:
    lines = script.replace("\\\n", " ").splitlines()
    return [line.split("||")[0].strip() for line in lines if line.strip().startswith("torchstone ")]


class Job:
    """Runs the steps of a job as GitHub does: in order, in one folder, with variables that steps add."""

    def __init__(self, name: str, folder: Path) -> None:
        self._workflow = read_workflow()
        self._steps = self._workflow["jobs"][name]["steps"]
        self.folder = folder
        self.codes: dict[str, int] = {}
        self.printed: dict[str, str] = {}
        self.summary = folder / "summary.md"

    def _is_due(self, condition: str) -> bool:
        lacks_file = "hashFiles('run.jsonl')" in condition and not (self.folder / "run.jsonl").exists()
        return not lacks_file and ("!cancelled()" in condition or not any(self.codes.values()))

    def run(self, **more: str) -> None:
        added = self.folder / "added.env"
        given = {"GITHUB_ENV": str(added), "GITHUB_STEP_SUMMARY": str(self.summary)}
        variables = environment(**(self._workflow["env"] | given | more))
        for step in self._steps:
            script = step.get("run", "")
            if not script or script.startswith("pip ") or not self._is_due(step.get("if", "")):
                continue
            script = script.replace("--decide-within 10m", "--decide-within 20s --budget 0.2s")
            ran = in_shell(script.replace("--trials 10", "--trials 3 --budget 0.5s"), self.folder, variables)
            self.codes[step["name"]] = ran.returncode
            self.printed[step["name"]] = ran.stdout + ran.stderr
            if added.exists():
                variables |= dict(line.split("=", 1) for line in added.read_text().splitlines())


def test_the_workflow_is_valid_and_its_commands_exist() -> None:
    workflow = read_workflow()
    assert {*workflow[True]} == {"pull_request", "push"}  # YAML takes "on" for a truth value
    lines = []
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
            lines += torchstone_lines(step.get("run", ""))
    assert [line.split()[1] for line in lines] == ["run", "check", "report", "run"]
    assert not [line for line in lines if unknown_options(line)]


def test_the_workflow_keeps_its_results_if_the_gate_is_red() -> None:
    steps = read_workflow()["jobs"]["gate"]["steps"]
    (upload,) = [step for step in steps if "upload-artifact" in step.get("uses", "")]
    assert "!cancelled()" in upload["if"]
    scripts = " ".join(step.get("run", "") for step in steps)
    for path in upload["with"]["path"].split():
        assert path in scripts


@pytest.fixture(scope="module")
def on_main(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository after the workflow has run on main."""
    folder = tmp_path_factory.mktemp("main")
    (folder / "model.py").write_text(MODELS[0].text)
    (folder / "bench_mine.py").write_text(BENCH.text)
    job = Job("baseline", folder)
    job.run()
    assert job.codes == {"Measure the baseline": 0}, job.printed
    return folder


WRITTEN = ("run.jsonl", "report.html", "comment.md", "junit.xml")


@pytest.mark.slow
def test_the_workflow_passes_unchanged_code(on_main: Path, tmp_path: Path) -> None:
    for name in ("model.py", "bench_mine.py", "main.jsonl"):
        shutil.copy(on_main / name, tmp_path)
    job = Job("gate", tmp_path)
    job.run(POLICY="lenient")  # on a busy machine times are undecided
    assert set(job.codes.values()) == {0}, job.printed
    assert list(job.codes) == ["Choose the baseline", "Measure and decide", "Judge", "Report"]
    assert all((tmp_path / name).stat().st_size for name in WRITTEN)
    assert job.summary.read_text() == (tmp_path / "comment.md").read_text()


@pytest.mark.slow
def test_the_workflow_stops_a_change_and_still_reports(on_main: Path, tmp_path: Path) -> None:
    """The baseline is the committed one: there is none of main."""
    accept = f"torchstone accept {on_main}/main.jsonl --baseline baselines/ --add-new --yes"
    assert in_shell(accept, tmp_path, environment()).returncode == 0
    (tmp_path / "model.py").write_text(MODELS[1].text)
    (tmp_path / "bench_mine.py").write_text(BENCH.text)
    job = Job("gate", tmp_path)
    job.run()
    assert job.codes == {"Choose the baseline": 0, "Measure and decide": 0, "Judge": 1, "Report": 0}
    assert "::error" in job.printed["Judge"]
    assert "graph_breaks" in job.printed["Judge"]
    assert all((tmp_path / name).stat().st_size for name in WRITTEN)
    assert "graph_breaks" in job.summary.read_text()


@pytest.mark.slow
def test_the_workflow_ends_at_an_error(tmp_path: Path) -> None:
    job = Job("gate", tmp_path)
    job.run()
    assert job.codes == {"Choose the baseline": 0, "Measure and decide": 1}
    assert "error: " in job.printed["Measure and decide"]


def texts_of(path: Path) -> Iterator[str]:
    """The texts in a module, with a line end in place of whatever varies."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{[^{}]*\}", "\n", node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "\n" for part in node.values]
            yield "".join(map(str, parts))


TEXTS = [text for path in (ROOT / "src").rglob("*.py") for text in texts_of(path)]
HEADINGS = re.findall(r"^### (.*)", TROUBLESHOOTING, re.MULTILINE)
QUOTED = [quote for heading in HEADINGS for quote in re.findall(r"`([^`]+)`", heading)]
IN_PROSE = re.findall(
    r"`([^`]*\.\.\.[^`]+|[^`]+\.\.\.)`", re.sub(r"^### .*", "", TROUBLESHOOTING, flags=re.MULTILINE)
)


@pytest.mark.parametrize("message", [*QUOTED, *IN_PROSE])
def test_every_message_of_the_troubleshooting_page_exists(message: str) -> None:
    parts = [part for part in re.split(r"\.\.\.|: ", message) if re.search(r"\w{2}", part)]
    assert parts
    for part in parts:
        assert any(part in text for text in TEXTS), part


def test_the_troubleshooting_page_is_about_messages() -> None:
    assert len(QUOTED) > 25
    assert len(HEADINGS) - len([heading for heading in HEADINGS if "`" in heading]) <= 1
