"""Completion of command lines: in a real bash, and by what zsh and fish ask for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from torchstone.cli.group import COMMANDS
from torchstone.core.records import Case, Outcome, Run
from torchstone.core.run_file import encode_run
from torchstone.suites import BUILT_IN

NAMES = ("conv_net", "conv_wide", "mlp(width=64)", "two words")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a run file, and the command on the path."""
    cases = tuple(Case(name, "accuracy") for name in NAMES)
    run = Run("r", cases, tuple(Outcome(case, "pass") for case in cases))
    (tmp_path / "run.jsonl").write_text(encode_run(run))
    (tmp_path / "torchstone.toml").write_text("[preset.mine]\ntf32 = true\n")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "torchstone"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m torchstone "$@"\n')
    script.chmod(0o755)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return {
        "PATH": path,
        "HOME": str(folder),
        "TERM": "dumb",
        "PS1": "$ ",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


def ask(folder: Path, shell: str, line: str) -> list[str]:
    """The candidates for the last word of a command line."""
    words = line.split(" ")
    place = words[-1] if shell == "fish" else str(len(words) - 1)
    ran = subprocess.run(
        ["torchstone"],
        cwd=folder,
        env=environment(folder)
        | {"_TORCHSTONE_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": place},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    if shell == "zsh":
        return lines[1::3]
    return [each.partition(",")[2].partition("\t")[0] for each in lines if each]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("torchstone ", list(COMMANDS)),
        ("torchstone sh", ["show"]),
        ("torchstone run s", [name for name in BUILT_IN if name.startswith("s")]),
        ("torchstone run smoke --probe acc", ["accuracy"]),
        ("torchstone run smoke --probe performance,", ["performance,accuracy", "performance,compile_cache", "performance,instructions", "performance,scaling"]),
        ("torchstone run smoke --mode inference,t", ["inference,training"]),
        ("torchstone run smoke --backend aot_eager_", ["aot_eager_decomp_partition"]),
        ("torchstone run --device c", ["cpu", "cuda"]),
        ("torchstone run --size ", ["full", "small"]),
        ("torchstone run smoke --preset ", ["dashboard", "mine"]),
        ("torchstone ab smoke --preset m", ["mine"]),
        ("torchstone run smoke --tf32 o", ["on", "off"]),
        ("torchstone run huggingface --only Bert", ["BertForMaskedLM"]),
        ("torchstone run smoke --fo", ["--force"]),
        ("torchstone show run.jsonl ", ["conv_net", "conv_wide"]),
        ("torchstone repro run.jsonl conv_w", ["conv_wide"]),
        ("torchstone explain run.jsonl run.jsonl conv_n", ["conv_net"]),
        ("torchstone explain run.jsonl conv_n", ["conv_net"]),
        ("torchstone check run.jsonl --only conv_", ["conv_net", "conv_wide"]),
        ("torchstone check run.jsonl --policy u", ["upstream"]),
        ("torchstone show none.jsonl x", []),
    ],
)  # fmt: skip
def test_candidates(folder: Path, shell: str, line: str, expected: list[str]) -> None:
    assert [each for each in ask(folder, shell, line) if each] == expected


@pytest.mark.parametrize(
    "line", ["torchstone show ru", "torchstone run -o ru", "torchstone compare run.jsonl ru"]
)
def test_files_are_left_to_the_shell(folder: Path, line: str) -> None:
    assert ask(folder, "bash", line) == ["ru"]


def test_torch_is_not_imported(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "torchstone"],
        cwd=folder,
        env=environment(folder)
        | {
            "_TORCHSTONE_COMPLETE": "bash_complete",
            "COMP_WORDS": "torchstone run timm --only b",
            "COMP_CWORD": "4",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert "plain,b" in ran.stdout
    assert not [line for line in ran.stderr.splitlines() if line.rpartition("|")[2].strip() == "torch"]


def test_another_shell_is_an_error(folder: Path) -> None:
    ran = subprocess.run(
        ["torchstone"],
        cwd=folder,
        env=environment(folder) | {"_TORCHSTONE_COMPLETE": "tcsh_source"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert "expected bash_source, zsh_source, fish_source" in ran.stderr


def test_a_real_bash_completes_what_is_typed(folder: Path) -> None:
    shell = pexpect.spawn(
        "bash", ["--norc", "--noprofile", "-i"], cwd=str(folder), env=environment(folder), encoding="utf-8", timeout=30
    )  # fmt: skip
    shell.sendline('eval "$(_TORCHSTONE_COMPLETE=bash_source torchstone)"; echo rea""dy')
    shell.expect_exact("ready\r\n")
    shell.send("torchstone ru\t")
    shell.expect_exact("run ")
    shell.send("smo\t")
    shell.expect_exact("smoke ")
    shell.send("--mode inference,tr\t")
    shell.expect_exact("training ")
    shell.sendcontrol("u")
    shell.send("torchstone show ru\t")
    shell.expect_exact("run.jsonl")
    shell.send(" conv_w\t")
    shell.expect_exact("conv_wide ")
    shell.close()


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_a_real_fish_completes_what_is_typed(folder: Path) -> None:
    lines = [
        "torchstone run smoke --mode inference,t",
        "torchstone show run.jsonl conv_w",
        "torchstone show run.j",
    ]
    asked = "; ".join(f'complete -C "{line}"' for line in lines)
    ran = subprocess.run(
        ["fish", "--no-config", "-c", f"_TORCHSTONE_COMPLETE=fish_source torchstone | source; {asked}"],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["inference,training", "conv_wide", "run.jsonl"]
