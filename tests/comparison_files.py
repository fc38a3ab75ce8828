"""Run files to compare: cases with trials that scatter as asked, failures, environments."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import environment_from

VARIANT = Variant(device="cpu", backend="inductor", mode="inference", dtype="float32", batch_size=8)


def case_of(name: str, probe: str = "performance", **axes: Any) -> Case:  # noqa: ANN401  (axes of any kind)
    return Case(name, probe, "smoke", Variant(**axes) if axes else VARIANT)


def times(
    level: float, trials: int = 5, *, seed: int = 1, spread: float = 0.005, samples: int = 8
) -> Measurement:
    """Latencies of some trials: each has a level of its own, around which its samples scatter."""
    chance = random.Random(seed)  # noqa: S311  (noise, not secrets)
    levels = [math.log(level) + chance.gauss(0, spread) for _ in range(trials)]
    values = tuple(math.exp(each + chance.gauss(0, 0.002)) for each in levels for _ in range(samples))
    return Measurement("abs_latency", values, MeasurementDetails(trials=(samples,) * trials))


def passed(name: str, *measurements: Measurement, case: Case | None = None) -> Outcome:
    return Outcome(case or case_of(name), "pass", measurements)


def failed(
    name: str, status: str = "timeout", message: str = "ended after 30 s", probe: str = "performance"
) -> Outcome:
    return Outcome(case_of(name, probe), status, failure=Failure(message=message))


def counts(metric: str, *values: int, **extra: Any) -> Measurement:  # noqa: ANN401  (what a file may say)
    """A count of each of some trials."""
    return Measurement(metric, values, MeasurementDetails(trials=(1,) * len(values), **extra))


def only_row(report: dict[str, Any]) -> dict[str, Any]:
    """The row of a JSON report that has no other."""
    (row,) = report["rows"]
    found: dict[str, Any] = row
    return found


def write_run(
    folder: Path,
    name: str,
    outcomes: Sequence[Outcome],
    *,
    environment: Mapping[str, Any] | None = None,
    further_plan: Sequence[Case] = (),
) -> str:
    """A run file in the folder that commands run in; its name."""
    plan = (*(outcome.case for outcome in outcomes), *further_plan)
    run = Run(name, plan, tuple(outcomes), environment=environment_from(dict(environment or {})))
    (folder / name).write_text(encode_run(run))
    return name
