"""How often 'run --decide' is wrong on this machine, with one core kept busy by other work. Resumable, because it takes hours.

    python benchmarks/gate_noise.py --times 20              # unchanged code against a baseline of the same machine
    python benchmarks/gate_noise.py --times 20 --slowed     # the same, with real work added to one case
    python benchmarks/gate_noise.py --times 20 --slowed --parallel 7    # both, seven rounds at once, each bound to two cores of its own
    python benchmarks/gate_noise.py --times 1 --only mlp --within 40 --trials 3 --state DIR    # a short try

The first call measures the baseline, in several trials. Every round is a file in the state folder: call it again, with the same options, to continue where
it stopped, or to see the table. The exit code says whether everything is as wanted; it is 1 as long as rounds are missing.

With --parallel, each pair of cores is a small machine of its own: it has its own busy loop, and measures its own baseline, while the others measure theirs,
so that processor clocks and memory are shared in the same way as during the rounds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import msgspec
from run_suite import verdict

import torchstone
from torchstone.api.judging.check import CheckResult
from torchstone.core.vocabulary import Verdict
from torchstone.gate.defaults import DEFAULT_RULES

SUITE, DEVICE = "smoke", "cpu"
SLOWED = str(Path(__file__).with_name("slowed_bench.py"))
SLOWED_CASE = "slowed_mlp"
EXTRA_WORK = "GATE_NOISE_EXTRA"
LEAST_PASSED, MOST_RED, LEAST_CAUGHT = 0.9, 0.01, 0.95
SECONDS, TRIALS, TIMES = 240.0, 10, 20
BUDGET = 1.0  # seconds of timing in a trial of the baseline: as in the further trials of --decide
MARGIN = next(each.rule.ratio or 1.0 for each in DEFAULT_RULES if each.metric == "abs_latency") - 1
BUSY = ("pinned", "free", "none")
"""Other work: on one core only, on any one at a time, or none."""
CORES = 2
"""Cores of a slot."""


class Terms(msgspec.Struct, frozen=True):
    """How rounds are measured; the same in all rounds of a state folder."""

    within: float
    trials: int
    only: tuple[str, ...]
    busy: str
    parallel: int = 1


class Task(msgspec.Struct, frozen=True):
    """A round to measure."""

    part: str
    number: int


class RowVerdict(msgspec.Struct, frozen=True):
    """One decision."""

    case: str
    metric: str
    verdict: Verdict
    blocks: bool


class RoundRecord(msgspec.Struct, frozen=True):
    """One round: how the run ended, its verdicts, and those that ``check`` of its file gives otherwise."""

    exit_code: int
    seconds: float
    rows: tuple[RowVerdict, ...]
    otherwise: tuple[str, ...]

    def count(self, found: Verdict) -> int:
        """Return how many rows have a verdict."""
        return sum(row.verdict is found for row in self.rows)

    @property
    def is_caught(self) -> bool:
        """Return whether the slowed case is red."""
        return any(
            row.verdict is Verdict.REGRESSION and row.blocks and f"::{SLOWED_CASE}[" in row.case
            for row in self.rows
        )


def main() -> None:
    """Measure the rounds that are missing, and print the table."""
    given = parse()
    folder = Path(given.state)
    (folder / "rounds").mkdir(parents=True, exist_ok=True)
    terms = Terms(given.within, given.trials, tuple(given.only), given.busy, given.parallel)
    keep_terms(folder, terms)
    parts = ("same", "slowed") if given.slowed else ("same",)
    missing = [
        Task(part, number)
        for number in range(1, given.times + 1)
        for part in parts
        if not record_path(folder, Task(part, number)).exists()
    ]
    if missing and given.parallel == 1:
        work_through(folder, terms, 1, missing)
    elif missing:
        work_in_slots(folder, terms, missing)
    holds = [print_part(folder, part, given.times) for part in parts]
    sys.exit(not all(holds))


def work_in_slots(folder: Path, terms: Terms, missing: Sequence[Task]) -> None:
    """Measure rounds in several processes at once, each bound to its own cores."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < CORES * terms.parallel:
        sys.exit(f"--parallel {terms.parallel} takes {CORES * terms.parallel} cores; there are {len(cores)}")
    context = multiprocessing.get_context("spawn")
    tasks: SimpleQueue[Task | None] = context.SimpleQueue()
    slots = [
        context.Process(
            target=work_in_slot,
            args=(folder, terms, slot, set(cores[CORES * (slot - 1) : CORES * slot]), tasks),
        )
        for slot in range(1, terms.parallel + 1)
    ]
    for each in slots:
        each.start()
    for task in (*missing, *(None for _ in slots)):
        tasks.put(task)
    for each in slots:
        each.join()
    if failed := [number for number, each in enumerate(slots, 1) if each.exitcode]:
        say(f"slots that failed: {', '.join(map(str, failed))}; call again to measure what is missing")


def work_in_slot(
    folder: Path, terms: Terms, slot: int, cores: set[int], tasks: SimpleQueue[Task | None]
) -> None:
    """Measure rounds until none is left, on these cores only; the other work is there until then, too."""
    os.sched_setaffinity(0, cores)
    work_through(folder, terms, slot, iter(tasks.get, None))


def work_through(folder: Path, terms: Terms, slot: int, tasks: Iterable[Task]) -> None:
    """Measure the baselines of a slot, unless they are there, and then rounds."""
    with other_work(terms.busy):
        for task in tasks:
            baselines = measure_baselines(folder, terms, slot, task.part)
            measure_round(folder, task, terms, baselines)


def record_path(folder: Path, task: Task) -> Path:
    """Return where the verdicts of a round are written."""
    return folder / "rounds" / f"{task.part}-{task.number:02}.json"


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=TIMES, help="rounds")
    parser.add_argument(
        "--slowed", action="store_true", help="measure each round also with real work added to one case"
    )
    parser.add_argument("--state", default=".gate_noise", help="folder of baseline and rounds")
    parser.add_argument("--within", type=float, default=SECONDS, help="seconds of a run, as --decide-within")
    parser.add_argument("--trials", type=int, default=TRIALS, help="trials of the baseline")
    parser.add_argument("--only", action="append", default=[], help="only these cases of the suite")
    parser.add_argument(
        "--parallel", type=int, default=1, metavar="N", help=f"rounds at once, on {CORES} cores each"
    )
    parser.add_argument("--busy", choices=BUSY, default=BUSY[0], help="other work on one core")
    return parser.parse_args()


def keep_terms(folder: Path, terms: Terms) -> None:
    """Write down how rounds are measured; refuse to continue with other terms."""
    path = folder / "terms.json"
    if not path.exists():
        path.write_bytes(msgspec.json.encode(terms))
    before = msgspec.json.decode(path.read_bytes(), type=Terms)
    if before != terms:
        sys.exit(f"{folder} was begun with other options: {before}\nuse the same, or another --state")


@contextmanager
def other_work(kind: str) -> Iterator[None]:
    """Keep one core busy meanwhile."""
    if kind == "none":
        yield
        return
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        if kind == "pinned":
            os.sched_setaffinity(busy.pid, {max(os.sched_getaffinity(0))})
        yield
    finally:
        busy.kill()
        busy.wait()


def measure_baselines(folder: Path, terms: Terms, slot: int, part: str) -> list[Path]:
    """Return the baselines of a part, measured by this slot."""
    name = f"base-{slot}" if terms.parallel > 1 else "base"
    baselines = [folder / f"{name}.jsonl"]
    measure_baseline(baselines[0], [SUITE], terms, terms.only)
    if part == "slowed":
        baselines.append(folder / f"slowed-{name}.jsonl")
        measure_baseline(baselines[1], [SLOWED], terms)
    return baselines


def measure_baseline(path: Path, targets: Sequence[str], terms: Terms, only: Sequence[str] = ()) -> None:
    """Measure a baseline, or the rest of it."""
    if path.exists() and torchstone.read(path).run.finished:
        return
    say(f"measuring {path}: {terms.trials} trials")
    os.environ[EXTRA_WORK] = "0"
    if path.exists():
        torchstone.run(resume=path, trust=True)
        return
    torchstone.run(
        list(targets),
        probes=["performance"],
        devices=[DEVICE],
        threads=1,
        trials=terms.trials,
        budget=BUDGET,
        only=list(only),
        output=path,
    )


def measure_round(folder: Path, task: Task, terms: Terms, baselines: Sequence[Path]) -> None:
    """Measure one round; one that was interrupted starts again."""
    record = record_path(folder, task)
    path = record.with_suffix(".jsonl")
    path.unlink(missing_ok=True)
    began = time.monotonic()
    slowed = task.part == "slowed"
    os.environ[EXTRA_WORK] = f"{2 * MARGIN if slowed else 0:g}"
    result = torchstone.run(
        [SUITE, *([SLOWED] if slowed else [])],
        probes=["performance"],
        devices=[DEVICE],
        threads=1,
        only=[*terms.only, *([SLOWED_CASE] if slowed and terms.only else [])],
        baselines=baselines,
        decide=True,
        decide_within=terms.within,
        output=path,
    )
    if result.check is None:
        raise RuntimeError("the run was not judged")
    found, again = rows_of(result.check), rows_of(torchstone.check(path, baselines=baselines))
    otherwise = tuple(
        f"{row.case} {row.metric}" for row in (*found, *again) if (row in found) != (row in again)
    )
    done = RoundRecord(result.exit_code, round(time.monotonic() - began, 1), found, otherwise)
    written = record.with_suffix(".part")
    written.write_bytes(msgspec.json.encode(done))
    written.rename(record)
    say(f"{task.part} {task.number}: exit code {done.exit_code}, {describe(done)}, {done.seconds:.0f} s")


def rows_of(judged: CheckResult) -> tuple[RowVerdict, ...]:
    """Return all verdicts of a check."""
    return tuple(RowVerdict(row.case.id, row.metric, row.verdict, row.blocks) for row in judged.rows)


def describe(done: RoundRecord) -> str:
    """Return the verdicts of a round in words."""
    red = [
        f"{row.case.partition('[')[0]} {row.metric}" for row in done.rows if row.verdict is Verdict.REGRESSION
    ]
    undecided = done.count(Verdict.INCONCLUSIVE)
    named = f" ({', '.join(red)})" if red else ""
    return f"{len(red)} of {len(done.rows)} rows red{named}, {undecided} undecided"


def print_part(folder: Path, part: str, times: int) -> bool:
    """Print the table of all rounds of a part, and whether it is as wanted; ``times`` is how many there should be."""
    paths = sorted((folder / "rounds").glob(f"{part}-*.json"))
    rounds = [msgspec.json.decode(path.read_bytes(), type=RoundRecord) for path in paths]
    if not rounds:
        return not times
    print(f"\n{part}: {len(rounds)} rounds")
    print("| round | exit code | rows | red | improved | undecided | check says otherwise | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for path, each in zip(paths, rounds, strict=True):
        numbers = [
            each.count(kind) for kind in (Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.INCONCLUSIVE)
        ]
        cells = (
            path.stem,
            each.exit_code,
            len(each.rows),
            *numbers,
            len(each.otherwise),
            f"{each.seconds:.0f}",
        )
        print("| " + " | ".join(map(str, cells)) + " |")
    agree = not any(each.otherwise for each in rounds)
    holds = judged("check of the run file says the same", "always", agree) and len(rounds) >= times
    return holds & (judge_slowed(rounds) if part == "slowed" else judge_same(rounds))


def judge_same(rounds: Sequence[RoundRecord]) -> bool:
    """Print how often unchanged code was red."""
    passed = sum(each.exit_code == 0 for each in rounds)
    rows, red = sum(len(each.rows) for each in rounds), sum(each.count(Verdict.REGRESSION) for each in rounds)
    undecided = sum(each.count(Verdict.INCONCLUSIVE) for each in rounds)
    print(f"undecided: {undecided} of {rows} rows")
    holds = judged(
        f"exit code 0: {passed} of {len(rounds)}",
        f"at least {LEAST_PASSED:.0%}",
        passed >= LEAST_PASSED * len(rounds),
    )
    return holds & judged(
        f"red: {red} of {rows} rows", f"at most {MOST_RED:.0%}", red <= MOST_RED * max(1, rows)
    )


def judge_slowed(rounds: Sequence[RoundRecord]) -> bool:
    """Print how often the slow-down was caught."""
    caught = sum(each.is_caught for each in rounds)
    told = f"{2 * MARGIN:.0%} more work is red: {caught} of {len(rounds)}"
    return judged(told, f"at least {LEAST_CAUGHT:.0%}", caught >= LEAST_CAUGHT * len(rounds))


def judged(found: str, wanted: str, holds: bool) -> bool:
    """Print what was found beside what was wanted."""
    print(f"{found} (wanted: {wanted}): {verdict(holds)}")
    return holds


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
