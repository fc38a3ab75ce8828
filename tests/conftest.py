from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from torchstone.cli.main import run


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ran]
WriteFile = Callable[[str, str], str]


@pytest.fixture
def torchstone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Runs a command in an empty folder and gives what it printed; an error message is never a traceback."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ran:
        code = run(list(arguments))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        if code == 2:
            assert err.startswith("error: ")
        return Ran(code, out, err)

    return call


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Writes a file into the folder that commands run in, and gives its name."""

    def call(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return name

    return call
