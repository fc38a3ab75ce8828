"""Kill commands at random moments, and see that nothing is lost and nothing is left behind.

    python benchmarks/kills.py                         # 300 rounds: one to two hours on two cores
    python benchmarks/kills.py --rounds 20 --only ab --seed 7
    python benchmarks/kills.py --jobs 12               # on a machine with as many cores

A round starts a command on tiny benchmarks, sends a signal at a random moment of its life to the command itself, to its keeper (the zygote), to a worker, or to
command and keeper together, and then looks: every outcome that was announced is in the run file, which can be read; no process is left; '--resume' finishes the run
with every planned case exactly once; and after the next start no scratch folder, worktree, entry in .git, template or other file is left. Each round has folders of its own for
its work and its temporary files; those of rounds in which something was wrong are kept. The exit code says whether all was well. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from torchstone.core.errors import TorchstoneError
from torchstone.core.records import Run
from torchstone.core.run_file import decode_run
from torchstone.worker.process_tree import list_children

MARK = "TORCHSTONE_KILLS_MARK"
ROUNDS = 300
PATIENCE = 300.0
SECONDS_TO_END = 15.0
SECONDS_TO_LET_GO = 0.5
FRESH_CACHES = 0.05
LONGEST_TAIL = 1500

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


_QUICK = ("--device", "cpu", "--threads", "1")
_RUN = ("run", "bench_kills.py", *_QUICK, "--jobs", "1", "-o", "run.jsonl")
_TIMED = (*_RUN, "--backend", "eager", "--repeat", "5", "--probe", "performance")
_SIDES = (
    "--a",
    "rev=HEAD~1",
    "--b",
    "rev=HEAD",
    "--output-a",
    "a.jsonl",
    "--output-b",
    "b.jsonl",
    "-o",
    "ab.html",
)
COMMANDS = (
    Command("run", (*_TIMED, "--csv", "tables")),
    Command("run-spawned", (*_TIMED, "--start", "spawn")),
    Command("trials", (*_TIMED, "--trials", "3", "-k", "0|1")),
    Command(
        "scaling",
        (*_RUN, "--probe", "scaling", "--ranks", "1,2", "--repeat", "5", "-k", "0", "--ddp-json", "ddp.json"),
    ),
    Command("compile-cache", (*_RUN, "--probe", "compile_cache", "-k", "0|1")),
    Command(
        "cachebench",
        (
            *("cachebench", "--benchmark", "huggingface", "-m", "BertForMaskedLM", "--mode", "inference"),
            *("--size", "small", "--device", "cpu", "--threads", "1", "--output", "cache.json"),
        ),
        ("cache.jsonl",),
    ),
    Command(
        "ab",
        ("ab", "bench_kills.py", *_QUICK, "--backend", "eager", "--budget", "10s", "-k", "0|1", *_SIDES),
        ("a.jsonl", "b.jsonl"),
        is_resumable=False,
    ),
)

BLOWS = (
    ("INT", "parent", signal.SIGINT),
    ("TERM", "parent", signal.SIGTERM),
    ("HUP", "parent", signal.SIGHUP),
    ("KILL", "parent", signal.SIGKILL),
    ("KILL keeper", "keeper", signal.SIGKILL),
    ("KILL worker", "worker", signal.SIGKILL),
    ("KILL both", "both", signal.SIGKILL),
)
"""How often each comes up is in _WEIGHTS."""
_WEIGHTS = (3, 3, 3, 6, 2, 2, 3)


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


def rehearse(command: Command, base: Path, cache: Path) -> float:
    """How long a command takes if nobody kills it."""
    done = Round(command, "", base / f"rehearsal-{command.name}", cache)
    prepare(done)
    began = time.monotonic()
    code = finish(done, command.arguments, "killed")
    seconds = time.monotonic() - began
    if code not in {0, 1} or len(check_announced(done)) < len(command.run_files) or done.problems:
        tail = (done.folder / "killed.err").read_text(errors="replace")[-LONGEST_TAIL:]
        sys.exit(f"{command.name} fails without being killed (exit code {code}): {done.problems}\n{tail}")
    shutil.rmtree(done.folder)
    print(f"{command.name}: {seconds:.1f} s if nobody kills it", flush=True)
    return seconds


def report(rounds: list[tuple[Round, bool]]) -> bool:
    """The table, and what was wrong; gives whether nothing was."""
    kinds = ("lost", "orphans", "leftovers", "other")
    print(f"\n| command | signal | kills | {' | '.join(kinds)} |")
    print("|---|---|---|---|---|---|---|")
    places = sorted({(each.command.name, each.blow) for each, _ in rounds})
    for place in [*places, ("all", "all")]:
        here = [each for each in rounds if place in {(each[0].command.name, each[0].blow), ("all", "all")}]
        wrong = Counter(kind for each, _ in here for kind in {kind for kind, _ in each.problems})
        kills = sum(was_struck for _, was_struck in here)
        print(f"| {place[0]} | {place[1]} | {kills} | {' | '.join(str(wrong[kind]) for kind in kinds)} |")
    for each, _ in rounds:
        for kind, what in each.problems:
            print(f"{each.folder}: {each.command.name}, {each.blow}: {kind}: {what}")
    return not any(each.problems for each, _ in rounds)


def choose(names: list[str]) -> list[Command]:
    """The commands of these names; all if none is named."""
    if unknown := set(names) - {each.name for each in COMMANDS}:
        sys.exit(f"--only {unknown.pop()}: expected one of {', '.join(each.name for each in COMMANDS)}")
    return [each for each in COMMANDS if not names or each.name in names]


@dataclass(frozen=True)
class Plan:
    """What is to happen in a round: which command is struck how, when, and whether its caches are empty."""

    number: int
    command: Command
    blow: tuple[str, str, signal.Signals]
    moment: float
    is_fresh: bool


def draw(number: int, commands: Sequence[Command], lifetimes: Sequence[float], chance: random.Random) -> Plan:
    """A round at random; commands take turns."""
    at = number % len(commands)
    (blow,) = chance.choices(BLOWS, _WEIGHTS)
    return Plan(number, commands[at], blow, chance.uniform(0, lifetimes[at]), chance.random() < FRESH_CACHES)


def carry_out(plan: Plan, base: Path, cache: Path) -> tuple[Round, bool]:
    """One round; prints a line that says how it went."""
    name, target, sent = plan.blow
    folder = base / f"round-{plan.number}"
    done = Round(plan.command, name, folder, folder / "cache" if plan.is_fresh else cache)
    began = time.monotonic()
    was_struck = kill_once(done, plan.moment, target, sent)
    told = "; ".join(f"{kind}: {what}" for kind, what in done.problems) or "well"
    when = f"{plan.moment:.1f} s" if was_struck else "too late"
    fresh = ", fresh cache" if plan.is_fresh else ""
    took = time.monotonic() - began
    print(f"{plan.number} {plan.command.name} {name} ({when}{fresh}, {took:.0f} s): {told}", flush=True)
    if not done.problems:
        shutil.rmtree(folder)
    return done, was_struck


def play(asked: argparse.Namespace, base: Path, chance: random.Random) -> list[tuple[Round, bool]]:
    """All rounds, as many at a time as asked for; lifetimes are measured with as many at a time, too."""
    cache = base / "cache"
    commands = choose(asked.only)
    rehearse(COMMANDS[0], base, cache)  # which fills the template
    with ThreadPoolExecutor(asked.jobs) as pool:
        lifetimes = list(pool.map(lambda command: rehearse(command, base, cache), commands))
        until = time.monotonic() + 60 * asked.minutes if asked.minutes else float("inf")

        def carry_out_in_time(plan: Plan) -> tuple[Round, bool] | None:
            return carry_out(plan, base, cache) if time.monotonic() < until else None

        plans = [draw(number, commands, lifetimes, chance) for number in range(asked.rounds)]
        done = list(pool.map(carry_out_in_time, plans))
    rounds = [each for each in done if each is not None]
    if len(rounds) < asked.rounds:
        print(f"stopped after {len(rounds)} rounds: the time is over")
    return rounds


def main() -> None:
    """Kill as often as asked for; the exit code says whether anything was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        help=f"one of {', '.join(each.name for each in COMMANDS)}; repeatable",
    )
    parser.add_argument(
        "--minutes", type=float, default=0, help="start no round after so long; 0 is no limit"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many rounds at a time; one core each")
    asked = parser.parse_args()
    # What a shell starts in the background ignores Ctrl-C, and so would everything that is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    base = Path(tempfile.mkdtemp(prefix="torchstone-kills-"))
    print(f"seed {asked.seed}, in {base}", flush=True)
    chance = random.Random(asked.seed)  # noqa: S311  (no secret)
    rounds = play(asked, base, chance)
    is_well = report(rounds)
    if is_well:
        shutil.rmtree(base)
    print("nothing was lost, nothing was left behind" if is_well else "not all is well")
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
