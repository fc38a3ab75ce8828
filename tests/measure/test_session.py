"""A session: what its workers see of files and of the machine, and how they are started."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from live_processes import MARK, Bench, expect_no_process, marked_processes, wait_until
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.errors import InputError, TorchstoneError
from torchstone.measure import session as session_module
from torchstone.measure.executors.local import Spawner
from torchstone.measure.executors.protocol import CannotMeasureError, OutOfTimeError
from torchstone.measure.session import Session
from torchstone.measure.survey_replies import wait_for_answer
from torchstone.measure.worker_messages import source_messages
from torchstone.worker import worker_environment
from torchstone.worker.channel import encode
from torchstone.worker.protocol.jobs import SurveyJob
from torchstone.worker.protocol.replies import SurveyReply
from torchstone.worker.scratch import make_scratch

GOOD = """
import torch, torchstone
@torchstone.benchmark(batch_size=4, parameters={"width": [4, 8]})
def linear(width, batch_size):
    return torch.nn.Linear(width, width), (torch.ones(batch_size, width),)
"""

Look = Callable[..., SurveyReply]


@pytest.fixture
def look(bench: Bench, tmp_path: Path) -> Look:
    """Has a worker look at a file."""

    def call(text: str, name: str = "bench_it", **job: Any) -> SurveyReply:  # noqa: ANN401  (of any type that a field has)
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        sources = [BenchmarkSource("file", name, str(path))]
        return bench.session.survey(SurveyJob(source_messages(sources), folder=str(tmp_path), **job))

    return call


def test_a_worker_tells_of_benchmarks_devices_backends_and_environment(
    look: Look,
) -> None:
    found = look(GOOD, devices=("cpu", "nonsense", "meta"), threads=1)
    (source,) = found.sources
    assert [each.name for each in source.benchmarks] == ["linear(width=4)", "linear(width=8)"]
    assert source.benchmarks[0].takes == ("batch_size",)
    assert found.devices is not None
    assert found.devices["cpu"] == ""
    assert "torch knows no device 'nonsense'" in found.devices["nonsense"]
    assert found.devices["meta"]
    assert {"inductor", "eager", "none"} <= set(found.backends)
    assert found.environment is not None
    assert found.environment.threads == 1
    assert found.environment.versions["torch"]


BAD_FILES = [
    ("x = 1\ndef f(:\n    pass\n", "bench_it.py:2:7: syntax error: invalid syntax"),
    (
        "\nimport not_there\n",
        "bench_it.py:2: importing it raised ModuleNotFoundError: No module named 'not_there'",
    ),
    ("\n\nx = 1 / 0\n", "bench_it.py:3: importing it raised ZeroDivisionError: division by zero"),
    ("import sys\nsys.exit()\n", "bench_it.py:2: importing it raised SystemExit"),
    ("raise KeyboardInterrupt\n", "bench_it.py:1: importing it raised KeyboardInterrupt"),
    ("x = 1\n", "bench_it.py: no benchmark is defined in it"),
    ("", "bench_it.py: no benchmark is defined in it"),
    (GOOD + GOOD, "bench_it.py:8: linear is defined twice"),
    (
        "import os\nos._exit(4)\n",
        "bench_it.py: the worker exited with code 4 while it was importing this file",
    ),
    (
        "import ctypes\nctypes.string_at(0)\n",
        "bench_it.py:2: the worker ended by SIGSEGV while it was importing this file",
    ),
    (
        "import torchstone\n@torchstone.benchmark\ndef m(width): ...\n",
        "bench_it.py:2: m takes 'width', but nothing provides it",
    ),
    (
        "import torchstone\n@torchstone.benchmark(modes=['sleep'])\ndef m(): ...\n",
        "bench_it.py:2: m: modes=('sleep',): expected some of inference, training",
    ),
    ("x = 'nul: \0'\n", "bench_it.py: syntax error"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FILES, ids=[message[:40] for _, message in BAD_FILES])
def test_a_file_that_cannot_be_used_is_told_with_its_place(
    look: Look, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InputError) as raised:
        look(text)
    assert str(raised.value).startswith(f"{tmp_path}/{message}")


def test_a_file_that_hangs_when_it_is_imported_is_told_with_the_line(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "SURVEY_TIMEOUT", 3.0)
    with pytest.raises(InputError) as raised:
        look("import time\n\ntime.sleep(1000)\n")
    assert str(raised.value).startswith(f"{tmp_path}/bench_it.py:3: the worker did not answer within 3 s")


def test_after_its_deadline_a_session_waits_for_no_survey(look: Look, bench: Bench) -> None:
    bench.session.deadline = time.monotonic() + 1.0
    try:
        with pytest.raises(OutOfTimeError):
            look("import time\ntime.sleep(600)\n")
    finally:
        bench.session.deadline = math.inf
    assert look(GOOD).sources


def test_after_its_deadline_a_session_waits_for_no_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    with Session("fork", "cold", print) as session:
        session.deadline = time.monotonic() + 0.1
        with pytest.raises(OutOfTimeError):
            session.start_workers([])
    expect_no_process(mark)


def test_a_file_whose_name_hides_a_module_is_refused(look: Look) -> None:
    with pytest.raises(InputError, match="its name hides the module json"):
        look(GOOD, name="json")


def test_an_import_that_fails_is_told_by_its_option(look: Look) -> None:
    with pytest.raises(TorchstoneError, match="--import not_there: ModuleNotFoundError"):
        look(GOOD, imports=("not_there",))


def test_a_worker_needs_nothing_but_torch_and_the_standard_library(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "bench_it.py"
    path.write_text(
        "import sys, torch, torchstone\n"
        "def model(x):\n"
        "    assert not {'msgspec', 'click', 'rich'} & set(sys.modules)\n"
        "    return x + 1\n"
        "@torchstone.benchmark\n"
        "def bare():\n"
        "    return model, (torch.ones(4),)\n"
    )
    for probe in ("performance", "accuracy"):
        assert bench.measure(path, ["bare"], probe=probe)["bare"].status == "pass"


def test_what_a_file_imports_is_imported_once_for_all_workers(look: Look, bench: Bench) -> None:
    found = look("import pexpect.replwrap\n" + GOOD)
    assert {"pexpect", "pexpect.replwrap"} <= set(found.libraries)
    assert bench.session.launcher.preload(found.libraries) == ""
    assert look("import sys\nassert 'pexpect.replwrap' in sys.modules\n" + GOOD).sources
    assert bench.session.launcher.preload(["not_there"]) == ""


def test_the_process_that_forks_has_a_single_thread(bench: Bench) -> None:
    wait_until(lambda: len(marked_processes(bench.mark)) == 1, "a worker is left", 30)
    (pid,) = marked_processes(bench.mark)
    assert len(os.listdir(f"/proc/{pid}/task")) == 1


def test_workers_can_be_started_without_a_keeper(tmp_path: Path) -> None:
    spawner = Spawner(worker_environment.worker_variables(str(tmp_path)))
    answer = wait_for_answer(spawner.launch(SurveyJob(torch=False)), spawner, 60)
    assert answer == SurveyReply((), (), ())
    worker = spawner.launch(SurveyJob(torch=False))
    spawner.close()
    worker.close()
    assert not os.path.exists(f"/proc/{worker.pid}")


def write_package(folder: Path, code: str) -> None:
    """A package that offers a suite, as an installed one would."""
    (folder / "threaded_suite.py").write_text(code)
    info = folder / "threaded-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: threaded\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torchstone.suites]\nthreaded = threaded_suite:SUITE\n")


THREADED = """
import threading, time
from torchstone import Suite
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
SUITE = Suite("threaded", "starts a thread", list)
"""


@pytest.fixture
def threaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchmarkSource:
    """A source whose import starts a thread."""
    write_package(tmp_path, THREADED)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return BenchmarkSource("package", "threaded")


def test_workers_of_a_library_that_starts_threads_are_spawned_with_a_caution(
    threaded: BenchmarkSource,
) -> None:
    with Session("auto", "cold", lambda _: None) as session:
        session.start_workers([threaded], ["cpu"])
        assert session.launcher.start == "spawn"
        assert [caution.text for caution in session.cautions] == [
            "workers are spawned instead of forked, which takes longer: 2 threads are running after the imports"
        ]
        assert session.survey(SurveyJob(source_messages([threaded]), torch=False)).sources[0].benchmarks == ()


@pytest.mark.slow
def test_where_forking_was_asked_for_a_library_that_starts_threads_is_refused(
    threaded: BenchmarkSource,
) -> None:
    with Session("fork", "cold", lambda _: None) as session, pytest.raises(CannotMeasureError) as raised:
        session.start_workers([threaded], ["cpu"])
    assert "workers cannot be forked: 2 threads are running" in str(raised.value)


@pytest.mark.parametrize("start", ["auto", "spawn"])
def test_without_torch_nothing_can_be_measured_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch':\n"
        "            raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))

    def look() -> None:
        with Session(start, "cold", lambda _: None) as session:
            session.start_workers([], ["cpu"])
            session.survey(SurveyJob())

    with pytest.raises(CannotMeasureError) as raised:
        look()
    assert raised.value.exit_code == 3
    assert str(raised.value).startswith(f"torch is not installed for {sys.executable}")


def test_a_cache_folder_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHSTONE_CACHE", "/proc/no/such/folder")
    with pytest.raises(InputError, match="cannot create the folder"), Session("spawn", "cold", print):
        pass


def test_nothing_is_left_of_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Session("spawn", "cold", lambda _: None) as session:
        session.start_workers([])
        session.survey(SurveyJob(torch=False))
        assert len(list(tmp_path.iterdir())) == 1
    assert not list(tmp_path.iterdir())


ABANDONED = """
import subprocess, time
from torchstone.worker.zygote import _in_child

def compile_for_long():
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("compiling", flush=True)
    time.sleep(1000)

_in_child(compile_for_long)
"""


def test_a_zygote_that_is_killed_while_it_compiles_takes_the_compiler_along() -> None:
    mark = uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, "-c", ABANDONED], env={**os.environ, MARK: mark}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"compiling\n"
        process.kill()
    expect_no_process(mark)


def test_a_child_of_the_zygote_says_how_it_ended() -> None:
    program = "import sys; from torchstone.worker.zygote import _in_child; print(_in_child(lambda: {}))"
    ends = {"None": "0", "1 / 0": "1", "__import__('os')._exit(7)": "7", "__import__('os').abort()": "1"}
    for work, code in ends.items():
        command = [sys.executable, "-c", program.replace("{}", work)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == code, work


@pytest.mark.parametrize("kind", ["zygote", "forking"])
def test_a_keeper_whose_parent_is_gone_before_it_has_begun_cleans_up_and_goes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = make_scratch()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.send(encode({"sources": [], "template": str(tmp_path), "scratch": made.path}))
    ours.close()
    with theirs:
        ran = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", f"torchstone.worker.{kind}", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            capture_output=True,
            text=True,
            check=True,
        )
    assert not os.path.exists(made.path)
    assert "| torch\n" not in ran.stderr  # it has not been loaded for nobody
    assert "Traceback" not in ran.stderr
    made.remove()
