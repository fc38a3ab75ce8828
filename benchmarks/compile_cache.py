"""What compile caches save on small models, whether warm is really warm, and how much of the time is the harness's own.

    python benchmarks/compile_cache.py             # six models, two repeats: about six minutes on two cores
    python benchmarks/compile_cache.py --repeat 5  # narrower intervals

Prints the table that docs/cache.md shows. The exit code says whether every graph of every model was a hit in the warm starts, none was in the cold ones,
and the harness took less than a tenth of the time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from run_suite import Silent, sources, verdict

from torchstone.core.records import Measurement, Outcome
from torchstone.measure.measuring import Settings
from torchstone.measure.plan import Axes, Selection, plan_cases
from torchstone.measure.session import Session
from torchstone.measure.supervisor import WorkerLimits
from torchstone.measure.targets import list_built_in

MODELS = (
    "AlbertForMaskedLM",
    "BertForMaskedLM",
    "DistilBertForMaskedLM",
    "DistillGPT2",
    "OPTForCausalLM",
    "T5Small",
)
MOST_OF_THE_TIME = 0.10


def measure(repeats: int, mode: str) -> tuple[list[Outcome], float]:
    """All models, one after the other; the seconds are those of everything, starting included."""
    listings = [each for each in list_built_in("huggingface") if each.name in MODELS]
    axes = Axes(("compile_cache",), ("cpu",), modes=(mode,), size="small")
    cases = plan_cases(listings, axes, Selection())
    settings = Settings(sources("huggingface"), threads=1, size="small", repeat=repeats)
    began = time.monotonic()
    with Session("auto", "cold", print) as session:
        session.start_workers(list(settings.sources.values()), ["cpu"])
        supervisor = session.supervisor(settings, WorkerLimits(600), Silent())
        outcomes = []
        for outcome in supervisor.execute(cases):
            print(f"  {outcome.case.benchmark}: {outcome.status}", file=sys.stderr)
            outcomes.append(outcome)
    return outcomes, time.monotonic() - began


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Seconds of each start, and what each saves of the cold one."""
    print("| model | cold | warm | saves | portable | saves | hits warm |")
    print("|---|---|---|---|---|---|---|")
    for outcome in outcomes:
        found = {each.metric: each for each in outcome.measurements}
        cells = [outcome.case.benchmark]
        for scenario in ("cold", "warm", "portable"):
            cells.append(f"{found[f'{scenario}_compile_seconds'].value:.2f} s")
            if scenario != "cold":
                cells.append(saving_text(found[f"{scenario}_saved"]))
        asked = sum(sum(found[f"warm_cache_{state}"].samples) for state in ("hit", "miss", "bypass"))
        cells.append(f"{sum(found['warm_cache_hit'].samples):.0f} of {asked:.0f}")
        print(f"| {' | '.join(cells)} |")


def saving_text(saving: Measurement) -> str:
    """A saving with its interval."""
    interval = saving.details.interval if saving.details else None
    return f"{saving.value:.0f} %" + (f" ({interval[0]:.0f} to {interval[1]:.0f})" if interval else "")


def is_really_warm(outcomes: Sequence[Outcome]) -> bool:
    """Whether every look-up of every warm start was a hit, and none of any cold start was."""
    samples = [(each.metric, value) for o in outcomes for each in o.measurements for value in each.samples]
    warm = [value for metric, value in samples if metric == "warm_hit_rate"]
    cold = [value for metric, value in samples if metric == "cold_hit_rate"]
    good = len(warm) == len(cold) > 0 and set(warm) == {100.0} and set(cold) == {0.0}
    print(
        f"\nhit rate of {len(warm)} warm starts: {min(warm):.0f} to {max(warm):.0f} %, of {len(cold)} cold ones: {min(cold):.0f} to {max(cold):.0f} %: {verdict(good)}"
    )
    return good


def is_lean(outcomes: Sequence[Outcome], seconds: float) -> bool:
    """Whether little of the time went into anything but compiling."""
    phases = [outcome.details.phases or {} for outcome in outcomes if outcome.details]
    compiling = sum(each["compile"] for each in phases)
    share = 1 - compiling / seconds
    print(
        f"{seconds:.0f} s in all, {compiling:.0f} s of them compiling: the rest is {100 * share:.1f} % (wanted: under 10 %): {verdict(share < MOST_OF_THE_TIME)}"
    )
    return share < MOST_OF_THE_TIME


def main() -> None:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=2, help="cold, warm and portable so many times (2)")
    parser.add_argument("--mode", default="inference", choices=("inference", "training"))
    asked = parser.parse_args()
    outcomes, seconds = measure(asked.repeat, asked.mode)
    if bad := [outcome for outcome in outcomes if outcome.status != "pass"]:
        sys.exit(f"{bad[0].case.id}: {bad[0].status}: {bad[0].failure}")
    print_outcomes(outcomes)
    held = [is_really_warm(outcomes), is_lean(outcomes, seconds)]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
