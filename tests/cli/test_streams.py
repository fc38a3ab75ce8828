"""Standard streams that are closed, full or without a reader: no traceback, the right exit code, nothing written into the wrong file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from live_processes import read_run
from torchstone.cli.group import COMMANDS

HEADER = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks\n"
GOOD = HEADER + "cuda,alpha,8,pass,10,1,0\n"
BAD = HEADER + "cuda,alpha,8,pass,10,1,3\n"
TIMES = "dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio\ncpu,alpha,1,{},1.0,2.0,1.0\n"
MEASURED = """
import torch, torchstone
@torchstone.benchmark
def tiny():
    return torch.nn.Linear(4, 4), (torch.ones(2, 4),)
"""

STATES = {
    "no stdin": "<&-",
    "no stdout": ">&-",
    "no stderr": "2>&-",
    "nothing": "<&- >&- 2>&-",
    "stdout full": ">/dev/full",
    "stderr full": "2>/dev/full",
    "both full": ">/dev/full 2>/dev/full",
    "no reader": "| (exec <&-; true)",
    "no reader of stderr": "2>&1 >/dev/null | (exec <&-; true)",
    "stdout not writable": "1</dev/null",
}
FEW = ("nothing", "both full")
LOSES_STDOUT = {"stdout full", "both full", "stdout not writable"}
HAS_NO_STDOUT = {"no stdout", "nothing"}
CANNOT_SAY_SO = {"nothing", "both full"}

QUICK = {
    "--help": 0,
    "--version": 0,
    "": 2,
    "nonsense": 2,
    "check --nonsense": 2,
    "check --help": 0,
    "check good.csv --baseline good.csv": 0,
    "check bad.csv --baseline good.csv": 1,
    "check bad.csv --baseline good.csv --format json": 1,
    "check gone.csv --baseline good.csv": 2,
    "compare before.csv after.csv": 0,
    "accept bad.csv --baseline good.csv --dry-run": 0,
    "report good.csv -o page.html": 0,
    "show good.csv": 0,
    "show bad.csv --format json": 0,
    "explain good.csv bad.csv": 2,
    "list": 0,
    "import good.csv -o imported.jsonl": 0,
    "import good.csv": 0,
    "export good.csv --to v3": 0,
    "export good.csv --to accuracy --raw-cells -o -": 0,
    "report good.csv -o -": 0,
    "compare before.csv after.csv --format markdown": 0,
    "check good.csv --baseline good.csv --format github -o -": 0,
    "list --json": 0,
    "quarantine list": 0,
    "record good.csv --revision r1 --store kept.db": 0,
    "store info --store gone.db": 2,
    "changes --store past/history.db": 0,
    "changes --store past/history.db --format json": 0,
    "triage list --store past/history.db": 0,
    "triage show 7 --store past/history.db": 2,
    "site --store gone.db -o pages": 2,
    "serve --store gone.db": 2,
    "repro good.csv alpha": 2,
    "ab": 2,
    "cachebench --nonsense": 2,
    "pr-time gone.py": 2,
    "run gone.py": 2,
    "selftest --nonsense": 2,
}
PRODUCES = {
    "check bad.csv --baseline good.csv --format json",
    "check good.csv --baseline good.csv --format github -o -",
    "compare before.csv after.csv --format markdown",
    "import good.csv",
    "export good.csv --to v3",
    "export good.csv --to accuracy --raw-cells -o -",
    "report good.csv -o -",
    "list --json",
    "show bad.csv --format json",
    "changes --store past/history.db --format json",
}
"""The commands whose standard output is for other programs, not for people: it must not be lost."""
MEASURING = {
    "run bench_tiny.py --backend eager --repeat 3 -o run.jsonl": 0,
    "run bench_tiny.py --backend nonsense -o run.jsonl": 2,
    "doctor": None,
}


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "good.csv").write_text(GOOD)
    assert run_in(folder, "record good.csv --revision r1 --store history.db", "")[0] == 0
    return folder / "history.db"


@pytest.fixture
def folder(tmp_path: Path, history: Path) -> Path:
    (tmp_path / "past").mkdir()
    shutil.copy(history, tmp_path / "past")
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "bad.csv").write_text(BAD)
    (tmp_path / "before.csv").write_text(TIMES.format(1.5))
    (tmp_path / "after.csv").write_text(TIMES.format(1.5))
    (tmp_path / "quarantine.toml").write_text('[[quarantine]]\ncase = "beta"\nreason = "flaky"\n')
    (tmp_path / "bench_tiny.py").write_text(MEASURED)
    return tmp_path


def start_in(folder: Path, command: str, state: str) -> subprocess.Popen[str]:
    """Starts a command with its streams in some state; what reaches the test of both is kept apart."""
    line = f"set -o pipefail; {sys.executable} -m torchstone {command} {STATES.get(state, '')}"
    return subprocess.Popen(
        ["bash", "-c", line], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run_in(folder: Path, command: str, state: str) -> tuple[int, str]:
    """The exit code of a command with its streams in some state, and what it could say on either."""
    with start_in(folder, command, state) as process:
        out, err = process.communicate(timeout=300)
    return process.returncode, out + err


def check_states(folder: Path, command: str, code: int, states: tuple[str, ...]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    started = [start_in(folder, command, state) for state in ("", *states)]
    (out, err), *said = [process.communicate(timeout=300) for process in started]
    plain, *codes = [process.returncode for process in started]
    assert plain == code, out + err
    for state, found, told in zip(states, codes, said, strict=True):
        loses = LOSES_STDOUT | (HAS_NO_STDOUT if command in PRODUCES else set())
        expected = 2 if code < 2 and out and state in loses else code
        assert found == expected, (command, state, told)
        assert "Traceback" not in "".join(told), (command, state, told)
        if expected != code and state not in CANNOT_SAY_SO:
            assert "error: the output cannot be written: " in "".join(told)
    for name, content in before.items():
        assert (folder / name).read_bytes() == content


@pytest.mark.parametrize(("command", "code"), QUICK.items())
def test_a_command_with_broken_streams_has_its_exit_code(folder: Path, command: str, code: int) -> None:
    check_states(folder, command, code, FEW)


def test_every_state_of_the_streams(folder: Path) -> None:
    check_states(folder, "check bad.csv --baseline good.csv", 1, tuple(STATES))


@pytest.mark.parametrize("command", sorted(PRODUCES))
def test_a_product_without_standard_output_is_an_error_that_says_so(folder: Path, command: str) -> None:
    code, said = run_in(folder, command, "no stdout")
    assert code == 2
    assert "error: the output cannot be written: standard output is closed\n" in said


def test_pr_time_does_not_measure_for_a_closed_standard_output(folder: Path) -> None:
    code, said = run_in(folder, "pr-time bench_tiny.py", "no stdout")
    assert (code, "standard output is closed" in said) == (2, True)
    assert not (folder / ".torchstone").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code"), QUICK.items())
def test_every_command_in_every_state_of_the_streams(folder: Path, command: str, code: int) -> None:
    check_states(folder, command, code, tuple(STATES))


def test_every_command_is_tried() -> None:
    tried = {command.split()[0] for command in (*QUICK, *MEASURING) if command}
    assert set(COMMANDS) <= tried


@pytest.mark.slow
@pytest.mark.parametrize("state", ["nothing", "both full"])
def test_a_run_whose_streams_are_gone_has_its_run_file(folder: Path, state: str) -> None:
    code, said = run_in(folder, "run bench_tiny.py --backend eager --repeat 3 -o run.jsonl", state)
    assert code == (2 if state == "both full" else 0)
    assert said == ""
    run = read_run(folder / "run.jsonl").run
    assert run.finished
    assert {outcome.status for outcome in run.outcomes} == {"pass"}
    assert (folder / "bench_tiny.py").read_text() == MEASURED


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_measuring_commands_in_every_state_of_the_streams(folder: Path, state: str) -> None:
    for command, code in MEASURING.items():
        expected = run_in(folder, command, "")[0] if code is None else code
        (folder / "run.jsonl").unlink(missing_ok=True)
        found, said = run_in(folder, command, state)
        assert "Traceback" not in said
        assert found == (2 if state in LOSES_STDOUT and expected < 2 else expected), (command, said)
        assert (folder / "run.jsonl").exists() == (command.startswith("run") and expected == 0)


def test_a_report_into_a_full_pipe_that_does_not_block_is_complete(folder: Path) -> None:
    rows = "".join(f"cuda,model{number},8,OOM,1,1,0\n" for number in range(3000))
    (folder / "many.csv").write_text(HEADER + rows)
    command = [sys.executable, "-m", "torchstone", "export", "many.csv", "--to", "v3"]
    whole = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=True).stdout
    assert len(whole) > 1 << 17  # more than a pipe holds
    read, write = os.pipe()
    os.set_blocking(write, False)
    with subprocess.Popen(command, cwd=folder, stdout=write) as process:
        os.close(write)
        with open(read, "rb") as pipe:
            assert pipe.read() == whole
        assert process.wait(300) == 0
