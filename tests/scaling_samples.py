"""Runs of the scaling probe as `torchstone run --probe scaling` writes them, without training anything.

`python tests/scaling_samples.py FOLDER` writes them as files, to look at the page they make.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from stated_facts import with_facts
from torchstone.analyze.scaling_curves import percentile
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Revision, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import environment_from

STRAGGLER = "rank 3 on b: its own work takes 34% longer than that of the median rank"
LOST = "rank 2 on b: no answer for 60 s in all_reduce; the link to b is gone"
ENVIRONMENT: dict[str, Any] = {
    "machine": {"cpu": "AMD EPYC 7763 64-Core Processor", "cores": 8},
    "software": {"python": "3.11.7", "torch": "2.13.0"},
    "fingerprint": "b1946ac92492d2347c6235b4d2611184",
}


def round_case(
    benchmark: str,
    strategy: str,
    ranks: int,
    *,
    bucket: str = "25",
    collective: str = "gloo",
    batch_size: int = 32,
    dtype: str = "float32",
) -> Case:
    further = {"ranks": str(ranks), "strategy": strategy}
    if strategy != "none":
        further["collective"] = collective
    if strategy == "ddp":
        further["bucket_mb"] = bucket
    variant = Variant("cpu", "none", "training", dtype, None, batch_size, tuple(sorted(further.items())))
    return Case(benchmark, "scaling", "scaling", variant)


def times_of(
    seconds: float, ranks: int, trials: int = 1, iterations: int = 20, noise: float = 0.01, seed: int = 1
) -> Measurement:
    """Samples of all ranks, one rank after another, trial by trial; ranks go in step, and each trial has a level of its own."""
    chance = random.Random(f"{seconds} {ranks} {seed}")  # noqa: S311
    samples: list[float] = []
    for _ in range(trials):
        level = seconds * (chance.lognormvariate(0, noise) if trials > 1 else 1)
        steps = [level * chance.lognormvariate(0, noise) for _ in range(iterations)]
        samples += [round(step * (1 + 0.0001 * rank), 7) for rank in range(ranks) for step in steps]
    sizes = (iterations * ranks,) * trials if trials > 1 else ()
    details = MeasurementDetails(ranks=(iterations,) * ranks * trials, trials=sizes)
    return Measurement("iteration_time", tuple(samples), details)


def round_passed(
    case: Case,
    times: Measurement,
    *,
    smallest: float | None = None,
    communication: float | None = None,
    stragglers: tuple[str, ...] = (),
) -> Outcome:
    """A round with all that follows from its times; ``smallest`` is the examples per second and rank of the smallest round."""
    ranks = int(dict(case.variant.further)["ranks"])
    size = (case.variant.batch_size or 0) * ranks
    measured = [times]
    rate = size / times.value
    for level in (75, 90, 95):
        slow = percentile([float(sample) for sample in times.samples], level)
        measured.append(Measurement(f"iteration_time_p{level}", (slow,)))
        measured.append(Measurement(f"examples_per_second_p{level}", (size / slow,)))
    measured.append(Measurement("examples_per_second", (rate,)))
    if smallest is not None:
        measured.append(Measurement("scaling_efficiency", (100 * rate / ranks / smallest,)))
    if communication is not None and ranks > 1:
        measured.append(Measurement("communication_share", (communication,)))
        measured.append(Measurement("rank_spread", (34.0 if stragglers else 2.5,)))
    measured.append(Measurement("peak_memory", tuple(0.31 + 0.01 * rank for rank in range(ranks))))
    extra: dict[str, Any] = {
        "ranks": [
            {
                "rank": rank,
                "host": "a" if rank < 2 else "b",
                "local_rank": rank % 2,
                "device": "cpu",
                "median": times.value,
                "own": times.value * (1 - (communication or 0) / 100),
                "communication": communication,
                "peak": 0.31 + 0.01 * rank,
            }
            for rank in range(ranks)
        ],
        "round": {"warm_up": 5, "iterations": 20, "hosts": ["a", "b"][: 1 + (ranks > 2)]},
        "duration": 9.5,
        "phases": {"load": 3.2, "run": 6.0},
    }
    if stragglers:
        extra["stragglers"] = list(stragglers)
    repro = f"torchstone run scaling --only '{case.id}'"
    return with_facts(Outcome(case, "pass", tuple(measured), repro=repro), extra)


def round_failed(case: Case, status: str = "timeout", message: str = LOST) -> Outcome:
    return with_facts(Outcome(case, status, (), Failure("run", message)), {"duration": 61.0})


def run_of_rounds(*outcomes: Outcome, name: str = "scaling") -> Run:
    plan = tuple(outcome.case for outcome in outcomes)
    return Run(
        name,
        plan,
        outcomes,
        Revision("9f8e7d6c5b4a39281706f5e4d3c2b1a098765432", "main"),
        environment_from(ENVIRONMENT),
    )


def sweep_of(
    benchmark: str,
    seconds: dict[tuple[str, int], float],
    *,
    batch_size: int = 32,
    talk: float = 11.0,
    slow: tuple[tuple[str, int], ...] = (),
) -> list[Outcome]:
    """Rounds of one benchmark, by strategy and ranks; the first is the smallest. 0 seconds stand for a round that failed."""
    outcomes, smallest = [], None
    for (strategy, ranks), level in seconds.items():
        case = round_case(benchmark, strategy, ranks, batch_size=batch_size)
        if not level:
            outcomes.append(round_failed(case))
            continue
        times = times_of(level, ranks)
        smallest = smallest or batch_size / times.value
        stragglers = (STRAGGLER,) if (strategy, ranks) in slow else ()
        outcomes.append(
            round_passed(
                case, times, smallest=smallest, communication=talk * (ranks - 1), stragglers=stragglers
            )
        )
    return outcomes


def bucket_rounds(
    benchmark: str,
    seconds: dict[str, float],
    *,
    ranks: int = 2,
    trials: int = 1,
    iterations: int = 20,
    noise: float = 0.01,
) -> list[Outcome]:
    """DDP on some ranks with one bucket size after another; 0 seconds stand for a round that failed."""
    outcomes = []
    for bucket, level in seconds.items():
        case = round_case(benchmark, "ddp", ranks, bucket=bucket)
        if not level:
            outcomes.append(round_failed(case))
            continue
        times = times_of(level, ranks, trials, iterations, noise, seed=int(float(bucket)))
        outcomes.append(round_passed(case, times, communication=22.0))
    return outcomes


MLP = {
    ("none", 1): 0.0251,
    ("ddp", 1): 0.0262,
    ("ddp", 2): 0.0290,
    ("ddp", 4): 0.0344,
    ("ddp", 8): 0.0432,
    ("fsdp", 2): 0.0351,
    ("fsdp", 4): 0.0421,
    ("fsdp", 8): 0.0,
}
CONVNET = {("none", 1): 0.182, ("ddp", 1): 0.184, ("ddp", 2): 0.191, ("ddp", 4): 0.199}


def scaling_run() -> Run:
    """Two benchmarks on one to eight ranks, one round of which failed; and a sweep of bucket sizes."""
    return run_of_rounds(
        *sweep_of("mlp", MLP, slow=(("ddp", 4),)),
        *sweep_of("convnet", CONVNET, batch_size=16, talk=3.0),
        *bucket_rounds("transformer", {"1": 0.061, "5": 0.0534, "25": 0.0512, "50": 0.0513}, trials=3),
    )


def base_run() -> Run:
    """The same, as it was before: slower on many ranks."""
    mlp = {key: level * (1 + 0.05 * (key[1] - 1)) for key, level in MLP.items()}
    return run_of_rounds(
        *sweep_of("mlp", mlp | {("fsdp", 8): 0.0900}),
        *sweep_of("convnet", CONVNET, batch_size=64, talk=3.0),
        name="before",
    )


def ddp_report() -> str:
    """What the original's benchmark writes, of the first benchmark on fewer ranks."""
    rounds = [("none", 1, 0.0255), ("ddp", 1, 0.0266), ("ddp", 2, 0.0312), ("ddp", 4, 0.0401)]
    result = [
        {"ranks": list(range(ranks)), "measurements": [float(s) for s in times_of(level, ranks).samples]}
        for _, ranks, level in rounds
    ]
    head = {"pytorch_version": "2.13.0", "cuda_version": "12.8", "distributed_backend": "nccl"}
    model = {"model": "mlp", "batch_size": 32, "result": result}
    return json.dumps({**head, "benchmark_results": [model]}) + "\n"


def main(folder: Path) -> None:
    """Write all samples."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scaling.jsonl").write_text(encode_run(scaling_run()), encoding="utf-8")
    (folder / "before.jsonl").write_text(encode_run(base_run()), encoding="utf-8")
    (folder / "ddp.json").write_text(ddp_report(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
