"""A check starts quickly, because it imports only what it needs."""

from __future__ import annotations

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
AS_USUAL = """
import torchstone.cli.main
import msgspec, msgspec.inspect, msgspec.yaml
assert msgspec.inspect.type_info(int) == msgspec.inspect.IntType()
assert msgspec.json.schema(list[int]) == {"type": "array", "items": {"type": "integer"}}
assert msgspec.json.schema_components([int])[0] == ({"type": "integer"},)
assert msgspec.toml.decode("a = 1") == {"a": 1}
assert all(getattr(msgspec, name) is sys.modules[f"msgspec.{name}"] for name in ("inspect", "toml", "yaml"))
import datetime, decimal, gc, platform, typing, typing_extensions, uuid
assert decimal.Decimal("0.1") + decimal.Decimal("0.2") == decimal.Decimal("0.3")
assert platform.machine() and uuid.uuid4() != uuid.uuid4()
assert datetime.datetime.fromisoformat("2026-01-02T03:04:05+00:00").tzinfo is datetime.UTC
assert set(datetime.__all__ if hasattr(datetime, "__all__") else ()) <= set(vars(datetime))
assert datetime.datetime.strptime("2026-01-02", "%Y-%m-%d").date() == datetime.date(2026, 1, 2)
assert typing.get_type_hints(typing.NamedTuple("T", [("a", "int")])) == {"a": int}
assert typing_extensions.TypedDict and gc.isenabled()
"""

NEEDS_MORE = """
import decimal
import typing
CONTEXT = decimal.getcontext()
REFERENCE = typing.ForwardRef("int").__forward_arg__
"""
SLOW = {"click", "rich", "torch", "numpy", "pathlib", "dataclasses", "inspect", "typing_extensions", "json"}
SLOW |= {"ast", "decimal", "msgspec.inspect", "platform", "textwrap"}


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


def test_the_python_api_lets_msgspec_know_typing_extensions(tmp_path: Path) -> None:
    program = """
import torchstone, msgspec, typing_extensions
from msgspec import _utils
torchstone.check
print(_utils._get_type_hints is typing_extensions.get_type_hints)
"""
    assert run_python(program, tmp_path).strip() == "True"


def test_other_modules_are_whole_after_the_command_has_started() -> None:
    subprocess.run([sys.executable, "-c", f"import sys\n{AS_USUAL}"], check=True)


def test_a_msgspec_that_needs_more_than_stand_ins_is_imported_as_usual(tmp_path: Path) -> None:
    folder = tmp_path / "msgspec"
    folder.mkdir()
    (folder / "__init__.py").write_text(NEEDS_MORE)
    program = "import torchstone.cli.lean_start, msgspec; assert msgspec.CONTEXT.prec and msgspec.REFERENCE == 'int'"
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {program}"], check=True
    )
