"""Every output of every command is tried before the command begins: nothing is measured, or read, for a file that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from conftest import Command
from torchstone.cli import group
from torchstone.cli.options import output_checks
from torchstone.core.disk import try_file, try_folder, write_text
from torchstone.core.errors import InputError

# Options that name files or folders which are only read.
_READ = {
    "--durations", "--compare-outputs", "--load-artifacts", "--baseline", "--actual", "--expected", "--quarantine", "--history",
    "--config", "--base", "--new", "--learn-margins", "--repository",
    "--store",  # a database: it is opened before anything is measured (tests/cli/test_record.py)
}  # fmt: skip
# Options that name a file to be changed: each is opened, or written to, before the command does anything that takes time.
_CHANGED_AT_ONCE = {("run", "--resume"), ("quarantine add", "--file"), ("quarantine remove", "--file")}
_ONLY_READ_HERE = {
    ("quarantine check", "--file"), ("quarantine list", "--file"),
    ("quarantine suggest", "--file"),  # changed with --apply, which opens it first (tests/cli/test_quarantine_suggest.py)
    ("serve", "--root-path"),  # part of an address
}  # fmt: skip
_PLACES = ("FILE", "DIR", "PATH", "FOLDER", "PAST", "RUNFILE")

# What a command needs to get as far as writing. The inputs do not exist: whoever looks at them first says so.
_WORDS = {
    "run": ["run", "gone.py"],
    "cachebench": ["cachebench", "--benchmark", "huggingface"],
    "pr-time": ["pr-time", "gone.py"],
    "ab": ["ab", "gone.py", "--b", "mode=default"],
    "selftest": ["selftest", "gone.py"],
    "check": ["check", "gone.csv", "--baseline", "gone2.csv"],
    "compare": ["compare", "gone.jsonl", "gone2.jsonl"],
    "report": ["report", "gone.jsonl"],
    "explain": ["explain", "gone.jsonl", "gone2.jsonl"],
    "import": ["import", "gone.csv"],
    "export": ["export", "gone.jsonl", "--to", "v3"],
    "site": ["site", "--store", "gone.db"],
    "triage notify": ["triage", "notify", "--store", "gone.db"],
}


def _commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found
            yield from _commands(found, (*words, name))
    else:
        yield " ".join(words), command


def _places() -> list[tuple[str, str, str]]:
    """Every option of every command that names a file or a folder, and that is not only read."""
    return [
        (name, flag, option.metavar or "")
        for name, command in _commands(group.torchstone)
        for option in command.params
        if isinstance(option, click.Option) and any(word in (option.metavar or "") for word in _PLACES)
        for flag in [next(flag for flag in option.opts if flag.startswith("--"))]
        if flag not in _READ and (name, flag) not in _CHANGED_AT_ONCE | _ONLY_READ_HERE
    ]


OUTPUTS = _places()


def _value(metavar: str, path: str) -> str:
    return f"json={path}" if "=" in metavar else path


def test_there_are_as_many_outputs_as_we_know_of() -> None:
    assert len(OUTPUTS) == 25
    assert {name for name, _, _ in OUTPUTS} == set(_WORDS)


@pytest.mark.parametrize(("name", "flag", "metavar"), OUTPUTS, ids=str)
def test_what_cannot_be_written_is_refused_first(
    name: str, flag: str, metavar: str, torchstone: Command, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    bad = ["/proc/out.json", "file/out.json", "/dev/full"]
    bad += [] if metavar == "DIR" else ["folder", "folder/"]
    if metavar == "FILE" and (name, flag) not in {
        ("run", "--output"), ("ab", "--output-a"), ("ab", "--output-b")
    }:  # fmt: skip
        bad.append("no/such/folder/out.json")  # the folder of a run file is made
    before = sorted(os.listdir(tmp_path))
    for path in bad:
        refused = torchstone(*_WORDS[name], flag, _value(metavar, path))
        assert refused.code == 2, (path, refused)
        assert path in refused.err, (path, refused.err)
        assert "gone" not in refused.err, (path, refused.err)
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize(("name", "flag", "metavar"), OUTPUTS, ids=str)
def test_trying_leaves_nothing_behind_and_changes_nothing(
    name: str, flag: str, metavar: str, torchstone: Command, tmp_path: Path
) -> None:
    new = "place" if metavar == "DIR" else "place.csv" if name == "pr-time" else "place.out"
    only = ["--timeout", "gone"] if name == "cachebench" else []
    command = torchstone(*_WORDS[name], *only, flag, _value(metavar, new))
    assert command.code == 2
    assert "gone" in command.err  # it got as far as its inputs
    assert os.listdir(tmp_path) == []


_TAKE_STDOUT = {"check", "compare", "explain", "export", "import", "pr-time", "report"}


@pytest.mark.parametrize(("name", "flag", "metavar"), OUTPUTS, ids=str)
def test_standard_output_is_used_or_refused(
    name: str, flag: str, metavar: str, torchstone: Command, tmp_path: Path
) -> None:
    ran = torchstone(*_WORDS[name], flag, _value(metavar, "-"))
    takes = name in _TAKE_STDOUT and flag == "--output"
    assert ran.code == 2
    assert (f"{flag} cannot write to standard output" in ran.err) != takes
    assert ("gone" in ran.err) == takes
    assert os.listdir(tmp_path) == []


def test_a_full_device_is_noticed_and_others_are_left_alone() -> None:
    with pytest.raises(InputError, match="no space left on device"):
        try_file("/dev/full")
    try_file("/dev/null")
    try_file("/dev/stdout")
    output_checks.check_outputs([], {"output": "/dev/full"})


def test_a_pipe_is_neither_opened_nor_written_to(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    try_file(pipe)  # would wait for ever if it opened it
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path(pipe).read_text()))
    reader.start()
    write_text(pipe, "all of it")
    reader.join()
    assert read == ["all of it"]


def test_what_is_there_stays_as_it_is(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("precious")
    link = tmp_path / "link.json"
    link.symlink_to(kept)
    stamp = kept.stat().st_mtime_ns
    for path in (kept, link):
        try_file(str(path))
    assert (kept.read_text(), kept.stat().st_mtime_ns, link.is_symlink()) == ("precious", stamp, True)
    assert sorted(os.listdir(tmp_path)) == ["kept.json", "link.json"]


def test_a_folder_need_not_be_there_and_is_not_made(tmp_path: Path) -> None:
    try_folder(str(tmp_path / "a" / "b"))
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a folder"):
        try_folder(str(tmp_path / "file"))
    with pytest.raises(InputError, match="not a directory"):
        try_folder(str(tmp_path / "file" / "inner"))


def test_standard_output_can_be_named(torchstone: Command, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("name,accuracy\na,pass\n")
    judged = ("check", "e.csv", "--kind", "expected", "--rule", "accuracy=must_pass", "--format", "json")
    assert '"exit_code": 0' in torchstone(*judged, "-o", "-").out
    command = [sys.executable, "-m", "torchstone", *judged, "-o", "/dev/stdout"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert '"exit_code": 0' in ran.stdout
    assert torchstone("import", "e.csv", "--kind", "expected", "-o", "-").out.startswith('{"kind":"run"')
    assert os.listdir(tmp_path) == ["e.csv"]
