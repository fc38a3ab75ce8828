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
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kill_round import Command, Round, check_announced, finish, kill_once, prepare

ROUNDS = 300
FRESH_CACHES = 0.05
LONGEST_TAIL = 1500

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
