"""Write a history of nightly run files with known steps: for trying the dashboard, and for its tests.

    python benchmarks/nights.py FOLDER --nights 120
    torchstone record FOLDER --store history.db

The same seed writes the same files. Two suites are measured on an H200, one on a processor. In it: a regression of BertForMaskedLM at 60% of the
nights, an improvement of resnet50 at 40%, a new driver at half, a case that fails now and then, one that is gone after 70%, and nights without data.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Revision, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import environment_from

HUGGINGFACE = (
    "AlbertForMaskedLM",
    "BartForCausalLM",
    "BertForMaskedLM",
    "DistillGPT2",
    "ElectraForCausalLM",
    "GPT2ForSequenceClassification",
    "MBartForCausalLM",
    "OPTForCausalLM",
    "RobertaForCausalLM",
    "T5Small",
)
TIMM = ("resnet50", "convnext_base", "mobilenetv3_large_100", "swin_base_patch4_window7_224", "vit_base")
SMOKE = ("mlp", "convnet", "attention")
FIRST = date(2026, 1, 1)
TRIALS = 5


def make_nights(nights: int, seed: int = 1) -> Iterator[Run]:
    """Yield the runs of so many nights: three a night, none on nights that were lost."""
    chance = random.Random(seed)  # noqa: S311  (noise, not secrets)
    for night in range(nights):
        if 0.8 < night / nights < 0.83:
            continue
        for suite, names, device in (
            ("huggingface", HUGGINGFACE, "cuda"),
            ("timm", TIMM, "cuda"),
            ("smoke", SMOKE, "cpu"),
        ):
            yield _make_run(night, nights, suite, names, device, chance)


def _make_run(
    night: int, nights: int, suite: str, names: tuple[str, ...], device: str, chance: random.Random
) -> Run:
    share, day = night / nights, FIRST + timedelta(days=night)
    commit = hashlib.sha1(f"night {night}".encode(), usedforsecurity=False).hexdigest()
    outcomes = [
        _make_outcome(name, Variant(device, "inductor", mode, "bfloat16"), suite, share, chance)
        for name in names
        for mode in ("inference", "training")
        if not (name == "T5Small" and share > 0.7)
    ]
    environment = {
        "machine": {"cpu": {"model": "AMD EPYC 9654"}},
        "versions": {"torch": f"2.14.0.dev{day:%Y%m%d}"},
        **({"accelerators": [_accelerator(share)]} if device == "cuda" else {}),
    }
    return Run(
        f"{day:%Y%m%d}T0{names is SMOKE:d}0000-{suite[:4]}{night:04x}",
        tuple(each.case for each in outcomes),
        tuple(outcomes),
        Revision(commit, "main", False),
        environment_from(environment),
    )


def _accelerator(share: float) -> dict[str, str]:
    return {"name": "NVIDIA H200", "driver": "570.86" if share < 0.5 else "580.12"}


def _make_outcome(name: str, variant: Variant, suite: str, share: float, chance: random.Random) -> Outcome:
    case = Case(name, "performance", suite, variant)
    if name == "MBartForCausalLM" and chance.random() < 0.12:
        failure = Failure("compile", "RuntimeError: Triton Error [CUDA]: out of memory")
        return Outcome(case, "OOM", (), failure)
    level = 20.0 + 7 * (sum(name.encode()) % 11)
    eager = level * (1.5 + sum(name.encode()) % 5 / 10)
    level *= 1.08 if name == "BertForMaskedLM" and share >= 0.6 else 1.0
    level *= 0.90 if name == "resnet50" and share >= 0.4 else 1.0
    night_noise = math.exp(chance.gauss(0, 0.006))
    latency = [level * night_noise * math.exp(chance.gauss(0, 0.004)) for _ in range(TRIALS)]
    measured = (
        _measured("abs_latency", latency),
        _measured("speedup", [eager / each for each in latency]),
        _measured("compile_seconds", [25 + 0.2 * level * math.exp(chance.gauss(0, 0.03))]),
        _measured("dynamo_peak_mem", [round(1 + level / 10, 3)]),
        Measurement("graph_breaks", (sum(name.encode()) % 3,)),
    )
    return Outcome(case, "pass", measured)


def _measured(metric: str, values: list[float]) -> Measurement:
    details = MeasurementDetails(trials=(1,) * len(values)) if len(values) > 1 else None
    return Measurement(metric, tuple(values), details)


def write_nights(folder: Path, nights: int, seed: int = 1) -> int:
    """Write a run file for each run into a folder; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for run in make_nights(nights, seed):
        (folder / f"{run.id}.jsonl").write_text(encode_run(run))
        number += 1
    return number


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nights", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"wrote {write_nights(given.folder, given.nights, given.seed)} run files into {given.folder}")


if __name__ == "__main__":
    main()
