"""What is wanted on a GPU, and how it is judged from the steps of gpu_acceptance.py."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import Struct

SPEEDUP_MODELS = ("GPT2ForSequenceClassification", "BertForMaskedLM", "T5Small")
PROCESSES = 8  # half of them on a busy machine
SPREAD = 0.015  # of a model's device speedups, max / min - 1
INTERVALS_THAT_HOLD = 21 / 24
PRESET_LATENCIES = {"BertForMaskedLM": 6.4, "T5Small": 5.2}  # milliseconds, compiled, on an H200
LATENCY_DIFFERENCE = 0.08
COLD_MODELS = (
    "AlbertForMaskedLM",
    "BertForMaskedLM",
    "DistillGPT2",
    "GPT2ForSequenceClassification",
    "T5Small",
)
COLD_SECONDS = 85.0
PAIR_MODELS = ("BertForMaskedLM", "DistilBertForMaskedLM", "GPT2ForSequenceClassification", "T5Small")
PAIR_SECONDS = 60.0
CAUGHT = 0.9
EXPLAINED = ("run in float32", "attention is decomposed (math) under torch.compile")


class Step(Struct, frozen=True):
    """What one step measured: ``values`` and ``intervals`` by ``MODEL.METRIC``, model, or name; ``verdict`` of a comparison."""

    part: str
    name: str
    seconds: float
    values: dict[str, float] = {}
    intervals: dict[str, tuple[float, float]] = {}
    text: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class Judged:
    """A number beside what is wanted; ``holds`` is None if it is not known yet."""

    found: str
    wanted: str
    holds: bool | None

    def __str__(self) -> str:
        verdict = {True: "as wanted", False: "NOT AS WANTED", None: "not known yet"}[self.holds]
        return f"{self.found} (wanted: {self.wanted}): {verdict}"


def summarise(steps: Sequence[Step], slowed: int) -> Iterator[Judged]:
    """Yield all numbers that are wanted; ``slowed`` comparisons are to have more work on one side."""
    yield from _speedups([each for each in steps if each.part == "speedups" and each.name != "warm-up"])
    yield from _preset([each for each in steps if each.part == "preset"])
    yield from _cold([each for each in steps if each.part == "cold"])
    yield from _pairs([each for each in steps if each.part == "pairs"], slowed)
    yield _explained([each for each in steps if each.part == "explain"])


def _speedups(steps: Sequence[Step]) -> Iterator[Judged]:
    held = stated = 0
    for model in SPEEDUP_MODELS:
        name = f"{model}.device_speedup"
        values = [each.values[name] for each in steps if name in each.values]
        intervals = [each.intervals[name] for each in steps if name in each.intervals]
        wanted = f"spread at most {SPREAD:.1%} in {PROCESSES} processes"
        if not values:
            yield Judged(f"{model}: no device speedup", wanted, None)
            continue
        mean = math.exp(statistics.fmean(map(math.log, values)))
        held += sum(low <= mean <= high for low, high in intervals)
        stated += len(intervals)
        spread = max(values) / min(values) - 1
        found = f"{model}: device speedup {min(values):.3f} to {max(values):.3f}, spread {spread:.2%} in {len(values)} processes"
        yield Judged(found, wanted, _when(spread <= SPREAD, len(values) == PROCESSES))
    processes = PROCESSES * len(SPEEDUP_MODELS)
    least = math.ceil(INTERVALS_THAT_HOLD * processes)
    found = f"{held} of {stated} intervals hold the mean of their model"
    yield Judged(found, f"at least {least} of {processes}", _when(held >= least, stated == processes))


def _preset(steps: Sequence[Step]) -> Iterator[Judged]:
    for model, wanted in PRESET_LATENCIES.items():
        found = [each.values[model] for each in steps if model in each.values][-1:]
        text = f"{model} compiled with --preset dashboard: " + (
            f"{found[0]:.3g} ms" if found else "not measured"
        )
        low, high = wanted * (1 - LATENCY_DIFFERENCE), wanted * (1 + LATENCY_DIFFERENCE)
        yield Judged(
            text, f"{low:.2f} to {high:.2f} ms on an H200", low <= found[0] <= high if found else None
        )


def _cold(steps: Sequence[Step]) -> Iterator[Judged]:
    seconds = [each.seconds for each in steps][-1:]
    found = f"{len(COLD_MODELS)} models, cold, default options: " + (
        f"{seconds[0]:.0f} s" if seconds else "not measured"
    )
    yield Judged(
        found, f"at most {COLD_SECONDS:.0f} s on an H200", seconds[0] <= COLD_SECONDS if seconds else None
    )


def _pairs(steps: Sequence[Step], slowed: int) -> Iterator[Judged]:
    same = [each for each in steps if each.name == "same"]
    alarms = sum(each.verdict in {"regression", "improvement"} for each in same)
    enough = len({each.text for each in same}) == len(PAIR_MODELS)
    found = f"{alarms} false alarms in {len(same)} comparisons of a model with itself"
    yield Judged(found, f"none in {len(PAIR_MODELS)}", _when(not alarms, enough))
    decided = sum(each.verdict != "inconclusive" and each.seconds <= PAIR_SECONDS for each in same)
    longest = max((each.seconds for each in same), default=0.0)
    found = (
        f"{decided} of {len(same)} are decided within {PAIR_SECONDS:.0f} s, the longest took {longest:.0f} s"
    )
    yield Judged(found, "all", _when(decided == len(same), enough))
    slower = [each for each in steps if each.name == "slower"]
    caught = sum(each.verdict == "regression" for each in slower)
    found = f"5 % more work of the device is caught in {caught} of {len(slower)}"
    wanted = f"at least {math.ceil(CAUGHT * slowed)} of {slowed}"
    yield Judged(found, wanted, _when(caught >= CAUGHT * len(slower), len(slower) >= slowed))


def _explained(steps: Sequence[Step]) -> Judged:
    wanted = "it names the float32 attention of BertForMaskedLM"
    if not steps:
        return Judged("explain: not measured", wanted, None)
    text = steps[-1].text
    return Judged(f"explain: {text or 'no hint'}", wanted, all(part in text for part in EXPLAINED))


def _when(holds: bool, is_complete: bool) -> bool | None:
    """Return None as long as steps are missing, whose result might change the verdict."""
    return holds if is_complete else None
