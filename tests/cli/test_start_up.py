"""A check starts quickly, because it imports only what it needs."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

CHECK = """
import os, sys
os._exit = lambda code: print(code, sorted({wanted} & set(sys.modules)))
sys.argv = ["torchstone", "check", "results.csv", "--baseline", "expected.csv"]
from torchstone.cli.main import main
main()
"""
SLOW = {"click", "rich", "torch", "numpy", "pathlib", "dataclasses", "inspect", "typing_extensions", "json"}


def run_python(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_check_imports_nothing_that_is_slow_to_import(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("dev,name,batch_size,accuracy,graph_breaks\ncpu,net,1,pass,0\n")
    (tmp_path / "expected.csv").write_text("name,accuracy,graph_breaks\nnet,pass,0\n")
    said = run_python(CHECK.replace("{wanted}", repr(SLOW)), tmp_path)
    assert said.splitlines()[-1] == "0 []"


def test_the_command_hides_typing_extensions_only_while_msgspec_is_imported(tmp_path: Path) -> None:
    program = "import sys, torchstone.cli.main; print('typing_extensions' in sys.modules, 'msgspec' in sys.modules);"
    program += "import typing_extensions; print(typing_extensions.Required is not None)"
    assert run_python(program, tmp_path).split() == ["False", "True", "True"]


def test_the_python_api_lets_msgspec_know_typing_extensions(tmp_path: Path) -> None:
    program = """
import torchstone, msgspec, typing_extensions
from msgspec import _utils
torchstone.check
print(_utils._get_type_hints is typing_extensions.get_type_hints)
"""
    assert run_python(program, tmp_path).strip() == "True"


def test_what_is_left_out_while_the_command_starts_is_there_afterwards(tmp_path: Path) -> None:
    program = "import gc, torchstone.cli.main, platform, uuid; print(gc.isenabled(), platform.system(), len(str(uuid.uuid4())))"
    collecting, system, length = run_python(program, tmp_path).split()
    assert (collecting, length) == ("True", "36")
    assert system == platform.system()
