"""One round of ``kills.py``: start a command, kill it, and check what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from torchstone.core.errors import TorchstoneError
from torchstone.core.records import Run
from torchstone.core.run_file import decode_run
from torchstone.worker.process_tree import list_children

MARK = "TORCHSTONE_KILLS_MARK"
PATIENCE = 300.0
SECONDS_TO_END = 15.0
SECONDS_TO_LET_GO = 0.5

BENCHMARKS = """
import torch, torchstone

@torchstone.benchmark(batch_size=4, parameters={"number": [0, 1, 2]})
def tiny(number, batch_size):
    return torch.nn.Linear(8, 8), (torch.randn(batch_size, 8),)
"""


@dataclass(frozen=True)
class Command:
    """A command to be killed: its arguments, the run files that it writes, and whether it can be finished with --resume."""

    name: str
    arguments: tuple[str, ...]
    run_files: tuple[str, ...] = ("run.jsonl",)
    is_resumable: bool = True


@dataclass
class Round:
    """One round: its folders, and what was found wrong."""

    command: Command
    blow: str
    folder: Path
    cache: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    problems: list[tuple[str, str]] = field(default_factory=list)

    @property
    def work(self) -> Path:
        """The folder that the command is started in."""
        return self.folder / "work"

    @property
    def temporary(self) -> Path:
        """Its folder for temporary files."""
        return self.folder / "tmp"

    def note(self, kind: str, what: str) -> None:
        """Something is wrong: lost, orphans, leftovers or other."""
        self.problems.append((kind, what))


def prepare(done: Round) -> None:
    """A repository with two commits, and an empty folder for temporary files."""
    done.temporary.mkdir(parents=True)
    done.work.mkdir()
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    _git(done, "init", "--quiet")
    for number in (1, 2):
        (done.work / "bench_kills.py").write_text(f"{BENCHMARKS}\n# {number}\n")
        (done.work / ".gitignore").write_text("*.jsonl\n*.json\n*.html\ntables\n.torchstone\n__pycache__\n")
        _git(done, "add", ".")
        _git(done, *who, "commit", "--quiet", "-m", str(number))


def _git(done: Round, *arguments: str) -> str:
    ran = subprocess.run(["git", "-C", done.work, *arguments], check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def start(done: Round, arguments: tuple[str, ...], name: str) -> subprocess.Popen[bytes]:
    """Start torchstone; what it prints goes into files of this name."""
    variables = {
        **os.environ,
        MARK: done.mark,
        "TMPDIR": str(done.temporary),
        "TORCHSTONE_CACHE": str(done.cache),
    }
    with open(done.folder / f"{name}.out", "wb") as out, open(done.folder / f"{name}.err", "wb") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "torchstone", *arguments],
            cwd=done.work,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )


def finish(done: Round, arguments: tuple[str, ...], name: str) -> int:
    """Run torchstone to its end."""
    with start(done, arguments, name) as process:
        try:
            return process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            done.note("other", f"{name}: not at its end after {PATIENCE:g} s")
            return -1


def strike(process: subprocess.Popen[bytes], target: str, number: signal.Signals) -> bool:
    """Send a signal to whoever is meant, as soon as it is there; False if the command ends before."""
    while process.poll() is None:
        keepers = [pid for pid in list_children(process.pid) if b"torchstone.worker." in _command_line(pid)]
        workers = [pid for keeper in keepers for pid in list_children(keeper)]
        found = {
            "parent": [process.pid],
            "keeper": keepers[-1:],
            "worker": workers[-1:],
            "both": [process.pid, *keepers] if keepers else [],
        }[target]
        for pid in found:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        if found:
            return True
        time.sleep(0.02)
    return False


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def marked(mark: str) -> dict[int, str]:
    """The living processes of a round, with their command lines."""
    found, wanted = {}, f"{MARK}={mark}".encode()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
                    if state not in {"Z", "X"}:
                        found[int(name)] = (
                            _command_line(int(name)).replace(b"\0", b" ").decode(errors="replace")
                        )
            except OSError:
                continue
    return found


def check_processes(done: Round) -> None:
    """Everything that was started ends by itself, soon; what does not is ended here."""
    deadline = time.monotonic() + SECONDS_TO_END
    while (left := marked(done.mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(
        SECONDS_TO_LET_GO
    )  # a process that is ending cannot be seen some time before its locks are released
    for pid, command in left.items():
        done.note("orphans", f"{pid} {command[:200]}")
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def read(done: Round, name: str) -> Run | None:
    """A run file; None if there is none."""
    path = done.work / name
    if not path.exists():
        return None
    try:
        return decode_run(str(path), path.read_text()).run
    except (TorchstoneError, UnicodeDecodeError) as error:
        done.note("lost", f"{name} cannot be read: {error}")
        return None


def check_announced(done: Round) -> dict[str, Run]:
    """Whatever was announced is in the run files; gives these."""
    announced = re.findall(
        r"^\[ *(\d+)/\d+\] ", (done.folder / "killed.out").read_text(errors="replace"), re.MULTILINE
    )
    most = max(map(int, announced), default=0)
    found = {}
    for name in done.command.run_files:
        run = read(done, name)
        if run is not None:
            found[name] = run
        if len(run.outcomes if run else ()) < most:
            done.note(
                "lost", f"{most} outcomes were announced, {len(run.outcomes) if run else 'no file'} in {name}"
            )
    return found


def check_resumed(done: Round, found: dict[str, Run]) -> None:
    """The run is finished by --resume, with every planned case exactly once, and what was there stays."""
    for name, before in found.items():
        code = finish(done, ("run", "--resume", name), "resumed")
        after = read(done, name)
        if after is None or code not in {0, 1}:
            done.note("lost", f"--resume {name}: exit code {code}")
        elif not after.finished or after.outcomes[: len(before.outcomes)] != before.outcomes:
            done.note("lost", f"--resume {name} did not finish it, or lost what was there")
        elif Counter(each.case for each in after.outcomes) != Counter(before.plan):
            done.note("lost", f"--resume {name}: not every planned case has one outcome")


def check_leftovers(done: Round) -> None:
    """After the next start nothing is left but what was asked for."""
    left = [f"in TMPDIR: {path.name}" for path in done.temporary.iterdir()]
    left += [f"in the folder: {line}" for line in _git(done, "status", "--porcelain").splitlines()]
    left += [f"in the folder: {path.name}" for path in done.work.rglob("*.tmp")]
    left += [f"worktree: {line}" for line in _git(done, "worktree", "list").splitlines()[1:]]
    entries = done.work / ".git" / "worktrees"
    left += [f"entry: {path.name}" for path in entries.iterdir()] if entries.exists() else []
    left += [f"ref: {line}" for line in _git(done, "for-each-ref").splitlines()[1:]]
    for template in done.cache.iterdir() if done.cache.exists() else ():
        known = {"cache", "tmp", "torchstone-filled"}
        left += [f"in the template: {path.name}" for path in template.iterdir() if path.name not in known]
        temporary = template / "tmp"
        left += [
            f"in the template: tmp/{path.name}"
            for path in (temporary.iterdir() if temporary.exists() else ())
            if not path.name.startswith("torchinductor_")
        ]
    for what in left:
        done.note("leftovers", what)


def shared_memory() -> set[str]:
    """The names in POSIX shared memory."""
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()  # noqa: S108  (only looked at)


def next_start(done: Round, found: dict[str, Run]) -> None:
    """Start torchstone again, as a person would: to finish the run, else for something quick in the same place."""
    if done.command.is_resumable and found:
        check_resumed(done, found)
    elif done.command.is_resumable:
        if finish(done, ("list", "bench_kills.py"), "next"):
            done.note("other", "the next start failed")
    elif finish(done, ("ab", "bench_kills.py", "--a", "rev=HEAD", "--b", "python=/nowhere"), "next") != 2:
        done.note("other", "the next start did not end as it should")


def kill_once(done: Round, moment: float, target: str, number: signal.Signals) -> bool:
    """One round; False if the command had ended before it could be killed."""
    prepare(done)
    before = shared_memory()
    process = start(done, done.command.arguments, "killed")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    pids = {str(pid) for pid in marked(done.mark)}
    was_struck = strike(process, target, number)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        done.note("other", f"does not end within {PATIENCE:g} s of {done.blow}")
        process.kill()
        process.wait()
    check_processes(done)
    if "Traceback" in (done.folder / "killed.err").read_text(errors="replace") and moment > 1:
        done.note("other", "a traceback")
    next_start(done, check_announced(done))
    check_processes(done)
    check_leftovers(done)
    for name in shared_memory() - before:
        if pids & set(re.findall(r"\d+", name)):
            done.note("leftovers", f"in shared memory: {name}")
    return was_struck
