"""The docs say all there is to say, and nothing that is not so."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

import torchstone as public
from call_walks import Call, Step, first_not_taken, names_in, read_walks, recorded
from conftest import Command
from torchstone.cli.group import torchstone as group
from torchstone.core.config import POLICIES, RULE_KINDS
from torchstone.core.vocabulary import METRICS, PROBES, STATUSES, VERDICTS
from torchstone.formats import FORMATS
from torchstone.measure.ab import pair as turns
from torchstone.measure.executors.fake import FakeExecutor, Script, passes, takes_turns
from torchstone.measure.executors.selection import using_executor
from torchstone.reporting.dialects.styles import STYLES
from torchstone.worker.protocol.jobs import CaseAxes, MeasureJob, MeasureOptions, PairPart, encode_job
from torchstone.worker.protocol.replies import BenchmarkFound
from torchstone.worker.protocol.source_message import SourceMessage

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ACCURACY_CSV = "inductor_huggingface_amp_training_cuda_accuracy.csv"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]


MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in (ROOT / "src").rglob("*.py")
    if ">>>" in path.read_text()
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_hold(module: str) -> None:
    ran = doctest.testmod(importlib.import_module(module))
    assert ran.attempted
    assert not ran.failed


def load_generator() -> Any:  # noqa: ANN401  (a module that is loaded from its file)
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()
COMMANDS: list[tuple[str, click.Command]] = list(GENERATOR.commands(group, "torchstone"))


@pytest.mark.parametrize("page", ["cli.md", "reference.md"])
def test_generated_pages_are_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text() == GENERATOR.PAGES[page](), "run 'make docs'"


def test_no_summary_of_a_command_is_cut() -> None:
    assert not re.findall(r"^  [a-z-]+  .*\.\.\.$", (DOCS / "cli.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[path for path, _ in COMMANDS])
def test_every_command_and_option_is_on_the_commands_page(path: str, command: click.Command) -> None:
    section = (DOCS / "cli.md").read_text().split(f"## `{path}`\n")[1].split("\n## ")[0]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert all(flag in section for flag in parameter.opts)


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[path for path, _ in COMMANDS])
def test_the_commands_page_is_what_help_prints(
    path: str, command: click.Command, torchstone: Command
) -> None:
    section = (DOCS / "cli.md").read_text().split(f"## `{path}`\n")[1].split("```text\n")[1].split("\n```")[0]
    assert torchstone(*path.split()[1:], "--help").out.strip() == section.strip()


def words() -> list[str]:
    return [*VERDICTS, *STATUSES, *METRICS, *PROBES, *RULE_KINDS, *FORMATS, "0", "1", "2", "3"]


@pytest.mark.parametrize("word", words())
def test_every_verdict_status_metric_rule_kind_and_exit_code_is_in_the_reference(word: str) -> None:
    assert f"| `{word}` |" in (DOCS / "reference.md").read_text()


@pytest.mark.parametrize("word", [*STYLES, *POLICIES])
def test_every_report_format_and_policy_is_explained(word: str) -> None:
    pages = (DOCS / "reports.md").read_text() + (DOCS / "upstream.md").read_text()
    assert f"`{word}`" in pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


def commands_in(page: Path) -> list[str]:
    text = page.read_text().replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if re.match(r"    torchstone \w", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_docs_have_options_that_exist(page: Path) -> None:
    known = {path: {flag for p in command.params for flag in p.opts} for path, command in COMMANDS}
    for line in commands_in(page):
        words = [word for word in shlex.split(line.split(" #")[0]) if not word.startswith("[")]
        path = " ".join(words[:3]) if words[1] in {"quarantine", "store", "triage"} else " ".join(words[:2])
        assert path in known, line
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in known[path], line


def test_the_readme_shows_what_the_example_prints(
    torchstone: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    readme = (ROOT / "README.md").read_text()
    for line in commands_in(ROOT / "README.md"):
        words = shlex.split(line)
        if not any("examples/" in word for word in words):
            continue
        printed = torchstone(*words[1:]).out
        shown = readme.split(
            " --quarantine examples/quarantine.toml\n" if "check" in words else " --dry-run\n", 1
        )[1]
        for part in shown.split("\n    ...")[0].strip("\n").splitlines():
            assert part.strip() in printed, part


PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", (DOCS / "python.md").read_text(), re.DOTALL)


def test_examples_of_the_python_page_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    text = "".join(block for block in PYTHON_BLOCKS if ">>>" in block)
    test = doctest.DocTestParser().get_doctest(text, {}, "python.md", "python.md", 0)
    ran = doctest.DocTestRunner().run(test)
    assert ran.attempted > 15
    assert not ran.failed
    assert (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_examples_of_the_python_page_measure(tmp_path: Path) -> None:
    blocks = [block for block in PYTHON_BLOCKS if ">>>" not in block]
    end = next(block for block in blocks if "__main__" in block)
    (tmp_path / "bench_mine.py").write_text((ROOT / "examples" / "bench_mine.py").read_text() + end)
    (tmp_path / "examples_of_docs.py").write_text("".join(block for block in blocks if block != end))
    ran = subprocess.run(
        [sys.executable, "examples_of_docs.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "softplus_sum speedup" in ran.stdout
    assert (tmp_path / "run.jsonl").exists()


def test_every_public_name_is_on_the_python_page() -> None:
    page = (DOCS / "python.md").read_text()
    assert not [name for name in public.__all__ if f"`{name}`" not in page]


PACKAGE = ROOT / "src" / "torchstone"
LONGEST_LINE = 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_short_enough_to_read_beside_code(page: Path) -> None:
    in_code, long = False, []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        in_code ^= line.startswith("```")
        is_prose = not in_code and not line.startswith(("|", "    "))
        if is_prose and len(line) > LONGEST_LINE:
            long.append(number)
    assert not long


def rows_of(section: str) -> list[list[str]]:
    """The cells of the tables in a section, without their headers."""
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] not in {"word", "question"}]


WALKS = read_walks((DOCS / "architecture.md").read_text())
RUN, CHECK, AB = ("One case through `run`", "One row through `check`", "One pair through `ab`")


def test_every_function_of_the_walks_exists() -> None:
    assert [*WALKS] == [RUN, CHECK, AB]
    for step in (step for blocks in WALKS.values() for block in blocks for step in block.steps):
        assert (PACKAGE / step.module).is_file(), step.key
        assert step.name in names_in(step.module), step.key


def steps_of_parent(walk: str) -> list[Step]:
    """The steps of a walk that the parent takes whatever executes the workers."""
    own = [block for block in WALKS[walk] if block.process.startswith("parent")]
    return [step for block in own if block.process != "parent: the local executor" for step in block.steps]


@pytest.mark.parametrize(
    ("walk", "script", "arguments"),
    [
        (RUN, lambda _: passes(), ("run", "bench_it.py", "--probe", "performance")),
        (CHECK, lambda _: passes(), ("check", ACCURACY_CSV, "--baseline", "expected.csv")),
        (AB, lambda _: takes_turns(lambda _: 1e6), ("ab", "bench_it.py", "--b", "backend=eager")),
    ],
    ids=["run", "check", "ab"],
)
def test_the_parent_takes_every_step_of_a_walk_in_order(
    walk: str,
    script: Callable[[MeasureJob], Script],
    arguments: tuple[str, ...],
    torchstone: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "LONGEST_PAIR", 0.0)
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "kept"))
    (tmp_path / "bench_it.py").write_text("")
    for path in (ROOT / "examples").glob("*.csv"):
        shutil.copy(path, tmp_path)
    steps = steps_of_parent(walk)
    benchmark = BenchmarkFound("steps", 4, modes=("inference",))
    with using_executor(FakeExecutor(script, [benchmark])), recorded({step.key for step in steps}) as calls:
        torchstone(*arguments)
    assert first_not_taken(steps, calls) == ""


@pytest.mark.slow
@pytest.mark.parametrize("walk", [RUN, AB], ids=["run", "ab"])
def test_a_worker_takes_every_step_of_a_walk_in_order(walk: str) -> None:
    (steps,) = [block.steps for block in WALKS[walk] if block.process == "worker"]
    job = MeasureJob(
        SourceMessage("suite", "smoke"),
        "mlp",
        "performance",
        CaseAxes("cpu", "eager", "inference", "float32", batch_size=2),
        options=MeasureOptions(threads=1, repeat=2),
        pair=PairPart(takes_turns=walk == AB),
    )
    asked = {"job": encode_job(job), "keys": [step.key for step in steps]}
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "traced_worker.py")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["status"] == "pass", ran.stderr
    calls = [Call(key, frozenset(callers)) for key, callers in told["calls"]]
    assert first_not_taken(steps, calls) == ""


def test_the_contributors_guide_leads_to_modules_that_exist() -> None:
    rows = rows_of((DOCS / "contributing.md").read_text())
    assert len(rows) >= 20
    for question, module, name in rows:
        path = PACKAGE / module.strip("`")
        assert path.is_file(), question
        word = re.escape(name.strip("`"))
        defined = rf"^ *(?:def |class ){word}\b|^{word}\b[^\n]*="
        assert re.search(defined, path.read_text(), re.MULTILINE), question


def test_the_glossary_begins_with_the_few_words_that_users_meet() -> None:
    everybody, contributors = (DOCS / "glossary.md").read_text().split("## Words you meet as a contributor")
    words = [row[0] for row in rows_of(everybody) + rows_of(contributors)]
    assert len(rows_of(everybody)) <= 25
    assert len(words) == len(set(words))
