from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import hypothesis
import pexpect
import pytest

from comparison_files import write_run
from live_processes import MARK, Bench, Onlooker, expect_no_process, marked_processes, wait_until
from postgres_server import postgres_server
from shared_zygote import Zygotes
from torchstone.cli.main import run
from torchstone.core.records import Outcome
from torchstone.measure.executors.local import LocalExecutor
from torchstone.measure.executors.selection import current_executor, using_executor
from torchstone.measure.session import Session
from torchstone.worker.machine.strain import Strain, StrainWatch

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as a shell has it for what runs in the background: Ctrl-C would reach no child
    signal.signal(signal.SIGINT, signal.default_int_handler)


# How fast this machine is says nothing about the code. A thorough run, as CI makes beside the slow tests, tries each property five times as often.
for profile, examples in (("quick", 50), ("thorough", 250)):
    hypothesis.settings.register_profile(
        profile,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Makes slow tests of those that try many examples: ``-m slow --hypothesis-profile=thorough`` runs them too."""
    if config.getoption("--hypothesis-profile") == "thorough":
        for item in items:
            tested = getattr(item, "obj", None)
            if hypothesis.is_hypothesis_test(tested) or item.get_closest_marker("hypothesis"):
                item.add_marker("slow")


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ran]
Compare = Callable[..., tuple[Ran, dict[str, Any]]]
WriteFile = Callable[[str, str], str]


@pytest.fixture(scope="module")
def quiet_machine() -> Iterator[None]:
    """Whatever else this machine does, no other work takes the processor away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StrainWatch, "read", lambda _: Strain())
        yield


@pytest.fixture(scope="session")
def zygotes() -> Iterator[Zygotes]:
    """Zygotes that commands of several tests use one after the other."""
    with contextlib.closing(Zygotes()) as kept:
        yield kept


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server without databases of ours, for all tests of the session."""
    with postgres_server() as url:
        yield url


@pytest.fixture
def torchstone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zygotes: Zygotes
) -> Iterator[Command]:
    """Runs a command in an empty folder and gives what it printed; an error message is never a traceback."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ran:
        code = run(list(arguments))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        if code == 2:
            assert (
                err.startswith("error: ") or "\nerror: " in err
            )  # after what was said while torch was loading
        return Ran(code, out, err)

    chosen = current_executor()  # a module of tests may have chosen another one than that of every command
    with using_executor(zygotes if isinstance(chosen, LocalExecutor) else chosen):
        yield call


@pytest.fixture
def compare(torchstone: Command, tmp_path: Path) -> Compare:
    """Compares two lists of outcomes, and gives the JSON report."""

    def call(base: Sequence[Outcome], new: Sequence[Outcome], *options: str) -> tuple[Ran, dict[str, Any]]:
        files = write_run(tmp_path, "base.jsonl", base), write_run(tmp_path, "new.jsonl", new)
        ran = torchstone("compare", *files, "--format", "json", *options)
        return ran, json.loads(ran.out) if ran.out else {}

    return call


def start_on_terminal(
    folder: Path, *arguments: str, columns: int = 80, env: Mapping[str, str] = MappingProxyType({})
) -> pexpect.spawn[str]:
    """Starts a command in a folder on a terminal of its own, with nothing said about colors unless a test does."""
    inherited = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    return pexpect.spawn(
        sys.executable,
        ["-m", "torchstone", *arguments],
        cwd=str(folder),
        env=inherited | {"TERM": "xterm"} | dict(env),
        timeout=30,
        encoding="utf-8",
        codec_errors="replace",  # Ctrl-C makes a terminal drop what it has not shown yet, be it half a character
        dimensions=(40, columns),
    )


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Writes a file into the folder that commands run in, and gives its name."""

    def call(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return name

    return call


@contextlib.contextmanager
def make_bench(start: str) -> Iterator[Bench]:
    """A session with workers of this kind, whose processes are marked; no process of it is left."""
    mark = uuid.uuid4().hex
    with Session(start, "cold", lambda _: None) as started:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(MARK, mark)
            started.start_workers([], ["cpu"])
        assert started.launcher.start == start
        yield Bench(started, mark, Onlooker())
    expect_no_process(mark)


@pytest.fixture(scope="session")
def forking() -> Iterator[Bench]:
    """The one session whose workers are forked: loading torch for it takes long."""
    with make_bench("fork") as made:
        yield made


@pytest.fixture(scope="module", params=["fork"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Workers that are forked, or spawned where a test asks for it; nothing that they started outlives them."""
    if request.param == "fork":
        shared: Bench = request.getfixturevalue("forking")
        yield shared._replace(watcher=Onlooker())
        wait_until(
            lambda: len(marked_processes(shared.mark)) <= 1,
            f"processes are left beside the zygote: {marked_processes(shared.mark)}",
            30,
        )
    else:
        with make_bench(request.param) as made:
            yield made
