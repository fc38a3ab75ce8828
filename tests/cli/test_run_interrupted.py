"""A run that is killed, interrupted, or runs out of disk loses nothing, leaves nothing behind, and can be finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import uuid
from importlib import metadata
from pathlib import Path

import pexpect
import pytest

from conftest import Command, start_on_terminal
from live_processes import (
    MARK,
    PATIENCE,
    count_outcomes,
    expect_no_process,
    marked_processes,
    read_run,
    run_torchstone,
    start_torchstone,
    wait_until,
)
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.records import Case, Outcome, Revision, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import Environment
from torchstone.measure.journal import reopen_journal
from torchstone.measure.measuring import Settings
from torchstone.measure.session import Session
from torchstone.measure.targets import hash_file
from torchstone.worker.process_tree import list_children

# Each benchmark notes that it was built, takes a while, and has a child in a session of its own.
BENCHMARKS = """
import os, subprocess, time
import torch, torchstone

@torchstone.benchmark(parameters={"number": list(range(6))})
def slow(number):
    with open("notes", "a") as file:
        file.write(f"{number}\\n")
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    time.sleep(0.7)
    return torch.relu, (torch.ones(4),)
"""
OPTIONS = [
    *("--backend", "eager", "--repeat", "20", "--probe", "performance"),
    *("--device", "cpu", "--threads", "1", "--jobs", "1", "-o", "run.jsonl"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bench_slow.py").write_text(BENCHMARKS)
    return tmp_path


@pytest.fixture
def unfinished(folder: Path) -> Path:
    """The file of a run of two cases, of which one has ended."""
    variant = Variant("cpu", "none", "inference", "float32")
    plan = tuple(Case(f"slow(number={number})", "performance", "bench_slow", variant) for number in (0, 1))
    path = folder / "bench_slow.py"
    source = BenchmarkSource("file", "bench_slow", str(path), hash_file(str(path)))
    settings = Settings({"bench_slow": source}, str(folder), threads=1, repeat=20)
    environment = Environment(versions={"torch": metadata.version("torch")})
    run = Run("id", plan, (Outcome(plan[0], "pass"),), Revision(), environment, settings, False)
    path = folder / "run.jsonl"
    path.write_text(encode_run(run))
    return path


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


def kill_midway(
    folder: Path, mark: str, number: signal.Signals, *options: str
) -> subprocess.CompletedProcess[str]:
    """Starts a run, and sends it a signal when two cases have ended and another one is being measured."""

    def is_midway() -> bool:
        at_work = any("sleep" in command for command in marked_processes(mark).values())
        return at_work and count_outcomes(folder / "run.jsonl") >= 2

    with start_torchstone(folder, "run", "bench_slow.py", *OPTIONS, *options, mark=mark) as process:
        wait_until(is_midway, "no two outcomes")
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(options, process.returncode, out, err)


def finish(folder: Path, mark: str) -> None:
    """Resumes, and sees that the run ends with all planned cases, of which the finished ones were not measured again."""
    before = read_run(folder / "run.jsonl").run
    (folder / "notes").unlink()
    ran = run_torchstone(folder, "run", "--resume", "run.jsonl", mark=mark)
    assert ran.returncode == 0, ran.stderr
    after = read_run(folder / "run.jsonl").run
    assert after.finished
    assert after.plan == before.plan
    assert after.outcomes[: len(before.outcomes)] == before.outcomes
    assert {outcome.case for outcome in after.outcomes} == set(after.plan)
    done = {outcome.case.benchmark for outcome in before.outcomes}
    again = [f"slow(number={number})" for number in (folder / "notes").read_text().split()]
    assert sorted(again) == sorted({case.benchmark for case in after.plan} - done)
    assert f"[{len(before.outcomes) + 1}/6] " in ran.stdout
    expect_no_process(mark)


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_run_that_is_killed_leaves_no_process_and_can_be_finished(
    folder: Path, mark: str, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = folder / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    assert kill_midway(folder, mark, signal.SIGKILL, "--start", start).returncode == -signal.SIGKILL
    expect_no_process(mark)
    wait_until(lambda: not list(scratch.iterdir()), "temporary files are left", 30)
    reading = read_run(folder / "run.jsonl")
    assert not reading.run.finished
    assert len(reading.run.outcomes) >= 2
    (folder / "run.jsonl").write_bytes((folder / "run.jsonl").read_bytes()[:-20])  # and the last line is torn
    assert len(read_run(folder / "run.jsonl").run.outcomes) == len(reading.run.outcomes) - 1
    finish(folder, mark)


def test_a_run_whose_keeper_is_stopped_and_who_is_then_killed_leaves_nothing(
    tmp_path: Path, mark: str
) -> None:
    (tmp_path / "bench_hostile.py").write_text(
        "import os, signal, time, torch, torchstone\n"
        "@torchstone.benchmark\n"
        "def hostile():\n"
        "    keeper = os.getppid()\n"
        "    with open(f'/proc/{keeper}/stat') as file:\n"
        "        parent = int(file.read().rpartition(')')[2].split()[1])\n"
        "    os.kill(keeper, signal.SIGSTOP)\n"
        "    os.kill(parent, signal.SIGKILL)\n"
        "    time.sleep(1000)\n"
    )
    ran = run_torchstone(tmp_path, "run", "bench_hostile.py", *OPTIONS, mark=mark)
    assert ran.returncode == -signal.SIGKILL
    expect_no_process(mark)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_run_that_is_told_to_end_says_how_to_go_on(folder: Path, mark: str, number: signal.Signals) -> None:
    ran = kill_midway(folder, mark, number, "--csv", "my tables")
    assert ran.returncode == 130
    expect_no_process(mark)
    count = len(read_run(folder / "run.jsonl").run.outcomes)
    assert f"stopped: {count} of 6 cases are in run.jsonl, {6 - count} are left; resume with" in ran.stderr
    assert "  torchstone run --resume run.jsonl --csv 'my tables'\n" in ran.stderr
    assert "Traceback" not in ran.stderr
    if number == signal.SIGINT:
        finish(folder, mark)


def test_ctrl_c_ends_the_workers_keeps_what_is_finished_and_says_how_to_go_on(
    folder: Path, mark: str
) -> None:
    child = start_on_terminal(folder, "run", "bench_slow.py", *OPTIONS, env={MARK: mark})
    child.expect_exact("2/6", timeout=PATIENCE)
    child.sendintr()
    child.expect_exact("torchstone run --resume run.jsonl", timeout=PATIENCE)
    child.expect(pexpect.EOF, timeout=PATIENCE)
    child.close()
    assert child.exitstatus == 130
    expect_no_process(mark)
    assert len(read_run(folder / "run.jsonl").run.outcomes) >= 2


def test_ctrl_c_before_anything_is_measured_leaves_nothing(folder: Path, mark: str) -> None:
    child = start_on_terminal(folder, "run", "bench_slow.py", *OPTIONS, env={MARK: mark})
    wait_until(lambda: any("zygote" in each for each in marked_processes(mark).values()), "no zygote")
    child.sendintr()
    child.expect_exact("stopped", timeout=PATIENCE)
    child.expect(pexpect.EOF, timeout=PATIENCE)
    child.close()
    assert child.exitstatus == 130
    expect_no_process(mark)
    assert os.listdir(folder) == ["bench_slow.py"]


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of everything that is started."""
    made = tmp_path_factory.mktemp("scratch")
    monkeypatch.setenv("TMPDIR", str(made))
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def assert_swept(scratch: Path) -> None:
    """Starts another session, which removes what others have left; and leaves nothing itself."""

    def is_swept() -> bool:  # soon: a process that cannot be seen any more may not have let go of everything
        with Session("spawn", "cold", print) as session:
            return [str(path) for path in scratch.iterdir()] == [session.scratch]

    wait_until(is_swept, "a folder is left", 30)
    assert not list(scratch.iterdir())


def end_while_loading(folder: Path, mark: str, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Starts a run, and sends it a signal while its zygote loads torch."""
    with start_torchstone(folder, "run", "bench_slow.py", *OPTIONS, mark=mark) as process:
        wait_until(lambda: any("zygote" in each for each in marked_processes(mark).values()), "no zygote")
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess((), process.returncode, out, err)


def test_a_run_that_is_killed_while_it_loads_leaves_no_process_and_its_folder_goes_with_the_next_start(
    folder: Path, mark: str, scratch: Path
) -> None:
    assert end_while_loading(folder, mark, signal.SIGKILL).returncode == -signal.SIGKILL
    expect_no_process(mark)
    assert_swept(scratch)
    assert os.listdir(folder) == ["bench_slow.py"]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_a_run_that_is_told_to_end_while_it_loads_leaves_nothing(
    folder: Path, mark: str, scratch: Path, number: signal.Signals
) -> None:
    ran = end_while_loading(folder, mark, number)
    assert (ran.returncode, "stopped" in ran.stderr, "Traceback" in ran.stderr) == (130, True, False)
    expect_no_process(mark)
    assert not list(scratch.iterdir())
    assert os.listdir(folder) == ["bench_slow.py"]


def test_a_run_that_is_killed_together_with_its_keeper_is_cleaned_up_by_the_next_start(
    folder: Path, mark: str, scratch: Path
) -> None:
    (folder / "bench_slow.py").write_text(BENCHMARKS.replace("subprocess.Popen", "# subprocess.Popen"))
    with start_torchstone(folder, "run", "bench_slow.py", *OPTIONS, mark=mark) as process:
        wait_until(lambda: count_outcomes(folder / "run.jsonl") >= 1, "no outcome")
        (keeper,) = list_children(process.pid)
        os.kill(keeper, signal.SIGKILL)  # first: one that sees its parent gone cleans up
        process.kill()
        process.communicate(timeout=PATIENCE)
    expect_no_process(mark)
    (left,) = scratch.iterdir()
    assert_swept(scratch)
    assert not left.exists()


def test_a_second_run_may_not_write_the_same_file(unfinished: Path, torchstone: Command) -> None:
    journal, _ = reopen_journal(str(unfinished))
    second = torchstone("run", "bench_slow.py", *OPTIONS)
    third = torchstone("run", "--resume", "run.jsonl")
    journal.close()
    assert (second.code, "run.jsonl already exists" in second.err) == (2, True)
    assert (third.code, "another run is writing run.jsonl" in third.err) == (2, True)


# Lets the run file grow by one outcome, and no further: as a full disk would.
FULL_DISK = """
import os, resource, sys
import torchstone.api.measuring.run as command
from torchstone.cli.main import run
from torchstone.measure.journal import create_journal

def create_on_full_disk(path, *arguments):
    journal = create_journal(path, *arguments)
    limit = os.path.getsize(path) + 6000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return journal

command.create_journal = create_on_full_disk
sys.exit(run(sys.argv[1:]))
"""


def test_a_full_disk_ends_the_run_with_a_message_and_the_file_is_whole(folder: Path, mark: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, "run", "bench_slow.py", *OPTIONS, "--cache", "warm"],
        cwd=folder,
        env={**os.environ, MARK: mark},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert "error: run.jsonl: cannot be written: file too large" in ran.stderr
    assert "torchstone run --resume run.jsonl" in ran.stderr
    assert "Traceback" not in ran.stderr
    expect_no_process(mark)
    assert 0 < len(read_run(folder / "run.jsonl").run.outcomes) < 6
    assert (folder / "run.jsonl").read_bytes().endswith(b"\n")


def test_a_damaged_file_is_not_gone_on_with(unfinished: Path, tmp_path: Path, torchstone: Command) -> None:
    head, outcome = unfinished.read_text().splitlines(keepends=True)
    damages = {
        "damaged.jsonl:2: ": [head, outcome[:50] + "\n", outcome],
        "damaged.jsonl:1: ": [head.replace('"benchmark"', '"bunchmark"'), outcome],
        "damaged.jsonl:3: a second outcome of": [head, outcome, outcome],
        "damaged.jsonl:1: column format: ": [head.replace('"format":2', '"format":99'), outcome],
        "damaged.jsonl:1: column settings.repeat: expected": [
            head.replace('"repeat":20', '"repeat":"often"'),
            outcome,
        ],
    }
    for message, lines in damages.items():
        (tmp_path / "damaged.jsonl").write_text("".join(lines))
        ran = torchstone("run", "--resume", "damaged.jsonl")
        assert ran.code == 2
        assert message in ran.err
        assert (tmp_path / "damaged.jsonl").read_text() == "".join(lines)


def test_a_run_that_was_begun_elsewhere_is_not_gone_on_with(unfinished: Path, torchstone: Command) -> None:
    text = unfinished.read_text().replace('"versions":{"torch":"', '"versions":{"torch":"0.')
    unfinished.write_text(text)
    ran = torchstone("run", "--resume", "run.jsonl")
    assert ran.code == 2
    assert "the run was started with other code or in another environment: torch is " in ran.err
    assert unfinished.read_text() == text


def test_a_run_can_be_finished_from_another_folder(
    unfinished: Path, tmp_path: Path, torchstone: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    refused = torchstone("run", "--resume", str(unfinished))
    assert refused.code == 2
    assert "bench_slow.py: outside this folder and its repository" in refused.err
    ran = torchstone("run", "--resume", str(unfinished), "--trust")
    assert ran.code == 0, ran.err
    assert len(read_run(unfinished).run.outcomes) == 2
    assert (tmp_path / "notes").exists()  # the model worked in the folder that it was begun in
    assert not list(elsewhere.iterdir())
