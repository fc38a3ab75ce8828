"""What is wanted of torchstone on a GPU, measured in short steps that can be resumed, and printed beside what was measured.

    PYTHONPATH=src python benchmarks/gpu_acceptance.py                  # steps that are missing, as many as fit into 8 minutes; then all numbers
    PYTHONPATH=src python benchmarks/gpu_acceptance.py pairs --limit 300 # only the steps of one part
    PYTHONPATH=src python benchmarks/gpu_acceptance.py summary           # only the numbers, from what has been measured

Needs a checkout, torch with an accelerator, and transformers; nothing is installed. Repeat the first command until it
no longer asks for that: about 25 minutes on an H200 in all. Every step that has ended is kept in acceptance.jsonl, beside the run files, in --results; delete
its lines to measure steps again. With --device cpu --size small the same steps run on a CPU, to try this script; then there are no device times.

The exit code is 0 if everything is as wanted, 1 if not, 3 if steps are missing.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
from acceptance_numbers import (
    COLD_MODELS,
    PAIR_MODELS,
    PRESET_LATENCIES,
    PROCESSES,
    SPEEDUP_MODELS,
    Step,
    summarise,
)
from device_time import busy_cores
from run_suite import Silent

from torchstone.api.measuring.ab_request import SelftestRequest, prepare_pairs
from torchstone.core.run_file import decode_run
from torchstone.measure.ab.contest import AbSettings
from torchstone.measure.ab.self_comparison import compare_with_itself
from torchstone.measure.ab.side_spec import SideSpec
from torchstone.measure.ab.sides import Side, open_sides
from torchstone.measure.supervisor import WorkerLimits

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = "summary"
RECORDS = "acceptance.jsonl"
SLOWED = 10  # comparisons with more work
SLOW_DOWN = 0.05
BUDGET_OF_A_PAIR = 60.0
TIMEOUT = 300.0  # seconds of one worker
GUESSES = {"speedups": 75.0, "preset": 90.0, "cold": 130.0, "explain": 60.0, "pairs": BUDGET_OF_A_PAIR}
"""Seconds of a step of each part, until one has been measured."""
SHOWN = ".device_speedup"
PREPARING = 30.0  # seconds until the first pair


class OutOfTimeError(Exception):
    """The next step would probably exceed the limit."""


class Acceptance:
    """The steps of one call of this script, their results, and the time that is left."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder: Path = options.results
        self.folder.mkdir(parents=True, exist_ok=True)
        self._end = time.monotonic() + options.limit
        records = self.folder / RECORDS
        self.steps = read_steps(records)
        self._is_torn = records.exists() and not records.read_bytes().endswith(b"\n")

    @property
    def left(self) -> float:
        """The seconds until the limit."""
        return float(self._end - time.monotonic())

    def done(self, part: str, name: str = "") -> list[Step]:
        """Return the steps of a part that have ended."""
        return [each for each in self.steps if each.part == part and name in {"", each.name}]

    def begin(self, part: str, name: str = "", number: int = 0, more: float = 0.0) -> None:
        """Say what begins; raise OutOfTimeError if it will hardly end in time. ``more`` seconds are needed besides the usual ones."""
        known = [each.seconds for each in self.done(part, name)]
        usual = max(known[-3:], default=GUESSES[part]) + more
        what = " ".join(filter(None, (part, name, str(number or ""))))
        if usual > self.left:
            raise OutOfTimeError(f"{what} takes about {usual:.0f} s; {max(0.0, self.left):.0f} s are left")
        print(f"{what} ...", flush=True)

    def keep(self, step: Step) -> None:
        """Write a step to disk, and show it."""
        self.steps.append(step)
        with (self.folder / RECORDS).open("ab") as file:
            file.write(b"\n" * self._is_torn + msgspec.json.encode(step) + b"\n")
        self._is_torn = False
        told = ", ".join(f"{name} {value:.4g}" for name, value in step.values.items())
        print(
            f"  {step.seconds:.0f} s{': ' if told or step.text else ''}{step.text} {told}".rstrip(),
            flush=True,
        )

    def run_file(self, name: str) -> Path:
        """Return the path of a run file; one that an interrupted step left there is removed."""
        path = self.folder / f"{self.options.label}-{name}.jsonl"
        path.unlink(missing_ok=True)
        return path

    def call(self, *command: str) -> tuple[str, float]:
        """Run a command of torchstone; return what it prints, and its seconds. End with its message if it fails."""
        began = time.monotonic()
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "torchstone", *command],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
                timeout=max(1.0, self.left),
            )
        except subprocess.TimeoutExpired as error:
            raise OutOfTimeError(f"torchstone {' '.join(command)} did not end in time") from error
        if ran.returncode:
            sys.exit(
                f"torchstone {' '.join(command)}: exit code {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
            )
        return ran.stdout, time.monotonic() - began

    @property
    def axes(self) -> list[str]:
        """The options of ``torchstone run`` that all steps share."""
        given = self.options
        return ["--device", given.device, "--dtype", given.dtype, "--size", given.size, "--mode", "inference"]


def read_steps(path: Path) -> list[Step]:
    """Return the steps of earlier calls; a line that was cut off by the end of a machine is left out."""
    steps = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            steps.append(msgspec.json.decode(line, type=Step))
        except msgspec.DecodeError:
            print(f"{path}: a line that cannot be read is left out")
    return steps


def measure_speedups(acceptance: Acceptance) -> None:
    """Measure the device speedups of three models in fresh processes, half of them with every core kept busy."""
    options = acceptance.options
    for condition in ("warm-up", "quiet", "busy"):
        wanted = 1 if condition == "warm-up" else PROCESSES // 2
        with busy_cores((os.cpu_count() or 1) if condition == "busy" else 0):
            for number in range(len(acceptance.done("speedups", condition)), wanted):
                acceptance.begin("speedups", condition, number + 1)
                began = time.monotonic()
                command = [str(ROOT / "benchmarks" / "device_time.py"), "--one", *SPEEDUP_MODELS]
                command += ["--device", options.device, "--dtype", options.dtype, "--size", options.size]
                command += ["--budget", str(options.budget)]
                values, intervals = read_models(run_script(command, acceptance.left))
                seconds = time.monotonic() - began
                acceptance.keep(Step("speedups", condition, seconds, values, intervals))


def run_script(command: list[str], limit: float) -> list[dict[str, object]]:
    """Return the JSON lines that a script prints."""
    try:
        ran = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False, timeout=max(1.0, limit)
        )
    except subprocess.TimeoutExpired as error:
        raise OutOfTimeError(f"{command[0]} did not end in time") from error
    if ran.returncode:
        sys.exit(f"{command[0]}: exit code {ran.returncode}\n{ran.stdout[-1000:]}\n{ran.stderr[-4000:]}")
    return [msgspec.json.decode(line) for line in ran.stdout.splitlines() if line.startswith("{")]


def read_models(
    found: Iterable[dict[str, object]],
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Return values and intervals by ``MODEL.METRIC``."""
    values: dict[str, float] = {}
    intervals: dict[str, tuple[float, float]] = {}
    for each in found:
        model = str(each["model"])
        numbers = msgspec.convert(each["values"], dict[str, float])
        limits = msgspec.convert(each["intervals"], dict[str, tuple[float, float]])
        values |= {f"{model}.{metric}": value for metric, value in numbers.items()}
        intervals |= {f"{model}.{metric}": limit for metric, limit in limits.items()}
    return values, intervals


def measure_preset(acceptance: Acceptance) -> None:
    """Measure two models as PyTorch's dashboard does."""
    if acceptance.done("preset"):
        return
    acceptance.begin("preset")
    path = acceptance.run_file("preset")
    only = [part for model in PRESET_LATENCIES for part in ("--only", model)]
    command = ("run", "huggingface", *only, "--probe", "performance", "--preset", "dashboard")
    _, seconds = acceptance.call(*command, *acceptance.axes, "-o", str(path))
    acceptance.keep(Step("preset", "", seconds, read_metric(path, "abs_latency")))


def measure_cold(acceptance: Acceptance) -> None:
    """Measure five models from cold caches with default options, and the time that this takes."""
    if acceptance.done("cold"):
        return
    acceptance.begin("cold")
    path = acceptance.run_file("cold")
    only = [part for model in COLD_MODELS for part in ("--only", model)]
    _, seconds = acceptance.call(
        "run", "huggingface", *only, "--probe", "performance", *acceptance.axes, "-o", str(path)
    )
    acceptance.keep(Step("cold", "", seconds, read_metric(path, "device_speedup")))


def explain_attention(acceptance: Acceptance) -> None:
    """Let ``explain`` say where the time of BertForMaskedLM goes."""
    if acceptance.done("explain"):
        return
    acceptance.begin("explain")
    path = acceptance.run_file("profile")
    model = "BertForMaskedLM"
    command = ("run", "huggingface", "--only", model, "--probe", "performance", "--profile")
    _, seconds = acceptance.call(*command, *acceptance.axes, "-o", str(path))
    told, more = acceptance.call("explain", str(path), model, "--format", "json")
    (case,) = msgspec.json.decode(told)["cases"]
    text = " ".join(hint["text"] for hint in case["hints"])
    acceptance.keep(Step("explain", "", seconds + more, text=text))


def read_metric(path: Path, metric: str) -> dict[str, float]:
    """Return the values of a metric in a run file, by case."""
    return {
        outcome.case.name: float(each.value)
        for outcome in decode_run(str(path), path.read_text()).run.outcomes
        for each in outcome.measurements
        if each.metric == metric and isinstance(each.value, int | float)
    }


def compare_pairs(acceptance: Acceptance) -> None:
    """Compare four models with themselves, and with more work of the device on one side."""
    same = {each.text for each in acceptance.done("pairs", "same")}
    if missing := [model for model in PAIR_MODELS if model not in same]:
        with open_pairs(acceptance, missing) as sides:
            compare(acceptance, sides, 0.0, len(missing))
    if (left := SLOWED - len(acceptance.done("pairs", "slower"))) > 0:
        with open_pairs(acceptance, PAIR_MODELS) as sides:
            compare(acceptance, sides, SLOW_DOWN, left)


@contextmanager
def open_pairs(acceptance: Acceptance, models: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    """Load torch for two identical sides with these models."""
    acceptance.begin("pairs", more=PREPARING)
    given = acceptance.options
    request = SelftestRequest(
        targets=("huggingface",),
        only=tuple(models),
        devices=(given.device,),
        dtypes=(given.dtype,),
        size=given.size,
    )
    specs = (SideSpec(), SideSpec())
    with open_sides(specs, prepare_pairs(request, specs), print) as sides:
        for side in sides:
            side.load()
        yield sides


def compare(acceptance: Acceptance, sides: tuple[Side, Side], share: float, comparisons: int) -> None:
    """Compare the models of both sides in turn, with this share of more work on one side."""
    name = "slower" if share else "same"
    terms = AbSettings(budget=acceptance.options.pair_budget, seed=len(acceptance.steps))
    rounds = compare_with_itself(sides, terms, [share], comparisons, WorkerLimits(TIMEOUT), Silent())
    with closing(rounds):
        for number in range(comparisons):
            acceptance.begin("pairs", name, number + 1)
            each = next(rounds)
            values = {"pairs": float(each.pairs)} | ({"ratio": each.ratio} if each.ratio else {})
            known = each.low is not None and each.high is not None and each.high < math.inf
            intervals = {"ratio": (each.low or 0.0, each.high or 0.0)} if known else {}
            model = each.case.partition("[")[0].rpartition("::")[2].strip()
            acceptance.keep(Step("pairs", name, each.seconds, values, intervals, model, each.verdict))


PARTS: dict[str, Callable[[Acceptance], None]] = {
    "speedups": measure_speedups,
    "preset": measure_preset,
    "cold": measure_cold,
    "explain": explain_attention,
    "pairs": compare_pairs,
}


def main() -> None:
    """Do the steps that are missing, and print all numbers."""
    options = parse_options()
    acceptance = Acceptance(options)
    stopped = []
    for part in options.parts or PARTS:
        try:
            if part != SUMMARY:
                PARTS[part](acceptance)
        except OutOfTimeError as error:
            stopped.append(str(error))
    print()
    judged = list(summarise(acceptance.steps, SLOWED))
    for line in judged:
        print(line)
    if stopped:
        print("\n" + "\n".join(stopped) + "\nrun this again to go on")
    known = [each.holds for each in judged]
    sys.exit(1 if False in known else 3 if None in known else 0)


def parse_options() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join([*PARTS, SUMMARY])}")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", metavar="FOLDER")
    parser.add_argument("--label", default="h200-acceptance", help="how the names of run files begin")
    parser.add_argument("--limit", type=float, default=480.0, help="seconds that this call may take")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--size", default="full", choices=("full", "small"))
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of timing a model in 'speedups'")
    parser.add_argument("--pair-budget", type=float, default=BUDGET_OF_A_PAIR, help="seconds a comparison")
    options = parser.parse_args()
    if unknown := set(options.parts) - {*PARTS, SUMMARY}:
        parser.error(f"there is no part {sorted(unknown)[0]}: choose from {', '.join([*PARTS, SUMMARY])}")
    return options


if __name__ == "__main__":
    main()
