"""A run file is data: what it names is executed if it is known to be the user's own, or if they say so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Command, start_on_terminal
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import decode_run, encode_run
from torchstone.core.run_settings import settings_from
from torchstone.measure.measuring import case_file
from torchstone.measure.targets import hash_file

CASE = Case("mlp", "instructions", "smoke", Variant("cpu"))
CACHED = Case("mlp", "compile_cache", "smoke", Variant("cpu", "inductor", "inference", "float32", None, 4))
SMOKE = {"kind": "suite", "name": "smoke"}


class Attack:
    """A folder with the user's own files, a folder of somebody else, and a mark that only executed code of theirs leaves."""

    def __init__(self, here: Path, evil: Path) -> None:
        self.here, self.evil = here, evil
        self.mark = evil / "executed"
        self.code = f"open({str(self.mark)!r}, 'w').close()\n"
        self.file = evil / "bench_evil.py"
        self.file.write_text(self.code)
        (evil / "evil_module.py").write_text(self.code)
        Path(case_file(str(evil), CACHED, "artifacts")).write_bytes(b"whatever torch would unpickle")
        (here / ".torchstone" / "cache").mkdir(parents=True)  # as an archive may bring it along

    def write(self, case: Case, settings: dict[str, Any]) -> str:
        run = Run(
            "attack",
            (case,),
            (),
            settings=settings_from({"sources": {"smoke": SMOKE}, **settings}),
            finished=False,
        )
        (self.here / "run.jsonl").write_text(encode_run(run))
        return "run.jsonl"

    def settings(self, way: str) -> tuple[Case, dict[str, Any], str]:
        """The settings of a run file, and what a person has to be told of them."""
        path = str(self.file)
        source = {"kind": "file", "name": "smoke", "path": path, "hash": hash_file(path)}
        program = str(self.evil / "cxx")
        found: dict[str, tuple[Case, dict[str, Any], str]] = {
            "a suite that is another file": (
                CASE,
                {"sources": {"smoke": source}},
                f"the file {path}: outside this folder",
            ),
            "imports from a folder": (
                CASE,
                {"imports": ["evil_module"], "folder": str(self.evil)},
                f"the module evil_module ({self.evil}/evil_module.py): outside this folder",
            ),
            "a folder": (
                CASE,
                {"folder": str(self.evil)},
                f"the folder {self.evil} and everything in it: outside",
            ),
            "an option": (CASE, {"options": {"cpp.cxx": [program]}}, "the option cpp.cxx="),
            "artifacts": (CACHED, {"load_artifacts": str(self.evil)}, "not created on this machine"),
            "a warm cache": (
                CASE,
                {"cache": "warm"},
                f"the warm cache {self.here}/.torchstone/cache: not created on this machine",
            ),
            "an installed module": (CASE, {"imports": ["this"]}, "the module this ("),
            "a package": (
                CASE,
                {"sources": {"smoke": {"kind": "package", "name": "evil"}}},
                "the suite evil of another package: no installed",
            ),
        }
        return found[way]


WAYS = [
    "a suite that is another file",
    "imports from a folder",
    "a folder",
    "an option",
    "artifacts",
    "a warm cache",
    "an installed module",
    "a package",
]


@pytest.fixture
def attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attack:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    here, evil = tmp_path / "here", tmp_path / "evil"
    here.mkdir()
    evil.mkdir()
    return Attack(here, evil)


@pytest.mark.parametrize("command", [("repro", "run.jsonl", "mlp"), ("run", "--resume", "run.jsonl")])
@pytest.mark.parametrize("way", WAYS)
def test_a_run_file_from_elsewhere_executes_nothing_unless_it_is_trusted(
    torchstone: Command, attack: Attack, monkeypatch: pytest.MonkeyPatch, way: str, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(attack.here)
    case, settings, told = attack.settings(way)
    before = attack.write(case, settings)
    content = Path(before).read_bytes()
    ran = torchstone(*command)
    assert ran.code == 2
    assert told in ran.err
    assert "--trust" in ran.err
    assert "loading torch" not in ran.err
    assert not attack.mark.exists()
    assert Path(before).read_bytes() == content


@pytest.mark.slow  # the real commands, which load torch: this is what the tests above prevent
@pytest.mark.parametrize(
    ("way", "command"),
    [
        ("a suite that is another file", ("repro", "run.jsonl", "mlp")),
        ("imports from a folder", ("run", "--resume", "run.jsonl")),
    ],
)
def test_the_same_attacks_succeed_where_they_are_trusted(
    attack: Attack, way: str, command: tuple[str, ...]
) -> None:
    pytest.importorskip("torch")
    case, settings, told = attack.settings(way)
    attack.write(case, settings)
    ran = call(attack.here, *command)
    assert ran.returncode == 2
    assert not attack.mark.exists()
    ran = call(attack.here, *command, "--trust")
    assert "--trust: continuing without confirmation:\n" in ran.stderr
    assert told in ran.stderr
    assert attack.mark.exists()


@pytest.mark.parametrize("name", ["save_outputs", "save_artifacts"])
def test_resuming_writes_to_no_folder_that_only_the_run_file_names(
    torchstone: Command, attack: Attack, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(attack.here)
    place = attack.evil / "written"
    attack.write(CASE, {name: str(place)})
    ran = torchstone("run", "--resume", "run.jsonl")
    assert ran.code == 2
    assert f"writing to the folder {place}: outside this folder" in ran.err
    assert not place.exists()


def test_repeats_for_accepting_ask_the_same(
    torchstone: Command, attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(attack.here)
    _, settings, told = attack.settings("a suite that is another file")
    counted = Outcome(CASE, "pass", (Measurement("compile_time_instruction_count", (1000,)),))
    run = Run("attack", (CASE,), (counted,), settings=settings_from(settings))
    Path("run.jsonl").write_text(encode_run(run))
    Path("expected.csv").write_text("mlp,compile_time_instruction_count,900,0.015\n")
    ran = torchstone("accept", "run.jsonl", "--baseline", "expected.csv", "--repeat", "2", "--yes")
    assert ran.code == 2
    assert told in ran.err
    assert not attack.mark.exists()
    ran = torchstone("accept", "run.jsonl", "--baseline", "expected.csv", "--trust")
    assert "--trust requires --repeat" in ran.err


def test_trust_has_no_place_where_nothing_needs_it(torchstone: Command) -> None:
    assert "--trust requires --resume or --load-artifacts" in torchstone("run", "smoke", "--trust").err


@pytest.mark.parametrize("answer", ["", "n", "nonsense"])
def test_on_a_terminal_a_person_is_asked_and_no_is_the_default(attack: Attack, answer: str) -> None:
    case, settings, told = attack.settings("a suite that is another file")
    attack.write(case, settings)
    terminal = start_on_terminal(attack.here, "repro", "run.jsonl", "mlp", columns=300)
    terminal.expect("This would execute on your machine:")
    terminal.expect_exact(told)
    terminal.expect_exact("Continue? [y/N] ")
    terminal.sendline(answer)
    terminal.expect("error: nothing was executed")
    terminal.wait()
    assert terminal.exitstatus == 2
    assert not attack.mark.exists()


BENCHMARKS = """
import torch
import torchstone
from helper import WIDTH

@torchstone.benchmark
def linear():
    return torch.nn.Linear(WIDTH, WIDTH), (torch.ones(2, WIDTH),)
"""


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torchstone", *arguments],
        cwd=folder,
        env={**os.environ, "TORCHSTONE_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow  # the real commands, one after the other: each loads torch
def test_what_one_has_measured_is_measured_again_without_a_question_while_it_is_unchanged(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "bench_own.py").write_text(BENCHMARKS)
    (tmp_path / "helper.py").write_text("WIDTH = 2\n")
    (tmp_path / "first.py").write_text("import helper\n")
    measured = ("bench_own.py", "--import", "first", "--backend", "eager", "--probe", "performance")
    ran = call(tmp_path, "run", *measured, "--repeat", "5", "-o", "run.jsonl")
    assert ran.returncode == 0, ran.stderr
    run = decode_run("", (tmp_path / "run.jsonl").read_text()).run
    own = [str(tmp_path / name) for name in ("first.py", "helper.py")]
    assert run.settings.imported == {path: hash_file(path) for path in own}
    ran = call(tmp_path, "repro", "run.jsonl", "linear")
    assert ran.returncode == 0, ran.stderr
    (tmp_path / "helper.py").write_text("WIDTH = 3\n")
    ran = call(tmp_path, "repro", "run.jsonl", "linear")
    assert ran.returncode == 2
    assert f"the module {tmp_path / 'helper.py'}: changed since the run" in ran.stderr
    assert "bench_own.py" not in ran.stderr
    ran = call(tmp_path, "repro", "run.jsonl", "linear", "--trust")
    assert ran.returncode == 0, ran.stderr
    assert (
        f"--trust: continuing without confirmation:\n  the module {tmp_path / 'helper.py'}: changed"
        in ran.stderr
    )


@pytest.mark.slow  # compiles for real
def test_artifacts_that_this_machine_made_are_loaded_and_others_are_not(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "bench_own.py").write_text(BENCHMARKS.replace("from helper import WIDTH", "WIDTH = 2"))
    measured = ("run", "bench_own.py", "--probe", "compile_cache", "--scenario", "portable")
    ran = call(tmp_path, *measured, "--save-artifacts", "kept", "-o", "saved.jsonl")
    assert ran.returncode == 0, ran.stderr
    ran = call(tmp_path, *measured, "--load-artifacts", "kept", "-o", "loaded.jsonl")
    assert ran.returncode == 0, ran.stderr
    (tmp_path / "cache").rename(tmp_path / "another machine")
    ran = call(tmp_path, *measured, "--load-artifacts", "kept", "-o", "refused.jsonl")
    assert ran.returncode == 2
    assert "not created on this machine" in ran.stderr
    assert not (tmp_path / "refused.jsonl").exists()
    ran = call(tmp_path, "repro", "loaded.jsonl", "linear")
    assert ran.returncode == 2
    ran = call(tmp_path, *measured, "--load-artifacts", "kept", "-o", "trusted.jsonl", "--trust")
    assert ran.returncode == 0, ran.stderr
